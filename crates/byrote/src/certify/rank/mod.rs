//! Rank and Kruskal rank of psi(a b^T), certified.
//!
//! Behind madden2024's capacity theorems stands one matrix: psi applied to every entry of a b^T, with a in R^m the weights of
//! m neurons and b in R^n what the mixer makes of n contexts. Its columns are independent exactly when the n contexts can be
//! given any n targets. The *rank* is the most independent columns; the *Kruskal rank* the most such that any so many are
//! independent. Floating point cannot tell: at n = 8 the smallest singular value is below its resolution.
//!
//! Given psi, a and b, [`certify`] returns an interval for each rank that is a theorem about these numbers, and beside it what
//! the theory says of generic a: as printed, and as corrected (docs/errata.md, E1 and E2).
//!
//! | psi | how | file |
//! |---|---|---|
//! | polynomial, ReLU | residues modulo primes: exact | [`exact`] |
//! | positive coefficients, a and b positive and distinct; exp | total positivity: no computation | [`exact`], [`analytic`] |
//! | other analytic functions | upper bound from symmetry, lower bound from a verified inverse at p bits | [`analytic`] |
//!
//! Numbers are taken as the f64 they are: 0.1 is not a tenth. `a` is generic in the theorems and given here; a draw from a
//! continuous law is generic with probability one, and whether this draw is, is what the certificate shows.
//!
//! Reference: L. Madden, C. Fox, C. Thrampoulidis, arXiv:2405.13718v1 (2024), Theorems 2 and 3. Verified inverses: S. M. Rump,
//! "Verification methods: Rigorous results using floating-point arithmetic", Acta Numerica 19 (2010), section 10.

mod analytic;
pub mod exact;
pub mod function;
mod inverse;
mod subsets;
pub mod theorems;

pub use function::Function;
pub use theorems::{Theorem, Theorems};

use crate::num::precise::{Dyadic, LARGEST};
use crate::observe::{Observer, Stage};
use crate::{Error, Result};
use serde::Serialize;

/// The most rows or columns.
pub const MOST: usize = 1024;

/// Bounds on a rank, both proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Interval {
    /// It is at least this.
    pub lower: usize,
    /// It is at most this.
    pub upper: usize,
}

impl Interval {
    /// A rank that is known.
    pub fn exactly(rank: usize) -> Self {
        Self { lower: rank, upper: rank }
    }

    /// The rank, where both bounds agree.
    pub fn value(self) -> Option<usize> {
        (self.lower == self.upper).then_some(self.lower)
    }
}

/// What is proven of one matrix.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Certificate {
    /// The rank.
    pub rank: Interval,
    /// The Kruskal rank.
    pub kruskal: Interval,
    /// No m weights at all, these or others, have a rank above this.
    pub rank_of_any_weights: usize,
    /// What the rank rests on, in words.
    pub rank_by: String,
    /// What the Kruskal rank rests on, in words.
    pub kruskal_by: String,
    /// Bits of the arithmetic that was needed, where it was not exact.
    pub bits: Option<usize>,
    /// What the theorems say.
    pub theorems: Theorems,
}

/// Certifies the ranks of psi(a b^T).
pub fn certify(psi: &Function, a: &[f64], b: &[f64], observer: &dyn Observer) -> Result<Certificate> {
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
    let theorems = Theorems::of(psi, a.len(), b)?;
    if psi.is_exact() {
        return exact::certify(psi, a, b, theorems, observer);
    }
    // The largest product is that of the largest factors.
    let largest = |v: &[f64]| v.iter().fold(0f64, |m, x| m.max(x.abs()));
    if !Dyadic::from(largest(a)).times(&Dyadic::from(largest(b))).is_moderate() {
        let message = format!("a product with an entry of b is above {LARGEST} in absolute value");
        return Err(Error::setting("a", message));
    }
    analytic::certify(psi, a, b, theorems, observer)
}

#[cfg(test)]
mod tests;
