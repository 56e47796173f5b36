//! Results as text, for a terminal or a notebook.
//!
//! One function per result, each returning the whole text. Settings are named in backticks (`` `steps` ``), so that every front
//! end can spell them in its own way.

mod audit;
mod audit_comparison;
mod bounds;
mod certificate;
mod construction;
mod corpus;
mod evaluation;
mod incontext;
mod model;
mod rank;
mod sweep;
mod training;
mod windows;

pub use audit::audit;
pub use audit_comparison::audit_comparison;
pub use bounds::{bounds, encoders};
pub use certificate::certificate;
pub use construction::{closed_form, dana2024, kajitsuka2024, literal, madden2024};
pub use corpus::corpus;
pub use evaluation::{evaluation, exact_evaluation};
pub use incontext::{incontext, method};
pub use model::{exact_network, model, network};
pub use rank::rank;
pub use sweep::{jobs, results};
pub use training::training;
pub use windows::loss;

/// A table of aligned columns. Columns are aligned to the right, except those listed as `left`.
#[derive(Debug, Clone)]
pub struct TextTable {
    rows: Vec<Vec<String>>,
    left: Vec<usize>,
    /// Lines below rows: the index of the row, and the text.
    notes: Vec<(usize, String)>,
}

impl TextTable {
    /// Starts a table with its head; `left` are the indices of the columns that are aligned to the left.
    pub fn new(heads: &[&str], left: &[usize]) -> Self {
        let rows = vec![heads.iter().map(|&h| h.to_owned()).collect()];
        Self { rows, left: left.to_vec(), notes: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Adds a line of its own below the last row, indented; an empty one adds nothing. It does not widen the columns.
    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.notes.push((self.rows.len() - 1, text));
        }
    }

    /// Adds rows of a name, a value and a note.
    fn rows(&mut self, rows: impl IntoIterator<Item = [String; 3]>) {
        self.rows.extend(rows.into_iter().map(Vec::from));
    }

    /// Renders the table in at most `width` characters: where it is wider, columns of `expendable` are left out, first
    /// those that are the same in every row. Returns it with the heads of the columns that are missing. Notes may be longer:
    /// they are sentences, which whoever shows them can wrap.
    pub fn render_within(&self, width: usize, expendable: &[usize]) -> (String, Vec<&str>) {
        let rows = self.rows.get(1..).unwrap_or_default();
        let is_constant = |c: usize| rows.windows(2).all(|pair| pair[0].get(c) == pair[1].get(c));
        let mut order = expendable.to_vec();
        order.sort_by_key(|&c| !is_constant(c));
        let mut order = order.into_iter();
        let mut kept: Vec<usize> = (0..self.rows.first().map_or(0, Vec::len)).collect();
        let mut missing = Vec::new();
        loop {
            let cells = |row: &Vec<String>| kept.iter().filter_map(|&c| row.get(c).cloned()).collect();
            let left = (0..kept.len()).filter(|&i| self.left.contains(&kept[i])).collect();
            let mut table = Self { rows: self.rows.iter().map(cells).collect(), left, notes: Vec::new() };
            let fits = table.render().lines().all(|line| line.chars().count() <= width);
            match order.next().filter(|_| !fits) {
                Some(column) => {
                    kept.retain(|&c| c != column);
                    missing.push(self.rows[0][column].as_str());
                }
                None => {
                    table.notes.clone_from(&self.notes);
                    return (table.render(), missing);
                }
            }
        }
    }

    /// Renders the table in at most 80 characters, followed by the names of the columns of `expendable` that were left out.
    fn fitted(&self, expendable: &[usize]) -> String {
        let (mut text, missing) = self.render_within(80, expendable);
        if !missing.is_empty() {
            text += &format!("(left out to fit 80 columns: {})\n", missing.join(", "));
        }
        text
    }

    /// Returns the table with one line per row, and one per note.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| self.rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|c| width(c).unwrap_or(0)).collect();
        let mut out = String::new();
        for (r, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (c, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[c] - cell.chars().count());
                let cell =
                    if self.left.contains(&c) { format!("{cell}{pad}") } else { format!("{pad}{cell}") };
                line.push_str(if c == 0 { "" } else { "  " });
                line.push_str(&cell);
            }
            out.push_str(line.trim_end());
            out.push('\n');
            for (_, note) in self.notes.iter().filter(|(of, _)| *of == r) {
                out += &format!("    {note}\n");
            }
        }
        out
    }
}

/// Escapes the control characters of a text that is shown in a table, where they would break the line or the terminal.
pub fn shown(text: &str) -> String {
    text.chars()
        .flat_map(|c| match c.is_control() {
            true => c.escape_debug().collect::<Vec<_>>(),
            false => vec![c],
        })
        .collect()
}

/// Formats seconds as a short duration: 75 is 1m15s.
pub fn duration(seconds: f64) -> String {
    let s = seconds.min(1e9) as u64;
    match (s / 3600, s / 60 % 60, s % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s:02}s"),
        (h, m, _) => format!("{h}h{m:02}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        assert_eq!([5.9, 75.0, 3725.0].map(duration), ["5s", "1m15s", "1h02m"]);
    }

    #[test]
    fn tables_align() {
        let mut table = TextTable::new(&["name", "n"], &[0]);
        table.row(["a", "1,000"]);
        table.row(["long", "1"]);
        assert_eq!(table.render(), "name      n\na     1,000\nlong      1\n");
    }

    #[test]
    fn a_wide_table_leaves_out_constant_columns_first() {
        let mut table = TextTable::new(&["width", "seed", "steps"], &[0]);
        table.row(["16", "0", "100"]);
        table.row(["32", "0", "200"]);
        let missing = |width| table.render_within(width, &[2, 1]).1;
        assert_eq!((missing(80), missing(16), missing(10)), (vec![], vec!["seed"], vec!["seed", "steps"]));
        assert_eq!(table.render_within(16, &[2, 1]).0, "width  steps\n16       100\n32       200\n");
    }

    #[test]
    fn notes_have_lines_of_their_own_and_do_not_count_as_width() {
        let mut table = TextTable::new(&["name", "n"], &[0]);
        table.row(["a", "1"]);
        table.note("longer than the whole table");
        table.note("");
        table.row(["b", "22"]);
        let text = "name   n\na      1\n    longer than the whole table\nb     22\n";
        assert_eq!(table.render_within(8, &[1]), (text.into(), vec![]));
        assert_eq!(table.fitted(&[1]), text);
    }

    #[test]
    fn control_characters_in_cells_are_escaped() {
        assert_eq!(shown("a\n\u{1b}[31m é"), "a\\n\\u{1b}[31m é");
    }
}
