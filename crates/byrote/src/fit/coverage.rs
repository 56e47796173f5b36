//! How often a 95% interval holds the truth, by simulation.
//!
//! Measurements of a known law y = 15 x are drawn with normal errors, each law is fitted, and the trials are counted in which the
//! interval holds the true parameter. Intervals of a single seed resample residuals, so they assume independent errors that are
//! equal on the scale of the fit. The table shows what that assumption is worth: a fit in y for errors of equal size, one in
//! ln y for errors of equal proportion, and what becomes of the intervals when the two are confused.
//!
//! `cargo run --release --example interval_coverage` prints the table of docs/laws.md.

use super::bootstrap::{Bootstrap, Resample, bootstrap};
use super::fitted::{FitMethod, fit};
use super::law::Law;
use super::least_squares::{Loss, ResidualScale};
use super::points::{Point, Points};
use crate::Result;
use crate::num::Stream;
use rayon::prelude::*;
use serde::Serialize;

/// Where measurements are made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeasuredSizes {
    /// A few words.
    pub name: &'static str,
    /// One measurement per size.
    pub sizes: &'static [f64],
}

/// The distinct contexts of the eight corpora of madden2024-fig1, one threshold each.
pub const FIGURE_ONE: MeasuredSizes = MeasuredSizes {
    name: "madden2024-fig1",
    sizes: &[337.0, 639.0, 964.0, 1184.0, 1422.0, 1629.0, 2071.0, 2610.0],
};

/// Nine sizes over two decades.
pub const TWO_DECADES: MeasuredSizes = MeasuredSizes {
    name: "two decades",
    sizes: &[100.0, 178.0, 316.0, 562.0, 1000.0, 1778.0, 3162.0, 5623.0, 10_000.0],
};

/// How errors depend on the size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorModel {
    /// Errors of the same size everywhere.
    Equal,
    /// Errors of the same proportion everywhere.
    Proportional,
}

impl ErrorModel {
    /// Both.
    pub const ALL: [ErrorModel; 2] = [ErrorModel::Equal, ErrorModel::Proportional];

    /// The scale on which these errors are equal.
    pub fn scale(self) -> ResidualScale {
        match self {
            ErrorModel::Equal => ResidualScale::Plain,
            ErrorModel::Proportional => ResidualScale::Relative,
        }
    }

    /// A measurement of `y` at one of sizes whose smallest value is `least`.
    fn draw(self, y: f64, least: f64, stream: &mut Stream) -> f64 {
        match self {
            ErrorModel::Equal => y + 0.2 * least * stream.normal(),
            ErrorModel::Proportional => y * libm::exp(0.2 * stream.normal()),
        }
    }
}

/// A parameter whose interval is checked: its law, its name, and its true value.
pub const QUANTITIES: [(Law, &str, f64); 3] =
    [(Law::Proportional, "b", SLOPE), (Law::Linear, "b", SLOPE), (Law::Power, "p", 1.0)];

/// The true law is y = SLOPE x.
const SLOPE: f64 = 15.0;

/// One entry of the table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct IntervalCoverage {
    /// Where was measured.
    pub layout: MeasuredSizes,
    /// The errors that were drawn.
    pub errors: ErrorModel,
    /// The scale of the fit.
    pub scale: ResidualScale,
    /// The law that was fitted.
    pub law: Law,
    /// The parameter whose interval was checked.
    pub parameter: &'static str,
    /// Trials whose interval held the truth.
    pub held: u32,
    /// Trials that gave an interval.
    pub trials: u32,
}

impl IntervalCoverage {
    /// The part of the intervals that held the truth.
    pub fn part(&self) -> f64 {
        f64::from(self.held) / f64::from(self.trials.max(1))
    }
}

/// Measures the coverage of nominal 95% intervals; the same for the same seed on any number of threads.
pub fn measure(
    layout: MeasuredSizes,
    errors: ErrorModel,
    scale: ResidualScale,
    (law, parameter, truth): (Law, &'static str, f64),
    trials: u32,
    seed: u64,
) -> Result<IntervalCoverage> {
    let method = FitMethod { scale, loss: Loss::Squares };
    let one = |trial: u32| -> Result<Option<bool>> {
        let mut stream = Stream::new(seed, "fit coverage", u64::from(trial));
        let least = SLOPE * layout.sizes.first().copied().unwrap_or(1.0);
        let draw = layout.sizes.iter().map(|&x| Point::new(x, errors.draw(SLOPE * x, least, &mut stream), 0));
        let points = Points::new(draw.collect::<Vec<_>>())?;
        if scale == ResidualScale::Relative && points.as_slice().iter().any(|p| p.y <= 0.0) {
            return Ok(None);
        }
        let fitted = fit(&points, law, &method)?;
        let settings = Bootstrap {
            replicates: 500,
            resample: Resample::Residuals,
            seed: u64::from(trial),
            ..Bootstrap::default()
        };
        let replicates = bootstrap(&points, &fitted, &settings)?;
        Ok(replicates.interval(parameter).map(|interval| interval.holds(truth)))
    };
    let held: Vec<Option<bool>> = (0..trials).into_par_iter().map(one).collect::<Result<_>>()?;
    let count = |wanted: fn(&bool) -> bool| held.iter().flatten().filter(|h| wanted(h)).count() as u32;
    Ok(IntervalCoverage {
        layout,
        errors,
        scale,
        law,
        parameter,
        held: count(|h| *h),
        trials: count(|_| true),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exponents, which take minutes, are simulated only with `BYROTE_TEST_HUGE=1`, as in the gate.
    #[test]
    fn intervals_cover_the_truth_on_the_scale_on_which_errors_are_equal() {
        let huge = std::env::var_os("BYROTE_TEST_HUGE").is_some_and(|value| value == "1");
        for layout in [FIGURE_ONE, TWO_DECADES] {
            for errors in ErrorModel::ALL {
                for quantity in QUANTITIES.into_iter().filter(|q| huge || q.0 != Law::Power) {
                    let found = measure(layout, errors, errors.scale(), quantity, 400, 1).unwrap();
                    assert!(found.trials >= 396 && (0.90..=0.98).contains(&found.part()), "{found:?}");
                }
            }
        }
    }

    #[test]
    fn intervals_on_the_wrong_scale_are_too_narrow() {
        let slope = (Law::Proportional, "b", SLOPE);
        let of = |layout| {
            measure(layout, ErrorModel::Proportional, ResidualScale::Plain, slope, 200, 1).unwrap().part()
        };
        let (near, far) = (of(FIGURE_ONE), of(TWO_DECADES));
        assert!(near < 0.90 && far < 0.75, "{near} {far}");
    }
}
