//! morris2025: bits per parameter of small GPT-2 models on uniform random tokens.
//!
//! N sequences of S tokens, each drawn uniformly from V, have log2 V bits per token that can only be memorized. A model has
//! memorized the bits by which it shortens them: log2 V per prediction minus its loss. The first token of a sequence is given, not
//! predicted, so a sequence of 64 tokens has 63 predictions. The paper trains for a million steps; the budget of a run is stated
//! with its result, and what a longer run would reach is said only under rules that were fixed before the runs:
//!
//! - Bits per parameter against steps are read at [`SAMPLES`] steps, equally spaced on a logarithmic scale from step [`FIRST`]
//!   on, when the warm-up of L-BFGS is over. A law that saturates has to be supported by them (docs/laws.md).
//! - Fitted to the first half of the steps alone, the same law has to predict the last value to within [`FORESIGHT`].
//! - Then its limit and the 95% interval of that are reported, and otherwise nothing.
//!
//! A model is judged by its run with the most bits, among those that were offered at least 4.2 bits per parameter: fewer cannot fill it. It agrees with the paper if it has memorized 3.5 to 4.2 bits per parameter, nearly
//! agrees if it has memorized less and the interval of the limit meets that range, and does not agree if it has memorized
//! more or the interval lies outside. Without a limit, fewer bits decide nothing: a longer run might find more.
//!
//! Reference: J. X. Morris et al., "How much do language models memorize?", arXiv:2505.24832 (2025).

use super::{Agreement, Claim, Paper, layers, n_layers};
use crate::Result;
use crate::fit::{self, CompareSettings, FitMethod, Law, Point};
use crate::report::numbers::{brief, thousands};
use crate::sweep::{JobRow, Record};
use byrote_figures::html::{Cell, Column, Exhibit, Section, Table};
use byrote_figures::{Axis, Figure, Line};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::f64::consts::LN_2;
use std::ops::RangeInclusive;

/// The bits per parameter that the paper reports for its models, in single and half precision.
const PUBLISHED: RangeInclusive<f64> = 3.5..=4.2;
/// The first step that laws are fitted to, and the number of steps.
const FIRST: f64 = 300.0;
const SAMPLES: usize = 24;
/// How well a law fitted to the first half has to predict the last value.
const FORESIGHT: f64 = 0.02;
/// The laws with a limit, and one without: a + b x^p has the limit a if p is negative.
const LAWS: &[Law] =
    &[Law::PowerOffset, Law::Hyperbola, Law::SaturatingExponential, Law::Logistic, Law::Logarithmic];

/// A run: how many bits it had memorized after how many steps.
struct Run<'a> {
    row: &'a JobRow,
    /// Bits that the corpus offers.
    offered: f64,
    /// Steps and bits.
    curve: Vec<(f64, f64)>,
    limit: Option<Limit>,
}

/// What a run would reach.
struct Limit {
    law: Law,
    value: f64,
    low: f64,
    high: f64,
}

impl<'a> Run<'a> {
    fn new(record: &Record, row: &'a JobRow) -> Option<Self> {
        let loss = row.result.as_ref()?.loss_nats;
        let tokens = row.settings.corpus.d_vocab? as f64;
        let offered = row.predictions as f64 * tokens.log2();
        let bits = |loss: f64| offered - loss / LN_2;
        let gaps = record.curves.get(&row.job).map_or(&[][..], Vec::as_slice);
        let mut curve: Vec<(f64, f64)> =
            gaps.iter().map(|&(step, gap)| (step, bits(gap + row.floor_nats))).collect();
        if curve.is_empty() {
            curve.push((row.result.as_ref()?.steps as f64, bits(loss)));
        }
        let mut run = Self { row, offered, curve, limit: None };
        run.limit = run.limit();
        Some(run)
    }

    fn parameters(&self) -> f64 {
        self.row.parameters as f64
    }

    /// Bits per parameter at the end.
    fn bits(&self) -> f64 {
        self.curve.last().map_or(0.0, |p| p.1 / self.parameters())
    }

    fn offered(&self) -> f64 {
        self.offered / self.parameters()
    }

    /// Bits per parameter at steps that are equally spaced on a logarithmic scale, up to `last`.
    fn samples(&self, last: f64) -> Vec<Point> {
        let later = || self.curve.iter().filter(|p| p.0 >= FIRST && p.0 <= last);
        let (Some(first), Some(end)) = (later().next(), later().next_back()) else { return Vec::new() };
        let mut samples: Vec<Point> = Vec::new();
        for i in 0..SAMPLES {
            let at = first.0 * (end.0 / first.0).powf(i as f64 / (SAMPLES - 1) as f64);
            let near = later().min_by(|a, b| (a.0 - at).abs().total_cmp(&(b.0 - at).abs()));
            let Some(&(step, bits)) = near else { continue };
            if samples.last().is_none_or(|p| p.x < step) {
                samples.push(Point::new(step, bits / self.parameters(), 0));
            }
        }
        samples
    }

    /// The limit, if the rules allow one.
    fn limit(&self) -> Option<Limit> {
        let (last_step, last) = *self.curve.last()?;
        let points = fit::Points::new(self.samples(last_step)).ok()?;
        let comparison = fit::compare(&points, LAWS, &CompareSettings::default()).ok()?;
        let earlier = fit::Points::new(self.samples(0.5 * last_step)).ok()?;
        let limited = comparison.verdict.laws().iter().filter_map(|&law| {
            let row = comparison.row(law)?;
            let value = end_of(law, &row.fit.as_ref()?.values())?;
            let foreseen = fit::fit(&earlier, law, &FitMethod::default()).ok()?.value(last_step);
            let last = last / self.parameters();
            let (low, high) = row.replicates.as_ref()?.of(|v| end_of(law, v).unwrap_or(f64::NAN))?;
            ((foreseen - last).abs() <= FORESIGHT * last).then_some(Limit { law, value, low, high })
        });
        limited.into_iter().next()
    }
}

/// The limit of a law for many steps; `None` if it has none.
fn end_of(law: Law, values: &[f64]) -> Option<f64> {
    let named = |name: &str| Some(values[law.parameters().iter().position(|&p| p == name)?]);
    match law {
        Law::PowerOffset => named("a").filter(|_| named("p").is_some_and(|p| p < 0.0)),
        Law::Hyperbola | Law::SaturatingExponential => named("a"),
        Law::Logistic => named("b").filter(|_| named("s").is_some_and(|s| s > 0.0)),
        _ => None,
    }
}

/// The verdict on the run with the most bits of one model.
fn agrees(bits: f64, limit: Option<(f64, f64)>) -> Agreement {
    let (least, most) = (*PUBLISHED.start(), *PUBLISHED.end());
    match limit {
        _ if PUBLISHED.contains(&bits) => Agreement::Yes,
        _ if bits > most => Agreement::No,
        Some((low, high)) if low <= most && high >= least => Agreement::Nearly,
        Some(_) => Agreement::No,
        None => Agreement::Open,
    }
}

fn model(row: &JobRow) -> String {
    format!("{}, width {}", layers(n_layers(row)), row.settings.model.width())
}

/// The page.
pub(super) fn page(record: &Record) -> Result<Paper> {
    let runs: Vec<Run<'_>> = record.done().filter_map(|row| Run::new(record, row)).collect();
    let mut models: BTreeMap<(u64, u64), Vec<&Run<'_>>> = BTreeMap::new();
    for run in &runs {
        models.entry((run.row.settings.model.width(), n_layers(run.row))).or_default().push(run);
    }
    let (mut claims, mut json) = (Vec::new(), Vec::new());
    for runs in models.values() {
        let judged = runs.iter().filter(|run| run.offered() >= *PUBLISHED.end());
        if let Some(best) = judged.max_by(|a, b| a.bits().total_cmp(&b.bits())) {
            claims.push(claim(best));
        }
        json.extend(runs.iter().map(|run| run_json(run)));
    }
    Ok(Paper {
        title: "morris2025: bits per parameter of small models".into(),
        subtitle: "How many bits of random tokens a GPT-2 model can store, by parameter and by budget."
            .into(),
        claims,
        sections: vec![section(&runs), setting(&runs)],
        json: json!({ "runs": json }),
        references: &["morris2025"],
    })
}

fn claim(best: &Run<'_>) -> Claim {
    let limit = match &best.limit {
        Some(l) => format!(
            "The {} law that these steps follow has the limit {} ({} to {}).",
            l.law,
            brief(l.value),
            brief(l.low),
            brief(l.high)
        ),
        None => "These steps support no law that says where it would end.".into(),
    };
    let result = best.row.result.as_ref();
    let measured = format!(
        "with {} ({} parameters), {} bits per parameter after {} full-batch steps of L-BFGS ({} evaluations) on {} sequences, which \
         offer {}. {limit}",
        model(best.row),
        thousands(best.row.parameters),
        brief(best.bits()),
        thousands(result.map_or(0, |r| r.steps)),
        thousands(result.map_or(0, |r| r.evaluations)),
        thousands(best.row.documents),
        brief(best.offered())
    );
    let limit = best.limit.as_ref().map(|l| (l.low, l.high));
    Claim::new(
        "models of this family hold 3.5 to 4.2 bits per parameter, the smallest ones most, after about a million steps.",
        measured,
        agrees(best.bits(), limit),
    )
}

fn run_json(run: &Run<'_>) -> Value {
    json!({
        "n_layers": n_layers(run.row),
        "d_model": run.row.settings.model.width(),
        "parameters": run.row.parameters,
        "sequences": run.row.documents,
        "steps": run.row.result.as_ref().map(|r| r.steps),
        "offered_bits_per_parameter": run.offered(),
        "bits_per_parameter": run.bits(),
        "limit": run.limit.as_ref().map(|l| json!({"law": l.law, "value": l.value, "low": l.low, "high": l.high})),
    })
}

fn section(runs: &[Run<'_>]) -> Section {
    let mut figure = Figure::new(
        "Bits per parameter while training",
        Axis::log("steps"),
        Axis::linear("bits memorized per parameter").from_zero(),
    )
    .legend();
    let columns = [
        Column::left("model"),
        Column::right("parameters"),
        Column::right("sequences"),
        Column::right("bits offered").unit("per parameter"),
        Column::right("steps"),
        Column::right("bits memorized").unit("per parameter"),
        Column::right("of those offered"),
        Column::left("limit").unit("with 95% interval"),
    ];
    let mut table = Table::new("All runs, by model and by what they were offered.", columns);
    for (i, run) in runs.iter().enumerate() {
        let name = format!("{}, {} sequences", model(run.row), thousands(run.row.documents));
        let points = run.curve.iter().filter(|p| p.0 >= 1.0).map(|p| (p.0, p.1 / run.parameters()));
        let points: Vec<(f64, f64)> = thinned(points.collect());
        figure = figure.line(Line::new(format!("run {i}"), name, points));
        let limit = run.limit.as_ref();
        table = table.row([
            Cell::from(model(run.row)),
            thousands(run.row.parameters).into(),
            thousands(run.row.documents).into(),
            brief(run.offered()).into(),
            thousands(run.row.result.as_ref().map_or(0, |r| r.steps)).into(),
            brief(run.bits()).into(),
            format!("{:.0}%", 100.0 * run.bits() / run.offered()).into(),
            limit.map_or_else(Cell::none, |l| {
                format!("{} ({} to {}), {} law", brief(l.value), brief(l.low), brief(l.high), l.law).into()
            }),
        ]);
    }
    let figure =
        figure.horizontal(*PUBLISHED.start(), "3.5").horizontal(*PUBLISHED.end(), "4.2 bits: morris2025");
    Section::new("Bits against steps")
        .anchor("bits")
        .exhibit(
            Exhibit::new(figure)
                .name("bits")
                .alt("Bits memorized per parameter against training steps, one line per model and number of sequences.")
                .caption(
                    "Sequences that offer few bits are soon memorized whole. The capacity of a model shows where more are offered than it \
                     can store.",
                ),
        )
        .table(table)
}

/// At most a few hundred points of a curve, closer together at its start.
fn thinned(curve: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let last = curve.len().saturating_sub(1);
    let mut kept: Vec<(f64, f64)> = Vec::new();
    for (i, point) in curve.into_iter().enumerate() {
        if i == last || kept.last().is_none_or(|p| point.0 >= 1.02 * p.0) {
            kept.push(point);
        }
    }
    kept
}

fn setting(runs: &[Run<'_>]) -> Section {
    let (tokens, length) = runs
        .first()
        .map_or((0, 0), |run| (run.row.settings.corpus.d_vocab.unwrap_or_default(), run.row.n_ctx + 1));
    Section::new("How it was measured")
        .anchor("setting")
        .paragraph(format!(
            "GPT-2 models with the output tied to the embedding, on sequences of {length} tokens drawn uniformly from {}, as in the paper. Every \
             token but the first is predicted from those before it. Embeddings and positions count as parameters. Training uses all sequences at \
             every step, in single precision; the paper trains with Adam for a million steps.",
            thousands(tokens)
        ))
        .list([
            format!(
                "A limit is reported only if a law that saturates is supported by {SAMPLES} steps from step {FIRST} on, and if that law, \
                 fitted to the first half of the steps, predicts the last value to within {:.0}%.",
                100.0 * FORESIGHT
            ),
            "A model is judged by runs that offer it at least 4.2 bits per parameter. It agrees with the paper if it has memorized 3.5 to 4.2 bits per parameter, and nearly agrees if it has memorized \
             less and the interval of the limit meets that range. Without a limit, fewer bits decide nothing."
                .to_owned(),
        ])
        .note("These rules were fixed before the runs, except that only runs offered at least 4.2 bits per parameter are judged: that one was added after a run with 300 sequences. Intervals of limits assume independent errors, which the steps of one run do not have: they are too narrow rather than too wide.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_judged_by_what_it_has_memorized_and_by_its_limit() {
        assert_eq!(agrees(3.7, None), Agreement::Yes);
        assert_eq!(agrees(4.5, None), Agreement::No);
        assert_eq!(agrees(2.5, None), Agreement::Open);
        assert_eq!(agrees(2.5, Some((3.2, 3.6))), Agreement::Nearly);
        assert_eq!(agrees(2.5, Some((2.6, 3.4))), Agreement::No);
    }

    #[test]
    fn laws_that_grow_for_ever_have_no_limit() {
        assert_eq!(end_of(Law::PowerOffset, &[3.0, -1.0, -0.5]), Some(3.0));
        assert_eq!(end_of(Law::PowerOffset, &[3.0, 1.0, 0.5]), None);
        assert_eq!(end_of(Law::Hyperbola, &[2.5, 100.0]), Some(2.5));
        assert_eq!(end_of(Law::Logarithmic, &[1.0, 0.3]), None);
    }

    #[test]
    fn a_thinned_curve_keeps_its_ends() {
        let curve: Vec<(f64, f64)> = (1..=5000).map(|i| (f64::from(i), 0.0)).collect();
        let kept = thinned(curve);
        assert!(kept.len() < 500 && kept[0].0 == 1.0 && kept[kept.len() - 1].0 == 5000.0);
    }
}
