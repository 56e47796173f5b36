//! A whole experiment: sequences, predictions, errors, and baselines for given sequences.

use super::{
    Attention, Baseline, ErrorAt, ErrorSeries, IncontextSpec, Kernel, PredictionMethod, PredictionOutcome,
    Rows, Sequence, Sequences, errors_at, predict,
};
use crate::Result;
use crate::observe::Observer;

/// What an experiment found.
#[derive(Debug)]
pub struct InContextResult {
    /// The sequences.
    pub sequences: Sequences,
    /// The kernel.
    pub kernel: Kernel,
    /// The attention.
    pub attention: Attention,
    /// How predictions were computed.
    pub method: PredictionMethod,
    /// The predictions.
    pub outcome: PredictionOutcome,
    /// Their squared errors.
    pub errors: Vec<ErrorAt>,
    /// Those of the baselines, for files.
    pub baselines: Vec<ErrorSeries>,
}

/// Runs an experiment; `seed` draws what is generated.
///
/// ```
/// use byrote::incontext::{IncontextSpec, run};
/// let found = run(&IncontextSpec::default().count(1), 0, &byrote::observe::Silent)?;
/// assert_eq!((found.sequences.seen.len(), found.baselines.len()), (1, 0));
/// # Ok::<(), byrote::Error>(())
/// ```
pub fn run(spec: &IncontextSpec, seed: u64, observer: &dyn Observer) -> Result<InContextResult> {
    spec.check()?;
    let (kernel, attention) = spec.kernel_and_attention()?;
    let method = spec.method()?;
    let sequences = spec.read(seed, observer)?;
    let outcome = predict(&sequences.seen, kernel, attention, method, observer)?;
    let errors = errors_at(&outcome.predictions, &sequences.known);
    let baselines = match sequences.task {
        Some(_) => Vec::new(),
        None => baselines(&sequences, observer)?,
    };
    Ok(InContextResult { sequences, kernel, attention, method, outcome, errors, baselines })
}

fn baselines(sequences: &Sequences, observer: &dyn Observer) -> Result<Vec<ErrorSeries>> {
    let series = |baseline: Baseline| {
        let predict = |x: &Sequence| baseline.predict(x, observer);
        let predictions: Vec<Rows> = sequences.seen.iter().map(predict).collect::<Result<_>>()?;
        let errors = errors_at(&predictions, &sequences.known);
        Ok(ErrorSeries { key: baseline.key().into(), label: baseline.label().into(), errors })
    };
    Baseline::ALL.into_iter().map(series).collect()
}
