//! The verdict of an audit, and what was audited.

use super::{WindowSet, percent, text_name, texts};
use crate::audit::{Audit, AuditContext, Placement, TextAudit, WindowStride};
use crate::report::numbers::{brief, thousands};
use crate::units::{Nats, counted};
use byrote_figures::html::{Callout, Cell, Column, KeyFigure, Prose, Section, Status, Table};

/// The headline.
pub(super) fn answer(audit: &Audit) -> Section {
    let mut lines = audit.verdict.iter().map(String::as_str);
    let first =
        Callout::new(Status::Neutral, lines.next().unwrap_or("There is nothing to say of this text."));
    let mut section = Section::new("The answer")
        .anchor("answer")
        .callout(lines.fold(first, Callout::line))
        .key_figures(key_figures(audit));
    if audit.held_out.is_none() && audit.reference.is_none() {
        section = section.warning(
            "There is no control: neither text of the same kind that the model has not seen, nor a model that has not seen this \
             text. Text that is easy to predict looks like text that was memorized.",
        );
    }
    if audit.model.instruct {
        section = section.note(
            "The model has a chat template. The text was given to it without one, so that what is found here is a lower bound.",
        );
    }
    section
}

/// The numbers beside the verdict, each with that of the held-out text below it.
fn key_figures(audit: &Audit) -> Vec<KeyFigure> {
    let held_out = audit.held_out.as_ref();
    let beside = |figure: KeyFigure, of: &dyn Fn(&TextAudit) -> Option<String>| match held_out.and_then(of) {
        Some(other) => figure.detail(format!("held-out {other}")),
        None => figure,
    };
    let mut found = Vec::new();
    if let Some(set) = WindowSet::all(audit).first()
        && let Some(share) = set.corpus.share
    {
        let figure = KeyFigure::new("extractable windows", percent(share), "");
        found.push(match set.held_out.and_then(|other| other.share) {
            Some(other) => figure.detail(format!("{}; held-out {}", set.in_words(), percent(other))),
            None => figure.detail(set.in_words()),
        });
    }
    let longest = |text: &TextAudit| {
        let run = text.longest_fresh_runs.first().or(text.longest_runs.first())?;
        Some(thousands(run.tokens as u64))
    };
    if let Some(tokens) = longest(&audit.text) {
        let fresh = if audit.settings.fresh > 0 { "longest fresh run" } else { "longest run" };
        found.push(beside(KeyFigure::new(fresh, tokens, "tokens"), &longest));
    }
    let hits = |text: &TextAudit| text.token_hits.map(percent);
    if let Some(hit) = hits(&audit.text) {
        found.push(beside(KeyFigure::new("tokens predicted right", hit, ""), &hits));
    }
    let bits = |text: &TextAudit| text.bits_per_byte.map(|bits| format!("{bits:.3}"));
    let bits_per_token = |text: &TextAudit| text.bits_per_token.map(|bits| format!("{bits:.3}"));
    if let Some(per_byte) = bits(&audit.text) {
        found.push(beside(KeyFigure::new("bits per byte", per_byte, ""), &bits));
    } else if let Some(per_token) = bits_per_token(&audit.text) {
        found.push(beside(KeyFigure::new("bits per token", per_token, ""), &bits_per_token));
    }
    if let Some(gap) = &audit.gap {
        let each = Nats(gap.gap_nats / gap.predictions.max(1) as f64).bits();
        found.push(
            KeyFigure::new("gap to the floor", format!("{each:.3}"), "bits")
                .detail(format!("per token, given at most {}", counted(gap.lengths as u64, "token"))),
        );
    }
    if let Some(reference) = &audit.reference {
        let figure = KeyFigure::new("unintended memorization", brief(reference.unintended_bits), "bits");
        found.push(match reference.held_out_unintended_bits {
            Some(other) => figure.detail(format!("held-out {}", brief(other))),
            None => figure,
        });
    }
    found
}

/// The model, the text and the settings in words.
pub(super) fn audited(audit: &Audit) -> Section {
    let mut section = Section::new("What was audited")
        .anchor("audited")
        .table(model(audit))
        .table(text(audit))
        .paragraph(Prose::parse(&windows(audit)));
    if let Some(preset) = audit.settings.preset {
        section = section.paragraph(
            Prose::new()
                .text("The windows follow the conventions of ")
                .code(preset.to_string())
                .text(format!(" ({}).", preset.source())),
        );
    }
    if !(audit.known.hits && audit.known.sampled && audit.known.moments) {
        let missing = [
            (audit.known.hits, "which token is the most likely one"),
            (audit.known.sampled, "probabilities under sampling"),
            (audit.known.moments, "the spread of log-probabilities"),
        ];
        let missing: Vec<&str> = missing.iter().filter(|(known, _)| !known).map(|(_, what)| *what).collect();
        section = section.note(format!(
            "The log-probabilities were computed by another program and do not say {}: measures that need it are left out.",
            missing.join(", nor ")
        ));
    }
    section
}

fn model(audit: &Audit) -> Table {
    let model = &audit.model;
    let start = match audit.settings.start_token {
        Some(id) => format!("token {id} before every document and window"),
        None => "none: the first token of a document is not scored".into(),
    };
    let mut rows = vec![("model", model.path.clone()), ("family", model.family.clone())];
    rows.extend(model.parameters.map(|n| ("parameters", thousands(n))));
    rows.extend(model.dtype.clone().map(|dtype| ("weights", dtype)));
    rows.extend(model.n_ctx.map(|n| {
        let used = audit.settings.n_ctx as u64;
        (
            "longest context",
            if used < n {
                format!("{} tokens, {} used", thousands(n), thousands(used))
            } else {
                format!("{} tokens", thousands(n))
            },
        )
    }));
    rows.push(("vocabulary", format!("{} tokens", thousands(model.d_vocab))));
    rows.push(("tokenizer", model.tokenizer.clone()));
    rows.push(("start token", start));
    rows.extend(audit.reference.as_ref().map(|reference| ("reference model", reference.path.clone())));
    rows.push(("tokens evaluated", thousands(audit.evaluated_tokens)));
    let table = Table::new("The model.", [Column::left("property"), Column::left("value")]);
    rows.into_iter().fold(table, |table, (name, value)| table.row([name.to_owned(), value]))
}

fn text(audit: &Audit) -> Table {
    let columns = texts(audit).map(|(key, _)| Column::right(key));
    let columns = [Column::left("")].into_iter().chain(columns);
    type Of = fn(&TextAudit) -> String;
    let mut rows: Vec<(&str, Of)> = vec![
        ("from", text_name),
        ("documents", |t| thousands(t.corpus.documents)),
        ("distinct documents", |t| thousands(t.corpus.distinct_documents)),
        ("tokens", |t| thousands(t.corpus.tokens)),
        ("tokens scored", |t| thousands(t.scored_tokens)),
        ("bytes", |t| thousands(t.corpus.bytes)),
        ("documents shorter than a window", |t| thousands(t.corpus.short)),
    ];
    if texts(audit).any(|(_, text)| text.corpus.in_pieces > 0) {
        rows.push(("documents longer than the context", |t| thousands(t.corpus.in_pieces)));
    }
    if texts(audit).any(|(_, text)| text.corpus.special_tokens > 0) {
        rows.push(("special tokens spelled out in the text", |t| thousands(t.corpus.special_tokens)));
    }
    let row = |(name, of): (&str, Of)| -> Vec<Cell> {
        [name.into()].into_iter().chain(texts(audit).map(|(_, text)| Cell::from(of(text)))).collect()
    };
    rows.into_iter().map(row).fold(Table::new("The text.", columns), Table::row)
}

/// What the windows are, in words.
fn windows(audit: &Audit) -> String {
    let settings = &audit.settings;
    let (k, m) = (settings.prefix, settings.suffix);
    let mut out = match settings.placement {
        Placement::End => format!(
            "A *window* is the last {m} tokens of a document, or of its first {} tokens, given all tokens before them.",
            thousands((k + m) as u64)
        ),
        _ => format!(
            "A *window* is {k} tokens of a document that the model is given, its prefix, and the {m} that follow, its suffix."
        ),
    };
    if settings.context.window() && audit.text.windows.is_some() {
        out += " Run *alone*, a window is all that the model sees";
        out += &match (settings.placement, settings.stride) {
            (Placement::First, _) => "; each document has one, its first".to_owned(),
            (Placement::End, _) => String::new(),
            (Placement::Every, WindowStride::Tokens(stride)) => {
                format!("; one starts every {}", counted(stride, "token"))
            }
            (Placement::Every, WindowStride::Characters(stride)) => {
                format!("; one starts every {} and is tokenized from there", counted(stride, "character"))
            }
        };
        out += &match settings.windows {
            Some(n) => format!(", and of more than {} of them, {} were drawn.", thousands(n), thousands(n)),
            None => ".".to_owned(),
        };
    }
    if settings.context != AuditContext::Window && audit.text.document_context.is_some() {
        out += " In its *document*, a window follows everything before it, as far as the model reads; all windows are counted.";
    }
    if texts(audit).any(|(_, text)| text.corpus.in_pieces > 0) {
        let n_ctx = settings.n_ctx as u64;
        out += &format!(
            " A document of more than {} is run in pieces that overlap by half, so that what lies further in is predicted from at \
             least {}.",
            counted(n_ctx, "token"),
            counted(n_ctx / 2, "token")
        );
    }
    if audit.known.sampled {
        out += &format!(
            " Sampling draws from the {} at temperature {}.",
            match settings.top_k {
                1 => "most likely token".to_owned(),
                k => format!("{} most likely tokens", thousands(u64::from(k))),
            },
            settings.temperature
        );
    }
    if settings.fresh > 0 && audit.known.hits {
        out += &format!(
            " A position is *copyable* if the last {}, itself included, occur earlier in its document; what is *fresh* has no such \
             position.",
            counted(settings.fresh as u64, "token")
        );
    }
    out
}
