//! Which differences between the authors' program and the paper move the accuracy: all combinations of them, shape by shape.
//!
//! | | the program | the paper |
//! |---|---|---|
//! | draws | batches from a sample that is drawn once | pairs are uniform |
//! | accuracy | over the last 100 batches of that sample | over all associations |
//! | positions | added to what attention reads | added to the embeddings |
//! | heads where d_h differs from d | square, between two maps that all heads share | each with its own d by d_h maps |

use super::{Agreement, Claim, Paper, batches, over_all, over_last_batches};
use crate::model::Positions;
use crate::report::averages::{Mean, by_size};
use crate::report::numbers::thousands;
use crate::sweep::{JobRow, Record};
use crate::train::Sampling;
use byrote_figures::html::{Cell, Column, Exhibit, Section, Table};
use byrote_figures::{Axis, Figure, Line, MarkerForm, Points};
use serde_json::{Value, json};

/// A difference of accuracies below this is not worth a word.
const SMALL: f64 = 0.02;

/// Where positions are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Attention,
    Stream,
    Nowhere,
}

impl Place {
    fn words(self) -> &'static str {
        match self {
            Place::Attention => "in attention only",
            Place::Stream => "in the residual stream",
            Place::Nowhere => "none",
        }
    }
}

/// How batches are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Draws {
    Sample,
    Fresh,
    Once,
}

impl Draws {
    const ALL: [Draws; 3] = [Draws::Sample, Draws::Fresh, Draws::Once];

    fn words(self) -> &'static str {
        match self {
            Draws::Sample => "a fixed sample",
            Draws::Fresh => "fresh draws",
            Draws::Once => "every association once per epoch",
        }
    }

    fn form(self) -> MarkerForm {
        match self {
            Draws::Sample => MarkerForm::Circle,
            Draws::Fresh => MarkerForm::Square,
            Draws::Once => MarkerForm::Diamond,
        }
    }
}

/// The widths of the model and of a head, and the number of heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sizes {
    d: u64,
    d_h: u64,
    heads: u64,
}

impl Sizes {
    fn words(self) -> String {
        format!("d = {}, d_h = {}, H = {}", self.d, self.d_h, self.heads)
    }
}

/// One combination of the differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Variant {
    sizes: Sizes,
    bottleneck: bool,
    place: Place,
    draws: Draws,
}

impl Variant {
    fn of(row: &JobRow) -> Option<Self> {
        let config = row.settings.model.resolve(row.d_vocab, row.n_ctx).ok()?;
        row.settings.training.batch?;
        Some(Self {
            sizes: Sizes { d: config.shape.d_model, d_h: row.d_head, heads: row.n_heads },
            bottleneck: config.bottleneck,
            place: match (config.positions, config.positions_in_attention) {
                (Positions::None, _) => Place::Nowhere,
                (_, true) => Place::Attention,
                (_, false) => Place::Stream,
            },
            draws: match row.settings.training.sampling {
                Sampling::Sample => Draws::Sample,
                Sampling::Uniform => Draws::Fresh,
                Sampling::Epochs => Draws::Once,
            },
        })
    }

    /// The authors' program.
    fn program(sizes: Sizes) -> Self {
        Self { sizes, bottleneck: sizes.d != sizes.d_h, place: Place::Attention, draws: Draws::Sample }
    }
}

/// A run: its variant, its seed, and its accuracy over the last batches and over all associations.
struct Measured {
    variant: Variant,
    seed: u64,
    last: f64,
    all: f64,
}

/// One difference, undone.
#[derive(Debug, Clone, Copy)]
struct Change {
    words: &'static str,
    /// The same variant with the difference undone; `None` if it has none.
    undone: fn(Variant) -> Option<Variant>,
}

const CHANGES: [Change; 5] = [
    Change {
        words: "fresh draws instead of the fixed sample",
        undone: |v| (v.draws == Draws::Sample).then_some(Variant { draws: Draws::Fresh, ..v }),
    },
    Change {
        words: "every association once per epoch instead of the fixed sample",
        undone: |v| (v.draws == Draws::Sample).then_some(Variant { draws: Draws::Once, ..v }),
    },
    Change {
        words: "positions in the residual stream",
        undone: |v| (v.place == Place::Attention).then_some(Variant { place: Place::Stream, ..v }),
    },
    Change {
        words: "no positions",
        undone: |v| (v.place == Place::Attention).then_some(Variant { place: Place::Nowhere, ..v }),
    },
    Change {
        words: "maps of its own for every head",
        undone: |v| v.bottleneck.then_some(Variant { bottleneck: false, ..v }),
    },
];

/// Differences over seeds: the mean and the range.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Effect {
    mean: f64,
    low: f64,
    high: f64,
}

impl Effect {
    fn new(differences: &[f64]) -> Option<Self> {
        let (mean, ends) = by_size(differences.iter().map(|&d| (0.0, d)), Mean::Plain);
        Some(Self { mean: mean.first()?.1, low: ends.first()?.0, high: ends.first()?.1 })
    }

    fn words(self) -> String {
        format!("{} ({} to {})", signed(self.mean), signed(self.low), signed(self.high))
    }

    fn json(self) -> Value {
        json!({"mean": self.mean, "low": self.low, "high": self.high})
    }
}

fn signed(x: f64) -> String {
    format!("{x:+.3}").replace('-', "\u{2212}")
}

/// All runs of a page.
struct Runs(Vec<Measured>);

impl Runs {
    fn new(record: &Record) -> Self {
        let mut runs: Vec<Measured> = record
            .done()
            .filter_map(|row| {
                let (variant, last) = (Variant::of(row)?, over_last_batches(row)?);
                Some(Measured { variant, seed: row.settings.seed, last, all: over_all(row) })
            })
            .collect();
        runs.sort_by_key(|run| (run.variant, run.seed));
        Self(runs)
    }

    fn shapes(&self) -> Vec<Sizes> {
        let mut all: Vec<Sizes> = self.0.iter().map(|run| run.variant.sizes).collect();
        all.dedup();
        all
    }

    fn of(&self, variant: Variant) -> impl Iterator<Item = &Measured> {
        self.0.iter().filter(move |run| run.variant == variant)
    }

    fn mean(&self, variant: Variant, of: fn(&Measured) -> f64) -> Option<f64> {
        let values: Vec<f64> = self.of(variant).map(of).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// What a change does to a variant, seed by seed.
    fn differences(&self, from: Variant, to: Variant, of: fn(&Measured) -> f64) -> Vec<f64> {
        self.of(from)
            .filter_map(|before| {
                let after = self.of(to).find(|after| after.seed == before.seed)?;
                Some(of(after) - of(before))
            })
            .collect()
    }

    /// What a change does to the authors' program.
    fn effect(&self, sizes: Sizes, change: Change, of: fn(&Measured) -> f64) -> Option<Effect> {
        let from = Variant::program(sizes);
        Effect::new(&self.differences(from, (change.undone)(from)?, of))
    }

    /// What a change does on average over all variants that have the difference.
    fn effect_on_all(&self, sizes: Sizes, change: Change, of: fn(&Measured) -> f64) -> Option<Effect> {
        let mut variants: Vec<Variant> =
            self.0.iter().map(|run| run.variant).filter(|v| v.sizes == sizes).collect();
        variants.dedup();
        let of_one = |&v: &Variant| {
            let differences = self.differences(v, (change.undone)(v)?, of);
            Some(Effect::new(&differences)?.mean)
        };
        Effect::new(&variants.iter().filter_map(of_one).collect::<Vec<f64>>())
    }

    /// By how much accuracy over the last batches exceeds accuracy over all associations.
    fn excess(&self, variant: Variant) -> Option<Effect> {
        Effect::new(&self.of(variant).map(|run| run.last - run.all).collect::<Vec<f64>>())
    }
}

/// The page of the ablation.
pub(super) fn page(record: &Record) -> Paper {
    let runs = Runs::new(record);
    let mut sections = vec![summary(&runs)];
    sections.extend(runs.shapes().into_iter().map(|sizes| effects(&runs, sizes)));
    sections.push(everything(&runs));
    sections.push(trained(record));
    Paper {
        title: "dana2024: the published program and the paper".into(),
        subtitle: "Which of their differences moves the accuracy?".into(),
        claims: [accuracy_claim(&runs), heads_claim(&runs)].into_iter().flatten().collect(),
        sections,
        json: json!({ "variants": variants_json(&runs), "effects": effects_json(&runs) }),
        references: &["dana2024"],
    }
}

/// Accuracy is said to measure the memory: it does where every association counts alike.
fn accuracy_claim(runs: &Runs) -> Option<Claim> {
    let of = |draws: Draws| -> Vec<(Sizes, f64)> {
        let one = |sizes| Some((sizes, runs.excess(Variant { draws, ..Variant::program(sizes) })?.mean));
        runs.shapes().into_iter().filter_map(one).collect()
    };
    let (sample, fresh) = (of(Draws::Sample), of(Draws::Fresh));
    let list = |all: &[(Sizes, f64)]| {
        let one = |(sizes, excess): &(Sizes, f64)| format!("{} ({})", signed(*excess), sizes.words());
        all.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let most = sample.iter().map(|s| s.1.abs()).reduce(f64::max)?;
    let mut measured = format!(
        "with the fixed sample, accuracy over the last 100 batches minus accuracy over all associations is {}",
        list(&sample)
    );
    if !fresh.is_empty() {
        measured += &format!("; with fresh draws, {}", list(&fresh));
    }
    Some(Claim::new(
        "pairs are drawn uniformly, so that accuracy is a good measure of the associative memory.",
        measured + ".",
        if most <= SMALL { Agreement::Yes } else { Agreement::No },
    ))
}

/// Heads are said to have dimension d_h: in the program they share a space of that dimension.
fn heads_claim(runs: &Runs) -> Option<Claim> {
    let all: Vec<(Sizes, f64, f64)> = runs
        .shapes()
        .into_iter()
        .filter_map(|sizes| {
            let with = Variant::program(sizes);
            let without = Variant { bottleneck: false, ..with };
            let mean = |v| runs.mean(v, |run| run.all);
            with.bottleneck.then_some((sizes, mean(with)?, mean(without)?))
        })
        .collect();
    let most = all.iter().map(|(_, with, without)| (with - without).abs()).reduce(f64::max)?;
    let one = |(sizes, with, without): &(Sizes, f64, f64)| {
        format!("{with:.3} with the shared maps and {without:.3} without them ({})", sizes.words())
    };
    Some(Claim::new(
        "every head has its own maps between the d dimensions of the model and its d_h dimensions.",
        format!(
            "the program has one pair of such maps for all heads. Accuracy over all associations is {}.",
            all.iter().map(one).collect::<Vec<_>>().join("; ")
        ),
        if most <= SMALL { Agreement::Yes } else { Agreement::No },
    ))
}

/// Both accuracies of every variant, and the order of the effects.
fn summary(runs: &Runs) -> Section {
    let mut figure = Figure::new(
        "Both accuracies of every variant",
        Axis::linear("accuracy over all associations").range(0.0, 1.0),
        Axis::linear("accuracy over the last 100 batches").range(0.0, 1.0),
    )
    .line(Line::new("equal", "equal", [(0.0, 0.0), (1.0, 1.0)]));
    for draws in Draws::ALL {
        let mut variants: Vec<Variant> =
            runs.0.iter().map(|run| run.variant).filter(|v| v.draws == draws).collect();
        variants.dedup();
        let point = |&v: &Variant| Some((runs.mean(v, |run| run.all)?, runs.mean(v, |run| run.last)?));
        let points: Vec<(f64, f64)> = variants.iter().filter_map(point).collect();
        if !points.is_empty() {
            figure = figure.points(Points::new(draws.words(), draws.words(), points).form(draws.form()));
        }
    }
    let section = Section::new("What moves the accuracy").anchor("accuracy");
    let section = runs.shapes().into_iter().fold(section, |section, sizes| match order(runs, sizes) {
        Some(words) => section.paragraph(words),
        None => section,
    });
    section.exhibit(
        Exhibit::new(figure)
            .name("accuracies")
            .alt("Accuracy over the last 100 batches against accuracy over all associations, one point per variant.")
            .caption("One point per variant, averaged over seeds. On the line, both ways of measuring agree."),
    )
}

/// The changes to the authors' program at one shape, the largest effect first.
fn order(runs: &Runs, sizes: Sizes) -> Option<String> {
    let mut all: Vec<(&str, f64)> = CHANGES
        .iter()
        .filter_map(|&change| Some((change.words, runs.effect(sizes, change, |run| run.all)?.mean)))
        .collect();
    all.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let list: Vec<String> = all.iter().map(|(words, mean)| format!("{words} {}", signed(*mean))).collect();
    (!list.is_empty()).then(|| {
        format!(
            "At {}, each change to the authors' program moves accuracy over all associations by, from the largest to the \
             smallest: {}.",
            sizes.words(),
            list.join("; ")
        )
    })
}

/// The effect of every change at one shape.
fn effects(runs: &Runs, sizes: Sizes) -> Section {
    let columns = [
        Column::left("change"),
        Column::right("last 100 batches").unit("change of the program"),
        Column::right("all associations").unit("change of the program"),
        Column::right("all associations").unit("average over the other switches"),
    ];
    let caption = "Means of paired differences of accuracy, with the range over seeds; in the last column, with the range over \
                   all settings of the other switches.";
    let mut table = Table::new(caption, columns);
    let cell = |effect: Option<Effect>| effect.map_or_else(Cell::none, |e| e.words().into());
    for change in CHANGES {
        let of_program = runs.effect(sizes, change, |run| run.last);
        if of_program.is_none() {
            continue;
        }
        table = table.row([
            Cell::from(change.words),
            cell(of_program),
            cell(runs.effect(sizes, change, |run| run.all)),
            cell(runs.effect_on_all(sizes, change, |run| run.all)),
        ]);
    }
    let section = Section::new(sizes.words())
        .anchor(format!("effects-{}-{}-{}", sizes.d, sizes.d_h, sizes.heads))
        .table(table);
    match runs.excess(Variant::program(sizes)) {
        Some(excess) => section.paragraph(format!(
            "In the authors' program, accuracy over the last 100 batches minus accuracy over all associations is {}.",
            excess.words()
        )),
        None => section,
    }
}

/// Every variant with both accuracies.
fn everything(runs: &Runs) -> Section {
    let columns = [
        Column::left("shape"),
        Column::left("shared maps"),
        Column::left("positions"),
        Column::left("batches from"),
        Column::right("accuracy").unit("last 100 batches"),
        Column::right("accuracy").unit("all associations"),
    ];
    let mut table = Table::new("Every variant; means over the seeds.", columns);
    let mut variants: Vec<Variant> = runs.0.iter().map(|run| run.variant).collect();
    variants.dedup();
    let number = |x: Option<f64>| x.map_or_else(Cell::none, |x| format!("{x:.3}").into());
    for v in variants {
        table = table.row([
            Cell::from(v.sizes.words()),
            if v.bottleneck { "yes" } else { "no" }.into(),
            v.place.words().into(),
            v.draws.words().into(),
            number(runs.mean(v, |run| run.last)),
            number(runs.mean(v, |run| run.all)),
        ]);
    }
    Section::new("Every combination").anchor("variants").table(table)
}

/// Describes the training of the authors' program and what else was tried.
fn trained(record: &Record) -> Section {
    let program = record.done().find(|row| row.settings.training.sampling == Sampling::Sample);
    let words = program.map_or_else(String::new, |row| format!(": {}", batches(&row.settings.training)));
    let contexts = record.rows.first().map_or(0, |r| r.contexts);
    let tokens = record.rows.first().map_or(0, |r| r.d_vocab);
    Section::new("How it was trained").anchor("protocols").paragraph(format!(
        "Every pair of {tokens} tokens is followed by one token drawn at random: {} associations, the same in all runs. Every run \
         takes as many steps, with batches of the same size and at the same rates, as the authors' program{words}. With fresh \
         draws, every batch is drawn anew from all pairs; otherwise every pair occurs once per epoch.",
        thousands(contexts)
    ))
}

fn variants_json(runs: &Runs) -> Value {
    let mut variants: Vec<Variant> = runs.0.iter().map(|run| run.variant).collect();
    variants.dedup();
    variants
        .into_iter()
        .map(|v| {
            json!({
                "d_model": v.sizes.d,
                "d_head": v.sizes.d_h,
                "n_heads": v.sizes.heads,
                "bottleneck": v.bottleneck,
                "positions": v.place.words(),
                "batches_from": v.draws.words(),
                "accuracy_last_batches": runs.mean(v, |run| run.last),
                "accuracy": runs.mean(v, |run| run.all),
            })
        })
        .collect()
}

fn effects_json(runs: &Runs) -> Value {
    let one = |sizes: Sizes, change: Change| {
        Some(json!({
            "d_model": sizes.d,
            "d_head": sizes.d_h,
            "n_heads": sizes.heads,
            "change": change.words,
            "accuracy_last_batches": runs.effect(sizes, change, |run| run.last)?.json(),
            "accuracy": runs.effect(sizes, change, |run| run.all)?.json(),
            "accuracy_on_average": runs.effect_on_all(sizes, change, |run| run.all).map(Effect::json),
        }))
    };
    let all = |sizes| CHANGES.into_iter().filter_map(move |change| one(sizes, change));
    runs.shapes().into_iter().flat_map(all).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_paired_by_seed_and_averaged_over_the_other_switches() {
        let sizes = Sizes { d: 10, d_h: 5, heads: 20 };
        let program = Variant::program(sizes);
        assert!(program.bottleneck && !Variant::program(Sizes { d_h: 10, ..sizes }).bottleneck);
        let run = |variant, seed, all: f64| Measured { variant, seed, last: all + 0.05, all };
        let without = Variant { bottleneck: false, ..program };
        let fresh = |v| Variant { draws: Draws::Fresh, ..v };
        let mut runs = Runs(vec![
            run(program, 0, 0.2),
            run(program, 1, 0.3),
            run(without, 0, 0.5),
            run(without, 1, 0.7),
            run(fresh(program), 0, 0.3),
            run(fresh(without), 0, 0.9),
            // A seed that the program does not have.
            run(without, 7, 0.0),
        ]);
        runs.0.sort_by_key(|run| (run.variant, run.seed));
        let near = |e: Effect, (mean, low, high): (f64, f64, f64)| {
            assert!((e.mean - mean).abs() + (e.low - low).abs() + (e.high - high).abs() < 1e-12, "{e:?}");
        };
        let own_maps = CHANGES[4];
        near(runs.effect(sizes, own_maps, |run| run.all).unwrap(), (0.35, 0.3, 0.4));
        near(runs.effect_on_all(sizes, own_maps, |run| run.all).unwrap(), (0.475, 0.35, 0.6));
        near(runs.effect(sizes, CHANGES[0], |run| run.all).unwrap(), (0.1, 0.1, 0.1));
        assert_eq!(runs.effect(sizes, CHANGES[3], |run| run.all), None);
        near(runs.excess(program).unwrap(), (0.05, 0.05, 0.05));
        assert_eq!(
            Effect { mean: -0.25, low: -0.5, high: 0.0 }.words(),
            "\u{2212}0.250 (\u{2212}0.500 to +0.000)"
        );
    }
}
