//! Adam and AdamW, with the arithmetic of PyTorch.
//!
//! ```text
//! m += (1 - beta_1) (g - m)        v = beta_2 v + (1 - beta_2) g^2
//! x  = (1 - rate decay) x - rate / (1 - beta_1^t)  m / (sqrt(v) / sqrt(1 - beta_2^t) + eps)
//! ```
//!
//! where decay = 0 for Adam. With Nesterov's momentum, m + (1 - beta_1) (g - m) takes the place of m in the second line. Parts of the
//! variables may have rates of their own.
//! References: Kingma & Ba, arXiv 1412.6980v9, algorithm 1; Loshchilov & Hutter, arXiv 1711.05101v3, algorithm 2 (with the decay
//! multiplied by the rate, as PyTorch does); Dozat, "Incorporating Nesterov Momentum into Adam", 2016.

use super::vectors::PIECE;
use crate::num::Real;
use crate::num::simd::{self, Isa, SimdKernel};
use rayon::prelude::*;

/// The constants of the method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constants {
    /// The decay of the first moment.
    pub beta_1: f64,
    /// The decay of the second moment.
    pub beta_2: f64,
    /// The term added to the square root of the second moment.
    pub eps: f64,
    /// The decoupled weight decay, 0 for Adam.
    pub decay: f64,
    /// Whether the momentum is Nesterov's: a step moves along the first moment that the same gradient would lead to next.
    pub nesterov: bool,
}

impl Default for Constants {
    fn default() -> Self {
        Self { beta_1: 0.9, beta_2: 0.999, eps: 1e-8, decay: 0.0, nesterov: false }
    }
}

/// The state of the method: moments of the gradient.
#[derive(Debug, Clone, PartialEq)]
pub struct Adam<T> {
    /// The constants.
    pub constants: Constants,
    /// The number of steps taken.
    pub steps: u64,
    /// The first moments.
    pub first: Vec<T>,
    /// The second moments.
    pub second: Vec<T>,
    /// Whether the next step can be taken back.
    pub remembers: bool,
    /// Multiples of the rate for parts of the variables, in order: where a part ends, and its multiple. The variables after the last part
    /// move at the rate itself.
    pub paces: Vec<(usize, f64)>,
    /// The moments before the last step that can be taken back.
    before: (Vec<T>, Vec<T>),
}

impl<T: Real> Adam<T> {
    /// Creates the state before the first step, for `n` variables.
    pub fn new(constants: Constants, n: usize) -> Self {
        let zeros = || vec![T::from_f64(0.0); n];
        let (first, second, before) = (zeros(), zeros(), (zeros(), zeros()));
        Self { constants, steps: 0, first, second, remembers: false, paces: Vec::new(), before }
    }

    /// Takes one step: `next` becomes `x` moved against the gradient. Returns whether `next` and the moments are finite.
    #[must_use]
    pub fn step(&mut self, x: &[T], next: &mut [T], gradient: &[T], rate: f64) -> bool {
        self.steps += 1;
        let Constants { beta_1, beta_2, eps, decay, nesterov } = self.constants;
        let t = self.steps as f64;
        let factors = Factors {
            first: T::from_f64(1.0 - beta_1),
            second: T::from_f64(1.0 - beta_2),
            keep: T::from_f64(beta_2),
            root: T::from_f64((1.0 - beta_2.powf(t)).sqrt()),
            eps: T::from_f64(eps),
            rate: T::from_f64(rate / (1.0 - beta_1.powf(t))),
            shrink: T::from_f64(1.0 - rate * decay),
        };
        // Many pieces at a time, because a step is little work per element.
        let size = 16 * PIECE;
        let (remembers, paces) = (self.remembers, &self.paces[..]);
        let before = self.before.0.par_chunks_mut(size).zip(self.before.1.par_chunks_mut(size));
        let moments = self.first.par_chunks_mut(size).zip(self.second.par_chunks_mut(size));
        next.par_chunks_mut(size)
            .zip(x.par_chunks(size))
            .zip(gradient.par_chunks(size))
            .zip(moments.zip(before))
            .enumerate()
            .map(|(piece, (((next, x), g), ((m, v), before)))| {
                if remembers {
                    // Just before the step, which reads them too: it finds them in the cache.
                    before.0.copy_from_slice(m);
                    before.1.copy_from_slice(v);
                }
                let start = piece * size;
                match nesterov {
                    false => simd::run(PieceStep::<_, false> { factors, start, paces, x, next, g, m, v }),
                    true => simd::run(PieceStep::<_, true> { factors, start, paces, x, next, g, m, v }),
                }
            })
            .reduce(|| true, |a, b| a & b)
    }

    /// Takes back the last step, if it was one to remember.
    pub fn undo(&mut self) {
        self.steps -= 1;
        std::mem::swap(&mut self.first, &mut self.before.0);
        std::mem::swap(&mut self.second, &mut self.before.1);
    }
}

#[derive(Clone, Copy)]
struct Factors<T> {
    first: T,
    second: T,
    keep: T,
    root: T,
    eps: T,
    rate: T,
    shrink: T,
}

/// With Nesterov's momentum or without.
struct PieceStep<'a, T, const NESTEROV: bool> {
    factors: Factors<T>,
    /// The number of variables before the piece.
    start: usize,
    paces: &'a [(usize, f64)],
    x: &'a [T],
    next: &'a mut [T],
    g: &'a [T],
    m: &'a mut [T],
    v: &'a mut [T],
}

impl<T: Real, const NESTEROV: bool> SimdKernel for PieceStep<'_, T, NESTEROV> {
    /// Whether everything written is finite.
    type Output = bool;
    #[inline(always)]
    fn call<I: Isa>(self, _: I) -> bool {
        let Self { start, paces, x, next, g, m, v, .. } = self;
        let mut from = 0;
        let rest = std::iter::once((usize::MAX, 1.0));
        for (end, pace) in
            paces[paces.partition_point(|&(end, _)| end <= start)..].iter().copied().chain(rest)
        {
            let part = from..x.len().min(end - start);
            from = part.end;
            let f = Factors { rate: self.factors.rate * T::from_f64(pace), ..self.factors };
            let moments = m[part.clone()].iter_mut().zip(&mut v[part.clone()]);
            let variables = next[part.clone()].iter_mut().zip(&x[part.clone()]).zip(&g[part]);
            for (((next, &x), &g), (m, v)) in variables.zip(moments) {
                *m += f.first * (g - *m);
                *v = *v * f.keep + f.second * g * g;
                let size = v.sqrt() / f.root + f.eps;
                let along = if NESTEROV { *m + f.first * (g - *m) } else { *m };
                *next = x * f.shrink - f.rate * (along / size);
            }
            if from == x.len() {
                break;
            }
        }
        all_finite(next) && all_finite(v)
    }
}

/// Returns whether all numbers are finite, in a form that the compiler vectorizes.
#[inline(always)]
fn all_finite<T: Real>(values: &[T]) -> bool {
    const LANES: usize = 16;
    // 0 times x is 0 only for finite x.
    let mut zeros = [T::from_f64(0.0); LANES];
    let (whole, rest) = values.as_chunks::<LANES>();
    for line in whole {
        for (zero, x) in zeros.iter_mut().zip(line) {
            *zero += T::from_f64(0.0) * *x;
        }
    }
    for (zero, x) in zeros.iter_mut().zip(rest) {
        *zero += T::from_f64(0.0) * *x;
    }
    zeros.iter().all(|z| *z == T::from_f64(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_equals_the_rate_for_any_gradient() {
        let mut adam = Adam::new(Constants::default(), 3);
        let (x, mut next) = ([1.0f64, 2.0, 3.0], [0.0; 3]);
        assert!(adam.step(&x, &mut next, &[1e-3, -50.0, 0.0], 0.1));
        assert!((next[0] - 0.9).abs() < 1e-5 && (next[1] - 2.1).abs() < 1e-9 && next[2] == 3.0);
        assert_eq!(adam.steps, 1);
    }

    #[test]
    fn decay_shrinks_a_variable_without_gradient() {
        let mut adam = Adam::new(Constants { decay: 0.01, ..Constants::default() }, 1);
        let mut next = [0.0f64];
        assert!(adam.step(&[2.0], &mut next, &[0.0], 0.1));
        assert!((next[0] - 2.0 * 0.999).abs() < 1e-15);
        assert!(!adam.step(&[2.0], &mut next, &[f64::MAX], 0.1), "its square is not finite");
    }

    #[test]
    fn a_part_with_a_pace_moves_like_all_variables_at_that_multiple_of_the_rate() {
        // Parts of several pieces, of one variable, without any, and a rest.
        let n = 40 * PIECE;
        let paces = vec![(3, 4.0), (4, 0.5), (4, 7.0), (17 * PIECE + 1, 0.125)];
        let values = |k: usize| -> Vec<f64> { (0..n).map(|i| ((i * k) as f64).sin()).collect() };
        let (x, gradients) = (values(1), [values(2), values(3)]);
        let moved = |paces: &[(usize, f64)], rate: f64| {
            let mut adam = Adam::new(Constants { nesterov: true, ..Constants::default() }, n);
            adam.paces = paces.to_vec();
            let (mut a, mut b) = (vec![0.0; n], vec![0.0; n]);
            assert!(adam.step(&x, &mut a, &gradients[0], rate) && adam.step(&a, &mut b, &gradients[1], rate));
            b
        };
        let found = moved(&paces, 0.25);
        let mut start = 0;
        for (end, pace) in paces.iter().copied().chain([(n, 1.0)]) {
            assert_eq!(found[start..end], moved(&[], 0.25 * pace)[start..end], "until {end}");
            start = end;
        }
    }

    #[test]
    fn the_momentum_of_nesterov_looks_one_step_ahead() {
        // m = 0.1, then 0.1 + 0.1 (2 - 0.1) = 0.29, and with the same gradient again 0.29 + 0.1 (2 - 0.29) = 0.461.
        let constants = Constants { eps: 0.0, nesterov: true, ..Constants::default() };
        let mut adam = Adam::new(constants, 1);
        let (mut a, mut b) = ([0.0f64], [0.0f64]);
        assert!(adam.step(&[0.0], &mut a, &[1.0], 0.5) && adam.step(&a, &mut b, &[2.0], 0.5));
        let second = 0.5 * (0.461 / 0.19) / (0.004_999f64 / 0.001_999).sqrt();
        assert!((a[0] + 0.5 * 1.9).abs() < 1e-14 && (b[0] - a[0] + second).abs() < 1e-12, "{a:?} {b:?}");
    }

    #[test]
    fn two_steps_match_a_calculation_by_hand() {
        // g = 1, then g = 2, rate 0.5: m = 0.1, 0.29; v = 0.001, 0.004999.
        let mut adam = Adam::new(Constants { eps: 0.0, ..Constants::default() }, 1);
        let (mut a, mut b) = ([0.0f64], [0.0f64]);
        adam.remembers = true;
        assert!(adam.step(&[0.0], &mut a, &[1.0], 0.5) && adam.step(&a, &mut b, &[2.0], 0.5));
        let second = 0.5 * (0.29 / 0.19) / (0.004_999f64 / 0.001_999).sqrt();
        assert!((a[0] + 0.5).abs() < 1e-14 && (b[0] + 0.5 + second).abs() < 1e-12, "{a:?} {b:?}");
        // Taken back and repeated, a step leads to the same place.
        let (after, mut again) = (adam.clone(), [0.0]);
        adam.undo();
        assert!(adam.steps == 1 && (adam.first[0] - 0.1).abs() < 1e-15);
        assert!(adam.step(&a, &mut again, &[2.0], 0.5));
        assert_eq!((again, adam), (b, after));
    }
}
