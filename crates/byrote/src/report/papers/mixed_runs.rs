//! Runs that differ in what mixes the tokens of a context, grouped by corpus and depth, and paired at equal parameters.

use super::n_layers;
use crate::fit::Point;
use crate::model::Mixer;
use crate::report::averages::{Mean, Pairs, by_size};
use crate::report::numbers::thousands;
use crate::setting::Span;
use crate::sweep::{JobRow, Record};
use crate::train::StopKind;

/// Above this share of memorized contexts the memory is full, and no law of growth can hold.
pub(super) const FULL_MEMORY: f64 = 0.9;

/// What mixes the tokens of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Attention,
    Average,
    None,
}

impl Kind {
    /// Those that see the whole context.
    pub const MIXING: [Kind; 2] = [Kind::Attention, Kind::Average];
    pub const ALL: [Kind; 3] = [Kind::Attention, Kind::Average, Kind::None];

    pub fn of(row: &JobRow) -> Self {
        match row.settings.model.resolve(row.d_vocab, row.n_ctx).map(|config| config.shape.mixer) {
            Ok(Mixer::Average) => Kind::Average,
            Ok(Mixer::None) => Kind::None,
            _ => Kind::Attention,
        }
    }

    pub fn key(self) -> &'static str {
        match self {
            Kind::Attention => "attention",
            Kind::Average => "average",
            Kind::None => "none",
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Kind::Attention => "attention",
            Kind::Average => "token averaging",
            Kind::None => "no mixer",
        }
    }
}

/// The runs on one corpus with models of one depth.
pub(super) struct Runs<'a> {
    pub key: String,
    /// The corpus in words.
    pub name: String,
    /// The number of blocks; `None` for the one-layer models of the paper.
    pub n_layers: Option<u64>,
    pub contexts: u64,
    pub rows: Vec<&'a JobRow>,
}

impl<'a> Runs<'a> {
    /// One for each corpus and depth, in the order of the plan.
    pub fn all(record: &'a Record) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for row in record.done() {
            let name = corpus_in_words(row);
            let depth = row.settings.model.preset_or_default().has_blocks().then(|| n_layers(row));
            match all.iter_mut().find(|runs| runs.name == name && runs.n_layers == depth) {
                Some(runs) => runs.rows.push(row),
                None => {
                    let key = format!("corpus-{}", all.len() + 1);
                    let (n_layers, contexts) = (depth, row.contexts);
                    all.push(Self { key, name, n_layers, contexts, rows: vec![row] });
                }
            }
        }
        all
    }

    pub fn of(&self, kind: Kind) -> Vec<&'a JobRow> {
        let mut rows: Vec<&JobRow> = self.rows.iter().copied().filter(|r| Kind::of(r) == kind).collect();
        rows.sort_by_key(|r| (r.settings.seed, r.parameters));
        rows
    }

    /// The runs with attention and those with another mixer that have equal seeds and sizes.
    pub fn pairs(&self, other: Kind) -> Vec<(&'a JobRow, &'a JobRow)> {
        let (attention, others) = (self.of(Kind::Attention), self.of(other));
        let closest = |a: &JobRow| {
            let same = others.iter().filter(|b| b.settings.seed == a.settings.seed);
            same.min_by_key(|b| b.parameters.abs_diff(a.parameters)).copied()
        };
        let pair = |a: &&'a JobRow| Some((*a, closest(a).filter(|b| within_a_neuron(a, b))?));
        attention.iter().filter_map(pair).collect()
    }

    /// The number of runs that the limit of steps has ended.
    pub fn unfinished(&self, kind: Kind) -> usize {
        let at_the_limit = |r: &&JobRow| r.result.as_ref().is_some_and(|r| r.stop == StopKind::Steps);
        self.of(kind).into_iter().filter(at_the_limit).count()
    }

    /// Whether the limit of steps has ended most of the runs with these mixers.
    pub fn mostly_at_the_limit(&self, kinds: &[Kind]) -> bool {
        let ended: usize = kinds.iter().map(|&kind| self.unfinished(kind)).sum();
        2 * ended > kinds.iter().map(|&kind| self.of(kind).len()).sum()
    }

    /// The points below a full memory.
    pub fn points(&self, kind: Kind) -> Vec<Point> {
        let rows = self.of(kind);
        let (means, _) = means(&rows);
        let full = FULL_MEMORY * self.contexts as f64;
        let end = means.iter().find(|m| m.1 >= full).map_or(f64::INFINITY, |m| m.0);
        let below = rows.iter().filter(|r| (r.parameters as f64) < end);
        below.map(|r| Point::new(r.parameters as f64, memorized(r), r.settings.seed)).collect()
    }
}

/// The corpus of a row.
fn corpus_in_words(row: &JobRow) -> String {
    let corpus = &row.settings.corpus;
    let (kind, n) = match corpus.random {
        Some(n) => ("random sequences", n),
        None => ("built-in stories", row.documents),
    };
    let lengths = match (corpus.random, corpus.lengths) {
        (Some(_), Some(Span { first, last })) if first == last => format!("of {first} tokens"),
        (Some(_), Some(Span { first, last })) => format!("of {first} to {last} tokens"),
        _ => format!("with contexts of up to {} tokens", row.n_ctx),
    };
    format!("{} {kind} {lengths}", thousands(n))
}

/// Whether the numbers of parameters differ by at most those of one neuron (in every block).
fn within_a_neuron(a: &JobRow, b: &JobRow) -> bool {
    a.parameters.abs_diff(b.parameters) <= neuron(a)
}

/// The parameters of one neuron: its weights, its bias, and its row of the output, or in every block the weights that lead back to
/// the stream.
pub(super) fn neuron(row: &JobRow) -> u64 {
    let (width, model) = (row.settings.model.width(), &row.settings.model);
    match model.preset_or_default().has_blocks() {
        true => n_layers(row) * (2 * width + 1),
        false => width + 1 + row.d_vocab,
    }
}

pub(super) fn memorized(row: &JobRow) -> f64 {
    row.result.as_ref().map_or(0.0, |r| r.memorized as f64)
}

/// The mean number of memorized contexts at every size, with the range over seeds.
pub(super) fn means(rows: &[&JobRow]) -> (Pairs, Pairs) {
    by_size(rows.iter().map(|r| (r.parameters as f64, memorized(r))), Mean::Plain)
}

/// The rows of a plan before any job has run.
#[cfg(test)]
pub(super) fn planned_rows(plan: &crate::sweep::Plan) -> Vec<JobRow> {
    let corpora = crate::sweep::Corpora::read(&plan.jobs, &crate::observe::Silent).unwrap();
    let row = |job: &crate::sweep::Job| {
        let dataset = corpora.of(job).unwrap();
        let config = job.model.resolve(dataset.d_vocab(), dataset.n_ctx()).unwrap();
        JobRow::new(job, "", dataset, Some(&config))
    };
    plan.jobs.iter().map(row).collect()
}
