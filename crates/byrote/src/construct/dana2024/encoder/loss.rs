//! The divergence of an encoder from smoothed targets, and its gradient.
//!
//! ```text
//! f(W, E) = sum_i p_i KL(t_i || softmax(W e_i)),    t_i = (1 - omega eps) pi_i + eps,    p_i = c_i / sum c
//! ```
//!
//! in nats per prediction. With q_i the softmax: df/dW = sum_i p_i (q_i - t_i) e_i^T, df/de_i = p_i W^T (q_i - t_i).
//! Contexts are processed in blocks on lanes whose number depends only on the dataset; sums are taken in order, so the
//! result does not depend on the number of threads. The n x omega matrix of logits is never stored.

use crate::dataset::Dataset;
use crate::num::linear::{MatMut, MatRef, multiply_into, quietly};
use crate::num::row_ops::exp_shifted;
use crate::num::simd::{Isa, SimdKernel, run};
use rayon::prelude::*;

/// The maximum number of lanes, the contexts per block, and the minimum number of contexts per lane.
const LANES: usize = 16;
const BLOCK: usize = 64;

/// The function.
#[derive(Debug, Clone)]
pub struct Divergence<'p> {
    dataset: &'p Dataset,
    d_vocab: usize,
    /// The smallest probability of a token.
    eps: f64,
    /// The weight of each context; they sum to 1.
    weights: Vec<f64>,
    /// sum_g t_g ln t_g of each context.
    negentropy: Vec<f64>,
}

/// The buffers for the gradient, row-major like its variables.
pub struct Gradient<'a> {
    /// `[d_vocab, rank]`.
    pub w: &'a mut [f64],
    /// `[contexts, rank]`.
    pub e: &'a mut [f64],
}

impl<'p> Divergence<'p> {
    /// Creates the function for a dataset, with a probability of at least `eps` for every token.
    pub fn new(dataset: &'p Dataset, eps: f64) -> Self {
        let d_vocab = dataset.d_vocab();
        let total = dataset.predictions();
        let scale = 1.0 - d_vocab as f64 * eps;
        let x_ln_x = |t: f64| if t > 0.0 { t * t.ln() } else { 0.0 };
        let negentropy = (0..dataset.len())
            .map(|i| {
                let next = dataset.next_of(i);
                let known: f64 = next.iter().map(|&(_, n)| x_ln_x(scale * n / dataset.counts[i] + eps)).sum();
                known + (d_vocab as f64 - next.len() as f64) * x_ln_x(eps)
            })
            .collect();
        let weights = dataset.counts.iter().map(|c| c / total).collect();
        Self { dataset, d_vocab: d_vocab as usize, eps, weights, negentropy }
    }

    /// Returns the dataset.
    pub fn dataset(&self) -> &'p Dataset {
        self.dataset
    }

    /// Returns the weight of each context; they sum to 1.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Returns the number of tokens.
    pub fn d_vocab(&self) -> usize {
        self.d_vocab
    }

    /// Returns the smoothed target of a token that follows with probability `pi`.
    pub fn smoothed(&self, pi: f64) -> f64 {
        (1.0 - self.d_vocab as f64 * self.eps) * pi + self.eps
    }

    /// Returns the smoothed target of a token that never follows.
    pub fn least(&self) -> f64 {
        self.eps
    }

    /// Returns the value at `w`, `[d_vocab, rank]`, and `e`, `[contexts, rank]`; overwrites the gradient if it is
    /// requested.
    pub fn evaluate(&self, rank: usize, w: &[f64], e: &[f64], gradient: Option<Gradient<'_>>) -> f64 {
        let n = self.dataset.len();
        assert!(w.len() == self.d_vocab * rank && e.len() == n * rank, "an encoder of another shape");
        let lane = n.div_ceil(LANES).max(BLOCK);
        let back = gradient.is_some();
        let (mut spare_w, mut spare_e) = (Vec::new(), Vec::new());
        let Gradient { w: dw, e: de } = gradient.unwrap_or(Gradient { w: &mut spare_w, e: &mut spare_e });
        let mut parts: Vec<(f64, Vec<f64>)> = Vec::new();
        // Without a gradient, every lane has an empty part of it.
        let mut rows: Vec<&mut [f64]> = match back {
            true => de.chunks_mut(lane * rank).collect(),
            false => (0..n.div_ceil(lane)).map(|_| &mut [][..]).collect(),
        };
        quietly(|_| {
            let work = |(i, de): (usize, &mut &mut [f64])| {
                let contexts = i * lane..((i + 1) * lane).min(n);
                let mut dw = vec![0.0; if back { self.d_vocab * rank } else { 0 }];
                let value = self.lane(rank, contexts, w, e, &mut dw, de);
                (value, dw)
            };
            parts = rows.par_iter_mut().enumerate().map(work).collect();
        });
        if back {
            dw.fill(0.0);
            for (_, part) in &parts {
                dw.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
            }
        }
        parts.iter().map(|p| p.0).sum()
    }

    fn lane(
        &self,
        rank: usize,
        contexts: std::ops::Range<usize>,
        w: &[f64],
        e: &[f64],
        dw: &mut [f64],
        de: &mut [f64],
    ) -> f64 {
        let (omega, back) = (self.d_vocab, !dw.is_empty());
        let w = MatRef::from_row_major_slice(w, omega, rank);
        let mut logits = vec![0.0; BLOCK * omega];
        let mut value = 0.0;
        for first in contexts.clone().step_by(BLOCK) {
            let size = BLOCK.min(contexts.end - first);
            let codes = MatRef::from_column_major_slice(&e[first * rank..(first + size) * rank], rank, size);
            let block = &mut logits[..size * omega];
            let out = MatMut::from_column_major_slice_mut(block, omega, size);
            multiply_into(out, false, 1.0, w, codes);
            for (context, row) in (first..).zip(block.chunks_exact_mut(omega)) {
                value += self.context(context, row);
            }
            if back {
                let g = MatRef::from_column_major_slice(block, omega, size);
                let at = (first - contexts.start) * rank;
                let out = MatMut::from_column_major_slice_mut(&mut de[at..at + size * rank], rank, size);
                multiply_into(out, false, 1.0, w.transpose(), g);
                let out = MatMut::from_column_major_slice_mut(dw, rank, omega);
                multiply_into(out, true, 1.0, codes, g.transpose());
            }
        }
        value
    }

    /// The contribution of a context; its logits become p (q - t).
    fn context(&self, context: usize, row: &mut [f64]) -> f64 {
        let (count, weight) = (self.dataset.counts[context], self.weights[context]);
        let next = self.dataset.next_of(context);
        let scale = 1.0 - self.d_vocab as f64 * self.eps;
        let all: f64 = if self.eps > 0.0 { row.iter().sum() } else { 0.0 };
        let expected: f64 =
            self.eps * all + scale * next.iter().map(|&(t, n)| n / count * row[t as usize]).sum::<f64>();
        let (largest, sum) = run(Exponentials { row });
        let value = self.negentropy[context] + largest + sum.ln() - expected;
        let factor = weight / sum;
        let floor = weight * self.eps;
        row.iter_mut().for_each(|x| *x = *x * factor - floor);
        for &(t, n) in next {
            row[t as usize] -= weight * scale * n / count;
        }
        weight * value
    }
}

/// Replaces x by e^(x - largest); returns the largest and the sum.
struct Exponentials<'a> {
    row: &'a mut [f64],
}

impl SimdKernel for Exponentials<'_> {
    type Output = (f64, f64);

    #[inline(always)]
    fn call<I: Isa>(self, isa: I) -> (f64, f64) {
        let mut lanes = [f64::NEG_INFINITY; 8];
        let (chunks, rest) = self.row.as_chunks::<8>();
        for chunk in chunks {
            for (m, &x) in lanes.iter_mut().zip(chunk) {
                *m = if x > *m { x } else { *m };
            }
        }
        let largest = lanes.iter().chain(rest).fold(f64::NEG_INFINITY, |m: f64, &x| m.max(x));
        exp_shifted(isa, self.row, largest);
        let mut lanes = [0.0; 8];
        let (chunks, rest) = self.row.as_chunks::<8>();
        for chunk in chunks {
            for (s, &x) in lanes.iter_mut().zip(chunk) {
                *s += x;
            }
        }
        (largest, lanes.iter().sum::<f64>() + rest.iter().sum::<f64>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::dana2024::examples::*;
    use crate::model::reference::softmax;
    use crate::num::Stream;
    use proptest::prelude::*;

    fn random(n: usize, index: u64) -> Vec<f64> {
        let mut stream = Stream::new(4, "loss", index);
        (0..n).map(|_| stream.normal()).collect()
    }

    #[test]
    fn the_value_is_the_divergence_and_the_gradient_that_of_differences() {
        let dataset = distributions(11, 2, 90, 1.0, 5);
        for eps in [0.0, 1e-3] {
            let f = Divergence::new(&dataset, eps);
            let rank = 3;
            let (w, e) = (random(11 * rank, 0), random(90 * rank, 1));
            let (mut dw, mut de) = (vec![0.0; w.len()], vec![0.0; e.len()]);
            let value = f.evaluate(rank, &w, &e, Some(Gradient { w: &mut dw, e: &mut de }));
            let mut expect = 0.0;
            for i in 0..90 {
                let logits: Vec<f64> =
                    (0..11).map(|v| (0..rank).map(|k| w[v * rank + k] * e[i * rank + k]).sum()).collect();
                let q = softmax(&logits);
                let mut t = [eps; 11];
                for &(v, n) in dataset.next_of(i) {
                    t[v as usize] = f.smoothed(n / dataset.counts[i]);
                }
                let kl = |(t, q): (&f64, &f64)| if *t > 0.0 { t * (t / q).ln() } else { 0.0 };
                expect += f.weights[i] * t.iter().zip(&q).map(kl).sum::<f64>();
            }
            assert!((value - expect).abs() < 1e-13, "{value} {expect}");
            assert_eq!(f.evaluate(rank, &w, &e, None), value);
            let h = 1e-5;
            for k in [0, 7, 20, 32] {
                let at = |x: f64| {
                    let mut w = w.clone();
                    w[k] += x;
                    f.evaluate(rank, &w, &e, None)
                };
                assert!(((at(h) - at(-h)) / (2.0 * h) - dw[k]).abs() < 1e-9);
                let at = |x: f64| {
                    let mut e = e.clone();
                    e[8 * k] += x;
                    f.evaluate(rank, &w, &e, None)
                };
                assert!(((at(h) - at(-h)) / (2.0 * h) - de[8 * k]).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let dataset = distributions(30, 2, 700, 1.0, 6);
        let f = Divergence::new(&dataset, 1e-6);
        let (w, e) = (random(30 * 4, 2), random(700 * 4, 3));
        let work = || {
            let (mut dw, mut de) = (vec![0.0; w.len()], vec![0.0; e.len()]);
            let value = f.evaluate(4, &w, &e, Some(Gradient { w: &mut dw, e: &mut de }));
            (value, dw, de)
        };
        let run =
            |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work);
        assert_eq!(run(1), run(3));
    }

    /// One context with these next-token probabilities.
    fn one_context(pi: &[f64]) -> Dataset {
        let next = (0..).zip(pi.iter().copied()).filter(|n| n.1 > 0.0).collect();
        of_contexts(pi.len() as u64, [(vec![0], 1.0, next)].into_iter())
    }

    /// |ln(pi_i / softmax_i)| for the tokens of positive probability: what equation (16) bounds.
    fn deviations(pi: &[f64], logits: &[f64]) -> Vec<f64> {
        let q = softmax(logits);
        pi.iter().zip(&q).filter(|(p, _)| **p > 0.0).map(|(p, q)| (p / q).ln().abs()).collect()
    }

    fn range(z: &[f64]) -> f64 {
        let ends = z.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &x| (l.min(x), h.max(x)));
        ends.1 - ends.0
    }

    #[test]
    fn e15_logits_may_grow_faster_than_lemma_4_allows() {
        let mut ratios = Vec::new();
        for k in 1..=16 {
            let delta = 0.5f64.powi(k);
            let low = -1.0 / (delta * delta);
            let cases = [
                ([1.0, 0.0, 0.0], [0.0, delta.ln(), low]),
                ([0.5, 0.5, 0.0], [-0.75 * delta, (-(-0.75 * delta).exp_m1()).ln_1p(), low]),
            ];
            for (pi, logits) in cases {
                // Equation (16) with c = 1/2 and alpha = 1.
                let found = deviations(&pi, &logits);
                assert!(found.iter().all(|&x| 0.5 * delta <= x && x <= delta), "{delta}: {found:?}");
                let divergence = Divergence::new(&one_context(&pi), 0.0).evaluate(1, &logits, &[1.0], None);
                assert!((-1e-15..=delta).contains(&divergence), "{delta}: {divergence}");
                // What suffices: no logit further below the largest than ln(N / delta).
                let most = logits.iter().fold(f64::NEG_INFINITY, |m: f64, &x| m.max(x));
                let raised = logits.map(|x| x.max(most - (3.0 / delta).ln()));
                assert!(deviations(&pi, &raised).iter().all(|&x| x <= 2.0 * delta));
                assert!(range(&raised) <= (3.0 / delta).ln() + 1e-12);
                ratios.push(range(&logits) / (1.0 / delta).ln());
            }
        }
        assert!(ratios.windows(4).all(|r| r[3] > r[0]) && ratios[ratios.len() - 1] > 1e8, "{ratios:?}");
        // With two tokens the lemma holds: a range above ln(1 / (c delta)) breaks the left side.
        let (delta, c) = (1e-3f64, 0.5);
        let beyond = 1.001 * (1.0 / (c * delta)).ln();
        assert!(deviations(&[1.0, 0.0], &[0.0, -beyond])[0] < c * delta);
    }

    /// KL(pi, softmax(ln pi + z)) and the variance of z under pi.
    fn divergence_and_variance(pi: &[f64], z: &[f64]) -> (f64, f64) {
        let logits: Vec<f64> = pi.iter().zip(z).map(|(p, z)| p.ln() + z).collect();
        let divergence = Divergence::new(&one_context(pi), 0.0).evaluate(1, &logits, &[1.0], None);
        let mean: f64 = pi.iter().zip(z).map(|(p, z)| p * z).sum();
        (divergence, pi.iter().zip(z).map(|(p, z)| p * (z - mean).powi(2)).sum())
    }

    #[test]
    fn the_remainder_of_the_taylor_expansion_is_of_third_order() {
        // KL = K(1) with K(s) = ln E e^(s (z - E z)), the cumulants of z: variance / 2 + third moment / 6 + ...
        let uniform = (vec![0.25; 4], vec![1.0, -0.5, 0.3, 2.0]);
        let skewed = (vec![0.7, 0.2, 0.1], vec![0.4, -1.0, 1.5]);
        for (pi, z) in [uniform, skewed] {
            let mean: f64 = pi.iter().zip(&z).map(|(p, z)| p * z).sum();
            let third: f64 = pi.iter().zip(&z).map(|(p, z)| p * (z - mean).powi(3)).sum();
            let distance = |scale: f64| {
                let scaled: Vec<f64> = z.iter().map(|z| scale * z).collect();
                let (divergence, variance) = divergence_and_variance(&pi, &scaled);
                ((divergence - 0.5 * variance) / scale.powi(3) - third / 6.0).abs()
            };
            // What is left of the coefficient falls with the scale.
            let found: Vec<f64> = (3..10).map(|k| distance(0.5f64.powi(k))).collect();
            assert!(found.windows(2).all(|d| d[1] < 0.6 * d[0]), "{found:?}");
            assert!(found[6] < 0.01 * third.abs().max(0.1), "{found:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        /// The third derivative of K is a third central moment of a variable in an interval of length r: at most r^3/(6 sqrt 3).
        #[test]
        fn the_divergence_is_half_the_variance_of_the_logit_difference_to_second_order(
            pairs in prop::collection::vec((0.001f64..1.0, -1.0f64..1.0), 2..12), scale in 0.0f64..3.0
        ) {
            let total: f64 = pairs.iter().map(|p| p.0).sum();
            let pi: Vec<f64> = pairs.iter().map(|p| p.0 / total).collect();
            let z: Vec<f64> = pairs.iter().map(|p| scale * p.1).collect();
            let (divergence, variance) = divergence_and_variance(&pi, &z);
            let rest = (divergence - 0.5 * variance).abs();
            prop_assert!(rest <= range(&z).powi(3) / (36.0 * 3f64.sqrt()) + 1e-13, "{rest}");
        }
    }
}
