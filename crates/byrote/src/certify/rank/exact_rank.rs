//! Exact ranks of polynomials and of ReLU.
//!
//! Entries psi(a_i b_j) are dyadic numbers. Their residues modulo a prime come from the residues of a, b and the coefficients,
//! never from rounded entries: a rounded matrix has full rank whatever the true one is. The rank modulo a prime bounds the
//! rank from below; min(rank [a_i^k], rank [b_j^k]) bounds it from above, since the matrix is a product through these;
//! between the two, more primes decide ([`crate::num::modular`]).
//!
//! **Total positivity.** If all a_i > 0 and all b_j > 0 are distinct and all coefficients are positive, every minor of order
//! up to |K| is a sum of positive terms (Cauchy and Binet; generalised Vandermonde determinants of positive numbers in
//! increasing order are positive), so both ranks are min(m, n, |K|).

use super::scalar_function::{ScalarFunction, Signs};
use super::subsets::{self, Budget, SubsetVerdict};
use super::{RankCertificate, RankRange, RankTheorems};
use crate::Result;
use crate::num::modular::{Found, dyadic, plus, power, primes, rank, rank_over_rationals, residue, times};
use crate::observe::Observer;
use std::collections::BTreeSet;

/// The most subsets of columns that are examined for the Kruskal rank.
const SUBSETS: Budget = 200_000;
/// The most primes that are tried if the bounds do not meet.
const PRIMES: u64 = 4096;
/// Multiplications that an elimination over many primes, or over many subsets, may take.
const WORK: u64 = 4_000_000_000;

/// Primes for a matrix of this size.
fn primes_for(rows: usize, columns: usize) -> u64 {
    let once = rows.saturating_mul(columns).saturating_mul(rows.min(columns)).max(1) as u64;
    (WORK / once).clamp(3, PRIMES)
}

/// The entries modulo a prime, row by row.
fn entries(psi: &ScalarFunction, a: &[f64], b: &[f64], prime: u64) -> Vec<Vec<u64>> {
    let [ra, rb] = [a, b].map(|v| v.iter().map(|&x| residue(x, prime)).collect::<Vec<u64>>());
    match psi {
        ScalarFunction::Polynomial(c) => {
            let c: Vec<u64> = c.iter().map(|&c| residue(c, prime)).collect();
            let horner = |x: u64| c.iter().rev().fold(0, |sum, &c| plus(times(sum, x, prime), c, prime));
            ra.iter().map(|&a| rb.iter().map(|&b| horner(times(a, b, prime))).collect()).collect()
        }
        _ => {
            // max(a b, 0): the sign is that of the factors.
            let entry = |i: usize, j: usize| match (a[i] > 0.0 && b[j] > 0.0) || (a[i] < 0.0 && b[j] < 0.0) {
                true => times(ra[i], rb[j], prime),
                false => 0,
            };
            (0..a.len()).map(|i| (0..b.len()).map(|j| entry(i, j)).collect()).collect()
        }
    }
}

/// The lowest and highest bit of the numbers that are not 0: all are multiples of 2^low, and below 2^high.
fn span(values: &[f64]) -> (i64, i64) {
    let bits = values.iter().filter(|x| **x != 0.0).map(|&x| {
        let (mantissa, exponent) = dyadic(x);
        let top = i64::from(exponent) + i64::from(64 - mantissa.unsigned_abs().leading_zeros());
        (i64::from(exponent), top)
    });
    bits.fold((0, 0), |(low, high), (l, h)| (low.min(l), high.max(h)))
}

/// Bits of the entries once a power of two has made them whole.
fn entry_bits(psi: &ScalarFunction, a: &[f64], b: &[f64]) -> u64 {
    let ((la, ha), (lb, hb)) = (span(a), span(b));
    match psi {
        ScalarFunction::Polynomial(c) => {
            let degree = c.len() as i64 - 1;
            let (lc, hc) = span(c);
            (hc - lc + degree * (ha + hb - la - lb) + 64).unsigned_abs()
        }
        _ => (ha + hb - la - lb + 1).unsigned_abs(),
    }
}

/// The rank of [v_i^k], a row for each exponent.
pub(super) fn rank_of_powers(exponents: &[u32], v: &[f64]) -> Found {
    let (low, high) = span(v);
    let bits = (high - low).unsigned_abs() * u64::from(exponents.iter().copied().max().unwrap_or(0));
    let most = exponents.len().min(Signs::of(v).distinct);
    rank_over_rationals(most, bits, primes_for(exponents.len(), v.len()), |prime| powers(exponents, v, prime))
}

fn powers(exponents: &[u32], v: &[f64], prime: u64) -> Vec<Vec<u64>> {
    let residues: Vec<u64> = v.iter().map(|&x| residue(x, prime)).collect();
    exponents.iter().map(|&k| residues.iter().map(|&x| power(x, k.into(), prime)).collect()).collect()
}

/// The Kruskal rank of a matrix of residues, its columns known to span at most `upper`.
fn kruskal(columns: usize, upper: usize, bits: u64, matrix: impl Fn(u64) -> Vec<Vec<u64>>) -> RankRange {
    let first = primes().next().unwrap_or(3);
    let reduced = matrix(first);
    let pick = |rows: &[Vec<u64>], subset: &[usize]| -> Vec<Vec<u64>> {
        rows.iter().map(|row| subset.iter().map(|&j| row[j]).collect()).collect()
    };
    let once = reduced.len().saturating_mul(upper * upper).max(1) as u64;
    let budget = SUBSETS.min(WORK / 4 / once).max(columns as u64);
    let found = subsets::kruskal(columns, upper, budget, |subset| {
        let k = subset.len();
        if rank(pick(&reduced, subset), first) == k {
            return SubsetVerdict::Independent;
        }
        // Dependence modulo one prime proves nothing; modulo enough primes it does.
        match rank_over_rationals(k, bits, PRIMES, |prime| pick(&matrix(prime), subset)) {
            Found { lower, .. } if lower == k => SubsetVerdict::Independent,
            Found { exact: true, .. } => SubsetVerdict::Dependent,
            Found { .. } => SubsetVerdict::Unknown,
        }
    });
    // There are too many pairs to examine one by one, but not too many to sort.
    match found.lower == 1 && found.upper > 1 && no_two_are_parallel(&reduced, columns, first) {
        true => RankRange { lower: 2, ..found },
        false => found,
    }
}

/// Whether any two columns are independent modulo a prime: scaled to begin with 1, all differ.
fn no_two_are_parallel(rows: &[Vec<u64>], columns: usize, prime: u64) -> bool {
    let scaled = (0..columns).map(|j| {
        let lead = rows.iter().map(|row| row[j]).find(|&x| x != 0).unwrap_or(0);
        let inverse = power(lead, prime - 2, prime);
        rows.iter().map(|row| times(row[j], inverse, prime)).collect::<Vec<u64>>()
    });
    let different: BTreeSet<Vec<u64>> = scaled.filter(|column| column.iter().any(|&x| x != 0)).collect();
    different.len() == columns
}

/// Rank and Kruskal rank of [b_j^k], as far as they can be found.
pub(super) fn ranks_of_powers(exponents: &[u32], b: &[f64]) -> (RankRange, RankRange) {
    let found = rank_of_powers(exponents, b);
    let most = exponents.len().min(b.len());
    let rank = RankRange { lower: found.lower, upper: if found.exact { found.lower } else { most } };
    let (low, high) = span(b);
    let bits = (high - low).unsigned_abs() * u64::from(exponents.iter().copied().max().unwrap_or(0));
    let kruskal = match rank.lower == b.len() {
        true => RankRange::exactly(b.len()),
        false => kruskal(b.len(), rank.upper, bits, |prime| powers(exponents, b, prime)),
    };
    (rank, kruskal)
}

/// Whether total positivity applies: everything positive, a and b distinct.
fn is_totally_positive(psi: &ScalarFunction, a: &[f64], b: &[f64]) -> bool {
    let ScalarFunction::Polynomial(c) = psi else { return false };
    let positive = |v: &[f64]| v.iter().all(|&x| x > 0.0) && Signs::of(v).distinct == v.len();
    c.iter().all(|&c| c >= 0.0) && positive(a) && positive(b)
}

/// Certifies the ranks of a polynomial or of ReLU.
pub(super) fn certify(
    psi: &ScalarFunction,
    a: &[f64],
    b: &[f64],
    theorems: RankTheorems,
    observer: &dyn Observer,
) -> Result<RankCertificate> {
    let (m, n) = (a.len(), b.len());
    if is_totally_positive(psi, a, b) {
        let rank = m.min(n).min(psi.exponents().map_or(0, |k| k.len()));
        let by = "total positivity: a, b and the coefficients are positive, so no minor vanishes".to_owned();
        return Ok(RankCertificate {
            rank: RankRange::exactly(rank),
            kruskal: RankRange::exactly(rank),
            rank_of_any_weights: rank,
            rank_by: by.clone(),
            kruskal_by: by,
            bits: None,
            theorems,
        });
    }
    // Upper bounds from a and from b.
    let [of_a, of_b] = match psi.exponents() {
        Some(exponents) => {
            // If the rank of the powers is undecided, its upper bound is used.
            let of = |v: &[f64]| match rank_of_powers(&exponents, v) {
                Found { lower, exact: true } => lower,
                Found { .. } => exponents.len().min(v.len()),
            };
            [of(a), of(b)]
        }
        // ReLU: a column is a multiple of max(a, 0) or of max(-a, 0).
        None => {
            [a, b].map(|v| usize::from(v.iter().any(|&x| x > 0.0)) + usize::from(v.iter().any(|&x| x < 0.0)))
        }
    };
    let structural = of_a.min(of_b).min(m).min(n);
    let bits = entry_bits(psi, a, b);
    let matrix = |prime| entries(psi, a, b, prime);
    let found = rank_over_rationals(structural, bits, primes_for(m, n), matrix);
    let upper = if found.exact { found.lower } else { structural };
    let rank = RankRange { lower: found.lower, upper };
    let rank_by = match (rank.value(), found.lower == structural) {
        (Some(_), true) => "residues modulo 2^61 - 1 from below, the powers of a and b from above".to_owned(),
        (Some(_), false) => "residues modulo primes whose product exceeds every minor".to_owned(),
        (None, _) => format!("residues from below; {} primes do not decide", primes_for(m, n)),
    };
    let (kruskal, kruskal_by) = if rank.lower == n {
        (RankRange::exactly(n), "all columns are independent".to_owned())
    } else {
        observer.check()?;
        let found = kruskal(n, rank.upper, bits, matrix);
        let by = match found.value() {
            Some(_) => "every set of columns, by residues".to_owned(),
            None => {
                "as many sets of columns as can be looked at, by residues; the rank from above".to_owned()
            }
        };
        (found, by)
    };
    let rank_of_any_weights = of_b.min(m).min(n);
    observer.check()?;
    Ok(RankCertificate { rank, kruskal, rank_of_any_weights, rank_by, kruskal_by, bits: None, theorems })
}
