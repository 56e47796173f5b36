//! A figure: axes and the data drawn on them.
//!
//! A figure is honest with its reader:
//!
//! - A dashed line is known only up to a constant; a line below the plot says so whenever there is one.
//! - A value at or below zero cannot be drawn on a logarithmic axis. It is left out, the line is broken there, and
//!   the notes below the plot count it. The same holds for points outside a requested range and for series without
//!   values.
//! - NaN, infinities and magnitudes above 1e300 are refused with an error that names the series and the value: they
//!   come from a mistake upstream, and they cannot be drawn honestly.
//! - The SVG contains all values (`<metadata>`, one JSON object, the [`Figure`] itself), even if the screen shows fewer.

use serde::{Deserialize, Serialize};

use super::bars::{self, Bars};
use super::heat::Heat;
use super::layout;
use super::palette::Palette;
use super::scale::Axis;
use super::scene::{MarkerForm, Scene};
use super::sketch::{Axes, Guide};
use crate::{Error, Result};

/// Magnitudes above this are refused, so that differences stay finite.
pub(super) const LARGEST: f64 = 1e300;

/// A line through points, in the order given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The key that determines the colour.
    pub key: String,
    /// The name in the figure.
    pub label: String,
    /// The points `(x, y)`.
    pub points: Vec<(f64, f64)>,
    /// Whether it is known only up to a constant.
    #[serde(default)]
    pub dashed: bool,
    /// Whether every point has a marker.
    #[serde(default)]
    pub markers: bool,
}

impl Line {
    /// A solid line.
    pub fn new(
        key: impl Into<String>,
        label: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        Line {
            key: key.into(),
            label: label.into(),
            points: points.into_iter().collect(),
            dashed: false,
            markers: false,
        }
    }

    /// Marks the line as known only up to a constant.
    pub fn dashed(mut self) -> Self {
        self.dashed = true;
        self
    }

    /// Draws a marker at every point: measurements, not a formula.
    pub fn with_markers(mut self) -> Self {
        self.markers = true;
        self
    }
}

/// Points without a line. A single point is labelled in place; several are named beside the plot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Points {
    /// The key that determines the colour.
    pub key: String,
    /// The name in the figure.
    pub label: String,
    /// The points `(x, y)`.
    pub points: Vec<(f64, f64)>,
    /// The form of the markers.
    pub form: MarkerForm,
    /// Error bars: the low and the high end in y of every point, as values on the axis; empty for none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<(f64, f64)>,
}

impl Points {
    /// Several points with one name.
    pub fn new(
        key: impl Into<String>,
        label: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let (key, label, form) = (key.into(), label.into(), MarkerForm::Circle);
        Points { key, label, points: points.into_iter().collect(), form, errors: Vec::new() }
    }

    /// One point with a label beside it.
    pub fn one(key: impl Into<String>, label: impl Into<String>, x: f64, y: f64) -> Self {
        Points::new(key, label, [(x, y)])
    }

    /// Sets the form of the markers (a disc by default).
    pub fn form(mut self, form: MarkerForm) -> Self {
        self.form = form;
        self
    }

    /// Adds error bars: for every point the low and the high end in y, as values on the axis.
    pub fn with_errors(mut self, ends: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.errors = ends.into_iter().collect();
        self
    }
}

/// The direction of a reference line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// At one value of y.
    Horizontal,
    /// At one value of x.
    Vertical,
}

/// A thin grey line across the plot: a floor, a limit, the number of contexts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Its direction.
    pub direction: Direction,
    /// The value at which it is drawn.
    pub value: f64,
    /// Its name.
    pub label: String,
}

/// A shaded area between two curves: a confidence interval, the range over seeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// The key that determines the colour.
    pub key: String,
    /// The name in the figure; empty for a band that accompanies a line of the same key.
    pub label: String,
    /// `(x, low, high)` in the order of x.
    pub points: Vec<(f64, f64, f64)>,
}

impl Band {
    /// A band.
    pub fn new(
        key: impl Into<String>,
        label: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64, f64)>,
    ) -> Self {
        Band { key: key.into(), label: label.into(), points: points.into_iter().collect() }
    }
}

/// Where series are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Naming {
    /// Beside the ends of the lines if there is room, otherwise below the plot.
    #[default]
    Auto,
    /// In a legend below the plot.
    Legend,
    /// Nowhere, because the names are given elsewhere.
    Nowhere,
}

/// A chart with one plot. Build it, then call [`Figure::to_svg`] or [`Figure::to_png`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The title, bold.
    pub title: String,
    /// A sentence below the title.
    #[serde(default)]
    pub subtitle: String,
    /// Small print below the plot.
    #[serde(default)]
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Cells behind everything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heat: Option<Heat>,
    /// Whether there are axes.
    #[serde(default, skip_serializing_if = "Axes::are_labelled")]
    pub axes: Axes,
    /// Lines that belong to the picture rather than to the data, drawn below it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guides: Vec<Guide>,
    /// Bars above the names of the x axis.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bars: Vec<Bars>,
    /// Shaded bands, drawn first.
    #[serde(default)]
    pub bands: Vec<Band>,
    /// Reference lines.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// Lines.
    #[serde(default)]
    pub lines: Vec<Line>,
    /// Points, drawn last.
    #[serde(default)]
    pub points: Vec<Points>,
    /// What solid and dashed lines mean; shown below the plot if there is a dashed line.
    pub dash_key: (String, String),
    /// Where series are named.
    #[serde(default)]
    pub naming: Naming,
    /// The colours of the whole report, if this figure is one of several.
    #[serde(default, skip_serializing_if = "Palette::is_empty")]
    pub palette: Palette,
    /// Width and height in pixels. The height grows if the text below the plot needs it.
    pub size: (f64, f64),
}

impl Figure {
    /// Creates an empty figure, 900 by 580 pixels.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Figure {
            title: title.into(),
            subtitle: String::new(),
            caption: String::new(),
            x,
            y,
            heat: None,
            axes: Axes::default(),
            guides: Vec::new(),
            bars: Vec::new(),
            bands: Vec::new(),
            rules: Vec::new(),
            lines: Vec::new(),
            points: Vec::new(),
            dash_key: ("explicit constants".into(), "known only up to a constant".into()),
            naming: Naming::default(),
            palette: Palette::default(),
            size: (900.0, 580.0),
        }
    }

    /// Sets the sentence below the title.
    pub fn subtitle(mut self, text: impl Into<String>) -> Self {
        self.subtitle = text.into();
        self
    }

    /// Sets the small print below the plot; notes on values that could not be drawn follow it.
    pub fn caption(mut self, text: impl Into<String>) -> Self {
        self.caption = text.into();
        self
    }

    /// Sets width and height in pixels, from 240 by 160 to 4,000 by 4,000.
    pub fn size(mut self, width: f64, height: f64) -> Self {
        self.size = (width, height);
        self
    }

    /// Sets the colours of the whole report.
    pub fn palette(mut self, palette: Palette) -> Self {
        self.palette = palette;
        self
    }

    /// Explains what solid and dashed lines mean.
    pub fn dash_key(mut self, solid: impl Into<String>, dashed: impl Into<String>) -> Self {
        self.dash_key = (solid.into(), dashed.into());
        self
    }

    /// Names the series in a legend below the plot.
    pub fn legend(mut self) -> Self {
        self.naming = Naming::Legend;
        self
    }

    /// Puts a heat map behind the rest; its cells determine the ranges of the axes.
    pub fn heat(mut self, heat: Heat) -> Self {
        self.heat = Some(heat);
        self
    }

    /// Hides the axes.
    pub fn hidden_axes(mut self) -> Self {
        self.axes = Axes::Hidden;
        self
    }

    /// Hides the axes and makes one unit as long in x as in y.
    pub fn isometric(mut self) -> Self {
        self.axes = Axes::Isometric;
        self
    }

    /// Adds a line that belongs to the picture rather than to the data.
    pub fn guide(mut self, guide: Guide) -> Self {
        self.guides.push(guide);
        self
    }

    /// Adds bars.
    pub fn bars(mut self, bars: Bars) -> Self {
        self.bars.push(bars);
        self
    }

    /// Adds a line.
    pub fn line(mut self, line: Line) -> Self {
        self.lines.push(line);
        self
    }

    /// Adds points.
    pub fn points(mut self, points: Points) -> Self {
        self.points.push(points);
        self
    }

    /// Adds a band.
    pub fn band(mut self, band: Band) -> Self {
        self.bands.push(band);
        self
    }

    /// Adds a reference line at one value of y.
    pub fn horizontal(mut self, value: f64, label: impl Into<String>) -> Self {
        self.rules.push(Rule { direction: Direction::Horizontal, value, label: label.into() });
        self
    }

    /// Adds a reference line at one value of x.
    pub fn vertical(mut self, value: f64, label: impl Into<String>) -> Self {
        self.rules.push(Rule { direction: Direction::Vertical, value, label: label.into() });
        self
    }

    /// Lays out the figure.
    pub fn to_scene(&self) -> Result<Scene> {
        self.check()?;
        layout::lay_out(self)
    }

    /// Refuses data that cannot be drawn honestly.
    pub(super) fn check(&self) -> Result<()> {
        let (width, height) = self.size;
        if !((240.0..=4000.0).contains(&width) && (160.0..=4000.0).contains(&height)) {
            let message =
                format!("size {width} x {height}: must lie between 240 x 160 and 4000 x 4000 pixels");
            return Err(Error::figure(message));
        }
        if !self.y.names.is_empty() {
            return Err(Error::figure(format!("axis \"{}\": only the x axis can have names", self.y.label)));
        }
        bars::check(self)?;
        for line in &self.lines {
            check_pairs("line", &line.label, &line.points)?;
        }
        for points in &self.points {
            check_pairs("points", &points.label, &points.points)?;
            check_errors(points)?;
        }
        for guide in &self.guides {
            check_pairs("guide", &guide.words, &guide.points)?;
        }
        for rule in &self.rules {
            check_value("reference line", &rule.label, 0, rule.value)?;
        }
        for band in &self.bands {
            for (i, &(x, low, high)) in band.points.iter().enumerate() {
                for value in [x, low, high] {
                    check_value("band", &band.label, i, value)?;
                }
                if low > high {
                    let message = format!(
                        "band \"{}\", point {}: low end {low} above high end {high}",
                        band.label,
                        i + 1
                    );
                    return Err(Error::figure(message));
                }
            }
        }
        self.heat.as_ref().map_or(Ok(()), |heat| heat.check(&self.x, &self.y))
    }
}

fn check_errors(points: &Points) -> Result<()> {
    let wrong = |message| Err(Error::figure(format!("points \"{}\"{message}", points.label)));
    if !(points.errors.is_empty() || points.errors.len() == points.points.len()) {
        let (bars, all) = (points.errors.len(), points.points.len());
        return wrong(format!(": {bars} error bars for {all} points"));
    }
    for (i, (&(low, high), &(_, y))) in points.errors.iter().zip(&points.points).enumerate() {
        check_value("points", &points.label, i, low)?;
        check_value("points", &points.label, i, high)?;
        if !(low <= y && y <= high) {
            return wrong(format!(", point {}: {y} does not lie between the ends {low} and {high}", i + 1));
        }
    }
    Ok(())
}

fn check_pairs(kind: &str, label: &str, points: &[(f64, f64)]) -> Result<()> {
    for (i, &(x, y)) in points.iter().enumerate() {
        check_value(kind, label, i, x)?;
        check_value(kind, label, i, y)?;
    }
    Ok(())
}

fn check_value(kind: &str, label: &str, index: usize, value: f64) -> Result<()> {
    if value.abs() <= LARGEST {
        return Ok(());
    }
    let message = format!(
        "{kind} \"{label}\", point {}: {value} cannot be drawn; leave the point out or give a finite value up to 1e300",
        index + 1
    );
    Err(Error::figure(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        Figure::new("t", Axis::log("x"), Axis::linear("y"))
    }

    #[test]
    fn values_that_are_not_numbers_are_refused_with_series_and_index() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 2e300] {
            let error = figure().line(Line::new("k", "loss", [(1.0, 1.0), (2.0, bad)])).to_svg().unwrap_err();
            assert!(matches!(error, Error::Figure(_)), "{error}");
            assert!(error.to_string().contains("line \"loss\", point 2"), "{error}");
            assert!(figure().points(Points::one("k", "p", bad, 1.0)).to_svg().is_err());
            assert!(figure().horizontal(bad, "r").to_svg().is_err());
            assert!(figure().band(Band::new("k", "b", [(1.0, 0.0, bad)])).to_svg().is_err());
        }
    }

    #[test]
    fn a_band_upside_down_and_a_silly_size_are_refused() {
        let error = figure().band(Band::new("k", "b", [(1.0, 2.0, 1.0)])).to_svg().unwrap_err();
        assert!(error.to_string().contains("above"), "{error}");
        for (width, height) in [(0.0, 500.0), (500.0, f64::NAN), (1e9, 500.0)] {
            assert!(figure().size(width, height).to_svg().is_err());
        }
    }

    #[test]
    fn error_bars_hold_their_points() {
        let points = Points::new("k", "p", [(1.0, 1.0), (2.0, 2.0)]);
        assert!(figure().points(points.clone().with_errors([(0.5, 2.0), (2.0, 2.0)])).to_svg().is_ok());
        for (bad, why) in [
            (vec![(0.0, 1.0)], "1 error bars for 2 points"),
            (vec![(0.0, 1.0), (2.5, 3.0)], "point 2: 2 does not lie"),
            (vec![(0.0, 1.0), (1.0, f64::INFINITY)], "inf cannot be drawn"),
        ] {
            let error = figure().points(points.clone().with_errors(bad)).to_svg().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_figure_survives_its_json() {
        let figure = figure()
            .subtitle("s")
            .line(Line::new("k", "a \"quoted\" <label>", [(1.0, 0.1), (1e21, 1e-7)]).dashed())
            .points(Points::one("model", "m", 3.0, 4.0))
            .palette(Palette::for_keys(["k", "model"]));
        let json = figure.to_json().unwrap();
        assert_eq!(serde_json::from_str::<Figure>(&json).unwrap(), figure);
    }
}
