//! The rows below the plot: samples of lines with their names or meanings, and the small print.

use super::palette::Colour;
use super::plot::{BAND_OPACITY, LABEL, letter, line_stroke};
use super::scene::{Anchor, Area, Group, MarkerForm, Shape, Text, Weight, rounded};
use super::text;

/// The width of a sample, and its distance from the text.
pub(super) const SAMPLE: f64 = 26.0; // three dashes
pub(super) const GAP: f64 = 6.0;
/// The font size and line height of the small print.
pub(super) const CAPTION: (f64, f64) = (11.5, 16.0);
/// The height of a row of samples.
pub(super) const ROW: f64 = 20.0;
/// Readers' fonts differ in width from the measured one by up to about this much.
pub(super) const SLACK: f64 = 1.06;
const BETWEEN: f64 = 22.0;
/// The width of a letter before a sample.
const TAG: f64 = 16.0;

/// A small sample of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Sample {
    Line { dashed: bool, markers: bool },
    Points(MarkerForm),
    Band,
    Bar,
}

impl Sample {
    /// Draws it starting at `left`, at the height `middle`.
    pub fn draw(self, colour: Colour, left: f64, middle: f64) -> Vec<Shape> {
        let centre = [left + SAMPLE / 2.0, middle];
        match self {
            Sample::Line { dashed, markers } => {
                let ends = [[left, middle], [left + SAMPLE, middle]];
                let mut shapes = vec![Shape::polyline(ends, line_stroke(colour, dashed))];
                if markers {
                    shapes.push(Shape::marker(centre, 3.2, MarkerForm::Circle, colour));
                }
                shapes
            }
            Sample::Points(form) => vec![Shape::marker(centre, 4.0, form, colour)],
            Sample::Band | Sample::Bar => {
                let area = Area { left, right: left + SAMPLE, top: middle - 5.0, bottom: middle + 5.0 };
                let opacity = if self == Sample::Bar { 1.0 } else { BAND_OPACITY };
                vec![Shape::rectangle(area, colour, opacity)]
            }
        }
    }
}

/// A sample with its text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Item {
    pub key: Option<String>,
    /// The letter at the end of its line.
    pub tag: Option<char>,
    pub sample: Sample,
    pub colour: Colour,
    pub words: String,
}

/// A row below the plot.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Row {
    /// Samples, each with its left edge.
    Items(Vec<(f64, Item)>),
    /// Small print.
    Print(String),
    /// Shapes drawn from the height 0 on, and their total height.
    Ready(Group, f64),
    /// Empty space.
    Space(f64),
}

impl Row {
    pub fn height(&self) -> f64 {
        match self {
            Row::Items(_) => ROW,
            Row::Print(_) => CAPTION.1,
            Row::Space(height) | Row::Ready(_, height) => *height,
        }
    }
}

/// Arranges items in as many columns as the widest allows.
pub(super) fn columns(items: Vec<Item>, left: f64, room: f64) -> Vec<Row> {
    let lead = if items.iter().any(|item| item.tag.is_some()) { TAG } else { 0.0 };
    let most = (room - lead - SAMPLE - GAP) / SLACK;
    let shortened = |mut item: Item| {
        item.words = text::wrap(&item.words, LABEL, Weight::Regular, most, 1).concat();
        item
    };
    let items: Vec<Item> = items.into_iter().map(shortened).collect();
    let widest =
        items.iter().map(|item| text::width(&item.words, LABEL, Weight::Regular)).fold(0.0, f64::max);
    let step = lead + SAMPLE + GAP + SLACK * widest + BETWEEN;
    let across = (((room + BETWEEN) / step).floor() as usize).max(1);
    let row = |row: &[Item]| {
        Row::Items(
            row.iter().enumerate().map(|(i, item)| (left + lead + i as f64 * step, item.clone())).collect(),
        )
    };
    items.chunks(across).map(row).collect()
}

/// Draws rows from `top` downwards.
pub(super) fn draw(rows: Vec<Row>, left: f64, mut top: f64) -> Vec<Group> {
    let mut groups = Vec::new();
    for row in rows {
        let height = row.height();
        let middle = top + height / 2.0;
        match row {
            Row::Items(items) => {
                for (left, item) in items {
                    let mut shapes = item.sample.draw(item.colour, left, middle);
                    shapes.extend(
                        item.tag.map(|tag| letter(tag, [left - TAG / 2.0, middle], item.colour.for_text())),
                    );
                    let at = [left + SAMPLE + GAP, middle + 0.36 * LABEL];
                    shapes.push(words(at, Anchor::Start, LABEL, item.colour.for_text(), &item.words));
                    groups.push(Group::new("legend", item.key, shapes));
                }
            }
            Row::Print(content) => {
                let at = [left, middle + 0.36 * CAPTION.0];
                let shapes = vec![words(at, Anchor::Start, CAPTION.0, Colour::MUTED, &content)];
                groups.push(Group::new("caption", None, shapes));
            }
            Row::Ready(mut group, _) => {
                group.shift([0.0, top]);
                groups.push(group);
            }
            Row::Space(_) => {}
        }
        top += height;
    }
    groups
}

/// A line of regular text without a rim.
pub(super) fn words(at: [f64; 2], anchor: Anchor, size: f64, colour: Colour, content: &str) -> Shape {
    let (at, weight, content) = (rounded(at), Weight::Regular, content.to_string());
    Shape::Text(Text { at, anchor, size, weight, colour, halo: false, content })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(words: &str) -> Item {
        let sample = Sample::Line { dashed: false, markers: false };
        Item { key: None, tag: None, sample, colour: Colour::INK, words: words.into() }
    }

    #[test]
    fn items_stand_in_columns_that_keep_to_the_room() {
        let rows = columns(["one", "two", "three", "four", "five", "six"].map(item).into(), 10.0, 160.0);
        assert_eq!(rows.len(), 3);
        let mut names = Vec::new();
        for row in rows {
            let Row::Items(items) = row else { panic!("items only") };
            let mut end = f64::NEG_INFINITY;
            for (left, item) in items {
                assert!(left > end);
                end = left + SAMPLE + GAP + text::width(&item.words, LABEL, Weight::Regular);
                assert!(end <= 170.0);
                names.push(item.words);
            }
        }
        assert_eq!(names, ["one", "two", "three", "four", "five", "six"]);
    }

    #[test]
    fn a_name_wider_than_the_sheet_is_shortened() {
        let rows = columns(vec![item(&"very long ".repeat(40))], 0.0, 200.0);
        let [Row::Items(items)] = &rows[..] else { panic!("one row") };
        assert!(items[0].1.words.ends_with('…'));
    }
}
