//! Pages: a report as one HTML file.
//!
//! A [`Page`] is plain data: sections of paragraphs, callouts, key figures, tables, drawings and marked text.
//! [`Page::to_html`] writes it as a single file that makes no requests: style sheet, script and drawings are inside, and a content security policy
//! forbids everything else.
//!
//! - It is readable on a phone, in light and dark mode, and on paper. Every drawing is laid out twice, wide and narrow;
//!   in dark mode the style sheet changes its colours ([`theme`]).
//! - It works without its script. The script shows the values of points and lines to mouse, touch and keyboard, and a
//!   table of them below each drawing.
//! - The data of every drawing is in the page once, as a CSV file behind a link. The script reads the same text, so what
//!   is shown and what is downloaded cannot differ.
//! - Text may contain any character ([`escape`]); a link to an anchor that is not on the page is an error.
//!
//! ```
//! # use byrote_figures::html::{Callout, KeyFigure, Page, Section, Status};
//! let page = Page::new("Stories").command("byrote study stories.txt").section(
//!     Section::new("The answer")
//!         .callout(Callout::new(Status::Good, "A model of 65 thousand parameters holds this text."))
//!         .key_figures([KeyFigure::new("floor", "4,525.47", "nats")]),
//! );
//! assert!(page.to_html()?.starts_with("<!doctype html>"));
//! # Ok::<(), byrote_figures::Error>(())
//! ```

mod anchors;
mod escape;
mod marked;
mod page;
mod prose;
mod table;
mod theme;
mod write;

pub use marked::{LEVELS, Mark, MarkedText};
pub use page::{Callout, Exhibit, Item, KeyFigure, Page, Reference, Section};
pub use prose::{Prose, Span};
pub use table::{Align, Cell, Column, Status, Table};
