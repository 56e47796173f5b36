//! Models in closed form as text.

use super::TextTable;
use super::evaluation::figures;
use super::model::parts;
use crate::construct::kajitsuka2024::{self, ExactFile};
use crate::construct::{dana2024, madden2024};
use crate::evaluate::Evaluation;
use crate::model::Counting;
use crate::units::{grouped, grouped_number, significant};
use std::fmt::Write as _;

/// Returns what the construction of madden2024 reports: name, value and note of each row.
pub fn madden2024(report: &madden2024::Report) -> Vec<[String; 3]> {
    let solver = match report.solver {
        madden2024::Solver::Sorted => "sorted: a step between every two neighbours along one direction",
        madden2024::Solver::Pairs => {
            "pairs: random hyperplanes halfway between two contexts, one linear system"
        }
        madden2024::Solver::Ramps => "ramps: a piecewise linear function along one direction",
        madden2024::Solver::Sampled => "sampled: small random weights, one linear system",
    };
    let mut rows = vec![
        ["largest logit error".into(), significant(report.max_logit_error, 2), solver.into()],
        [
            "neurons per context".into(),
            format!("{:.3}", report.neurons_per_context),
            format!("output matrix: {:.2}% of its entries are not 0", 100.0 * report.output_density),
        ],
    ];
    if let Some(gap) = report.relative_gap {
        let note = "smallest distance between two contexts, relative to the range";
        rows.push(["smallest gap".into(), significant(gap, 2), note.into()]);
    }
    if let Some(condition) = report.condition {
        let note = "an estimate (1-norm) of the condition number of the features";
        rows.push(["condition".into(), significant(condition, 2), note.into()]);
    }
    let note = if report.retries == 0 { "the first draw was good" } else { "draws before a good one" };
    rows.push(["retries".into(), report.retries.to_string(), note.into()]);
    rows
}

/// Returns what the construction of dana2024 reports: name, value and note of each row.
pub fn dana2024(report: &dana2024::Report) -> Vec<[String; 3]> {
    let count = |n: usize| grouped(n as u64);
    let how = match report.solver {
        dana2024::Method::Exact => "exact: every context gets the intended logits",
        dana2024::Method::Refit => {
            "refit: more contexts than capacity; the last maps fit all of them as well as possible"
        }
        dana2024::Method::Truncate => "truncate: the most frequent contexts get the intended logits",
    };
    let mut rows = vec![
        ["largest logit error".into(), significant(report.max_logit_error, 2), how.into()],
        [
            "capacity".into(),
            count(report.capacity),
            format!(
                "contexts at most: {} heads of min({}, {}) dimensions, and {} distinct last tokens",
                grouped(report.n_heads),
                report.d_head,
                report.d_model,
                count(report.census.distinct_last_tokens)
            ),
        ],
    ];
    if report.solver != dana2024::Method::Refit {
        rows.push(["stored exactly".into(), count(report.stored), "contexts".into()]);
    }
    rows.push([
        "Corollary 2".into(),
        format!("{:.2}%", 100.0 * report.corollary2_accuracy),
        "of contexts right on average over random labels; not a guarantee".into(),
    ]);
    let encoder = &report.encoder;
    let note = match (report.task, encoder.exact) {
        (dana2024::Task::Association, _) => format!("nats: that of codes of dimension {}", encoder.rank),
        (_, true) => format!("nats: smoothing alone, as {} dimensions hold all distributions", encoder.rank),
        (_, false) => {
            format!("nats: about what any output that reads {} numbers leaves (an estimate)", encoder.rank)
        }
    };
    rows.push(["gap of the encoder".into(), significant(encoder.gap_nats.0, 4), note]);
    if let Some([least_squares, convex, _]) = report.refit_gaps_nats {
        let note =
            format!("nats after the convex descent, {} after least squares", significant(least_squares.0, 4));
        rows.push(["intermediate gap".into(), significant(convex.0, 4), note]);
    }
    if let Some(condition) = report.condition {
        let note = "an estimate (1-norm) of the condition number of the features";
        rows.push(["condition".into(), significant(condition, 2), note.into()]);
    }
    let note = if report.retries == 0 { "the first draw was good" } else { "draws before a good one" };
    rows.push(["retries".into(), report.retries.to_string(), note.into()]);
    rows
}

/// Shows a model in closed form; `rows` are those of its construction.
pub fn closed_form(
    title: &str,
    method: &str,
    parameters: usize,
    found: &Evaluation,
    rows: Vec<[String; 3]>,
) -> String {
    let mut table = TextTable::new(&["contexts", &grouped(found.contexts), ""], &[0, 2]);
    figures(&mut table, found);
    table.rows(rows);
    let parameters = grouped(parameters as u64);
    format!("{title}: {method}, {parameters} parameters, no training\n\n{}", table.render())
}

/// Says how many contexts of a corpus have several next tokens.
fn contradictions(n: Option<u64>) -> String {
    match n {
        None => String::new(),
        Some(0) => "every context has one next token".into(),
        Some(n) => {
            format!("{} contexts have several next tokens; the most frequent one is memorized", grouped(n))
        }
    }
}

/// Shows the literal construction of madden2024, the proof in arithmetic of hundreds of bits.
pub fn literal(title: &str, report: &madden2024::literal::LiteralReport) -> String {
    let contexts = grouped(report.contexts as u64);
    let mut out = format!("{title}: madden2024, the proof taken literally, {contexts} contexts\n\n");
    let mut table = TextTable::new(&["bits", &report.bits.to_string(), "after the point"], &[0, 2]);
    let rows = [
        ("largest logit error", significant(report.max_logit_error, 2), "with that many bits".to_owned()),
        (
            "in double precision",
            report.max_logit_error_in_f64.map_or("-".into(), |e| significant(e, 2)),
            "the same weights, rounded".into(),
        ),
        ("condition", format!("2^{:.0}", report.log2_condition), "of the features".into()),
        ("largest weight", format!("2^{:.0}", report.log2_largest_weight), "of the output".into()),
        (
            "features",
            if report.certified_regular { "regular" } else { "not proven" }.into(),
            match report.certified_regular {
                true => "proven in exact arithmetic, on the weights as they are stored",
                false => "their regularity could not be proven with that many bits",
            }
            .into(),
        ),
        (
            "smallest gap",
            significant(report.smallest_gap, 2),
            "between the absolute values of two contexts".into(),
        ),
        ("retries", report.retries.to_string(), String::new()),
    ];
    for (name, value, note) in rows {
        table.row(vec![name.into(), value, note]);
    }
    out += &table.render();
    out
}

/// Shows an exact network that was built. `contradictory` is the number of contexts with several next tokens, where the
/// samples come from a corpus.
pub fn kajitsuka2024(
    title: &str,
    file: &ExactFile,
    built: &kajitsuka2024::Built,
    samples: &kajitsuka2024::Samples,
    contradictory: Option<u64>,
    seconds: f64,
) -> String {
    let model = &built.model;
    let (tally, count) = (model.network.tally(), file.parameters());
    let n = samples.len();
    let mut out = format!(
        "{title}: kajitsuka2024, {}, {} non-zero parameters ({} dense) for {} facts\n\n",
        model.method.name(),
        grouped(count.total(Counting::Nonzero)),
        grouped(count.total(Counting::Dense)),
        grouped(n as u64)
    );
    let mut table = TextTable::new(
        &["verified", &grouped(built.verified as u64), "samples, all of them, exactly, by both evaluators"],
        &[0, 2],
    );
    let mut row = |name: &str, value: String, note: String| table.row(vec![name.into(), value, note]);
    let tables = match count.label_table {
        0 => format!("{} in the embedding", grouped(count.embedding)),
        entries => format!(
            "{} in the embedding and {} in the label table",
            grouped(count.embedding),
            grouped(entries)
        ),
    };
    for counting in Counting::ALL {
        let total = count.total(counting);
        let (name, what) = match counting {
            Counting::Nonzero => ("parameters", "weights that are not 0"),
            Counting::Dense => ("dense", "entries of all matrices"),
        };
        let note = format!(
            "{} {what}, {tables}; {:.3} per fact",
            grouped(count.network(counting)),
            total as f64 / n as f64
        );
        row(name, grouped(total), note);
    }
    if model.method == kajitsuka2024::Method::Bounded
        && let Some(guarantee) = built.guarantee
    {
        row(
            "guarantee",
            grouped(guarantee),
            "non-zero parameters at most, for any labels of these contexts with the ids found here".into(),
        );
    }
    row("labels", grouped(samples.task().labels), contradictions(contradictory));
    row(
        "layers",
        grouped(tally.depth as u64),
        format!("of at most {} neurons on {} channels", model.network.width(), model.network.channels()),
    );
    row("longest weight", grouped(tally.largest_bits as u64), "bits".into());
    let (bits, least) = (file.size().total_bits, samples.information_bits());
    let note = match least.0 > 0.0 {
        true => format!(
            "bits, {:.1} times the {} of the labels alone",
            bits as f64 / least.0,
            grouped_number(least, 0)
        ),
        false => "bits".into(),
    };
    row("all weights", grouped(bits as u64), note);
    row("seconds", format!("{seconds:.2}"), "building and verifying".into());
    out += &table.render();
    let _ = write!(out, "\n{}", parts(&model.network).render());
    out += "\nThe network saves parameters, not storage: a plain table of the labels has fewer bits than these weights.\n";
    out
}
