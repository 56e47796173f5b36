//! The limited-memory BFGS direction d = -H g, from the last curvature pairs s = x' - x, y = g' - g.
//!
//! The two-loop recursion (Nocedal & Wright, Numerical Optimization, 2nd ed., algorithm 7.4) runs on coefficients: every
//! vector in it is a linear combination of the pairs and the gradient, so it needs only inner products among those (Chen,
//! Wang & Zhou, Large-scale L-BFGS using MapReduce, 2014, section 3). One pass over memory computes the new inner products,
//! another sums the direction.

use super::vectors::{combine, dots};
use crate::num::Real;

/// A pair is kept if the cosine of the angle between s and y exceeds this.
const CURVATURE: f64 = 1e-10;

/// A step and the change of the gradient along it: (s, y).
pub type Pair<T> = (Vec<T>, Vec<T>);

/// The curvature pairs that the method remembers.
#[derive(Debug, Clone, PartialEq)]
pub struct Lbfgs<T> {
    memory: usize,
    /// At most `memory` pairs, oldest first.
    pairs: Vec<Learned<T>>,
    /// Buffers for the next pair.
    spare: Option<Pair<T>>,
}

#[derive(Debug, Clone, PartialEq)]
struct Learned<T> {
    s: Vec<T>,
    y: Vec<T>,
    /// The products with each pair j, including this one: s . y_j, y . s_j and y . y_j.
    products: Vec<Products>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Products {
    sy: f64,
    ys: f64,
    yy: f64,
}

impl<T: Real> Lbfgs<T> {
    /// Creates an empty memory of at most `memory` pairs.
    pub fn new(memory: usize) -> Self {
        Self { memory, pairs: Vec::with_capacity(memory), spare: None }
    }

    /// Restores a memory from the pairs that [`Lbfgs::pairs`] returned, oldest first.
    pub fn from_pairs(memory: usize, pairs: Vec<Pair<T>>) -> Self {
        let mut all = Self::new(memory);
        for (s, y) in pairs {
            all.insert(s, y);
        }
        all
    }

    /// Returns the pairs (s, y), oldest first.
    pub fn pairs(&self) -> impl ExactSizeIterator<Item = (&[T], &[T])> {
        self.pairs.iter().map(|p| (&p.s[..], &p.y[..]))
    }

    /// Forgets all pairs.
    pub fn clear(&mut self) {
        self.pairs.clear();
    }

    /// Learns from a step from `x` to `x_next`. A pair without positive curvature is ignored.
    pub fn learn(&mut self, x: &[T], x_next: &[T], g: &[T], g_next: &[T]) {
        let (mut s, mut y) = self
            .spare
            .take()
            .unwrap_or_else(|| (vec![T::from_f64(0.0); x.len()], vec![T::from_f64(0.0); x.len()]));
        combine(&mut s, &[(1.0, x_next), (-1.0, x)]);
        combine(&mut y, &[(1.0, g_next), (-1.0, g)]);
        self.insert(s, y);
    }

    /// Appends a pair with its products, dropping the oldest if the memory is full. Freed buffers are kept for the next pair.
    fn insert(&mut self, s: Vec<T>, y: Vec<T>) {
        let mut wanted: Vec<(&[T], &[T])> = Vec::with_capacity(3 * self.pairs.len() + 3);
        for p in &self.pairs {
            wanted.extend([(&s[..], &p.y[..]), (&y[..], &p.s[..]), (&y[..], &p.y[..])]);
        }
        wanted.extend([(&s[..], &y[..]), (&y[..], &y[..]), (&s[..], &s[..])]);
        let mut found = vec![0.0; wanted.len()];
        dots(s.len(), &wanted, &mut found);
        let (found, own) = found.split_at(found.len() - 3);
        let (sy, yy, ss) = (own[0], own[1], own[2]);
        if !(sy > CURVATURE * (ss * yy).sqrt() && sy.is_finite() && yy.is_finite()) || self.memory == 0 {
            self.spare = Some((s, y));
            return;
        }
        let mut found = found.as_chunks::<3>().0;
        if self.pairs.len() == self.memory {
            let oldest = self.pairs.remove(0);
            self.pairs.iter_mut().for_each(|p| {
                p.products.remove(0);
            });
            self.spare = Some((oldest.s, oldest.y));
            found = &found[1..];
        }
        for (pair, &[sy, ys, yy]) in self.pairs.iter_mut().zip(found) {
            pair.products.push(Products { sy: ys, ys: sy, yy });
        }
        let mut products: Vec<Products> = found.iter().map(|&[sy, ys, yy]| Products { sy, ys, yy }).collect();
        products.push(Products { sy, ys: sy, yy });
        self.pairs.push(Learned { s, y, products });
    }

    /// Writes the direction for this gradient and returns the slope along it.
    pub fn direction(&self, gradient: &[T], direction: &mut [T]) -> f64 {
        let k = self.pairs.len();
        let mut wanted: Vec<(&[T], &[T])> = Vec::with_capacity(2 * k + 1);
        for p in &self.pairs {
            wanted.extend([(&p.s[..], gradient), (&p.y[..], gradient)]);
        }
        wanted.push((gradient, gradient));
        let mut found = vec![0.0; wanted.len()];
        dots(gradient.len(), &wanted, &mut found);
        let (of_pairs, gg) = (found.as_chunks::<2>().0, found[2 * k]);

        // p = c_g g + sum_j c_s[j] s_j + sum_j c_y[j] y_j
        let (mut c_g, mut c_s, mut c_y) = (-1.0, vec![0.0; k], vec![0.0; k]);
        let mut alpha = vec![0.0; k];
        for i in (0..k).rev() {
            let products = &self.pairs[i].products;
            let along: f64 = c_g * of_pairs[i][0] + (i + 1..k).map(|j| c_y[j] * products[j].sy).sum::<f64>();
            alpha[i] = along / products[i].sy;
            c_y[i] = -alpha[i];
        }
        if let Some(last) = self.pairs.last() {
            let scale = last.products[k - 1].sy / last.products[k - 1].yy;
            c_g *= scale;
            c_y.iter_mut().for_each(|c| *c *= scale);
        }
        for i in 0..k {
            let products = &self.pairs[i].products;
            let along: f64 = c_g * of_pairs[i][1]
                + (0..k).map(|j| c_y[j] * products[j].yy + c_s[j] * products[j].ys).sum::<f64>();
            c_s[i] = alpha[i] - along / products[i].sy;
        }
        let mut terms: Vec<(f64, &[T])> = Vec::with_capacity(2 * k + 1);
        terms.push((c_g, gradient));
        let mut slope = c_g * gg;
        for (i, pair) in self.pairs.iter().enumerate() {
            terms.extend([(c_s[i], &pair.s[..]), (c_y[i], &pair.y[..])]);
            slope += c_s[i] * of_pairs[i][0] + c_y[i] * of_pairs[i][1];
        }
        combine(direction, &terms);
        slope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns steps on a quadratic with the changes of its gradient.
    fn steps(n: usize, k: usize) -> Vec<Pair<f64>> {
        let diagonal: Vec<f64> = (0..n).map(|i| 1.0 + i as f64).collect();
        (0..k)
            .map(|j| {
                let s: Vec<f64> = (0..n).map(|i| ((i * (j + 2) + j) % 7) as f64 - 3.0).collect();
                let y = s.iter().zip(&diagonal).map(|(s, d)| s * d).collect();
                (s, y)
            })
            .collect()
    }

    /// The two-loop recursion as in the textbook.
    fn textbook(pairs: &[Pair<f64>], g: &[f64]) -> Vec<f64> {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut q = g.to_vec();
        let mut alpha = vec![0.0; pairs.len()];
        for (i, (s, y)) in pairs.iter().enumerate().rev() {
            alpha[i] = dot(s, &q) / dot(s, y);
            q.iter_mut().zip(y).for_each(|(q, y)| *q -= alpha[i] * y);
        }
        let (s, y) = &pairs[pairs.len() - 1];
        let scale = dot(s, y) / dot(y, y);
        q.iter_mut().for_each(|q| *q *= scale);
        for (i, (s, y)) in pairs.iter().enumerate() {
            let beta = dot(y, &q) / dot(s, y);
            q.iter_mut().zip(s).for_each(|(q, s)| *q += (alpha[i] - beta) * s);
        }
        q.into_iter().map(|x| -x).collect()
    }

    #[test]
    fn the_direction_matches_the_textbook() {
        let pairs = steps(11, 5);
        let lbfgs = Lbfgs::from_pairs(5, pairs.clone());
        let g: Vec<f64> = (0..11).map(|i| (i as f64 * 0.7).sin()).collect();
        let mut d = vec![0.0; 11];
        let slope = lbfgs.direction(&g, &mut d);
        let expected = textbook(&pairs, &g);
        let largest = expected.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        assert!(d.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-12 * largest), "{d:?} {expected:?}");
        let plain: f64 = g.iter().zip(&d).map(|(g, d)| g * d).sum();
        assert!((slope - plain).abs() < 1e-12 * plain.abs() && slope < 0.0);
    }

    #[test]
    fn memory_forgets_the_oldest_pair_and_is_restored_exactly() {
        let all = steps(9, 6);
        let mut lbfgs = Lbfgs::new(3);
        let zero = vec![0.0; 9];
        for (s, y) in &all {
            lbfgs.learn(&zero, s, &zero, y);
        }
        let kept: Vec<Pair<f64>> = lbfgs.pairs().map(|(s, y)| (s.to_vec(), y.to_vec())).collect();
        assert_eq!(kept, all[3..]);
        assert_eq!(Lbfgs::from_pairs(3, kept).pairs, lbfgs.pairs);
        // An ignored pair displaces none.
        lbfgs.learn(&zero, &all[0].0, &all[0].1, &zero);
        assert_eq!(lbfgs.pairs().len(), 3);
    }

    #[test]
    fn negative_curvature_is_ignored_and_without_memory_the_direction_is_minus_the_gradient() {
        let mut lbfgs = Lbfgs::new(3);
        lbfgs.learn(&[0.0, 0.0], &[1.0, 0.0], &[0.0, 0.0], &[-1.0, 0.0]);
        assert_eq!(lbfgs.pairs().len(), 0);
        let mut d = [0.0; 2];
        assert_eq!(lbfgs.direction(&[3.0, -4.0], &mut d), -25.0);
        assert_eq!(d, [-3.0, 4.0]);
    }
}
