//! The laws: curves y = f(x) with a few parameters, as data.
//!
//! x is a size (heads, parameters, contexts), y a measurement. Every law is linear in all but at most two of its parameters,
//! the *shape* parameters (an exponent, a knee, a scale). `basis` holds that form, this file the one that readers see.
//!
//! | law | formula | parameters |
//! |---|---|---|
//! | constant | a | 1 |
//! | proportional, linear | b x, a + b x | 1, 2 |
//! | quadratic-from-zero, quadratic | b x + c x^2, a + b x + c x^2 | 2, 3 |
//! | cubic-from-zero, cubic | b x + c x^2 + d x^3, and with a | 3, 4 |
//! | square, cube | a + b x^2, a + b x^3 | 2, 2 |
//! | power, power-offset | b x^p, a + b x^p | 2, 3 |
//! | logarithmic | a + b ln x | 2 |
//! | root-log | a + b sqrt(x ln x) | 2 |
//! | broken-line | a + b x up to the knee k, slope c after it | 4 |
//! | saturating-exponential | a (1 - exp(-x / b)) | 2 |
//! | hyperbola | a x / (b + x) | 2 |
//! | logistic, logistic-floor | b / (1 + (c / x)^s), and with a | 3, 4 |
//! | decay | a + b exp(-x / c) | 3 |

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The most parameters that a law has.
pub const MOST_PARAMETERS: usize = 4;

/// A family of curves. Its name in JSON is [`Law::name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Law {
    /// y = a.
    Constant,
    /// y = b x.
    Proportional,
    /// y = a + b x.
    Linear,
    /// y = b x + c x^2.
    QuadraticFromZero,
    /// y = a + b x + c x^2.
    Quadratic,
    /// y = b x + c x^2 + d x^3.
    CubicFromZero,
    /// y = a + b x + c x^2 + d x^3.
    Cubic,
    /// y = a + b x^2.
    Square,
    /// y = a + b x^3.
    Cube,
    /// y = b x^p.
    Power,
    /// y = a + b x^p.
    PowerOffset,
    /// y = a + b ln x.
    Logarithmic,
    /// y = a + b sqrt(x ln x): what memorizing x facts costs a network of long weights, with a constant overhead.
    RootLog,
    /// y = a + b x up to x = k, with the slope c from there on.
    BrokenLine,
    /// y = a (1 - exp(-x / b)).
    SaturatingExponential,
    /// y = a x / (b + x).
    Hyperbola,
    /// y = b / (1 + (c / x)^s).
    Logistic,
    /// y = a + b / (1 + (c / x)^s).
    LogisticFloor,
    /// y = a + b exp(-x / c).
    Decay,
}

/// The sizes for which a law is defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Domain {
    /// All numbers.
    All,
    /// Zero and above.
    NotNegative,
    /// Above zero: the law takes the logarithm of x.
    Positive,
    /// One and above: the law takes the root of the logarithm of x.
    AtLeastOne,
}

impl Law {
    /// All laws, the simplest first.
    pub const ALL: [Law; 19] = [
        Law::Constant,
        Law::Proportional,
        Law::Linear,
        Law::QuadraticFromZero,
        Law::Quadratic,
        Law::CubicFromZero,
        Law::Cubic,
        Law::Square,
        Law::Cube,
        Law::Power,
        Law::PowerOffset,
        Law::Logarithmic,
        Law::RootLog,
        Law::BrokenLine,
        Law::SaturatingExponential,
        Law::Hyperbola,
        Law::Logistic,
        Law::LogisticFloor,
        Law::Decay,
    ];

    /// The name in files and options.
    pub const fn name(self) -> &'static str {
        match self {
            Law::Constant => "constant",
            Law::Proportional => "proportional",
            Law::Linear => "linear",
            Law::QuadraticFromZero => "quadratic-from-zero",
            Law::Quadratic => "quadratic",
            Law::CubicFromZero => "cubic-from-zero",
            Law::Cubic => "cubic",
            Law::Square => "square",
            Law::Cube => "cube",
            Law::Power => "power",
            Law::PowerOffset => "power-offset",
            Law::Logarithmic => "logarithmic",
            Law::RootLog => "root-log",
            Law::BrokenLine => "broken-line",
            Law::SaturatingExponential => "saturating-exponential",
            Law::Hyperbola => "hyperbola",
            Law::Logistic => "logistic",
            Law::LogisticFloor => "logistic-floor",
            Law::Decay => "decay",
        }
    }

    /// The formula, with the names of [`Law::parameters`].
    pub const fn formula(self) -> &'static str {
        match self {
            Law::Constant => "y = a",
            Law::Proportional => "y = b x",
            Law::Linear => "y = a + b x",
            Law::QuadraticFromZero => "y = b x + c x^2",
            Law::Quadratic => "y = a + b x + c x^2",
            Law::CubicFromZero => "y = b x + c x^2 + d x^3",
            Law::Cubic => "y = a + b x + c x^2 + d x^3",
            Law::Square => "y = a + b x^2",
            Law::Cube => "y = a + b x^3",
            Law::Power => "y = b x^p",
            Law::PowerOffset => "y = a + b x^p",
            Law::Logarithmic => "y = a + b ln x",
            Law::RootLog => "y = a + b sqrt(x ln x)",
            Law::BrokenLine => "y = a + b x for x <= k, y = a + b k + c (x - k) for x > k",
            Law::SaturatingExponential => "y = a (1 - exp(-x / b))",
            Law::Hyperbola => "y = a x / (b + x)",
            Law::Logistic => "y = b / (1 + (c / x)^s)",
            Law::LogisticFloor => "y = a + b / (1 + (c / x)^s)",
            Law::Decay => "y = a + b exp(-x / c)",
        }
    }

    /// The names of the parameters, in the order of every list of values.
    pub const fn parameters(self) -> &'static [&'static str] {
        match self {
            Law::Constant => &["a"],
            Law::Proportional => &["b"],
            Law::Linear | Law::Square | Law::Cube | Law::Logarithmic | Law::RootLog => &["a", "b"],
            Law::QuadraticFromZero => &["b", "c"],
            Law::Quadratic => &["a", "b", "c"],
            Law::CubicFromZero => &["b", "c", "d"],
            Law::Cubic => &["a", "b", "c", "d"],
            Law::Power => &["b", "p"],
            Law::PowerOffset => &["a", "b", "p"],
            Law::BrokenLine => &["a", "b", "c", "k"],
            Law::SaturatingExponential | Law::Hyperbola => &["a", "b"],
            Law::Logistic => &["b", "c", "s"],
            Law::LogisticFloor => &["a", "b", "c", "s"],
            Law::Decay => &["a", "b", "c"],
        }
    }

    /// The number of parameters.
    pub const fn n_parameters(self) -> usize {
        self.parameters().len()
    }

    /// The index of the exponent among the parameters.
    pub fn exponent(self) -> Option<usize> {
        matches!(self, Law::Power | Law::PowerOffset).then(|| self.n_parameters() - 1)
    }

    /// The sizes for which it is defined.
    pub const fn domain(self) -> Domain {
        match self {
            Law::Power | Law::PowerOffset | Law::Logarithmic | Law::Logistic | Law::LogisticFloor => {
                Domain::Positive
            }
            Law::RootLog => Domain::AtLeastOne,
            Law::SaturatingExponential | Law::Hyperbola | Law::Decay => Domain::NotNegative,
            _ => Domain::All,
        }
    }

    /// y at x.
    ///
    /// # Panics
    /// If the length of `parameters` is not [`n_parameters`](Self::n_parameters).
    pub fn value(self, parameters: &[f64], x: f64) -> f64 {
        let n = self.n_parameters();
        assert!(parameters.len() == n, "{} values for the {n} parameters of {self}", parameters.len());
        match (self, parameters) {
            (Law::Constant, &[a]) => a,
            (Law::Proportional, &[b]) => b * x,
            (Law::Linear, &[a, b]) => a + b * x,
            (Law::QuadraticFromZero, &[b, c]) => x * (b + x * c),
            (Law::Quadratic, &[a, b, c]) => a + x * (b + x * c),
            (Law::CubicFromZero, &[b, c, d]) => x * (b + x * (c + x * d)),
            (Law::Cubic, &[a, b, c, d]) => a + x * (b + x * (c + x * d)),
            (Law::Square, &[a, b]) => a + b * x * x,
            (Law::Cube, &[a, b]) => a + b * x * x * x,
            (Law::Power, &[b, p]) => b * libm::pow(x, p),
            (Law::PowerOffset, &[a, b, p]) => a + b * libm::pow(x, p),
            (Law::Logarithmic, &[a, b]) => a + b * libm::log(x),
            (Law::RootLog, &[a, b]) => a + b * (x * libm::log(x)).sqrt(),
            (Law::BrokenLine, &[a, b, c, k]) => a + b * x.min(k) + c * (x - k).max(0.0),
            (Law::SaturatingExponential, &[a, b]) => -a * libm::expm1(-x / b),
            (Law::Hyperbola, &[a, b]) => a * x / (b + x),
            (Law::Logistic, &[b, c, s]) => b * rise(c, s, x),
            (Law::LogisticFloor, &[a, b, c, s]) => a + b * rise(c, s, x),
            (Law::Decay, &[a, b, c]) => a + b * libm::exp(-x / c),
            _ => unreachable!("the number of values is checked above"),
        }
    }

    /// The derivatives of y at x with respect to each parameter; at the knee of a broken line those from the left.
    ///
    /// # Panics
    /// If the length of `parameters` is not [`n_parameters`](Self::n_parameters).
    pub fn gradient(self, parameters: &[f64], x: f64) -> Vec<f64> {
        let n = self.n_parameters();
        assert!(parameters.len() == n, "{} values for the {n} parameters of {self}", parameters.len());
        let logistic = |b: f64, c: f64, s: f64| {
            let r = rise(c, s, x);
            let slope = b * r * (1.0 - r);
            vec![r, -slope * s / c, slope * (libm::log(x) - libm::log(c))]
        };
        let power = |b: f64, p: f64| {
            let q = libm::pow(x, p);
            vec![q, b * q * libm::log(x)]
        };
        let after = |mut rest: Vec<f64>| {
            rest.insert(0, 1.0);
            rest
        };
        match (self, parameters) {
            (Law::Constant, _) => vec![1.0],
            (Law::Proportional, _) => vec![x],
            (Law::Linear, _) => vec![1.0, x],
            (Law::QuadraticFromZero, _) => vec![x, x * x],
            (Law::Quadratic, _) => vec![1.0, x, x * x],
            (Law::CubicFromZero, _) => vec![x, x * x, x * x * x],
            (Law::Cubic, _) => vec![1.0, x, x * x, x * x * x],
            (Law::Square, _) => vec![1.0, x * x],
            (Law::Cube, _) => vec![1.0, x * x * x],
            (Law::Power, &[b, p]) => power(b, p),
            (Law::PowerOffset, &[_, b, p]) => after(power(b, p)),
            (Law::Logarithmic, _) => vec![1.0, libm::log(x)],
            (Law::RootLog, _) => vec![1.0, (x * libm::log(x)).sqrt()],
            (Law::BrokenLine, &[_, b, c, k]) => {
                vec![1.0, x.min(k), (x - k).max(0.0), if x > k { b - c } else { 0.0 }]
            }
            (Law::SaturatingExponential, &[a, b]) => {
                vec![-libm::expm1(-x / b), -a * x / (b * b) * libm::exp(-x / b)]
            }
            (Law::Hyperbola, &[a, b]) => vec![x / (b + x), -a * x / ((b + x) * (b + x))],
            (Law::Logistic, &[b, c, s]) => logistic(b, c, s),
            (Law::LogisticFloor, &[_, b, c, s]) => after(logistic(b, c, s)),
            (Law::Decay, &[_, b, c]) => {
                let e = libm::exp(-x / c);
                vec![1.0, e, b * e * x / (c * c)]
            }
            _ => unreachable!("the number of values is checked above"),
        }
    }

    /// Whether `other` is a proper special or limiting case of this law.
    ///
    /// If both describe the points equally well, the special case is the finding.
    pub fn contains(self, other: Law) -> bool {
        use Law::*;
        let special: &[Law] = match self {
            Constant | Proportional => &[],
            Linear | Square | Cube | Logarithmic | RootLog => match self {
                Linear => &[Constant, Proportional],
                _ => &[Constant],
            },
            QuadraticFromZero => &[Proportional],
            Quadratic => &[Constant, Proportional, Linear, QuadraticFromZero, Square],
            CubicFromZero => &[Proportional, QuadraticFromZero],
            Cubic => {
                &[Constant, Proportional, Linear, QuadraticFromZero, Quadratic, CubicFromZero, Square, Cube]
            }
            Power => &[Constant, Proportional],
            // The logarithm is the limit p -> 0.
            PowerOffset => &[Constant, Proportional, Linear, Square, Cube, Power, Logarithmic],
            BrokenLine => &[Constant, Proportional, Linear],
            // The straight line through 0 is the limit of a large scale, the constant that of a small one.
            SaturatingExponential | Hyperbola => &[Constant, Proportional],
            // Far below the midpoint it is a power.
            Logistic => &[Constant, Proportional, Hyperbola, Power],
            LogisticFloor => &[
                Constant,
                Proportional,
                Linear,
                Square,
                Cube,
                Power,
                PowerOffset,
                Logarithmic,
                Hyperbola,
                Logistic,
            ],
            Decay => &[Constant, Proportional, Linear, SaturatingExponential],
        };
        special.contains(&other)
    }
}

/// 1 / (1 + (c / x)^s), from 0 to 1 as x grows when s > 0.
fn rise(c: f64, s: f64, x: f64) -> f64 {
    1.0 / (1.0 + libm::pow(c / x, s))
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Law {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Law::ALL.into_iter().find(|law| law.name() == text).ok_or_else(|| {
            let names = Law::ALL.map(Law::name).join(", ");
            Error::setting("law", format!("{text:?} is not one of {names}"))
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Parameters of every law that show its shape between x = 1 and x = 20.
    pub(crate) fn example(law: Law) -> Vec<f64> {
        match law {
            Law::Constant => vec![3.0],
            Law::Proportional => vec![0.7],
            Law::Linear => vec![2.0, -0.3],
            Law::QuadraticFromZero => vec![1.5, -0.04],
            Law::Quadratic => vec![1.0, -2.0, 0.25],
            Law::CubicFromZero => vec![1.0, 0.3, -0.02],
            Law::Cubic => vec![-4.0, 1.0, 0.3, -0.02],
            Law::Square => vec![0.1, 0.002],
            Law::Cube => vec![5.0, -0.001],
            Law::Power => vec![3.0, -0.6],
            Law::PowerOffset => vec![1.0, 2.0, 0.5],
            Law::Logarithmic => vec![-1.0, 0.8],
            Law::RootLog => vec![2.0, 0.6],
            Law::BrokenLine => vec![1.0, 2.0, 0.25, 7.5],
            Law::SaturatingExponential => vec![0.95, 4.0],
            Law::Hyperbola => vec![2.0, 6.0],
            Law::Logistic => vec![1.0, 5.0, 2.5],
            Law::LogisticFloor => vec![0.2, 0.75, 6.0, 3.0],
            Law::Decay => vec![0.3, 4.0, 3.0],
        }
    }

    #[test]
    fn names_parse_and_are_those_of_json() {
        for law in Law::ALL {
            assert_eq!(law.name().parse::<Law>().unwrap(), law);
            assert_eq!(serde_json::to_value(law).unwrap(), law.name());
            assert!(law.n_parameters() <= MOST_PARAMETERS);
            assert!(law.parameters().iter().all(|name| law.formula().contains(name)), "{law}");
        }
        let message = "qubic".parse::<Law>().unwrap_err().to_string();
        assert!(message.contains("\"qubic\" is not one of constant,"), "{message}");
    }

    #[test]
    fn derivatives_agree_with_central_differences() {
        for law in Law::ALL {
            let at = example(law);
            for x in [1.0, 3.0, 8.0, 20.0] {
                for (j, derivative) in law.gradient(&at, x).into_iter().enumerate() {
                    let h = 1e-5 * at[j].abs();
                    let moved = |by: f64| {
                        let mut p = at.clone();
                        p[j] += by;
                        law.value(&p, x)
                    };
                    let numeric = (moved(h) - moved(-h)) / (2.0 * h);
                    assert!((derivative - numeric).abs() <= 1e-7 * (1.0 + numeric.abs()), "{law} {j} at {x}");
                }
            }
        }
    }

    #[test]
    fn values_worked_out_by_hand() {
        let at = |law: Law, parameters: &[f64], x| law.value(parameters, x);
        assert_eq!(at(Law::BrokenLine, &[1.0, 2.0, 0.5, 3.0], 3.0), 7.0);
        assert_eq!(at(Law::BrokenLine, &[1.0, 2.0, 0.5, 3.0], 5.0), 8.0);
        assert_eq!(at(Law::Hyperbola, &[2.0, 6.0], 6.0), 1.0);
        assert_eq!(at(Law::LogisticFloor, &[0.5, 1.0, 8.0, 3.0], 8.0), 1.0);
        assert_eq!(at(Law::Logistic, &[1.0, 8.0, 2.0], 4.0), 0.2);
        assert_eq!(at(Law::PowerOffset, &[1.0, 2.0, 0.5], 9.0), 7.0);
        assert_eq!(at(Law::SaturatingExponential, &[3.0, 2.0], 0.0), 0.0);
    }

    #[test]
    fn a_special_case_is_smaller_or_a_limit_and_never_the_other_way_round() {
        for law in Law::ALL {
            assert!(!law.contains(law));
            for other in Law::ALL {
                assert!(!(law.contains(other) && other.contains(law)), "{law} {other}");
                if law.contains(other) {
                    assert!(other.n_parameters() <= law.n_parameters(), "{law} {other}");
                }
                for third in Law::ALL {
                    if law.contains(other) && other.contains(third) {
                        assert!(law.contains(third), "{law} contains {other} contains {third}");
                    }
                }
            }
        }
    }
}
