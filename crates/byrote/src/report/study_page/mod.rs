//! The report of `byrote study`: one corpus from its floor to its worst-remembered contexts.

mod sections;

use super::incontext_figure::Series;
use super::new_page;
use super::numbers::{nats, references, thousands};
use crate::bounds::families::Guarantee;
use crate::bounds::{self, CorpusFacts};
use crate::certify;
use crate::corpus::Summary;
use crate::evaluate::Evaluation;
use crate::lab::Row;
use byrote_figures::html::Page;

/// Everything a study found.
#[derive(Debug)]
pub struct Study {
    /// The corpus in a few words.
    pub title: String,
    /// The figures of the whole corpus.
    pub summary: Summary,
    /// What building and training used of it.
    pub part: Part,
    /// Models in closed form.
    pub built: Vec<Built>,
    /// Trained models, by width.
    pub trained: Vec<Trained>,
    /// The contexts that the best trained model knows worst.
    pub worst: Vec<WorstContext>,
    /// Errors of transformers that learn in the context, where that was asked for.
    pub in_context: Vec<Series>,
    /// The command that makes the study again.
    pub command: String,
    /// Its settings.
    pub settings: Vec<(String, String)>,
}

/// The part of a corpus that was built and trained on.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Documents.
    pub documents: u64,
    /// Contexts.
    pub contexts: u64,
    /// Tokens.
    pub d_vocab: u64,
    /// The floor.
    pub floor_nats: f64,
    /// Whether this is all there is.
    pub is_all: bool,
}

/// A model in closed form.
#[derive(Debug)]
pub struct Built {
    /// The paper's key.
    pub method: &'static str,
    /// What was built, in a few words.
    pub words: String,
    /// Its parameters, or why it was not built.
    pub outcome: Result<BuiltOutcome, String>,
}

/// What is known of a model in closed form.
#[derive(Debug)]
pub struct BuiltOutcome {
    /// Parameters.
    pub parameters: u64,
    /// Contexts memorized, of all.
    pub memorized: u64,
    /// The gap to the floor, where the model gives distributions.
    pub gap_nats: Option<f64>,
    /// Its certificate.
    pub certificate: Certificate,
}

/// What is proven.
#[derive(Debug)]
pub enum Certificate {
    /// By rigorous arithmetic.
    Enclosed(Box<certify::Certificate>),
    /// By exact arithmetic: so many samples.
    Exact(u64),
}

/// A trained model.
#[derive(Debug)]
pub struct Trained {
    /// Its row.
    pub row: Row,
    /// Steps and gaps.
    pub curve: Vec<(f64, f64)>,
    /// What it makes of the corpus.
    pub evaluation: Option<Evaluation>,
}

/// A context that is not well known.
#[derive(Debug, Clone, PartialEq)]
pub struct WorstContext {
    /// Its text.
    pub text: String,
    /// How often it occurs.
    pub count: u64,
    /// What follows it.
    pub next: String,
    /// What the model expects, and how surely.
    pub predicted: String,
    /// The probability of that.
    pub probability: f64,
    /// KL of the distribution to the model's.
    pub kl_nats: f64,
}

impl Study {
    /// The smallest width that came within 1% of the floor.
    pub fn threshold(&self) -> Option<&Trained> {
        self.trained
            .iter()
            .filter(|t| t.row.relative_gap().is_some_and(|g| g <= 0.01))
            .min_by_key(|t| t.row.d_mlp)
    }

    /// Five lines: floor, size, closed form, training, worst context.
    pub fn verdict(&self) -> Vec<String> {
        let s = &self.summary;
        let bits = s.floor_nats_per_prediction.unwrap_or_default().bits_at_least();
        let mut lines = vec![format!(
            "Floor: no model has a training loss below {} nats ({bits:.4} bits per prediction) on this text, which has {} \
             distinct contexts.",
            nats(s.floor_nats.at_least()),
            thousands(s.contexts)
        )];
        let facts = CorpusFacts::from(s);
        let lookup =
            bounds::families::smallest(&facts).into_iter().find(|f| f.key == "madden2024-attention-16");
        lines.push(match lookup {
            Some(f) if f.guarantee == Guarantee::Proved => format!(
                "Size: {} neurons, {} parameters at width 16, are guaranteed to hold it (madden2024, Theorem 5).",
                thousands(s.contexts),
                thousands(u64::try_from(f.parameters).unwrap_or(u64::MAX))
            ),
            _ => "Size: no theorem guarantees a size for this corpus.".into(),
        });
        let part = match self.part.is_all {
            true => String::new(),
            false => format!(
                " (on its first {} documents, {} contexts)",
                thousands(self.part.documents),
                thousands(self.part.contexts)
            ),
        };
        lines.push(self.built_line(&part));
        lines.push(match self.threshold() {
            Some(t) => format!(
                "Trained: {} neurons, {} parameters, came within {} of the floor in {} steps{part}; theory asks for {} neurons.",
                thousands(t.row.d_mlp),
                thousands(t.row.parameters),
                if self.part.floor_nats > 0.0 { "1%" } else { "0.01 nats a prediction" },
                thousands(t.row.result.as_ref().map_or(0, |r| r.steps)),
                thousands(self.part.contexts)
            ),
            None => match self.trained.iter().filter_map(|t| Some((t, t.row.relative_gap()?))).min_by(|a, b| a.1.total_cmp(&b.1)) {
                Some((t, gap)) => format!(
                    "Trained: no width came within {} of the floor{part}; the nearest, {} neurons, is {} above it{}.",
                    if self.part.floor_nats > 0.0 { "1%" } else { "0.01 nats a prediction" },
                    thousands(t.row.d_mlp),
                    match self.part.floor_nats > 0.0 {
                        true => format!("{:.1}%", 100.0 * gap),
                        false => format!("{gap:.3} nats a prediction"),
                    },
                    match t.row.result.as_ref().filter(|r| r.stop == "steps") {
                        Some(r) => format!(" when its {} steps ran out", thousands(r.steps)),
                        None => String::new(),
                    }
                ),
                None => "Trained: nothing was trained.".into(),
            },
        });
        lines.push(match self.worst.first() {
            Some(w) if w.kl_nats > 1e-3 => format!(
                "Worst remembered: \u{201c}{}\u{201d}, followed by {}; the model expects {}.",
                w.text, w.next, w.predicted
            ),
            Some(_) => "Worst remembered: no context is off by more than a thousandth of a nat.".into(),
            None => "Worst remembered: no trained model to ask.".into(),
        });
        lines
    }

    fn built_line(&self, part: &str) -> String {
        let proven = self.built.iter().find_map(|b| {
            let outcome = b.outcome.as_ref().ok()?;
            match &outcome.certificate {
                Certificate::Enclosed(c) if c.verdict == certify::Verdict::Certified => Some((b, outcome, c)),
                _ => None,
            }
        });
        let exact = self.built.iter().find_map(|b| match &b.outcome {
            Ok(BuiltOutcome { parameters, certificate: Certificate::Exact(_), .. }) => {
                Some((b.method, *parameters))
            }
            _ => None,
        });
        let exact = exact.map_or(String::new(), |(method, parameters)| {
            format!(
                " For the most frequent next token alone, {method} takes {} parameters, verified exactly.",
                thousands(parameters)
            )
        });
        match proven {
            Some((b, outcome, c)) => format!(
                "Written down: {} without training, {} parameters, certified for all {} contexts, at most {} nats above \
                 the floor{part}.{exact}",
                b.method,
                thousands(outcome.parameters),
                thousands(c.contexts),
                nats(c.gap_nats_upper_bound)
            ),
            None => "Written down: no model in closed form was certified.".into(),
        }
    }

    /// The page.
    pub fn page(&self) -> Page {
        let mut page = new_page(format!("How much of {} can a transformer memorize?", self.title))
            .subtitle(
                "The floor of the text, every published bound on the size it takes, transformers that memorize it in \
                 closed form, and what training reaches.",
            )
            .section(self.answer())
            .section(self.corpus())
            .section(self.bounds());
        if !self.part.is_all {
            page = page.section(self.about_part());
        }
        page = page.section(self.closed_form()).section(self.training());
        if !self.worst.is_empty() {
            page = page.section(self.worst_contexts());
        }
        if !self.in_context.is_empty() {
            page = page.section(self.learning_in_context());
        }
        page = page.command(self.command.clone());
        let papers: &[&str] = match self.in_context.is_empty() {
            true => &["madden2024", "dana2024", "kajitsuka2024"],
            false => &["madden2024", "dana2024", "kajitsuka2024", "sander2024"],
        };
        for (name, value) in &self.settings {
            page = page.setting(name.clone(), value.clone());
        }
        references(papers).into_iter().fold(page, Page::reference)
    }
}
