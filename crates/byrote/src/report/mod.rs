//! The figures and pages of studies, sweeps, audits, bounds and reproduced papers.
//!
//! This module holds content only. It turns results into the figures and pages of [`byrote_figures`] (reexported as
//! [`figures`](crate::figures)), which draws them, into text ([`text`]) and into JSON ([`json`]).
//!
//! ```no_run
//! use byrote::report::sweep_page;
//! use byrote::sweep::Record;
//! use std::path::Path;
//!
//! let record = Record::load(Path::new("runs/mine"))?;
//! let page = sweep_page::page(&record, "byrote report runs/mine")?;
//! std::fs::write("report.html", page.to_html()?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod audit_page;
mod averages;
pub mod bounds_figure;
pub mod incontext_figure;
pub mod json;
mod laws;
mod numbers;
pub(crate) mod papers;
pub(crate) mod square_root_figures;
pub(crate) mod study_page;
pub mod sweep_page;
pub mod text;

pub use audit_page::audit_page;

use crate::audit::Audit;
use crate::observe::{Observer, Progress, Stage};
use crate::output::OutputFile;
use crate::study::Study;
use crate::sweep::Record;
use crate::{Error, Result};
use byrote_figures::Figure;
use byrote_figures::html::Page;
use papers::trained_capacity::Construction;
use std::path::{Path, PathBuf};

/// A page that names this version of byrote in its footer.
fn new_page(title: impl Into<byrote_figures::html::Prose>) -> Page {
    Page::new(title).generator(concat!("byrote ", env!("CARGO_PKG_VERSION")))
}

/// Writes a page as `report.html` into a directory, and its figures as SVG, PNG and CSV into the folder `figures`. Returns the
/// path of the page.
pub fn write(directory: &Path, page: &Page) -> Result<PathBuf> {
    let report = directory.join("report.html");
    let figures = directory.join("figures");
    std::fs::create_dir_all(&figures).map_err(|e| Error::io(&figures, "create", e))?;
    OutputFile::write(&report, page.to_html()?.as_bytes())?;
    for (name, exhibit) in page.exhibits() {
        let write =
            |ending: &str, bytes: &[u8]| OutputFile::write(&figures.join(format!("{name}.{ending}")), bytes);
        write("svg", exhibit.drawing.to_svg()?.as_bytes())?;
        write("png", &exhibit.drawing.to_png(2.0)?)?;
        write("csv", exhibit.drawing.to_csv()?.as_bytes())?;
    }
    Ok(report)
}

/// Figures that not every study has.
const OPTIONAL_FIGURES: [&str; 3] = ["training", "widths", "in-context"];

/// Draws the report of a study into its directory. Returns the path of the page.
pub fn draw_study(study: &Study, directory: &Path, observer: &dyn Observer) -> Result<PathBuf> {
    observer.progress(&Progress::new(Stage::Drawing, 0, None));
    let page = study.page();
    let report = write(directory, &page)?;
    for name in OPTIONAL_FIGURES.iter().filter(|name| page.exhibits().iter().all(|(n, _)| n != **name)) {
        for ending in ["svg", "png", "csv"] {
            // A figure of an earlier study in this directory would pass for one of this study.
            let _ = std::fs::remove_file(directory.join("figures").join(format!("{name}.{ending}")));
        }
    }
    Ok(report)
}

/// Draws the report of a sweep, complete or not, from what its directory holds. Returns the results and the path of the page.
pub fn draw_sweep(directory: &Path, observer: &dyn Observer) -> Result<(Record, PathBuf)> {
    let record = Record::load(directory)?;
    let report = draw_record(&record, directory, observer)?;
    Ok((record, report))
}

/// Draws the report of a sweep whose results are known, such as those of [`Directory::to_record`](crate::sweep::Directory),
/// into its directory. Returns the path of the page.
pub fn draw_record(record: &Record, directory: &Path, observer: &dyn Observer) -> Result<PathBuf> {
    observer.progress(&Progress::new(Stage::Drawing, 0, None));
    let constructions = Construction::read(&directory.join(Construction::FILE))?;
    write(directory, &papers::found(record, &constructions)?.page)
}

/// Draws the report of an audit again, from what its directory holds. Returns the audit and the path of the page.
pub fn draw_audit(directory: &Path, observer: &dyn Observer) -> Result<(Audit, PathBuf)> {
    observer.progress(&Progress::new(Stage::Drawing, 0, None));
    audit_page::again(directory)
}

/// Refuses a file for a figure whose name ends in neither .svg nor .png; `setting` is the setting that named it.
pub fn check_figure_path(setting: &'static str, path: &Path) -> Result<()> {
    match is_svg(path) {
        Some(_) => Ok(()),
        None => {
            let message = format!("{} ends in neither .svg nor .png", path.display());
            Err(Error::setting(setting, message))
        }
    }
}

/// Writes a figure in the format that the ending of its name says: SVG for .svg, otherwise PNG.
pub fn write_figure(path: &Path, figure: &Figure) -> Result<()> {
    match is_svg(path) {
        Some(true) => OutputFile::write(path, figure.to_svg()?.as_bytes()),
        _ => OutputFile::write(path, &figure.to_png(2.0)?),
    }
}

/// Whether the name of a file ends in .svg (true) or in .png (false).
fn is_svg(path: &Path) -> Option<bool> {
    let ending = path.extension()?.to_ascii_lowercase();
    if ending == "svg" { Some(true) } else { (ending == "png").then_some(false) }
}
