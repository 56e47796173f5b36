//! The linear system of Theorem 1, and the exact absorption of the skip connection.
//!
//! With Phi the values of the heads and x_S the embedded last token (F = [Phi; x_S], one column per context) the
//! model's logits are W_U (x_S + W_O Phi). To make them equal to W E, solve
//!
//! ```text
//! [G | M] F = E            G [r, H d_h],  M [r, d]
//! W_U = W M,   W_O = M^+ G
//! ```
//!
//! Then W_U (x_S + W_O Phi) = W (M x_S + M M^+ G Phi) = W E as soon as range G lies in range M, which holds if M has
//! rank r. No head imitates the skip connection and nothing tends to infinity: the gamma of the theorem is 0 (E6).
//!
//! E is reduced to full rank first ([`reduced`]): r <= d numbers per context, orthonormal columns. Otherwise, for a
//! rank-deficient E, M would have singular values that consist of rounding errors, and M^+ would invert them.
//!
//! | rows of F | method |
//! |---|---|
//! | as many as contexts | LU of F^T |
//! | more | QR of F with rows of length 1: the solution nearest to a prior |
//!
//! followed by two refinements. The prior is G = 0 and M = M_0, r orthonormal rows: the solution of least norm can have
//! a rank-deficient M (if all contexts end in one token, the rows of M are multiples of x_S), but the one nearest to
//! M_0 keeps M_0 wherever the contexts leave it free.

use super::features;
use crate::error::Refusal;
use crate::model::Config;
use crate::num::Stream;
use crate::num::linear::{Lu, Mat, MatRef, Qr, Svd, factor, product, subtract_product};
use crate::observe::Observer;
use crate::{Error, Result};
use std::f64::consts::FRAC_1_SQRT_2;

/// Pivots below this, relative to the largest, count as 0.
pub const PIVOT: f64 = 1e-13;
/// The number of refinements of a solution.
const REFINEMENTS: usize = 2;

/// W and E with the columns of E orthonormal up to a factor: the same logits, of full rank.
pub struct Reduced {
    /// `[d_vocab, r]`.
    pub w: Mat<f64>,
    /// `[contexts, r]`.
    pub e: Mat<f64>,
}

/// Reduces W `[d_vocab, r]` and E `[contexts, r]`, row-major, to the rank of E.
pub fn reduced(w: &[f64], e: &[f64], rank: usize, contexts: usize, d_vocab: usize) -> Option<Reduced> {
    if rank == 0 {
        return Some(Reduced { w: Mat::zeros(d_vocab, 0), e: Mat::zeros(contexts, 0) });
    }
    let (w, e) =
        (MatRef::from_row_major_slice(w, d_vocab, rank), MatRef::from_row_major_slice(e, contexts, rank));
    let (u, s, v) = if contexts >= rank {
        let qr = Qr::of(e.to_owned());
        let svd = Svd::of(qr.r().as_ref())?;
        (product(qr.orthonormal().as_ref(), svd.u.as_ref()), svd.s, svd.v)
    } else {
        let svd = Svd::of(e)?;
        (svd.u, svd.s, svd.v)
    };
    let most = s.first().copied().unwrap_or(0.0);
    let r = s.iter().filter(|&&s| s > 1e-12 * most).count();
    let size = (contexts as f64).sqrt();
    let scaled = Mat::from_fn(rank, r, |i, j| v[(i, j)] * s[j] / size);
    Some(Reduced { w: product(w, scaled.as_ref()), e: Mat::from_fn(contexts, r, |i, j| u[(i, j)] * size) })
}

/// A solution of F^T X = E.
pub struct Solution {
    /// X = [G | M]^T, `[H d_h + d, r]`.
    pub x: Mat<f64>,
    /// An estimate of the 1-norm condition number of the system.
    pub condition: f64,
}

/// Solves F^T X = E for F `[features, contexts]` with at least as many features as contexts; if there are several
/// solutions, returns the one nearest to `prior` `[features, r]`. `None` if the columns of F are dependent to working
/// precision.
pub fn interpolate(
    f: MatRef<'_, f64>,
    e: MatRef<'_, f64>,
    prior: MatRef<'_, f64>,
    observer: &dyn Observer,
) -> Result<Option<Solution>> {
    let (k, n) = (f.nrows(), f.ncols());
    if k < n {
        return Ok(None);
    }
    // Rows of length 1; zero rows remain.
    let lengths: Vec<f64> =
        (0..k).map(|i| f.row(i).norm_l2()).map(|l| if l > 0.0 { l } else { 1.0 }).collect();
    let a = Mat::from_fn(k, n, |i, j| f[(i, j)] / lengths[i]);
    enum Factors {
        Square(Lu),
        Tall(Qr),
    }
    let (factors, condition) = if k == n {
        let lu = factor(a.transpose().to_owned(), observer)?;
        if lu.pivot_ratio() < PIVOT {
            return Ok(None);
        }
        let condition = lu.condition();
        (Factors::Square(lu), condition)
    } else {
        let qr = Qr::of(a.clone());
        if qr.pivot_ratio() < PIVOT {
            return Ok(None);
        }
        let condition = factor(qr.r(), observer)?.condition();
        (Factors::Tall(qr), condition)
    };
    let solve = |b: Mat<f64>| match &factors {
        Factors::Square(lu) => {
            let mut b = b;
            lu.solve(&mut b);
            b
        }
        Factors::Tall(qr) => qr.least_norm(b.as_ref()),
    };
    let residual = |x: &Mat<f64>| {
        let mut r = e.to_owned();
        subtract_product(&mut r, a.transpose(), x.as_ref());
        r
    };
    let mut x = Mat::from_fn(k, e.ncols(), |i, j| prior[(i, j)] * lengths[i]);
    let mut r = residual(&x);
    x += solve(r);
    r = residual(&x);
    for _ in 0..REFINEMENTS {
        observer.check()?;
        let better = &x + solve(r.clone());
        let left = residual(&better);
        if left.norm_max() >= r.norm_max() {
            break;
        }
        (x, r) = (better, left);
    }
    (0..x.ncols()).for_each(|j| (0..k).for_each(|i| x[(i, j)] /= lengths[i]));
    Ok(Some(Solution { x, condition }))
}

/// Writes `W_U = W M` and `W_O = M^+ G` into the parameters of a draw; returns the condition number of M.
///
/// Refuses if M is rank deficient, so that a part of G is lost.
pub fn absorb(
    config: &Config,
    parameters: &mut [f64],
    w: MatRef<'_, f64>,
    x: MatRef<'_, f64>,
) -> Result<f64> {
    let (d, d_vocab) = (config.shape.d_model as usize, config.shape.d_vocab as usize);
    let (heads, r) = (x.nrows() - d, x.ncols());
    let singular =
        |lost: f64| Error::Refused { builder: super::KEY, refusal: Refusal::SkipSingular { lost } };
    let (g, m) = (x.get(..heads, ..).transpose(), x.get(heads.., ..).transpose());
    let (mut w_o, mut w_u, mut condition) = (Mat::zeros(d, heads), Mat::zeros(d_vocab, d), 1.0);
    if r > 0 {
        let svd = Svd::of(m).ok_or_else(|| singular(f64::NAN))?;
        w_o = product(svd.pseudoinverse(1e-12).as_ref(), g);
        w_u = product(w, m);
        let mut lost = g.to_owned();
        subtract_product(&mut lost, m, w_o.as_ref());
        let lost = lost.norm_l2() / g.norm_l2().max(f64::MIN_POSITIVE);
        if lost.is_nan() || lost > 1e-9 {
            return Err(singular(lost));
        }
        condition = svd.s[0] / svd.s[svd.s.len() - 1];
    }
    for tensor in config.tensors() {
        let values = &mut parameters[tensor.range.clone()];
        match tensor.name.part() {
            // [n_heads, d_head, d_model], [d_model, d_vocab]
            "W_O" => values.iter_mut().enumerate().for_each(|(i, v)| *v = w_o[(i % d, i / d)]),
            "W_U" => values.iter_mut().enumerate().for_each(|(i, v)| *v = w_u[(i % d_vocab, i / d_vocab)]),
            _ => {}
        }
    }
    Ok(condition)
}

/// G = 0 and M_0 with orthonormal rows, such that M_0 x_S is as long as a code: `[H d_h + d, r]`.
pub fn prior(config: &Config, r: usize, seed: u64, index: u64) -> Mat<f64> {
    let d = config.shape.d_model as usize;
    let heads = (config.shape.n_heads * config.shape.d_head) as usize;
    let mut stream = Stream::new(seed, "dana2024 M", index);
    let m = Qr::of(Mat::from_fn(d, r, |_, _| stream.normal())).orthonormal();
    Mat::from_fn(heads + d, r, |i, j| if i < heads { 0.0 } else { m[(i - heads, j)] * FRAC_1_SQRT_2 })
}

/// The numerical rank of the features of a draw.
pub fn feature_rank(f: MatRef<'_, f64>) -> usize {
    crate::num::linear::rank(f, features::DEPENDENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::observe::Silent;

    fn random(rows: usize, columns: usize, index: u64) -> Mat<f64> {
        let mut stream = Stream::new(9, "solve", index);
        Mat::from_fn(rows, columns, |_, _| stream.normal())
    }

    #[test]
    fn square_and_wide_systems_are_solved_and_dependent_ones_are_seen() {
        for (k, n) in [(20, 20), (31, 20), (1, 1)] {
            let (f, e) = (random(k, n, 0), random(n, 3, 1));
            let zero = Mat::zeros(k, 3);
            let found = interpolate(f.as_ref(), e.as_ref(), zero.as_ref(), &Silent).unwrap().unwrap();
            let mut r = e.clone();
            subtract_product(&mut r, f.transpose(), found.x.as_ref());
            assert!(r.norm_max() < 1e-12 && found.condition >= 1.0, "{k} {n}");
        }
        let low = product(random(20, 5, 2).as_ref(), random(5, 8, 3).as_ref());
        let zero = Mat::zeros(20, 1);
        assert!(
            interpolate(low.as_ref(), random(8, 1, 4).as_ref(), zero.as_ref(), &Silent).unwrap().is_none()
        );
        assert!(
            interpolate(random(4, 5, 5).as_ref(), random(5, 1, 6).as_ref(), zero.as_ref(), &Silent)
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn of_many_solutions_the_one_nearest_to_the_prior_is_taken() {
        // Ten features, the last four of which are the same for all six contexts: M matters along only one direction.
        let f = Mat::from_fn(10, 6, |i, j| if i < 6 { random(6, 6, 0)[(i, j)] } else { 1.0 + i as f64 });
        let config = features::config(7, 2, 4, 3, 2);
        let start = prior(&config, 3, 1, 0);
        let found =
            interpolate(f.as_ref(), random(6, 3, 1).as_ref(), start.as_ref(), &Silent).unwrap().unwrap();
        let m = found.x.as_ref().get(6.., ..);
        assert_eq!(Svd::of(m).unwrap().rank(1e-9), 3);
        let least = interpolate(f.as_ref(), random(6, 3, 1).as_ref(), Mat::zeros(10, 3).as_ref(), &Silent)
            .unwrap()
            .unwrap();
        assert_eq!(Svd::of(least.x.as_ref().get(6.., ..)).unwrap().rank(1e-9), 1);
        // The rows of the prior's M are orthonormal up to their length, and G is 0.
        let m = start.as_ref().get(6.., ..);
        let gram = m.transpose() * m;
        assert!(
            (0..3).all(|i| (0..3).all(|j| (gram[(i, j)] - if i == j { 0.5 } else { 0.0 }).abs() < 1e-14))
        );
        assert!(start.as_ref().get(..6, ..).norm_max() == 0.0);
    }

    #[test]
    fn reduction_keeps_the_logits_and_drops_what_depends() {
        // Rank 2 of 4, for more and for fewer contexts than numbers.
        for n in [9, 3] {
            let e = product(random(n, 2, 7).as_ref(), random(2, 4, 8).as_ref());
            let w = random(6, 4, 9);
            let rows = crate::num::linear::to_rows;
            let found = reduced(&rows(w.as_ref()), &rows(e.as_ref()), 4, n, 6).unwrap();
            assert_eq!((found.w.ncols(), found.e.ncols()), (2, 2));
            let mut difference = product(w.as_ref(), e.transpose());
            subtract_product(&mut difference, found.w.as_ref(), found.e.transpose());
            assert!(difference.norm_max() < 1e-13);
            let mut gram = Mat::from_fn(2, 2, |i, j| if i == j { n as f64 } else { 0.0 });
            subtract_product(&mut gram, found.e.transpose(), found.e.as_ref());
            assert!(gram.norm_max() < 1e-12);
        }
        assert_eq!(reduced(&[], &[], 0, 4, 5).unwrap().w.ncols(), 0);
    }

    #[test]
    fn the_skip_is_absorbed_exactly_or_refused() {
        let config = features::config(7, 2, 4, 3, 2);
        let (w, x) = (random(7, 3, 10), random(3 * 2 + 4, 3, 11));
        let mut parameters = vec![0.0; config.n_parameters()];
        assert!(absorb(&config, &mut parameters, w.as_ref(), x.as_ref()).unwrap() >= 1.0);
        let model = Model::new(config, parameters.clone()).unwrap();
        let (w_o, w_u) = (model.tensor("W_O").unwrap(), model.tensor("W_U").unwrap());
        // W_U (x_S + W_O Phi) = W X^T [Phi; x_S] for any features.
        let f = random(10, 1, 12);
        for v in 0..7 {
            let found: f64 = (0..4)
                .map(|k| {
                    w_u[k * 7 + v] * (f[(6 + k, 0)] + (0..6).map(|j| w_o[j * 4 + k] * f[(j, 0)]).sum::<f64>())
                })
                .sum();
            let expect: f64 =
                (0..3).map(|c| w[(v, c)] * (0..10).map(|j| x[(j, c)] * f[(j, 0)]).sum::<f64>()).sum();
            assert!((found - expect).abs() < 1e-12);
        }
        // Five numbers through a stream of four: a part of G is lost.
        let error = absorb(&config, &mut parameters, random(7, 5, 13).as_ref(), random(10, 5, 14).as_ref());
        assert!(error.unwrap_err().to_string().contains("skip"));
    }
}
