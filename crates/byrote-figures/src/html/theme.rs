//! The colours of drawings in dark mode.
//!
//! A drawing in the page has the same colours as its file, written as attributes, which any rule of a style sheet
//! overrides. In dark mode every colour of the palette is replaced by one of the same hue that contrasts with the dark
//! page: lines by 3 to 1, text by 4.5 to 1 (WCAG 2). The cells of a heat map keep theirs.

use std::fmt::Write;

use crate::palette::{Colour, SLOTS};

/// The dark page; the style sheet has the same colour.
const NIGHT: Colour = Colour(0x16, 0x18, 0x1c);
/// Ink, secondary text, axes, grid and page in dark mode.
const NEUTRAL: [(Colour, Colour); 5] = [
    (Colour::INK, Colour(0xec, 0xec, 0xea)),
    (Colour::MUTED, Colour(0xb4, 0xb6, 0xb9)),
    (Colour::GREY, Colour(0x80, 0x84, 0x8a)),
    (Colour::FAINT, Colour(0x2e, 0x31, 0x37)),
    (Colour::WHITE, NIGHT),
];

/// The colours of the palette in dark mode, in its order: close to the light hues, moved until no two come closer than 24 in
/// CIE 1976 for any reader.
const LIT: [Colour; 9] = [
    Colour(0x54, 0x92, 0xdc), // blue
    Colour(0xe5, 0x69, 0x1c), // vermilion
    Colour(0x1e, 0xd2, 0x75), // green
    Colour(0xdb, 0x88, 0xab), // pink
    Colour(0xf9, 0xd1, 0x2a), // orange
    Colour(0xa9, 0xd4, 0xff), // sky
    Colour(0xb2, 0x3a, 0x8d), // wine
    Colour(0x89, 0x65, 0xfd), // indigo
    Colour(0x8f, 0x65, 0x38), // brown
];

/// The rules that follow the style sheet.
pub(super) fn rules() -> String {
    let mut out = String::from("@media screen and (prefers-color-scheme: dark) {\n");
    for (day, night) in NEUTRAL {
        rule(&mut out, "", day, night);
    }
    for (day, night) in SLOTS.into_iter().zip(LIT) {
        rule(&mut out, "", day, night);
        rule(&mut out, "", day.lighter(0.35), night.towards(NIGHT, 0.35));
        rule(&mut out, "text", day.for_text(), for_text(night));
    }
    out.push_str("}\n");
    out
}

fn rule(out: &mut String, element: &str, day: Colour, night: Colour) {
    let (day, night) = (day.hex(), night.hex());
    let _ = writeln!(out, ".plot {element}[fill=\"{day}\"]{{fill:{night}}}");
    if element.is_empty() {
        let _ = writeln!(out, ".plot [stroke=\"{day}\"]{{stroke:{night}}}");
    }
}

/// Lightens a colour until text in it is readable in dark mode.
fn for_text(colour: Colour) -> Colour {
    let lit = |k: u32| colour.lighter(f64::from(k) / 32.0);
    (0..=32).map(lit).find(|c| c.contrast(NIGHT) >= 4.5).unwrap_or(Colour::WHITE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::palette::vision::{VISION, distance};

    #[test]
    fn by_night_lines_stand_out_and_text_can_be_read() {
        for colour in LIT {
            assert!(colour.contrast(NIGHT) >= 3.0, "{}", colour.hex());
            assert!(for_text(colour).contrast(NIGHT) >= 4.5);
        }
        for (_, night) in &NEUTRAL[..2] {
            assert!(night.contrast(NIGHT) >= 7.0);
        }
    }

    #[test]
    fn by_night_colours_stay_apart_for_colour_blind_readers() {
        for vision in &VISION {
            for (i, a) in LIT.iter().enumerate() {
                for b in LIT[i + 1..].iter().chain([&NEUTRAL[0].1, &NIGHT]) {
                    let distance = distance(*a, *b, vision);
                    assert!(distance > 20.0, "{} and {}: {distance}", a.hex(), b.hex());
                }
            }
        }
    }

    #[test]
    fn the_style_sheet_has_the_same_night() {
        assert!(include_str!("style.css").contains(&NIGHT.hex()));
    }
}
