//! What to repeat of an audit, in at most five lines of counts.
//!
//! No line says "memorized: yes". Counts mean something beside a control: a held-out text of the same kind, or a reference model.

use super::Audit;
use super::tally::WindowFigures;
use super::text_audit::TextAudit;
use crate::units::{Nats, grouped};

/// A share in percent.
fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// The lines.
pub(super) fn lines(audit: &Audit) -> Vec<String> {
    let (text, held_out) = (&audit.text, audit.held_out.as_ref());
    [
        extraction(audit, text, held_out),
        runs(text, held_out),
        bits(text, held_out),
        floor(audit),
        control(audit),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The most telling windows of a text: those run alone, or else those in document context.
fn windows(text: &TextAudit) -> Option<(&'static str, &WindowFigures)> {
    let alone = text.windows.as_ref().map(|figures| ("run alone", figures));
    let inside = text.document_context.as_ref().map(|context| ("in their document", &context.all));
    alone.or(inside).filter(|(_, figures)| figures.count > 0)
}

fn extraction(audit: &Audit, text: &TextAudit, held_out: Option<&TextAudit>) -> Option<String> {
    let (context, figures) = windows(text)?;
    let (k, m) = (audit.settings.prefix, audit.settings.suffix);
    let mut line = format!(
        "{} of {} windows {context} are extractable ({k} tokens given, the next {m} decoded greedily{})",
        grouped(figures.extractable),
        grouped(figures.count),
        match figures.close_verdicts {
            0 => String::new(),
            n => format!("; {} too close to call", grouped(n)),
        }
    );
    if let (Some((_, alone)), Some(inside)) = (windows(text), text.document_context.as_ref())
        && context == "run alone"
        && inside.all.count > 0
        && inside.all.share != alone.share
    {
        line += &format!(
            ", and {} of {} in their document",
            grouped(inside.all.extractable),
            grouped(inside.all.count)
        );
    }
    if let Some((context, other)) = held_out.and_then(windows) {
        let (n, all) = (grouped(other.extractable), grouped(other.count));
        line += &format!("; on the held-out text {n} of {all} {context}");
    }
    Some(line + ".")
}

fn runs(text: &TextAudit, held_out: Option<&TextAudit>) -> Option<String> {
    let longest = |text: &TextAudit| {
        let fresh = text.longest_fresh_runs.first();
        fresh.or(text.longest_runs.first()).map(|run| (run.tokens, fresh.is_some(), run.text.clone()))
    };
    let (tokens, is_fresh, words) = longest(text)?;
    let kind = if is_fresh { ", not copied from its context," } else { "" };
    let mut line = format!("The longest run of right tokens{kind} has {} tokens", grouped(tokens as u64));
    if let Some(words) = words.filter(|words| words.chars().count() <= 160) {
        line += &format!(": {words:?}");
    }
    if let Some((other, _, _)) = held_out.and_then(longest) {
        line += &format!("; on the held-out text {}", grouped(other as u64));
    }
    Some(line + ".")
}

fn bits(text: &TextAudit, held_out: Option<&TextAudit>) -> Option<String> {
    let figure = |text: &TextAudit| match (text.bits_per_byte, text.bits_per_token) {
        (Some(bits), _) => Some((bits, "byte")),
        (None, Some(bits)) => Some((bits, "token")),
        _ => None,
    };
    let (bits, unit) = figure(text)?;
    let mut line = format!("The text costs {bits:.3} bits per {unit}");
    if let Some((other, _)) = held_out.and_then(figure) {
        line += &format!(", the held-out text {other:.3}");
    }
    if let Some(hits) = text.token_hits {
        line += &format!("; {} of its tokens are the most likely one", percent(hits));
        if let Some(other) = held_out.and_then(|text| text.token_hits) {
            line += &format!(" ({} of the held-out ones)", percent(other));
        }
    }
    Some(line + ".")
}

fn floor(audit: &Audit) -> Option<String> {
    let gap = audit.gap.as_ref()?;
    let per = |nats: f64| Nats(nats / gap.predictions.max(1) as f64).bits();
    let memorized: u64 = gap.by_length.iter().map(|row| row.memorized).sum();
    let contexts: u64 = gap.by_length.iter().map(|row| row.contexts).sum();
    Some(format!(
        "Given at most {} tokens, no model can do better than {:.3} bits per token; this one needs {:.3} and has {} of {} contexts right.",
        gap.lengths,
        per(gap.floor_nats),
        per(gap.loss_nats),
        grouped(memorized),
        grouped(contexts)
    ))
}

fn control(audit: &Audit) -> Option<String> {
    if let Some(reference) = &audit.reference {
        let mut line = format!(
            "Against the reference model, it has memorized {} bits of this text",
            grouped(reference.unintended_bits.round() as u64)
        );
        if let Some(bits) = reference.bits_per_parameter {
            line += &format!(" ({bits:.4} per parameter)");
        }
        if let Some(other) = reference.held_out_unintended_bits {
            line += &format!(", and {} bits of the held-out text", grouped(other.round() as u64));
        }
        return Some(line + ".");
    }
    match (&audit.held_out, audit.auroc.get("loss")) {
        (None, _) => Some(
            "Without a held-out text or a reference model, none of this separates what was memorized from what is easy to predict."
                .into(),
        ),
        (Some(_), Some(auroc)) => {
            Some(format!("A document of the corpus has a lower loss than a held-out one in {} of all pairs.", percent(*auroc)))
        }
        _ => None,
    }
}
