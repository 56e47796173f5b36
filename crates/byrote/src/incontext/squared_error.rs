//! Squared errors of predictions against t, over sequences.

use super::rows::Rows;
use super::sequence::Sequence;
use serde::{Deserialize, Serialize};

/// The squared error at one t.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ErrorAt {
    /// From 1: the prediction of x_{t+1} from x_1 .. x_t.
    pub t: usize,
    /// |u_t - x_{t+1}|^2, averaged over sequences.
    pub squared_error: f64,
    /// The smallest over sequences.
    pub lowest: f64,
    /// The largest over sequences.
    pub highest: f64,
}

/// The errors of one method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorSeries {
    /// The key that determines the colour in figures.
    pub key: String,
    /// The name in figures and tables.
    pub label: String,
    /// The errors, one per step.
    pub errors: Vec<ErrorAt>,
}

/// |u_t - x_{t+1}|^2 for every t whose successor is known.
pub fn squared_errors(predictions: &Rows, truth: &Rows) -> Vec<f64> {
    let known = predictions.len().min(truth.len().saturating_sub(1));
    (0..known)
        .map(|t| predictions.row(t).iter().zip(truth.row(t + 1)).map(|(u, x)| (u - x).powi(2)).sum())
        .collect()
}

/// Returns the squared errors against t, over all sequences.
pub fn errors_at(predictions: &[Rows], known: &[Sequence]) -> Vec<ErrorAt> {
    let each: Vec<Vec<f64>> = predictions.iter().zip(known).map(|(u, x)| squared_errors(u, x)).collect();
    summarize(&each)
}

/// Mean, smallest and largest over sequences, up to the length of the shortest.
pub fn summarize(all: &[Vec<f64>]) -> Vec<ErrorAt> {
    let known = all.iter().map(Vec::len).min().unwrap_or(0);
    let at = |i: usize| {
        let values = all.iter().map(|errors| errors[i]);
        ErrorAt {
            t: i + 1,
            squared_error: values.clone().sum::<f64>() / all.len() as f64,
            lowest: values.clone().fold(f64::INFINITY, f64::min),
            highest: values.fold(0.0, f64::max),
        }
    };
    (0..known).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_squared_summed_over_coordinates_and_averaged_over_sequences() {
        let truth = Rows::whole(2, vec![9.0, 9.0, 1.0, 2.0, 3.0, 4.0]);
        let one = squared_errors(&Rows::whole(2, vec![0.0, 0.0, 3.0, 3.0]), &truth);
        assert_eq!(one, [5.0, 1.0]);
        // The last prediction of a file has no successor.
        assert_eq!(squared_errors(&Rows::zeros(3, 2), &truth), [5.0, 25.0]);
        let all = summarize(&[one, vec![1.0, 3.0, 7.0]]);
        assert_eq!(all.len(), 2);
        assert_eq!(all[1], ErrorAt { t: 2, squared_error: 2.0, lowest: 1.0, highest: 3.0 });
        assert!(summarize(&[]).is_empty());
    }
}
