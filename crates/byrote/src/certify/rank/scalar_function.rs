//! The functions psi: polynomials, the activations, exp and cos.
//!
//! What a function does to opposite arguments bounds the rank from above, whatever a is. Write the column of b as the function
//! a -> psi(a b):
//!
//! | symmetry | functions | columns of b and -b |
//! |---|---|---|
//! | odd | tanh, arctan, erf | opposite |
//! | even | cos | equal |
//! | odd but for a constant | logistic | sum to the constant 1 |
//! | even but for a linear part | GELU, its approximation by tanh | differ by the linear function a b |
//! | none | exp | independent |

use crate::model::Activation;
use crate::num::precise::{Dyadic, IBig, Precise};
use crate::setting::nearest;
use crate::{Error, Result};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A function of one variable.
#[derive(Debug, Clone, PartialEq)]
pub enum ScalarFunction {
    /// A polynomial, by its coefficients from the constant term up.
    Polynomial(Vec<f64>),
    /// An activation.
    Activation(Activation),
    /// e^x.
    Exp,
    /// cos x.
    Cos,
}

/// What a function does to opposite arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symmetry {
    /// psi(-x) = -psi(x).
    Odd,
    /// psi(-x) = psi(x).
    Even,
    /// Odd after a constant is taken away.
    OddAndConstant,
    /// Even after a linear function is taken away, and 0 at 0.
    EvenAndLinear,
    /// None that is used here.
    None,
}

/// The highest degree of a polynomial.
const MOST_DEGREE: usize = 512;

impl ScalarFunction {
    /// The name, or the polynomial written out.
    pub fn name(&self) -> String {
        match self {
            ScalarFunction::Activation(activation) => activation.name().into(),
            ScalarFunction::Exp => "exp".into(),
            ScalarFunction::Cos => "cos".into(),
            ScalarFunction::Polynomial(c) => {
                let term = |k: usize, c: f64| match (k, c) {
                    (0, c) => format!("{c}"),
                    (1, 1.0) => "x".into(),
                    (1, c) => format!("{c} x"),
                    (k, 1.0) => format!("x^{k}"),
                    (k, c) => format!("{c} x^{k}"),
                };
                let terms: Vec<String> =
                    c.iter().enumerate().filter(|(_, c)| **c != 0.0).map(|(k, &c)| term(k, c)).collect();
                if terms.is_empty() { "0".into() } else { terms.join(" + ").replace("+ -", "- ") }
            }
        }
    }

    /// The exponents with a coefficient that is not 0, for a polynomial.
    pub fn exponents(&self) -> Option<Vec<u32>> {
        match self {
            ScalarFunction::Polynomial(c) => {
                Some((0u32..).zip(c).filter(|(_, c)| **c != 0.0).map(|(k, _)| k).collect())
            }
            _ => None,
        }
    }

    /// Whether values at products of f64 are exact numbers: polynomials and ReLU.
    pub fn is_exact(&self) -> bool {
        matches!(self, ScalarFunction::Polynomial(_) | ScalarFunction::Activation(Activation::Relu))
    }

    pub(super) fn check(&self) -> Result<()> {
        let ScalarFunction::Polynomial(c) = self else { return Ok(()) };
        if let Some(c) = c.iter().find(|c| !c.is_finite()) {
            return Err(Error::setting("polynomial", format!("{c} is not finite")));
        }
        if c.is_empty() || c.len() > MOST_DEGREE + 1 {
            let message = format!("must have from 1 to {} coefficients (got {})", MOST_DEGREE + 1, c.len());
            return Err(Error::setting("polynomial", message));
        }
        Ok(())
    }

    /// What it does to opposite arguments.
    pub fn symmetry(&self) -> Symmetry {
        use Activation::{Arctan, Erf, Gelu, GeluTanh, Logistic, Relu, Silu, Tanh};
        match self {
            ScalarFunction::Activation(Tanh | Arctan | Erf) => Symmetry::Odd,
            ScalarFunction::Activation(Logistic) => Symmetry::OddAndConstant,
            ScalarFunction::Activation(Gelu | GeluTanh | Relu | Silu) => Symmetry::EvenAndLinear,
            ScalarFunction::Cos => Symmetry::Even,
            ScalarFunction::Exp | ScalarFunction::Polynomial(_) => Symmetry::None,
        }
    }

    /// psi(x) in units of 2^-bits, within one of them. Not for polynomials.
    pub(super) fn precise(&self, precise: &Precise, x: &Dyadic) -> IBig {
        match self {
            ScalarFunction::Exp => precise.exp(x),
            ScalarFunction::Cos => precise.cos(x),
            ScalarFunction::Activation(activation) => activation.precise(precise, x),
            ScalarFunction::Polynomial(_) => unreachable!("polynomials are evaluated exactly, by residues"),
        }
    }
}

/// What matters of a list of numbers: how many are different, and which of them are opposite, zero or repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Signs {
    /// Different numbers.
    pub distinct: usize,
    /// Different absolute values other than 0.
    pub sizes: usize,
    /// Absolute values that occur with both signs.
    pub pairs: usize,
    /// Whether 0 occurs.
    pub zero: bool,
    /// Whether a number occurs twice.
    pub repeated: bool,
}

impl Signs {
    pub(super) fn of(values: &[f64]) -> Self {
        // For each absolute value how often it occurs with a minus and without. -0 is 0.
        let mut found: BTreeMap<u64, [usize; 2]> = BTreeMap::new();
        for &x in values {
            found.entry(x.abs().to_bits()).or_default()[usize::from(x > 0.0)] += 1;
        }
        let zero = found.remove(&0).map_or(0, |counts| counts[0]);
        let both = |c: &&[usize; 2]| c[0] > 0 && c[1] > 0;
        let pairs = found.values().filter(both).count();
        Self {
            distinct: found.len() + pairs + usize::from(zero > 0),
            sizes: found.len(),
            pairs,
            zero: zero > 0,
            repeated: zero > 1 || found.values().any(|c| c[0] > 1 || c[1] > 1),
        }
    }
}

impl Symmetry {
    /// An upper bound on the dimension that the columns of these b span as functions of a.
    pub(super) fn dimension(self, b: Signs) -> usize {
        match self {
            Symmetry::Odd => b.sizes,
            Symmetry::Even => b.sizes + usize::from(b.zero),
            Symmetry::OddAndConstant => b.sizes + usize::from(b.pairs > 0 || b.zero),
            Symmetry::EvenAndLinear => b.sizes + usize::from(b.pairs > 0),
            Symmetry::None => b.distinct,
        }
    }

    /// An upper bound on the Kruskal rank, where some columns are dependent as functions of a; their number less one.
    pub(super) fn kruskal(self, b: Signs) -> Option<usize> {
        let vanishes = matches!(self, Symmetry::Odd | Symmetry::EvenAndLinear);
        if b.zero && vanishes {
            return Some(0);
        }
        if b.repeated || b.pairs > 0 && matches!(self, Symmetry::Odd | Symmetry::Even) {
            return Some(1);
        }
        match self {
            Symmetry::OddAndConstant if b.pairs > 0 && b.zero => Some(2),
            Symmetry::OddAndConstant | Symmetry::EvenAndLinear if b.pairs > 1 => Some(3),
            _ => None,
        }
    }
}

impl fmt::Display for ScalarFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}

impl Serialize for ScalarFunction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

impl FromStr for ScalarFunction {
    type Err = Error;

    /// An activation, exp or cos, by name.
    fn from_str(name: &str) -> Result<Self> {
        match name {
            "exp" => Ok(ScalarFunction::Exp),
            "cos" => Ok(ScalarFunction::Cos),
            _ => name.parse().map(ScalarFunction::Activation).map_err(|_| {
                let known = [&Activation::ALL.map(Activation::name)[..], &["exp", "cos"]].concat();
                let hint =
                    nearest(name, &known).map_or(String::new(), |near| format!("; did you mean {near}?"));
                Error::setting("activation", format!("{name:?} is not one of {}{hint}", known.join(", ")))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_polynomials_written() {
        assert_eq!("gelu".parse::<ScalarFunction>().unwrap(), ScalarFunction::Activation(Activation::Gelu));
        assert_eq!("exp".parse::<ScalarFunction>().unwrap(), ScalarFunction::Exp);
        assert!("sin".parse::<ScalarFunction>().unwrap_err().to_string().contains("exp, cos"));
        let error = "tanhh".parse::<ScalarFunction>().unwrap_err().to_string();
        assert!(error.ends_with("did you mean tanh?"), "{error}");
        assert_eq!(ScalarFunction::Polynomial(vec![1.0, 0.0, -2.5, 1.0]).name(), "1 - 2.5 x^2 + x^3");
        assert_eq!(ScalarFunction::Polynomial(vec![0.0, 1.0]).exponents(), Some(vec![1]));
    }

    #[test]
    fn signs_are_counted() {
        let signs = Signs::of(&[1.0, -1.0, 2.0, 0.0, -0.0, -3.0, -3.0]);
        assert_eq!(signs, Signs { distinct: 5, sizes: 3, pairs: 1, zero: true, repeated: true });
    }

    #[test]
    fn symmetries_are_those_of_the_functions() {
        let precise = Precise::new(80);
        for name in ["tanh", "arctan", "erf", "cos", "logistic", "gelu", "gelu-tanh"] {
            let psi: ScalarFunction = name.parse().unwrap();
            for x in [0.3, 1.7] {
                let [plus, minus] = [x, -x].map(|x| psi.precise(&precise, &Dyadic::from(x)));
                let expected = match psi.symmetry() {
                    Symmetry::Odd => plus + minus,
                    Symmetry::Even => plus - minus,
                    Symmetry::OddAndConstant => plus + minus - (IBig::ONE << 80),
                    Symmetry::EvenAndLinear => plus - minus - Dyadic::from(x).floor(80),
                    Symmetry::None => IBig::ONE,
                };
                assert!(expected <= IBig::from(2) && expected >= IBig::from(-3), "{name} {expected}");
            }
        }
    }
}
