//! Products of projections: what the error of Kaczmarz's method is made of.
//!
//! Let P_i be the orthogonal projection onto the complement of the unit vector nu_i. For a linear map x_{t+1} = A x_t and
//! vectors of norm 1, Kaczmarz's step (see [`super::recursion`]) is W_{t+1} - A = (W_t - A) P_t with nu_t = x_t, so that,
//! from W_1 = 0,
//!
//! ```text
//! u_t - x_{t+1} = (W_t - A) x_t = -A P_1 P_2 ... P_{t-1} x_t
//! ```
//!
//! The error is a product of projections, and it is the picture of sander2024's figure 2: nu = x_t is projected by
//! P_{t-1} first and by P_1 last.
//!
//! **Statement.** |P_1 ... P_n| < 1 if and only if nu_1 .. nu_n span R^d. (If v is at right angles to all of them, every
//! projection leaves it alone. If |P_1 ... P_n v| = |v|, then |P_n v| = |v|, so v is at right angles to nu_n and P_n v = v,
//! and so on down to nu_1: v is at right angles to all of them. The norm is attained, because the sphere is compact.)
//! How far below 1 follows from Meany's inequality for n = d vectors: |P_1 ... P_d|^2 <= 1 - det(nu_1 .. nu_d)^2.
//!
//! **Consequence** (the core of sander2024's Theorem 2 in our reading). With A orthogonal and x_t = A^(t-1) x_1, P_{t+1} =
//! A P_t A^T, and the product telescopes: P_1 ... P_t = (P_1 A)^t A^-t. Its norm is that of (P_1 A)^t, which decays
//! geometrically if and only if x_1, A x_1, A^2 x_1, ... span R^d.
//!
//! Reference for the inequality: R. K. Meany, "A matrix inequality", SIAM J. Numer. Anal. 6 (1969).

use super::rows::Rows;
use super::sequence::norm;
use super::sequence_task::on_sphere;
use crate::num::Stream;
use crate::{Error, Result};

/// Unit vectors nu_1 .. nu_n, whose complements are projected onto.
#[derive(Debug, Clone, PartialEq)]
pub struct Projections {
    directions: Rows,
}

impl Projections {
    /// Takes the directions of vectors of any length but 0.
    pub fn new(mut vectors: Rows) -> Result<Self> {
        let d = vectors.columns();
        for (i, row) in vectors.values_mut().chunks_exact_mut(d.max(1)).enumerate() {
            let length = norm(row);
            if !(length > 0.0 && length.is_finite()) {
                let message = format!("norm {length}: has no direction to project along");
                return Err(Error::Sequence { t: Some(i + 1), message });
            }
            row.iter_mut().for_each(|x| *x /= length);
        }
        Ok(Self { directions: vectors })
    }

    /// Draws n directions uniformly in the first `rank` of d dimensions.
    pub fn random(n: usize, d: usize, rank: usize, seed: u64, index: u64) -> Self {
        let mut draw = Stream::new(seed, "incontext projections", index);
        let mut directions = Rows::zeros(n, d);
        for row in directions.values_mut().chunks_exact_mut(d) {
            row[..rank].copy_from_slice(&on_sphere(&mut draw, rank));
        }
        Self { directions }
    }

    /// Returns nu_1 .. nu_n.
    pub fn directions(&self) -> &Rows {
        &self.directions
    }

    /// Returns v, P_n v, P_{n-1} P_n v, ..., P_1 ... P_n v.
    pub fn path(&self, v: &[f64]) -> Rows {
        let mut values = v.to_vec();
        let mut now = v.to_vec();
        for nu in self.directions.iter().rev() {
            project(nu, &mut now);
            values.extend_from_slice(&now);
        }
        Rows::whole(v.len(), values)
    }

    /// Returns P_1 ... P_n.
    pub fn product(&self) -> Rows {
        let d = self.directions.columns();
        let mut out = Rows::zeros(d, d);
        for j in 0..d {
            let mut column = vec![0.0; d];
            column[j] = 1.0;
            for nu in self.directions.iter().rev() {
                project(nu, &mut column);
            }
            (0..d).for_each(|i| *out.at_mut(i, j) = column[i]);
        }
        out
    }

    /// Returns |P_1 ... P_n|, the largest singular value.
    pub fn norm(&self) -> f64 {
        largest(&singular_values(&self.product()))
    }

    /// Returns how many dimensions the directions span: singular values above 1e-12 of the largest.
    pub fn rank(&self) -> usize {
        let values = singular_values(&self.directions);
        values.iter().filter(|s| **s > 1e-12 * largest(&values)).count()
    }
}

/// Replaces v by its projection onto the complement of a unit vector.
fn project(nu: &[f64], v: &mut [f64]) {
    let along: f64 = nu.iter().zip(v.iter()).map(|(a, b)| a * b).sum();
    v.iter_mut().zip(nu).for_each(|(v, nu)| *v -= along * nu);
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// The most sweeps over all pairs of columns; a few are enough, because they converge quadratically.
const SWEEPS: usize = 60;

/// The singular values in no particular order, by Jacobi's method on the columns (Hestenes 1958): rotate pairs of columns until
/// all are at right angles; their lengths are the values. For a few columns that beats a general decomposition.
fn singular_values(matrix: &Rows) -> Vec<f64> {
    let (n, d) = (matrix.len(), matrix.columns());
    let mut columns: Vec<Vec<f64>> = (0..d).map(|j| (0..n).map(|i| matrix.at(i, j)).collect()).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for _ in 0..SWEEPS {
        let mut turned = false;
        for i in 0..d {
            for j in i + 1..d {
                let (left, right) = columns.split_at_mut(j);
                let (p, q) = (&mut left[i], &mut right[0]);
                let (pp, qq, pq) = (dot(p, p), dot(q, q), dot(p, q));
                if pq.abs() <= f64::EPSILON * (pp * qq).sqrt() {
                    continue;
                }
                turned = true;
                let zeta = (qq - pp) / (2.0 * pq);
                let tangent = zeta.signum() / (zeta.abs() + zeta.hypot(1.0));
                let c = 1.0 / tangent.hypot(1.0);
                for (a, b) in p.iter_mut().zip(q.iter_mut()) {
                    (*a, *b) = (c * (*a - tangent * *b), c * (*b + tangent * *a));
                }
            }
        }
        if !turned {
            break;
        }
    }
    columns.iter().map(|column| norm(column)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::kernel::{Kernel, Over};
    use super::super::recursion::recursion;
    use super::super::sequence::Sequence;
    use super::super::sequence_task::{Map, SequenceTask};
    use super::*;
    use crate::observe::Silent;

    fn det(m: &Rows) -> f64 {
        let a = |i, j| m.at(i, j);
        a(0, 0) * (a(1, 1) * a(2, 2) - a(1, 2) * a(2, 1)) - a(0, 1) * (a(1, 0) * a(2, 2) - a(1, 2) * a(2, 0))
            + a(0, 2) * (a(1, 0) * a(2, 1) - a(1, 1) * a(2, 0))
    }

    fn transposed(m: &Rows) -> Rows {
        let (n, d) = (m.len(), m.columns());
        Rows::whole(n, (0..n * d).map(|i| m.at(i % n, i / n)).collect())
    }

    fn times(a: &Rows, b: &Rows) -> Rows {
        let entry = |i: usize, j: usize| (0..b.len()).map(|k| a.at(i, k) * b.at(k, j)).sum();
        let (n, d) = (a.len(), b.columns());
        Rows::whole(d, (0..n * d).map(|i| entry(i / d, i % d)).collect())
    }

    #[test]
    fn singular_values_are_those_of_known_matrices() {
        for (columns, values, mut expect) in [
            (2, vec![3.0, 0.0, 4.0, 5.0], vec![45f64.sqrt(), 5f64.sqrt()]),
            (3, vec![1.0, 1.0, 1.0, 2.0, 2.0, 2.0], vec![15f64.sqrt(), 0.0, 0.0]),
            (1, vec![0.0, 0.0], vec![0.0]),
        ] {
            let mut found = singular_values(&Rows::whole(columns, values));
            found.sort_by(f64::total_cmp);
            expect.sort_by(f64::total_cmp);
            assert!(found.iter().zip(&expect).all(|(a, b)| (a - b).abs() < 1e-14), "{found:?} {expect:?}");
        }
    }

    #[test]
    fn two_projections_in_the_plane_have_the_norm_of_a_cosine() {
        // |P_1 P_2| is the cosine of the angle between the two lines.
        for angle in [0.1f64, 0.7, 1.5] {
            let rows = Rows::whole(2, vec![1.0, 0.0, 3.0 * angle.cos(), 3.0 * angle.sin()]);
            let found = Projections::new(rows).unwrap().norm();
            assert!((found - angle.cos()).abs() < 1e-14);
        }
        assert!(Projections::new(Rows::zeros(1, 2)).is_err());
    }

    #[test]
    fn the_norm_is_below_one_exactly_if_the_directions_span_the_space() {
        for index in 0..300 {
            for n in 1..=6 {
                for rank in 1..=3 {
                    let drawn = Projections::random(n, 3, rank, 1, index);
                    let (norm, span) = (drawn.norm(), drawn.rank());
                    assert_eq!(span, rank.min(n));
                    if span == 3 {
                        assert!(norm < 1.0 - 1e-12, "{n} directions: 1 - {:e}", 1.0 - norm);
                    } else {
                        assert!((norm - 1.0).abs() < 1e-14, "{n} directions in {rank}: {norm}");
                    }
                }
            }
        }
    }

    #[test]
    fn three_projections_obey_meanys_inequality() {
        for index in 0..300 {
            let drawn = Projections::random(3, 3, 3, 2, index);
            let bound = 1.0 - det(drawn.directions()).powi(2);
            assert!(drawn.norm().powi(2) <= bound + 1e-14);
        }
    }

    #[test]
    fn lengths_never_grow_along_a_path_and_it_ends_at_the_product() {
        let drawn = Projections::random(6, 3, 3, 3, 0);
        let v = [0.6, 0.0, 0.8];
        let path = drawn.path(&v);
        assert_eq!((path.len(), path.row(0)), (7, &v[..]));
        for pair in 0..6 {
            assert!(norm(path.row(pair + 1)) <= norm(path.row(pair)) + 1e-15);
        }
        let product = drawn.product();
        let end: Vec<f64> =
            product.iter().map(|row| row.iter().zip(v).map(|(a, b)| a * b).sum::<f64>()).collect();
        assert!(end.iter().zip(path.row(6)).all(|(a, b)| (a - b).abs() < 1e-15));
    }

    #[test]
    fn the_error_of_the_linear_kernel_is_a_product_of_projections() {
        // |u_t - x_{t+1}| = |P_1 ... P_{t-1} x_t| for an orthogonal map, which keeps lengths.
        let x = SequenceTask::Linear(Map::Orthogonal).generate(5, 31, 4, 0).unwrap();
        let u = recursion(&x, Kernel::LINEAR, Over::Key, &Silent).unwrap().predictions;
        for t in 1..30 {
            let past = Sequence::new(Rows::whole(5, x.values()[..t.max(2) * 5].to_vec())).unwrap();
            let past = Projections::new(Rows::whole(5, past.values()[..t * 5].to_vec())).unwrap();
            let path = past.path(x.row(t));
            let gap: Vec<f64> = u.row(t).iter().zip(x.row(t + 1)).map(|(u, x)| u - x).collect();
            assert!((norm(path.row(t)) - norm(&gap)).abs() < 1e-13, "t = {}", t + 1);
        }
    }

    #[test]
    fn for_an_orthogonal_map_the_product_telescopes_and_decays_geometrically() {
        let d = 4;
        let x = SequenceTask::Linear(Map::Orthogonal).generate(d, 81, 6, 0).unwrap();
        let map = super::super::sequence_task::linear_map(
            Map::Orthogonal,
            d,
            &mut Stream::new(6, "incontext linear map", 0),
            &super::super::sequence_task::unwatched(),
        );
        let map = map.unwrap();
        let first = Projections::new(Rows::whole(d, x.row(0).to_vec())).unwrap().product();
        let step = times(&first, &map);
        let (mut power, mut back) = (step.clone(), transposed(&map));
        let mut norms = Vec::new();
        for t in 1..=80 {
            let product = Projections::new(Rows::whole(d, x.values()[..t * d].to_vec())).unwrap().product();
            assert!(product.max_difference(&times(&power, &back)) < 1e-12, "t = {t}");
            norms.push(largest(&singular_values(&product)));
            (power, back) = (times(&power, &step), times(&back, &transposed(&map)));
        }
        // Equal times, equal factors.
        let rate = |from: usize| (norms[from + 19] / norms[from]).ln() / 19.0;
        assert!(rate(20) < -1e-4 && (rate(20) / rate(60) - 1.0).abs() < 0.01, "{} {}", rate(20), rate(60));
        // A map that does not turn x_1 into every direction leaves the norm at 1.
        let fixed = Projections::new(Rows::whole(d, x.row(0).repeat(80))).unwrap();
        assert!((fixed.norm() - 1.0).abs() < 1e-14);
    }
}
