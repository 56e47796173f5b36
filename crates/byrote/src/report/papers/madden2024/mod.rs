//! madden2024, figure 1: the gap by contexts and width, and the parameters that reach the floor against contexts.
//!
//! Reference: L. Madden, C. Fox, C. Thrampoulidis, arXiv:2405.13718v1 (2024), section 7, Theorem 5, Lemma 1.

mod depth;
mod mixers;
pub mod theorem1;

use super::{Agreement, Claim, Paper, agreement, law_json};
use crate::Result;
use crate::bounds::madden2024::min_parameters;
use crate::fit::{self, Comparison, Law, ResidualScale};
use crate::report::laws::{Answer, Question};
use crate::report::numbers::brief;
use crate::report::sweep_page::{LEVEL, Smallest, averaged, map, smallest};
use crate::sweep::{JobRow, Record};
use crate::train::{Optimizer, Trained};
use byrote_figures::html::{Exhibit, Section};
use byrote_figures::{Axis, Figure, Line, Points};
use serde_json::{Value, json};

pub(super) use depth::page as depth;
pub(super) use mixers::page as mixers;

/// The page of figure 1.
pub(super) fn fig1(record: &Record) -> Result<Paper> {
    let rows = |trained: Trained| -> Vec<&JobRow> {
        record.done().filter(|r| r.settings.training.train_only == trained).collect()
    };
    let (all, feed_forward) = (rows(Trained::All), rows(Trained::FeedForward));
    let (falls, rises) = (trend(&all, Along::Width), trend(&all, Along::Contexts));
    let mut claims = vec![Claim::new(
        "the gap trends downwards as the width m increases and the number of contexts n decreases (figure 1, left).",
        format!(
            "of two widths, the larger has the smaller gap in {} of {} cases; of two corpora, the larger has the larger gap \
             in {} of {}.",
            falls.0, falls.1, rises.0, rises.1
        ),
        trend_agrees(&[falls, rises]),
    )];
    let mut json = json!({
        "gap_falls_with_width": {"cases": falls.1, "of_them": falls.0},
        "gap_rises_with_contexts": {"cases": rises.1, "of_them": rises.0},
    });
    let (smallest, law) = smallest_section(&all, &feed_forward)?;
    if let Some((claim, law)) = law {
        claims.push(claim);
        json["smallest"] = law;
    }
    let mut sections = vec![map_section(record, &all), smallest];
    sections.extend(feed_forward_section(&feed_forward));
    Ok(Paper {
        title: "madden2024, figure 1: parameters and contexts".into(),
        subtitle: "How wide a one-layer transformer must be to train to the floor.".into(),
        claims,
        sections,
        json,
        references: &["madden2024"],
    })
}

/// The map of gaps, with how it was made.
fn map_section(record: &Record, all: &[&JobRow]) -> Section {
    let training = record.rows.first().map(|r| &r.settings.training);
    let optimizer = match training.map(|t| t.optimizer) {
        Some(Optimizer::Adam) => "Adam at a rate of 1e-4 for 50,000 steps, as published",
        _ => {
            "L-BFGS after a warm-up by Adam (published: Adam at 1e-4 for 50,000 steps, as in the full version)"
        }
    };
    let stop = match training.and_then(|t| t.stop_relative_gap) {
        Some(r) if r > 0.0 => format!(
            " Training stops at {}% of the floor, which the darkest cells of a corpus have reached.",
            brief(100.0 * r)
        ),
        _ => String::new(),
    };
    let section = Section::new("The gap by contexts and width").anchor("map").paragraph(format!(
        "One head, width 16, sinusoidal positions, GELU neurons, contexts of up to 9 tokens of the built-in stories, trained \
         on all contexts at once with {optimizer}. The published figure uses subsets of TinyStories.{stop}"
    ));
    match map(all, "The gap to the floor") {
        Some(figure) => section.exhibit(
            Exhibit::new(figure)
                .name("map")
                .alt("The gap to the floor by contexts and hidden neurons: it falls with the neurons and rises with the contexts.")
                .caption("Means over seeds. Darker is closer to the floor."),
        ),
        None => section,
    }
}

/// The smallest models against contexts; where some are known, also the claim about them and their law as JSON.
fn smallest_section(all: &[&JobRow], feed_forward: &[&JobRow]) -> Result<(Section, Option<(Claim, Value)>)> {
    let section = Section::new("The smallest model that reaches the floor").anchor("smallest");
    let found = smallest(all)?;
    let Ok(points) = fit::Points::new(found.points.iter().copied()) else {
        return Ok((section.note("No model of this run has come within 1% of the floor yet."), None));
    };
    let question = Question {
        name: "smallest",
        title: "Parameters to 1% of the floor, against contexts",
        x: Axis::linear("distinct contexts"),
        y: Axis::log("parameters"),
        points: &points,
        laws: &[Law::Proportional, Law::Linear, Law::Quadratic, Law::Power],
        drawn: Law::Linear,
        // A threshold is uncertain by a factor, so its errors are equal on the scale of ln y.
        scale: ResidualScale::Relative,
    };
    let answer = question.answer()?;
    let frozen = smallest(feed_forward)?;
    let section = section.exhibit(
        Exhibit::new(smallest_figure(&found, &frozen, &answer, all))
            .name("smallest")
            .alt("Parameters needed to come within 1% of the floor against the number of distinct contexts.")
            .caption(
                "Theorem 5 guarantees that one neuron per context is enough for any text; Lemma 1 gives the number of \
                 parameters that some choice of distributions on this many contexts needs. Real text is easier than that \
                 worst case: training needs fewer.",
            ),
    );
    let mut section = question.show(section.table(found.table("Training every weight.")), &answer);
    if !frozen.by_corpus.is_empty() {
        section = section.table(frozen.table("Training the hidden layer and the output only."));
    }
    let claim = Claim::new(
        "the parameters required to reach the floor seem to be roughly linear in the contexts (figure 1, right).",
        slope(&answer.comparison),
        agreement(&answer.comparison, &[Law::Linear, Law::Proportional]),
    );
    Ok((section, Some((claim, law_json(&answer.comparison)))))
}

/// The smallest models with the law through them and the two theorems.
fn smallest_figure(found: &Smallest, frozen: &Smallest, answer: &Answer, all: &[&JobRow]) -> Figure {
    let corpora = corpora(all);
    let line =
        |f: &dyn Fn(&JobRow) -> f64| corpora.iter().map(|r| (r.contexts as f64, f(r))).collect::<Vec<_>>();
    let figure = found
        .with_intervals(answer.figure.clone())
        .line(Line::new("theorem5", "Theorem 5: enough", line(&|r| with_neurons(r, r.contexts))).dashed())
        .line(
            Line::new(
                "lemma1",
                "Lemma 1: needed in the worst case",
                line(&|r| min_parameters(r.contexts, r.d_vocab) as f64),
            )
            .dashed(),
        )
        .dash_key("measured and fitted", "theorems");
    if frozen.points.is_empty() {
        return figure;
    }
    let points = frozen.points.iter().map(|p| (p.x, p.y));
    figure.points(
        Points::new("feed-forward", "training the feed-forward part only", points)
            .with_errors(frozen.ends.iter().copied()),
    )
}

/// The slope of the line, with its interval, and what the comparison says.
fn slope(comparison: &Comparison) -> String {
    let slope = comparison.row(Law::Linear).and_then(|row| {
        let b = row.fit.as_ref()?.parameters.iter().find(|p| p.name == "b")?.value;
        Some((b, row.replicates.as_ref().and_then(|r| r.interval("b"))))
    });
    let sentence = &comparison.sentence;
    match slope {
        Some((b, Some(i))) => format!(
            "{} more parameters per context (95% interval: {} to {}); {sentence}.",
            brief(b),
            brief(i.low),
            brief(i.high)
        ),
        Some((b, None)) => format!("{} more parameters per context; {sentence}.", brief(b)),
        None => format!("{sentence}."),
    }
}

/// The map of gaps with embeddings and attention as they were drawn.
fn feed_forward_section(rows: &[&JobRow]) -> Option<Section> {
    let figure = map(rows, "The gap, training the feed-forward part only")?;
    let section = Section::new("Only the feed-forward part")
        .anchor("feed-forward")
        .paragraph(
            "Theorem 5 draws embeddings and attention at random and stores the text in the hidden layer and the output alone. \
             Here only these are trained; everything before them stays as it was drawn.",
        )
        .exhibit(
            Exhibit::new(figure)
                .name("map-feed-forward")
                .alt("The gap to the floor by contexts and hidden neurons, with embeddings and attention frozen.")
                .caption("Means over seeds."),
        );
    Some(section)
}

/// The parameters that the model of a row would have with this number of neurons.
fn with_neurons(row: &JobRow, neurons: u64) -> f64 {
    let config = |d_mlp: u64| {
        let mut model = row.settings.model;
        model.d_mlp = Some(d_mlp);
        model.resolve(row.d_vocab, u64::from(row.settings.corpus.n_ctx.unwrap_or(9)))
    };
    config(neurons).map_or(f64::NAN, |c| c.n_parameters() as f64)
}

/// One row per corpus, in order of contexts.
fn corpora<'a>(rows: &[&'a JobRow]) -> Vec<&'a JobRow> {
    let mut all: Vec<&JobRow> = rows.to_vec();
    all.sort_by_key(|r| r.contexts);
    all.dedup_by_key(|r| r.contexts);
    all
}

enum Along {
    Width,
    Contexts,
}

/// Counts the pairs of widths (or corpora) in which the larger one has the smaller (or larger) mean gap, and all pairs. Pairs of
/// models that both stopped below the level do not count: where they would have ended is not known.
fn trend(rows: &[&JobRow], along: Along) -> (usize, usize) {
    let place = |r: &JobRow| match along {
        Along::Width => (r.contexts, r.d_mlp),
        Along::Contexts => (r.d_mlp, r.contexts),
    };
    let mut seen: Vec<((u64, u64), f64, f64)> = Vec::new();
    let mut all: Vec<&&JobRow> = rows.iter().collect();
    all.sort_by_key(|r| place(r));
    for part in all.chunk_by(|a, b| place(a) == place(b)) {
        let gaps = part.iter().filter_map(|r| Some((0.0, r.result.as_ref()?.gap_nats)));
        let relative = part.iter().filter_map(|r| Some((0.0, r.relative_gap()?)));
        if let (Some(gap), Some(relative)) = (averaged(gaps).0.first(), averaged(relative).0.first()) {
            seen.push((place(part[0]), gap.1, relative.1));
        }
    }
    let (mut good, mut n) = (0, 0);
    for (i, small) in seen.iter().enumerate() {
        for large in seen[i + 1..].iter().filter(|l| l.0.0 == small.0.0 && (l.2 > LEVEL || small.2 > LEVEL)) {
            n += 1;
            good += usize::from(match along {
                Along::Width => large.1 < small.1,
                Along::Contexts => large.1 > small.1,
            });
        }
    }
    (good, n)
}

fn trend_agrees(trends: &[(usize, usize)]) -> Agreement {
    if trends.iter().any(|t| t.1 == 0) {
        return Agreement::Open;
    }
    match trends.iter().map(|t| t.0 as f64 / t.1 as f64).fold(1.0, f64::min) {
        worst if worst >= 0.9 => Agreement::Yes,
        worst if worst >= 0.7 => Agreement::Nearly,
        _ => Agreement::No,
    }
}
