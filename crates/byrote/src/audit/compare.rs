//! Two audits of the same text: what a fine-tuning or an unlearning has changed.

use super::Audit;
use super::tally::WindowFigures;
use super::text_audit::{DocumentAudit, TextAudit};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditComparison {
    /// The first model.
    pub before: String,
    /// The second.
    pub after: String,
    /// Settings that differ, so that figures cannot be compared without thought.
    pub different_settings: Vec<String>,
    /// Figures of both.
    pub figures: Vec<ComparedFigure>,
    /// The documents that changed most, by bits per token.
    pub documents: Vec<ComparedDocument>,
    /// How many distinct documents are cheaper, dearer and about the same (within 1%).
    pub cheaper: u64,
    /// Documents that cost more.
    pub dearer: u64,
    /// Documents that cost about the same.
    pub same: u64,
}

/// A figure of two audits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedFigure {
    /// The text: corpus or held-out.
    pub text: String,
    /// The measure.
    pub measure: String,
    /// In the first audit.
    pub before: f64,
    /// In the second.
    pub after: f64,
}

/// A document of two audits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedDocument {
    /// Where it comes from.
    pub name: String,
    /// Bits per token in the first audit.
    pub before: f64,
    /// Bits per token in the second.
    pub after: f64,
    /// The longest run of hits before and after.
    pub longest_run: (usize, usize),
    /// Extractable windows before and after.
    pub extractable: Option<(u64, u64)>,
}

/// How many documents are listed.
const MOST: usize = 20;

/// Compares two audits of the same text.
///
/// # Errors
/// If the texts differ.
pub fn compare(before: &Audit, after: &Audit) -> Result<AuditComparison> {
    let shape = |audit: &Audit| -> Vec<(String, u64)> {
        audit
            .text
            .documents
            .iter()
            .map(|d| (d.name.clone(), d.bytes.max(d.tokens * u64::from(d.bytes == 0))))
            .collect()
    };
    if shape(before) != shape(after) {
        let message = format!(
            "the audits are of different texts: {} distinct documents of {} bytes, and {} of {}",
            before.text.documents.len(),
            before.text.corpus.bytes,
            after.text.documents.len(),
            after.text.corpus.bytes
        );
        return Err(Error::setting("compare", message));
    }
    let mut figures = of_text("corpus", &before.text, &after.text);
    if let (Some(a), Some(b)) = (&before.held_out, &after.held_out) {
        figures.extend(of_text("held-out", a, b));
    }
    let pairs = || before.text.documents.iter().zip(&after.text.documents);
    let change = |(a, b): (&DocumentAudit, &DocumentAudit)| Some((a.bits_per_token?, b.bits_per_token?));
    let changed = |holds: &dyn Fn(f64, f64) -> bool| {
        pairs().filter_map(change).filter(|&(a, b)| holds(a, b)).count() as u64
    };
    let mut documents: Vec<ComparedDocument> = pairs()
        .filter_map(|(a, b)| {
            let (was, is) = change((a, b))?;
            let run = |d: &DocumentAudit| d.longest_run.as_ref().map_or(0, |run| run.tokens);
            Some(ComparedDocument {
                name: a.name.clone(),
                before: was,
                after: is,
                longest_run: (run(a), run(b)),
                extractable: a.extractable.zip(b.extractable),
            })
        })
        .collect();
    documents.sort_by(|a, b| {
        (b.after - b.before).abs().total_cmp(&(a.after - a.before).abs()).then(a.name.cmp(&b.name))
    });
    documents.truncate(MOST);
    Ok(AuditComparison {
        before: before.model.path.clone(),
        after: after.model.path.clone(),
        different_settings: different_settings(before, after)?,
        figures,
        documents,
        cheaper: changed(&|a, b| b < 0.99 * a),
        dearer: changed(&|a, b| b > 1.01 * a),
        same: changed(&|a, b| b >= 0.99 * a && b <= 1.01 * a),
    })
}

/// The names of the settings that differ.
fn different_settings(before: &Audit, after: &Audit) -> Result<Vec<String>> {
    let fields = |audit: &Audit| {
        serde_json::to_value(&audit.settings).map_err(|e| Error::setting("settings", e.to_string()))
    };
    let (a, b) = (fields(before)?, fields(after)?);
    let names =
        a.as_object().into_iter().flatten().filter(|(name, value)| b.get(name.as_str()) != Some(value));
    Ok(names.map(|(name, _)| name.clone()).collect())
}

/// The figures that both audits of a text have.
fn of_text(text: &str, before: &TextAudit, after: &TextAudit) -> Vec<ComparedFigure> {
    type Figure = fn(&TextAudit) -> Option<f64>;
    let all: [(&str, Figure); 10] = [
        ("bits_per_byte", |t| t.bits_per_byte),
        ("bits_per_token", |t| t.bits_per_token),
        ("zlib_ratio", |t| t.zlib_ratio),
        ("token_hits", |t| t.token_hits),
        ("fresh_token_hits", |t| t.fresh_token_hits),
        ("extractable, run alone", |t| t.windows.as_ref()?.share),
        ("extractable, in the document", |t| t.document_context.as_ref()?.all.share),
        ("p_z at least 0.001, run alone", |t| likely(t.windows.as_ref()?)),
        ("p_z at least 0.001, in the document", |t| likely(&t.document_context.as_ref()?.all)),
        ("longest run, tokens", |t| t.longest_runs.first().map(|run| run.tokens as f64)),
    ];
    all.into_iter()
        .filter_map(|(measure, of)| {
            let (text, measure) = (text.to_owned(), measure.to_owned());
            Some(ComparedFigure { text, measure, before: of(before)?, after: of(after)? })
        })
        .collect()
}

fn likely(figures: &WindowFigures) -> Option<f64> {
    figures.p_z_at_least.iter().find(|t| t.p_z == 1e-3).map(|t| t.share)
}
