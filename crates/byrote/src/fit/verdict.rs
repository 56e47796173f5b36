//! What a comparison concludes, and by which criterion.
//!
//! The rules stand at [`Criteria`]. One law that passes is the answer; several cannot be told apart; none is an answer too.

use super::law::Law;
use super::structure::Test;
use serde::{Deserialize, Serialize};

/// A law is *supported* when all of this holds:
/// 1. it can be judged: there are at least `least_sizes` sizes, two more than it has parameters, and AICc exists;
/// 2. its AICc is within `tie` of the lowest: the odds against it are less than e^(tie/2) to one;
/// 3. the constant is not: there is something to explain;
/// 4. R^2 is at least `least_r_squared`;
/// 5. its residuals have no pattern: the test of [`super::Structure`] gives at least `structure`, or the pattern is smaller than
///    `negligible` of the range of the measurements;
/// 6. its parameters are determined: no shape at the end of its range, and the interval of an exponent no wider than
///    `exponent_width`;
/// 7. no special case of it passes all of the above: where the line will do, a parabola is no finding.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Criteria {
    /// Fewest distinct sizes.
    pub least_sizes: usize,
    /// Largest difference of AICc to the best law.
    pub tie: f64,
    /// Smallest R^2.
    pub least_r_squared: f64,
    /// Smallest probability of the pattern in the residuals.
    pub structure: f64,
    /// A pattern below this part of the range of the measurements does not count.
    pub negligible: f64,
    /// Widest interval of an exponent.
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

/// What speaks against a law.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Doubt {
    /// It cannot be judged.
    TooFewPoints {
        /// Points there are.
        points: usize,
        /// Points needed.
        needed_points: usize,
        /// Distinct sizes there are.
        sizes: usize,
        /// Distinct sizes needed.
        needed_sizes: usize,
    },
    /// The points do not determine its parameters.
    Undetermined {
        /// What the fit says.
        message: String,
    },
    /// It explains too little.
    LowRSquared {
        /// R^2.
        r_squared: f64,
    },
    /// Its residuals have a pattern.
    Pattern {
        /// How it was found.
        test: Test,
        /// The probability of as strong a pattern by chance.
        probability: f64,
        /// Its size by the range of the measurements.
        deviation: f64,
    },
    /// A scale, steepness or exponent lies outside of what the sizes can show.
    AtBound,
    /// The exponent is too uncertain.
    WideExponent {
        /// The lower end of its interval.
        low: f64,
        /// The upper end.
        high: f64,
    },
    /// Too many resampled fits failed.
    NoInterval {
        /// How many.
        failed: u32,
        /// Of how many.
        asked: u32,
    },
}

impl Doubt {
    /// In words.
    pub fn sentence(&self) -> String {
        match self {
            Doubt::TooFewPoints { points, needed_points, sizes, needed_sizes } => format!(
                "{points} points at {sizes} sizes are too few: it takes {needed_points} points and {needed_sizes} sizes"
            ),
            Doubt::Undetermined { message } => message.clone(),
            Doubt::LowRSquared { r_squared } => format!("R^2 is only {r_squared:.3}"),
            Doubt::Pattern { test, probability, deviation } => {
                let test = match test {
                    Test::LackOfFit => "lack of fit",
                    Test::Runs => "runs of signs",
                };
                format!(
                    "the residuals have a pattern of {:.1}% of the range ({test}, probability {probability:.2e})",
                    100.0 * deviation
                )
            }
            Doubt::AtBound => "its shape lies outside of what these sizes can show".into(),
            Doubt::WideExponent { low, high } => {
                format!("the exponent may be anything from {low:.2} to {high:.2}")
            }
            Doubt::NoInterval { failed, asked } => format!("{failed} of {asked} resampled fits failed"),
        }
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Verdict {
    /// One law passes.
    Supported {
        /// It.
        law: Law,
    },
    /// Several pass.
    NotToldApart {
        /// They, the lowest AICc first.
        laws: Vec<Law>,
    },
    /// None does.
    NoLaw {
        /// Why.
        why: Why,
        /// The law of lowest AICc, for what it is worth.
        nearest: Option<Law>,
    },
}

/// Why no law is supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// No law can be judged with so few points.
    TooFewPoints,
    /// All measurements are the same.
    NothingVaries,
    /// A constant describes the points as well as any law.
    NoDependence,
    /// Every law that comes near the best one has a doubt against it.
    Doubts,
}

impl Verdict {
    /// The laws that pass, best first.
    pub fn laws(&self) -> &[Law] {
        match self {
            Verdict::Supported { law } => std::slice::from_ref(law),
            Verdict::NotToldApart { laws } => laws,
            Verdict::NoLaw { .. } => &[],
        }
    }
}
