//! Watching long work, and stopping it.
//!
//! Everything that may take longer than a moment takes an [`Observer`] as its last argument. The work reports to it how far
//! it has come ([`Progress`]) and asks it, at least every tenth of a second or so, whether to stop. A terminal's progress
//! bar, a notebook's and a web page are three implementations of this one trait.
//!
//! Work that is asked to stop returns [`Error::Interrupted`]. Training is the exception: it returns normally, with
//! `Stop::Interrupted` as its reason, because the weights so far are a result.
//!
//! ```
//! use byrote::corpus::{Corpus, Options, Outputs, Source};
//! use byrote::observe::{Observer, Progress, Stage};
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! /// Counts reports, and asks to stop after `most` of them.
//! struct Patience {
//!     seen: AtomicU64,
//!     most: u64,
//! }
//!
//! impl Observer for Patience {
//!     fn progress(&self, progress: &Progress<'_>) {
//!         assert!(matches!(progress.stage, Stage::Generating | Stage::Sorting | Stage::Counting));
//!         self.seen.fetch_add(1, Ordering::Relaxed);
//!     }
//!     fn should_stop(&self) -> bool {
//!         self.seen.load(Ordering::Relaxed) >= self.most
//!     }
//! }
//!
//! let read = |documents, most| {
//!     let observer = Patience { seen: AtomicU64::new(0), most };
//!     let source = Source::Stories { documents, seed: 0 };
//!     Corpus::read(&source, &Options::default(), Outputs::default(), &observer)
//! };
//! assert_eq!(read(100, u64::MAX)?.summary.documents, 100);
//! assert!(matches!(read(1 << 40, 3), Err(byrote::Error::Interrupted)));
//! # Ok::<(), byrote::Error>(())
//! ```

use crate::units::Nats;
use crate::{Error, Result};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Watches long work and may ask it to stop.
///
/// Both methods have defaults that do nothing, so an implementation may care about one of them only. They are called from
/// any thread, and from several at once.
pub trait Observer: Sync {
    /// Receives a report. Called often, so it should return quickly.
    fn progress(&self, _: &Progress<'_>) {}

    /// Whether the work should stop. Asked often, so it should be cheap; once true, it should stay true.
    fn should_stop(&self) -> bool {
        false
    }

    /// Returns [`Error::Interrupted`] if the work should stop.
    fn check(&self) -> Result<()> {
        if self.should_stop() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Reports how much of a stage is done, then checks whether to stop.
    fn report(&self, stage: Stage, done: u64, total: Option<u64>) -> Result<()> {
        self.progress(&Progress::new(stage, done, total));
        self.check()
    }
}

/// The observer of work that nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {}

/// How far a stage of the work has come.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// The kind of work.
    pub stage: Stage,
    /// How much of it is done, in the unit of the stage ([`Stage::unit`]).
    pub done: u64,
    /// How much of it there is, where that is known. An upper limit: training may reach its goal sooner.
    pub total: Option<u64>,
    /// The current numbers.
    pub detail: Detail<'a>,
}

impl<'a> Progress<'a> {
    /// A report without details.
    pub fn new(stage: Stage, done: u64, total: Option<u64>) -> Self {
        Self { stage, done, total, detail: Detail::None }
    }

    /// The same report with the current numbers.
    pub fn with(self, detail: Detail<'a>) -> Self {
        Self { detail, ..self }
    }
}

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Reading and tokenizing files; counted in bytes of the input, before decompression.
    Reading,
    /// Generating documents; counted in documents.
    Generating,
    /// Generating sequences of vectors and the maps behind them; counted in vectors.
    Sequences,
    /// Sorting documents; not counted.
    Sorting,
    /// Merging sorted runs; counted in documents.
    Merging,
    /// Passing sorted documents to what was asked for: contexts, a list, a summary; counted in documents.
    Counting,
    /// Writing the list of contexts; counted in bytes.
    Listing,
    /// Drawing random projections of contexts until they are distinct; counted in trials.
    Mapping,
    /// Searching for hash functions; counted in facts.
    Searching,
    /// Solving a linear system; counted in columns of the matrix.
    Solving,
    /// Fitting an encoder or codes by descent; counted in steps.
    Fitting,
    /// Checking a network on every sample; counted in samples.
    Verifying,
    /// Enclosing the mixer's output for every context; counted in contexts.
    Enclosing,
    /// Enclosing the logits of every context; counted in contexts.
    Certifying,
    /// Training a model; counted in steps.
    Training,
    /// Measuring a model; counted in contexts.
    Evaluating,
    /// Running a language model on a text; counted in tokens.
    Auditing,
    /// Running the jobs of a sweep; counted in jobs.
    Jobs,
    /// Running causal kernel descent; counted in blocks of vectors and in layers.
    Descending,
    /// Certifying a rank; counted in steps of the elimination.
    Ranking,
    /// Drawing pages and figures; counted in figures.
    Drawing,
}

impl Stage {
    /// What `done` and `total` count, in the plural.
    pub fn unit(self) -> &'static str {
        match self {
            Stage::Reading | Stage::Listing => "bytes",
            Stage::Generating | Stage::Sorting | Stage::Counting | Stage::Merging => "documents",
            Stage::Mapping => "trials",
            Stage::Searching => "facts",
            Stage::Solving => "columns",
            Stage::Verifying => "samples",
            Stage::Enclosing | Stage::Certifying | Stage::Evaluating => "contexts",
            Stage::Fitting | Stage::Training | Stage::Ranking => "steps",
            Stage::Auditing => "tokens",
            Stage::Jobs => "jobs",
            Stage::Descending => "blocks",
            Stage::Sequences => "vectors",
            Stage::Drawing => "figures",
        }
    }

    /// Whether ending the process in the middle of this stage loses nothing: its result is all or nothing, and files get
    /// their names only once they are complete. Training and sweeps save what they have when they are asked to stop.
    pub fn has_nothing_to_keep(self) -> bool {
        !matches!(self, Stage::Training | Stage::Jobs)
    }
}

/// One word, such as "reading".
impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Stage::Reading => "reading",
            Stage::Generating | Stage::Sequences => "generating",
            Stage::Sorting => "sorting",
            Stage::Counting => "counting",
            Stage::Merging => "merging",
            Stage::Listing => "listing",
            Stage::Mapping => "mapping",
            Stage::Searching => "searching",
            Stage::Solving => "solving",
            Stage::Fitting => "fitting",
            Stage::Verifying => "verifying",
            Stage::Enclosing => "enclosing",
            Stage::Certifying => "certifying",
            Stage::Training => "training",
            Stage::Evaluating => "evaluating",
            Stage::Auditing => "auditing",
            Stage::Jobs => "running",
            Stage::Descending => "descending",
            Stage::Ranking => "ranking",
            Stage::Drawing => "drawing",
        })
    }
}

/// The current numbers of a stage.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Detail<'a> {
    /// Nothing more to say.
    None,
    /// Documents kept so far.
    Documents(u64),
    /// The state of a training run.
    #[non_exhaustive]
    Training {
        /// Steps taken.
        step: u64,
        /// The loss when it was last measured, over all predictions.
        loss: Nats,
        /// The loss minus the floor.
        gap: Nats,
        /// The lowest loss that any model can reach.
        floor: Nats,
        /// Distinct contexts.
        contexts: u64,
        /// Predictions, over which the loss, the gap and the floor are summed.
        predictions: u64,
    },
    /// The state of one of the jobs that are running.
    #[non_exhaustive]
    Job {
        /// Its index in the plan.
        job: usize,
        /// Steps it has taken.
        step: u64,
        /// Steps it may take.
        steps: u64,
        /// Its loss minus the floor.
        gap: Nats,
        /// Its distinct contexts.
        contexts: u64,
        /// Its predictions, over which the gap is summed.
        predictions: u64,
    },
    /// How long the work is expected to take, in seconds; none where it is too short to tell.
    #[non_exhaustive]
    Estimate {
        /// The expected time.
        seconds: Option<f64>,
    },
    /// A remark for people, which a quiet program leaves out.
    Note(&'a str),
    /// Something went wrong that does not end the work; shown even by a quiet program.
    Warning(&'a str),
}

/// Counts pieces of work that several threads finish in any order.
pub(crate) struct Counter<'a> {
    observer: &'a dyn Observer,
    stage: Stage,
    done: AtomicU64,
    total: Option<u64>,
}

impl<'a> Counter<'a> {
    pub(crate) fn new(observer: &'a dyn Observer, stage: Stage, total: Option<u64>) -> Self {
        Self { observer, stage, done: AtomicU64::new(0), total }
    }

    /// Reports that `pieces` more are done, then checks whether to stop.
    pub(crate) fn add(&self, pieces: u64) -> Result<()> {
        let done = self.done.fetch_add(pieces, Ordering::Relaxed) + pieces;
        self.observer.report(self.stage, done, self.total)
    }
}

/// An observer that asks to stop once it has been asked `patience` times.
#[cfg(test)]
pub(crate) struct Impatient {
    asked: AtomicU64,
    patience: u64,
}

#[cfg(test)]
impl Impatient {
    pub(crate) fn new(patience: u64) -> Self {
        Self { asked: AtomicU64::new(0), patience }
    }
}

#[cfg(test)]
impl Observer for Impatient {
    fn should_stop(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) >= self.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rayon::prelude::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Log(Mutex<Vec<(Stage, u64, Option<u64>)>>);

    impl Observer for Log {
        fn progress(&self, progress: &Progress<'_>) {
            self.0.lock().unwrap().push((progress.stage, progress.done, progress.total));
        }
    }

    #[test]
    fn a_report_reaches_the_observer_before_it_is_asked_to_stop() {
        let log = Log::default();
        log.report(Stage::Solving, 3, Some(7)).unwrap();
        assert_eq!(*log.0.lock().unwrap(), [(Stage::Solving, 3, Some(7))]);
        let impatient = Impatient::new(1);
        assert!(impatient.report(Stage::Solving, 0, None).is_ok());
        assert!(matches!(impatient.report(Stage::Solving, 1, None), Err(Error::Interrupted)));
    }

    #[test]
    fn pieces_of_several_threads_add_up() {
        let log = Log::default();
        let counter = Counter::new(&log, Stage::Verifying, Some(300));
        (0..100).into_par_iter().try_for_each(|_| counter.add(3)).unwrap();
        let mut done: Vec<u64> = log.0.lock().unwrap().iter().map(|r| r.1).collect();
        done.sort_unstable();
        assert_eq!(done, (1..=100).map(|i| 3 * i).collect::<Vec<_>>());
        let impatient = Impatient::new(10);
        let counter = Counter::new(&impatient, Stage::Verifying, None);
        let stopped = (0..100).into_par_iter().try_for_each(|_| counter.add(1));
        assert!(matches!(stopped, Err(Error::Interrupted)));
    }

    #[test]
    fn only_training_has_something_to_keep() {
        assert!(!Stage::Training.has_nothing_to_keep() && !Stage::Jobs.has_nothing_to_keep());
        assert!(Stage::Solving.has_nothing_to_keep() && Stage::Reading.has_nothing_to_keep());
        assert_eq!(format!("{:>10}", Stage::Solving), "   solving");
    }
}
