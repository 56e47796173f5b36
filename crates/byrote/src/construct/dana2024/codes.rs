//! Unit vectors for labels, as far apart as the dimension allows.
//!
//! With codes w_1..w_L and a context whose residual stream is w_g, the logits are <w_j, w_g>: the label g wins by 1 -
//! mu, where mu is the largest inner product of two different codes. After scaling by lambda, the divergence from
//! certainty is at most (L - 1) e^(-lambda (1 - mu)) per context, so any accuracy is possible in any dimension d >= 2
//! (Proposition 3).
//!
//! | dimension | codes | mu |
//! |---|---|---|
//! | d >= L - 1 | the corners of a regular simplex | -1/(L - 1) |
//! | d = 2 | points on a circle, as in the paper | cos(2 pi/L) |
//! | otherwise | random unit vectors that repel each other | measured |
//!
//! Repulsion: 300 steps w_i <- normalise(w_i - s sum_j p_ij w_j), p_i the softmax of beta <w_i, w_j> over j != i, with
//! beta from 4 to 100 and s decreasing from 0.3; the best codes along the way are kept. L = 50: mu = 0.25 at d = 10,
//! 0.13 at d = 16.
//!
//! dana2024 (arXiv:2411.10115), Proposition 3 and its proof.

use crate::num::Stream;
use crate::num::linear::{Mat, MatRef, multiply_into, quietly};
use crate::num::row_ops::exp_shifted;
use crate::num::simd::{Isa, SimdKernel, run};
use crate::observe::{Observer, Stage};
use crate::{Error, Result};
use rayon::prelude::*;
use serde::Serialize;
use std::f64::consts::PI;

/// How codes are arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodeLayout {
    /// The corners of a regular simplex.
    Simplex,
    /// Points on a circle.
    Circle,
    /// Random unit vectors after repulsion.
    Repelled,
}

/// The codes of labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Codes {
    /// Their arrangement.
    pub layout: CodeLayout,
    /// Their dimension, at most the requested one.
    pub dimension: usize,
    /// The codes, `[labels, dimension]`.
    pub w: Vec<f64>,
    /// The largest inner product of two of them; 0 if there is only one.
    pub coherence: f64,
}

/// The number of repulsion steps, and the total number of multiplications they may take.
const STEPS: usize = 300;
const WORK: f64 = 1e10;
/// The number of codes whose products with all others are held at a time.
const BLOCK: usize = 128;

impl Codes {
    /// Creates codes for `labels` labels in at most `d` dimensions.
    ///
    /// # Errors
    /// If there are no labels or no dimensions, or more than two labels in one dimension.
    pub fn new(labels: usize, d: usize, seed: u64, observer: &dyn Observer) -> Result<Self> {
        Self::after(labels, d, seed, STEPS, observer)
    }

    /// Creates codes after a short repulsion: good enough to start a search.
    pub fn roughly(labels: usize, d: usize, seed: u64, observer: &dyn Observer) -> Result<Self> {
        Self::after(labels, d, seed, STEPS / 10, observer)
    }

    fn after(labels: usize, d: usize, seed: u64, steps: usize, observer: &dyn Observer) -> Result<Self> {
        if labels == 0 {
            return Err(Error::setting("labels", "must be at least 1 (got 0)"));
        }
        if d == 0 {
            return Err(Error::setting("d_model", "must be at least 1 (got 0)"));
        }
        if labels == 1 {
            return Ok(Self { layout: CodeLayout::Simplex, dimension: 1, w: vec![1.0], coherence: 0.0 });
        }
        if d + 1 >= labels {
            return Ok(Self::simplex(labels));
        }
        match d {
            1 => {
                let message = format!("must be at least 2 (got 1): {labels} labels on a line cannot all win");
                Err(Error::setting("d_model", message))
            }
            2 => Ok(Self::circle(labels)),
            _ => Self::repelled(labels, d, seed, steps, observer),
        }
    }

    /// Helmert's basis of the vectors that sum to 0, one row per corner.
    fn simplex(labels: usize) -> Self {
        let dimension = labels - 1;
        let size = (labels as f64 / dimension as f64).sqrt();
        let entry = |i: usize, k: usize| match i.cmp(&(k + 1)) {
            std::cmp::Ordering::Less => size / (((k + 1) * (k + 2)) as f64).sqrt(),
            std::cmp::Ordering::Equal => -size * (k + 1) as f64 / (((k + 1) * (k + 2)) as f64).sqrt(),
            std::cmp::Ordering::Greater => 0.0,
        };
        let w = (0..labels).flat_map(|i| (0..dimension).map(move |k| entry(i, k))).collect();
        Self { layout: CodeLayout::Simplex, dimension, w, coherence: -1.0 / dimension as f64 }
    }

    fn circle(labels: usize) -> Self {
        let angle = |i: usize| 2.0 * PI * i as f64 / labels as f64;
        let w = (0..labels).flat_map(|i| [angle(i).cos(), angle(i).sin()]).collect();
        let coherence = (2.0 * PI / labels as f64).cos();
        Self { layout: CodeLayout::Circle, dimension: 2, w, coherence }
    }

    fn repelled(labels: usize, d: usize, seed: u64, steps: usize, observer: &dyn Observer) -> Result<Self> {
        let mut stream = Stream::new(seed, "dana2024 codes", 0);
        let mut w: Vec<f64> = (0..labels * d).map(|_| stream.normal()).collect();
        w.chunks_exact_mut(d).for_each(normalise);
        let work = 4.0 * (labels as f64).powi(2) * d as f64;
        let steps = ((WORK / work) as usize).min(steps);
        let mut best: Option<(f64, Vec<f64>)> = None;
        for step in 0..=steps {
            observer.report(Stage::Fitting, step as u64, Some(steps as u64))?;
            let progress = step as f64 / steps.max(1) as f64;
            let (coherence, next) = repel(&w, d, 4.0 + 96.0 * progress, 0.3 * (1.0 - progress));
            if best.as_ref().is_none_or(|(least, _)| coherence < *least) {
                best = Some((coherence, w));
            }
            w = next;
        }
        let (coherence, w) = best.unwrap_or((1.0, w));
        Ok(Self { layout: CodeLayout::Repelled, dimension: d, w, coherence })
    }

    /// Returns the code of a label.
    ///
    /// # Panics
    /// If there is no such label, as a slice does.
    pub fn of(&self, label: usize) -> &[f64] {
        &self.w[label * self.dimension..(label + 1) * self.dimension]
    }

    /// Returns the number of codes.
    pub fn len(&self) -> usize {
        self.w.len() / self.dimension
    }

    /// Always false: there is at least one label.
    pub fn is_empty(&self) -> bool {
        self.w.is_empty()
    }
}

fn normalise(v: &mut [f64]) {
    let length = v.iter().map(|x| x * x).sum::<f64>().sqrt();
    v.iter_mut().for_each(|x| *x /= length);
}

/// The largest inner product of two of the codes, and the codes after a step.
fn repel(w: &[f64], d: usize, beta: f64, step: f64) -> (f64, Vec<f64>) {
    let n = w.len() / d;
    let all = MatRef::from_row_major_slice(w, n, d);
    let blocks: Vec<(f64, Vec<f64>)> = quietly(|_| {
        let work = |(block, rows): (usize, &[f64])| {
            let size = rows.len() / d;
            let own = MatRef::from_column_major_slice(rows, d, size);
            // One column per code of this block.
            let mut p = Mat::<f64>::zeros(n, size);
            multiply_into(p.as_mut(), false, 1.0, all, own);
            let mut coherence = f64::NEG_INFINITY;
            for (j, column) in p.col_iter_mut().enumerate() {
                let Some(column) = column.try_as_col_major_mut() else { continue };
                let column = column.as_slice_mut();
                column[block * BLOCK + j] = f64::NEG_INFINITY;
                let largest = column.iter().fold(f64::NEG_INFINITY, |m: f64, &x| m.max(x));
                coherence = coherence.max(largest);
                column.iter_mut().for_each(|x| *x = beta * (*x - largest));
                run(Exponentials(column));
                let sum: f64 = column.iter().sum();
                column.iter_mut().for_each(|x| *x /= sum);
            }
            let mut moved = Mat::<f64>::zeros(d, size);
            multiply_into(moved.as_mut(), false, -step, all.transpose(), p.as_ref());
            let mut next = rows.to_vec();
            for (j, code) in next.chunks_exact_mut(d).enumerate() {
                code.iter_mut().enumerate().for_each(|(i, x)| *x += moved[(i, j)]);
                normalise(code);
            }
            (coherence, next)
        };
        w.par_chunks(BLOCK * d).enumerate().map(work).collect()
    });
    let coherence = blocks.iter().fold(f64::NEG_INFINITY, |m, b| m.max(b.0));
    (coherence, blocks.into_iter().flat_map(|b| b.1).collect())
}

/// e^x in place of x.
struct Exponentials<'a>(&'a mut [f64]);

impl SimdKernel for Exponentials<'_> {
    type Output = ();

    #[inline(always)]
    fn call<I: Isa>(self, isa: I) {
        exp_shifted(isa, self.0, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Silent;

    fn products(codes: &Codes) -> Vec<f64> {
        let dot = |i, j| codes.of(i).iter().zip(codes.of(j)).map(|(a, b): (&f64, &f64)| a * b).sum::<f64>();
        (0..codes.len()).flat_map(|i| (0..codes.len()).map(move |j| (i, j))).map(|(i, j)| dot(i, j)).collect()
    }

    /// Unit vectors whose largest inner product is as reported.
    fn check(codes: &Codes) {
        let n = codes.len();
        let gram = products(codes);
        assert!((0..n).all(|i| (gram[i * n + i] - 1.0).abs() < 1e-14));
        let most = (0..n * n).filter(|k| k / n != k % n).map(|k| gram[k]).fold(f64::MIN, f64::max);
        assert!((most - codes.coherence).abs() < 1e-14, "{most} {}", codes.coherence);
    }

    #[test]
    fn simplex_circle_and_repelled_codes_are_unit_vectors_as_far_apart_as_documented() {
        for (labels, d, layout) in [
            (2, 1, CodeLayout::Simplex),
            (3, 2, CodeLayout::Simplex),
            (50, 49, CodeLayout::Simplex),
            (50, 80, CodeLayout::Simplex),
        ] {
            let codes = Codes::new(labels, d, 0, &Silent).unwrap();
            check(&codes);
            assert_eq!((codes.layout, codes.dimension), (layout, labels - 1));
            let gram = products(&codes);
            assert!(gram.iter().all(|g| g.abs() < 1e-13
                || (g + 1.0 / (labels as f64 - 1.0)).abs() < 1e-13
                || (g - 1.0).abs() < 1e-13));
        }
        let circle = Codes::new(50, 2, 0, &Silent).unwrap();
        check(&circle);
        // 1 - cos(2 pi/50)
        assert!((1.0 - circle.coherence - 0.007_885_298_7).abs() < 1e-10);
        for (d, most) in [(3, 0.92), (10, 0.28), (16, 0.15)] {
            for seed in 0..3 {
                let codes = Codes::new(50, d, seed, &Silent).unwrap();
                check(&codes);
                assert!(
                    codes.layout == CodeLayout::Repelled && codes.coherence < most,
                    "{d}: {}",
                    codes.coherence
                );
            }
        }
        assert_eq!(Codes::new(1, 3, 0, &Silent).unwrap().w, [1.0]);
    }

    #[test]
    fn a_line_has_room_for_two_labels() {
        assert!(Codes::new(2, 1, 0, &Silent).is_ok());
        let error = Codes::new(3, 1, 0, &Silent).unwrap_err().to_string();
        assert!(error.starts_with("d_model: must be at least 2 (got 1): 3 labels"), "{error}");
    }

    #[test]
    fn the_circle_comes_as_near_to_certainty_as_the_scale_allows() {
        // N = 50, in nats: sum over j != g of e^(-lambda (1 - cos)), through ln(1 + x).
        let circle = Codes::new(50, 2, 0, &Silent).unwrap();
        let kl = |lambda: f64| {
            let rest: f64 = (1..50)
                .map(|j| {
                    let cos: f64 = circle.of(0).iter().zip(circle.of(j)).map(|(a, b)| a * b).sum();
                    (-lambda * (1.0 - cos)).exp()
                })
                .sum();
            rest.ln_1p()
        };
        for (lambda, expect) in [(1e2, 0.692), (1e3, 7.52e-4), (2e3, 2.83e-7), (5e3, 1.5e-17)] {
            assert!((kl(lambda) / expect - 1.0).abs() < 0.02, "{lambda}: {}", kl(lambda));
        }
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| Codes::new(300, 5, 1, &Silent).unwrap())
        };
        assert_eq!(run(1), run(3));
    }
}
