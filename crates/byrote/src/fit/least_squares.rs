//! The least squares of a law: minimise sum_i w_i (z_i - g(f(x_i)))^2, with z = g(y), g the identity or the logarithm.
//!
//! Laws without a shape, fitted in y itself, are linear: one QR. For the others the coefficients are solved exactly on a grid
//! of shapes. The local minima of the grid are starting points for the Levenberg-Marquardt method (Marquardt, J. SIAM 11,
//! 1963) in all parameters together, within the bounds of the shape; the lowest result is the fit.
//!
//! Huber's loss (Ann. Math. Stat. 35, 1964), quadratic up to delta and linear beyond, is minimized by iterated least squares
//! with weights delta / |residual| beyond delta. delta is `tuning` times the scale of the residuals: their median
//! absolute value over 0.6745, or a given scale.

use super::basis::{Basis, LawShape, MOST_SHAPES};
use super::law::MOST_PARAMETERS;
use super::qr;
use serde::{Deserialize, Serialize};

/// The scale on which residuals are taken, and errors are assumed to be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResidualScale {
    /// y itself: errors of equal size everywhere.
    #[default]
    Plain,
    /// ln y: errors of equal proportion everywhere. All y must be above zero.
    Relative,
}

impl ResidualScale {
    /// y on this scale.
    pub fn of(self, y: f64) -> f64 {
        match self {
            ResidualScale::Plain => y,
            ResidualScale::Relative => libm::log(y),
        }
    }

    /// The y for a value on this scale.
    pub fn back(self, z: f64) -> f64 {
        match self {
            ResidualScale::Plain => z,
            ResidualScale::Relative => libm::exp(z),
        }
    }
}

/// The loss that is summed over the residuals.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Loss {
    /// Squares.
    #[default]
    Squares,
    /// Squares up to `tuning` times the scale, linear beyond: outliers have bounded influence.
    Huber {
        /// 1.345 costs 5% of the precision if the errors are normal.
        tuning: f64,
        /// The scale of the residuals; by default from their median.
        scale: Option<f64>,
    },
}

impl Loss {
    /// Huber's loss with the usual tuning.
    pub const HUBER: Loss = Loss::Huber { tuning: 1.345, scale: None };
}

/// Points on the scale of the fit, in the units of the basis.
#[derive(Debug, Clone)]
pub(super) struct Data {
    /// x / unit.
    pub u: Vec<f64>,
    /// g(y).
    pub z: Vec<f64>,
    /// Weights, of geometric mean 1.
    pub w: Vec<f64>,
}

impl Data {
    /// The root mean square of z, the yardstick for residuals that are nearly 0.
    pub fn magnitude(&self) -> f64 {
        let n = self.z.len() as f64;
        (self.z.iter().map(|z| z * z).sum::<f64>() / n).sqrt()
    }
}

/// The result of the minimization.
#[derive(Debug, Clone, Copy)]
pub(super) struct Solution {
    pub c: [f64; MOST_PARAMETERS],
    pub shape: LawShape,
    /// Huber's delta; infinite for squares.
    pub delta: f64,
}

/// Residuals below this part of the magnitude of z are rounding errors.
pub(super) const ROUNDING: f64 = 1e-10;
const MOST_STEPS: usize = 200;
const MOST_ROUNDS: usize = 100;

/// A law on data.
pub(super) struct Problem<'a> {
    pub basis: &'a Basis,
    pub data: &'a Data,
    pub scale: ResidualScale,
}

impl Problem<'_> {
    /// The lowest point found from `n_starts` local minima of the grid and, if given, from an earlier solution.
    pub fn solve(&self, loss: Loss, n_starts: usize, near: Option<&Solution>) -> Option<Solution> {
        let data = self.data;
        let squares = self.lowest(&data.w, n_starts, near)?;
        let Loss::Huber { tuning, scale } = loss else { return Some(squares) };
        let least = ROUNDING * data.magnitude().max(f64::MIN_POSITIVE);
        let mut at = squares;
        for _ in 0..MOST_ROUNDS {
            let residuals = self.residuals(&at)?;
            // Residuals in units of their own standard deviation.
            let sizes: Vec<f64> = residuals.iter().zip(&data.w).map(|(r, w)| r.abs() * w.sqrt()).collect();
            let scale = scale.unwrap_or_else(|| median(&sizes) / 0.6745);
            let delta = tuning * scale.max(least);
            let weights: Vec<f64> =
                sizes.iter().zip(&data.w).map(|(&r, w)| if r > delta { w * delta / r } else { *w }).collect();
            let next = match self.is_linear() {
                true => self.project(&[0.0; MOST_SHAPES], &weights)?,
                false => self.descend(at, &weights)?.1,
            };
            let still = self.moved(&at, &next) <= 1e-12;
            at = Solution { delta, ..next };
            if still {
                break;
            }
        }
        Some(at)
    }

    /// z - g(f) of every point; `None` where f has no value on the scale.
    pub fn residuals(&self, at: &Solution) -> Option<Vec<f64>> {
        let mut out = Vec::with_capacity(self.data.u.len());
        for (&u, &z) in self.data.u.iter().zip(&self.data.z) {
            let (phi, _) = self.basis.at(&at.shape, u);
            let f: f64 = at.c.iter().zip(&phi).map(|(c, phi)| c * phi).sum();
            let residual = z - self.scale.of(f);
            if !residual.is_finite() {
                return None;
            }
            out.push(residual);
        }
        Some(out)
    }

    fn is_linear(&self) -> bool {
        self.scale == ResidualScale::Plain && self.basis.n_shape() == 0
    }

    fn sum(&self, at: &Solution, weights: &[f64]) -> f64 {
        let residuals = self.residuals(at);
        residuals.map_or(f64::INFINITY, |r| r.iter().zip(weights).map(|(r, w)| w * r * r).sum())
    }

    /// The largest change of a value of f, relative to the magnitude of z.
    fn moved(&self, p: &Solution, q: &Solution) -> f64 {
        let (Some(p), Some(q)) = (self.residuals(p), self.residuals(q)) else { return f64::INFINITY };
        let most = p.iter().zip(&q).fold(0.0f64, |m, (p, q)| m.max((p - q).abs()));
        most / self.data.magnitude().max(f64::MIN_POSITIVE)
    }

    fn lowest(&self, weights: &[f64], n_starts: usize, near: Option<&Solution>) -> Option<Solution> {
        if self.is_linear() {
            return self.project(&[0.0; MOST_SHAPES], weights);
        }
        let mut valleys: Vec<(f64, Solution)> = Vec::new();
        // Near an earlier solution a third of the grid is enough to notice another minimum.
        let stride = if near.is_some() { 3 } else { 1 };
        for line in self.basis.starts() {
            let heights: Vec<Option<(f64, Solution)>> = line
                .iter()
                .step_by(stride)
                .map(|shape| {
                    let start = self.project(shape, weights)?;
                    Some((self.sum(&start, weights), start))
                })
                .collect();
            let height = |i: usize| heights.get(i).and_then(|h| h.map(|h| h.0)).unwrap_or(f64::INFINITY);
            for (i, point) in heights.iter().enumerate() {
                if let Some((here, start)) = point
                    && here.is_finite()
                    && (i == 0 || *here <= height(i - 1))
                    && *here <= height(i + 1)
                {
                    valleys.push((*here, *start));
                }
            }
        }
        // Stable: of equal minima the first.
        valleys.sort_by(|p, q| p.0.total_cmp(&q.0));
        valleys.truncate(n_starts);
        let starts = valleys.into_iter().map(|(_, start)| start).chain(near.copied());
        let ends = starts.filter_map(|start| self.descend(start, weights));
        let (_, best) = ends.min_by(|p, q| p.0.total_cmp(&q.0))?;
        let shape = self.basis.admissible(best.shape);
        // The coefficients that go with a moved exponent, to full precision.
        match self.scale {
            ResidualScale::Plain => self.project(&shape, weights),
            ResidualScale::Relative if shape != best.shape => self.project(&shape, weights),
            ResidualScale::Relative => Some(best),
        }
    }

    /// The best coefficients for a shape. On the relative scale they are a starting point: those of least squares with
    /// weights 1 / y^2, or the nearest ones with a positive curve.
    fn project(&self, shape: &LawShape, weights: &[f64]) -> Option<Solution> {
        let (n, k) = (self.data.u.len(), self.basis.n_linear());
        let mut a = vec![0.0; n * k];
        let mut b = vec![0.0; n];
        let mut anchor = 0.0;
        for i in 0..n {
            let (phi, _) = self.basis.at(shape, self.data.u[i]);
            let y = self.scale.back(self.data.z[i]);
            let root = match self.scale {
                ResidualScale::Plain => weights[i].sqrt(),
                ResidualScale::Relative => weights[i].sqrt() / y,
            };
            (0..k).for_each(|j| a[j * n + i] = root * phi[j]);
            b[i] = root * y;
            anchor += libm::log(y / phi[0]) / n as f64;
        }
        let c = qr::least_squares(&mut a, &mut b)?;
        let best = Solution { c, shape: *shape, delta: f64::INFINITY };
        if self.scale == ResidualScale::Plain {
            return Some(best);
        }
        let mut positive = [0.0; MOST_PARAMETERS];
        // No number where the first function is not above zero: then there is only the best.
        positive[0] = Some(libm::exp(anchor)).filter(|c| c.is_finite()).unwrap_or(0.0);
        (0..8).map(|halvings| 0.5f64.powi(halvings)).chain([0.0]).find_map(|t| {
            let mut mixed = best;
            mixed.c.iter_mut().zip(&positive).for_each(|(c, p)| *c = t * *c + (1.0 - t) * p);
            self.residuals(&mixed).map(|_| mixed)
        })
    }

    /// Levenberg-Marquardt from a starting point to its local minimum: the sum of squares and the place.
    fn descend(&self, start: Solution, weights: &[f64]) -> Option<(f64, Solution)> {
        let (n, k, s) = (self.data.u.len(), self.basis.n_linear(), self.basis.n_shape());
        let bounds = &self.basis.bounds;
        let mut at = start;
        for (t, (from, to)) in at.shape.iter_mut().zip(bounds).take(s) {
            *t = t.clamp(*from, *to);
        }
        let mut here = self.sum(&at, weights);
        if !here.is_finite() {
            return None;
        }
        let mut damping = 1e-3;
        let mut jacobian = vec![0.0; n * (k + s)];
        let mut residuals = vec![0.0; n];
        for _ in 0..MOST_STEPS {
            self.linearise(&at, weights, &mut jacobian, &mut residuals);
            let columns = |j: usize| &jacobian[j * n..(j + 1) * n];
            // A shape at its bound that would go beyond it is held in this step.
            let free: Vec<usize> = (0..k + s)
                .filter(|&j| {
                    let pull: f64 = columns(j).iter().zip(&residuals).map(|(d, r)| d * r).sum();
                    let bound = j.checked_sub(k).map(|i| (at.shape[i], bounds[i]));
                    bound.is_none_or(|(t, (from, to))| !(t <= from && pull < 0.0 || t >= to && pull > 0.0))
                })
                .collect();
            let norms: Vec<f64> =
                free.iter().map(|&j| columns(j).iter().map(|d| d * d).sum::<f64>().sqrt()).collect();
            let mut improved = None;
            while damping < 1e16 {
                let rows = n + free.len();
                let mut a = vec![0.0; rows * free.len()];
                for (i, &j) in free.iter().enumerate() {
                    a[i * rows..i * rows + n].copy_from_slice(columns(j));
                    a[i * rows + n + i] = (damping * norms[i] * norms[i]).sqrt().max(f64::MIN_POSITIVE);
                }
                let mut b = residuals.clone();
                b.resize(rows, 0.0);
                if let Some(step) = qr::least_squares(&mut a, &mut b) {
                    let mut next = at;
                    for (&j, step) in free.iter().zip(step) {
                        match j.checked_sub(k) {
                            None => next.c[j] += step,
                            Some(i) => next.shape[i] = (at.shape[i] + step).clamp(bounds[i].0, bounds[i].1),
                        }
                    }
                    let there = self.sum(&next, weights);
                    if there <= here {
                        improved = Some((there, next));
                        break;
                    }
                }
                damping *= 8.0;
            }
            let Some((there, next)) = improved else { break };
            let still = self.moved(&at, &next) <= 1e-13 && {
                let shapes = at.shape.iter().zip(&next.shape);
                shapes.take(s).all(|(p, q)| (p - q).abs() <= 1e-11 * (1.0 + p.abs()))
            };
            (here, at) = (there, next);
            damping = (damping / 16.0).max(1e-14);
            if still {
                break;
            }
        }
        Some((here, at))
    }

    /// Derivatives of g(f) with respect to the coefficients and the shape, column by column, and the residuals; both times the
    /// square roots of the weights.
    fn linearise(&self, at: &Solution, weights: &[f64], jacobian: &mut [f64], residuals: &mut [f64]) {
        let (n, k, s) = (self.data.u.len(), self.basis.n_linear(), self.basis.n_shape());
        for i in 0..n {
            let (phi, slopes) = self.basis.at(&at.shape, self.data.u[i]);
            let f: f64 = at.c.iter().zip(&phi).map(|(c, phi)| c * phi).sum();
            let root = weights[i].sqrt();
            let factor = match self.scale {
                ResidualScale::Plain => root,
                ResidualScale::Relative => root / f,
            };
            (0..k).for_each(|j| jacobian[j * n + i] = factor * phi[j]);
            (0..s).for_each(|j| jacobian[(k + j) * n + i] = factor * at.c[k - 1] * slopes[j]);
            residuals[i] = root * (self.data.z[i] - self.scale.of(f));
        }
    }
}

/// The median; 0 for no values.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn a_scale_and_back() {
        assert_eq!(ResidualScale::Plain.back(ResidualScale::Plain.of(-3.0)), -3.0);
        assert!((ResidualScale::Relative.back(ResidualScale::Relative.of(3.0)) - 3.0).abs() < 1e-15);
    }
}
