//! Rank and Kruskal rank of psi(a b^T), certified.
//!
//! The capacity theorems of madden2024 rest on one matrix: psi applied to every entry of a b^T, where a in R^m are the weights of
//! m neurons and b in R^n are the values of the mixer for n contexts. Its columns are independent exactly if the n contexts can
//! be given arbitrary targets. The *rank* is the largest number of independent columns; the *Kruskal rank* is the largest r such
//! that any r columns are independent. Floating point cannot determine them: at n = 8 the smallest singular value is below its
//! resolution.
//!
//! Given psi, a and b, [`certify`] returns a proven interval for each rank, together with what the theorems say about generic a,
//! as printed and as corrected (docs/errata.md, E1 and E2).
//!
//! | psi | how | file |
//! |---|---|---|
//! | polynomial, ReLU | residues modulo primes: exact | [`exact_rank`] |
//! | positive coefficients, a and b positive and distinct; exp | total positivity: no computation | [`exact_rank`], [`analytic`] |
//! | other analytic functions | upper bound from symmetry, lower bound from a verified inverse at p bits | [`analytic`] |
//!
//! Numbers are exactly the f64 they are: 0.1 is not a tenth. The theorems are about generic `a`. A draw from a continuous
//! distribution is generic with probability one; the certificate is about the given numbers.
//!
//! ```
//! use byrote::certify::rank::{ScalarFunction, certify};
//! use byrote::observe::Silent;
//!
//! // tanh is odd, so the columns of the contexts 1 and -1 are dependent whatever the weights.
//! let tanh: ScalarFunction = "tanh".parse()?;
//! let found = certify(&tanh, &[0.3, 0.7], &[1.0, -1.0], &Silent)?;
//! assert_eq!(found.rank.value(), Some(1));
//! # Ok::<(), byrote::Error>(())
//! ```
//!
//! Reference: L. Madden, C. Fox, C. Thrampoulidis, arXiv:2405.13718v1 (2024), Theorems 2 and 3. Verified inverses: S. M. Rump,
//! "Verification methods: Rigorous results using floating-point arithmetic", Acta Numerica 19 (2010), section 10.

mod analytic;
pub mod exact_rank;
mod inverse;
pub mod scalar_function;
pub mod spec;
mod subsets;
pub mod theorems;

pub use scalar_function::ScalarFunction;
pub use spec::{FeatureMatrix, RankSpec};
pub use theorems::{RankTheorem, RankTheorems};

use crate::num::precise::{Dyadic, LARGEST};
use crate::observe::{Observer, Stage};
use crate::{Error, Result};
use serde::Serialize;

/// The largest number of rows or columns.
pub const MOST: usize = 1024;

/// Proven bounds on a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RankRange {
    /// The rank is at least this.
    pub lower: usize,
    /// The rank is at most this.
    pub upper: usize,
}

impl RankRange {
    /// A rank that is known.
    pub fn exactly(rank: usize) -> Self {
        Self { lower: rank, upper: rank }
    }

    /// The rank, if both bounds agree.
    pub fn value(self) -> Option<usize> {
        (self.lower == self.upper).then_some(self.lower)
    }
}

/// What is proven about one matrix.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RankCertificate {
    /// The rank.
    pub rank: RankRange,
    /// The Kruskal rank.
    pub kruskal: RankRange,
    /// An upper bound on the rank for any m weights, these or others.
    pub rank_of_any_weights: usize,
    /// How the rank is proven, in words.
    pub rank_by: String,
    /// How the Kruskal rank is proven, in words.
    pub kruskal_by: String,
    /// The precision of the arithmetic in bits, if it was not exact.
    pub bits: Option<usize>,
    /// What the theorems say.
    pub theorems: RankTheorems,
}

/// Certifies the ranks of psi(a b^T).
pub fn certify(
    psi: &ScalarFunction,
    a: &[f64],
    b: &[f64],
    observer: &dyn Observer,
) -> Result<RankCertificate> {
    for (name, values) in [("a", a), ("b", b)] {
        if values.is_empty() || values.len() > MOST {
            return Err(Error::setting(
                name,
                format!("must have from 1 to {MOST} numbers (got {})", values.len()),
            ));
        }
        if let Some(x) = values.iter().find(|x| !x.is_finite()) {
            return Err(Error::setting(name, format!("{x} is not finite")));
        }
    }
    psi.check()?;
    observer.report(Stage::Ranking, 0, None)?;
    let theorems = RankTheorems::of(psi, a.len(), b)?;
    if psi.is_exact() {
        return exact_rank::certify(psi, a, b, theorems, observer);
    }
    // The largest product is the product of the largest factors.
    let largest = |v: &[f64]| v.iter().fold(0f64, |m, x| m.max(x.abs()));
    if !Dyadic::from(largest(a)).times(&Dyadic::from(largest(b))).is_moderate() {
        let message = format!("a product with an entry of b is above {LARGEST} in absolute value");
        return Err(Error::setting("a", message));
    }
    analytic::certify(psi, a, b, theorems, observer)
}

#[cfg(test)]
mod tests;
