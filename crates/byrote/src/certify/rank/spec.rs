//! Which matrix psi(a b^T): the function, the weights of the neurons, the values of the contexts.

use super::{MOST, ScalarFunction};
use crate::num::Stream;
use crate::num::precise::LARGEST;
use crate::setting::setters;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// A matrix psi(a b^T), given or drawn at random.
///
/// ```
/// use byrote::certify::rank::RankSpec;
/// let matrix = RankSpec::default().n(5).resolve(0)?;
/// assert_eq!((matrix.a.len(), matrix.b.len()), (5, 5));
/// let error = RankSpec::default().m(0).resolve(0).unwrap_err();
/// assert_eq!(error.to_string(), "m: must be from 1 to 1024 (got 0)");
/// # Ok::<(), byrote::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RankSpec {
    /// psi: gelu, gelu-tanh, tanh, logistic, arctan, relu, erf, exp or cos [default: tanh]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub activation: Option<String>,
    /// psi is a polynomial: its coefficients from the constant on; 1,0,1 is 1 + x^2
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "C0,C1,...", allow_hyphen_values = true, conflicts_with = "activation")
    )]
    pub polynomial: Option<String>,
    /// The weights of the neurons, as a list
    #[cfg_attr(feature = "clap", arg(long, value_name = "LIST", allow_hyphen_values = true))]
    pub a: Option<String>,
    /// The values of the contexts, as a list
    #[cfg_attr(feature = "clap", arg(long, value_name = "LIST", allow_hyphen_values = true))]
    pub b: Option<String>,
    /// The number of neurons to draw [default: the number of contexts]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "M", conflicts_with = "a", allow_negative_numbers = true)
    )]
    pub m: Option<usize>,
    /// The number of contexts to draw [default: the number of neurons, or 8]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "N", conflicts_with = "b", allow_negative_numbers = true)
    )]
    pub n: Option<usize>,
    /// The largest product |a b| of drawn numbers
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "S", default_value_t = 1.0, allow_negative_numbers = true)
    )]
    pub scale: f64,
}

setters!(RankSpec { m: some(usize), n: some(usize), scale: plain(f64) });

impl Default for RankSpec {
    fn default() -> Self {
        Self { activation: None, polynomial: None, a: None, b: None, m: None, n: None, scale: 1.0 }
    }
}

/// The matrix psi(a b^T).
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureMatrix {
    /// The function.
    pub psi: ScalarFunction,
    /// The weights of the neurons.
    pub a: Vec<f64>,
    /// The values of the contexts.
    pub b: Vec<f64>,
    /// Whether the weights and the values were drawn at random.
    pub drawn: (bool, bool),
}

impl RankSpec {
    /// The function and the numbers; `seed` draws those that are not given.
    pub fn resolve(&self, seed: u64) -> Result<FeatureMatrix> {
        let psi = match (&self.polynomial, &self.activation) {
            (Some(_), Some(_)) => {
                return Err(Error::setting("polynomial", "cannot be combined with `activation`"));
            }
            (Some(text), None) => ScalarFunction::Polynomial(list("polynomial", text)?),
            (None, name) => name.as_deref().unwrap_or("tanh").parse()?,
        };
        if !(self.scale > 0.0 && self.scale.is_finite()) {
            let message = format!("must be finite and above 0 (got {})", self.scale);
            return Err(Error::setting("scale", message));
        }
        let given = |name, text: &Option<String>| text.as_deref().map(|t| list(name, t)).transpose();
        let (a, b) = (given("a", &self.a)?, given("b", &self.b)?);
        for (name, count) in [("m", self.m), ("n", self.n)] {
            if let Some(count) = count.filter(|c| !(1..=MOST).contains(c)) {
                return Err(Error::setting(name, format!("must be from 1 to {MOST} (got {count})")));
            }
        }
        let m = a.as_ref().map(Vec::len).or(self.m);
        let n = b.as_ref().map(Vec::len).or(self.n).or(m).unwrap_or(8);
        let m = m.unwrap_or(n);
        let drawn = (a.is_none(), b.is_none());
        let b = b.unwrap_or_else(|| draw(seed, "rank-b", n));
        let mut a = a.unwrap_or_else(|| draw(seed, "rank-a", m));
        let product = largest(&a) * largest(&b);
        if drawn.0 && product > 0.0 {
            if !psi.is_exact() && self.scale > LARGEST as f64 {
                let message = format!("must be at most {LARGEST} (got {})", self.scale);
                return Err(Error::setting("scale", message));
            }
            // The weights take the scale, because b may be given.
            a.iter_mut().for_each(|x| *x *= self.scale / product);
        }
        Ok(FeatureMatrix { psi, a, b, drawn })
    }
}

/// A comma-separated list of numbers.
fn list(name: &'static str, text: &str) -> Result<Vec<f64>> {
    let number = |part: &str| {
        let wrong = || Error::setting(name, format!("{:?} is not a number", part.trim()));
        part.trim().parse::<f64>().ok().filter(|x| x.is_finite()).ok_or_else(wrong)
    };
    text.split(',').map(number).collect()
}

/// Numbers from the standard normal law.
fn draw(seed: u64, purpose: &str, count: usize) -> Vec<f64> {
    (0..count as u64).map(|i| Stream::new(seed, purpose, i).normal()).collect()
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |m, x| m.max(x.abs()))
}
