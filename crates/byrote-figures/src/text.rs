//! Text: its width, its line breaks, and the outlines of its letters.
//!
//! Both writers use one typeface: Noto Sans, regular and bold, whose bytes are in the crate `notosans`. It has Latin,
//! Greek, Cyrillic and the common mathematical symbols. The PNG writer fills its outlines; the SVG writer names the
//! typeface first and leaves the letters to the reader's own fonts, which are similar enough in width (the layout keeps
//! a margin). A character that the typeface lacks counts as one em wide and is drawn as an empty box in the PNG.
//! Letters are set one after the other: no kerning, no ligatures, no right-to-left scripts.

use std::sync::LazyLock;

use ttf_parser::{Face, GlyphId, OutlineBuilder};

use super::scene::Weight;

static REGULAR: LazyLock<Face<'static>> = LazyLock::new(|| parse(notosans::REGULAR_TTF));
static BOLD: LazyLock<Face<'static>> = LazyLock::new(|| parse(notosans::BOLD_TTF));

fn parse(bytes: &'static [u8]) -> Face<'static> {
    Face::parse(bytes, 0).expect("the typeface inside the crate `notosans` is a TrueType font")
}

fn face(weight: Weight) -> &'static Face<'static> {
    match weight {
        Weight::Regular => &REGULAR,
        Weight::Bold => &BOLD,
    }
}

/// The glyph of a character and its advance in em.
fn glyph(face: &Face<'_>, c: char) -> (GlyphId, f64) {
    match face.glyph_index(c) {
        Some(id) => (id, f64::from(face.glyph_hor_advance(id).unwrap_or(0)) / f64::from(face.units_per_em())),
        None => (GlyphId(0), 1.0),
    }
}

/// The width of a text in pixels.
pub(super) fn width(text: &str, size: f64, weight: Weight) -> f64 {
    let face = face(weight);
    text.chars().map(|c| glyph(face, c).1).sum::<f64>() * size
}

/// The outlines of a text that begins at the origin, in pixels with y downwards.
pub(super) fn outline(text: &str, size: f64, weight: Weight, pen: &mut dyn OutlineBuilder) {
    let face = face(weight);
    let scale = size / f64::from(face.units_per_em());
    let mut x = 0.0;
    for c in text.chars() {
        let (id, advance) = glyph(face, c);
        face.outline_glyph(id, &mut Placed { pen, x: x as f32, scale: scale as f32 });
        x += advance * size;
    }
}

/// Moves and flips one glyph on its way to the pen.
struct Placed<'a> {
    pen: &'a mut dyn OutlineBuilder,
    x: f32,
    scale: f32,
}

impl Placed<'_> {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, -y * self.scale)
    }
}

impl OutlineBuilder for Placed<'_> {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.pen.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.pen.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.pen.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.pen.curve_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.pen.close();
    }
}

/// Breaks a text into at most `most` lines no wider than `room`, at spaces if possible. Text that does not fit ends in
/// an ellipsis. An empty text has no lines.
pub(super) fn wrap(text: &str, size: f64, weight: Weight, room: f64, most: usize) -> Vec<String> {
    let fits = |line: &str| width(line, size, weight) <= room;
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let mut words = text.split_whitespace().flat_map(|word| pieces(word, size, weight, room)).peekable();
    while let Some((word, joined)) = words.next() {
        let longer =
            if line.is_empty() || joined { format!("{line}{word}") } else { format!("{line} {word}") };
        if line.is_empty() || fits(&longer) {
            line = longer;
        } else if lines.len() + 1 < most {
            lines.push(std::mem::replace(&mut line, word));
        } else {
            line = ellipsis(&longer, size, weight, room);
            words.by_ref().for_each(drop);
        }
    }
    if !line.is_empty() && most > 0 {
        lines.push(line);
    }
    lines
}

/// A word, split if it is wider than a line; every piece tells whether it continues the one before.
fn pieces(word: &str, size: f64, weight: Weight, room: f64) -> Vec<(String, bool)> {
    let face = face(weight);
    let (mut out, mut piece, mut used) = (Vec::new(), String::new(), 0.0);
    for c in word.chars() {
        let advance = glyph(face, c).1 * size;
        if used + advance > room && !piece.is_empty() {
            out.push((std::mem::take(&mut piece), !out.is_empty()));
            used = 0.0;
        }
        piece.push(c);
        used += advance;
    }
    if !piece.is_empty() {
        let joined = !out.is_empty();
        out.push((piece, joined));
    }
    out
}

/// The longest beginning that fits with "…" after it.
fn ellipsis(text: &str, size: f64, weight: Weight, room: f64) -> String {
    let face = face(weight);
    let mut used = glyph(face, '…').1 * size;
    let mut end = 0;
    for (i, c) in text.char_indices() {
        used += glyph(face, c).1 * size;
        if used > room {
            break;
        }
        end = i + c.len_utf8();
    }
    format!("{}…", text[..end].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    const R: Weight = Weight::Regular;

    #[test]
    fn widths_add_up_and_follow_the_typeface() {
        // Noto Sans: a digit is 1171 of 2048 units wide.
        assert!((width("1234", 2048.0, R) - 4.0 * 1171.0).abs() < 1e-6);
        assert_eq!(width("", 12.0, R), 0.0);
        assert!(width("bold", 12.0, Weight::Bold) > width("bold", 12.0, R));
        assert_eq!(width("語", 12.0, R), 12.0);
    }

    #[test]
    fn the_signs_of_the_field_are_in_the_typeface() {
        for weight in [R, Weight::Bold] {
            for c in "αβεψωΘΩ≤≥≈×·−√∞²…éłЖ".chars() {
                assert!(face(weight).glyph_index(c).is_some(), "{c}");
            }
        }
    }

    #[test]
    fn lines_break_at_spaces_and_keep_to_the_room() {
        let text = "every published capacity bound in one table, with its hypotheses checked";
        let lines = wrap(text, 12.0, R, 150.0, 9);
        assert!(lines.len() > 2 && lines.iter().all(|l| width(l, 12.0, R) <= 150.0));
        assert_eq!(lines.join(" "), text);
        assert!(wrap("  \n ", 12.0, R, 100.0, 3).is_empty());
    }

    #[test]
    fn what_does_not_fit_ends_in_an_ellipsis() {
        let lines = wrap("one two three four five six seven eight", 12.0, R, 60.0, 2);
        assert_eq!(lines.len(), 2);
        assert!(lines[1].ends_with('…') && width(&lines[1], 12.0, R) <= 60.0, "{lines:?}");
    }

    #[test]
    fn a_word_wider_than_the_line_is_cut() {
        let word = "x".repeat(500);
        let lines = wrap(&word, 12.0, R, 100.0, 3);
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|l| width(l, 12.0, R) <= 100.0));
        assert_eq!(wrap(&word, 12.0, R, 100.0, 999).concat(), word);
    }
}
