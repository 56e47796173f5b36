//! madden2024: attention (Theorem 5) and token averaging (Theorem 7) as trained mixers, at equal parameters.
//!
//! Reference: L. Madden, C. Fox, C. Thrampoulidis, arXiv:2405.13718v1 (2024), Theorems 5 and 7. The experiment is ours.

use super::super::line_slope::{Slope, compared};
use super::super::mixed_runs::{Kind, Runs, means, memorized};
use super::super::{Agreement, Claim, Paper, law_json};
use crate::Result;
use crate::fit::{self, Law, ResidualScale};
use crate::report::laws::Question;
use crate::report::numbers::{brief, thousands};
use crate::sweep::{JobRow, Record};
use byrote_figures::html::{Cell, Column, Exhibit, Section, Table};
use byrote_figures::{Axis, Figure, Points};
use serde_json::{Value, json};

const LAWS: &[Law] =
    &[Law::Proportional, Law::Linear, Law::Quadratic, Law::Power, Law::SaturatingExponential];

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
fn laws(runs: &Runs<'_>) -> Result<(Section, [Option<Slope>; 2], Value)> {
    let mut figure = Figure::new(
        format!("Contexts memorized: {}", runs.name),
        Axis::linear("parameters"),
        Axis::linear("contexts memorized").from_zero(),
    );
    let (mut answers, mut slopes, mut json) = (Vec::new(), [None, None], json!({}));
    for (kind, slope) in Kind::MIXING.into_iter().zip(&mut slopes) {
        let (mean, ends) = means(&runs.of(kind));
        if let Ok(points) = fit::Points::new(runs.points(kind)) {
            let answer = question("", kind, &points).answer_by_the_papers_law()?;
            figure = answer.drawn_in(figure, kind.key(), kind.words());
            *slope = Slope::of(&answer);
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

/// Compares the slopes, and the models of every pair.
fn claim(runs: &Runs<'_>, [attention, average]: &[Option<Slope>; 2]) -> (Claim, Value) {
    let paper = "token averaging is a simpler replacement of attention with the same guaranteed capacity, one context per neuron \
                 (Theorems 5 and 7).";
    let pairs = runs.pairs(Kind::Average);
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
    let measured = format!(
        "on {}, the slope is {} contexts per parameter with attention and {} with averaging (95% intervals over seeds). At equal parameters, \
         averaging memorizes {} contexts {} on average, of {}, and is ahead in {ahead} of {} pairs. The limit of steps ended {} of {} \
         runs with attention and {} of {} with averaging.",
        runs.name,
        attention.words(),
        average.words(),
        brief(mean.abs()),
        if mean < 0.0 { "fewer" } else { "more" },
        thousands(runs.contexts),
        pairs.len(),
        runs.unfinished(Kind::Attention),
        runs.of(Kind::Attention).len(),
        runs.unfinished(Kind::Average),
        runs.of(Kind::Average).len()
    );
    let cut_short = runs.mostly_at_the_limit(&Kind::MIXING);
    let of = |slope, kind: Kind| (slope, kind.words());
    let (words, agrees) = compared(of(average, Kind::Average), of(attention, Kind::Attention), cut_short);
    (Claim::new(paper, measured + &words, agrees), json)
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
    let mut pairs = runs.pairs(Kind::Average);
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
    use crate::report::papers::mixed_runs::{neuron, planned_rows};
    use crate::sweep::Plan;

    #[test]
    fn the_plans_pair_models_within_half_a_neuron() {
        let plans = [
            include_str!("../../../../../../plans/madden2024-mixers.toml"),
            include_str!("../../../../../../plans/madden2024-mixers-full.toml"),
        ];
        for plan in plans.map(|text| Plan::parse(text, "").unwrap()) {
            let rows = planned_rows(&plan);
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
