//! What a training loss means on a corpus: how far it is from the lowest one that is possible.

use super::summary::Summary;
use crate::setting::as_text;
use crate::units::Nats;
use crate::{Error, Result};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A training loss in nats per prediction: one number, or one for each position, which is the length of the context.
///
/// ```
/// use byrote::corpus::Loss;
/// assert_eq!("1.2".parse::<Loss>()?.mean(&[4, 4]), 1.2);
/// assert_eq!("2, 1".parse::<Loss>()?.mean(&[4, 4]), 1.5);
/// assert!("-1".parse::<Loss>().is_err());
/// # Ok::<(), byrote::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Loss(Vec<f64>);

impl Loss {
    /// Returns the mean over all predictions, given their number at every position.
    pub fn mean(&self, predictions: &[u64]) -> f64 {
        match self.0[..] {
            [loss] => loss,
            _ => {
                let total: u64 = predictions.iter().take(self.0.len()).sum();
                let sum: f64 = self.0.iter().zip(predictions).map(|(loss, &n)| loss * n as f64).sum();
                sum / total as f64
            }
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(f64::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

impl FromStr for Loss {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self> {
        let wrong = |part: &str| {
            Error::setting(
                "loss",
                format!("{part:?} is not a loss in nats per prediction (a number of at least 0)"),
            )
        };
        let number = |part: &str| match part.trim().parse::<f64>() {
            Ok(x) if x.is_finite() && x >= 0.0 => Ok(x),
            _ => Err(wrong(part)),
        };
        Ok(Self(s.split(',').map(number).collect::<Result<_>>()?))
    }
}

as_text!(Loss);

/// What a loss means: all figures per prediction unless they say otherwise.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LossReading {
    /// The loss.
    pub loss_nats_per_prediction: f64,
    /// The loss in bits.
    pub loss_bits_per_prediction: f64,
    /// The perplexity that belongs to it.
    pub perplexity: f64,
    /// The lowest loss that any model can reach.
    pub floor_nats_per_prediction: Nats,
    /// The floor in bits.
    pub floor_bits_per_prediction: f64,
    /// The lowest perplexity that any model can reach.
    pub floor_perplexity: f64,
    /// The loss minus the floor.
    pub gap_nats_per_prediction: f64,
    /// The gap in bits.
    pub gap_bits_per_prediction: f64,
    /// The gap over all tokens of the text, in bits: what is left to memorize.
    pub unmemorized_bits: f64,
    /// The same as a share of what there is to memorize beyond how often each token occurs; `None` if that is nothing, or not
    /// known.
    pub unmemorized_share: Option<f64>,
    /// Whether the loss is below the floor, which no model can reach that sees only the context.
    pub is_below_floor: bool,
    /// The longest context at which even the floor is not below this loss; `None` if it is below at every length.
    pub equivalent_n_ctx: Option<u64>,
    /// By position, if losses were given by position.
    pub by_position: Vec<PositionReading>,
}

/// A loss at one position, after a context of that length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PositionReading {
    /// The length of the context.
    pub length: u32,
    /// The loss there.
    pub loss_nats: f64,
    /// The lowest loss that any model can reach there.
    pub floor_nats: Nats,
    /// The difference.
    pub gap_nats: f64,
    /// Whether the loss is below the floor.
    pub is_below_floor: bool,
}

impl LossReading {
    /// Reads a loss on a corpus.
    pub fn new(loss: &Loss, summary: &Summary) -> Result<Self> {
        let Some(floor) = summary.floor_nats_per_prediction else {
            return Err(Error::setting("loss", "nothing is predicted in this corpus"));
        };
        let positions = loss.0.len();
        if positions > 1 && positions != summary.by_length.len() {
            let n = summary.by_length.len();
            return Err(Error::setting(
                "loss",
                format!("has {positions} numbers; give one, or one for each of the {n} positions"),
            ));
        }
        let predictions: Vec<u64> = summary.by_length.iter().map(|l| l.predictions).collect();
        let mean = loss.mean(&predictions);
        let gap = mean - floor.0;
        let by_position = if positions > 1 { by_position(loss, summary) } else { Vec::new() };
        let learnable = summary.windows.as_ref().map(|w| w.token_entropy_nats.0 - floor.0);
        Ok(Self {
            loss_nats_per_prediction: mean,
            loss_bits_per_prediction: Nats(mean).bits(),
            perplexity: mean.exp(),
            floor_nats_per_prediction: floor,
            floor_bits_per_prediction: floor.bits(),
            floor_perplexity: floor.0.exp(),
            gap_nats_per_prediction: gap,
            gap_bits_per_prediction: Nats(gap).bits(),
            unmemorized_bits: Nats(gap.max(0.0)).bits() * summary.tokens as f64,
            unmemorized_share: learnable.filter(|&most| most > 0.0).map(|most| (gap / most).max(0.0)),
            is_below_floor: is_below(mean, floor),
            equivalent_n_ctx: equivalent(mean, summary),
            by_position,
        })
    }
}

/// Whether a loss is below a floor, which is itself rounded.
fn is_below(loss: f64, floor: Nats) -> bool {
    loss < floor.at_least().0
}

fn by_position(loss: &Loss, summary: &Summary) -> Vec<PositionReading> {
    let floor = |l: &super::LengthSummary| l.floor_nats_per_prediction.unwrap_or(Nats(0.0));
    summary
        .by_length
        .iter()
        .zip(&loss.0)
        .map(|(l, &loss)| PositionReading {
            length: l.length,
            loss_nats: loss,
            floor_nats: floor(l),
            gap_nats: loss - floor(l).0,
            is_below_floor: is_below(loss, floor(l)),
        })
        .collect()
}

/// The longest context at which the floor per prediction is at least this loss.
fn equivalent(loss: f64, summary: &Summary) -> Option<u64> {
    if let Some(windows) = &summary.windows {
        let at_least =
            |point: &&super::FloorPoint| point.floor_nats_per_prediction.is_some_and(|f| f.0 >= loss);
        return windows.all_floors().iter().rev().find(at_least).map(|point| point.n_ctx);
    }
    let (mut sum, mut predictions, mut found) = (0.0, 0, None);
    for l in &summary.by_length {
        sum += l.floor_nats.0;
        predictions += l.predictions;
        if predictions > 0 && sum / predictions as f64 >= loss {
            found = Some(u64::from(l.length));
        }
    }
    found
}
