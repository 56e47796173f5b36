//! A heat map: numbers on a grid, as colours.
//!
//! Columns and rows are numbers, not names, so lines and points can be drawn over the cells in the same coordinates. A
//! cell reaches halfway to its neighbours on the scale of the axis (in logarithms on a logarithmic one). The colours
//! are the scale "viridis" (van der Walt and Smith, 2015): lightness increases steadily with the value, also for
//! colour-blind readers and in greyscale print. If they all fit, the numbers are written in the cells. A cell that was
//! not measured is crossed out. On a logarithmic scale a value at or below zero has the colour of the lower end, and a
//! note says so.

use serde::{Deserialize, Serialize};

use super::clip::clip_segment;
use super::figure::{Figure, LARGEST};
use super::legend::{SLACK, words};
use super::palette::Colour;
use super::plot::Plot;
use super::scale::{Axis, Scale, ScaleKind, brief, forward, number};
use super::scene::{Anchor, Area, Group, Point, Shape, Stroke, Weight};
use super::text;
use crate::{Error, Result};

/// Numbers on a grid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heat {
    /// The quantity, with its unit: "gap (nats)".
    pub label: String,
    /// How numbers map to colours.
    pub kind: ScaleKind,
    /// The ends of the colour scale; by default it covers all values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<(f64, f64)>,
    /// The positions of the columns on the x axis, ascending.
    pub columns: Vec<f64>,
    /// The positions of the rows on the y axis, ascending (the first at the bottom).
    pub rows: Vec<f64>,
    /// `cells[row][column]`; `None` for cells that were not measured.
    pub cells: Vec<Vec<Option<f64>>>,
}

/// The stops of viridis, an eighth of the scale apart.
const STOPS: [Colour; 9] = [
    Colour(0x44, 0x01, 0x54),
    Colour(0x47, 0x2d, 0x7b),
    Colour(0x3b, 0x52, 0x8b),
    Colour(0x2c, 0x72, 0x8e),
    Colour(0x21, 0x91, 0x8c),
    Colour(0x28, 0xae, 0x80),
    Colour(0x5e, 0xc9, 0x62),
    Colour(0xad, 0xdc, 0x30),
    Colour(0xfd, 0xe7, 0x25),
];
/// The colours of numbers on dark and on light cells: maximal contrast, and different from the ink and paper of the
/// page, which change in dark mode while cells do not.
const ON_DARK: Colour = Colour(0xff, 0xff, 0xfe);
const ON_LIGHT: Colour = Colour(0x00, 0x00, 0x00);
/// The colour of a cell that was not measured.
const MISSING: Colour = Colour(0xb8, 0xb8, 0xb8);

impl Heat {
    /// Creates a heat map of numbers whose ratios matter.
    pub fn log(
        label: impl Into<String>,
        columns: Vec<f64>,
        rows: Vec<f64>,
        cells: Vec<Vec<Option<f64>>>,
    ) -> Self {
        Heat { label: label.into(), kind: ScaleKind::Log10, range: None, columns, rows, cells }
    }

    /// Creates a heat map of numbers whose differences matter.
    pub fn linear(
        label: impl Into<String>,
        columns: Vec<f64>,
        rows: Vec<f64>,
        cells: Vec<Vec<Option<f64>>>,
    ) -> Self {
        Heat { kind: ScaleKind::Linear, ..Heat::log(label, columns, rows, cells) }
    }

    /// Sets the ends of the colour scale; values beyond them have the colour of the nearest end.
    pub fn range(mut self, lo: f64, hi: f64) -> Self {
        self.range = Some((lo, hi));
        self
    }

    /// Returns the measured numbers.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        self.cells.iter().flatten().filter_map(|v| *v)
    }

    /// The scale that maps numbers to colours.
    pub(super) fn scale(&self) -> Result<Scale> {
        let axis = Axis { kind: self.kind, range: self.range, ..Axis::linear(self.label.clone()) };
        Scale::cover(&axis, &self.values().collect::<Vec<_>>(), &[])
    }

    /// Refuses data that cannot be drawn.
    pub(super) fn check(&self, x: &Axis, y: &Axis) -> Result<()> {
        let wrong = |why: String| Err(Error::figure(format!("heat map \"{}\": {why}", self.label)));
        for (name, axis, places) in [("columns", x, &self.columns), ("rows", y, &self.rows)] {
            let ascending = places.windows(2).all(|w| w[0] < w[1]);
            let finite = places.iter().all(|v| v.abs() <= LARGEST);
            if places.is_empty() || !ascending || !finite {
                return wrong(format!(
                    "the places of the {name} must be finite numbers, each above the one before"
                ));
            }
            if axis.kind == ScaleKind::Log10 && places[0] <= 0.0 {
                return wrong(format!("the places of the {name} must be positive on a logarithmic axis"));
            }
        }
        if self.cells.len() != self.rows.len() || self.cells.iter().any(|r| r.len() != self.columns.len()) {
            let (rows, columns) = (self.rows.len(), self.columns.len());
            return wrong(format!("the cells are not {rows} rows of {columns} columns"));
        }
        match self.values().find(|v| v.is_nan() || v.abs() > LARGEST) {
            Some(v) => {
                wrong(format!("{v} cannot be drawn; leave the cell out or give a finite value up to 1e300"))
            }
            None => Ok(()),
        }
    }

    /// The ends of an axis that covers exactly the cells.
    pub(super) fn ends(places: &[f64], kind: ScaleKind) -> (f64, f64) {
        let edges = edges(places, kind);
        let back = |u: f64| if kind == ScaleKind::Log10 { 10f64.powf(u) } else { u };
        (back(edges[0]), back(edges[edges.len() - 1]))
    }

    /// The number of values that a logarithmic colour scale cannot show.
    pub(super) fn refused(&self) -> usize {
        self.values().filter(|v| self.kind == ScaleKind::Log10 && *v <= 0.0).count()
    }

    /// The number of cells that were not measured.
    pub(super) fn missing(&self) -> usize {
        self.cells.iter().flatten().filter(|v| v.is_none()).count()
    }

    /// Describes the cells in words.
    pub(super) fn describe(&self) -> String {
        let (rows, columns) = (self.rows.len(), self.columns.len());
        let mut out = format!(" Heat map of {}, {rows} rows by {columns} columns", self.label);
        let least = self.values().min_by(f64::total_cmp);
        let most = self.values().max_by(f64::total_cmp);
        if let (Some(least), Some(most)) = (least, most) {
            out.push_str(&format!(", from {} to {}", number(least), number(most)));
        }
        match self.missing() {
            0 => out.push('.'),
            n => out.push_str(&format!("; {n} not measured.")),
        }
        out
    }
}

/// Halfway between neighbours; the outermost edges mirror the inner ones. In the units of the axis.
fn edges(places: &[f64], kind: ScaleKind) -> Vec<f64> {
    let at: Vec<f64> = places.iter().map(|v| forward(kind, *v)).collect();
    let n = at.len();
    if n < 2 {
        let half = if kind == ScaleKind::Linear && at[0] != 0.0 { 0.5 * at[0].abs() } else { 0.5 };
        return vec![at[0] - half, at[0] + half];
    }
    let first = at[0] - (at[1] - at[0]) / 2.0;
    let last = at[n - 1] + (at[n - 1] - at[n - 2]) / 2.0;
    let inner = at.windows(2).map(|w| (w[0] + w[1]) / 2.0);
    [first].into_iter().chain(inner).chain([last]).collect()
}

/// The colour at a position from 0 to 1.
pub(super) fn colour(position: f64) -> Colour {
    let at = position.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let i = (at.floor() as usize).min(STOPS.len() - 2);
    let t = at - i as f64;
    let mix = |a: u8, b: u8| (f64::from(a) + t * (f64::from(b) - f64::from(a))).round() as u8;
    let (a, b) = (STOPS[i], STOPS[i + 1]);
    Colour(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

/// The cells of a figure, one group each, and the areas of the numbers in them.
pub(super) fn draw(figure: &Figure, heat: &Heat, scale: &Scale, plot: &Plot<'_>) -> (Vec<Group>, Vec<Area>) {
    let (xs, ys) = (edges(&heat.columns, figure.x.kind), edges(&heat.rows, figure.y.kind));
    let frame = plot.frame;
    // Edges are in the units of the axis, in which positions are linear.
    let along = |edges: &[f64], u: f64| (u - edges[0]) / (edges[edges.len() - 1] - edges[0]);
    let area = |row: usize, column: usize| Area {
        left: frame.left + along(&xs, xs[column]) * frame.width(),
        right: frame.left + along(&xs, xs[column + 1]) * frame.width(),
        top: frame.bottom - along(&ys, ys[row + 1]) * frame.height(),
        bottom: frame.bottom - along(&ys, ys[row]) * frame.height(),
    };
    let size = [11.5, 10.0].into_iter().find(|size| {
        let fits = |row: usize, column: usize, value: f64| {
            let (area, words) = (area(row, column), brief(value));
            text::width(&words, *size, Weight::Regular) * SLACK <= area.width() - 5.0
                && size + 4.0 <= area.height()
        };
        let mut cells = heat
            .cells
            .iter()
            .enumerate()
            .flat_map(|(r, row)| row.iter().enumerate().filter_map(move |(c, v)| v.map(|v| (r, c, v))));
        cells.all(|(r, c, v)| fits(r, c, v))
    });
    let name = |label: &str, letter: &str| if label.is_empty() { letter.into() } else { label.to_string() };
    let (x_name, y_name) = (name(&figure.x.label, "x"), name(&figure.y.label, "y"));
    let overlays = plot.overlays();
    let (mut groups, mut numbers) = (Vec::new(), Vec::new());
    for (r, row) in heat.cells.iter().enumerate() {
        for (c, value) in row.iter().enumerate() {
            let area = area(r, c);
            let gap = 0.5_f64.min(area.width() / 8.0).min(area.height() / 8.0);
            let inner = area.grown(-gap);
            let place = format!("{x_name} {}, {y_name} {}", number(heat.columns[c]), number(heat.rows[r]));
            let (shapes, title) = match value {
                Some(value) => {
                    let position = if scale.accepts(*value) { scale.position(*value) } else { 0.0 };
                    let fill = colour(position);
                    let mut shapes = vec![Shape::rectangle(inner, fill, 1.0)];
                    let room =
                        size.and_then(|size| Some((size, room_for(&area, &brief(*value), size, &overlays)?)));
                    if let Some((size, room)) = room {
                        let ink =
                            if fill.contrast(ON_LIGHT) > fill.contrast(ON_DARK) { ON_LIGHT } else { ON_DARK };
                        let at =
                            [(room.left + room.right) / 2.0, (room.top + room.bottom) / 2.0 + 0.36 * size];
                        shapes.push(words(at, Anchor::Middle, size, ink, &brief(*value)));
                        numbers.push(room);
                    }
                    (shapes, format!("{place}: {} {}", heat.label, number(*value)))
                }
                None => {
                    let stroke = Stroke { colour: MISSING, width: 1.0, dash: None };
                    let Area { left, top, right, bottom } = area.grown(-2.0);
                    let across = Shape::polyline([[left, bottom], [right, top]], stroke);
                    let sheet = Shape::rectangle(inner, MISSING, 0.16);
                    (vec![sheet, across], format!("{place}: not measured"))
                }
            };
            groups.push(Group::new("cell", None, shapes).titled(title));
        }
    }
    (groups, numbers)
}

/// The segments and markers over the cells.
type Overlays = (Vec<(Point, Point)>, Vec<Point>);
/// The extent of a marker.
const MARKER: f64 = 6.5;

/// The position of the number in a cell: in the middle, or where no line or marker touches it; `None` if there is no
/// such position.
fn room_for(cell: &Area, number: &str, size: f64, overlays: &Overlays) -> Option<Area> {
    let half = [text::width(number, size, Weight::Regular) * SLACK / 2.0, size / 2.0];
    let middle = [(cell.left + cell.right) / 2.0, (cell.top + cell.bottom) / 2.0];
    let reach = [cell.width() / 2.0 - half[0] - 3.0, cell.height() / 2.0 - half[1] - 2.5].map(|r| r.max(0.0));
    let ways = [
        (0.0, 0.0),
        (-1.0, 0.0),
        (1.0, 0.0),
        (0.0, -1.0),
        (0.0, 1.0),
        (-1.0, -1.0),
        (1.0, 1.0),
        (1.0, -1.0),
        (-1.0, 1.0),
    ];
    ways.into_iter()
        .map(|(x, y)| {
            let [x, y] = [middle[0] + x * reach[0], middle[1] + y * reach[1]];
            Area { left: x - half[0], right: x + half[0], top: y - half[1], bottom: y + half[1] }
        })
        .find(|area| {
            let (near, reach) = (area.grown(1.5), area.grown(MARKER));
            !overlays.0.iter().any(|(a, b)| clip_segment(*a, *b, &near).is_some())
                && !overlays.1.iter().any(|p| reach.contains(*p))
        })
}

/// The colour key: the quantity, a strip and its ticks, starting at `left` and `top`.
pub(super) fn strip(heat: &Heat, scale: &Scale, left: f64, top: f64, width: f64) -> Vec<Shape> {
    const PIECES: usize = 64;
    let mut shapes = vec![words([left, top + 12.0], Anchor::Start, 12.0, Colour::INK, &heat.label)];
    let (bar_top, bar_bottom) = (top + 20.0, top + 30.0);
    for i in 0..PIECES {
        let at = |i: usize| left + width * i as f64 / PIECES as f64;
        // Each extends slightly under the next, so that no seam is visible.
        let right = if i + 1 < PIECES { at(i + 1) + 0.6 } else { at(i + 1) };
        let area = Area { left: at(i), right, top: bar_top, bottom: bar_bottom };
        shapes.push(Shape::rectangle(area, colour((i as f64 + 0.5) / PIECES as f64), 1.0));
    }
    let label_width = |label: &str| text::width(label, 11.5, Weight::Regular);
    let ticks = scale.ticks(&|ticks| {
        ticks.windows(2).all(|p| {
            let distance = (p[1].position - p[0].position) * width;
            distance >= (label_width(&p[0].label) + label_width(&p[1].label)) / 2.0 + 10.0
        })
    });
    let stroke = Stroke { colour: Colour::GREY, width: 1.0, dash: None };
    for tick in &ticks.major {
        let x = left + tick.position * width;
        shapes.push(Shape::polyline([[x, bar_bottom], [x, bar_bottom + 4.0]], stroke));
        let half = label_width(&tick.label) * SLACK / 2.0;
        let (low, high) = (left + half - 4.0, (left + width - half + 4.0).max(left + half - 4.0));
        let at = [x.clamp(low, high), bar_bottom + 16.0];
        shapes.push(words(at, Anchor::Middle, 11.5, Colour::MUTED, &tick.label));
    }
    shapes
}

/// The height of the colour key.
pub(super) const STRIP: f64 = 56.0;

#[cfg(test)]
mod tests {
    use super::super::{Axis, Figure, Heat, Line, Points, Shape};
    use super::*;

    fn figure() -> Figure {
        let cells = vec![vec![Some(1e-3), Some(0.1), Some(0.0)], vec![Some(1.0), None, Some(20.0)]];
        let heat = Heat::log("gap (nats)", vec![16.0, 32.0, 64.0], vec![100.0, 200.0], cells);
        Figure::new("Gap", Axis::log("d_mlp"), Axis::linear("documents")).heat(heat)
    }

    #[test]
    fn cells_fill_the_frame_and_meet_half_way() {
        let scene = figure().to_scene().unwrap();
        let cells: Vec<_> = scene.groups.iter().filter(|g| g.role == "cell").collect();
        assert_eq!(cells.len(), 6);
        let frame = scene.frames[0].area;
        assert!((scene.frames[0].x.1 - 16.0 / 2f64.sqrt()).abs() < 1e-9, "{:?}", scene.frames[0]);
        assert_eq!((scene.frames[0].y.1, scene.frames[0].y.2), (50.0, 250.0));
        let Shape::Polygon { points, .. } = &cells[0].shapes[0] else { panic!("a rectangle") };
        let right = points.iter().map(|p| p[0]).fold(0.0, f64::max);
        assert!((right - (frame.left + frame.width() / 3.0)).abs() < 0.6, "{right} {frame:?}");
        assert_eq!(cells[4].title.as_deref(), Some("d_mlp 32, documents 200: not measured"));
        assert_eq!(cells[5].title.as_deref(), Some("d_mlp 64, documents 200: gap (nats) 20"));
    }

    #[test]
    fn zero_on_a_logarithmic_scale_and_missing_cells_are_reported() {
        let scene = figure().to_scene().unwrap();
        assert!(
            scene.description.contains("2 rows by 3 columns, from 0 to 20; 1 not measured"),
            "{}",
            scene.description
        );
        assert!(scene.description.contains("1 cell"), "{}", scene.description);
    }

    #[test]
    fn lines_and_points_stand_over_the_cells() {
        let figure = figure()
            .line(Line::new("madden2024", "Theorem 5", [(16.0, 100.0), (64.0, 200.0)]))
            .points(Points::new("model", "reached", [(32.0, 100.0), (64.0, 200.0)]));
        let scene = figure.to_scene().unwrap();
        let place = |role| scene.groups.iter().position(|g| g.role == role).unwrap();
        assert!(place("cell") < place("line") && place("line") < place("points"));
        assert!(figure.to_png(1.0).is_ok());
        let json = figure.to_json().unwrap();
        assert_eq!(serde_json::from_str::<Figure>(&json).unwrap(), figure);
    }

    #[test]
    fn a_grid_that_does_not_match_its_cells_is_refused() {
        let bad = |columns: Vec<f64>, rows: Vec<f64>, cells: Vec<Vec<Option<f64>>>| {
            let heat = Heat::linear("v", columns, rows, cells);
            Figure::new("t", Axis::log("x"), Axis::linear("y")).heat(heat).to_svg().unwrap_err().to_string()
        };
        assert!(bad(vec![1.0, 2.0], vec![1.0], vec![vec![None]]).contains("1 rows of 2 columns"));
        assert!(bad(vec![2.0, 1.0], vec![1.0], vec![vec![None, None]]).contains("columns"));
        assert!(bad(vec![0.0], vec![1.0], vec![vec![None]]).contains("positive"));
        assert!(bad(vec![1.0], vec![1.0], vec![vec![Some(f64::NAN)]]).contains("NaN"));
        assert!(bad(vec![], vec![], vec![]).contains("columns"));
    }

    #[test]
    fn a_single_cell_and_a_grid_without_values_are_drawn() {
        for value in [Some(3.0), None] {
            let heat = Heat::log("v", vec![4.0], vec![0.0], vec![vec![value]]);
            let figure = Figure::new("t", Axis::log("x"), Axis::linear("y")).heat(heat);
            assert!(figure.to_svg().is_ok());
        }
    }

    #[test]
    fn lightness_rises_with_the_value_and_numbers_can_be_read() {
        let mut last = 0.0;
        for i in 0..=100 {
            let fill = colour(f64::from(i) / 100.0);
            let light = 1.0 / fill.contrast(Colour::WHITE);
            assert!(light > last, "{i}");
            last = light;
            assert!(fill.contrast(ON_LIGHT).max(fill.contrast(ON_DARK)) >= 4.5, "{}", fill.hex());
        }
    }
}
