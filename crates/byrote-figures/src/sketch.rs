//! Drawings without axes: thin lines, boxes and arrows that belong to the picture rather than to the data, and a view of
//! points in space.
//!
//! A [`Guide`] is drawn below all data in grey, has no key and no row in the CSV file; its words are set in the middle of
//! the rectangle around it. [`View`] is an orthographic projection: with azimuth a and elevation e, the viewer is in the
//! direction v = (cos e cos a, cos e sin a, sin e), and a point x is drawn at (<x, r>, <x, w>) with r = (-sin a, cos a, 0)
//! to the right and w = v x r upwards; <x, v> is its depth, positive in front.

use serde::{Deserialize, Serialize};

use super::palette::Colour;
use super::plot::{LABEL, LABEL_LINE, Plot, extent};
use super::scene::{Anchor, Area, Group, Point, Shape, Stroke, Text, Weight};
use super::text;

/// How the plot is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Axes {
    /// Axes with ticks.
    #[default]
    Labelled,
    /// Nothing but what is drawn.
    Hidden,
    /// The same, with one unit as long in x as in y.
    Isometric,
}

impl Axes {
    pub(super) fn are_labelled(&self) -> bool {
        *self == Axes::Labelled
    }
}

/// A thin line that belongs to the picture: the outline of a body, a box, an arrow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Guide {
    /// The corners `(x, y)`.
    pub points: Vec<(f64, f64)>,
    /// Whether it is paler, as what lies behind something else.
    #[serde(default)]
    pub faint: bool,
    /// Whether it ends in an arrowhead.
    #[serde(default)]
    pub arrow: bool,
    /// Words in its middle; may be empty.
    #[serde(default)]
    pub words: String,
}

impl Guide {
    /// A line.
    pub fn new(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Guide { points: points.into_iter().collect(), faint: false, arrow: false, words: String::new() }
    }

    /// An arrow from one point to another.
    pub fn arrow(from: (f64, f64), to: (f64, f64)) -> Self {
        Guide { arrow: true, ..Guide::new([from, to]) }
    }

    /// A box with words in it, by two opposite corners.
    pub fn boxed((left, bottom): (f64, f64), (right, top): (f64, f64), words: impl Into<String>) -> Self {
        let corners = [(left, bottom), (right, bottom), (right, top), (left, top), (left, bottom)];
        Guide { words: words.into(), ..Guide::new(corners) }
    }

    /// Makes it paler.
    pub fn faint(mut self) -> Self {
        self.faint = true;
        self
    }
}

/// Half the width and the length of an arrowhead.
const HEAD: (f64, f64) = (3.6, 8.0);
/// The room between words and the lines around them.
const MARGIN: f64 = 6.0;

/// Draws the guides of a figure; also returns what labels should keep clear of.
pub(super) fn draw(plot: &Plot<'_>) -> (Vec<Group>, Vec<Area>, Vec<(Point, Point)>) {
    let (mut groups, mut boxes, mut segments) = (Vec::new(), Vec::new(), Vec::new());
    for guide in &plot.figure.guides {
        let mut path: Vec<Point> = guide.points.iter().filter_map(|p| plot.pixel(*p)).collect();
        let colour = if guide.faint { Colour::FAINT } else { Colour::GREY };
        let stroke = Stroke { colour, width: 1.0, dash: None };
        let mut shapes = Vec::new();
        if guide.arrow
            && let Some(head) = arrowhead(&mut path)
        {
            shapes.push(Shape::polygon(head, colour, 1.0));
        }
        if path.len() > 1 {
            segments.extend(path.windows(2).map(|w| (w[0], w[1])));
            shapes.push(Shape::polyline(path.iter().copied(), stroke));
        }
        if let Some(around) = rectangle(&path) {
            let (words, area) = words_in(&guide.words, &around);
            boxes.extend(area);
            shapes.extend(words);
        }
        groups.push(Group::new("guide", None, shapes));
    }
    (groups, boxes, segments)
}

/// The corners of the head of an arrow, whose shaft is shortened to its base.
fn arrowhead(path: &mut [Point]) -> Option<[Point; 3]> {
    let [.., from, tip] = path else { return None };
    let (dx, dy) = (tip[0] - from[0], tip[1] - from[1]);
    let length = dx.hypot(dy);
    if length == 0.0 {
        return None;
    }
    let (dx, dy) = (dx / length, dy / length);
    let base = [tip[0] - HEAD.1 * dx, tip[1] - HEAD.1 * dy];
    let head = [
        *tip,
        [base[0] - HEAD.0 * dy, base[1] + HEAD.0 * dx],
        [base[0] + HEAD.0 * dy, base[1] - HEAD.0 * dx],
    ];
    *tip = base;
    Some(head)
}

fn rectangle(path: &[Point]) -> Option<Area> {
    let (first, rest) = path.split_first()?;
    let start = Area { left: first[0], right: first[0], top: first[1], bottom: first[1] };
    Some(rest.iter().fold(start, |a, p| Area {
        left: a.left.min(p[0]),
        right: a.right.max(p[0]),
        top: a.top.min(p[1]),
        bottom: a.bottom.max(p[1]),
    }))
}

/// Words centred in a rectangle, on as many lines as they need.
fn words_in(words: &str, around: &Area) -> (Vec<Shape>, Option<Area>) {
    let room = (around.width() - 2.0 * MARGIN).max(40.0);
    let lines = text::wrap(words, LABEL, Weight::Regular, room, 8);
    let Some((width, height)) = extent(&lines) else { return (Vec::new(), None) };
    let middle = [(around.left + around.right) / 2.0, (around.top + around.bottom) / 2.0];
    let line = |(i, content): (usize, &String)| {
        let y = middle[1] - height / 2.0 + (i as f64 + 0.5) * LABEL_LINE + 0.36 * LABEL;
        Shape::Text(Text {
            at: super::scene::rounded([middle[0], y]),
            anchor: Anchor::Middle,
            size: LABEL,
            weight: Weight::Regular,
            colour: Colour::INK,
            halo: false,
            content: content.clone(),
        })
    };
    let area = Area {
        left: middle[0] - width / 2.0,
        right: middle[0] + width / 2.0,
        top: middle[1] - height / 2.0,
        bottom: middle[1] + height / 2.0,
    };
    (lines.iter().enumerate().map(line).collect(), Some(area))
}

/// The largest part of a frame in which one unit is as long in x as in y, centred.
pub(super) fn isometric(frame: Area, (width, height): (f64, f64)) -> Area {
    let scale = (frame.width() / width).min(frame.height() / height);
    let (half_width, half_height) = (scale * width / 2.0, scale * height / 2.0);
    let middle = [(frame.left + frame.right) / 2.0, (frame.top + frame.bottom) / 2.0];
    Area {
        left: middle[0] - half_width,
        right: middle[0] + half_width,
        top: middle[1] - half_height,
        bottom: middle[1] + half_height,
    }
}

/// An orthographic view of points in space.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct View {
    right: [f64; 3],
    up: [f64; 3],
    towards: [f64; 3],
}

impl View {
    /// The view from a direction, given by its angles in degrees: around the vertical axis, and above the horizon.
    pub fn from_angles(azimuth: f64, elevation: f64) -> Self {
        let ((sa, ca), (se, ce)) = (azimuth.to_radians().sin_cos(), elevation.to_radians().sin_cos());
        View { right: [-sa, ca, 0.0], up: [-se * ca, -se * sa, ce], towards: [ce * ca, ce * sa, se] }
    }

    /// Where a point is drawn.
    pub fn project(&self, x: [f64; 3]) -> (f64, f64) {
        (dot(x, self.right), dot(x, self.up))
    }

    /// How far in front of the origin a point is.
    pub fn depth(&self, x: [f64; 3]) -> f64 {
        dot(x, self.towards)
    }

    /// The outline of the unit sphere.
    pub fn sphere(&self) -> Guide {
        Guide::new(turn(0.0, std::f64::consts::TAU).map(|a| (a.cos(), a.sin())))
    }

    /// The great circle of the unit sphere in the plane with this normal, of any length but 0: its half in front, and the
    /// half behind, which is faint.
    pub fn great_circle(&self, normal: [f64; 3]) -> [Guide; 2] {
        // Two directions that span the plane: one at right angles to the normal and to the axis it is farthest from.
        let axis = [0, 1, 2].into_iter().min_by(|&i, &j| normal[i].abs().total_cmp(&normal[j].abs()));
        let mut other = [0.0; 3];
        other[axis.unwrap_or(0)] = 1.0;
        let p = unit(cross(normal, other));
        let q = unit(cross(normal, p));
        // The depth of p cos a + q sin a is largest at this angle.
        let nearest = self.depth(q).atan2(self.depth(p));
        let half = |from: f64, to: f64| {
            let point = |a: f64| {
                let (s, c) = a.sin_cos();
                self.project([0, 1, 2].map(|i| c * p[i] + s * q[i]))
            };
            Guide::new(turn(from, to).map(point))
        };
        let quarter = std::f64::consts::FRAC_PI_2;
        [half(nearest - quarter, nearest + quarter), half(nearest + quarter, nearest + 3.0 * quarter).faint()]
    }
}

/// Angles in equal steps.
fn turn(from: f64, to: f64) -> impl Iterator<Item = f64> {
    const STEPS: u32 = 120; // a multiple of four, so that a circle is as high as wide
    (0..=STEPS).map(move |i| from + (to - from) * f64::from(i) / f64::from(STEPS))
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn unit(a: [f64; 3]) -> [f64; 3] {
    let length = dot(a, a).sqrt();
    a.map(|x| x / length)
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Figure, Line, Points};
    use super::*;

    fn picture() -> Figure {
        let view = View::from_angles(30.0, 20.0);
        let mut figure = Figure::new("A sphere", Axis::linear(""), Axis::linear("")).isometric();
        figure = figure.guide(view.sphere());
        for guide in view.great_circle([0.0, 0.0, 1.0]) {
            figure = figure.guide(guide);
        }
        let (x, y) = view.project([0.3, 0.4, 0.5]);
        figure.line(Line::new("v", "", [(0.0, 0.0), (x, y)])).points(Points::one("v", "a vector", x, y))
    }

    #[test]
    fn a_view_keeps_lengths_in_its_plane_and_depth_across_it() {
        for (a, e) in [(0.0, 0.0), (30.0, 20.0), (-120.0, 75.0)] {
            let view = View::from_angles(a, e);
            for x in [[1.0, 0.0, 0.0], [0.3, -0.4, 0.5]] {
                let (right, up) = view.project(x);
                let square = right * right + up * up + view.depth(x).powi(2);
                assert!((square - dot(x, x)).abs() < 1e-14);
            }
            // Up is up, and what is towards the viewer is in front.
            assert!(view.project([0.0, 0.0, 1.0]).1 >= 0.0 && view.depth(view.towards) > 0.999);
        }
        let (x, y) = View::from_angles(0.0, 0.0).project([5.0, 2.0, 3.0]);
        assert!((x - 2.0).abs() < 1e-15 && (y - 3.0).abs() < 1e-15);
    }

    #[test]
    fn a_great_circle_is_half_in_front_and_meets_the_outline() {
        let view = View::from_angles(40.0, 25.0);
        for normal in [[0.0, 0.0, 2.0], [1.0, -0.3, 0.2], [0.0, 1.0, 0.0]] {
            let [front, back] = view.great_circle(normal);
            assert!(!front.faint && back.faint);
            let radius = |p: &(f64, f64)| p.0.hypot(p.1);
            for end in [&front.points[0], &front.points[120], &back.points[0], &back.points[120]] {
                assert!((radius(end) - 1.0).abs() < 1e-12);
            }
            assert!(front.points.iter().chain(&back.points).all(|p| radius(p) < 1.0 + 1e-12));
            // The two halves are mirror images.
            let (a, b) = (front.points[30], back.points[30]);
            assert!((a.0 + b.0).abs() < 1e-12 && (a.1 + b.1).abs() < 1e-12);
        }
    }

    #[test]
    fn a_picture_in_space_is_as_wide_as_high_and_has_no_axes() {
        for (width, height) in [(900.0, 580.0), (380.0, 530.0), (400.0, 900.0)] {
            let scene = picture().size(width, height).to_scene().unwrap();
            assert!(!scene.groups.iter().any(|g| g.role == "axes" || g.role == "grid"));
            let outline = scene.groups.iter().find(|g| g.role == "guide").unwrap();
            let Shape::Polyline { points, .. } = &outline.shapes[0] else { panic!("a circle") };
            let around = rectangle(points).unwrap();
            assert!((around.width() - around.height()).abs() < 0.1, "{around:?}");
            assert!(around.width() > 200.0);
        }
        let figure = picture();
        assert!(figure.to_png(1.0).is_ok());
        assert_eq!(serde_json::from_str::<Figure>(&figure.to_json().unwrap()).unwrap(), figure);
        // Guides are no data.
        assert_eq!(figure.to_csv().unwrap().lines().count(), 4);
    }

    #[test]
    fn words_are_centred_in_their_box_and_arrows_have_heads() {
        let figure = Figure::new("", Axis::linear(""), Axis::linear(""))
            .hidden_axes()
            .guide(Guide::boxed((0.0, 0.0), (4.0, 1.0), "what a layer does with a token, in a few words"))
            .guide(Guide::arrow((2.0, 2.0), (2.0, 1.0)));
        let scene = figure.size(400.0, 300.0).to_scene().unwrap();
        let guides: Vec<_> = scene.groups.iter().filter(|g| g.role == "guide").collect();
        let Shape::Polyline { points, .. } = &guides[0].shapes[0] else { panic!("a box") };
        let around = rectangle(points).unwrap();
        for shape in &guides[0].shapes[1..] {
            let Shape::Text(text) = shape else { panic!("words") };
            assert!(around.holds(&text.area()), "{text:?}");
        }
        assert!(matches!(&guides[1].shapes[0], Shape::Polygon { points, .. } if points.len() == 3));
        assert!(scene.description.contains("in a few words"), "{}", scene.description);
        assert!(!scene.groups.iter().any(|g| g.role == "empty"));
    }
}
