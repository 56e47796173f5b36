//! Bars: one height per name of the x axis, side by side if there are several series.
//!
//! A bar begins at zero, so that its length can be compared with others: the y axis is linear and begins there as well. If all
//! of them fit, the heights are written above the bars. A height of zero has no bar and no number.

use serde::{Deserialize, Serialize};

use super::figure::{Figure, LARGEST};
use super::legend::SLACK;
use super::plot::{LABEL, Plot};
use super::scale::{ScaleKind, brief, number};
use super::scene::{Anchor, Area, Group, Shape, Text, Weight, rounded};
use super::text;
use crate::{Error, Result};

/// One height per name of the x axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bars {
    /// The key that determines the colour.
    pub key: String,
    /// The name in the figure.
    pub label: String,
    /// The heights, in the order of the names.
    pub heights: Vec<f64>,
}

/// The share of the distance between two names that bars take.
const FILL: f64 = 0.82;
/// The distance of a number from its bar.
const ABOVE: f64 = 4.0;

impl Bars {
    /// Bars of one series.
    pub fn new(
        key: impl Into<String>,
        label: impl Into<String>,
        heights: impl IntoIterator<Item = f64>,
    ) -> Self {
        Bars { key: key.into(), label: label.into(), heights: heights.into_iter().collect() }
    }

    /// The points at the ends of the bars, as positions on the axes.
    pub(super) fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.heights.iter().enumerate().map(|(i, height)| (i as f64, *height))
    }
}

/// Refuses bars that cannot be drawn honestly.
pub(super) fn check(figure: &Figure) -> Result<()> {
    for bars in &figure.bars {
        let wrong = |why: String| Err(Error::figure(format!("bars \"{}\": {why}", bars.label)));
        let (heights, names) = (bars.heights.len(), figure.x.names.len());
        if heights != names {
            return wrong(format!("{heights} heights for {names} names of the x axis"));
        }
        if figure.y.kind != ScaleKind::Linear {
            return wrong("lengths can be compared on a linear axis only".into());
        }
        if let Some(height) = bars.heights.iter().find(|h| !(0.0..=LARGEST).contains(*h)) {
            return wrong(format!("{height} cannot be drawn; give a height from 0 to 1e300"));
        }
    }
    Ok(())
}

/// Draws all bars, with their heights above them if all of these fit. Also returns the areas of the numbers.
pub(super) fn draw(plot: &Plot<'_>) -> (Vec<Group>, Vec<Area>) {
    let figure = plot.figure;
    let width = FILL / figure.bars.len().max(1) as f64;
    let mut drawn = Vec::new();
    for (series, bars) in figure.bars.iter().enumerate() {
        for (i, (x, height)) in bars.points().enumerate().filter(|(_, (_, height))| *height > 0.0) {
            let left = x - FILL / 2.0 + series as f64 * width;
            let ends = plot.pixel((left, 0.0)).zip(plot.pixel((left + width, height)));
            let Some(([left, bottom], [right, top])) = ends else { continue };
            // A bar that leaves the frame ends at its edge.
            let area = Area { left, right: right - 1.0, top: top.max(plot.frame.top), bottom };
            if area.bottom > area.top {
                drawn.push((bars, i, height, area));
            }
        }
    }
    let fits = drawn.iter().all(|(_, _, height, area)| {
        SLACK * text::width(&brief(*height), LABEL, Weight::Regular) <= area.width() + 4.0
    });
    let (mut groups, mut taken) = (Vec::new(), Vec::new());
    for (bars, i, height, area) in drawn {
        let colour = plot.palette.colour(&bars.key);
        let name = figure.x.names.get(i).map_or("", String::as_str);
        let mut shapes = vec![Shape::rectangle(area, colour, 1.0)];
        if fits {
            let at = rounded([(area.left + area.right) / 2.0, area.top - ABOVE]);
            let (anchor, size, weight, colour) = (Anchor::Middle, LABEL, Weight::Regular, colour.for_text());
            let text = Text { at, anchor, size, weight, colour, halo: true, content: brief(height) };
            taken.push(text.area());
            shapes.push(Shape::Text(text));
        }
        taken.push(area);
        let told = format!("{}: {name}, {}", bars.label, number(height));
        groups.push(Group::new("bar", Some(bars.key.clone()), shapes).titled(told));
    }
    (groups, taken)
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Line};
    use super::*;

    fn figure() -> Figure {
        Figure::new("t", Axis::named("group", ["a", "b", "c"]), Axis::linear("share"))
    }

    fn bars(figure: &Figure) -> Vec<(String, Area)> {
        let scene = figure.to_scene().unwrap();
        let area = |group: &Group| match &group.shapes[0] {
            Shape::Polygon { points, .. } => {
                Area { left: points[0][0], top: points[0][1], right: points[2][0], bottom: points[2][1] }
            }
            other => panic!("{other:?}"),
        };
        scene.groups.iter().filter(|g| g.role == "bar").map(|g| (g.title.clone().unwrap(), area(g))).collect()
    }

    #[test]
    fn a_bar_is_as_long_as_its_height_and_zero_has_none() {
        let found = bars(&figure().bars(Bars::new("k", "corpus", [2.0, 0.0, 1.0])));
        assert_eq!(found.iter().map(|b| b.0.as_str()).collect::<Vec<_>>(), ["corpus: a, 2", "corpus: c, 1"]);
        let length = |i: usize| found[i].1.height();
        assert!((length(0) - 2.0 * length(1)).abs() < 0.05, "{found:?}");
        assert_eq!(found[0].1.bottom, found[1].1.bottom);
    }

    #[test]
    fn series_stand_side_by_side_and_none_covers_another() {
        let two = figure().bars(Bars::new("k", "corpus", [3.0, 2.0, 1.0])).bars(Bars::new(
            "l",
            "held-out",
            [1.0, 2.0, 3.0],
        ));
        let found = bars(&two);
        assert_eq!(found.len(), 6);
        for (i, (_, a)) in found.iter().enumerate() {
            assert!(found[i + 1..].iter().all(|(_, b)| a.overlap(b) == 0.0));
        }
    }

    #[test]
    fn heights_are_written_where_they_fit() {
        let drawn = |width: f64| {
            let wide = figure().bars(Bars::new("k", "corpus", [12.5, 33.0, 41.0])).size(width, 300.0);
            wide.to_svg().unwrap().contains(">41<")
        };
        let many = Figure::new("t", Axis::named("n", (0..40).map(|i| i.to_string())), Axis::linear("y"))
            .bars(Bars::new("k", "corpus", (0..40).map(|i| f64::from(i) + 0.25)));
        assert!(drawn(600.0) && !many.to_svg().unwrap().contains(">8.3<"));
    }

    #[test]
    fn bars_need_names_a_linear_axis_and_heights() {
        let wrong = |figure: Figure| figure.to_svg().unwrap_err().to_string();
        assert!(wrong(figure().bars(Bars::new("k", "b", [1.0]))).contains("1 heights for 3 names"));
        assert!(wrong(figure().bars(Bars::new("k", "b", [1.0, -1.0, 0.0]))).contains("-1 cannot be drawn"));
        assert!(wrong(figure().bars(Bars::new("k", "b", [1.0, f64::NAN, 0.0]))).contains("cannot be drawn"));
        let log = Figure { y: Axis::log("y"), ..figure() };
        assert!(wrong(log.bars(Bars::new("k", "b", [1.0, 1.0, 1.0]))).contains("linear axis"));
    }

    #[test]
    fn a_line_can_run_over_bars() {
        let both = figure().bars(Bars::new("k", "corpus", [1.0, 2.0, 4.0])).line(Line::new(
            "l",
            "floor",
            [(0.0, 1.0), (2.0, 3.0)],
        ));
        let svg = both.to_svg().unwrap();
        assert!(svg.contains("corpus: c, 4") && svg.contains("floor"));
        assert_eq!(
            both.to_csv().unwrap(),
            "kind,key,series,group,share\nbar,k,corpus,a,1\nbar,k,corpus,b,2\nbar,k,corpus,c,4\nline,l,floor,a,1\nline,l,floor,c,3\n"
        );
    }
}
