//! Intervals by resampling (Efron, Ann. Stat. 7, 1979): the law is refitted to points that might as well have been measured.
//!
//! - *Groups*: as many groups (seeds) as there are, drawn with replacement, each with all of its points. Accounts for
//!   whatever errors the points of a seed share.
//! - *Residuals*: the fitted curve plus residuals drawn with replacement, enlarged by sqrt(n / (n - p)) since a fit makes them
//!   too small. For one seed. It assumes independent errors that are equal on the scale of the fit, so the scale matters: errors
//!   of equal proportion need a fit in ln y ([`coverage`](super::coverage) measures what happens otherwise).
//!
//! The ends of an interval:
//!
//! - From ten groups on, and for residuals, two *percentiles* of the replicates. The plain ones (2.5% and 97.5%) are too narrow
//!   for small samples: the tail is alpha' = Phi(-t sqrt(G / (G - 1))) instead of alpha / 2, with t Student's quantile at G - 1
//!   degrees of freedom (Hesterberg, *What teachers should know about the bootstrap*, arXiv:1411.5279, the "expanded
//!   percentile" interval); for residuals alpha' = Phi(-t), n - p degrees.
//! - For fewer groups the fit -+ t sqrt(G / (G - 1)) times the standard deviation of the replicates: for a mean this is
//!   Student's interval, exact for any number of normal groups. Percentiles would be too narrow: those of G groups never reach
//!   beyond the extreme ones, which hold the truth with probability 1 - 2^(1-G), 50% for two and 94% for five.
//!
//! [`Resample::Auto`] resamples groups if there are five or more. Draw r uses stream r of the seed, on whichever thread.

use super::fitted::{Fit, data};
use super::law::Law;
use super::least_squares::{Data, Problem, ResidualScale, Solution};
use super::points::{Point, Points};
use super::tails::{normal, student_quantile};
use crate::num::Stream;
use crate::{Error, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// The fewest groups that are resampled by default.
const ENOUGH_GROUPS: usize = 5;
/// The fewest groups whose intervals are percentiles.
pub(super) const ENOUGH_FOR_PERCENTILES: usize = 10;
/// The largest part of failed fits with which there is an interval.
const MOST_FAILURES: f64 = 0.05;

/// The units that are resampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resample {
    /// Groups if there are five or more, else residuals.
    #[default]
    Auto,
    /// Whole groups; at least two.
    Groups,
    /// Residuals.
    Residuals,
}

/// How intervals are computed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Bootstrap {
    /// The number of refits, at least 100.
    pub replicates: u32,
    /// The probability with which an interval should hold the truth.
    pub level: f64,
    /// The units that are drawn.
    pub resample: Resample,
    /// The seed of the random stream.
    pub seed: u64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self { replicates: 2000, level: 0.95, resample: Resample::Auto, seed: 0 }
    }
}

crate::setting::setters!(Bootstrap {
    replicates: plain(u32),
    level: plain(f64),
    resample: plain(Resample),
    seed: plain(u64),
});

impl Bootstrap {
    /// # Errors
    /// When there are fewer than 100 replicates or the level is not between 0.5 and 0.999.
    pub(super) fn check(&self) -> Result<()> {
        if self.replicates < 100 {
            let message = format!("must be at least 100 (got {})", self.replicates);
            return Err(Error::setting("replicates", message));
        }
        if !(0.5..=0.999).contains(&self.level) {
            return Err(Error::setting(
                "level",
                format!("must be between 0.5 and 0.999 (got {})", self.level),
            ));
        }
        Ok(())
    }
}

/// How the ends of an interval are computed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Ends {
    /// The percentiles that leave this tail on either side.
    Percentiles {
        /// As a part of the replicates.
        tail: f64,
    },
    /// The fit and a multiple of the standard deviation of the replicates on either side.
    Student {
        /// t sqrt(G / (G - 1)).
        factor: f64,
    },
}

/// What was resampled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Resampled {
    /// Groups or residuals.
    pub what: Resample,
    /// Groups, or points for residuals.
    pub n: usize,
    /// How intervals are computed from the replicates.
    pub ends: Ends,
}

impl Resampled {
    /// Groups, with percentiles if there are enough groups, or if `censored` replicates have no standard deviation.
    pub(super) fn groups(n: usize, level: f64, censored: bool) -> Self {
        let n_f = n as f64;
        let factor = student_quantile(0.5 + 0.5 * level, n_f - 1.0) * (n_f / (n_f - 1.0)).sqrt();
        let ends = match n >= ENOUGH_FOR_PERCENTILES || censored {
            true => Ends::Percentiles { tail: normal(-factor) },
            false => Ends::Student { factor },
        };
        Self { what: Resample::Groups, n, ends }
    }

    fn residuals(n: usize, n_parameters: usize, level: f64) -> Self {
        let t = student_quantile(0.5 + 0.5 * level, (n - n_parameters) as f64);
        Self { what: Resample::Residuals, n, ends: Ends::Percentiles { tail: normal(-t) } }
    }

    /// What an interval assumes of the errors, as the rest of a sentence that begins with "it assumes that".
    pub fn assumption(&self, scale: ResidualScale) -> String {
        match (self.what, scale) {
            (Resample::Groups, _) => format!(
                "the {} seeds are independent of each other; runs of one seed may share errors of any kind",
                self.n
            ),
            (_, ResidualScale::Plain) => format!(
                "the errors of the {} measurements are independent and equally large at all sizes",
                self.n
            ),
            (_, ResidualScale::Relative) => format!(
                "the errors of the {} measurements are independent and the same proportion of the value at all sizes",
                self.n
            ),
        }
    }

    /// The ends of the interval of a quantity with this value and these replicates.
    pub(super) fn interval(&self, value: f64, mut replicates: Vec<f64>) -> (f64, f64) {
        match self.ends {
            Ends::Percentiles { tail } => {
                replicates.sort_by(f64::total_cmp);
                (percentile(&replicates, tail), percentile(&replicates, 1.0 - tail))
            }
            Ends::Student { factor } => {
                let n = replicates.len() as f64;
                let mean = replicates.iter().sum::<f64>() / n;
                let variance = replicates.iter().map(|r| (r - mean) * (r - mean)).sum::<f64>() / n;
                let half = factor * variance.sqrt();
                (value - half, value + half)
            }
        }
    }
}

/// The interval of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ParameterInterval {
    /// As in the formula.
    pub name: &'static str,
    /// The fit.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl ParameterInterval {
    /// Whether it holds a value.
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Its length.
    pub fn width(&self) -> f64 {
        self.high - self.low
    }
}

/// The interval of the curve at x.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Band {
    /// The size.
    pub x: f64,
    /// The fit.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The refits to resampled points.
#[derive(Debug, Clone, Serialize)]
pub struct Replicates {
    /// The law.
    pub law: Law,
    /// What was resampled.
    pub resampled: Resampled,
    /// The nominal level.
    pub level: f64,
    /// The number of refits requested.
    pub asked: u32,
    /// The number of refits that failed because the draw had too few sizes or did not determine the law.
    pub failed: u32,
    /// The interval of each parameter; none when more than 5% of the refits failed.
    pub intervals: Option<Vec<ParameterInterval>>,
    /// The fit to the points themselves.
    #[serde(skip)]
    center: Vec<f64>,
    /// The parameters of each successful replicate, in order.
    #[serde(skip)]
    values: Vec<Vec<f64>>,
}

impl Replicates {
    /// The parameters of the replicates.
    pub fn values(&self) -> &[Vec<f64>] {
        &self.values
    }

    /// The interval of the parameter with a name.
    pub fn interval(&self, name: &str) -> Option<&ParameterInterval> {
        self.intervals.as_ref()?.iter().find(|i| i.name == name)
    }

    /// The interval of a function of the parameters; none when more than 5% of the refits failed or a value is not a number.
    pub fn of(&self, quantity: impl Fn(&[f64]) -> f64) -> Option<(f64, f64)> {
        self.intervals.as_ref()?;
        let values: Vec<f64> = self.values.iter().map(|v| quantity(v)).collect();
        let (low, high) = self.resampled.interval(quantity(&self.center), values);
        (!low.is_nan() && !high.is_nan()).then_some((low, high))
    }

    /// The pointwise band around the curve.
    pub fn band(&self, x: &[f64]) -> Option<Vec<Band>> {
        let at = |&x: &f64| {
            let (low, high) = self.of(|parameters| self.law.value(parameters, x))?;
            Some(Band { x, value: self.law.value(&self.center, x), low, high })
        };
        x.iter().map(at).collect()
    }
}

/// Resamples the points of a fit and refits.
///
/// # Errors
/// If the settings are out of range, if groups are requested and there is only one, or if residuals are requested (or
/// chosen) and there are no more points than parameters.
pub fn bootstrap(points: &Points, fit: &Fit, settings: &Bootstrap) -> Result<Replicates> {
    settings.check()?;
    let groups = points.groups();
    let what = match settings.resample {
        Resample::Auto if groups.len() >= ENOUGH_GROUPS => Resample::Groups,
        Resample::Auto => Resample::Residuals,
        asked => asked,
    };
    let (n, p) = (points.len(), fit.law.n_parameters());
    let all = data(points, &fit.basis, fit.method.scale);
    let resampled = match what {
        Resample::Groups if groups.len() < 2 => {
            return Err(Error::setting("resample", "there is only one group; resample residuals instead"));
        }
        Resample::Groups => Resampled::groups(groups.len(), settings.level, false),
        _ if n <= p => {
            let message =
                format!("{n} points leave no residuals for the {p} parameters of the law {}", fit.law);
            return Err(Error::setting("resample", message));
        }
        _ => Resampled::residuals(n, p, settings.level),
    };
    let draw: Box<dyn Fn(&mut Stream) -> Data + Sync> = match what {
        Resample::Groups => Box::new(by_groups(points.as_slice(), &groups, &all)),
        _ => Box::new(by_residuals(fit, &all)),
    };
    let replicates: Vec<Option<Vec<f64>>> = (0..u64::from(settings.replicates))
        .into_par_iter()
        .map(|r| {
            let sample = draw(&mut Stream::new(settings.seed, "fit bootstrap", r));
            again(fit, &sample)
        })
        .collect();
    let values: Vec<Vec<f64>> = replicates.into_iter().flatten().collect();
    let failed = settings.replicates - u32::try_from(values.len()).unwrap_or(0);
    let mut result = Replicates {
        law: fit.law,
        resampled,
        level: settings.level,
        asked: settings.replicates,
        failed,
        intervals: None,
        center: fit.values(),
        values,
    };
    if f64::from(failed) <= MOST_FAILURES * f64::from(settings.replicates) {
        result.intervals = Some(Vec::new());
        let intervals = fit.parameters.iter().enumerate().map(|(j, parameter)| {
            let (low, high) = result.of(|v| v[j])?;
            Some(ParameterInterval { name: parameter.name, value: parameter.value, low, high })
        });
        result.intervals = intervals.collect();
    }
    Ok(result)
}

fn again(fit: &Fit, sample: &Data) -> Option<Vec<f64>> {
    let mut sizes = sample.u.clone();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    if sizes.len() < fit.law.n_parameters() {
        return None;
    }
    let problem = Problem { basis: &fit.basis, data: sample, scale: fit.method.scale };
    let Solution { c, shape, .. } = problem.solve(fit.method.loss, 1, Some(&fit.solution))?;
    let values = fit.basis.parameters(&c, &shape);
    values.iter().all(|v| v.is_finite()).then_some(values)
}

fn by_groups<'a>(points: &'a [Point], groups: &'a [u64], all: &'a Data) -> impl Fn(&mut Stream) -> Data + 'a {
    let members: Vec<Vec<usize>> = groups
        .iter()
        .map(|group| (0..points.len()).filter(|&i| points[i].group == *group).collect())
        .collect();
    move |stream| {
        let mut sample = Data { u: Vec::new(), z: Vec::new(), w: Vec::new() };
        for _ in 0..members.len() {
            for &i in stream.choose(&members) {
                sample.u.push(all.u[i]);
                sample.z.push(all.z[i]);
                sample.w.push(all.w[i]);
            }
        }
        sample
    }
}

fn by_residuals<'a>(fit: &'a Fit, all: &'a Data) -> impl Fn(&mut Stream) -> Data + 'a {
    let n = all.z.len();
    // On the scale of equal variances, with mean 0.
    let scaled: Vec<f64> = fit.residuals.iter().zip(&all.w).map(|(r, w)| r.residual * w.sqrt()).collect();
    let mean = scaled.iter().sum::<f64>() / n as f64;
    let larger = (n as f64 / (n - fit.law.n_parameters()) as f64).sqrt();
    let pool: Vec<f64> = scaled.iter().map(|r| (r - mean) * larger).collect();
    move |stream| {
        let z = (0..n).map(|i| {
            let curve = all.z[i] - fit.residuals[i].residual;
            curve + stream.choose(&pool) / all.w[i].sqrt()
        });
        Data { u: all.u.clone(), z: z.collect(), w: all.w.clone() }
    }
}

/// The value below which a part of the sorted values lies: number `part` (B + 1) of B, interpolated between neighbours.
fn percentile(sorted: &[f64], part: f64) -> f64 {
    let place = (part * (sorted.len() + 1) as f64 - 1.0).clamp(0.0, (sorted.len() - 1) as f64);
    let below = place.floor() as usize;
    let (low, high) = (sorted[below], sorted[(below + 1).min(sorted.len() - 1)]);
    let between = place - below as f64;
    // If the lower one is infinite, the difference is not a number.
    if between == 0.0 || low == high || low.is_infinite() { low } else { low + between * (high - low) }
}

#[cfg(test)]
mod tests {
    use super::super::{FitMethod, fit};
    use super::*;

    /// y = 2 + 3 x with noise, part of which the points of a seed share.
    fn noisy(n_sizes: u64, n_groups: u64, shared: f64, own: f64, index: u64) -> Points {
        let mut stream = Stream::new(11, "coverage", index);
        let mut points = Vec::new();
        for group in 0..n_groups {
            let offset = shared * stream.normal();
            for i in 1..=n_sizes {
                let x = i as f64;
                points.push(Point::new(x, 2.0 + 3.0 * x + offset + own * stream.normal(), group));
            }
        }
        Points::new(points).unwrap()
    }

    const INTERCEPT: fn(&[f64]) -> f64 = |v| v[0];
    const SLOPE: fn(&[f64]) -> f64 = |v| v[1];
    const MIDDLE: fn(&[f64]) -> f64 = |v| v[0] + 3.5 * v[1];

    /// The number of intervals of a quantity, out of `trials`, that hold its true value.
    fn covered(
        trials: u64,
        quantity: fn(&[f64]) -> f64,
        resample: Resample,
        make: impl Fn(u64) -> Points,
    ) -> u64 {
        let settings = Bootstrap { replicates: 500, resample, ..Bootstrap::default() };
        let truth = quantity(&[2.0, 3.0]);
        let mut held = 0;
        for trial in 0..trials {
            let points = make(trial);
            let line = fit(&points, Law::Linear, &FitMethod::default()).unwrap();
            let found = bootstrap(&points, &line, &Bootstrap { seed: trial, ..settings }).unwrap();
            let (low, high) = found.of(quantity).unwrap();
            held += u64::from(low <= truth && truth <= high);
        }
        held
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        // 400 trials of 95%: 380 expected, standard deviation sqrt(400 * 0.95 * 0.05) = 4.4; three of them.
        let within = |held: u64| assert!((367..=393).contains(&held), "{held} of 400");
        within(covered(400, SLOPE, Resample::Residuals, |i| noisy(8, 1, 0.0, 1.0, i)));
        within(covered(400, INTERCEPT, Resample::Residuals, |i| noisy(8, 1, 0.0, 1.0, i)));
        within(covered(400, SLOPE, Resample::Groups, |i| noisy(6, 10, 1.0, 1.0, 1000 + i)));
        within(covered(400, MIDDLE, Resample::Groups, |i| noisy(6, 10, 1.0, 1.0, 1000 + i)));
        within(covered(400, MIDDLE, Resample::Auto, |i| noisy(6, 5, 1.0, 1.0, 3000 + i)));
        within(covered(400, SLOPE, Resample::Groups, |i| noisy(6, 2, 1.0, 1.0, 4000 + i)));
    }

    #[test]
    fn resampled_residuals_miss_what_a_seed_shares_and_groups_do_not() {
        // Seeds share errors of 2: in the middle of the line the variance is 4 / 10, not 4 / 60.
        let make = |i| noisy(6, 10, 2.0, 0.5, 2000 + i);
        assert!(covered(100, MIDDLE, Resample::Residuals, make) < 70);
        assert!(covered(100, MIDDLE, Resample::Groups, make) > 88);
    }

    #[test]
    fn intervals_do_not_depend_on_the_threads_or_the_order_of_the_points() {
        let points = noisy(7, 6, 0.3, 1.0, 5);
        let reversed = Points::new(points.as_slice().iter().rev().copied()).unwrap();
        let work = |points: &Points| {
            let power = fit(points, Law::PowerOffset, &FitMethod::default()).unwrap();
            let settings = Bootstrap { replicates: 200, ..Bootstrap::default() };
            serde_json::to_string(&bootstrap(points, &power, &settings).unwrap()).unwrap()
        };
        let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let one = pool(1).install(|| work(&points));
        assert_eq!(one, pool(3).install(|| work(&points)));
        assert_eq!(one, work(&reversed));
    }

    #[test]
    fn the_band_lies_about_the_curve_and_widens_outwards() {
        let points = noisy(10, 1, 0.0, 1.0, 9);
        let line = fit(&points, Law::Linear, &FitMethod::default()).unwrap();
        let found = bootstrap(&points, &line, &Bootstrap::default()).unwrap();
        let band = found.band(&[5.5, 10.0, 40.0]).unwrap();
        assert!(band.iter().all(|b| b.low < b.value && b.value < b.high && b.value == line.value(b.x)));
        assert!(band.windows(2).all(|w| w[0].high - w[0].low < w[1].high - w[1].low));
    }

    #[test]
    fn intervals_widen_for_few_groups() {
        let of = |groups| Resampled::groups(groups, 0.95, false).ends;
        // t at 4 degrees is 2.776445, times sqrt(5 / 4).
        let Ends::Student { factor } = of(5) else { panic!("{:?}", of(5)) };
        assert!((factor - 3.104160).abs() < 1e-6);
        // t at 9 degrees is 2.262157, times sqrt(10 / 9) = 2.384522: Phi(-2.384522) = 0.008551.
        let tail = |groups| match of(groups) {
            Ends::Percentiles { tail } => tail,
            Ends::Student { .. } => f64::NAN,
        };
        assert!((tail(10) - 0.008551).abs() < 1e-6);
        assert!((tail(100_000) - 0.025).abs() < 1e-5);
    }

    #[test]
    fn two_groups_give_the_interval_of_student() {
        // A constant through 1 and 3: 2 -+ 12.7062 * 1, t at one degree times s / sqrt(2); the standard deviation of the
        // replicates is drawn, 1 / sqrt(2) within some per cent.
        let points = Points::new([Point::new(1.0, 1.0, 0), Point::new(1.0, 3.0, 1)]).unwrap();
        let constant = fit(&points, Law::Constant, &FitMethod::default()).unwrap();
        let settings = Bootstrap { resample: Resample::Groups, replicates: 10_000, ..Bootstrap::default() };
        let found = bootstrap(&points, &constant, &settings).unwrap();
        let interval = found.interval("a").unwrap();
        assert!(
            (interval.high - 14.7062).abs() < 0.5 && (interval.low + 10.7062).abs() < 0.5,
            "{interval:?}"
        );
    }

    #[test]
    fn seeds_are_resampled_if_there_are_five_or_on_request() {
        let few = noisy(6, 4, 0.0, 1.0, 1);
        let line = fit(&few, Law::Linear, &FitMethod::default()).unwrap();
        let settings = Bootstrap { replicates: 100, ..Bootstrap::default() };
        assert_eq!(bootstrap(&few, &line, &settings).unwrap().resampled.what, Resample::Residuals);
        let asked = Bootstrap { resample: Resample::Groups, ..settings };
        assert_eq!(bootstrap(&few, &line, &asked).unwrap().resampled.n, 4);
    }

    #[test]
    fn resampling_without_enough_data_is_an_error() {
        let points = Points::of_lists(&[1.0, 2.0], &[1.0, 3.0]).unwrap();
        let line = fit(&points, Law::Linear, &FitMethod::default()).unwrap();
        let error = |settings: &Bootstrap| bootstrap(&points, &line, settings).unwrap_err().to_string();
        let fine = Bootstrap::default();
        assert!(error(&fine).contains("2 points leave no residuals for the 2 parameters of the law linear"));
        assert!(error(&Bootstrap { resample: Resample::Groups, ..fine }).contains("there is only one group"));
        assert!(error(&Bootstrap { replicates: 10, ..fine }).contains("must be at least 100 (got 10)"));
        assert!(error(&Bootstrap { level: 1.0, ..fine }).contains("must be between"));
    }

    #[test]
    fn draws_that_do_not_determine_the_law_are_counted() {
        // Two of three seeds have one size each: a draw without the third determines no line.
        let points = Points::new([
            Point::new(1.0, 1.0, 0),
            Point::new(2.0, 2.1, 1),
            Point::new(1.0, 1.1, 2),
            Point::new(2.0, 2.0, 2),
            Point::new(3.0, 3.2, 2),
        ])
        .unwrap();
        let line = fit(&points, Law::Linear, &FitMethod::default()).unwrap();
        let settings = Bootstrap { resample: Resample::Groups, ..Bootstrap::default() };
        let found = bootstrap(&points, &line, &settings).unwrap();
        // Draws of one seed alone, the first or the second: 2 of 27.
        assert!(found.failed > 100 && found.failed < 200, "{}", found.failed);
        assert!(found.intervals.is_none() && found.interval("b").is_none() && found.band(&[1.0]).is_none());
    }
}
