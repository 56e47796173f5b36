//! Certified ranks of analytic functions other than polynomials.
//!
//! The upper bound follows from opposite and repeated entries of b and of a, which make columns or rows dependent
//! ([`super::scalar_function`]). For the lower bound, rows and columns are chosen by elimination with complete pivoting
//! at p bits, and the square matrix they form is proven regular by a verified inverse: in f64 if that suffices, otherwise
//! in integers at p = 64 + 8 r bits, doubled until it succeeds, up to [`MOST_BITS`]. Entries are within one unit of 2^-p,
//! by the proofs of [`crate::num::precise`].
//!
//! **exp** needs no computation: [e^(a_i b_j)] is totally positive for increasing a and b (Gantmacher and Krein 1950), so for
//! distinct a and distinct b both ranks are min(m, n).

use super::inverse::regularity;
use super::scalar_function::{ScalarFunction, Signs};
use super::subsets::{self, SubsetVerdict};
use super::{RankCertificate, RankRange, RankTheorems};
use crate::Result;
use crate::num::linear::Mat;
use crate::num::precise::linear::{Lu, is_certainly_regular};
use crate::num::precise::{Dyadic, IBig, Precise, to_f64};
use crate::observe::{Counter, Observer, Silent, Stage};
use dashu_base::Abs;
use rayon::prelude::*;

/// The highest precision that is tried, in bits.
pub const MOST_BITS: usize = 4096;
/// Subsets of columns that are examined for the Kruskal rank; each takes an inverse.
const SUBSETS: u64 = 2000;

/// The entries at a precision.
struct Entries<'a> {
    psi: &'a ScalarFunction,
    a: Vec<Dyadic>,
    b: Vec<Dyadic>,
}

impl Entries<'_> {
    /// Row-major `[rows, columns]`, in units of 2^-bits, each within one of them.
    fn at(
        &self,
        bits: usize,
        rows: &[usize],
        columns: &[usize],
        observer: &dyn Observer,
    ) -> Result<Vec<IBig>> {
        let precise = Precise::new(bits);
        let total = rows.len() as u64;
        observer.report(Stage::Ranking, 0, Some(total))?;
        let counter = Counter::new(observer, Stage::Ranking, Some(total));
        let entry = |i: usize, j: usize| self.psi.precise(&precise, &self.a[i].times(&self.b[j]));
        let all: Vec<Vec<IBig>> = rows
            .par_iter()
            .map(|&i| {
                let row = columns.iter().map(|&j| entry(i, j)).collect();
                counter.add(1).map(|()| row)
            })
            .collect::<Result<_>>()?;
        Ok(all.into_iter().flatten().collect())
    }
}

/// Rows and columns with the largest pivots of an elimination, in order, up to `most` of each.
fn pivots(
    mut a: Vec<IBig>,
    rows: usize,
    columns: usize,
    bits: usize,
    most: usize,
    observer: &dyn Observer,
) -> Result<Vec<(usize, usize)>> {
    let (mut row_of, mut column_of): (Vec<usize>, Vec<usize>) = ((0..rows).collect(), (0..columns).collect());
    let steps = most.min(rows).min(columns);
    for k in 0..steps {
        observer.report(Stage::Ranking, k as u64, Some(steps as u64))?;
        let places = (k..rows).flat_map(|i| (k..columns).map(move |j| (i, j)));
        let sizes = places.map(|(i, j)| (a[i * columns + j].clone().abs(), i, j));
        // Ties go to the first entry, so that the choice is deterministic.
        let Some((size, i, j)) = sizes.reduce(|best, next| if next.0 > best.0 { next } else { best }) else {
            break;
        };
        if size == IBig::ZERO {
            row_of.truncate(k);
            break;
        }
        row_of.swap(k, i);
        column_of.swap(k, j);
        (0..columns).for_each(|c| a.swap(k * columns + c, i * columns + c));
        (0..rows).for_each(|r| a.swap(r * columns + k, r * columns + j));
        let (head, tail) = a.split_at_mut((k + 1) * columns);
        let above = &head[k * columns..];
        tail.par_chunks_mut(columns).for_each(|row| {
            let factor: IBig = (&row[k] << bits) / &above[k];
            for (entry, u) in row[k + 1..].iter_mut().zip(&above[k + 1..]) {
                *entry -= (&factor * u) >> bits;
            }
            row[k] = IBig::ZERO;
        });
    }
    Ok(row_of.into_iter().zip(column_of).take(most).collect())
}

/// What an attempt to prove that a matrix is regular found.
enum Proof {
    /// The matrix is regular; the bits that the proof took.
    Regular(usize),
    /// The largest number of pivots that was proven at the most bits.
    Partial(usize),
}

/// Proves that `most` of these rows and columns form a regular matrix.
fn prove(
    entries: &Entries<'_>,
    rows: &[usize],
    columns: &[usize],
    most: usize,
    observer: &dyn Observer,
) -> Result<Proof> {
    if most == 0 {
        return Ok(Proof::Regular(0));
    }
    let mut bits = 64;
    loop {
        let all = entries.at(bits, rows, columns, observer)?;
        let chosen = pivots(all.clone(), rows.len(), columns.len(), bits, most, observer)?;
        let square = |r: usize| -> Vec<IBig> {
            let entry = |i: usize, j: usize| all[chosen[i].0 * columns.len() + chosen[j].1].clone();
            (0..r * r).map(|k| entry(k / r, k % r)).collect()
        };
        let regular = |r: usize| -> Result<bool> {
            let a = square(r);
            if bits == 64 {
                let rounded = Mat::from_fn(r, r, |i, j| to_f64(&a[i * r + j], bits));
                // Rounding to f64 costs four halves of its unit at most, and an entry is within 2^-64.
                let bound = regularity(rounded.as_ref(), 2.0 * f64::EPSILON, 2f64.powi(-64), observer)?;
                return Ok(bound < 1.0);
            }
            let lu = Lu::of(a.clone(), r, bits, observer)?;
            let Some(lu) = lu else { return Ok(false) };
            Ok(is_certainly_regular(&a, &lu.inverse(observer)?, r, bits, 1))
        };
        if chosen.len() == most && regular(most)? {
            return Ok(Proof::Regular(bits));
        }
        let next = if bits == 64 { 64 + 8 * most } else { 2 * bits };
        if next > MOST_BITS {
            // Bisect: a proof for r pivots need not extend to more.
            let (mut proven, mut open) = (0, chosen.len().min(most));
            while proven < open {
                let middle = (proven + open).div_ceil(2);
                if regular(middle)? { proven = middle } else { open = middle - 1 }
            }
            return Ok(Proof::Partial(proven));
        }
        bits = next;
    }
}

/// Bits of the ratios by which columns are distinguished.
const RATIO_BITS: usize = 256;

/// Whether any two columns are proven independent: in some two rows, the intervals of the ratios of their entries do not
/// meet. The first row is tried with a few others.
fn no_two_are_parallel(entries: &Entries<'_>, columns: &[usize]) -> bool {
    let unit = IBig::ONE;
    (1..entries.a.len().min(8)).any(|other| {
        // Two rows are a moment.
        let Ok(found) = entries.at(RATIO_BITS, &[0, other], columns, &Silent) else { return false };
        let (above, below) = found.split_at(columns.len());
        // An entry is within one unit, so a ratio lies between four quotients; cut to whole numbers, one more on each side.
        let ratios: Option<Vec<(IBig, IBig)>> = above
            .iter()
            .zip(below)
            .map(|(a, b)| {
                if b.clone().abs() <= unit {
                    return None;
                }
                let ends =
                    [a - &unit, a + &unit].map(|a| [b - &unit, b + &unit].map(|b| (&a << RATIO_BITS) / b));
                let (low, high) = (ends.iter().flatten().min()?, ends.iter().flatten().max()?);
                Some((low - &unit, high + &unit))
            })
            .collect();
        let Some(mut ratios) = ratios else { return false };
        ratios.sort();
        ratios.windows(2).all(|w| w[0].1 < w[1].0)
    })
}

/// Certifies the ranks of an analytic function.
pub(super) fn certify(
    psi: &ScalarFunction,
    a: &[f64],
    b: &[f64],
    theorems: RankTheorems,
    observer: &dyn Observer,
) -> Result<RankCertificate> {
    let (m, n) = (a.len(), b.len());
    let (sa, sb) = (Signs::of(a), Signs::of(b));
    if *psi == ScalarFunction::Exp && sa.distinct == m && sb.distinct == n {
        let by = "total positivity of e^(a b) for distinct a and distinct b".to_owned();
        return Ok(RankCertificate {
            rank: RankRange::exactly(m.min(n)),
            kruskal: RankRange::exactly(m.min(n)),
            rank_of_any_weights: m.min(n),
            rank_by: by.clone(),
            kruskal_by: by,
            bits: None,
            theorems,
        });
    }
    let symmetry = psi.symmetry();
    let (of_a, of_b) = (symmetry.dimension(sa), symmetry.dimension(sb));
    let upper = of_a.min(of_b);
    let from_above = match (upper < m.min(n), of_b <= of_a) {
        (false, _) => "its size",
        (true, true) => "opposite, zero or repeated entries of b",
        (true, false) => "opposite, zero or repeated entries of a",
    };
    let exact = |v: &[f64]| v.iter().map(|&x| Dyadic::from(x)).collect();
    let entries = Entries { psi, a: exact(a), b: exact(b) };
    let rows: Vec<usize> = (0..m).collect();
    let columns: Vec<usize> = (0..n).collect();
    let (rank, bits) = match prove(&entries, &rows, &columns, upper, observer)? {
        Proof::Regular(bits) => (RankRange::exactly(upper), bits),
        Proof::Partial(lower) => (RankRange { lower, upper }, MOST_BITS),
    };
    let from_below = match (upper, bits) {
        (0, _) => "nothing".to_owned(),
        (_, 64) => "a verified inverse in double precision".to_owned(),
        (_, bits) => format!("a verified inverse at {bits} bits"),
    };
    let rank_by = match rank.value() {
        Some(_) => format!("{from_below} from below, {from_above} from above"),
        None => format!("{from_above} from above; {MOST_BITS} bits do not prove more from below"),
    };
    let ceiling = symmetry.kruskal(sb).unwrap_or(n).min(rank.upper);
    let (kruskal, kruskal_by) = if rank.lower == n {
        (RankRange::exactly(n), "all columns are independent".to_owned())
    } else {
        let found = subsets::kruskal(n, ceiling, SUBSETS, |subset| {
            match prove(&entries, &rows, subset, subset.len(), observer) {
                Ok(Proof::Regular(_)) => SubsetVerdict::Independent,
                Ok(Proof::Partial(_)) | Err(_) => SubsetVerdict::Unknown,
            }
        });
        observer.check()?;
        // There are too many pairs to examine one by one, but not too many to sort.
        let pairs = found.lower == 1 && found.upper > 1 && no_two_are_parallel(&entries, &columns);
        let found = if pairs { RankRange { lower: 2, ..found } } else { found };
        let by = match found.value() {
            Some(_) if ceiling < rank.upper => "sets of columns by verified inverses, symmetry from above",
            Some(_) => "sets of columns by verified inverses, the rank from above",
            None => "not every set of columns was proven independent",
        };
        (found, by.to_owned())
    };
    let used = (upper > 0).then_some(bits);
    let rank_of_any_weights = of_b.min(m);
    Ok(RankCertificate { rank, kruskal, rank_of_any_weights, rank_by, kruskal_by, bits: used, theorems })
}
