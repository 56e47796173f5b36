//! The curve of losses recorded during training.

use crate::output::csv_text;
use crate::units::Nats;

/// The loss after a number of steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// The number of steps taken.
    pub step: u64,
    /// The number of evaluations of the loss and its gradient.
    pub evaluations: u64,
    /// The loss at that step.
    pub loss: Nats,
}

/// The rows that are kept: every step below 1,000, every tenth below 10,000 and so on, and the last one. A curve
/// therefore has a few thousand rows however long the run is, evenly spread on a logarithmic axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LossCurve {
    rows: Vec<CurvePoint>,
    /// Whether the last row is kept only because it is the last.
    provisional: bool,
}

impl LossCurve {
    /// Restores a curve from its rows.
    pub fn from_rows(rows: Vec<CurvePoint>) -> Self {
        let provisional = rows.last().is_some_and(|r| !is_kept(r.step));
        Self { rows, provisional }
    }

    /// Returns the rows, in order.
    pub fn rows(&self) -> &[CurvePoint] {
        &self.rows
    }

    /// Adds the newest row.
    pub fn push(&mut self, row: CurvePoint) {
        if self.provisional || self.rows.last().is_some_and(|r| r.step >= row.step) {
            self.rows.pop();
        }
        self.provisional = !is_kept(row.step);
        self.rows.push(row);
    }

    /// Allows the next row to replace the last one.
    pub fn make_provisional(&mut self) {
        self.provisional = !self.rows.is_empty();
    }

    /// Returns the curve as CSV, for a corpus with this floor and number of predictions.
    pub fn to_csv(&self, floor: Nats, predictions: u64) -> String {
        let each = predictions.max(1) as f64;
        let row = |row: &CurvePoint| {
            let (loss, gap) = (row.loss.0, row.loss.0 - floor.0);
            let [loss, gap, loss_each, gap_each] =
                [loss, gap, loss / each, gap / each].map(|x| x.to_string());
            [row.step.to_string(), row.evaluations.to_string(), loss, gap, loss_each, gap_each]
        };
        let heads = [
            "step",
            "evaluations",
            "loss_nats",
            "gap_nats",
            "loss_nats_per_prediction",
            "gap_nats_per_prediction",
        ];
        csv_text(heads, self.rows.iter().map(row))
    }
}

/// Whether a step number has at most three significant digits.
fn is_kept(step: u64) -> bool {
    let mut unit = 1;
    while step / unit >= 1000 {
        unit *= 10;
    }
    step.is_multiple_of(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_thin_out_and_the_last_one_is_there() {
        let mut curve = LossCurve::default();
        for step in 0..=12_345 {
            curve.push(CurvePoint { step, evaluations: step + 1, loss: Nats(1.0) });
        }
        let steps: Vec<u64> = curve.rows().iter().map(|r| r.step).collect();
        assert_eq!(steps.len(), 1000 + 900 + 24 + 1);
        assert_eq!(steps[995..1002], [995, 996, 997, 998, 999, 1000, 1010]);
        assert_eq!(steps[steps.len() - 2..], [12_300, 12_345]);
        let mut again = LossCurve::from_rows(curve.rows().to_vec());
        assert_eq!(again, curve);
        again.push(CurvePoint { step: 12_346, evaluations: 0, loss: Nats(0.5) });
        assert_eq!(again.rows().len(), curve.rows().len());
    }

    #[test]
    fn csv_has_a_head_and_one_line_per_row() {
        let curve = LossCurve::from_rows(vec![CurvePoint { step: 0, evaluations: 1, loss: Nats(2.5) }]);
        let text = curve.to_csv(Nats(2.0), 10);
        let (head, row) = text.split_once('\n').unwrap();
        assert!(head.starts_with("step,evaluations,loss_nats,gap_nats,loss_nats_per_prediction,"), "{head}");
        assert_eq!(row, "0,1,2.5,0.5,0.25,0.05\n");
    }
}
