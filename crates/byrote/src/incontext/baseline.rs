//! What a user would try first: repeat the last value, or fit a linear autoregression to the past.
//!
//! ```text
//! last value        u_t = x_t
//! autoregression    u_t = W_t z_t,    W_t minimizes  sum_{s < t} |W z_s - x_{s+1}|^2 + lambda |W|^2,    z_s = (x_s, c)
//! ```
//!
//! Both are causal: u_t depends on x_1 .. x_t. The autoregression has order 1 and a constant term, c = |x_f| with x_f the
//! first vector that is not 0: the exp kernel contains the constants, so without them the comparison would favour it. The
//! ridge, lambda = [`RIDGE`] |x_f|^2, only decides between maps that the past does not tell apart (the smallest one wins);
//! scaling the sequence scales the predictions.
//!
//! W_t is never formed. Row by row, Givens rotations keep R and Z with R^T R = lambda I + sum z_s z_s^T and R^T Z = sum z_s
//! x_{s+1}^T, so that W_t = (R^-1 Z)^T and u_t = Z^T R^-T z_t: one triangular solve per step, O(T d^2) in all, and rounding
//! errors that do not square the condition number as normal equations would. (Golub and Van Loan, Matrix Computations,
//! section 6.5, row updates of a least-squares problem.)
//!
//! The linear kernel's method sees the same data, has no constant term and corrects one equation at a time (Kaczmarz); least
//! squares solves all of them at once. The comparison says what a solver inside the layers would add, and the exp kernel what nonlinearity does.

use super::rows::Rows;
use super::sequence::{Sequence, norm};
use crate::Result;
use crate::observe::Observer;

/// The ridge, relative to the square of the first vector.
pub const RIDGE: f64 = 1e-8;

/// The number of steps between two checks whether to stop.
const PATIENCE: usize = 256;

/// A method to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baseline {
    /// Repeats the last vector.
    LastValue,
    /// Fits a linear map and a constant term to the past by least squares.
    Autoregression,
}

impl Baseline {
    /// All of them.
    pub const ALL: [Baseline; 2] = [Baseline::LastValue, Baseline::Autoregression];

    /// The key in JSON and CSV.
    pub fn key(self) -> &'static str {
        match self {
            Baseline::LastValue => "last_value",
            Baseline::Autoregression => "autoregression",
        }
    }

    /// The name in text and figures.
    pub fn label(self) -> &'static str {
        match self {
            Baseline::LastValue => "last value",
            Baseline::Autoregression => "autoregression, least squares",
        }
    }

    /// Returns the predictions u_1 .. u_T of x_2 .. x_{T+1}.
    pub fn predict(self, sequence: &Sequence, observer: &dyn Observer) -> Result<Rows> {
        match self {
            Baseline::LastValue => Ok((**sequence).clone()),
            Baseline::Autoregression => autoregression(sequence, observer),
        }
    }
}

/// Predicts by the linear map with a constant term that fits the past best.
pub fn autoregression(sequence: &Sequence, observer: &dyn Observer) -> Result<Rows> {
    let (n, d) = (sequence.len(), sequence.d());
    let mut out = Rows::zeros(n, d);
    let mut state: Option<Triangle> = None;
    for t in 0..n {
        if t % PATIENCE == 0 || t * d * d > 1 << 22 {
            observer.check()?;
        }
        let x = sequence.row(t);
        let size = norm(x);
        if state.is_none() && size > 0.0 {
            let mut new = Triangle::new(d, size);
            // The zeros before it tell about the constant term.
            (0..t).for_each(|s| new.add(sequence.row(s), sequence.row(s + 1)));
            state = Some(new);
        }
        let Some(state) = &mut state else { continue };
        state.predict(x, &mut out.values_mut()[t * d..][..d]);
        if t + 1 < n {
            state.add(x, sequence.row(t + 1));
        }
    }
    Ok(out)
}

/// R and Z side by side: row i holds d + 1 numbers of R, zeros before R_ii, and then Z_i1 .. Z_id.
struct Triangle {
    d: usize,
    /// The constant that follows every vector.
    constant: f64,
    rows: Rows,
    row: Vec<f64>,
}

impl Triangle {
    /// Starts with the ridge, for vectors of about this size.
    fn new(d: usize, size: f64) -> Self {
        let mut rows = Rows::zeros(d + 1, 2 * d + 1);
        (0..=d).for_each(|i| *rows.at_mut(i, i) = RIDGE.sqrt() * size);
        Self { d, constant: size, rows, row: vec![0.0; 2 * d + 1] }
    }

    /// Rotates the equation W (x, c) = y into the triangle.
    fn add(&mut self, x: &[f64], y: &[f64]) {
        self.row[..self.d].copy_from_slice(x);
        self.row[self.d] = self.constant;
        self.row[self.d + 1..].copy_from_slice(y);
        for i in 0..=self.d {
            let (a, b) = (self.rows.at(i, i), self.row[i]);
            if b == 0.0 {
                continue;
            }
            let length = a.hypot(b);
            let (c, s) = (a / length, b / length);
            let columns = 2 * self.d + 1;
            let own = &mut self.rows.values_mut()[i * columns..][..columns];
            for (r, w) in own[i..].iter_mut().zip(&mut self.row[i..]) {
                (*r, *w) = (c * *r + s * *w, c * *w - s * *r);
            }
        }
    }

    /// Z^T R^-T (x, c).
    fn predict(&self, x: &[f64], out: &mut [f64]) {
        let mut rest = x.to_vec();
        rest.push(self.constant);
        for i in 0..=self.d {
            let row = self.rows.row(i);
            let v = rest[i] / row[i];
            rest[i + 1..].iter_mut().zip(&row[i + 1..=self.d]).for_each(|(rest, r)| *rest -= v * r);
            out.iter_mut().zip(&row[self.d + 1..]).for_each(|(out, z)| *out += v * z);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sequence_task::{Map, SequenceTask};
    use super::super::squared_error::squared_errors;
    use super::*;
    use crate::observe::{Impatient, Silent};

    /// Solves the normal equations of the past anew at every t, by elimination with pivots. The first vector has norm 1.
    fn directly(x: &Sequence, ridge: f64) -> Rows {
        let (n, d) = (x.len(), x.d());
        let mut out = Rows::zeros(n, d);
        // With the constant.
        let z = |s: usize, i: usize| if i < d { x.at(s, i) } else { 1.0 };
        for t in 0..n {
            // [sum z z^T + ridge | z_t] v, then u = sum y <z, v>.
            let mut m = Rows::zeros(d + 1, d + 2);
            for i in 0..=d {
                for j in 0..=d {
                    *m.at_mut(i, j) = (0..t).map(|s| z(s, i) * z(s, j)).sum();
                }
                *m.at_mut(i, i) += ridge;
                *m.at_mut(i, d + 1) = z(t, i);
            }
            for k in 0..=d {
                let pivot = (k..=d).max_by(|&a, &b| m.at(a, k).abs().total_cmp(&m.at(b, k).abs())).unwrap();
                for j in 0..d + 2 {
                    let (a, b) = (m.at(k, j), m.at(pivot, j));
                    (*m.at_mut(k, j), *m.at_mut(pivot, j)) = (b, a);
                }
                for i in (0..=d).filter(|&i| i != k) {
                    let factor = m.at(i, k) / m.at(k, k);
                    for j in k..d + 2 {
                        *m.at_mut(i, j) -= factor * m.at(k, j);
                    }
                }
            }
            let v: Vec<f64> = (0..=d).map(|i| m.at(i, d + 1) / m.at(i, i)).collect();
            for s in 0..t {
                let along: f64 = v.iter().enumerate().map(|(i, v)| z(s, i) * v).sum();
                for j in 0..d {
                    *out.at_mut(t, j) += along * x.at(s + 1, j);
                }
            }
        }
        out
    }

    #[test]
    fn the_recursion_is_least_squares_on_the_past() {
        for (d, task) in
            [(1, SequenceTask::Nonlinear), (3, SequenceTask::Nonlinear), (5, SequenceTask::Periodic(9, 9))]
        {
            let x = task.generate(d, 40, 3, 0).unwrap();
            let found = autoregression(&x, &Silent).unwrap();
            let expect = directly(&x, RIDGE);
            for t in 0..40 {
                let gap =
                    found.row(t).iter().zip(expect.row(t)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                // The normal equations square the condition number, which is 1e4 while the ridge decides.
                let tolerance = if t <= d + 1 { 1e-5 } else { 1e-8 };
                assert!(gap < tolerance, "{task:?} d = {d}, t = {t}: {gap}");
            }
        }
    }

    #[test]
    fn an_affine_map_is_known_after_one_pair_more_than_dimensions() {
        let x = SequenceTask::Linear(Map::Orthogonal).generate(6, 30, 1, 0).unwrap();
        let errors = squared_errors(&autoregression(&x, &Silent).unwrap(), &x);
        assert!(errors[..6].iter().all(|e| *e > 1e-3), "{errors:?}");
        assert!(errors[9..].iter().all(|e| *e < 1e-8), "{errors:?}");
        // Quarter turns around (3, 1), which no linear map makes.
        let turns = [[4.0, 1.0], [3.0, 2.0], [2.0, 1.0], [3.0, 0.0]];
        let x = Rows::whole(2, (0..12).flat_map(|t| turns[t % 4]).collect());
        let x = Sequence::new(x).unwrap();
        let errors = squared_errors(&autoregression(&x, &Silent).unwrap(), &x);
        assert!(errors[..3].iter().all(|e| *e > 0.1), "{errors:?}");
        assert!(errors[3..].iter().all(|e| *e < 1e-8), "{errors:?}");
    }

    #[test]
    fn the_last_value_is_the_last_value() {
        let x = SequenceTask::Periodic(3, 3).generate(2, 9, 0, 0).unwrap();
        assert_eq!(Baseline::LastValue.predict(&x, &Silent).unwrap(), *x);
        assert_eq!(Baseline::ALL.map(Baseline::key), ["last_value", "autoregression"]);
    }

    #[test]
    fn what_comes_later_changes_nothing_and_a_scale_scales() {
        let x = SequenceTask::Nonlinear.generate(3, 25, 8, 0).unwrap();
        let u = autoregression(&x, &Silent).unwrap();
        let part = autoregression(&x.first(12).unwrap(), &Silent).unwrap();
        assert_eq!(u.values()[..36], *part.values());
        let scaled = Rows::whole(3, x.values().iter().map(|x| 1024.0 * x).collect());
        let scaled = autoregression(&Sequence::new(scaled).unwrap(), &Silent).unwrap();
        assert!(u.values().iter().zip(scaled.values()).all(|(u, s)| (1024.0 * u - s).abs() < 1e-6));
    }

    #[test]
    fn zeros_are_predicted_before_anything_else_is_known() {
        let x =
            Sequence::new(Rows::whole(2, vec![0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 2.0, 4.0, 4.0, 8.0])).unwrap();
        let u = autoregression(&x, &Silent).unwrap();
        assert_eq!(u.values()[..4], [0.0; 4]);
        // After 0 came 0 and (1, 2), so the constant term is their mean; after (1, 2) came (2, 4), which is 3/2 of (1, 2)
        // more than this mean.
        let near = |t, expect: [f64; 2]| u.row(t).iter().zip(expect).all(|(u, e)| (u - e).abs() < 1e-5);
        assert!(near(3, [3.5, 7.0]), "{u:?}");
        assert!(autoregression(&x, &Impatient::new(0)).is_err());
    }
}
