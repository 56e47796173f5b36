//! Laws through points: fits, intervals, comparison, thresholds.
//!
//! [`Points`] are sizes x with measurements y, each of a group (a seed). A [`Law`] is a curve with a few parameters;
//! [`fit`](fit()) finds them by least squares or robustly, [`bootstrap`](bootstrap()) says how sure they are, [`compare`] which laws
//! the points support, if any, and [`threshold`] the smallest size at which a level is reached. Everything is a value that can
//! be serialised, and the same on any number of threads. `docs/laws.md` says the rules in words.
//!
//! ```
//! use byrote::fit::{Law, Point, Points, Settings, Verdict, compare};
//!
//! // Three seeds at eight sizes.
//! let noise = [0.1, -0.2, 0.3, -0.1, 0.0, 0.2, -0.3, 0.1, -0.1, 0.2, 0.0];
//! let point = |i: usize| Point::new(1.0 + (i % 8) as f64, 2.0 * (i % 8) as f64 + noise[i % 11], (i / 8) as u64);
//! let points = Points::new((0..24).map(point))?;
//! let table = compare(&points, &[Law::Linear, Law::Quadratic, Law::Power], &Settings::default())?;
//! assert_eq!(table.verdict, Verdict::Supported { law: Law::Linear });
//! let slope = table.rows[0].replicates.as_ref().and_then(|r| r.interval("b").copied());
//! assert!(slope.is_some_and(|b| b.holds(2.0) && b.width() < 0.1));
//! # Ok::<(), byrote::Error>(())
//! ```

mod basis;
mod bootstrap;
mod compare;
mod fitted;
mod isotonic;
mod law;
mod points;
mod qr;
mod solve;
mod structure;
pub mod tails;
mod threshold;
mod verdict;

#[cfg(test)]
mod tests;

pub use bootstrap::{Band, Bootstrap, Ends, Interval, Replicates, Resample, Resampled, bootstrap};
pub use compare::{Comparison, Row, Settings, compare};
pub use fitted::{Fit, Method, Parameter, Residual, fit};
pub use isotonic::{Direction, isotonic};
pub use law::{Domain, Law, MOST_PARAMETERS};
pub use points::{Point, Points};
pub use solve::{Loss, Scale};
pub use structure::{Structure, Test};
pub use threshold::{GroupSize, Size, Step, Threshold, ThresholdInterval, ThresholdSettings, threshold};
pub use verdict::{Criteria, Doubt, Verdict, Why};
