//! Attention, token averaging and no mixer in models of blocks, at equal depth and parameters.
//!
//! madden2024 proves the same capacity for one layer with attention (Theorem 5) and with token averaging (Theorem 7): the hidden layer
//! stores, and the mixer only has to keep contexts apart. A model without a mixer sees the last token and its position. The rules were
//! fixed before the runs on the seeds of the plans:
//!
//! - *attention and averaging*, for every corpus and depth: the slopes of the contexts memorized against parameters, below a full
//!   memory, have overlapping 95% intervals ([`line_slope`](super::line_slope)). Nothing is decided where most runs end at the
//!   limit of steps.
//! - *no mixer*, for every corpus: with equal parameters it memorizes fewer contexts than both others in every pair of runs (nearly: in
//!   nine of ten).
//!
//! Reference: L. Madden, C. Fox, C. Thrampoulidis, arXiv:2405.13718v1 (2024), Theorems 5 and 7. The experiment is ours.

use super::line_slope::{Slope, compared};
use super::mixed_runs::{FULL_MEMORY, Kind, Runs, means, memorized};
use super::{Agreement, Claim, Paper, layers};
use crate::Result;
use crate::fit::{self, Law, ResidualScale};
use crate::report::laws::Question;
use crate::report::numbers::{brief, thousands};
use crate::sweep::{JobRow, Record};
use byrote_figures::html::{Cell, Column, Exhibit, Section, Table};
use byrote_figures::{Axis, Figure, Points};
use serde_json::{Value, json};

/// The pairs in which no mixer has to be behind.
const NEARLY_ALL: f64 = 0.9;
const LAWS: &[Law] = &[Law::Proportional, Law::Linear, Law::Quadratic, Law::Power];

/// The page.
pub(super) fn page(record: &Record) -> Result<Paper> {
    let all = Runs::all(record);
    let (mut claims, mut sections, mut json) = (Vec::new(), Vec::new(), json!({}));
    for runs in all.chunk_by(|a, b| a.name == b.name) {
        let name = &runs[0].name;
        let mut section = Section::new(name.clone()).anchor(runs[0].key.clone());
        let mut slopes = Vec::new();
        for part in runs {
            let (figure, found) = drawn(part)?;
            section = section.exhibit(figure);
            claims.push(mixing_claim(part, &found));
            slopes.push(found);
        }
        claims.push(unmixed_claim(runs));
        section = section.table(slope_table(runs, &slopes));
        for part in runs {
            section = section.table(table(part));
        }
        sections.push(section);
        json[name] = runs.iter().zip(&slopes).map(|(part, found)| part_json(part, found)).collect();
    }
    sections.push(setting());
    Ok(Paper {
        title: "Attention, token averaging and no mixer at equal depth and parameters".into(),
        subtitle: "Does it matter what mixes the tokens, with one layer and with many?".into(),
        claims,
        sections,
        json: json!({ "corpora": json }),
        references: &["madden2024"],
    })
}

fn depth(runs: &Runs<'_>) -> String {
    layers(runs.n_layers.unwrap_or(1))
}

/// The slopes of the three mixers, as far as they are known.
type Slopes = [Option<Slope>; 3];

/// All mixers on one corpus at one depth, with the lines through them.
fn drawn(runs: &Runs<'_>) -> Result<(Exhibit, Slopes)> {
    let title = format!("{}: contexts memorized", depth(runs));
    let (x, y) = (Axis::linear("parameters"), Axis::linear("contexts memorized").from_zero());
    let mut figure = Figure::new(title, x.clone(), y.clone());
    let mut slopes = [None; 3];
    for (kind, slope) in Kind::ALL.into_iter().zip(&mut slopes) {
        let (mean, ends) = means(&runs.of(kind));
        if mean.is_empty() {
            continue;
        }
        if let Ok(points) = fit::Points::new(runs.points(kind)) {
            let question = Question {
                name: kind.key(),
                title: kind.words(),
                x: x.clone(),
                y: y.clone(),
                points: &points,
                laws: LAWS,
                drawn: Law::Linear,
                scale: ResidualScale::Plain,
            };
            let answer = question.answer_by_the_papers_law()?;
            figure = answer.drawn_in(figure, kind.key(), kind.words());
            *slope = Slope::of(&answer);
        }
        figure = figure.points(Points::new(kind.key(), kind.words(), mean).with_errors(ends));
    }
    let exhibit = Exhibit::new(figure.horizontal(runs.contexts as f64, "all contexts"))
        .name(runs.key.clone())
        .alt(format!("Contexts memorized against parameters with {}, for three mixers.", depth(runs)))
        .caption(format!(
            "Means over seeds with the range. The lines are fitted, with their 95% intervals, to sizes that memorize less than {:.0}% \
             of the contexts.",
            100.0 * FULL_MEMORY
        ));
    Ok((exhibit, slopes))
}

/// Compares attention and averaging.
fn mixing_claim(runs: &Runs<'_>, [attention, average, _]: &Slopes) -> Claim {
    let paper = "token averaging is a simpler replacement of attention with the same guaranteed capacity (Theorems 5 and 7; \
                 proved for one layer).";
    let place = format!("on {}, with {}", runs.name, depth(runs));
    let (Some(attention), Some(average)) = (attention, average) else {
        return Claim::new(paper, format!("{place}: too few sizes with a law."), Agreement::Open);
    };
    let pairs = runs.pairs(Kind::Average);
    let ahead = pairs.iter().filter(|(a, b)| memorized(b) > memorized(a)).count();
    let cut_short = runs.mostly_at_the_limit(&Kind::MIXING);
    let (words, agrees) =
        compared((average, Kind::Average.words()), (attention, Kind::Attention.words()), cut_short);
    let measured = format!(
        "{place}, the slope is {} contexts per parameter with attention and {} with averaging (95% intervals); averaging is ahead in \
         {ahead} of {} pairs at equal parameters.{words}",
        attention.words(),
        average.words(),
        pairs.len()
    );
    Claim::new(paper, measured, agrees)
}

/// The pairs in which a model without a mixer is behind, and all pairs.
fn behind(runs: &Runs<'_>) -> (usize, usize) {
    let pairs = runs.pairs(Kind::None);
    let averages = runs.pairs(Kind::Average);
    let loses = |(attention, none): &(&JobRow, &JobRow)| {
        let average = averages.iter().find(|p| p.0.job == attention.job).map(|p| p.1);
        memorized(none) < memorized(attention) && average.is_none_or(|a| memorized(none) < memorized(a))
    };
    (pairs.iter().filter(|pair| loses(pair)).count(), pairs.len())
}

fn unmixed_claim(runs: &[Runs<'_>]) -> Claim {
    let (lost, of) = runs.iter().map(behind).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let best = |kind: Kind| runs.iter().flat_map(|r| r.of(kind)).map(memorized).fold(0.0, f64::max);
    let agrees = match lost as f64 / of.max(1) as f64 {
        _ if of == 0 => Agreement::Open,
        1.0 => Agreement::Yes,
        share if share >= NEARLY_ALL => Agreement::Nearly,
        _ => Agreement::No,
    };
    Claim::new(
        "both theorems need the mixer to keep contexts apart: without one, a model of any depth sees the last token and its position.",
        format!(
            "on {}, a model without a mixer memorizes fewer contexts than both others in {lost} of {of} comparisons at equal depth and \
             parameters: at most {} of {}, against {} with attention and {} with averaging.",
            runs[0].name,
            thousands(best(Kind::None) as u64),
            thousands(runs[0].contexts),
            thousands(best(Kind::Attention) as u64),
            thousands(best(Kind::Average) as u64)
        ),
        agrees,
    )
}

/// The slopes at all depths.
fn slope_table(runs: &[Runs<'_>], slopes: &[Slopes]) -> Table {
    let mut columns = vec![Column::right("layers")];
    columns.extend(Kind::ALL.map(|kind| Column::left(kind.words()).unit("with 95% interval")));
    columns.push(Column::right("runs at the limit of steps"));
    let mut table = Table::new("More contexts memorized per parameter, by depth.", columns);
    for (part, slopes) in runs.iter().zip(slopes) {
        let mut cells = vec![Cell::from(part.n_layers.unwrap_or(1).to_string())];
        cells.extend(slopes.iter().map(|s| s.as_ref().map_or_else(Cell::none, |s| s.words().into())));
        let ended: usize = Kind::ALL.iter().map(|&kind| part.unfinished(kind)).sum();
        cells.push(format!("{ended} of {}", part.rows.len()).into());
        table = table.row(cells);
    }
    table
}

/// The three models of every size, averaged over seeds.
fn table(runs: &Runs<'_>) -> Table {
    let mut columns = vec![Column::right("parameters").unit("attention")];
    columns.extend(Kind::ALL.map(|kind| Column::right("memorized").unit(kind.words())));
    columns.extend(
        Kind::ALL.map(|kind| Column::right("gap").unit(format!("nats per prediction, {}", kind.words()))),
    );
    let caption = format!("Models with {} at equal parameters: means over the seeds.", depth(runs));
    let mut table = Table::new(caption, columns);
    let mut rows = runs.of(Kind::Attention);
    rows.sort_by_key(|r| r.parameters);
    let others = [Kind::Average, Kind::None].map(|kind| runs.pairs(kind));
    for part in rows.chunk_by(|a, b| a.parameters == b.parameters) {
        let of = |pairs: &Vec<(&JobRow, &JobRow)>, value: fn(&JobRow) -> f64| {
            let found: Vec<f64> =
                pairs.iter().filter(|p| p.0.parameters == part[0].parameters).map(|p| value(p.1)).collect();
            mean(&found)
        };
        let own = |value: fn(&JobRow) -> f64| mean(&part.iter().map(|r| value(r)).collect::<Vec<_>>());
        let gap: fn(&JobRow) -> f64 = |r| r.gap_per_prediction().unwrap_or(f64::NAN);
        let count = |x: Option<f64>| x.map_or_else(Cell::none, |x| format!("{x:.1}").into());
        let nats = |x: Option<f64>| x.map_or_else(Cell::none, |x| brief(x).into());
        table = table.row([
            Cell::from(thousands(part[0].parameters)),
            count(own(memorized)),
            count(of(&others[0], memorized)),
            count(of(&others[1], memorized)),
            nats(own(gap)),
            nats(of(&others[0], gap)),
            nats(of(&others[1], gap)),
        ]);
    }
    table
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn part_json(runs: &Runs<'_>, slopes: &Slopes) -> Value {
    let (lost, of) = behind(runs);
    let mut json = json!({
        "n_layers": runs.n_layers,
        "contexts": runs.contexts,
        "comparisons": of,
        "comparisons_with_no_mixer_behind": lost,
    });
    for (kind, slope) in Kind::ALL.into_iter().zip(slopes) {
        json[kind.key()] = slope.as_ref().map_or(Value::Null, Slope::json);
    }
    json
}

fn setting() -> Section {
    Section::new("How it was measured")
        .anchor("setting")
        .paragraph(
            "GPT-2 blocks with LayerNorm and skip connections, the output tied to the embedding. Attention has one head. Token averaging adds up \
             what came before with one trained weight per position. Without a mixer, a block is its hidden layer alone. The last two get as many \
             more neurons as the parameters that they save are worth, so that the models of a comparison differ by at most one neuron per block. \
             Training uses all contexts at every step (L-BFGS after a warm-up by Adam). A context is memorized if its most frequent next \
             token is the most probable one.",
        )
        .list([
            "Attention and averaging agree if the 95% intervals of their slopes overlap, and nearly agree if the slopes are within 10%. Where most \
             runs end at the limit of steps, nothing is decided.",
            "Without a mixer, a model has to be behind both others in all comparisons (nearly: in nine of ten).",
        ])
        .note("These rules were fixed before the runs on the seeds of the plan.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::papers::mixed_runs::{neuron, planned_rows};
    use crate::sweep::Plan;

    #[test]
    fn the_plans_have_models_of_equal_parameters_within_half_a_neuron_per_block() {
        let plans = [
            include_str!("../../../../../plans/mixers.toml"),
            include_str!("../../../../../plans/mixers-full.toml"),
        ];
        for plan in plans.map(|text| Plan::parse(text, "").unwrap()) {
            let rows = planned_rows(&plan);
            let of = |kind: Kind| rows.iter().filter(|r| Kind::of(r) == kind).collect::<Vec<_>>();
            let [attention, average, none] = Kind::ALL.map(of);
            assert!(attention.len() == average.len() && attention.len() == none.len());
            // Every grid lists its sizes and seeds in the same order for all of them.
            for ((a, b), c) in attention.iter().zip(&average).zip(&none) {
                for other in [b, c] {
                    assert_eq!((a.contexts, a.settings.seed), (other.contexts, other.settings.seed));
                    let off = a.parameters.abs_diff(other.parameters);
                    assert!(2 * off <= neuron(a), "{} and {} parameters", a.parameters, other.parameters);
                }
            }
        }
    }
}
