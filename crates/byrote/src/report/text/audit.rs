//! Audits as text: the verdict, then a table of figures, the corpus beside the held-out text.

use super::TextTable;
use crate::audit::{Audit, CanaryFigures, TextAudit, WindowFigures};
use crate::report::audit_page::percent;
use crate::units::{Nats, grouped, significant};

/// Shows what a model has memorized of a text.
pub fn audit(audit: &Audit) -> String {
    let mut out = audit.verdict.iter().map(|line| super::shown(line) + "\n").collect::<String>();
    out += "\n";
    out += &figures(audit);
    if let Some(canaries) = &audit.canaries {
        out += "\n";
        out += &of_canaries(canaries);
    }
    out
}

/// The rows of the table: a name, its value on the corpus and its value on the held-out text.
struct Rows<'a> {
    audit: &'a Audit,
    rows: Vec<(String, Option<String>, Option<String>)>,
}

impl Rows<'_> {
    /// A figure of both texts.
    fn add(&mut self, name: &str, of: impl Fn(&TextAudit) -> Option<String>) {
        let held_out = self.audit.held_out.as_ref().and_then(&of);
        self.rows.push((name.to_owned(), of(&self.audit.text), held_out));
    }

    /// A figure that only the corpus has.
    fn once(&mut self, name: impl Into<String>, value: String) {
        self.rows.push((name.into(), Some(value), None));
    }

    /// The figures of windows of one kind, of the corpus and of the held-out text.
    fn windows(&mut self, name: &str, of: fn(&TextAudit) -> Option<&WindowFigures>) {
        let audit = self.audit;
        let has_windows = |text| of(text).filter(|figures| figures.count > 0);
        let (corpus, held_out) = (has_windows(&audit.text), audit.held_out.as_ref().and_then(has_windows));
        let mut add = |name: &str, of: &dyn Fn(&WindowFigures) -> Option<String>| {
            self.rows.push((name.to_owned(), corpus.and_then(of), held_out.and_then(of)));
        };
        add(&format!("windows {name}"), &|f| Some(grouped(f.count)));
        add("  extractable", &|f| Some(format!("{} {}", grouped(f.extractable), within(f.share?))));
        if audit.known.sampled {
            add("  p_z of at least 0.001", &likely);
        }
        add("  teacher-forced accuracy", &|f| number(f.mean_teacher_forced_accuracy));
        add("  free-running accuracy", &|f| number(f.mean_free_running_accuracy));
        add("  extraction strength", &|f| number(f.mean_extraction_strength));
        add("  text covered by extractable ones", &|f| f.coverage.map(|c| percent(c.extractable)));
    }
}

/// One row per figure.
fn figures(audit: &Audit) -> String {
    let mut rows = Rows { audit, rows: Vec::new() };
    rows.add("documents", |t| Some(grouped(t.corpus.documents)));
    rows.add("tokens", |t| Some(grouped(t.corpus.tokens)));
    rows.add("bits per byte", |t| number(t.bits_per_byte));
    rows.add("bits per token", |t| number(t.bits_per_token));
    rows.add("bits / bits of zlib", |t| number(t.zlib_ratio));
    rows.add("tokens predicted right", |t| t.token_hits.map(percent));
    rows.add("fresh tokens predicted right", |t| t.fresh_token_hits.map(percent));
    rows.add("longest run (tokens)", |t| t.longest_runs.first().map(|run| grouped(run.tokens as u64)));
    rows.add("longest fresh run (tokens)", |t| {
        t.longest_fresh_runs.first().map(|run| grouped(run.tokens as u64))
    });
    rows.windows("run alone", |t| t.windows.as_ref());
    rows.windows("in their document", |t| t.document_context.as_ref().map(|context| &context.all));
    if let Some(gap) = &audit.gap {
        let each = |nats: f64| significant(Nats(nats / gap.predictions.max(1) as f64).bits(), 4);
        let given = |what: &str| format!("{what}, given up to {} tokens (bits per token)", gap.lengths);
        rows.once(given("floor"), each(gap.floor_nats));
        rows.once(given("gap to it"), each(gap.gap_nats));
    }
    if let Some(reference) = &audit.reference {
        let bits = |bits: f64| grouped(bits.round() as u64);
        let (own, other) = (bits(reference.unintended_bits), reference.held_out_unintended_bits.map(bits));
        rows.rows.push(("unintended memorization (bits)".into(), Some(own), other));
        if let Some(bits) = reference.bits_per_parameter {
            rows.once("  per parameter of the model", significant(bits, 3));
        }
    }
    for (name, value) in &audit.auroc {
        rows.once(format!("AUROC by {}", score(name)), format!("{value:.3}"));
    }
    let columns = if audit.held_out.is_some() { 3 } else { 2 };
    let mut table = TextTable::new(&["", "corpus", "held-out"][..columns], &[0]);
    for (name, corpus, held_out) in rows.rows.into_iter().filter(|(_, a, b)| a.is_some() || b.is_some()) {
        let cells = [name, corpus.unwrap_or_default(), held_out.unwrap_or_default()];
        table.row(cells.into_iter().take(columns));
    }
    table.fitted(&[])
}

fn number(x: Option<f64>) -> Option<String> {
    x.map(|x| format!("{x:.3}"))
}

fn within(share: f64) -> String {
    format!("({})", percent(share))
}

fn likely(figures: &WindowFigures) -> Option<String> {
    let found = figures.p_z_at_least.iter().find(|threshold| threshold.p_z == 1e-3)?;
    Some(format!("{} {}", grouped(found.count), within(found.share)))
}

/// The score of an AUROC in words.
fn score(name: &str) -> &str {
    match name {
        "loss" => "bits per token",
        "zlib" => "bits / bits of zlib",
        "min_k" => "Min-k%",
        "min_k_plus_plus" => "Min-k%++",
        "reference" => "bits of the reference model minus bits",
        other => other,
    }
}

fn of_canaries(canaries: &CanaryFigures) -> String {
    let mut table =
        TextTable::new(&["canaries inserted", "how many", "extracted", "mean bits", "mean exposure"], &[]);
    for group in &canaries.by_count {
        table.row([
            match group.count {
                0 => "never".to_owned(),
                1 => "once".to_owned(),
                n => format!("{} times", grouped(n)),
            },
            grouped(group.canaries),
            grouped(group.extracted),
            format!("{:.1}", group.mean_bits),
            group.mean_exposure.map_or_else(|| "-".to_owned(), |x| format!("{x:.2}")),
        ]);
    }
    table.fitted(&[])
}
