//! A table of a page: columns with units, cells that may carry a status.

use super::prose::Prose;
use crate::{Error, Result};

/// The alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// Its unit, below the heading; empty for none.
    pub unit: String,
    /// Its alignment.
    pub align: Align,
}

impl Column {
    /// A column of words.
    pub fn left(name: impl Into<String>) -> Self {
        Column { name: name.into(), unit: String::new(), align: Align::Left }
    }

    /// A column of numbers.
    pub fn right(name: impl Into<String>) -> Self {
        Column { name: name.into(), unit: String::new(), align: Align::Right }
    }

    /// Sets its unit.
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = unit.into();
        self
    }
}

/// The status of a cell, a callout or a note at a glance. Each has a sign and a word besides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Holds, certified, reached.
    Good,
    /// Fails, refuted, missed.
    Bad,
    /// Holds with a condition, or not known.
    Caution,
    /// Nothing to judge.
    Neutral,
}

impl Status {
    /// The class in the style sheet.
    pub(super) fn class(self) -> &'static str {
        match self {
            Status::Good => "good",
            Status::Bad => "bad",
            Status::Caution => "caution",
            Status::Neutral => "neutral",
        }
    }

    /// A sign that can be recognized without colour.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Status::Good => "✓",
            Status::Bad => "✕",
            Status::Caution => "!",
            Status::Neutral => "·",
        }
    }
}

/// A cell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cell {
    /// Its text.
    pub words: Prose,
    /// The status; a cell with a status is shown as a badge.
    pub status: Option<Status>,
}

impl Cell {
    /// A badge: a sign, a colour and a word.
    pub fn status(status: Status, words: impl Into<String>) -> Self {
        Cell { words: Prose::from(words.into()), status: Some(status) }
    }

    /// An empty cell.
    pub fn none() -> Self {
        Cell::default()
    }
}

impl From<Prose> for Cell {
    fn from(words: Prose) -> Self {
        Cell { words, status: None }
    }
}

impl From<&str> for Cell {
    fn from(words: &str) -> Self {
        Prose::from(words).into()
    }
}

impl From<String> for Cell {
    fn from(words: String) -> Self {
        Prose::from(words).into()
    }
}

/// A table. The first column heads its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Its caption.
    pub caption: Prose,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, one cell per column.
    pub rows: Vec<Vec<Cell>>,
    /// The underlying numbers for download: a file name and the text of a CSV file.
    pub csv: Option<(String, String)>,
}

impl Table {
    /// A table without rows.
    pub fn new(caption: impl Into<Prose>, columns: impl IntoIterator<Item = Column>) -> Self {
        let columns = columns.into_iter().collect();
        Table { caption: caption.into(), columns, rows: Vec::new(), csv: None }
    }

    /// Adds a row.
    pub fn row<C: Into<Cell>>(mut self, cells: impl IntoIterator<Item = C>) -> Self {
        self.rows.push(cells.into_iter().map(Into::into).collect());
        self
    }

    /// Attaches the underlying numbers as a CSV file.
    pub fn csv(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.csv = Some((name.into(), text.into()));
        self
    }

    /// Refuses rows that do not have one cell per column.
    pub(super) fn check(&self) -> Result<()> {
        for (i, row) in self.rows.iter().enumerate() {
            if row.len() != self.columns.len() {
                let message = format!(
                    "table \"{}\", row {}: {} cells for {} columns",
                    self.caption.plain(),
                    i + 1,
                    row.len(),
                    self.columns.len()
                );
                return Err(Error::page(message));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_cell_for_every_column() {
        let table = Table::new("bounds", [Column::left("key"), Column::right("contexts").unit("1")]);
        assert!(table.clone().row(["a", "1"]).check().is_ok());
        let error = table.row(["a"]).check().unwrap_err();
        assert_eq!(error.to_string(), "page: table \"bounds\", row 1: 1 cells for 2 columns");
    }
}
