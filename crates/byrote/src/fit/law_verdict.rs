//! The verdict of a comparison and its criteria.
//!
//! [`Criteria`] has the rules. If one law passes, it is the answer; if several pass, they cannot be distinguished; if none passes,
//! that is an answer too.

use super::law::Law;
use super::residual_pattern::PatternTest;
use serde::{Deserialize, Serialize};

/// A law is *supported* when all of the following hold:
/// 1. it can be judged: there are at least `least_sizes` sizes, two more than it has parameters, and AICc exists;
/// 2. its AICc is within `tie` of the lowest: the odds against it are less than e^(tie/2) to one;
/// 3. the AICc of the constant is not: there is something to explain;
/// 4. R^2 is at least `least_r_squared`;
/// 5. its residuals have no pattern: the probability of [`super::ResidualPattern`] is at least `structure`, or the pattern is smaller
///    than the fraction `negligible` of the range of the measurements;
/// 6. its parameters are determined: no shape lies at the end of its range, and the interval of an exponent is at most
///    `exponent_width` wide;
/// 7. no special case of it passes all of the above: where a line suffices, a parabola is not a finding.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Criteria {
    /// The fewest distinct sizes.
    pub least_sizes: usize,
    /// The largest difference of AICc to the best law.
    pub tie: f64,
    /// The smallest R^2.
    pub least_r_squared: f64,
    /// The smallest probability of the pattern in the residuals.
    pub structure: f64,
    /// The fraction of the range of the measurements below which a pattern is ignored.
    pub negligible: f64,
    /// The widest interval of an exponent.
    pub exponent_width: f64,
}

impl Default for Criteria {
    fn default() -> Self {
        Self {
            least_sizes: 4,
            tie: 4.0,
            least_r_squared: 0.8,
            structure: 0.05,
            negligible: 0.01,
            exponent_width: 0.5,
        }
    }
}

crate::setting::setters!(Criteria {
    least_sizes: plain(usize),
    tie: plain(f64),
    least_r_squared: plain(f64),
    structure: plain(f64),
    negligible: plain(f64),
    exponent_width: plain(f64),
});

/// An objection to a law.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Objection {
    /// It cannot be judged.
    TooFewPoints {
        /// The number of points.
        points: usize,
        /// The number of points needed.
        needed_points: usize,
        /// The number of distinct sizes.
        sizes: usize,
        /// The number of distinct sizes needed.
        needed_sizes: usize,
    },
    /// The points do not determine its parameters.
    Undetermined {
        /// The error of the fit.
        message: String,
    },
    /// It explains too little.
    LowRSquared {
        /// R^2.
        r_squared: f64,
    },
    /// Its residuals have a pattern.
    Pattern {
        /// The test that found it.
        test: PatternTest,
        /// The probability of a pattern this strong by chance.
        probability: f64,
        /// Its size relative to the range of the measurements.
        deviation: f64,
    },
    /// A scale, steepness or exponent lies outside the range that the sizes can determine.
    AtBound,
    /// The exponent is too uncertain.
    WideExponent {
        /// The lower end of its interval.
        low: f64,
        /// The upper end.
        high: f64,
    },
    /// Too many refits to resampled points failed.
    NoInterval {
        /// The number of failures.
        failed: u32,
        /// The number of refits.
        asked: u32,
    },
}

impl Objection {
    /// The objection in words.
    pub fn sentence(&self) -> String {
        match self {
            Objection::TooFewPoints { points, needed_points, sizes, needed_sizes } => format!(
                "{points} points at {sizes} sizes are too few; {needed_points} points and {needed_sizes} sizes are needed"
            ),
            Objection::Undetermined { message } => message.clone(),
            Objection::LowRSquared { r_squared } => format!("R^2 is only {r_squared:.3}"),
            Objection::Pattern { test, probability, deviation } => {
                let test = match test {
                    PatternTest::LackOfFit => "lack of fit",
                    PatternTest::Runs => "runs of signs",
                };
                format!(
                    "the residuals have a pattern of {:.1}% of the range ({test}, probability {probability:.2e})",
                    100.0 * deviation
                )
            }
            Objection::AtBound => "its shape lies outside the range that these sizes can determine".into(),
            Objection::WideExponent { low, high } => {
                format!("the exponent is only known to lie between {low:.2} and {high:.2}")
            }
            Objection::NoInterval { failed, asked } => {
                format!("{failed} of {asked} refits to resampled points failed")
            }
        }
    }
}

/// The verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum LawVerdict {
    /// One law passes.
    Supported {
        /// The law.
        law: Law,
    },
    /// Several pass.
    NotToldApart {
        /// The laws, the lowest AICc first.
        laws: Vec<Law>,
    },
    /// None passes.
    NoLaw {
        /// The reason.
        why: Why,
        /// The law of lowest AICc.
        nearest: Option<Law>,
    },
}

/// Why no law is supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// There are too few points to judge any law.
    TooFewPoints,
    /// All measurements are the same.
    NothingVaries,
    /// A constant describes the points as well as any law.
    NoDependence,
    /// There is an objection to every law close to the best one.
    Doubts,
}

impl LawVerdict {
    /// The laws that pass, best first.
    pub fn laws(&self) -> &[Law] {
        match self {
            LawVerdict::Supported { law } => std::slice::from_ref(law),
            LawVerdict::NotToldApart { laws } => laws,
            LawVerdict::NoLaw { .. } => &[],
        }
    }
}
