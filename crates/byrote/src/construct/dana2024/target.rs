//! The target of the construction: an encoder of the corpus, or codes of one token per context.
//!
//! For associations the code of a context is that of its most frequent next token, w_g, and the output matrix has the
//! rows lambda w_j. With margin 1 - mu (at most 1 if some tokens are never a target: their code is 0) the gap is at most
//! (omega - 1) sum_i c_i e^(-lambda margin), which determines lambda for the requested gap.

use super::codes::{self, Codes};
use super::encoder::Encoder;
use super::encoder::loss::Divergence;
use super::theorem2::top_token;
use super::{Settings, Task};
use crate::dataset::Dataset;
use crate::observe::Observer;
use crate::units::Nats;
use crate::{Error, Result};
use std::collections::BTreeMap;

/// The logits that the model should have, as output matrix and codes.
pub(super) struct Target {
    pub(super) task: Task,
    pub(super) encoder: Encoder,
    /// For associations.
    pub(super) codes: Option<(codes::CodeLayout, f64)>,
}

impl Target {
    /// Computes the target of a dataset, for an output that reads `d` numbers.
    pub(super) fn new(
        dataset: &Dataset,
        d: usize,
        settings: &Settings,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let deterministic = (0..dataset.len()).all(|i| dataset.next_of(i).len() == 1);
        let task = settings.task.unwrap_or(match deterministic {
            true => Task::Association,
            false => Task::Distribution,
        });
        match task {
            Task::Association => association(dataset, d, settings, observer),
            Task::Distribution => {
                let Settings { gap, effort, seed, .. } = *settings;
                let encoder = Encoder::solve(dataset, d, gap, effort, seed, observer)?;
                Ok(Target { task, encoder, codes: None })
            }
        }
    }
}

/// Codes of the most frequent next tokens, scaled so that the gap is as requested; tokens that are not labels have the
/// code 0 and lose by as much as an orthogonal label.
fn association(dataset: &Dataset, d: usize, settings: &Settings, observer: &dyn Observer) -> Result<Target> {
    if !(settings.gap.0 > 0.0 && settings.gap.0.is_finite()) {
        let message = format!("must be finite and above 0 nats (got {})", settings.gap.0);
        return Err(Error::setting("gap", message));
    }
    let tops: Vec<u32> = (0..dataset.len()).map(|i| top_token(dataset, i)).collect();
    let mut labels: BTreeMap<u32, usize> = tops.iter().map(|&t| (t, 0)).collect();
    labels.values_mut().zip(0..).for_each(|(index, i)| *index = i);
    let codes = Codes::new(labels.len(), d, settings.seed, observer)?;
    let d_vocab = dataset.d_vocab();
    let others = d_vocab > labels.len() as u64;
    let margin = if others { (1.0 - codes.coherence).min(1.0) } else { 1.0 - codes.coherence };
    let wrong = (d_vocab as f64 - 1.0).max(1.0);
    let lambda = (wrong * dataset.predictions() / (0.9 * settings.gap.0)).ln().max(1.0) / margin;
    let rank = codes.dimension;
    let mut w = vec![0.0; d_vocab as usize * rank];
    for (&token, &label) in &labels {
        let row = &mut w[token as usize * rank..(token as usize + 1) * rank];
        row.iter_mut().zip(codes.of(label)).for_each(|(w, c)| *w = lambda * c);
    }
    let e = tops.iter().flat_map(|t| codes.of(labels[t])).copied().collect::<Vec<f64>>();
    let goal = associated(dataset);
    let mean = Divergence::new(&goal, 0.0).evaluate(rank, &w, &e, None);
    let gap = Nats((mean * dataset.predictions()).max(0.0));
    Ok(Target {
        task: Task::Association,
        encoder: Encoder { rank, w, e, gap, exact: true },
        codes: Some((codes.layout, codes.coherence)),
    })
}

/// The dataset with only the most frequent next token of every context.
pub(super) fn associated(dataset: &Dataset) -> Dataset {
    dataset.with_one_next(|i| top_token(dataset, i))
}
