//! Pages on the disk.

use crate::interrupt;
use byrote::figures::html::Page;
use byrote::output::OutputFile;
use byrote::{Error, Result};
use std::path::{Path, PathBuf};

/// Writes a page as report.html, and its figures as SVG, PNG and CSV in the folder figures. Gives back where the page is.
pub fn write_page(directory: &Path, page: &Page) -> Result<PathBuf> {
    let report = directory.join("report.html");
    let figures = directory.join("figures");
    std::fs::create_dir_all(&figures).map_err(|e| Error::io(&figures, "create", e))?;
    interrupt::clean_up_beside(&report);
    interrupt::clean_up_beside(&figures.join("file"));
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

/// What was typed, for the page.
pub fn command_line() -> String {
    let quoted = |a: String| match a.is_empty() || a.contains([' ', '\'', '"', '$', '*', '\\', '\n']) {
        true => format!("'{}'", a.replace('\'', "'\\''")),
        false => a,
    };
    let words = std::env::args_os().skip(1).map(|a| quoted(a.to_string_lossy().into_owned()));
    std::iter::once("byrote".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
