//! Contexts and bits per parameter: trained models of three kinds and three constructions, on uniform random sequences.
//!
//! N sequences of uniform random tokens are each followed by one of C labels drawn uniformly: N log2 C bits that can
//! only be memorized. A trained model has memorized N log2 C - loss / ln 2 of them, the bits by which it shortens the
//! labels (as morris2025 counts); a construction that gives every label has memorized all of them.

use super::{Agreement, Claim, Paper};
use crate::model::Preset;
use crate::output::{csv_field, csv_text};
use crate::report::averages::Pairs;
use crate::report::numbers::{brief, thousands};
use crate::report::sweep_page::averaged;
use crate::sweep::{JobRow, Record};
use crate::{Error, Result};
use byrote_figures::html::{Column, Exhibit, Section, Table};
use byrote_figures::{Axis, Figure, Line, Points};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::f64::consts::LN_2;
use std::io::ErrorKind;
use std::path::Path;

/// Bits per parameter in the literature: allenzhu2024 (facts) and morris2025 (uniform random strings).
const LITERATURE: [(f64, &str); 2] = [(2.0, "2 bits: allenzhu2024"), (3.6, "3.6 bits: morris2025")];

/// A model that was constructed for a number of random sequences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Construction {
    /// The paper's key.
    pub method: String,
    /// Contexts, all memorized.
    pub contexts: u64,
    /// Labels.
    pub labels: u64,
    /// Parameters: all entries of all matrices (the dense count).
    pub parameters: u64,
    /// Non-zero parameters, if the paper counts those. The column must be there: earlier files mixed the two counts.
    #[serde(deserialize_with = "Option::deserialize")]
    pub nonzero_parameters: Option<u64>,
}

impl Construction {
    /// The name of the file of constructions in the directory of a sweep.
    pub const FILE: &str = "constructions.csv";

    /// Constructions as CSV.
    pub fn to_csv(all: &[Construction]) -> String {
        let row = |c: &Construction| {
            [
                c.method.clone(),
                c.contexts.to_string(),
                c.labels.to_string(),
                c.parameters.to_string(),
                csv_field(c.nonzero_parameters),
            ]
        };
        let columns = ["method", "contexts", "labels", "parameters", "nonzero_parameters"];
        csv_text(columns, all.iter().map(row))
    }

    /// Reads what [`Construction::to_csv`] wrote, ordered by method and contexts. A missing file holds none.
    ///
    /// # Errors
    /// When the file cannot be read, or a row is not a method and its counts.
    pub fn read(path: &Path) -> Result<Vec<Construction>> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Error::io(path, "read", e)),
        };
        let mut all = Vec::new();
        for row in csv::Reader::from_reader(&text[..]).deserialize() {
            all.push(row.map_err(|e| {
                let line = e.position().map_or(1, csv::Position::line);
                Error::format_at(path, line, "expected a method and its contexts, labels, parameters and nonzero_parameters; delete a file of an earlier version and run the figure again")
            })?);
        }
        all.sort_by(|a: &Construction, b| a.method.cmp(&b.method).then(a.contexts.cmp(&b.contexts)));
        Ok(all)
    }

    fn bits(&self) -> f64 {
        self.contexts as f64 * (self.labels as f64).log2()
    }
}

/// The key and the name of a preset on this page.
fn kind(row: &JobRow) -> (&'static str, &'static str) {
    match row.settings.model.preset.unwrap_or_default() {
        Preset::Dana2024 => ("attention", "attention alone, trained"),
        Preset::Average => ("average", "token averaging and neurons, trained"),
        _ => ("mlp", "attention and neurons, trained"),
    }
}

/// The bits that a trained model has memorized.
fn bits(row: &JobRow) -> Option<f64> {
    let labels = row.settings.corpus.labels? as f64;
    let loss = row.result.as_ref()?.loss_nats;
    Some((row.predictions as f64 * labels.ln() - loss) / LN_2)
}

/// The series of all models that the page shows.
struct Drawn {
    contexts: Figure,
    density: Figure,
    table: Table,
    /// The kinds of trained models with the most bits per parameter that each reached.
    best: Vec<(&'static str, f64)>,
}

impl Drawn {
    fn new() -> Self {
        let columns = [
            Column::left("model"),
            Column::right("parameters"),
            Column::right("contexts memorized"),
            Column::right("bits"),
            Column::right("bits per parameter"),
        ];
        Self {
            contexts: Figure::new(
                "Contexts memorized against parameters",
                Axis::log("parameters"),
                Axis::log("contexts memorized"),
            ),
            density: Figure::new(
                "Bits per parameter",
                Axis::log("parameters"),
                Axis::log("bits memorized per parameter"),
            ),
            table: Table::new("Means over seeds.", columns),
            best: Vec::new(),
        }
    }

    fn row(self, name: &str, parameters: f64, contexts: f64, bits: f64) -> Self {
        let table = self.table.row([
            name.to_owned(),
            thousands(parameters as u64),
            thousands(contexts.round() as u64),
            brief(bits),
            brief(bits / parameters),
        ]);
        Self { table, ..self }
    }

    /// Adds the trained models of one kind.
    fn trained(mut self, key: &str, rows: &[&JobRow]) -> Self {
        let Some(label) = rows.first().map(|r| kind(r).1) else { return self };
        let of = |f: &dyn Fn(&JobRow) -> Option<f64>| {
            averaged(rows.iter().filter_map(|r| Some((r.parameters as f64, f(r)?))))
        };
        let (held, held_ends) = of(&|r| Some(r.result.as_ref()?.memorized as f64));
        let (stored, _) = of(&bits);
        let (dense, dense_ends) = of(&|r| Some(bits(r)? / r.parameters as f64));
        self.best.push((label, dense.iter().fold(0.0, |a, p| f64::max(a, p.1))));
        for (i, &(parameters, n)) in held.iter().enumerate() {
            let bits = stored.iter().find(|b| b.0 == parameters).map_or(0.0, |b| b.1);
            self = self.row(if i == 0 { label } else { "" }, parameters, n, bits);
        }
        let add = |figure: Figure, means: Pairs, ends: Pairs| {
            figure
                .line(Line::new(key, label, means.clone()))
                .points(Points::new(key, "", means).with_errors(ends))
        };
        let (contexts, density) = (add(self.contexts, held, held_ends), add(self.density, dense, dense_ends));
        Self { contexts, density, ..self }
    }

    /// Adds the constructions of one method, each with its parameters.
    fn constructed(mut self, key: &str, label: &str, all: &[(f64, &Construction)]) -> Self {
        for (i, (parameters, c)) in all.iter().enumerate() {
            self = self.row(if i == 0 { label } else { "" }, *parameters, c.contexts as f64, c.bits());
        }
        let line = |f: &dyn Fn(f64, &Construction) -> f64| {
            let points = all.iter().map(|(k, c)| (*k, f(*k, c))).collect::<Vec<_>>();
            Line::new(key, label, points).dashed().with_markers()
        };
        let (held, dense) = (line(&|_, c| c.contexts as f64), line(&|k, c| c.bits() / k));
        Self { contexts: self.contexts.line(held), density: self.density.line(dense), ..self }
    }

    /// Compares the best densities with the literature.
    fn claim(&self) -> Claim {
        let words: Vec<String> =
            self.best.iter().map(|(label, b)| format!("{label}: {}", brief(*b))).collect();
        let agrees = match self.best.iter().fold(0.0, |a, b| f64::max(a, b.1)) {
            _ if self.best.is_empty() => Agreement::Open,
            m if (2.0..=3.6).contains(&m) => Agreement::Yes,
            m if (1.0..=5.0).contains(&m) => Agreement::Nearly,
            _ => Agreement::No,
        };
        Claim::new(
            "trained transformers memorize about 2 bits of facts per parameter (allenzhu2024) and about 3.6 bits of uniform \
             random strings (morris2025), both with deeper models and far more data.",
            format!("at most, in bits per parameter: {}.", words.join("; ")),
            agrees,
        )
    }
}

/// The page.
pub(super) fn page(record: &Record, constructions: &[Construction]) -> Result<Paper> {
    let mut drawn = Drawn::new();
    for key in ["attention", "mlp", "average"] {
        let rows: Vec<&JobRow> = record.done().filter(|r| kind(r).0 == key).collect();
        drawn = drawn.trained(key, &rows);
    }
    let mut methods: Vec<&str> = constructions.iter().map(|c| c.method.as_str()).collect();
    methods.dedup();
    for method in methods {
        let mine = || constructions.iter().filter(|c| c.method == method);
        let label = format!("{method}, constructed");
        // All entries count, as for trained models; a paper's own count of non-zero weights has a second line.
        let all: Vec<_> = mine().map(|c| (c.parameters as f64, c)).collect();
        drawn = drawn.constructed(method, &label, &all);
        let nonzero: Vec<_> = mine().filter_map(|c| Some((c.nonzero_parameters? as f64, c))).collect();
        if !nonzero.is_empty() {
            let (key, label) = (format!("{method}-nonzero"), format!("{label}, non-zero weights only"));
            drawn = drawn.constructed(&key, &label, &nonzero);
        }
    }
    let claim = drawn.claim();
    let best: Vec<_> = drawn.best.iter().map(|(label, b)| json!({"model": label, "bits": b})).collect();
    Ok(Paper {
        title: "Memory of small transformers, in contexts and in bits".into(),
        subtitle: "Attention alone, a hidden layer, token averaging, and three constructions on the same random sequences.".into(),
        claims: vec![claim],
        sections: vec![section(record, drawn)],
        json: json!({ "best_bits_a_parameter": best }),
        references: &["madden2024", "dana2024", "kajitsuka2024", "morris2025", "allenzhu2024"],
    })
}

fn section(record: &Record, drawn: Drawn) -> Section {
    let (n, labels) =
        record.rows.first().map_or((0, 0), |r| (r.contexts, r.settings.corpus.labels.unwrap_or_default()));
    let contexts = drawn.contexts.dash_key("trained", "constructed").legend();
    let density = LITERATURE
        .into_iter()
        .fold(drawn.density.dash_key("trained", "constructed").legend(), |d, (bits, label)| {
            d.horizontal(bits, label)
        });
    Section::new("Memory against size")
        .anchor("memory")
        .paragraph(format!(
            "{} uniform random sequences, each followed by one of {labels} labels, contain {} bits. Small models \
             memorize part of them, and that part measures their capacity. The constructions are built for the \
             numbers of sequences shown in the figure and know every label. All entries of all matrices count as \
             parameters, as they do in trained models; a second line shows kajitsuka2024's own count, of non-zero \
             weights only. It falls below one parameter per context because its parameters are long numbers: it \
             saves parameters, not storage, and its bits per parameter have no limit.",
            thousands(n),
            brief(n as f64 * f64::from(labels).log2())
        ))
        .exhibit(
            Exhibit::new(contexts)
                .name("contexts")
                .alt("Contexts memorized against parameters for three kinds of trained models and three constructions.")
                .caption("Trained models: means over seeds with the range. Their lines end where everything is memorized."),
        )
        .exhibit(
            Exhibit::new(density)
                .name("bits")
                .alt("Bits memorized per parameter against parameters, with the 2 and 3.6 bits of the literature.")
                .caption(
                    "Embeddings and positions count as parameters. A model that is larger than its task has few bits per \
                     parameter because there is nothing more to memorize.",
                ),
        )
        .table(drawn.table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constructions_read_back_and_damaged_files_name_their_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("constructions.csv");
        assert_eq!(Construction::read(&path).unwrap(), []);
        let dense = Construction {
            method: "dana2024".into(),
            contexts: 64,
            labels: 32,
            parameters: 700,
            nonzero_parameters: None,
        };
        let both =
            Construction { method: "kajitsuka2024".into(), nonzero_parameters: Some(300), ..dense.clone() };
        let text = Construction::to_csv(&[dense.clone(), both.clone()]);
        assert_eq!(
            text,
            "method,contexts,labels,parameters,nonzero_parameters\ndana2024,64,32,700,\nkajitsuka2024,64,32,700,300\n"
        );
        std::fs::write(&path, &text).unwrap();
        assert_eq!(Construction::read(&path).unwrap(), [dense, both]);
        std::fs::write(&path, text + "dana2024,many,32,1,\n").unwrap();
        assert_eq!(Construction::read(&path).unwrap_err().line(), Some(4));
        // Before, the column of parameters mixed the two counts.
        std::fs::write(&path, "method,contexts,labels,parameters\nkajitsuka2024,64,32,300\n").unwrap();
        assert!(Construction::read(&path).unwrap_err().to_string().contains("earlier version"));
    }
}
