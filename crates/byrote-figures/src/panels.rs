//! Several plots in one drawing, which share axes, colours and a legend: small multiples, a fit above its residuals.

use serde::{Deserialize, Serialize};

use super::figure::Figure;
use super::grid;
use super::palette::Palette;
use super::scene::Scene;
use crate::{Error, Result};

/// A grid of plots. The title of a panel is above it; its subtitle and caption are not drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Panels {
    /// The title, bold.
    pub title: String,
    /// A sentence below the title.
    #[serde(default)]
    pub subtitle: String,
    /// Small print below the plots.
    #[serde(default)]
    pub caption: String,
    /// The plots, row by row.
    pub panels: Vec<Figure>,
    /// The number of plots side by side.
    pub columns: usize,
    /// Whether all x axes share one range.
    pub share_x: bool,
    /// Whether all y axes share one range.
    pub share_y: bool,
    /// The colours of the whole report.
    #[serde(default, skip_serializing_if = "Palette::is_empty")]
    pub palette: Palette,
    /// Width and height in pixels. The height grows if the text needs it.
    pub size: (f64, f64),
}

impl Panels {
    /// Creates plots of equal ranges, up to three side by side, 900 pixels wide.
    pub fn new(title: impl Into<String>, panels: impl IntoIterator<Item = Figure>) -> Self {
        let panels: Vec<Figure> = panels.into_iter().collect();
        let columns = match panels.len() {
            n if n <= 3 => n.max(1),
            4 => 2,
            _ => 3,
        };
        let height = 90.0 + 270.0 * panels.len().max(1).div_ceil(columns) as f64;
        Panels {
            title: title.into(),
            subtitle: String::new(),
            caption: String::new(),
            panels,
            columns,
            share_x: true,
            share_y: true,
            palette: Palette::default(),
            size: (900.0, height),
        }
    }

    /// Sets the sentence below the title.
    pub fn subtitle(mut self, text: impl Into<String>) -> Self {
        self.subtitle = text.into();
        self
    }

    /// Sets the small print below the plots.
    pub fn caption(mut self, text: impl Into<String>) -> Self {
        self.caption = text.into();
        self
    }

    /// Sets the number of plots side by side.
    pub fn columns(mut self, columns: usize) -> Self {
        self.columns = columns;
        self
    }

    /// Sets whether all x axes, and all y axes, share one range.
    pub fn share(mut self, x: bool, y: bool) -> Self {
        (self.share_x, self.share_y) = (x, y);
        self
    }

    /// Sets width and height in pixels.
    pub fn size(mut self, width: f64, height: f64) -> Self {
        self.size = (width, height);
        self
    }

    /// Sets the colours of the whole report.
    pub fn palette(mut self, palette: Palette) -> Self {
        self.palette = palette;
        self
    }

    /// Lays out the panels.
    pub fn to_scene(&self) -> Result<Scene> {
        self.check()?;
        grid::lay_out(self)
    }

    /// Refuses data that cannot be drawn honestly.
    pub(super) fn check(&self) -> Result<()> {
        let (width, height) = self.size;
        let size_ok = (240.0..=4000.0).contains(&width) && (160.0..=4000.0).contains(&height);
        if !size_ok || self.panels.is_empty() || self.panels.len() > 100 || self.columns == 0 {
            let message = format!(
                "{} panels in {} columns on {width} x {height} pixels: takes 1 to 100 panels, at least one column, from \
                 240 x 160 to 4000 x 4000 pixels",
                self.panels.len(),
                self.columns
            );
            return Err(Error::figure(message));
        }
        self.panels.iter().try_for_each(Figure::check)
    }
}
