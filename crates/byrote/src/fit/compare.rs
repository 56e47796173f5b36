//! Several laws on the same points: a table by AICc, and a verdict.
//!
//! Delta is a law's AICc minus the lowest; its Akaike weight exp(-Delta / 2), normalized to sum 1, is its share of the
//! evidence among the laws of the table (Burnham and Anderson, *Model selection and multimodel inference*, 2nd edition,
//! 2002, section 2.9). The constant is always in the table: it is the null hypothesis. [`Criteria`] has the rules of the
//! verdict.
//!
//! Losses must be comparable: all laws are fitted on one scale and, for Huber's loss, with one delta, that of the law whose
//! residuals are smallest.

use super::bootstrap::{Bootstrap, Replicates, bootstrap};
use super::fitted::{Fit, FitMethod, check, fit};
use super::law::Law;
use super::law_verdict::{Criteria, LawVerdict, Objection, Why};
use super::least_squares::Loss;
use super::points::Points;
use crate::Result;
use serde::Serialize;

/// Settings of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct CompareSettings {
    /// The quantity that the fits minimize.
    pub method: FitMethod,
    /// How intervals are computed.
    pub bootstrap: Bootstrap,
    /// When a law is supported.
    pub criteria: Criteria,
}

crate::setting::setters!(CompareSettings {
    method: plain(FitMethod),
    bootstrap: plain(Bootstrap),
    criteria: plain(Criteria),
});

/// A law in the table.
#[derive(Debug, Clone, Serialize)]
pub struct LawRow {
    /// The law.
    pub law: Law,
    /// The fit; none when the points do not determine it.
    pub fit: Option<Fit>,
    /// AICc minus the lowest; none when the law cannot be judged.
    pub delta: Option<f64>,
    /// The Akaike weight; none when the law cannot be judged.
    pub weight: Option<f64>,
    /// Intervals, for laws close to the best one.
    pub replicates: Option<Replicates>,
    /// The objections to it, apart from a better law.
    pub doubts: Vec<Objection>,
}

/// The table of laws, best first; those that cannot be judged come last.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The settings of the comparison, with the criteria of the verdict.
    pub settings: CompareSettings,
    /// The number of points.
    pub n_points: usize,
    /// The number of distinct sizes.
    pub n_sizes: usize,
    /// The number of distinct groups.
    pub n_groups: usize,
    /// One row per law.
    pub rows: Vec<LawRow>,
    /// The answer, for programs.
    pub verdict: LawVerdict,
    /// The answer, for readers.
    pub sentence: String,
    /// What the intervals assume of the errors; empty if there are no intervals.
    pub assumption: Option<String>,
}

impl Comparison {
    /// States what the intervals assume, once they are known.
    pub(crate) fn assume(&mut self) {
        let scale = self.settings.method.scale;
        let resampled = self.rows.iter().find_map(|row| Some(row.replicates.as_ref()?.resampled));
        self.assumption = resampled.map(|resampled| resampled.assumption(scale));
    }

    /// The row of a law.
    pub fn row(&self, law: Law) -> Option<&LawRow> {
        self.rows.iter().find(|row| row.law == law)
    }
}

/// Fits every law of a list, and the constant, and decides which are supported.
///
/// # Errors
/// When a law or the method is not defined for these points (sizes outside a law's domain, logarithms of numbers that are not
/// above zero), or the settings of the bootstrap are out of range. Too few points are not an error but a verdict.
pub fn compare(points: &Points, laws: &[Law], settings: &CompareSettings) -> Result<Comparison> {
    settings.bootstrap.check()?;
    let mut laws = laws.to_vec();
    laws.push(Law::Constant);
    laws.sort_unstable();
    laws.dedup();
    for &law in &laws {
        check(points, law, &settings.method)?;
    }
    let criteria = &settings.criteria;
    let n_sizes = points.sizes().len();
    let method = common_method(points, &laws, settings);
    let mut rows: Vec<LawRow> =
        laws.iter().map(|&law| row(points, law, &method, criteria, n_sizes)).collect();

    let aicc = |row: &LawRow| row.fit.as_ref().and_then(|fit| fit.aicc).filter(|_| row.is_judged());
    let best = rows.iter().filter_map(aicc).fold(f64::INFINITY, f64::min);
    let sum: f64 = rows.iter().filter_map(aicc).map(|a| libm::exp(-0.5 * (a - best))).sum();
    for row in &mut rows {
        row.delta = aicc(row).map(|a| a - best);
        row.weight = row.delta.map(|delta| libm::exp(-0.5 * delta) / sum);
    }
    // Stable: of equal laws the simpler one comes first, as in the list.
    rows.sort_by(|p, q| p.delta.unwrap_or(f64::INFINITY).total_cmp(&q.delta.unwrap_or(f64::INFINITY)));
    let near = |row: &LawRow| row.delta.is_some_and(|delta| delta <= criteria.tie);
    for row in rows.iter_mut().filter(|row| near(row)) {
        let Some(fit) = &row.fit else { continue };
        let replicates = bootstrap(points, fit, &settings.bootstrap)?;
        match (&replicates.intervals, row.law.exponent()) {
            (None, _) => {
                row.doubts.push(Objection::NoInterval { failed: replicates.failed, asked: replicates.asked });
            }
            (Some(intervals), Some(j)) if intervals[j].width() > criteria.exponent_width => {
                row.doubts.push(Objection::WideExponent { low: intervals[j].low, high: intervals[j].high });
            }
            _ => {}
        }
        row.replicates = Some(replicates);
    }
    let verdict = conclude(&rows, criteria);
    let sentence = sentence(&rows, &verdict, points.len());
    let mut comparison = Comparison {
        settings: *settings,
        n_points: points.len(),
        n_sizes,
        n_groups: points.groups().len(),
        rows,
        verdict,
        sentence,
        assumption: None,
    };
    comparison.assume();
    Ok(comparison)
}

impl LawRow {
    fn is_judged(&self) -> bool {
        !self
            .doubts
            .iter()
            .any(|d| matches!(d, Objection::TooFewPoints { .. } | Objection::Undetermined { .. }))
    }
}

/// The method, with the same scale of Huber's loss for all laws.
fn common_method(points: &Points, laws: &[Law], settings: &CompareSettings) -> FitMethod {
    let FitMethod { scale, loss } = settings.method;
    let Loss::Huber { tuning, scale: None } = loss else { return settings.method };
    let deltas = laws.iter().filter_map(|&law| {
        let fit = fit(points, law, &settings.method).ok()?;
        // A law that passes through all points says nothing about the noise.
        fit.aicc.map(|_| fit.solution.delta / tuning)
    });
    let least = deltas.fold(f64::INFINITY, f64::min);
    let common = (least.is_finite() && least > 0.0).then_some(least);
    FitMethod { scale, loss: Loss::Huber { tuning, scale: common } }
}

fn row(points: &Points, law: Law, method: &FitMethod, criteria: &Criteria, n_sizes: usize) -> LawRow {
    let p = law.n_parameters();
    let (needed_points, needed_sizes) = (p + 3, criteria.least_sizes.max(p + 2));
    let mut row = LawRow { law, fit: None, delta: None, weight: None, replicates: None, doubts: Vec::new() };
    let fit = match fit(points, law, method) {
        Ok(fit) => fit,
        Err(_) if n_sizes < p => {
            row.doubts.push(Objection::TooFewPoints {
                points: points.len(),
                needed_points,
                sizes: n_sizes,
                needed_sizes,
            });
            return row;
        }
        Err(error) => {
            row.doubts.push(Objection::Undetermined { message: error.to_string() });
            return row;
        }
    };
    if points.len() < needed_points || n_sizes < needed_sizes {
        let (points, sizes) = (points.len(), n_sizes);
        row.doubts.push(Objection::TooFewPoints { points, needed_points, sizes, needed_sizes });
    }
    if let Some(r_squared) = fit.r_squared.filter(|r| *r < criteria.least_r_squared) {
        row.doubts.push(Objection::LowRSquared { r_squared });
    }
    let structure = fit.structure;
    if let Some(probability) = structure.probability.filter(|p| *p < criteria.structure)
        && structure.deviation > criteria.negligible
    {
        let (test, deviation) = (structure.test, structure.deviation);
        row.doubts.push(Objection::Pattern { test, probability, deviation });
    }
    if fit.at_bound {
        row.doubts.push(Objection::AtBound);
    }
    row.fit = Some(fit);
    row
}

fn conclude(rows: &[LawRow], criteria: &Criteria) -> LawVerdict {
    let near: Vec<&LawRow> = rows.iter().filter(|r| r.delta.is_some_and(|d| d <= criteria.tie)).collect();
    let nearest = near.first().map(|row| row.law);
    let none = |why| LawVerdict::NoLaw { why, nearest };
    if near.is_empty() {
        return none(Why::TooFewPoints);
    }
    if near.iter().all(|row| row.fit.as_ref().is_none_or(|fit| fit.r_squared.is_none())) {
        return none(Why::NothingVaries);
    }
    if near.iter().any(|row| row.law == Law::Constant) {
        return none(Why::NoDependence);
    }
    let sound: Vec<Law> = near.iter().filter(|row| row.doubts.is_empty()).map(|row| row.law).collect();
    let laws: Vec<Law> =
        sound.iter().copied().filter(|law| !sound.iter().any(|other| law.contains(*other))).collect();
    match laws[..] {
        [] => none(Why::Doubts),
        [law] => LawVerdict::Supported { law },
        _ => LawVerdict::NotToldApart { laws },
    }
}

fn sentence(rows: &[LawRow], verdict: &LawVerdict, n_points: usize) -> String {
    let found = |law: Law| rows.iter().find(|row| row.law == law);
    match verdict {
        LawVerdict::Supported { law } => {
            let r_squared = found(*law).and_then(|r| r.fit.as_ref()).and_then(|f| f.r_squared).unwrap_or(0.0);
            format!("the {law} law is supported, {} (R^2 = {r_squared:.4})", law.formula())
        }
        LawVerdict::NotToldApart { laws } => {
            let names: Vec<&str> = laws.iter().map(|law| law.name()).collect();
            format!("{n_points} points cannot distinguish these laws: {}", names.join(", "))
        }
        LawVerdict::NoLaw { why, nearest } => {
            let doubts = || {
                let doubt = nearest.and_then(found).and_then(|row| row.doubts.first());
                let name = nearest.map_or("", Law::name);
                format!("the nearest is {name}, but {}", doubt.map(Objection::sentence).unwrap_or_default())
            };
            let why = match why {
                Why::TooFewPoints => format!("{n_points} points at too few sizes"),
                Why::NothingVaries => "all measurements are the same".into(),
                Why::NoDependence => "a constant describes them as well as any law".into(),
                Why::Doubts => doubts(),
            };
            format!("no law is supported by these points: {why}")
        }
    }
}
