//! The form in which laws are solved: y = sum_j c_j phi_j(u; theta), with u = x / unit.
//!
//! Linear least squares gives the coefficients c once the shape theta (at most two numbers) is known. Sizes are divided by a
//! typical size and scales are represented by their logarithm, so that steps in all directions are of order one.
//!
//! | law | phi | theta |
//! |---|---|---|
//! | polynomials | powers of u | |
//! | root-log | 1, sqrt(u ln x) | |
//! | power | u^p | p |
//! | power-offset | 1, (u^p - 1) / p | p; at p = 0 the second is ln u |
//! | broken-line | 1, u, max(0, u - k) | k |
//! | saturating-exponential | 1 - exp(-u / e^t) | t |
//! | hyperbola | u / (e^t + u) | t |
//! | logistic | 1 / (1 + exp(-s (ln u - t))) | t, s |
//! | decay | 1, exp(-(u - least u) / e^t) | t |

use super::law::{Law, MOST_PARAMETERS};

/// The most shape parameters.
pub(super) const MOST_SHAPES: usize = 2;
/// Exponents stay within this of 0.
const LARGEST_EXPONENT: f64 = 8.0;
/// The steepness of a logistic law stays within this of 0.
const LARGEST_STEEPNESS: f64 = 30.0;
/// The factor by which scales may lie outside the sizes measured.
const BEYOND: f64 = 10.0;
/// An exponent beside an offset stays at least this far from 0, where the law becomes a logarithm and a and b diverge.
const LEAST_EXPONENT: f64 = 1e-3;

pub(super) type LawShape = [f64; MOST_SHAPES];

/// A law with the range of its shape on given sizes.
#[derive(Debug, Clone)]
pub(super) struct Basis {
    pub law: Law,
    /// x of u = 1.
    pub unit: f64,
    /// The least u.
    least: f64,
    /// Distinct u, increasing.
    sizes: Vec<f64>,
    /// From and to, of each shape parameter.
    pub bounds: [(f64, f64); MOST_SHAPES],
}

impl Basis {
    /// The basis for distinct, increasing sizes in the law's domain.
    pub fn new(law: Law, sizes: &[f64]) -> Self {
        let (from, to) = (sizes[0], sizes[sizes.len() - 1]);
        let unit = match law {
            Law::Power | Law::PowerOffset | Law::Logarithmic | Law::Logistic | Law::LogisticFloor => {
                (from * to).sqrt()
            }
            _ => from.abs().max(to.abs()),
        };
        let unit = if unit > 0.0 { unit } else { 1.0 };
        let sizes: Vec<f64> = sizes.iter().map(|x| x / unit).collect();
        let (least, most) = (from / unit, to / unit);
        let positive = sizes.iter().copied().find(|&u| u > 0.0).unwrap_or(1.0);
        let logs = |from: f64, to: f64| (libm::log(from), libm::log(to));
        let none = (0.0, 0.0);
        let exponent = (-LARGEST_EXPONENT, LARGEST_EXPONENT);
        let bounds = match law {
            Law::Power | Law::PowerOffset => [exponent, none],
            Law::BrokenLine if sizes.len() > 2 => [(sizes[1], sizes[sizes.len() - 2]), none],
            Law::SaturatingExponential | Law::Hyperbola => [logs(positive / BEYOND, most * BEYOND), none],
            Law::Logistic | Law::LogisticFloor => {
                [logs(positive / BEYOND, most * BEYOND), (-LARGEST_STEEPNESS, LARGEST_STEEPNESS)]
            }
            // The second bound keeps b, the value at x = 0, finite.
            Law::Decay if most > least => {
                [logs(((most - least) / 50.0).max(least / 50.0), (most - least) * BEYOND), none]
            }
            _ => [none, none],
        };
        Self { law, unit, least, sizes, bounds }
    }

    /// The number of coefficients.
    pub fn n_linear(&self) -> usize {
        self.law.n_parameters() - self.n_shape()
    }

    /// The number of shape parameters.
    pub fn n_shape(&self) -> usize {
        match self.law {
            Law::Power | Law::PowerOffset | Law::BrokenLine => 1,
            Law::SaturatingExponential | Law::Hyperbola | Law::Decay => 1,
            Law::Logistic | Law::LogisticFloor => 2,
            _ => 0,
        }
    }

    /// phi at u, and the derivatives of its last entry, the only one that depends on theta.
    pub fn at(&self, shape: &LawShape, u: f64) -> ([f64; MOST_PARAMETERS], LawShape) {
        let t = shape[0];
        match self.law {
            Law::Constant => ([1.0, 0.0, 0.0, 0.0], [0.0; 2]),
            Law::Proportional => ([u, 0.0, 0.0, 0.0], [0.0; 2]),
            Law::Linear => ([1.0, u, 0.0, 0.0], [0.0; 2]),
            Law::QuadraticFromZero => ([u, u * u, 0.0, 0.0], [0.0; 2]),
            Law::Quadratic => ([1.0, u, u * u, 0.0], [0.0; 2]),
            Law::CubicFromZero => ([u, u * u, u * u * u, 0.0], [0.0; 2]),
            Law::Cubic => ([1.0, u, u * u, u * u * u], [0.0; 2]),
            Law::Square => ([1.0, u * u, 0.0, 0.0], [0.0; 2]),
            Law::Cube => ([1.0, u * u * u, 0.0, 0.0], [0.0; 2]),
            Law::Logarithmic => ([1.0, libm::log(u), 0.0, 0.0], [0.0; 2]),
            Law::RootLog => ([1.0, (u * libm::log(u * self.unit).max(0.0)).sqrt(), 0.0, 0.0], [0.0; 2]),
            Law::Power => {
                let ln = libm::log(u);
                let q = libm::exp(t * ln);
                ([q, 0.0, 0.0, 0.0], [q * ln, 0.0])
            }
            Law::PowerOffset => {
                let ln = libm::log(u);
                let v = t * ln;
                let (phi, slope) = if v.abs() < 1e-4 {
                    // Two terms more than the tolerance needs.
                    let series = 0.5 + v * (1.0 / 3.0 + v * (0.125 + v / 30.0));
                    (ln * (1.0 + v * (0.5 + v * (1.0 / 6.0 + v / 24.0))), ln * ln * series)
                } else {
                    let e = libm::expm1(v);
                    (e / t, (v * (e + 1.0) - e) / (t * t))
                };
                ([1.0, phi, 0.0, 0.0], [slope, 0.0])
            }
            Law::BrokenLine => {
                let slope = if u > t { -1.0 } else { 0.0 };
                ([1.0, u, (u - t).max(0.0), 0.0], [slope, 0.0])
            }
            Law::SaturatingExponential => {
                let v = u * libm::exp(-t);
                ([-libm::expm1(-v), 0.0, 0.0, 0.0], [-v * libm::exp(-v), 0.0])
            }
            Law::Hyperbola => {
                let b = libm::exp(t);
                let r = u / (b + u);
                ([r, 0.0, 0.0, 0.0], [-r * b / (b + u), 0.0])
            }
            Law::Logistic | Law::LogisticFloor => {
                let (s, away) = (shape[1], libm::log(u) - t);
                let r = 1.0 / (1.0 + libm::exp(-s * away));
                let slope = r * (1.0 - r);
                let derivatives = [-s * slope, away * slope];
                match self.law {
                    Law::Logistic => ([r, 0.0, 0.0, 0.0], derivatives),
                    _ => ([1.0, r, 0.0, 0.0], derivatives),
                }
            }
            Law::Decay => {
                let v = (u - self.least) * libm::exp(-t);
                let e = libm::exp(-v);
                ([1.0, e, 0.0, 0.0], [v * e, 0.0])
            }
        }
    }

    /// Starting shapes, in lines along the first shape parameter.
    pub fn starts(&self) -> Vec<Vec<LawShape>> {
        let along = |(from, to): (f64, f64), n: u32| {
            (0..n).map(move |i| from + (to - from) * f64::from(i) / f64::from(n - 1))
        };
        let line = |values: Vec<f64>, s: f64| values.into_iter().map(|t| [t, s]).collect::<Vec<LawShape>>();
        match self.law {
            Law::Power | Law::PowerOffset => vec![line(along((-4.0, 4.0), 33).collect(), 0.0)],
            Law::BrokenLine if self.sizes.len() > 2 => {
                let inner = &self.sizes[1..self.sizes.len() - 1];
                let between = inner.windows(2).flat_map(|w| {
                    [0.25, 0.5, 0.75].map(|f| w[0] + f * (w[1] - w[0])).into_iter().chain([w[1]])
                });
                vec![line(inner[..1].iter().copied().chain(between).collect(), 0.0)]
            }
            Law::SaturatingExponential | Law::Hyperbola | Law::Decay => {
                vec![line(along(self.bounds[0], 30).collect(), 0.0)]
            }
            Law::Logistic | Law::LogisticFloor => {
                let steep = [0.5, 1.0, 2.0, 4.0, 9.0, 18.0];
                // With a floor, falling is rising by a negative amount.
                let falling = steep.map(|s| if self.law == Law::Logistic { -s } else { s });
                let all = steep.into_iter().chain(falling.into_iter().filter(|s| *s < 0.0));
                all.map(|s| line(along(self.bounds[0], 16).collect(), s)).collect()
            }
            _ => vec![vec![[0.0; 2]]],
        }
    }

    /// The nearest shape with finite parameters: beside an offset, the exponent must not be 0.
    pub fn admissible(&self, shape: LawShape) -> LawShape {
        if self.law == Law::PowerOffset && shape[0].abs() < LEAST_EXPONENT {
            return [LEAST_EXPONENT.copysign(shape[0]), 0.0];
        }
        shape
    }

    /// Whether the shape lies at an end of its range, so that the points do not determine it.
    pub fn is_at_bound(&self, shape: &LawShape) -> bool {
        let degenerate = self.law == Law::PowerOffset && shape[0].abs() <= LEAST_EXPONENT;
        let at_end = |(&t, &(from, to)): (&f64, &(f64, f64))| {
            let margin = 1e-6 * (to - from);
            t <= from + margin || t >= to - margin
        };
        // A knee at the second size or the last but one is determined by the points beyond it.
        let ends =
            self.law != Law::BrokenLine && shape[..self.n_shape()].iter().zip(&self.bounds).any(at_end);
        degenerate || ends
    }

    /// The parameters of the law, in x.
    pub fn parameters(&self, c: &[f64], shape: &LawShape) -> Vec<f64> {
        let (c, unit, t) = (&c[..self.n_linear()], self.unit, shape[0]);
        let powers = |from: i32| c.iter().zip(from..).map(|(c, j)| c / unit.powi(j)).collect();
        match self.law {
            Law::Constant | Law::Linear | Law::Quadratic | Law::Cubic => powers(0),
            Law::Proportional | Law::QuadraticFromZero | Law::CubicFromZero => powers(1),
            Law::Square => vec![c[0], c[1] / (unit * unit)],
            Law::Cube => vec![c[0], c[1] / (unit * unit * unit)],
            Law::Logarithmic => vec![c[0] - c[1] * libm::log(unit), c[1]],
            Law::RootLog => vec![c[0], c[1] / unit.sqrt()],
            Law::Power => vec![c[0] * libm::pow(unit, -t), t],
            Law::PowerOffset => vec![c[0] - c[1] / t, c[1] / t * libm::pow(unit, -t), t],
            Law::BrokenLine => vec![c[0], c[1] / unit, (c[1] + c[2]) / unit, t * unit],
            Law::SaturatingExponential | Law::Hyperbola => vec![c[0], unit * libm::exp(t)],
            Law::Logistic => vec![c[0], unit * libm::exp(t), shape[1]],
            Law::LogisticFloor => {
                // a + b r = (a + b) - b (1 - r), and 1 - r is r with -s: one curve, written with s > 0.
                let (a, b, s) = (c[0], c[1], shape[1]);
                let (a, b) = if s < 0.0 { (a + b, -b) } else { (a, b) };
                vec![a, b, unit * libm::exp(t), s.abs()]
            }
            Law::Decay => vec![c[0], c[1] * libm::exp(self.least * libm::exp(-t)), unit * libm::exp(t)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [f64; 6] = [3.0, 40.0, 100.0, 700.0, 1500.0, 2000.0];

    fn shapes(law: Law) -> Vec<LawShape> {
        let basis = Basis::new(law, &SIZES);
        let (from, to) = basis.bounds[0];
        let t = from + 0.4 * (to - from);
        [[t, 1.7], [t, -0.4]].into_iter().collect()
    }

    #[test]
    fn both_forms_of_a_law_are_the_same_curve() {
        for law in Law::ALL {
            let basis = Basis::new(law, &SIZES);
            for shape in shapes(law) {
                let c = &[0.8, -1.5, 2.5, 0.6][..basis.n_linear()];
                let parameters = basis.parameters(c, &shape);
                for x in SIZES {
                    let (phi, _) = basis.at(&shape, x / basis.unit);
                    let here: f64 = c.iter().zip(&phi).map(|(c, phi)| c * phi).sum();
                    let there = law.value(&parameters, x);
                    assert!((here - there).abs() <= 1e-9 * (1.0 + here.abs()), "{law} {x}: {here} {there}");
                }
            }
        }
    }

    #[test]
    fn derivatives_by_the_shape_agree_with_central_differences() {
        for law in Law::ALL {
            let basis = Basis::new(law, &SIZES);
            let last = basis.n_linear() - 1;
            for shape in shapes(law).into_iter().chain([[1e-7, 1.0]]) {
                for u in SIZES.map(|x| x / basis.unit) {
                    let (_, derivatives) = basis.at(&shape, u);
                    for j in 0..basis.n_shape() {
                        let h = 1e-5;
                        let moved = |by: f64| {
                            let mut shape = shape;
                            shape[j] += by;
                            basis.at(&shape, u).0[last]
                        };
                        let numeric = (moved(h) - moved(-h)) / (2.0 * h);
                        let error = (numeric - derivatives[j]).abs();
                        assert!(error <= 1e-6 * (1.0 + numeric.abs()), "{law} {j} at {u}");
                    }
                }
            }
        }
    }

    #[test]
    fn starts_lie_within_the_bounds() {
        for law in Law::ALL {
            let basis = Basis::new(law, &SIZES);
            for shape in basis.starts().into_iter().flatten() {
                for j in 0..basis.n_shape() {
                    let (from, to) = basis.bounds[j];
                    assert!((from..=to).contains(&shape[j]), "{law} {shape:?}");
                }
            }
        }
    }
}
