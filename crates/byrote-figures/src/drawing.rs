//! What a page can draw: a figure, or several panels in one.

use super::data_table::DataTable;
use super::layout;
use super::{Figure, Naming, Palette, Panels, Scene};
use crate::Result;

/// A figure or several panels.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum Drawing {
    /// Several plots that share a legend.
    Panels(Panels),
    /// One plot (boxed because it is much larger).
    Figure(Box<Figure>),
}

impl From<Figure> for Drawing {
    fn from(figure: Figure) -> Self {
        Drawing::Figure(Box::new(figure))
    }
}

impl From<Panels> for Drawing {
    fn from(panels: Panels) -> Self {
        Drawing::Panels(panels)
    }
}

/// The files that a figure and several panels are written to, as methods of both.
macro_rules! files {
    ($type:ty, $table:ident) => {
        impl $type {
            /// Writes a self-contained SVG file. Equal drawings give equal bytes.
            pub fn to_svg(&self) -> Result<String> {
                Ok(self.to_scene()?.to_svg())
            }

            /// Writes a PNG file with `scale` pixels per pixel of the size (2 for print and dense screens). Equal drawings
            /// give equal bytes.
            pub fn to_png(&self, scale: f64) -> Result<Vec<u8>> {
                self.to_scene()?.to_png(scale)
            }

            /// Writes one JSON object, which the SVG contains as well.
            pub fn to_json(&self) -> Result<String> {
                self.check()?;
                Ok(serde_json::to_string(self)?)
            }

            /// Writes the data as one CSV file: one row per point, band position, reference line or cell.
            pub fn to_csv(&self) -> Result<String> {
                Ok(DataTable::$table(self)?.to_csv())
            }
        }
    };
}
files!(Figure, of_figure);
files!(Panels, of_panels);

/// The width of a drawing on a phone.
const NARROW: f64 = 380.0;

impl Drawing {
    /// Returns the title.
    pub fn title(&self) -> &str {
        match self {
            Drawing::Figure(figure) => &figure.title,
            Drawing::Panels(panels) => &panels.title,
        }
    }

    /// Returns the sentence below the title.
    pub fn subtitle(&self) -> &str {
        match self {
            Drawing::Figure(figure) => &figure.subtitle,
            Drawing::Panels(panels) => &panels.subtitle,
        }
    }

    /// Returns the small print.
    pub fn caption(&self) -> &str {
        match self {
            Drawing::Figure(figure) => &figure.caption,
            Drawing::Panels(panels) => &panels.caption,
        }
    }

    /// Lays out the drawing.
    pub fn to_scene(&self) -> Result<Scene> {
        match self {
            Drawing::Figure(figure) => figure.to_scene(),
            Drawing::Panels(panels) => panels.to_scene(),
        }
    }

    /// Returns the drawing as a self-contained SVG file.
    pub fn to_svg(&self) -> Result<String> {
        Ok(self.to_scene()?.to_svg())
    }

    /// Returns the drawing as a PNG file, with `scale` pixels per unit.
    pub fn to_png(&self, scale: f64) -> Result<Vec<u8>> {
        self.to_scene()?.to_png(scale)
    }

    /// Returns the drawing as one JSON object.
    pub fn to_json(&self) -> Result<String> {
        match self {
            Drawing::Figure(figure) => figure.to_json(),
            Drawing::Panels(panels) => panels.to_json(),
        }
    }

    /// Returns the data as a CSV file: one row per point, band position, reference line or cell.
    pub fn to_csv(&self) -> Result<String> {
        Ok(self.to_table()?.to_csv())
    }

    /// Returns the data as a table.
    pub(super) fn to_table(&self) -> Result<DataTable> {
        match self {
            Drawing::Figure(figure) => DataTable::of_figure(figure),
            Drawing::Panels(panels) => DataTable::of_panels(panels),
        }
    }

    /// Returns the keys of its series.
    pub(super) fn keys(&self) -> Vec<String> {
        match self {
            Drawing::Figure(figure) => layout::keys(figure).cloned().collect(),
            Drawing::Panels(panels) => panels.panels.iter().flat_map(layout::keys).cloned().collect(),
        }
    }

    /// Gives the keys of a palette the colours and letters that they have in other drawings.
    pub(super) fn share_palette(&mut self, shared: &Palette) {
        let palette = match self {
            Drawing::Figure(figure) => &mut figure.palette,
            Drawing::Panels(panels) => &mut panels.palette,
        };
        *palette = shared.followed_by(palette);
    }

    /// Lays out the drawing for a page, which shows the title and the small print itself; the description covers all of
    /// it.
    pub(super) fn for_page(&self, narrow: bool) -> Result<Scene> {
        let description = self.to_scene()?.description;
        let scene = match self {
            Drawing::Figure(figure) => {
                let mut bare = figure.clone();
                (bare.title, bare.subtitle, bare.caption) = Default::default();
                if narrow {
                    let shape = figure.size.1 / figure.size.0;
                    bare.size = (NARROW, (NARROW * shape.clamp(0.9, 1.4)).round());
                    bare.naming = Naming::Legend;
                }
                bare.to_scene()?
            }
            Drawing::Panels(panels) => {
                let mut bare = panels.clone();
                (bare.title, bare.subtitle, bare.caption) = Default::default();
                if narrow {
                    bare.columns = 1;
                    bare.size = (NARROW, (0.75 * NARROW * panels.panels.len() as f64).clamp(300.0, 4000.0));
                }
                bare.to_scene()?
            }
        };
        Ok(Scene { title: self.title().into(), description, ..scene })
    }
}
