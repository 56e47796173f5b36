//! The text of a figure: notes on what could not be drawn, and a description for readers who cannot see it.

use super::clip::{clip_path, clip_polygon};
use super::figure::{Direction, Figure, Points};
use super::scale::{Scale, ScaleKind, number};
use super::scene::{Area, Point};

/// The plot in units of its axes.
const UNIT: Area = Area { left: 0.0, top: 0.0, right: 1.0, bottom: 1.0 };
/// The maximum number of names in one note; the rest are counted.
const MOST_NAMES: usize = 6;
/// The maximum number of characters of a name.
const LONGEST_NAME: usize = 48;

/// One sentence for every reason why some given data is not visible.
pub(super) fn notes(figure: &Figure, x: &Scale, y: &Scale) -> Vec<String> {
    let (mut refused, mut outside, mut empty) = (Vec::new(), Vec::new(), Vec::new());
    let mut survey = |label: &str, points: &[(f64, f64)], is_line: bool| {
        let label = &short(label);
        let seen: Vec<Point> = points
            .iter()
            .filter(|p| x.accepts(p.0) && y.accepts(p.1))
            .map(|p| [x.position(p.0), y.position(p.1)])
            .collect();
        let inside = points.iter().filter(|p| x.contains(p.0) && y.contains(p.1)).count();
        if points.is_empty() {
            empty.push(label.to_string());
        }
        if seen.len() < points.len() {
            refused.push(share(label, points.len() - seen.len(), points.len()));
        }
        if is_line && !seen.is_empty() && inside == 0 && clip_path(&seen, &UNIT).is_empty() {
            outside.push(label.to_string());
        }
        if !is_line && inside < seen.len() {
            outside.push(share(label, seen.len() - inside, points.len()));
        }
    };
    for line in &figure.lines {
        survey(&line.label, &line.points, true);
    }
    for points in &figure.points {
        survey(&points.label, &points.points, false);
    }
    for band in &figure.bands {
        let name = short(if band.label.is_empty() { &band.key } else { &band.label });
        let stands = |p: &&(f64, f64, f64)| x.accepts(p.0) && y.accepts(p.1);
        let seen: Vec<_> = band.points.iter().filter(stands).collect();
        let low = seen.iter().map(|p| [x.position(p.0), y.position(p.1)]);
        let high = seen.iter().rev().map(|p| [x.position(p.0), y.position(p.2)]);
        if band.points.is_empty() {
            empty.push(name);
        } else if seen.len() < band.points.len() {
            refused.push(share(&name, band.points.len() - seen.len(), band.points.len()));
        } else if clip_polygon(&low.chain(high).collect::<Vec<Point>>(), &UNIT).is_empty() {
            outside.push(name);
        }
    }
    for rule in &figure.rules {
        let scale = if rule.direction == Direction::Horizontal { y } else { x };
        if !scale.accepts(rule.value) {
            refused.push(short(&rule.label));
        } else if !scale.contains(rule.value) {
            outside.push(short(&rule.label));
        }
    }
    let mut out = Vec::new();
    let cut: Vec<String> = figure.points.iter().filter_map(|p| cut(p, y)).collect();
    let mut note = |reason: &str, names: Vec<String>| {
        if !names.is_empty() {
            out.push(format!("{reason}: {}.", list(&names)));
        }
    };
    note("Left out, zero or negative on a logarithmic axis", refused);
    note("Outside the drawn range", outside);
    note("Without values", empty);
    note("Error bars that reach zero or below, cut by the logarithmic axis", cut);
    if let Some(heat) = &figure.heat {
        let cells = |n: usize| if n == 1 { "1 cell".to_string() } else { format!("{n} cells") };
        match heat.refused() {
            0 => {}
            n => out.push(format!(
                "Zero or negative, in the colour of the lowest end of the logarithmic scale: {}.",
                cells(n)
            )),
        }
        match heat.missing() {
            0 => {}
            n => out.push(format!("Struck through, not measured: {}.", cells(n))),
        }
    }
    out
}

/// A series with error bars that the axis cannot show.
fn cut(points: &Points, y: &Scale) -> Option<String> {
    let bars = points.errors.iter().zip(&points.points);
    let cut = bars.filter(|(ends, p)| y.accepts(p.1) && !y.accepts(ends.0)).count();
    (cut > 0).then(|| share(&short(&points.label), cut, points.points.len()))
}

/// Describes the figure, for `<desc>`.
pub(super) fn describe(figure: &Figure, x: &Scale, y: &Scale, notes: &[String]) -> String {
    let axis = |label: &str, letter: &str, kind: ScaleKind, scale: &Scale| {
        let (lo, hi) = scale.ends();
        if letter == "x" && !figure.x.names.is_empty() {
            return format!("{} ({} names)", figure.x.label, figure.x.names.len());
        }
        let label = if label.is_empty() { letter } else { label };
        let kind = if kind == ScaleKind::Log10 { "logarithmic" } else { "linear" };
        format!("{label} ({kind}, {} to {})", number(lo), number(hi))
    };
    let mut out = String::new();
    if !figure.subtitle.is_empty() {
        out.push_str(&format!("{} ", figure.subtitle));
    }
    if figure.axes.are_labelled() {
        out.push_str(&format!(
            "{} against {}.",
            axis(&figure.y.label, "y", figure.y.kind, y),
            axis(&figure.x.label, "x", figure.x.kind, x)
        ));
    } else {
        out.push_str("A picture without axes.");
    }
    for words in figure.guides.iter().map(|g| g.words.trim()).filter(|words| !words.is_empty()) {
        out.push_str(&format!(" \"{words}\"."));
    }
    if let Some(heat) = &figure.heat {
        out.push_str(&heat.describe());
    }
    for bars in &figure.bars {
        let named = figure.x.names.iter().zip(&bars.heights);
        let all: Vec<String> = named.map(|(name, height)| format!("{name}: {}", number(*height))).collect();
        out.push_str(&format!(" Bars \"{}\": {}.", bars.label, all.join("; ")));
    }
    for line in &figure.lines {
        if let (Some(first), Some(last)) = (line.points.first(), line.points.last()) {
            let dashed =
                if line.dashed { format!(" (dashed: {})", figure.dash_key.1) } else { String::new() };
            let (from, to) = (pair(*first), pair(*last));
            out.push_str(&format!(" Line \"{}\"{dashed}: from {from} to {to}.", line.label));
        }
    }
    for points in &figure.points {
        match points.points[..] {
            [] => {}
            [one] => out.push_str(&format!(" Point \"{}\": {}.", points.label, pair(one))),
            _ => out.push_str(&format!(" Points \"{}\": {} of them.", points.label, points.points.len())),
        }
    }
    for rule in &figure.rules {
        out.push_str(&format!(" Reference line \"{}\" at {}.", rule.label, number(rule.value)));
    }
    for band in figure.bands.iter().filter(|b| !b.label.is_empty()) {
        out.push_str(&format!(" Band \"{}\".", band.label));
    }
    for sentence in [&figure.caption].into_iter().chain(notes).filter(|s| !s.is_empty()) {
        out.push_str(&format!(" {sentence}"));
    }
    out
}

fn pair((x, y): (f64, f64)) -> String {
    format!("({}; {})", number(x), number(y))
}

fn share(label: &str, some: usize, all: usize) -> String {
    if all == 1 { label.to_string() } else { format!("{label} ({some} of {all} points)") }
}

/// A name of limited length.
fn short(label: &str) -> String {
    let end = label.char_indices().nth(LONGEST_NAME).map(|(i, _)| i);
    end.map_or_else(|| label.to_string(), |end| format!("{}…", label[..end].trim_end()))
}

fn list(names: &[String]) -> String {
    let shown = names.iter().take(MOST_NAMES).cloned().collect::<Vec<_>>().join("; ");
    match names.len().saturating_sub(MOST_NAMES) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Band, Line};
    use super::*;

    fn notes_of(figure: &Figure) -> Vec<String> {
        let cover = |axis: &Axis| Scale::cover(axis, &[1.0, 100.0], &[]).unwrap();
        notes(figure, &cover(&figure.x), &cover(&figure.y))
    }

    #[test]
    fn values_a_log_axis_cannot_show_are_counted_by_series() {
        let figure = Figure::new("", Axis::log("x"), Axis::log("y"))
            .line(Line::new("k", "gap", [(1.0, 1.0), (2.0, 0.0), (3.0, -1.0), (4.0, 9.0)]))
            .points(Points::one("p", "origin", 0.0, 1.0))
            .band(Band::new("b", "seeds", [(1.0, 0.0, 2.0), (2.0, 1.0, 2.0)]))
            .horizontal(-1.0, "limit");
        assert_eq!(
            notes_of(&figure),
            [
                "Left out, zero or negative on a logarithmic axis: gap (2 of 4 points); origin; seeds (1 of 2 points); limit."
            ]
        );
    }

    #[test]
    fn what_lies_outside_the_range_and_what_is_empty_is_named() {
        let figure = Figure::new("", Axis::log("x").range(1.0, 10.0), Axis::log("y").range(1.0, 10.0))
            .line(Line::new("k", "far", [(20.0, 20.0), (30.0, 30.0)]))
            .line(Line::new("k", "through", [(0.1, 5.0), (30.0, 5.0)]))
            .line(Line::new("k", "nothing", []))
            .points(Points::new("p", "some", [(2.0, 2.0), (20.0, 2.0)]))
            .band(Band::new("b", "all around", [(0.1, 0.1, 99.0), (99.0, 0.1, 99.0)]))
            .band(Band::new("b", "above", [(0.1, 20.0, 99.0), (99.0, 20.0, 99.0)]))
            .vertical(50.0, "right");
        assert_eq!(
            notes_of(&figure),
            ["Outside the drawn range: far; some (1 of 2 points); above; right.", "Without values: nothing."]
        );
    }

    #[test]
    fn a_faultless_figure_has_no_notes_and_a_description() {
        let figure = Figure::new("", Axis::log("parameters"), Axis::log("contexts"))
            .line(Line::new("k", "bound", [(1.0, 1.0), (100.0, 100.0)]).dashed());
        assert!(notes_of(&figure).is_empty());
        let scale = Scale::cover(&figure.x, &[1.0, 100.0], &[]).unwrap();
        assert_eq!(
            describe(&figure, &scale, &scale, &[]),
            "contexts (logarithmic, 1 to 100) against parameters (logarithmic, 1 to 100). \
             Line \"bound\" (dashed: known only up to a constant): from (1; 1) to (100; 100)."
        );
    }
}
