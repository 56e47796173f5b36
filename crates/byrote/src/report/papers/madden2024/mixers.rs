//! madden2024: attention (Theorem 5) and token averaging (Theorem 7) as trained mixers, at equal parameters.
//!
//! Reference: L. Madden, C. Fox, C. Thrampoulidis, arXiv:2405.13718v1 (2024), Theorems 5 and 7. The experiment is ours.

use super::super::{Agreement, Claim, Paper, law_json};
use crate::Result;
use crate::fit::{self, Law, ParameterInterval, Point, ResidualScale};
use crate::model::Preset;
use crate::report::averages::{Mean, Pairs, by_size};
use crate::report::laws::{Answer, Question};
use crate::report::numbers::{brief, thousands};
use crate::setting::Span;
use crate::sweep::{JobRow, Record};
use crate::train::StopKind;
use byrote_figures::html::{Cell, Column, Exhibit, Section, Table};
use byrote_figures::{Axis, Figure, Points};
use serde_json::{Value, json};

/// Above this share of memorized contexts the memory is full, and no law of growth can hold.
const FULL_MEMORY: f64 = 0.9;
/// Slopes that differ by at most this part of the larger one are nearly equal.
const NEAR: f64 = 0.1;
const LAWS: &[Law] =
    &[Law::Proportional, Law::Linear, Law::Quadratic, Law::Power, Law::SaturatingExponential];

/// What mixes the tokens of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Attention,
    Average,
}

impl Kind {
    const ALL: [Kind; 2] = [Kind::Attention, Kind::Average];

    fn of(row: &JobRow) -> Self {
        match row.settings.model.preset {
            Some(Preset::Average) => Kind::Average,
            _ => Kind::Attention,
        }
    }

    fn key(self) -> &'static str {
        match self {
            Kind::Attention => "attention",
            Kind::Average => "average",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Kind::Attention => "attention",
            Kind::Average => "token averaging",
        }
    }
}

/// The runs on one corpus.
struct Runs<'a> {
    key: String,
    name: String,
    contexts: u64,
    rows: Vec<&'a JobRow>,
}

impl<'a> Runs<'a> {
    /// One for each corpus, in the order of the plan.
    fn all(record: &'a Record) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for row in record.done() {
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
            let name = format!("{} {kind} {lengths}", thousands(n));
            match all.iter_mut().find(|runs| runs.name == name) {
                Some(runs) => runs.rows.push(row),
                None => {
                    let key = format!("corpus-{}", all.len() + 1);
                    all.push(Self { key, name, contexts: row.contexts, rows: vec![row] });
                }
            }
        }
        all
    }

    fn of(&self, kind: Kind) -> Vec<&'a JobRow> {
        let mut rows: Vec<&JobRow> = self.rows.iter().copied().filter(|r| Kind::of(r) == kind).collect();
        rows.sort_by_key(|r| (r.settings.seed, r.parameters));
        rows
    }

    /// The runs of both mixers with equal seeds and sizes.
    fn pairs(&self) -> Vec<(&'a JobRow, &'a JobRow)> {
        let (attention, average) = (self.of(Kind::Attention), self.of(Kind::Average));
        let closest = |a: &JobRow| {
            let same = average.iter().filter(|b| b.settings.seed == a.settings.seed);
            same.min_by_key(|b| b.parameters.abs_diff(a.parameters)).copied()
        };
        let pair = |a: &&'a JobRow| Some((*a, closest(a).filter(|b| within_a_neuron(a, b))?));
        attention.iter().filter_map(pair).collect()
    }

    /// The number of runs that the limit of steps has ended.
    fn unfinished(&self, kind: Kind) -> usize {
        let at_the_limit = |r: &&JobRow| r.result.as_ref().is_some_and(|r| r.stop == StopKind::Steps);
        self.of(kind).into_iter().filter(at_the_limit).count()
    }

    /// The points below a full memory.
    fn points(&self, kind: Kind) -> Vec<Point> {
        let rows = self.of(kind);
        let (means, _) = means(&rows);
        let full = FULL_MEMORY * self.contexts as f64;
        let end = means.iter().find(|m| m.1 >= full).map_or(f64::INFINITY, |m| m.0);
        let below = rows.iter().filter(|r| (r.parameters as f64) < end);
        below.map(|r| Point::new(r.parameters as f64, memorized(r), r.settings.seed)).collect()
    }
}

/// Whether the numbers of parameters differ by at most those of one neuron.
fn within_a_neuron(a: &JobRow, b: &JobRow) -> bool {
    a.parameters.abs_diff(b.parameters) <= neuron(a)
}

/// The parameters of one neuron: its weights, its bias, its row of the output.
fn neuron(row: &JobRow) -> u64 {
    row.settings.model.width() + 1 + row.d_vocab
}

fn memorized(row: &JobRow) -> f64 {
    row.result.as_ref().map_or(0.0, |r| r.memorized as f64)
}

fn means(rows: &[&JobRow]) -> (Pairs, Pairs) {
    by_size(rows.iter().map(|r| (r.parameters as f64, memorized(r))), Mean::Plain)
}

/// The page.
pub(in super::super) fn page(record: &Record) -> Result<Paper> {
    let (mut claims, mut sections, mut json) = (Vec::new(), vec![models()], json!({}));
    for runs in Runs::all(record) {
        let (section, slopes, laws) = laws(&runs)?;
        let (claim, pairs) = claim(&runs, &slopes);
        claims.push(claim);
        sections.push(section);
        json[&runs.name] = json!({"contexts": runs.contexts, "laws": laws, "pairs": pairs});
    }
    Ok(Paper {
        title: "madden2024: token averaging and attention at equal parameters".into(),
        subtitle: "Does it matter what mixes the tokens, if the hidden layer stores the text?".into(),
        claims,
        sections,
        json: json!({ "corpora": json }),
        references: &["madden2024"],
    })
}

fn models() -> Section {
    Section::new("The models").anchor("models").paragraph(
        "Attention is the model of Theorem 5, equation (2): one head, learned positions, a hidden layer that leads straight to the \
         output, no output bias. Token averaging is the model of Theorem 7: a trained weight for every position takes the place \
         of positions and attention. It saves 4 d^2 + (d - 1) T parameters, and gets as many more neurons as they are worth, so \
         that a pair of models differs by less than one neuron. A context is memorized if its most frequent next token \
         is the most probable one.",
    )
}

/// The slope of a line with its interval.
type Slope = Option<(f64, Option<ParameterInterval>)>;

/// Asks which law the contexts follow that one mixer memorizes.
fn question<'a>(name: &'a str, kind: Kind, points: &'a fit::Points) -> Question<'a> {
    Question {
        name,
        title: kind.words(),
        x: Axis::linear("parameters"),
        y: Axis::linear("contexts memorized"),
        points,
        laws: LAWS,
        drawn: Law::Linear,
        scale: ResidualScale::Plain,
    }
}

/// Draws both mixers with the laws through them; returns the slopes of the lines, and the laws as JSON.
fn laws(runs: &Runs<'_>) -> Result<(Section, [Slope; 2], Value)> {
    let mut figure = Figure::new(
        format!("Contexts memorized: {}", runs.name),
        Axis::linear("parameters"),
        Axis::linear("contexts memorized").from_zero(),
    );
    let (mut answers, mut slopes, mut json) = (Vec::new(), [None, None], json!({}));
    for (kind, slope) in Kind::ALL.into_iter().zip(&mut slopes) {
        let (mean, ends) = means(&runs.of(kind));
        if let Ok(points) = fit::Points::new(runs.points(kind)) {
            let answer = question("", kind, &points).answer_by_the_papers_law()?;
            figure = answer.drawn_in(figure, kind.key(), kind.words());
            *slope = slope_of(&answer);
            json[kind.key()] = law_json(&answer.comparison);
            answers.push((kind, points, answer));
        }
        figure = figure.points(Points::new(kind.key(), kind.words(), mean).with_errors(ends));
    }
    let alt = "Contexts memorized against parameters, for attention and for token averaging.";
    let figure = figure.horizontal(runs.contexts as f64, "all contexts");
    let mut section = Section::new(runs.name.clone()).anchor(runs.key.clone()).exhibit(
        Exhibit::new(figure).name(runs.key.clone()).alt(alt).caption(
            "Means over seeds with the range. The lines are fitted, with their 95% intervals, to sizes that memorize less than \
             90% of the contexts. The seeds draw the initial weights; the corpus is always the same.",
        ),
    );
    section = section.table(table(runs));
    for (kind, points, answer) in answers {
        let name = format!("{}-{}", runs.key, kind.key());
        section = question(&name, kind, &points)
            .show(section.heading(format!("Laws of {}", kind.words())), &answer);
    }
    Ok((section, slopes, json))
}

/// The slope of the line.
fn slope_of(answer: &Answer) -> Slope {
    let row = answer.comparison.row(Law::Linear)?;
    let b = row.fit.as_ref()?.parameters.iter().find(|p| p.name == "b")?.value;
    Some((b, row.replicates.as_ref().and_then(|r| r.interval("b").copied())))
}

/// Compares the slopes, and the models of every pair.
fn claim(runs: &Runs<'_>, [attention, average]: &[Slope; 2]) -> (Claim, Value) {
    let paper = "token averaging is a simpler replacement of attention with the same guaranteed capacity, one context per neuron \
                 (Theorems 5 and 7).";
    let pairs = runs.pairs();
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| memorized(b) - memorized(a)).collect();
    let ahead = differences.iter().filter(|&&d| d > 0.0).count();
    let mean = differences.iter().sum::<f64>() / differences.len().max(1) as f64;
    let json = json!({
        "pairs": pairs.len(),
        "pairs_with_averaging_ahead": ahead,
        "mean_difference_contexts": mean,
        "largest_difference_parameters": pairs.iter().map(|(a, b)| a.parameters.abs_diff(b.parameters)).max(),
    });
    let (Some(attention), Some(average)) = (attention, average) else {
        return (Claim::new(paper, "too few sizes with a law.", Agreement::Open), json);
    };
    let words = |(b, interval): &(f64, Option<ParameterInterval>)| match interval {
        Some(i) => format!("{} ({} to {})", brief(*b), brief(i.low), brief(i.high)),
        None => brief(*b),
    };
    let measured = format!(
        "on {}, the slope is {} contexts per parameter with attention and {} with averaging (95% intervals over seeds). At equal parameters, \
         averaging memorizes {} contexts {} on average, of {}, and is ahead in {ahead} of {} pairs. The limit of steps ended {} of {} \
         runs with attention and {} of {} with averaging.",
        runs.name,
        words(attention),
        words(average),
        brief(mean.abs()),
        if mean < 0.0 { "fewer" } else { "more" },
        thousands(runs.contexts),
        pairs.len(),
        runs.unfinished(Kind::Attention),
        runs.of(Kind::Attention).len(),
        runs.unfinished(Kind::Average),
        runs.of(Kind::Average).len()
    );
    let runs_at_the_limit = Kind::ALL.map(|kind| runs.unfinished(kind)).iter().sum::<usize>();
    let (words, agrees) = verdict(average, attention, 2 * runs_at_the_limit > runs.rows.len());
    (Claim::new(paper, measured + &words, agrees), json)
}

/// Whether both mixers do equally well: the intervals of their slopes overlap. Otherwise says which one is ahead. Where most
/// runs end at the limit of steps, nothing is decided about what the models can hold.
fn verdict(
    average: &(f64, Option<ParameterInterval>),
    attention: &(f64, Option<ParameterInterval>),
    mostly_at_the_limit: bool,
) -> (String, Agreement) {
    let (Some(i), Some(j)) = (average.1, attention.1) else { return (String::new(), Agreement::Open) };
    let ahead = if i.low > j.high {
        Some(Kind::Average)
    } else if i.high < j.low {
        Some(Kind::Attention)
    } else {
        None
    };
    let mut words = match ahead {
        Some(kind) => format!(" The intervals do not overlap: a difference in favour of {}.", kind.words()),
        None => " The intervals overlap.".to_owned(),
    };
    if mostly_at_the_limit {
        words += " Most runs ended at the limit of steps, so this compares training, not capacity.";
        return (words, Agreement::Open);
    }
    let (smaller, larger) = (average.0.min(attention.0), average.0.max(attention.0));
    let agrees = match ahead {
        None => Agreement::Yes,
        Some(_) if smaller >= (1.0 - NEAR) * larger => Agreement::Nearly,
        Some(_) => Agreement::No,
    };
    (words, agrees)
}

/// Both models of every size, averaged over seeds.
fn table(runs: &Runs<'_>) -> Table {
    let columns = [
        Column::right("neurons").unit("attention"),
        Column::right("neurons").unit("averaging"),
        Column::right("parameters").unit("attention"),
        Column::right("parameters").unit("averaging"),
        Column::right("memorized").unit("attention"),
        Column::right("memorized").unit("averaging"),
        Column::right("gap").unit("nats per prediction, attention"),
        Column::right("gap").unit("nats per prediction, averaging"),
    ];
    let mut table = Table::new("Pairs of models at equal parameters: means over the seeds.", columns);
    let mut pairs = runs.pairs();
    pairs.sort_by_key(|(a, b)| (a.parameters, b.parameters, a.settings.seed));
    for part in pairs.chunk_by(|x, y| x.0.parameters == y.0.parameters) {
        let (a, b) = part[0];
        let mean =
            |of: &dyn Fn(&(&JobRow, &JobRow)) -> f64| part.iter().map(of).sum::<f64>() / part.len() as f64;
        let gap = |r: &JobRow| r.gap_per_prediction().unwrap_or(f64::NAN);
        table = table.row([
            Cell::from(thousands(a.d_mlp)),
            thousands(b.d_mlp).into(),
            thousands(a.parameters).into(),
            thousands(b.parameters).into(),
            format!("{:.1}", mean(&|p| memorized(p.0))).into(),
            format!("{:.1}", mean(&|p| memorized(p.1))).into(),
            brief(mean(&|p| gap(p.0))).into(),
            brief(mean(&|p| gap(p.1))).into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Silent;
    use crate::sweep::{Corpora, Job, Plan};

    #[test]
    fn a_difference_is_reported_in_either_direction_unless_training_was_cut_short() {
        let slope = |(value, low, high): (f64, f64, f64)| {
            (value, Some(ParameterInterval { name: "b", value, low, high }))
        };
        let judged = |average, attention| verdict(&slope(average), &slope(attention), false);
        assert_eq!(
            judged((1.0, 0.8, 1.2), (1.3, 1.1, 1.5)),
            (" The intervals overlap.".into(), Agreement::Yes)
        );
        for (average, attention, kind, agrees) in [
            ((2.0, 1.9, 2.1), (1.0, 0.9, 1.1), "token averaging", Agreement::No),
            ((1.05, 1.04, 1.06), (1.0, 0.99, 1.01), "token averaging", Agreement::Nearly),
            ((1.0, 0.99, 1.01), (1.05, 1.04, 1.06), "attention", Agreement::Nearly),
            ((1.0, 0.9, 1.1), (2.0, 1.9, 2.1), "attention", Agreement::No),
        ] {
            let (words, found) = judged(average, attention);
            assert_eq!(found, agrees);
            assert!(words.ends_with(&format!("a difference in favour of {kind}.")), "{words}");
            let (words, found) = verdict(&slope(average), &slope(attention), true);
            assert_eq!(found, Agreement::Open);
            assert!(words.contains(kind) && words.ends_with("compares training, not capacity."), "{words}");
        }
        assert_eq!(verdict(&(1.0, None), &slope((1.0, 0.9, 1.1)), false).1, Agreement::Open);
    }

    #[test]
    fn the_plans_pair_models_within_half_a_neuron() {
        let plans = [
            include_str!("../../../../../../plans/madden2024-mixers.toml"),
            include_str!("../../../../../../plans/madden2024-mixers-full.toml"),
        ];
        for plan in plans.map(|text| Plan::parse(text, "").unwrap()) {
            let corpora = Corpora::read(&plan.jobs, &Silent).unwrap();
            let row = |job: &Job| {
                let dataset = corpora.of(job).unwrap();
                let config = job.model.resolve(dataset.d_vocab(), dataset.n_ctx()).unwrap();
                JobRow::new(job, "", dataset, Some(&config))
            };
            let rows: Vec<JobRow> = plan.jobs.iter().map(row).collect();
            let seeds: std::collections::BTreeSet<u64> = plan.jobs.iter().map(|j| j.seed).collect();
            let (attention, average): (Vec<&JobRow>, Vec<&JobRow>) =
                rows.iter().partition(|r| Kind::of(r) == Kind::Attention);
            assert!(attention.len() == average.len() && attention.len() % (4 * seeds.len()) == 0);
            // Every grid lists its sizes and seeds in the same order for both.
            for (a, b) in attention.iter().zip(&average) {
                assert_eq!((a.contexts, a.settings.seed), (b.contexts, b.settings.seed));
                let off = a.parameters.abs_diff(b.parameters);
                assert!(2 * off <= neuron(a), "{} and {} parameters", a.parameters, b.parameters);
            }
        }
    }
}
