//! Dense linear systems in `f64` (the crate `byrote-linear`), under the library's observer.

pub use byrote_linear::{
    Lu, Mat, MatMut, MatRef, Qr, Svd, from_rows, multiply_into, product, quietly, rank, subtract_product,
    to_rows,
};

use crate::Result;
use crate::observe::{Observer, Stage};

/// Factors a square matrix in place; the observer is asked between panels of columns.
///
/// # Panics
/// When it is not square.
pub fn factor(a: Mat<f64>, observer: &dyn Observer) -> Result<Lu> {
    Lu::of(a, &mut |done, n| observer.report(Stage::Solving, done as u64, Some(n as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Impatient;

    #[test]
    fn a_factorization_asks_the_observer() {
        let stopped = factor(Mat::identity(60, 60), &Impatient::new(1));
        assert!(matches!(stopped, Err(crate::Error::Interrupted)));
    }
}
