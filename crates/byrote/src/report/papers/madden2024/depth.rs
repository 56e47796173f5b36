//! madden2024, figure 1 with depth: the parameters that reach the floor against contexts, for models of one and of many blocks.
//!
//! The paper's bounds count parameters and hold at any depth (docs/derivations/depth.md); its experiment has one layer. A
//! *threshold* is the number of parameters at which the gap falls to 1% of the floor, for one corpus, one depth and one seed. The rules
//! of the verdicts were fixed before the runs on the seeds of the plans:
//!
//! - *law*, for every depth: as in figure 1, a line through the thresholds is supported, with or without a constant term;
//! - *factor*, for every depth above one layer: the threshold divided by that of one layer on the same corpus with the same seed is
//!   b n^p in the contexts n. A constant factor means p = 0: they agree if the 95% interval of p holds 0 and is at most
//!   [`WIDEST`] wide, nearly agree if p is at most [`SLOW`] on either side of 0, and otherwise do not. A wider interval that holds 0
//!   decides nothing.
//!
//! Reference: L. Madden, C. Fox, C. Thrampoulidis, arXiv:2405.13718v1 (2024), section 7, Theorem 1, Lemma 1. The experiment with
//! depth is ours.

use super::super::{Agreement, Claim, Paper, agreement, by_depth, law_json, layers};
use super::{corpora, slope};
use crate::Result;
use crate::bounds::madden2024::min_parameters;
use crate::fit::{self, FitMethod, Law, ParameterInterval, Point, ResidualScale};
use crate::report::averages::{Mean, by_size};
use crate::report::laws::{Answer, Question};
use crate::report::numbers::{brief, thousands};
use crate::report::sweep_page::{Smallest, smallest};
use crate::sweep::{JobRow, Record};
use byrote_figures::html::{Cell, Column, Exhibit, Section, Table};
use byrote_figures::{Axis, Figure, Line, Points};
use serde_json::{Value, json};

/// An exponent of the factor up to this one is slow growth.
const SLOW: f64 = 0.1;
/// The widest interval of an exponent that decides something.
const WIDEST: f64 = 0.5;
const LAWS: &[Law] = &[Law::Proportional, Law::Linear, Law::Quadratic, Law::Power];

/// The runs with models of one depth.
struct Depth<'a> {
    n_layers: u64,
    rows: Vec<&'a JobRow>,
    /// The thresholds of all seeds together, with their intervals.
    pooled: Smallest,
    /// The thresholds of every seed.
    points: Vec<Point>,
}

impl<'a> Depth<'a> {
    fn new(n_layers: u64, rows: Vec<&'a JobRow>) -> Result<Self> {
        let mut seeds: Vec<u64> = rows.iter().map(|r| r.settings.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        let mut points = Vec::new();
        for seed in seeds {
            let own: Vec<&JobRow> = rows.iter().copied().filter(|r| r.settings.seed == seed).collect();
            points.extend(smallest(&own)?.points.into_iter().map(|p| Point { group: seed, ..p }));
        }
        Ok(Self { n_layers, pooled: smallest(&rows)?, points, rows })
    }

    fn key(&self) -> String {
        format!("layers-{}", self.n_layers)
    }

    /// The thresholds divided by those of another depth, on the same corpora with the same seeds.
    fn ratios(&self, to: &Depth<'_>) -> Vec<Point> {
        let ratio = |p: &Point| {
            let other = to.points.iter().find(|q| (q.x, q.group) == (p.x, p.group))?;
            Some(Point { y: p.y / other.y, ..*p })
        };
        self.points.iter().filter_map(ratio).collect()
    }
}

/// The page.
pub(in super::super) fn page(record: &Record) -> Result<Paper> {
    let depths: Vec<Depth<'_>> =
        by_depth(record).into_iter().map(|(n, rows)| Depth::new(n, rows)).collect::<Result<_>>()?;
    let (thresholds, mut claims, laws) = thresholds(&depths)?;
    let (factors, more, factors_json) = factors(&depths)?;
    claims.extend(more);
    Ok(Paper {
        title: "madden2024, figure 1 with depth: parameters and contexts".into(),
        subtitle: "How many parameters training to the floor takes, with one layer and with many.".into(),
        claims,
        sections: vec![thresholds, factors, setting(record)],
        json: json!({"laws": laws, "factors": factors_json}),
        references: &["madden2024"],
    })
}

/// Asks which law the thresholds of a depth follow.
fn question<'a>(name: &'a str, title: &'a str, points: &'a fit::Points) -> Question<'a> {
    Question {
        name,
        title,
        x: Axis::linear("distinct contexts"),
        y: Axis::log("parameters"),
        points,
        laws: LAWS,
        drawn: Law::Linear,
        // A threshold is uncertain by a factor, so its errors are equal on the scale of ln y.
        scale: ResidualScale::Relative,
    }
}

/// The thresholds against contexts with a law for every depth.
fn thresholds(depths: &[Depth<'_>]) -> Result<(Section, Vec<Claim>, Value)> {
    let mut figure = Figure::new(
        "Parameters to 1% of the floor, by depth",
        Axis::linear("distinct contexts"),
        Axis::log("parameters"),
    );
    let (mut claims, mut json, mut answers) = (Vec::new(), json!({}), Vec::new());
    for depth in depths {
        let words = layers(depth.n_layers);
        let paper = "the parameters required to reach the floor seem to be roughly linear in the contexts (figure 1, right; the \
                     paper's models have one layer).";
        let Ok(points) = fit::Points::new(depth.points.iter().copied()) else {
            let measured = format!("no model with {words} has come within 1% of the floor yet.");
            claims.push(Claim::new(paper, measured, Agreement::Open));
            continue;
        };
        let answer = question(&depth.key(), &words, &points).answer()?;
        figure = answer.drawn_in(figure, &depth.key(), &words);
        let measured = format!("with {words}, {}", slope(&answer.comparison));
        claims.push(Claim::new(
            paper,
            measured,
            agreement(&answer.comparison, &[Law::Linear, Law::Proportional]),
        ));
        json[depth.key()] = law_json(&answer.comparison);
        let known = depth.pooled.points.iter().map(|p| (p.x, p.y));
        figure = figure.points(
            Points::new(depth.key(), words.clone(), known).with_errors(depth.pooled.ends.iter().copied()),
        );
        answers.push((depth, words, points, answer));
    }
    let all: Vec<&JobRow> = depths.iter().flat_map(|d| d.rows.iter().copied()).collect();
    let needed = corpora(&all).into_iter();
    let needed = needed.map(|r| (r.contexts as f64, min_parameters(r.contexts, r.d_vocab) as f64));
    figure = figure
        .line(
            Line::new("lemma1", "n (omega \u{2212} 1): needed in the worst case", needed.collect::<Vec<_>>())
                .dashed(),
        )
        .dash_key("measured and fitted", "Lemma 1");
    let section = Section::new("The smallest model that reaches the floor").anchor("thresholds").exhibit(
        Exhibit::new(figure)
            .name("thresholds")
            .alt("Parameters needed to come within 1% of the floor against the number of distinct contexts, one line per depth.")
            .caption(
                "Between the widths tried, the gap is interpolated on logarithmic scales; bars are 95% intervals over seeds, and the \
                 lines are fitted to the thresholds of all seeds. Lemma 1 holds at any depth: it gives the number of parameters that \
                 some choice of distributions on this many contexts needs. Real text is easier than that worst case.",
            ),
    );
    Ok((shown(section, &answers), claims, json))
}

/// The tables of thresholds, and the comparisons of laws.
fn shown(section: Section, answers: &[(&Depth<'_>, String, fit::Points, Answer)]) -> Section {
    answers.iter().fold(section, |section, (depth, words, points, answer)| {
        let caption = format!("Thresholds with {words}, all seeds together.");
        let section = section.heading(format!("Models with {words}")).table(depth.pooled.table(&caption));
        question(&depth.key(), words, points).show(section, answer)
    })
}

/// What the thresholds of a depth are to those of one layer.
struct Factor {
    /// Their geometric mean, b of the constant law, with its interval.
    mean: f64,
    mean_interval: Option<(f64, f64)>,
    /// The exponent p of b n^p.
    exponent: Option<(f64, Option<ParameterInterval>)>,
}

impl Factor {
    fn of(points: &fit::Points) -> Result<Self> {
        let method = FitMethod::default().scale(ResidualScale::Relative);
        let bootstrap = fit::Bootstrap::default();
        let constant = fit::fit(points, Law::Constant, &method)?;
        let interval = |law: &fit::Fit, name: &str| {
            let replicates = fit::bootstrap(points, law, &bootstrap).ok()?;
            replicates.interval(name).copied()
        };
        let power = fit::fit(points, Law::Power, &method).ok();
        let exponent = power.as_ref().and_then(|fit| {
            let p = fit.parameters.iter().find(|p| p.name == "p")?.value;
            Some((p, interval(fit, "p")))
        });
        Ok(Self {
            mean: constant.value(1.0),
            mean_interval: interval(&constant, "a").map(|i| (i.low, i.high)),
            exponent,
        })
    }

    fn agrees(&self) -> Agreement {
        match self.exponent {
            Some((p, Some(i))) => match i.holds(0.0) {
                true if i.width() <= WIDEST => Agreement::Yes,
                true => Agreement::Open,
                false if p.abs() <= SLOW => Agreement::Nearly,
                false => Agreement::No,
            },
            _ => Agreement::Open,
        }
    }

    fn words(&self) -> String {
        let mean = match self.mean_interval {
            Some((low, high)) => format!("{} ({} to {})", brief(self.mean), brief(low), brief(high)),
            None => brief(self.mean),
        };
        let growth = match self.exponent {
            Some((p, Some(i))) => format!(
                "in the contexts n this factor grows as n^p with p = {} ({} to {})",
                brief(p),
                brief(i.low),
                brief(i.high)
            ),
            _ => "there are too few corpora to say how this factor grows".into(),
        };
        format!("{mean} times the parameters of one layer on average; {growth} (95% intervals).")
    }

    fn json(&self) -> Value {
        let ends = |(low, high): (f64, f64)| json!({"low": low, "high": high});
        json!({
            "mean": self.mean,
            "mean_interval": self.mean_interval.map(ends),
            "exponent": self.exponent.map(|e| e.0),
            "exponent_interval": self.exponent.and_then(|e| e.1).map(|i| ends((i.low, i.high))),
        })
    }
}

/// The thresholds of many layers divided by those of one.
fn factors(depths: &[Depth<'_>]) -> Result<(Section, Vec<Claim>, Value)> {
    let section = Section::new("What depth costs").anchor("factors");
    let (mut claims, mut json) = (Vec::new(), json!({}));
    let Some((one, deeper)) = depths.split_first().filter(|d| d.0.n_layers == 1) else {
        return Ok((section.note("There are no thresholds of one layer to compare with."), claims, json));
    };
    let mut figure = Figure::new(
        "Parameters to 1% of the floor, relative to one layer",
        Axis::linear("distinct contexts"),
        Axis::linear("times those of one layer").from_zero(),
    );
    for depth in deeper {
        let words = layers(depth.n_layers);
        let paper = "any depth needs of the order of n \u{3c9} parameters in the worst case (Lemma 1, Theorem 1), and blocks can \
                     reach it (docs/derivations/depth.md): depth changes the number by a constant factor at most.";
        let ratios = depth.ratios(one);
        let (mean, ends) = by_size(ratios.iter().map(|p| (p.x, p.y)), Mean::OfLogarithms);
        let Ok(points) = fit::Points::new(ratios) else {
            claims.push(Claim::new(paper, format!("no threshold of {words} is known yet."), Agreement::Open));
            continue;
        };
        let factor = Factor::of(&points)?;
        claims.push(Claim::new(paper, format!("{words} take {}", factor.words()), factor.agrees()));
        json[depth.key()] = factor.json();
        figure = figure
            .line(Line::new(depth.key(), words, mean.clone()))
            .points(Points::new(depth.key(), "", mean).with_errors(ends));
    }
    let section = section
        .exhibit(
            Exhibit::new(figure.horizontal(1.0, "one layer"))
                .name("factors")
                .alt("Parameters to 1% of the floor divided by those of one layer, against contexts, one line per depth.")
                .caption("Geometric means over seeds, with the range. The corpus and the seed of a ratio are the same."),
        )
        .table(table(depths));
    Ok((section, claims, json))
}

/// The smallest models of all depths, by corpus.
fn table(depths: &[Depth<'_>]) -> Table {
    let mut columns = vec![Column::right("contexts"), Column::right("tokens")];
    for depth in depths {
        columns.push(Column::right("parameters").unit(layers(depth.n_layers)));
    }
    let all: Vec<&JobRow> = depths.iter().flat_map(|d| d.rows.iter().copied()).collect();
    let mut table = Table::new("Parameters to 1% of the floor, all seeds together.", columns);
    for row in corpora(&all) {
        let mut cells = vec![Cell::from(thousands(row.contexts)), thousands(row.d_vocab).into()];
        for depth in depths {
            let found = depth.pooled.points.iter().find(|p| p.x == row.contexts as f64);
            cells.push(found.map_or_else(Cell::none, |p| thousands(p.y.round() as u64).into()));
        }
        table = table.row(cells);
    }
    table
}

/// What was trained, and how the verdicts are reached.
fn setting(record: &Record) -> Section {
    let steps = record.rows.iter().filter_map(|r| r.settings.training.steps).max().unwrap_or(0);
    Section::new("How it was measured")
        .anchor("setting")
        .paragraph(format!(
            "GPT-2 blocks (LayerNorm, one head, 4 d tanh-GELU neurons, output tied to the embedding) of growing width d, trained on all \
             contexts of up to 9 tokens of the built-in stories at once by L-BFGS after a warm-up by Adam, for at most {} steps. \
             Embeddings and positions count as parameters.",
            thousands(steps)
        ))
        .list([
            "Law: the verdict is that of figure 1. A line through the thresholds of all seeds has to be supported.".to_owned(),
            format!(
                "Constant factor: thresholds divided by those of one layer are fitted by b n^p. They agree if the 95% interval of p \
                 holds 0 and is at most {WIDEST} wide, and nearly agree if p is within {SLOW} of 0."
            ),
        ])
        .note("These rules were fixed before the runs on the seeds of the plan.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factor(p: f64, low: f64, high: f64) -> Agreement {
        let interval = ParameterInterval { name: "p", value: p, low, high };
        Factor { mean: 1.2, mean_interval: None, exponent: Some((p, Some(interval))) }.agrees()
    }

    #[test]
    fn a_factor_is_constant_if_its_exponent_may_be_zero() {
        assert_eq!(factor(0.05, -0.1, 0.2), Agreement::Yes);
        assert_eq!(factor(0.05, -0.4, 0.5), Agreement::Open);
        assert_eq!(factor(0.08, 0.06, 0.1), Agreement::Nearly);
        assert_eq!(factor(-0.3, -0.4, -0.2), Agreement::No);
        let unknown = Factor { mean: 1.0, mean_interval: None, exponent: None };
        assert_eq!(unknown.agrees(), Agreement::Open);
        assert!(unknown.words().contains("too few corpora"));
    }

    #[test]
    fn the_factor_of_a_power_is_found() {
        let points = [100.0, 200.0, 400.0, 800.0]
            .into_iter()
            .flat_map(|n: f64| (0..3).map(move |s| (n, s)))
            .map(|(n, s)| Point::new(n, 2.0 * n.powf(0.25) * (1.0 + 0.01 * (s as f64 - 1.0)), s));
        let found = Factor::of(&fit::Points::new(points).unwrap()).unwrap();
        let (p, interval) = found.exponent.unwrap();
        assert!((p - 0.25).abs() < 1e-6 && interval.unwrap().holds(0.25));
        // 2 times the fourth root of the geometric mean of the sizes, 282.8.
        assert!((found.mean - 8.2).abs() < 0.01, "{}", found.mean);
        assert_eq!(found.agrees(), Agreement::No);
    }
}
