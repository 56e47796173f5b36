//! The nearest monotone sequence: isotonic regression.
//!
//! Minimises sum_k w_k (y_k - f_k)^2 over all f that never fall (or never rise), by pooling neighbours that are in the wrong
//! order into their mean (Ayer, Brunk, Ewing, Reid and Silverman, Ann. Math. Stat. 26, 1955). One pass.

use serde::{Deserialize, Serialize};

/// The direction of a monotone sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// It never falls.
    Rising,
    /// It never rises.
    Falling,
}

/// The nearest sequence that is monotone in this direction; weights must be above zero.
///
/// # Panics
/// If `values` and `weights` differ in length.
pub fn isotonic(values: &[f64], weights: &[f64], direction: Direction) -> Vec<f64> {
    assert!(values.len() == weights.len(), "{} values, {} weights", values.len(), weights.len());
    let sign = match direction {
        Direction::Rising => 1.0,
        Direction::Falling => -1.0,
    };
    // Blocks: mean, weight, length.
    let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
    for (value, &weight) in values.iter().zip(weights) {
        let mut block = (sign * value, weight, 1);
        while let Some(last) = blocks.pop_if(|last| last.0 > block.0) {
            let weight = last.1 + block.1;
            block = ((last.0 * last.1 + block.0 * block.1) / weight, weight, last.2 + block.2);
        }
        blocks.push(block);
    }
    blocks.into_iter().flat_map(|(mean, _, n)| std::iter::repeat_n(sign * mean, n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn neighbours_in_the_wrong_order_are_pooled() {
        let ones = [1.0; 5];
        assert_eq!(isotonic(&[1.0, 3.0, 2.0, 4.0, 4.0], &ones, Direction::Rising), [1.0, 2.5, 2.5, 4.0, 4.0]);
        assert_eq!(
            isotonic(&[5.0, 1.0, 3.0, 2.0, 0.0], &ones, Direction::Falling),
            [5.0, 2.0, 2.0, 2.0, 0.0]
        );
        // A weight of 3 counts three times: (3 * 3 + 1) / 4.
        assert_eq!(isotonic(&[3.0, 1.0], &[3.0, 1.0], Direction::Rising), [2.5, 2.5]);
        assert!(isotonic(&[], &[], Direction::Rising).is_empty());
    }

    proptest! {
        // f is the nearest sequence exactly when y - f is orthogonal to f and its inner product with every rising sequence is at most 0;
        // the steps (0, .., 0, 1, .., 1) and the constants generate these.
        #[test]
        fn the_conditions_of_the_minimum_hold(
            y in prop::collection::vec((-5.0f64..5.0, 0.1f64..3.0), 1..30), rising: bool,
        ) {
            let (values, weights): (Vec<f64>, Vec<f64>) = y.into_iter().unzip();
            let (direction, sign) = if rising { (Direction::Rising, 1.0) } else { (Direction::Falling, -1.0) };
            let f = isotonic(&values, &weights, direction);
            prop_assert!(f.windows(2).all(|w| sign * w[0] <= sign * w[1]));
            let pull: Vec<f64> = (0..f.len()).map(|i| weights[i] * sign * (values[i] - f[i])).collect();
            prop_assert!(pull.iter().sum::<f64>().abs() < 1e-10);
            for from in 0..f.len() {
                prop_assert!(pull[from..].iter().sum::<f64>() < 1e-10);
            }
            prop_assert!(pull.iter().zip(&f).map(|(p, f)| p * f).sum::<f64>().abs() < 1e-9);
        }
    }
}
