//! Nine colours that colour-blind readers can distinguish, one per key, the same in every figure.
//!
//! The six chromatic colours of Okabe and Ito ("Color Universal Design", 2008; black is kept for the user's own data)
//! and three dark ones, wine and indigo from Paul Tol's muted scheme (SRON/EPS/TN/09-002, 2021) and a brown, chosen
//! because they do not lower the smallest distance between two colours, under normal vision and under the
//! simulations of protanopia, deuteranopia and tritanopia of Machado, Oliveira and Fernandes (2009). A test checks
//! this. Colour is never the only cue: every series is also named, at its end or in the legend.

use serde::{Deserialize, Serialize};

/// An sRGB colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8);

impl Colour {
    /// The colour of text and of the user's own data.
    pub const INK: Colour = Colour(0x1a, 0x1a, 0x1a);
    /// Secondary text: seven to one against white.
    pub const MUTED: Colour = Colour(0x59, 0x59, 0x59);
    /// Axis and reference lines.
    pub const GREY: Colour = Colour(0x8c, 0x8c, 0x8c);
    /// Grid lines.
    pub const FAINT: Colour = Colour(0xe7, 0xe7, 0xe7);
    /// The page.
    pub const WHITE: Colour = Colour(0xff, 0xff, 0xff);

    /// `#rrggbb`.
    pub fn hex(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }

    /// Mixes in white by the fraction `t`.
    pub fn lighter(self, t: f64) -> Colour {
        let mix = |c: u8| (f64::from(c) + (255.0 - f64::from(c)) * t).round() as u8;
        Colour(mix(self.0), mix(self.1), mix(self.2))
    }

    /// Darkened until text in it has a contrast of 4.5 to 1 against white (WCAG 2, level AA).
    pub fn for_text(self) -> Colour {
        let scale = |k: u32| {
            let dim = |c: u8| (u32::from(c) * k / 32) as u8;
            Colour(dim(self.0), dim(self.1), dim(self.2))
        };
        (0..=32).rev().map(scale).find(|c| c.contrast(Colour::WHITE) >= 4.5).unwrap_or(Colour::INK)
    }

    /// Mixes in another colour by the fraction `t`.
    pub(super) fn towards(self, other: Colour, t: f64) -> Colour {
        let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * t).round() as u8;
        Colour(mix(self.0, other.0), mix(self.1, other.1), mix(self.2, other.2))
    }

    /// Returns the contrast ratio of WCAG 2 with another colour.
    pub(super) fn contrast(self, other: Colour) -> f64 {
        let luminance = |c: Colour| {
            let [r, g, b] = c.linear();
            0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05
        };
        let (a, b) = (luminance(self), luminance(other));
        a.max(b) / a.min(b)
    }

    /// The linear light intensities.
    fn linear(self) -> [f64; 3] {
        [self.0, self.1, self.2].map(|c| {
            let c = f64::from(c) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        })
    }
}

/// The colours, in the order in which keys take them.
pub(super) const SLOTS: [Colour; 9] = [
    Colour(0x00, 0x72, 0xb2), // blue
    Colour(0xd5, 0x5e, 0x00), // vermilion
    Colour(0x00, 0x9e, 0x73), // green
    Colour(0xcc, 0x79, 0xa7), // pink
    Colour(0xe6, 0x9f, 0x00), // orange
    Colour(0x56, 0xb4, 0xe9), // sky
    Colour(0x88, 0x22, 0x55), // wine
    Colour(0x33, 0x22, 0x88), // indigo
    Colour(0x5d, 0x3a, 0x00), // brown
];

/// Keys whose colour never changes, from one figure, report or release to the next.
const HOUSE: [(&str, usize); 6] = [
    ("madden2024", 0),
    ("kajitsuka2024", 1),
    ("dana2024", 2),
    ("mahdavi2024", 3),
    ("kim2023", 4),
    ("sander2024", 6),
];

/// Assigns colours to keys.
///
/// The papers' keys have fixed colours; the colour of any other key follows from its letters, and moves to the next
/// free one only if another key of the same palette has it. Figures that share a palette show a key in the same colour.
/// With more than nine keys the colours repeat. Keys that stand out from all others, such as those of the user's own data,
/// are drawn in ink ([`Palette::in_ink`]).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Palette {
    keys: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ink: Vec<String>,
}

impl Palette {
    /// Creates a palette that gives these keys distinct colours, up to nine.
    pub fn for_keys<K: Into<String>>(keys: impl IntoIterator<Item = K>) -> Self {
        let mut palette = Palette::default();
        for key in keys {
            palette.add(key);
        }
        palette
    }

    /// Adds a key after the others; a key that is already there keeps its position.
    pub fn add(&mut self, key: impl Into<String>) {
        let key = key.into();
        if !self.keys.contains(&key) {
            self.keys.push(key);
        }
    }

    /// Draws these keys in ink.
    #[must_use]
    pub fn in_ink<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        for key in keys.into_iter().map(Into::into) {
            if !self.ink.contains(&key) {
                self.ink.push(key);
            }
        }
        self
    }

    /// Whether the colour of a key is the same in every palette.
    pub(super) fn is_fixed(key: &str) -> bool {
        house(key).is_some()
    }

    /// Returns the position of a key among those given.
    pub(super) fn position(&self, key: &str) -> Option<usize> {
        self.keys.iter().position(|k| k == key)
    }

    /// Returns this palette's keys followed by those of another.
    pub(super) fn followed_by(&self, other: &Palette) -> Palette {
        let keys = Palette::for_keys(self.keys.iter().chain(&other.keys).cloned());
        keys.in_ink(self.ink.iter().chain(&other.ink).cloned())
    }

    /// Whether no key was given.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ink.is_empty()
    }

    /// Returns the colour of a key.
    pub fn colour(&self, key: &str) -> Colour {
        let is_ink = |key: &str| self.ink.iter().any(|k| k == key);
        if is_ink(key) {
            return Colour::INK;
        }
        if let Some(slot) = house(key) {
            return SLOTS[slot];
        }
        let mut taken = [false; SLOTS.len()];
        for slot in self.keys.iter().filter_map(|k| house(k)) {
            taken[slot] = true;
        }
        for other in self.keys.iter().filter(|k| house(k).is_none() && !is_ink(k)) {
            let slot = first_free(other, &taken);
            if other == key {
                return SLOTS[slot];
            }
            taken[slot] = true;
        }
        SLOTS[first_free(key, &taken)]
    }
}

fn house(key: &str) -> Option<usize> {
    HOUSE.iter().find(|(k, _)| *k == key).map(|(_, slot)| *slot)
}

/// The slot of the key's hash (FNV-1a), or the next free one; its own if all are taken.
fn first_free(key: &str, taken: &[bool; SLOTS.len()]) -> usize {
    let hash =
        key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let own = (hash % SLOTS.len() as u64) as usize;
    (0..SLOTS.len()).map(|i| (own + i) % SLOTS.len()).find(|slot| !taken[*slot]).unwrap_or(own)
}

#[cfg(test)]
pub(super) mod vision {
    //! How colours look to colour-blind readers.

    use super::Colour;

    pub type Matrix = [[f64; 3]; 3];
    /// Machado et al. 2009, severity 1, on linear light: normal, protanopia, deuteranopia, tritanopia.
    pub const VISION: [Matrix; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ];

    /// CIE L*a*b* of a colour as seen through a matrix.
    fn lab(colour: Colour, vision: &Matrix) -> [f64; 3] {
        let v = colour.linear();
        let [r, g, b] = vision.map(|row| row.iter().zip(v).map(|(m, c)| m * c).sum::<f64>().clamp(0.0, 1.0));
        let f = |t: f64| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047);
        let y = f(0.2126 * r + 0.7152 * g + 0.0722 * b);
        let z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// The distance of two colours (CIE 1976) as seen through a matrix.
    pub fn distance(a: Colour, b: Colour, vision: &Matrix) -> f64 {
        let (p, q) = (lab(a, vision), lab(b, vision));
        p.iter().zip(q).map(|(p, q)| (p - q).powi(2)).sum::<f64>().sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::vision::{VISION, distance};
    use super::*;

    #[test]
    fn colours_stay_apart_for_colour_blind_readers() {
        for vision in &VISION {
            for (i, a) in SLOTS.iter().enumerate() {
                for b in SLOTS[i + 1..].iter().chain([&Colour::WHITE]) {
                    let distance = distance(*a, *b, vision);
                    assert!(distance > 15.0, "{} and {}: {distance}", a.hex(), b.hex());
                }
            }
        }
    }

    #[test]
    fn text_in_any_colour_can_be_read() {
        for colour in SLOTS {
            assert!(colour.for_text().contrast(Colour::WHITE) >= 4.5);
        }
        assert_eq!(Colour(0, 0x72, 0xb2).for_text(), Colour(0, 0x72, 0xb2));
    }

    #[test]
    fn a_key_keeps_its_colour_from_figure_to_figure() {
        let one = Palette::for_keys(["a", "madden2024"]);
        let two = Palette::for_keys(["kim2023", "a", "mine"]).in_ink(["mine"]);
        assert_eq!(one.colour("a"), two.colour("a"));
        assert_eq!(one.colour("madden2024"), Colour(0x00, 0x72, 0xb2));
        assert_eq!(two.colour("mine"), Colour::INK);
        assert_ne!(one.colour("mine"), Colour::INK);
        assert_eq!(one.followed_by(&two).colour("mine"), Colour::INK);
    }

    #[test]
    fn up_to_nine_keys_get_nine_colours() {
        let keys = ["madden2024", "kim2023", "p", "q", "r", "s", "t", "u", "v"];
        let palette = Palette::for_keys(keys);
        let mut colours = keys.map(|k| palette.colour(k).hex());
        colours.sort();
        assert!(colours.windows(2).all(|w| w[0] != w[1]), "{colours:?}");
    }
}
