//! Laws through points: fits, intervals, comparison, thresholds.
//!
//! [`Points`] are measurements y at sizes x, each belonging to a group (a seed). A [`Law`] is a curve with a few parameters.
//! [`fit`](fit()) finds them by least squares or robustly, [`bootstrap`](bootstrap()) gives their intervals, [`compare`] decides
//! which laws the points support, if any, [`threshold`] finds the smallest size that reaches a level, and [`coverage`] measures
//! how often intervals hold the truth. Every result can be serialized and does not depend on the number of threads.
//! `docs/laws.md` explains the rules.
//!
//! ```
//! use byrote::fit::{CompareSettings, Law, LawVerdict, Point, Points, compare};
//!
//! // Three seeds at eight sizes.
//! let noise = [0.1, -0.2, 0.3, -0.1, 0.0, 0.2, -0.3, 0.1, -0.1, 0.2, 0.0];
//! let point = |i: usize| Point::new(1.0 + (i % 8) as f64, 2.0 * (i % 8) as f64 + noise[i % 11], (i / 8) as u64);
//! let points = Points::new((0..24).map(point))?;
//! let table = compare(&points, &[Law::Linear, Law::Quadratic, Law::Power], &CompareSettings::default())?;
//! assert_eq!(table.verdict, LawVerdict::Supported { law: Law::Linear });
//! let slope = table.rows[0].replicates.as_ref().and_then(|r| r.interval("b").copied());
//! assert!(slope.is_some_and(|b| b.holds(2.0) && b.width() < 0.1));
//! # Ok::<(), byrote::Error>(())
//! ```

mod basis;
mod bootstrap;
mod compare;
pub mod coverage;
mod fitted;
mod isotonic;
mod law;
mod law_verdict;
mod least_squares;
mod points;
mod qr;
mod residual_pattern;
pub(crate) mod tails;
mod threshold;

#[cfg(test)]
mod tests;

pub use bootstrap::{Band, Bootstrap, Ends, ParameterInterval, Replicates, Resample, Resampled, bootstrap};
pub use compare::{CompareSettings, Comparison, LawRow, compare};
pub use fitted::{Fit, FitMethod, Parameter, Residual, fit};
pub use isotonic::{Direction, isotonic};
pub use law::{Domain, Law, MOST_PARAMETERS};
pub use law_verdict::{Criteria, LawVerdict, Objection, Why};
pub use least_squares::{Loss, ResidualScale};
pub use points::{Point, Points};
pub use residual_pattern::{PatternTest, ResidualPattern};
pub use threshold::{
    GroupSize, Size, Threshold, ThresholdInterval, ThresholdSettings, ThresholdStep, threshold,
};
