//! Measures how well a model has memorized a corpus: loss, gap, memorized contexts, and the contexts it predicts worst.
//!
//! Everything is computed in f64. With pi the next-token distribution of a context, q the model's, and c the context's
//! count:
//!
//! ```text
//! KL = sum_g pi_g (ln pi_g - ln q_g)        gap = sum_i c_i KL_i        loss = floor + gap
//! ```
//!
//! A context is *memorized* if the model's most likely token is one of the most frequent next tokens, and memorized *as
//! a distribution* if the KL divergence is at most a tolerance. Ties at the top of the model's distribution go to the
//! smallest token id.
//!
//! ```
//! use byrote::dataset::Dataset;
//! use byrote::evaluate::{TOLERANCE, evaluate};
//! use byrote::model::{Model, Preset, Shape};
//! use byrote::observe::Silent;
//!
//! // Two contexts: after 0 comes 1; after 1 comes 0 or 2, equally often.
//! let contexts = [(vec![0], vec![(1, 4.0)]), (vec![1], vec![(0, 1.0), (2, 1.0)])];
//! let dataset = Dataset::new(3, 1, contexts)?;
//! let shape = Shape { d_vocab: 3, n_ctx: 1, d_model: 4, n_heads: 1, d_head: 4, d_mlp: 8, ..Shape::default() };
//! let untrained = Model::random(Preset::Madden2024Experiment.config(shape), 0)?;
//! let evaluation = evaluate(&untrained, &dataset, TOLERANCE, 1, &Silent)?;
//! assert_eq!((evaluation.contexts, evaluation.predictions), (2, 6));
//! assert!(evaluation.loss_nats.0 > evaluation.floor_nats.0);
//! # Ok::<(), byrote::Error>(())
//! ```

use crate::dataset::Dataset;
use crate::model::Model;
use crate::model::reference::log_sum_exp;
use crate::observe::{Observer, Stage};
use crate::train::{Evaluator, ProbePoint};
use crate::units::Nats;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// The result of evaluating a model on a corpus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Evaluation {
    /// The number of contexts.
    pub contexts: u64,
    /// The number of predictions: occurrences of contexts followed by a token.
    pub predictions: u64,
    /// The loss, summed over all predictions.
    pub loss_nats: Nats,
    /// The lowest loss any model can reach.
    pub floor_nats: Nats,
    /// The loss minus the floor.
    pub gap_nats: Nats,
    /// The number of contexts whose most likely token is one of the most frequent next tokens.
    pub memorized: u64,
    /// The number of contexts whose whole distribution is memorized.
    pub memorized_distribution: u64,
    /// The largest KL divergence of a context.
    pub max_kl_nats: Nats,
    /// The fraction of contexts that are memorized.
    pub accuracy: f64,
    /// The same weighted by counts: the fraction of predictions for which the most likely token is the one that
    /// follows.
    pub prediction_accuracy: f64,
    /// The results by context length.
    pub by_length: Vec<LengthEvaluation>,
    /// The contexts with the largest contributions to the gap, worst first.
    pub worst: Vec<Worst>,
}

/// The results for contexts of one length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LengthEvaluation {
    /// The number of tokens per context.
    pub length: usize,
    /// The number of contexts.
    pub contexts: u64,
    /// The number of their predictions.
    pub predictions: u64,
    /// Their contribution to the loss.
    #[serde(default)]
    pub loss_nats: Nats,
    /// The same divided by the number of their predictions: the loss at this position.
    #[serde(default)]
    pub loss_nats_per_prediction: Nats,
    /// Their contribution to the floor.
    #[serde(default)]
    pub floor_nats: Nats,
    /// The same divided by the number of their predictions.
    #[serde(default)]
    pub floor_nats_per_prediction: Nats,
    /// Their contribution to the gap.
    pub gap_nats: Nats,
    /// The same divided by the number of their predictions.
    #[serde(default)]
    pub gap_nats_per_prediction: Nats,
    /// The number that are memorized.
    pub memorized: u64,
    /// The number whose whole distribution is memorized.
    pub memorized_distribution: u64,
    /// The fraction that are memorized.
    pub accuracy: f64,
    /// The fraction of their predictions for which the most likely token is the one that follows.
    pub prediction_accuracy: f64,
}

/// A context that the model predicts badly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Worst {
    /// Its index in the dataset.
    pub context: usize,
    /// How often it occurs.
    pub count: u64,
    /// The KL divergence of the model's distribution from its next-token distribution.
    pub kl_nats: Nats,
    /// Its contribution to the gap.
    pub gap_nats: Nats,
    /// The model's most likely token.
    pub predicted: u32,
    /// Its probability.
    pub probability: f64,
    /// The model's total probability of the most frequent next tokens.
    pub top_probability: f64,
}

/// The contribution of one context.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    context: usize,
    kl: f64,
    predicted: u32,
    probability: f64,
    top_probability: f64,
    memorized: bool,
    right: f64,
}

/// The default KL divergence up to which a distribution counts as memorized.
pub const TOLERANCE: Nats = Nats(1e-3);

/// Refuses a tolerance that is not a number of nats.
pub fn check_tolerance(tolerance: Nats) -> Result<()> {
    if tolerance.0.is_nan() || tolerance.0 < 0.0 {
        return Err(Error::setting("tol", format!("must be at least 0 nats (got {})", tolerance.0)));
    }
    Ok(())
}

/// Evaluates a model; `tolerance` is the KL divergence up to which a distribution counts as memorized, `worst` the
/// number of badly predicted contexts to list.
pub fn evaluate(
    model: &Model,
    dataset: &Dataset,
    tolerance: Nats,
    worst: usize,
    observer: &dyn Observer,
) -> Result<Evaluation> {
    check_tolerance(tolerance)?;
    dataset.fits(model.config())?;
    let mut evaluator = Evaluator::<f64, _>::of_model(model, dataset);
    let total = Some(dataset.len() as u64);
    observer.report(Stage::Evaluating, 0, total)?;
    let done = AtomicU64::new(0);
    let go_on = || observer.report(Stage::Evaluating, done.load(Ordering::Relaxed), total).is_ok();
    let visit = |seen: &mut Vec<Outcome>, context: usize, logits: &[f64]| {
        seen.push(outcome(dataset, context, logits));
        done.fetch_add(1, Ordering::Relaxed);
    };
    let outcomes: Vec<Outcome> = evaluator
        .for_each_row_while(ProbePoint::Logits, model.parameters(), go_on, Vec::new, visit)
        .into_iter()
        .flatten()
        .collect();
    if outcomes.len() < dataset.len() {
        return Err(Error::Interrupted);
    }

    if let Some(wrong) = outcomes.iter().find(|o| !o.kl.is_finite()) {
        let tokens = dataset.tokens_of(wrong.context);
        let message =
            format!("the logits of the context {tokens:?} are not finite: its weights are too large");
        return Err(Error::setting("model", message));
    }
    let mut by_length = tallied(&outcomes, dataset, tolerance);
    let sum = |f: fn(&LengthEvaluation) -> f64| by_length.iter().map(f).sum::<f64>();
    let predictions = sum(|l| l.predictions as f64);
    let gap = sum(|l| l.gap_nats.0);
    let right = sum(|l| l.prediction_accuracy);
    let memorized = by_length.iter().map(|l| l.memorized).sum();
    by_length.retain(|l| l.contexts > 0);
    for l in &mut by_length {
        l.accuracy = l.memorized as f64 / l.contexts as f64;
        l.prediction_accuracy /= l.predictions as f64;
        l.loss_nats = Nats(l.floor_nats.0 + l.gap_nats.0);
        let each = |nats: Nats| nats.per(l.predictions).unwrap_or_default();
        l.loss_nats_per_prediction = each(l.loss_nats);
        l.floor_nats_per_prediction = each(l.floor_nats);
        l.gap_nats_per_prediction = each(l.gap_nats);
    }

    let share = |o: &Outcome| dataset.counts[o.context] * o.kl;
    let mut ranked: Vec<&Outcome> = outcomes.iter().collect();
    ranked.sort_by(|a, b| share(b).total_cmp(&share(a)).then(a.context.cmp(&b.context)));
    Ok(Evaluation {
        contexts: dataset.len() as u64,
        predictions: predictions as u64,
        loss_nats: Nats(dataset.floor.0 + gap),
        floor_nats: dataset.floor,
        gap_nats: Nats(gap),
        memorized,
        memorized_distribution: by_length.iter().map(|l| l.memorized_distribution).sum(),
        max_kl_nats: Nats(outcomes.iter().map(|o| o.kl).fold(0.0, f64::max)),
        accuracy: memorized as f64 / (dataset.len() as f64).max(1.0),
        prediction_accuracy: right / predictions.max(1.0),
        by_length,
        worst: ranked
            .into_iter()
            .take(worst)
            .map(|o| Worst {
                context: o.context,
                count: dataset.counts[o.context] as u64,
                kl_nats: Nats(o.kl),
                gap_nats: Nats(share(o)),
                predicted: o.predicted,
                probability: o.probability,
                top_probability: o.top_probability,
            })
            .collect(),
    })
}

/// The totals per context length, shortest first. The loss, `accuracy` and what is per prediction are not set yet, and
/// `prediction_accuracy` is still the number of correct predictions.
fn tallied(outcomes: &[Outcome], dataset: &Dataset, tolerance: Nats) -> Vec<LengthEvaluation> {
    let longest = (0..dataset.len()).map(|c| dataset.places_of(c).len()).max().unwrap_or(0);
    let mut by_length: Vec<LengthEvaluation> = (1..=longest)
        .map(|length| LengthEvaluation {
            length,
            contexts: 0,
            predictions: 0,
            loss_nats: Nats(0.0),
            loss_nats_per_prediction: Nats(0.0),
            floor_nats: Nats(0.0),
            floor_nats_per_prediction: Nats(0.0),
            gap_nats: Nats(0.0),
            gap_nats_per_prediction: Nats(0.0),
            memorized: 0,
            memorized_distribution: 0,
            accuracy: 0.0,
            prediction_accuracy: 0.0,
        })
        .collect();
    for o in outcomes {
        let row = &mut by_length[dataset.places_of(o.context).len() - 1];
        let count = dataset.counts[o.context];
        row.contexts += 1;
        row.predictions += count as u64;
        row.floor_nats.0 += dataset.floor_of(o.context);
        row.gap_nats.0 += count * o.kl;
        row.memorized += u64::from(o.memorized);
        row.memorized_distribution += u64::from(o.kl <= tolerance.0);
        row.prediction_accuracy += o.right;
    }
    by_length
}

fn outcome(dataset: &Dataset, context: usize, logits: &[f64]) -> Outcome {
    let next = dataset.next_of(context);
    let count = dataset.counts[context];
    let lse = log_sum_exp(logits);
    let mut predicted = 0;
    for (token, &logit) in logits.iter().enumerate() {
        if logit > logits[predicted] {
            predicted = token;
        }
    }
    let kl: f64 =
        next.iter().map(|&(token, n)| n / count * ((n / count).ln() - (logits[token as usize] - lse))).sum();
    let top = next.iter().fold(0.0, |m: f64, &(_, n)| m.max(n));
    let tops = || next.iter().filter(|&&(_, n)| n == top);
    let probability = |token: usize| (logits[token] - lse).exp();
    Outcome {
        context,
        // Rounding may take a perfect match below zero.
        kl: if kl < 0.0 { 0.0 } else { kl },
        predicted: predicted as u32,
        probability: probability(predicted),
        top_probability: tops().map(|&(token, _)| probability(token as usize)).sum(),
        memorized: tops().any(|&(token, _)| token as usize == predicted),
        right: next.iter().filter(|&&(token, _)| token as usize == predicted).map(|&(_, n)| n).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::examples;
    use crate::model::{Config, Preset, Shape};
    use crate::observe::Silent;
    use std::sync::Arc;

    fn dataset_of(text: &str) -> Arc<Dataset> {
        examples::text(text).0
    }

    /// Tokens a = 0, b = 1, c = 2; one context, [a], followed by b twice and c once.
    fn dataset() -> Arc<Dataset> {
        dataset_of("a b\na b\na c\n")
    }

    /// A model whose logits are its output bias.
    fn constant(bias: [f64; 3]) -> Model {
        let shape =
            Shape { d_vocab: 3, n_ctx: 1, d_model: 1, n_heads: 1, d_head: 1, d_mlp: 1, ..Shape::default() };
        let config = Config { output_bias: true, ..Preset::Madden2024.config(shape) };
        let mut parameters = vec![0.0; config.n_parameters()];
        let n = parameters.len();
        parameters[n - 3..].copy_from_slice(&bias);
        Model::new(config, parameters).unwrap()
    }

    #[test]
    fn the_true_distribution_has_no_gap() {
        let model = constant([-1e3, (2.0f64 / 3.0).ln(), (1.0f64 / 3.0).ln()]);
        let found = evaluate(&model, &dataset(), Nats(1e-9), 10, &Silent).unwrap();
        assert!(found.gap_nats.0 < 1e-14, "{found:?}");
        assert_eq!((found.contexts, found.memorized, found.memorized_distribution), (1, 1, 1));
        assert_eq!((found.predictions, found.accuracy), (3, 1.0));
        assert_eq!(found.prediction_accuracy, 2.0 / 3.0);
        // 2 ln(3/2) + ln 3
        assert!((found.floor_nats.0 - (2.0 * 1.5f64.ln() + 3f64.ln())).abs() < 1e-14);
    }

    #[test]
    fn a_wrong_distribution_has_the_gap_of_its_kl() {
        // Uniform over three tokens: loss 3 ln 3; a tie at the top goes to token 0, which is wrong.
        let found = evaluate(&constant([0.0; 3]), &dataset(), Nats(1e-3), 10, &Silent).unwrap();
        assert!((found.loss_nats.0 - 3.0 * 3f64.ln()).abs() < 1e-13);
        assert_eq!((found.memorized, found.memorized_distribution, found.accuracy), (0, 0, 0.0));
        assert!((found.max_kl_nats.0 - found.gap_nats.0 / 3.0).abs() < 1e-14);
        let worst = found.worst[0];
        assert_eq!((worst.context, worst.count, worst.predicted), (0, 3, 0));
        assert!((worst.top_probability - 1.0 / 3.0).abs() < 1e-14);
        assert_eq!(found.by_length.len(), 1);
        let l = &found.by_length[0];
        assert_eq!(l.gap_nats_per_prediction.0, l.gap_nats.0 / l.predictions as f64);
        assert!((l.floor_nats.0 - found.floor_nats.0).abs() < 1e-14);
        assert!((l.loss_nats_per_prediction.0 - 3f64.ln()).abs() < 1e-14);
    }

    #[test]
    fn logits_that_are_not_finite_are_never_a_perfect_match() {
        let mut model = constant([0.0; 3]);
        let parameters = model.parameters().iter().map(|_| 1e300).collect();
        model = Model::new(*model.config(), parameters).unwrap();
        let error = evaluate(&model, &dataset(), Nats(1e-3), 10, &Silent).unwrap_err();
        assert!(error.to_string().contains("not finite"), "{error}");
    }

    #[test]
    fn a_corpus_that_does_not_fit_is_refused() {
        for text in ["a b c", "a b\na c\na d"] {
            assert!(
                evaluate(&constant([0.0; 3]), &dataset_of(text), Nats(1e-3), 10, &Silent).is_err(),
                "{text}"
            );
        }
        assert!(evaluate(&constant([0.0; 3]), &dataset(), Nats(f64::NAN), 10, &Silent).is_err());
    }
}
