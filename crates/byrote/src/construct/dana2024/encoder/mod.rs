//! The best sequence encoder of rank d: a limit for every output layer that reads d numbers.
//!
//! **Statement** (Definition 1, Propositions 1 and 2). An encoder of rank d assigns to context i the logits W e_i, with
//! W `[omega, d]` and any e_i in R^d. A transformer whose output matrix reads d numbers is one, so no such transformer
//! has a smaller divergence from the corpus than
//!
//! ```text
//! inf over W, E of  sum_i c_i KL(pi_i || softmax(W e_i)),
//! ```
//!
//! and that infimum is 0 for d >= omega - 1. More precisely, it is 0 whenever the logarithms of all distributions lie
//! in d directions: for d >= A, with A the number of tokens that ever follow (A - 1 if every token does), or the number
//! of distinct distributions if that is smaller.
//!
//! | here | in the paper | meaning |
//! |---|---|---|
//! | omega, d, n | N, d, number of t_{1:S} | tokens, rank, contexts |
//! | W, e_i | W, E(t_{1:S}) | output matrix, code of a context |
//!
//! **Computation.** If the infimum is 0, W and E follow from the smoothed logits themselves. For smaller d the problem
//! is not convex: the search starts from singular vectors and from codes far apart ([`start`]), runs L-BFGS on W and E
//! together, with random restarts, and where it is cheap finds the best codes for the W that was found ([`newton`]).
//! The result is the divergence of an actual encoder, so it is *above* the infimum: an estimate, and labelled as one.
//! On targets drawn from a flat Dirichlet distribution all restarts end at one value; on peaked ones they differ by one
//! or two percent.
//!
//! The variables of the search are W and sqrt(p_i) e_i: in these units the curvatures of both are similar.
//!
//! dana2024 (arXiv:2411.10115), Definition 1, Propositions 1 and 2, Lemma 1.

pub mod loss;
mod newton;
mod start;

use super::super::Targets;
use crate::dataset::Dataset;
use crate::num::Stream;
use crate::num::optimize::{Halt, Lbfgs, Minimizer, Objective, Wolfe};
use crate::observe::{Observer, Stage};
use crate::units::Nats;
use crate::{Error, Result};
use loss::{Divergence, Gradient};
use std::collections::BTreeMap;

/// The effort of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Effort {
    /// The maximum number of steps of a descent.
    pub steps: usize,
    /// The number of descents from random encoders, besides those from singular vectors and from codes.
    pub restarts: usize,
    /// The approximate number of operations in total, beyond a hundred steps: restarts are dropped first, then steps.
    pub work: f64,
}

impl Default for Effort {
    fn default() -> Self {
        Self { steps: 2000, restarts: 3, work: 1e12 }
    }
}

crate::setting::setters!(Effort { steps: plain(usize), restarts: plain(usize), work: plain(f64) });

/// An encoder of a dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoder {
    /// The number of values that the output reads.
    pub rank: usize,
    /// W, `[d_vocab, rank]`.
    pub w: Vec<f64>,
    /// The codes, `[contexts, rank]`.
    pub e: Vec<f64>,
    /// Its divergence from the corpus, summed over all predictions.
    pub gap: Nats,
    /// Whether no encoder of this rank can be better, apart from the smoothing: the infimum is 0.
    pub exact: bool,
}

impl Encoder {
    /// Searches for the best encoder of rank at most `rank`. `gap` is the total gap that smoothing may cost.
    pub fn solve(
        dataset: &Dataset,
        rank: usize,
        gap: Nats,
        effort: Effort,
        seed: u64,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let targets = Targets::new(dataset, gap)?;
        if let Some(exact) = Self::exact(dataset, rank, &targets) {
            return Ok(exact);
        }
        let f = Divergence::new(dataset, targets.eps);
        let work = 6.0 * dataset.len() as f64 * dataset.d_vocab() as f64 * rank as f64;
        let affordable = ((effort.work / work) as usize).max(100);
        let mut starts = vec![start::singular(&f, rank, seed, observer)?];
        starts.extend(start::coded(&f, rank, seed, observer)?);
        if affordable >= effort.steps * (effort.restarts + starts.len()) {
            starts.extend((1..=effort.restarts).map(|restart| random(&f, rank, seed, restart as u64)));
        }
        // If full descents from all starts take too long, a tenth of each shows which one to follow.
        let short = affordable < effort.steps * starts.len();
        let first = if short { (affordable / 10).max(20) } else { effort.steps };
        let rest = if short { affordable.min(effort.steps) } else { 0 };
        // A value far below the smoothing is as good as zero.
        let enough = 0.01 * gap.0 / dataset.predictions();
        let mut best: Option<(Vec<f64>, Vec<f64>, f64)> = None;
        for start in starts {
            let found = descend(&f, rank, start, first, enough, observer)?;
            if best.as_ref().is_none_or(|best| found.2 < best.2) {
                best = Some(found);
            }
        }
        let mut best = best.unwrap_or_default();
        if rest > 0 {
            best = descend(&f, rank, (best.0, best.1), rest, enough, observer)?;
        }
        let (w, scaled, _) = best;
        Ok(Self::polished(&f, rank, w, scaled))
    }

    /// Descends from another encoder of smaller or equal rank; the result is never worse.
    pub fn widened(
        &self,
        dataset: &Dataset,
        rank: usize,
        gap: Nats,
        steps: usize,
        observer: &dyn Observer,
    ) -> Result<Self> {
        assert!(rank >= self.rank, "an encoder of rank {} made narrower, {rank}", self.rank);
        let targets = Targets::new(dataset, gap)?;
        let f = Divergence::new(dataset, targets.eps);
        let pad = |values: &[f64], fill: f64| -> Vec<f64> {
            let mut stream = Stream::new(0, "dana2024 encoder", u64::MAX);
            values
                .chunks_exact(self.rank)
                .flat_map(|row| {
                    let new: Vec<f64> = (self.rank..rank).map(|_| fill * stream.normal()).collect();
                    row.iter().copied().chain(new).collect::<Vec<f64>>()
                })
                .collect()
        };
        // New columns of W are 0, those of E are not: the logits are the same, but the gradient is nonzero.
        let w = pad(&self.w, 0.0);
        let mut scaled = pad(&self.e, 0.1);
        rescale(&f, rank, &mut scaled, f64::sqrt);
        let (w, scaled, _) = descend(&f, rank, (w, scaled), steps, 0.0, observer)?;
        Ok(Self::polished(&f, rank, w, scaled))
    }

    /// Codes back in their own units, and improved for their W.
    fn polished(f: &Divergence<'_>, rank: usize, w: Vec<f64>, mut e: Vec<f64>) -> Self {
        rescale(f, rank, &mut e, |p| 1.0 / p.sqrt());
        if f.dataset().len() as f64 * f.d_vocab() as f64 * (rank * rank) as f64 <= NEWTON_WORK {
            newton::polish(f, rank, &w, &mut e);
        }
        Self { gap: gap(f.dataset(), rank, &w, &e), rank, w, e, exact: false }
    }

    /// The encoder whose logits are the targets, if the rank allows it.
    fn exact(dataset: &Dataset, rank: usize, targets: &Targets) -> Option<Self> {
        let d_vocab = dataset.d_vocab();
        let n = dataset.len();
        let mut answers: BTreeMap<u32, usize> = dataset.next.iter().map(|&(t, _)| (t, 0)).collect();
        answers.values_mut().zip(0..).for_each(|(index, i)| *index = i);
        // If every token follows somewhere, one of them serves as the zero of all logits.
        let full = answers.len() as u64 == d_vocab;
        let free = answers.len() - usize::from(full);
        let mut kinds: BTreeMap<Vec<(u32, u64)>, usize> = BTreeMap::new();
        let key = |i: usize| targets.of(i).iter().map(|&(t, y)| (t, y.to_bits())).collect::<Vec<_>>();
        for i in 0..n {
            let next = kinds.len();
            kinds.entry(key(i)).or_insert(next);
        }
        let (w, e, found) = if free <= rank {
            let mut w = vec![0.0; d_vocab as usize * free];
            for (&token, &k) in answers.iter().filter(|&(_, &k)| k < free) {
                w[token as usize * free + k] = 1.0;
            }
            let mut e = vec![0.0; n * free];
            for (i, row) in e.chunks_exact_mut(free.max(1)).enumerate().take(if free > 0 { n } else { 0 }) {
                for &(token, y) in targets.of(i) {
                    match answers[&token] {
                        k if k < free => row[k] += y,
                        _ => row.iter_mut().for_each(|x| *x -= y),
                    }
                }
            }
            (w, e, free)
        } else if kinds.len() <= rank {
            let found = kinds.len();
            let mut w = vec![0.0; d_vocab as usize * found];
            let mut e = vec![0.0; n * found];
            for i in 0..n {
                let k = kinds[&key(i)];
                targets.of(i).iter().for_each(|&(token, y)| w[token as usize * found + k] = y);
                e[i * found + k] = 1.0;
            }
            (w, e, found)
        } else {
            return None;
        };
        Some(Self { gap: gap(dataset, found, &w, &e), rank: found, w, e, exact: true })
    }

    /// Returns the logits of a context.
    pub fn logits(&self, context: usize) -> Vec<f64> {
        let e = &self.e[context * self.rank..(context + 1) * self.rank];
        match self.rank {
            0 => vec![0.0; self.w.len()],
            rank => self.w.chunks_exact(rank).map(|w| w.iter().zip(e).map(|(w, e)| w * e).sum()).collect(),
        }
    }
}

/// Newton steps are skipped if one takes more multiplications than this.
const NEWTON_WORK: f64 = 1e9;

/// A random encoder: W and sqrt(p) E.
fn random(f: &Divergence<'_>, rank: usize, seed: u64, restart: u64) -> (Vec<f64>, Vec<f64>) {
    let mut stream = Stream::new(seed, "dana2024 encoder", restart);
    let w = (0..f.d_vocab() * rank).map(|_| 0.3 * stream.normal()).collect();
    let e = f.weights().iter().flat_map(|p| std::iter::repeat_n(0.3 * p.sqrt(), rank));
    (w, e.map(|x| x * stream.normal()).collect())
}

/// The divergence of an encoder from the corpus, summed over all predictions.
fn gap(dataset: &Dataset, rank: usize, w: &[f64], e: &[f64]) -> Nats {
    let mean = match rank {
        // Rank 0: the uniform distribution.
        0 => Divergence::new(dataset, 0.0).evaluate(
            1,
            &vec![0.0; dataset.d_vocab() as usize],
            &vec![0.0; dataset.len()],
            None,
        ),
        _ => Divergence::new(dataset, 0.0).evaluate(rank, w, e, None),
    };
    Nats((mean * dataset.predictions()).max(0.0))
}

/// Multiplies the code of every context by a function of its weight.
fn rescale(f: &Divergence<'_>, rank: usize, e: &mut [f64], factor: impl Fn(f64) -> f64) {
    for (row, &p) in e.chunks_exact_mut(rank).zip(f.weights()) {
        let factor = factor(p);
        row.iter_mut().for_each(|x| *x *= factor);
    }
}

/// Runs L-BFGS from W and sqrt(p) E; returns both and the value.
fn descend(
    f: &Divergence<'_>,
    rank: usize,
    (mut x, e): (Vec<f64>, Vec<f64>),
    steps: usize,
    enough: f64,
    observer: &dyn Observer,
) -> Result<(Vec<f64>, Vec<f64>, f64)> {
    let at = x.len();
    x.extend(e);
    let mut codes = vec![0.0; x.len() - at];
    let mut objective = |x: &[f64], gradient: &mut [f64]| {
        codes.copy_from_slice(&x[at..]);
        rescale(f, rank, &mut codes, |p| 1.0 / p.sqrt());
        let (w, e) = gradient.split_at_mut(at);
        let value = f.evaluate(rank, &x[..at], &codes, Some(Gradient { w, e }));
        rescale(f, rank, &mut gradient[at..], |p| 1.0 / p.sqrt());
        value
    };
    let (mut x, value) = minimize(&mut objective, x, steps, enough, observer)?;
    let e = x.split_off(at);
    Ok((x, e, value))
}

/// Runs L-BFGS with a memory of 20 until a number of steps is reached, the value is at most `enough`, the gradient is
/// below 1e-9 everywhere, or the value no longer decreases.
pub(super) fn minimize(
    objective: &mut impl Objective<f64>,
    x: Vec<f64>,
    steps: usize,
    enough: f64,
    observer: &dyn Observer,
) -> Result<(Vec<f64>, f64)> {
    let mut descent = Minimizer::new(objective, x, Lbfgs::new(20), Wolfe::default(), 1.0)?;
    let mut still = 0;
    for step in 0..steps {
        observer.report(Stage::Fitting, step as u64, Some(steps as u64))?;
        let before = descent.value();
        let flat = before <= enough || descent.gradient().iter().all(|g| g.abs() < 1e-9);
        if flat {
            break;
        }
        match descent.step(objective) {
            Ok(_) => {}
            Err(Halt::Stopped) => return Err(Error::Interrupted),
            Err(Halt::NoDescent | Halt::NotFinite) => break,
        }
        still = if before - descent.value() <= 1e-12 * before.abs() { still + 1 } else { 0 };
        if still == 5 {
            break;
        }
    }
    Ok((descent.x().to_vec(), descent.value()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::dana2024::examples::*;
    use crate::dataset::examples::stories;
    use crate::observe::Silent;

    const GAP: Nats = Nats(1e-9);

    fn solve(dataset: &Dataset, rank: usize) -> Encoder {
        Encoder::solve(dataset, rank, GAP, Effort::default(), 0, &Silent).unwrap()
    }

    #[test]
    fn at_full_rank_nothing_is_lost() {
        let dataset = distributions(12, 2, 60, 1.0, 1);
        let encoder = solve(&dataset, 11);
        assert!(encoder.exact && encoder.rank == 11 && encoder.gap.0 < 1e-10, "{:?}", encoder.gap);
        assert!(!solve(&dataset, 10).exact);
        // If few tokens follow, or few distributions differ, a smaller rank is enough.
        let few = of_contexts(9, (0..8u32).map(|t| (vec![t, 0], 4.0, vec![(t % 3, 3.0), (3, 1.0)])));
        let encoder = solve(&few, 4);
        assert!(encoder.exact && encoder.rank == 4 && encoder.gap.0 <= 1e-9, "{:?}", encoder.gap);
        let encoder = solve(&few, 3);
        assert!(encoder.exact && encoder.rank == 3 && encoder.gap.0 <= 1e-9, "{:?}", encoder.gap);
        assert!(!solve(&few, 2).exact);
        // The built-in stories at the number of their next tokens.
        let (dataset, d_vocab) = stories(30);
        let encoder =
            Encoder::solve(&dataset, d_vocab as usize, Nats(1e-5), Effort::default(), 0, &Silent).unwrap();
        assert!(encoder.exact && encoder.gap.0 <= 1e-5, "{:?}", encoder.gap);
    }

    #[test]
    fn more_rank_is_never_worse() {
        for (concentration, seed) in [(1.0, 1), (0.1, 2)] {
            let dataset = distributions(10, 2, 50, concentration, seed);
            let mut last: Option<Encoder> = None;
            for rank in 1..=9 {
                let fresh = solve(&dataset, rank);
                if let Some(last) = &last {
                    let warm = last.widened(&dataset, rank, GAP, 2000, &Silent).unwrap();
                    assert!(warm.gap.0 <= last.gap.0 * (1.0 + 1e-9) + 1e-9, "{} {}", warm.gap, last.gap);
                    assert!(fresh.gap.0 <= 1.02 * last.gap.0 + 1e-9, "{rank}: {} {}", fresh.gap, last.gap);
                }
                last = Some(fresh);
            }
        }
    }

    #[test]
    fn a_target_of_low_rank_is_found_again() {
        // Distributions that are themselves given by an encoder of rank 2.
        let dataset = of_rank(12, 80, 2, 3);
        let encoder = solve(&dataset, 2);
        assert!(encoder.gap.0 < 1e-7 * dataset.predictions(), "{}", encoder.gap);
        assert!(solve(&dataset, 1).gap.0 > 1e-2);
    }
}
