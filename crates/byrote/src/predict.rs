//! The next-token distribution of a model for a context, beside that of a corpus.
//!
//! ```
//! use byrote::corpus::{Corpus, CorpusSpec, Outputs};
//! use byrote::model::{Model, ModelFile, ModelSpec, Precision};
//! use byrote::predict::predict;
//!
//! let corpus = Corpus::from_spec(&CorpusSpec::default().builtin(3), Outputs::default(), &byrote::observe::Silent)?;
//! let model = Model::random(ModelSpec::default().resolve(corpus.summary.d_vocab, 4)?, 0)?;
//! let file = ModelFile { model, precision: Precision::F64, tokenizer: "wordpunct".into(), vocabulary: corpus.vocabulary };
//! let found = predict(&file, &[3, 5], 2, None)?;
//! assert_eq!((found.tokens, found.next.len()), (vec![3, 5], 2));
//! # Ok::<(), byrote::Error>(())
//! ```

use crate::dataset::Dataset;
use crate::model::ModelFile;
use crate::model::reference::softmax;
use crate::{Error, Result};
use serde::Serialize;
use std::collections::BTreeMap;

/// What a model says of the token after a context.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Prediction {
    /// The ids of the context.
    pub tokens: Vec<u32>,
    /// Their texts.
    pub texts: Vec<String>,
    /// The most likely tokens, then every other token that follows in the corpus.
    pub next: Vec<NextToken>,
    /// How often the context occurs in the corpus, if there is one.
    pub corpus_count: Option<f64>,
    /// The logits of all tokens.
    #[serde(skip)]
    pub logits: Vec<f64>,
}

/// A token that may come next.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NextToken {
    /// Its id.
    pub token: u32,
    /// Its text.
    pub text: String,
    /// Its probability.
    pub probability: f64,
    /// The share of the occurrences in the corpus that it follows, if the context occurs there.
    pub corpus_probability: Option<f64>,
}

/// Refuses a context that a model cannot read.
pub fn check_context(file: &ModelFile, tokens: &[u32]) -> Result<()> {
    let n_ctx = file.model.config().shape.n_ctx;
    if tokens.is_empty() {
        return Err(Error::setting("text", "contains no token"));
    }
    if tokens.len() as u64 > n_ctx {
        let message = format!("{} tokens, but this model reads at most {n_ctx}", tokens.len());
        return Err(Error::setting("text", message));
    }
    Ok(())
}

/// Predicts the token after a context; lists the `top` most likely ones.
pub fn predict(
    file: &ModelFile,
    tokens: &[u32],
    top: usize,
    dataset: Option<&Dataset>,
) -> Result<Prediction> {
    check_context(file, tokens)?;
    let logits = file.model.logits(tokens)?;
    let probabilities: Vec<f64> = softmax(&logits);
    if probabilities.iter().any(|p| !p.is_finite()) {
        return Err(Error::setting("model", "the logits are not finite because the weights are too large"));
    }
    let own =
        dataset.map(|dataset| dataset.next_after(tokens).iter().copied().collect::<BTreeMap<u32, f64>>());
    let mut order: Vec<u32> = (0..probabilities.len() as u32).collect();
    order.sort_by(|&a, &b| probabilities[b as usize].total_cmp(&probabilities[a as usize]).then(a.cmp(&b)));
    let mut shown: Vec<u32> = order.iter().copied().take(top).collect();
    if let Some(own) = &own {
        let mut more: Vec<u32> = own.keys().copied().filter(|t| !shown.contains(t)).collect();
        more.sort_by(|a, b| own[b].total_cmp(&own[a]).then(a.cmp(b)));
        shown.extend(more);
    }
    let count: Option<f64> = own.as_ref().map(|own| own.values().sum());
    let share = |token: u32| {
        let (own, count) = (own.as_ref()?, count?);
        (count > 0.0).then(|| own.get(&token).copied().unwrap_or(0.0) / count)
    };
    let next = shown.iter().map(|&token| NextToken {
        token,
        text: file.vocabulary.text(token),
        probability: probabilities[token as usize],
        corpus_probability: share(token),
    });
    Ok(Prediction {
        tokens: tokens.to_vec(),
        texts: tokens.iter().map(|&t| file.vocabulary.text(t)).collect(),
        next: next.collect(),
        corpus_count: count,
        logits,
    })
}
