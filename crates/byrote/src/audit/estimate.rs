//! How much there is to evaluate, and how long that will take, before it begins.
//!
//! What an audit runs is listed first: the pieces of documents, windows, the windows of the recall curve, and the distinct contexts
//! of the gap. Identical sequences count once, and those whose scores are on disk do not count. A few of them are run to measure
//! how fast the model is; nothing else depends on that time.

use super::score_file::ScoreFile;
use super::scoring::ScoreUnit;
use crate::Result;
use crate::inference::{LanguageModel, Sampling, Sequence};
use crate::observe::{Detail, Observer, Progress, Stage};
use rustc_hash::FxBuildHasher;
use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::BuildHasher;
use std::time::Instant;

/// Tokens that are run to measure the speed.
const MEASURED: usize = 256;

/// What is to be evaluated.
#[derive(Default)]
pub struct Workload {
    /// Hashes of the sequences: a collision makes the estimate a little too low.
    seen: HashSet<u64>,
    /// A few of them, in their order.
    first: Vec<ScoreUnit>,
    /// Tokens in all, contexts of the gap included.
    pub tokens: u64,
}

impl Workload {
    /// Adds sequences, unless they are there or have scores on disk.
    pub fn add<U: Borrow<ScoreUnit>>(
        &mut self,
        units: impl IntoIterator<Item = U>,
        file: Option<&ScoreFile>,
    ) {
        for unit in units {
            let unit = unit.borrow();
            let done = file.is_some_and(|file| file.find(unit).is_some());
            if unit.scored().is_empty() || done || !self.seen.insert(FxBuildHasher.hash_one(unit)) {
                continue;
            }
            self.tokens += unit.tokens.len() as u64;
            if self.first.iter().map(|unit| unit.tokens.len()).sum::<usize>() < MEASURED {
                self.first.push(unit.clone());
            }
        }
    }

    /// Adds contexts that are run once each.
    pub fn add_contexts(&mut self, contexts: usize) {
        self.tokens += contexts as u64;
    }

    /// Runs a few of the sequences, and tells the observer how much there is and how long it will take. If there are no more than
    /// these few, nothing is run.
    pub fn announce(
        &self,
        model: &dyn LanguageModel,
        sampling: Sampling,
        observer: &dyn Observer,
    ) -> Result<()> {
        let mut seconds = None;
        if self.tokens > MEASURED as u64 {
            let (mut sequences, mut tokens) = (Vec::new(), 0);
            for unit in &self.first {
                let end = unit.tokens.len().min(MEASURED - tokens);
                tokens += end;
                sequences.push(Sequence { tokens: &unit.tokens[..end], scored: unit.from.min(end)..end });
                if tokens == MEASURED {
                    break;
                }
            }
            let start = Instant::now();
            model.score(&sequences, sampling)?;
            seconds =
                (tokens > 0).then(|| start.elapsed().as_secs_f64() / tokens as f64 * self.tokens as f64);
        }
        let progress = Progress::new(Stage::Auditing, 0, Some(self.tokens));
        observer.progress(&progress.with(Detail::Estimate { seconds }));
        observer.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inference::Network;
    use crate::model::{Model, ModelSpec, Preset};
    use std::sync::Mutex;

    #[derive(Default)]
    struct Heard(Mutex<Vec<(Option<u64>, bool)>>);

    impl Observer for Heard {
        fn progress(&self, progress: &Progress<'_>) {
            let Detail::Estimate { seconds } = progress.detail else { return };
            self.0.lock().unwrap().push((progress.total, seconds.is_some_and(|s| s > 0.0)));
        }
    }

    #[test]
    fn distinct_sequences_count_once_and_many_are_measured() {
        let config = ModelSpec::default().preset(Preset::Gpt2).d_model(16).resolve(50, 300).unwrap();
        let network = Network::from_model(&Model::random(config, 0).unwrap()).unwrap();
        let unit =
            |first: u32, n: u32| ScoreUnit { tokens: (0..n).map(|i| (first + i) % 50).collect(), from: 1 };
        let heard = Heard::default();
        let mut work = Workload::default();
        work.add(&[unit(0, 100), unit(0, 100), unit(1, 1), unit(2, 30)], None);
        work.announce(&network, Sampling::default(), &heard).unwrap();
        work.add(&[unit(3, 290), unit(0, 100)], None);
        work.add_contexts(7);
        work.announce(&network, Sampling::default(), &heard).unwrap();
        // A single token has nothing to score.
        assert_eq!(*heard.0.lock().unwrap(), [(Some(130), false), (Some(427), true)]);
    }
}
