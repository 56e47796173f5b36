//! The error type of the library.
//!
//! Every variant carries what a caller needs to act: the location (path, line, byte offset), what was found and what
//! was expected. A *negative result* (a bound that does not apply, a corpus without contexts) is a value, not an error.
//!
//! ```
//! use byrote::model::Shape;
//!
//! let error = Shape { d_model: 0, ..Shape::default() }.checked().unwrap_err();
//! assert_eq!((error.kind(), error.setting_name()), ("setting", Some("d_model")));
//! ```

use std::io;
use std::path::{Path, PathBuf};

/// The result type of the library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong with an input, a setting or the machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system reported an error, such as a missing file, a missing permission or a full disk.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The file concerned.
        path: PathBuf,
        /// A verb for the message: "read", "write", "create".
        action: &'static str,
        /// The error from the operating system.
        #[source]
        source: io::Error,
    },
    /// Another process is using a run directory.
    #[error("{}: another process is using this directory: {holder}", path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
        /// The process that holds it.
        holder: String,
    },
    /// A run directory belongs to a different run.
    #[error("{}: belongs to a different run ({name}, {jobs} {}, by byrote {version}; the plan, a corpus or the program differs); choose another directory", path.display(), if *jobs == 1 { "job" } else { "jobs" })]
    OtherRun {
        /// The directory.
        path: PathBuf,
        /// The name of its plan.
        name: String,
        /// Its number of jobs.
        jobs: usize,
        /// The version that made it.
        version: String,
    },
    /// Text that is not UTF-8.
    #[error(
        "{}, line {line}: invalid UTF-8 at byte {offset}; `lossy` replaces it, `tokenizer = byte` reads any bytes",
        path.display()
    )]
    InvalidUtf8 {
        /// The file concerned.
        path: PathBuf,
        /// The line (or record) it is on, from 1.
        line: u64,
        /// The byte offset, from 0, in the (decompressed) file; in a Parquet file, in the record.
        offset: u64,
    },
    /// A file whose content contradicts its name or the options.
    #[error("{}{}: {message}", path.display(), line.map(|l| format!(", line {l}")).unwrap_or_default())]
    Format {
        /// The file concerned.
        path: PathBuf,
        /// The line or record, from 1, if one is known.
        line: Option<u64>,
        /// What was found, what was expected, what to do.
        message: String,
    },
    /// A setting outside its range, or settings that contradict each other.
    #[error("{name}: {message}")]
    Setting {
        /// The field's name, such as `n_ctx`; each front end spells it in its own way.
        name: &'static str,
        /// What is wrong and what is allowed. Other settings are in backticks: `` `batch` ``, `` `tokenizer = char` ``.
        message: String,
    },
    /// A setting that does not exist.
    #[error("unknown setting `{name}`; {message}")]
    UnknownSetting {
        /// The name that was given.
        name: String,
        /// The nearest known name, or all of them.
        message: String,
    },
    /// There is nothing to count.
    #[error("{message}")]
    EmptyCorpus {
        /// What is missing, documents or contexts, and why.
        message: String,
    },
    /// Two shard summaries were made with different settings.
    #[error("{} and {} cannot be merged: {message}", left.display(), right.display())]
    Incompatible {
        /// The first summary.
        left: PathBuf,
        /// The summary that differs from it.
        right: PathBuf,
        /// The setting that differs, with both values.
        message: String,
    },
    /// A builder cannot construct the requested model.
    #[error("{builder}: {refusal}")]
    Refused {
        /// The paper's key.
        builder: &'static str,
        /// The reason.
        refusal: Refusal,
    },
    /// A sequence of vectors that a method cannot process.
    #[error("sequence{}: {message}", t.map(|t| format!(", t = {t}")).unwrap_or_default())]
    Sequence {
        /// The step concerned, from 1, if one is known.
        t: Option<usize>,
        /// What was found, what is needed, what to do.
        message: String,
    },
    /// A step size for which layers of gradient descent lose precision or diverge.
    #[error("eta: {eta} {why}; the largest safe step here is {largest:.6}")]
    UnstableStep {
        /// The requested step size.
        eta: f64,
        /// The largest safe step size.
        largest: f64,
        /// What the requested step size would do.
        why: String,
    },
    /// A figure or a page that cannot be drawn.
    #[error(transparent)]
    Figure(#[from] byrote_figures::Error),
    /// The caller's observer asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Why a builder refuses: a hypothesis of its theorem does not hold, or the arithmetic is not precise enough.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Fewer neurons than contexts.
    #[error("{neurons} neurons for {contexts} contexts; the construction needs one per context")]
    TooFewNeurons {
        /// The requested number of neurons.
        neurons: u64,
        /// The number of contexts to store.
        contexts: u64,
    },
    /// The mixer maps two contexts to points that cannot be distinguished.
    #[error(
        "the mixer maps contexts {first} and {second} to (almost) the same point (a gap of {relative_gap:.1e} of the \
         range); use positions, another seed or more dimensions"
    )]
    Collision {
        /// The index of a context in the dataset.
        first: usize,
        /// The index of the other one.
        second: usize,
        /// Their distance divided by the range of all contexts.
        relative_gap: f64,
    },
    /// More contexts than the heads and the skip connection can distinguish.
    #[error(
        "{contexts} contexts, but at most {capacity} can be stored exactly: n_heads min(d_head, d_model) plus what \
         {last_tokens} distinct last tokens add; use more heads or `method = refit`"
    )]
    CapacityExceeded {
        /// The number of contexts to store.
        contexts: usize,
        /// The largest number that can be stored.
        capacity: usize,
        /// The number of distinct last tokens of the contexts.
        last_tokens: usize,
    },
    /// Contexts of one token, which no head can distinguish.
    #[error(
        "{contexts} contexts of one token, which every head returns unchanged: at most d_model = {d_model} of them can be \
         stored exactly; use `d_model = {contexts}`, `contexts = full` or `method = refit`"
    )]
    OneTokenContexts {
        /// The number of contexts of one token.
        contexts: usize,
        /// The width of the residual stream.
        d_model: u64,
    },
    /// The features are linearly dependent for every draw.
    #[error(
        "the features of {contexts} contexts have rank {rank} in {capacity} dimensions: the contexts are too similar; \
         use more heads or `method = refit`"
    )]
    RankDeficient {
        /// The rank of the features.
        rank: usize,
        /// The number of contexts to store.
        contexts: usize,
        /// The largest rank that contexts in general position could have.
        capacity: usize,
    },
    /// The map from the residual stream to the output cannot represent the output of the heads.
    #[error(
        "the skip connection cannot be absorbed: {lost:.1e} of the heads' output is lost; another seed may help"
    )]
    SkipSingular {
        /// The fraction that is lost.
        lost: f64,
    },
    /// No draw was accurate enough.
    #[error("the largest error of a logit is {error:.1e}, above {tolerance:.0e}; {advice}")]
    Residual {
        /// The largest error of the best draw.
        error: f64,
        /// The requested tolerance.
        tolerance: f64,
        /// What may help.
        advice: &'static str,
    },
    /// The arithmetic is not precise enough for the construction.
    #[error(
        "{contexts} contexts at {bits} bits: the largest error of a logit is {error:.1e}, above {tolerance:.0e}; the \
         condition number is about 2^{log2_condition:.0}; {advice}"
    )]
    PrecisionExhausted {
        /// The number of contexts to store.
        contexts: usize,
        /// The bits of the arithmetic.
        bits: usize,
        /// log2 of the condition number of the features.
        log2_condition: f64,
        /// The largest error of a logit.
        error: f64,
        /// The requested tolerance.
        tolerance: f64,
        /// What may help.
        advice: &'static str,
    },
    /// The matrices do not fit in memory.
    #[error("needs {} of memory, but only {} is allowed; {advice}", crate::units::bytes(*needed), crate::units::bytes(*available))]
    Memory {
        /// The bytes needed.
        needed: u64,
        /// The bytes allowed.
        available: u64,
        /// What may help.
        advice: &'static str,
    },
}

impl Error {
    /// Wraps an I/O error with the path and the verb.
    pub fn io(path: impl AsRef<Path>, action: &'static str, source: io::Error) -> Self {
        Error::Io { path: path.as_ref().to_path_buf(), action, source }
    }

    /// Creates an error for a file whose content is wrong as a whole.
    pub fn format(path: impl AsRef<Path>, message: impl Into<String>) -> Self {
        Error::Format { path: path.as_ref().to_path_buf(), line: None, message: message.into() }
    }

    /// Creates an error for a file whose content is wrong at a line or record (from 1).
    pub fn format_at(path: impl AsRef<Path>, line: u64, message: impl Into<String>) -> Self {
        Error::Format { path: path.as_ref().to_path_buf(), line: Some(line), message: message.into() }
    }

    /// Creates an error for an invalid setting.
    pub fn setting(name: &'static str, message: impl Into<String>) -> Self {
        Error::Setting { name, message: message.into() }
    }

    /// Creates the error for a corpus in which nothing is predicted.
    pub fn no_contexts() -> Self {
        let message = "no context is followed by a token; if every document is a single word, `tokenizer = char` reads \
                       characters";
        Error::EmptyCorpus { message: message.into() }
    }

    /// Returns a short stable name for programs: the `kind` field of the JSON error.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Io { .. } => "io",
            Error::Busy { .. } => "busy",
            Error::OtherRun { .. } => "other_run",
            Error::InvalidUtf8 { .. } => "invalid_utf8",
            Error::Format { .. } => "format",
            Error::Setting { .. } => "setting",
            Error::UnknownSetting { .. } => "unknown_setting",
            Error::EmptyCorpus { .. } => "empty_corpus",
            Error::Incompatible { .. } => "incompatible",
            Error::Refused { .. } => "refused",
            Error::Sequence { .. } => "sequence",
            Error::UnstableStep { .. } => "unstable_step",
            Error::Figure(_) => "figure",
            Error::Interrupted => "interrupted",
        }
    }

    /// Returns the setting that the message begins with, by its field name.
    pub fn setting_name(&self) -> Option<&'static str> {
        match self {
            Error::Setting { name, .. } => Some(name),
            Error::UnstableStep { .. } => Some("eta"),
            _ => None,
        }
    }

    /// Returns the file concerned, if there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::Io { path, .. }
            | Error::Busy { path, .. }
            | Error::OtherRun { path, .. }
            | Error::InvalidUtf8 { path, .. }
            | Error::Format { path, .. } => Some(path),
            Error::Incompatible { right, .. } => Some(right),
            Error::Setting { .. }
            | Error::UnknownSetting { .. }
            | Error::EmptyCorpus { .. }
            | Error::Refused { .. }
            | Error::Sequence { .. }
            | Error::UnstableStep { .. }
            | Error::Figure(_)
            | Error::Interrupted => None,
        }
    }

    /// Returns the line or record concerned (from 1), if there is one.
    pub fn line(&self) -> Option<u64> {
        match self {
            Error::InvalidUtf8 { line, .. } => Some(*line),
            Error::Format { line, .. } => *line,
            _ => None,
        }
    }
}
