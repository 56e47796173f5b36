//! The stage between a figure and a file: a flat list of primitives in pixels, with y pointing down.
//!
//! Both writers, SVG and PNG, draw exactly this, so they agree by construction. Coordinates are rounded to a hundredth
//! of a pixel when a shape is created: that keeps files short and identical everywhere, whatever the last bit of a
//! platform's logarithm.

use super::palette::Colour;
use super::scale::ScaleKind;
use super::{png, svg, text};
use crate::Result;

/// A position in pixels.
pub type Point = [f64; 2];

/// Which part of a text is at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// The text begins there.
    Start,
    /// The text is centred there.
    Middle,
    /// The text ends there.
    End,
}

/// The two weights of the typeface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Regular, for everything except titles.
    Regular,
    /// Bold, for titles.
    Bold,
}

/// The form of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MarkerForm {
    /// A disc.
    Circle,
    /// A square.
    Square,
    /// A square standing on its corner.
    Diamond,
    /// A triangle that points up.
    Triangle,
}

impl MarkerForm {
    /// Returns the corners, or `None` for the disc. All forms have about the same area as the disc of this radius.
    pub fn corners(self, [x, y]: Point, radius: f64) -> Option<Vec<Point>> {
        let corner = |dx: f64, dy: f64| rounded([x + radius * dx, y + radius * dy]);
        match self {
            MarkerForm::Circle => None,
            MarkerForm::Square => {
                Some(vec![corner(-0.9, -0.9), corner(0.9, -0.9), corner(0.9, 0.9), corner(-0.9, 0.9)])
            }
            MarkerForm::Diamond => {
                Some(vec![corner(0.0, -1.28), corner(1.28, 0.0), corner(0.0, 1.28), corner(-1.28, 0.0)])
            }
            MarkerForm::Triangle => Some(vec![corner(0.0, -1.3), corner(1.25, 0.85), corner(-1.25, 0.85)]),
        }
    }
}

/// How a path is stroked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stroke {
    /// The colour.
    pub colour: Colour,
    /// The width in pixels.
    pub width: f64,
    /// The lengths of dash and gap, if the path is dashed.
    pub dash: Option<[f64; 2]>,
}

/// A piece of text on one line; nothing in it is interpreted.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    /// The position of the anchor, on the baseline.
    pub at: Point,
    /// Which part of the text is there.
    pub anchor: Anchor,
    /// The size in pixels.
    pub size: f64,
    /// The weight.
    pub weight: Weight,
    /// The colour.
    pub colour: Colour,
    /// A white rim, for text over lines.
    pub halo: bool,
    /// The text.
    pub content: String,
}

/// One primitive.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A stroked path through points.
    Polyline {
        /// The corners, at least two.
        points: Vec<Point>,
        /// Its stroke.
        stroke: Stroke,
    },
    /// A filled polygon without outline.
    Polygon {
        /// The corners, at least three.
        points: Vec<Point>,
        /// The colour.
        fill: Colour,
        /// The opacity, from 0 to 1.
        opacity: f64,
    },
    /// A filled marker with a white rim.
    Marker {
        /// The centre.
        at: Point,
        /// The radius in pixels.
        radius: f64,
        /// The form.
        form: MarkerForm,
        /// The colour.
        fill: Colour,
    },
    /// A piece of text.
    Text(Text),
}

impl Shape {
    /// A stroked path.
    pub fn polyline(points: impl IntoIterator<Item = Point>, stroke: Stroke) -> Self {
        Shape::Polyline { points: points.into_iter().map(rounded).collect(), stroke }
    }

    /// A filled polygon.
    pub fn polygon(points: impl IntoIterator<Item = Point>, fill: Colour, opacity: f64) -> Self {
        Shape::Polygon { points: points.into_iter().map(rounded).collect(), fill, opacity }
    }

    /// A filled rectangle.
    pub fn rectangle(area: Area, fill: Colour, opacity: f64) -> Self {
        let Area { left, top, right, bottom } = area;
        Shape::polygon([[left, top], [right, top], [right, bottom], [left, bottom]], fill, opacity)
    }

    /// A marker.
    pub fn marker(at: Point, radius: f64, form: MarkerForm, fill: Colour) -> Self {
        Shape::Marker { at: rounded(at), radius, form, fill }
    }
}

/// Shapes that belong together, with the key of their series if they have one.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Their kind: "axes", "line", "label", ...
    pub role: &'static str,
    /// The series' key.
    pub key: Option<String>,
    /// The text shown when a reader points at it.
    pub title: Option<String>,
    /// The shapes, back to front.
    pub shapes: Vec<Shape>,
}

impl Group {
    /// Shapes without a title.
    pub fn new(role: &'static str, key: Option<String>, shapes: Vec<Shape>) -> Self {
        Group { role, key, title: None, shapes }
    }

    /// Sets the text shown when a reader points at it.
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Moves all shapes.
    pub(super) fn shift(&mut self, by: Point) {
        let moved = |p: &mut Point| *p = rounded([p[0] + by[0], p[1] + by[1]]);
        for shape in &mut self.shapes {
            match shape {
                Shape::Polyline { points, .. } | Shape::Polygon { points, .. } => {
                    points.iter_mut().for_each(moved)
                }
                Shape::Marker { at, .. } | Shape::Text(Text { at, .. }) => moved(at),
            }
        }
    }
}

/// A plot inside a drawing: its rectangle and the values at its edges, so that a position can be converted to numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Its rectangle in pixels.
    pub area: Area,
    /// Whether the horizontal axis is linear or logarithmic, and its ends.
    pub x: (ScaleKind, f64, f64),
    /// The same for the vertical axis.
    pub y: (ScaleKind, f64, f64),
}

/// A whole drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// Width in pixels.
    pub width: f64,
    /// Height in pixels.
    pub height: f64,
    /// The figure's title, for readers who cannot see it.
    pub title: String,
    /// A description of the figure in words.
    pub description: String,
    /// What could not be drawn and why, one sentence each; the sentences are also drawn.
    pub notes: Vec<String>,
    /// The figure's data as one JSON object.
    pub data: String,
    /// The plots, one per panel.
    pub frames: Vec<Frame>,
    /// The groups, back to front.
    pub groups: Vec<Group>,
}

impl Scene {
    /// Returns the drawing as a self-contained SVG file.
    pub fn to_svg(&self) -> String {
        svg::write(self)
    }

    /// Returns the drawing for embedding in an HTML page; see [`svg::inline`].
    pub(super) fn to_inline_svg(&self, class: &str, label: &str) -> String {
        svg::inline(self, class, label)
    }

    /// Returns the drawing as a PNG file, with `scale` pixels per unit.
    pub fn to_png(&self, scale: f64) -> Result<Vec<u8>> {
        png::write(self, scale)
    }

    /// Iterates over all shapes, back to front.
    pub fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.groups.iter().flat_map(|g| &g.shapes)
    }
}

/// An axis-aligned rectangle in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    /// The smallest x.
    pub left: f64,
    /// The smallest y.
    pub top: f64,
    /// The largest x.
    pub right: f64,
    /// The largest y.
    pub bottom: f64,
}

impl Area {
    /// Width.
    pub fn width(&self) -> f64 {
        self.right - self.left
    }

    /// Height.
    pub fn height(&self) -> f64 {
        self.bottom - self.top
    }

    /// Returns the rectangle enlarged by `by` on every side.
    pub fn grown(&self, by: f64) -> Area {
        Area { left: self.left - by, top: self.top - by, right: self.right + by, bottom: self.bottom + by }
    }

    /// Returns the area shared with another rectangle.
    pub fn overlap(&self, other: &Area) -> f64 {
        let width = self.right.min(other.right) - self.left.max(other.left);
        let height = self.bottom.min(other.bottom) - self.top.max(other.top);
        width.max(0.0) * height.max(0.0)
    }

    /// Whether a point lies inside.
    pub fn contains(&self, [x, y]: Point) -> bool {
        (self.left..=self.right).contains(&x) && (self.top..=self.bottom).contains(&y)
    }

    /// Whether another rectangle lies inside.
    pub fn holds(&self, other: &Area) -> bool {
        self.left <= other.left
            && self.top <= other.top
            && other.right <= self.right
            && other.bottom <= self.bottom
    }
}

impl Text {
    /// The rectangle that its letters can fill, by the metrics of the embedded typeface.
    pub fn area(&self) -> Area {
        let width = text::width(&self.content, self.size, self.weight);
        let left = match self.anchor {
            Anchor::Start => self.at[0],
            Anchor::Middle => self.at[0] - width / 2.0,
            Anchor::End => self.at[0] - width,
        };
        let (top, bottom) = (self.at[1] - 0.78 * self.size, self.at[1] + 0.22 * self.size);
        Area { left, top, right: left + width, bottom }
    }
}

/// Rounds to a hundredth of a pixel.
pub(super) fn rounded([x, y]: Point) -> Point {
    let round = |v: f64| (v * 100.0).round() / 100.0 + 0.0; // + 0.0 turns -0 into 0
    [round(x), round(y)]
}
