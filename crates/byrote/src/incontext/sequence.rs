//! A sequence of vectors x_1 .. x_T, checked: at least two, all finite.

use super::rows::Rows;
use crate::{Error, Result};
use std::ops::Deref;

/// How far a norm may be from 1 and still count as 1.
pub const UNIT_TOLERANCE: f64 = 1e-8;

/// Vectors x_1 .. x_T in R^d; row t - 1 holds x_t.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence {
    rows: Rows,
}

impl Deref for Sequence {
    type Target = Rows;
    fn deref(&self) -> &Rows {
        &self.rows
    }
}

impl Sequence {
    /// Checks the vectors.
    pub fn new(rows: Rows) -> Result<Self> {
        if rows.len() < 2 {
            return Err(Error::Sequence {
                t: None,
                message: format!(
                    "must have at least 2 vectors, since nothing precedes the first (got {})",
                    rows.len()
                ),
            });
        }
        for (i, row) in rows.iter().enumerate() {
            if let Some(bad) = row.iter().find(|x| !x.is_finite()) {
                return Err(Error::Sequence { t: Some(i + 1), message: format!("a coordinate is {bad}") });
            }
        }
        Ok(Self { rows })
    }

    /// Returns the dimension.
    pub fn d(&self) -> usize {
        self.rows.columns()
    }

    /// Returns the first vectors, at least two of them.
    pub fn first(&self, length: usize) -> Result<Self> {
        let n = length.min(self.len()) * self.d();
        Self::new(Rows::whole(self.d(), self.values()[..n].to_vec()))
    }

    /// Returns the vectors divided by their norms.
    pub fn to_unit_norm(&self) -> Result<Self> {
        let mut rows = self.rows.clone();
        let d = self.d();
        for (i, row) in rows.values_mut().chunks_exact_mut(d).enumerate() {
            let norm = norm(row);
            if norm == 0.0 {
                return Err(Error::Sequence {
                    t: Some(i + 1),
                    message: "a zero vector has no direction".into(),
                });
            }
            row.iter_mut().for_each(|x| *x /= norm);
        }
        Self::new(rows)
    }

    /// Refuses vectors whose norm is not 1.
    pub fn expect_unit_norm(&self, who: &str) -> Result<()> {
        for (i, row) in self.iter().enumerate() {
            let norm = norm(row);
            if (norm - 1.0).abs() > UNIT_TOLERANCE {
                return Err(Error::Sequence {
                    t: Some(i + 1),
                    message: format!(
                        "norm {norm}, but {who} needs vectors of norm 1; scale them (`unit_norm`) or take the normalised \
                         kernel (`normalised`)"
                    ),
                });
            }
        }
        Ok(())
    }

    /// Returns the largest coordinate in magnitude.
    pub fn magnitude(&self) -> f64 {
        self.values().iter().fold(0.0, |most, x| most.max(x.abs()))
    }
}

/// Returns the Euclidean norm, without intermediate overflow or underflow.
pub(super) fn norm(x: &[f64]) -> f64 {
    let scale = x.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    if scale == 0.0 || (1e-100..1e100).contains(&scale) {
        return x.iter().map(|x| x * x).sum::<f64>().sqrt();
    }
    scale * x.iter().map(|x| (x / scale).powi(2)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_broken_sequences_are_refused() {
        let error = Sequence::new(Rows::whole(2, vec![1.0, 0.0])).unwrap_err();
        assert!(error.to_string().contains("at least 2"), "{error}");
        for bad in [f64::NAN, f64::INFINITY] {
            let error = Sequence::new(Rows::whole(2, vec![1.0, 0.0, bad, 0.0])).unwrap_err();
            assert!(matches!(error, Error::Sequence { t: Some(2), .. }), "{error}");
        }
    }

    #[test]
    fn norms_survive_extremes_and_units_are_told_apart() {
        assert!((norm(&[3e200, 4e200]) / 5e200 - 1.0).abs() < 1e-15);
        assert!((norm(&[3e-200, 4e-200]) / 5e-200 - 1.0).abs() < 1e-15);
        assert_eq!(norm(&[0.0, 0.0]), 0.0);
        let x = Sequence::new(Rows::whole(2, vec![3.0, 4.0, 0.0, 1.0])).unwrap();
        let error = x.expect_unit_norm("softmax attention").unwrap_err();
        assert!(matches!(error, Error::Sequence { t: Some(1), .. }), "{error}");
        let unit = x.to_unit_norm().unwrap();
        assert_eq!(unit.row(0), [0.6, 0.8]);
        assert!(unit.expect_unit_norm("it").is_ok());
        let zero = Sequence::new(Rows::whole(2, vec![0.0, 0.0, 0.0, 1.0])).unwrap();
        assert!(zero.to_unit_norm().is_err());
    }
}
