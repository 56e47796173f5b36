//! A law fitted to points: parameters, residuals and goodness of fit.
//!
//! | quantity | formula |
//! |---|---|
//! | S | sum_i w_i r_i^2; for Huber's loss r^2 becomes 2 delta r - delta^2 beyond delta |
//! | R^2 | 1 - S / S(best constant, same loss) |
//! | standard error | sqrt(S / (n - p)), p parameters |
//! | AICc | n ln(S / n) + 2 k + 2 k (k + 1) / (n - k - 1), k = p + 1 since the noise level is estimated too |
//!
//! AICc: Hurvich and Tsai, Biometrika 76, 1989. It exists only for n - k - 1 > 0: with fewer points a law cannot be judged.
//! Weights are normalized to geometric mean 1, so that AICc does not depend on their unit. Residuals below 1e-10 of the
//! measurements are raised to that: laws that both fit ten digits are not distinguished by the eleventh.

use super::basis::Basis;
use super::law::{Domain, Law};
use super::least_squares::{Data, Loss, Problem, ROUNDING, ResidualScale, Solution};
use super::points::Points;
use super::qr;
use super::residual_pattern::{Placed, ResidualPattern, structure};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Local minima of the grid of shapes from which the minimization starts.
const N_STARTS: usize = 4;

/// The quantity that a fit minimizes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FitMethod {
    /// The scale on which residuals are taken.
    pub scale: ResidualScale,
    /// The loss that is summed over them.
    pub loss: Loss,
}

crate::setting::setters!(FitMethod { scale: plain(ResidualScale), loss: plain(Loss) });

/// A parameter of a fit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameter {
    /// The name in the formula.
    pub name: &'static str,
    /// The fitted value.
    pub value: f64,
    /// By linearization, for least squares; prefer the intervals of [`bootstrap`](super::bootstrap()).
    pub standard_error: Option<f64>,
}

/// A point and its distance from the curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Residual {
    /// The size.
    pub x: f64,
    /// The seed.
    pub group: u64,
    /// The measurement.
    pub y: f64,
    /// The value of the law.
    pub fitted: f64,
    /// Measurement minus law, on the scale of the fit (of their logarithms on the relative scale).
    pub residual: f64,
}

/// A law with its best-fitting parameters.
#[derive(Debug, Clone, Serialize)]
pub struct Fit {
    /// The law.
    pub law: Law,
    /// Its formula.
    pub formula: &'static str,
    /// The method of the fit.
    pub method: FitMethod,
    /// In the order of [`Law::parameters`].
    pub parameters: Vec<Parameter>,
    /// n.
    pub n_points: usize,
    /// Distinct sizes.
    pub n_sizes: usize,
    /// Distinct groups.
    pub n_groups: usize,
    /// S.
    pub loss: f64,
    /// The standard error of the residuals; none without degrees of freedom.
    pub standard_error: Option<f64>,
    /// The part of the variation that the law explains; none if nothing varies, below 0 if a constant is better.
    pub r_squared: Option<f64>,
    /// The corrected Akaike criterion; none when n - k - 1 <= 0.
    pub aicc: Option<f64>,
    /// Whether an exponent, scale or steepness lies at the end of its range, so that the points do not determine it.
    pub at_bound: bool,
    /// The pattern in the residuals, if any.
    pub structure: ResidualPattern,
    /// The residuals, by x, then by group.
    pub residuals: Vec<Residual>,
    #[serde(skip)]
    pub(super) basis: Basis,
    #[serde(skip)]
    pub(super) solution: Solution,
}

impl Fit {
    /// The values of the parameters, in the order of [`Law::parameters`].
    pub fn values(&self) -> Vec<f64> {
        self.parameters.iter().map(|p| p.value).collect()
    }

    /// The law at x.
    pub fn value(&self, x: f64) -> f64 {
        self.law.value(&self.values(), x)
    }
}

/// Fits a law to points.
///
/// ```
/// use byrote::fit::{FitMethod, Law, Points, fit};
///
/// let points = Points::of_lists(&[1.0, 2.0, 4.0, 8.0, 16.0], &[3.0, 6.0, 12.0, 24.0, 48.0])?;
/// let power = fit(&points, Law::Power, &FitMethod::default())?;
/// assert!((power.parameters[1].value - 1.0).abs() < 1e-9, "y = 3 x^1");
/// # Ok::<(), byrote::Error>(())
/// ```
///
/// # Errors
/// When a size is outside the law's domain, y is not above zero on the relative scale, Huber's tuning or scale is not above
/// zero, there are fewer sizes than parameters, or the points do not determine the law.
pub fn fit(points: &Points, law: Law, method: &FitMethod) -> Result<Fit> {
    check(points, law, method)?;
    let sizes = points.sizes();
    let (n, p) = (points.len(), law.n_parameters());
    if sizes.len() < p {
        let message = format!(
            "the law {law} has {p} parameters, but the points have only {} different sizes",
            sizes.len()
        );
        return Err(Error::setting("points", message));
    }
    let basis = Basis::new(law, &sizes);
    let data = data(points, &basis, method.scale);
    let problem = Problem { basis: &basis, data: &data, scale: method.scale };
    let undetermined = || {
        let message = format!("the {n} points do not determine the law {law}: {}", law.formula());
        Error::setting("points", message)
    };
    let solution = problem.solve(method.loss, N_STARTS, None).ok_or_else(undetermined)?;
    let residuals = problem.residuals(&solution).ok_or_else(undetermined)?;
    let values = basis.parameters(&solution.c, &solution.shape);
    if !values.iter().all(|v| v.is_finite()) {
        return Err(undetermined());
    }

    let delta = solution.delta;
    let loss = total_loss(&residuals, &data.w, delta);
    let least = n as f64 * (ROUNDING * data.magnitude()).powi(2);
    let constant = constant_loss(points, method, delta).ok_or_else(undetermined)?;
    let r_squared = (constant > least).then(|| 1.0 - loss / constant);
    let standard_error = (n > p).then(|| (loss / (n - p) as f64).sqrt());
    let errors = match (method.loss, standard_error) {
        (Loss::Squares, Some(s)) => standard_errors(points, law, &values, method.scale, &data.w, s),
        _ => None,
    };
    let named = law.parameters().iter().zip(&values).enumerate();
    let parameters = named
        .map(|(j, (&name, &value))| Parameter { name, value, standard_error: errors.as_ref().map(|e| e[j]) })
        .collect();

    let placed = placed(points, &residuals, &data.w);
    let range =
        data.z.iter().copied().fold(f64::MIN, f64::max) - data.z.iter().copied().fold(f64::MAX, f64::min);
    let structure = structure(&placed, p, range, method.loss != Loss::Squares);
    let residuals = points.as_slice().iter().zip(&residuals).zip(&data.z);
    let residuals = residuals
        .map(|((point, &residual), z)| {
            let fitted = method.scale.back(z - residual);
            Residual { x: point.x, group: point.group, y: point.y, fitted, residual }
        })
        .collect();
    Ok(Fit {
        law,
        formula: law.formula(),
        method: *method,
        parameters,
        n_points: n,
        n_sizes: sizes.len(),
        n_groups: points.groups().len(),
        loss,
        standard_error,
        r_squared,
        aicc: aicc(n, p, loss.max(least)),
        at_bound: basis.is_at_bound(&solution.shape),
        structure,
        residuals,
        basis,
        solution,
    })
}

/// The corrected Akaike criterion of n points, p parameters and the loss S.
fn aicc(n: usize, p: usize, loss: f64) -> Option<f64> {
    let k = p + 1;
    (n > k + 1).then(|| {
        let (n, k) = (n as f64, k as f64);
        n * libm::log(loss.max(f64::MIN_POSITIVE) / n) + 2.0 * k + 2.0 * k * (k + 1.0) / (n - k - 1.0)
    })
}

/// Residuals with their sizes and groups, in units of their standard deviation.
fn placed(points: &Points, residuals: &[f64], weights: &[f64]) -> Vec<Placed> {
    let all = points.as_slice().iter().zip(residuals.iter().zip(weights));
    all.map(|(point, (r, w))| Placed { x: point.x, group: point.group, residual: r * w.sqrt() }).collect()
}

/// Checks that a law and a method are defined for these points.
pub(super) fn check(points: &Points, law: Law, method: &FitMethod) -> Result<()> {
    let (from, _) = points.range();
    let outside = match law.domain() {
        Domain::All => None,
        Domain::NotNegative => (from < 0.0).then_some("of 0 and above"),
        Domain::Positive => (from <= 0.0).then_some("above 0"),
        Domain::AtLeastOne => (from < 1.0).then_some("of 1 and above"),
    };
    if let Some(allowed) = outside {
        return Err(Error::setting("x", format!("the law {law} requires sizes {allowed} (got {from})")));
    }
    if method.scale == ResidualScale::Relative
        && let Some(point) = points.as_slice().iter().find(|p| p.y <= 0.0)
    {
        let message = format!("relative errors need values above 0 (got {} at x = {})", point.y, point.x);
        return Err(Error::setting("y", message));
    }
    if let Loss::Huber { tuning, scale } = method.loss {
        let positive = |v: f64| v > 0.0 && v.is_finite();
        if !positive(tuning) || scale.is_some_and(|s| !positive(s)) {
            let message = format!("tuning {tuning} and scale {scale:?} must be above 0");
            return Err(Error::setting("Huber's loss", message));
        }
    }
    Ok(())
}

/// Points in the units of a basis.
pub(super) fn data(points: &Points, basis: &Basis, scale: ResidualScale) -> Data {
    let all = points.as_slice();
    let mean_log = all.iter().map(|p| libm::log(p.weight)).sum::<f64>() / all.len() as f64;
    let common = libm::exp(-mean_log);
    Data {
        u: all.iter().map(|p| p.x / basis.unit).collect(),
        z: all.iter().map(|p| scale.of(p.y)).collect(),
        w: all.iter().map(|p| p.weight * common).collect(),
    }
}

/// S.
fn total_loss(residuals: &[f64], weights: &[f64], delta: f64) -> f64 {
    let one = |(r, w): (&f64, &f64)| {
        let size = r.abs() * w.sqrt();
        if size <= delta { size * size } else { delta * (2.0 * size - delta) }
    };
    residuals.iter().zip(weights).map(one).sum()
}

/// S of the best constant, with a given delta.
fn constant_loss(points: &Points, method: &FitMethod, delta: f64) -> Option<f64> {
    let basis = Basis::new(Law::Constant, &points.sizes());
    // A constant on the scale of the fit: of the logarithms, on the relative one.
    let data = data(points, &basis, method.scale);
    let problem = Problem { basis: &basis, data: &data, scale: ResidualScale::Plain };
    let loss = match method.loss {
        Loss::Squares => Loss::Squares,
        Loss::Huber { tuning, .. } => Loss::Huber { tuning, scale: Some(delta / tuning) },
    };
    let solution = problem.solve(loss, 1, None)?;
    Some(total_loss(&problem.residuals(&solution)?, &data.w, delta))
}

/// Roots of the diagonal of s^2 (J^T W J)^-1.
fn standard_errors(
    points: &Points,
    law: Law,
    values: &[f64],
    scale: ResidualScale,
    weights: &[f64],
    s: f64,
) -> Option<Vec<f64>> {
    let (n, p) = (points.len(), values.len());
    let mut jacobian = vec![0.0; n * p];
    for (i, (point, w)) in points.as_slice().iter().zip(weights).enumerate() {
        let factor = match scale {
            ResidualScale::Plain => w.sqrt(),
            ResidualScale::Relative => w.sqrt() / law.value(values, point.x),
        };
        for (j, derivative) in law.gradient(values, point.x).into_iter().enumerate() {
            jacobian[j * n + i] = factor * derivative;
        }
    }
    let diagonal = qr::inverse_diagonal(&mut jacobian, n)?;
    Some(diagonal.into_iter().map(|v| s * v.sqrt()).collect())
}
