//! What the theorems say about generic a, as printed in madden2024 and as corrected.
//!
//! | | printed | corrected (docs/errata.md) |
//! |---|---|---|
//! | polynomial (Theorem 2, E1) | both ranks min(m, n, \|K\|) for b distinct, not 0 | min(m, rank B), min(m, Kruskal rank B), B = [b_j^k] for k in K |
//! | analytic at 0, no polynomial there (Theorem 3, E2) | min(m, n) for b distinct, not 0 | the same for \|b_j\| distinct, not 0; for exp, whose series has every exponent, distinct b are enough |
//!
//! The functions here are analytic on the whole line, so what holds for generic a near 0 holds for generic a: a minor that
//! is not 0 near 0 vanishes on a set of measure 0 only.

use super::RankRange;
use super::exact_rank;
use super::scalar_function::{ScalarFunction, Signs};
use crate::Result;
use crate::bounds::madden2024_rank::{analytic, published};
use crate::model::Activation;
use serde::Serialize;

/// What one theorem says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RankTheorem {
    /// The rank, or `None` if the theorem does not apply.
    pub rank: Option<RankRange>,
    /// The Kruskal rank.
    pub kruskal: Option<RankRange>,
    /// Which theorem, and why if it does not apply.
    pub place: String,
}

/// The theorems in both versions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RankTheorems {
    /// As corrected.
    pub corrected: RankTheorem,
    /// As printed.
    pub published: RankTheorem,
}

impl RankTheorems {
    /// For m generic weights.
    pub(super) fn of(psi: &ScalarFunction, m: usize, b: &[f64]) -> Result<Self> {
        let signs = Signs::of(b);
        let n = b.len();
        let says = |rank: Option<usize>, place: String| {
            let rank = rank.map(RankRange::exactly);
            RankTheorem { rank, kruskal: rank, place }
        };
        // The hypothesis as printed.
        let printed = |theorem: &str, value: usize| match (signs.zero, signs.repeated) {
            (true, _) => says(None, format!("{theorem}: requires b without 0")),
            (_, true) => says(None, format!("{theorem}: requires distinct b")),
            _ => says(Some(value), format!("{theorem}: b distinct, not 0")),
        };
        if let Some(exponents) = psi.exponents() {
            let (rank, kruskal) = exact_rank::ranks_of_powers(&exponents, b);
            let cut = |i: RankRange| RankRange { lower: i.lower.min(m), upper: i.upper.min(m) };
            return Ok(Self {
                corrected: RankTheorem {
                    rank: Some(cut(rank)),
                    kruskal: Some(cut(kruskal)),
                    place: "Theorem 2 with E1: min(m, ranks of the powers of b)".into(),
                },
                published: printed("Theorem 2", published(m, n, exponents.len())),
            });
        }
        if *psi == ScalarFunction::Activation(Activation::Relu) {
            let nothing = |theorem: &str| says(None, format!("{theorem}: relu is not analytic at 0"));
            return Ok(Self { corrected: nothing("Theorem 3 with E2"), published: nothing("Theorem 3") });
        }
        let corrected = match (psi, analytic(m, b)) {
            (ScalarFunction::Exp, _) if !signs.repeated => {
                says(Some(m.min(n)), "Theorem 3 with E2: b distinct, every exponent in the series".into())
            }
            (_, Some(rank)) => says(Some(rank), "Theorem 3 with E2: |b| distinct, not 0".into()),
            (_, None) => says(None, "Theorem 3 with E2: requires distinct |b|, not 0".into()),
        };
        Ok(Self { corrected, published: printed("Theorem 3", m.min(n)) })
    }
}
