//! The one error type of the library.
//!
//! Every variant carries what a caller needs to act: where (path, line, byte offset), what was found, what was
//! expected. A *negative result* (a bound that does not apply, a corpus without contexts) is a value, not an error.

use std::io;
use std::path::{Path, PathBuf};

/// What the library returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong with an input, a setting or the machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused: missing file, directory, permission, full disk.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The file concerned.
        path: PathBuf,
        /// A verb for the message: "read", "write", "create".
        action: &'static str,
        /// The system's own words.
        #[source]
        source: io::Error,
    },
    /// Another process is at work in a run directory.
    #[error("{}: another process is at work here: {holder}", path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
        /// Who holds it.
        holder: String,
    },
    /// A run directory holds another run.
    #[error("{}: holds another run ({name}, {jobs} jobs; a plan, a corpus or the program's version differs); take another directory", path.display())]
    OtherRun {
        /// The directory.
        path: PathBuf,
        /// The name of its plan.
        name: String,
        /// Its jobs.
        jobs: usize,
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
    /// A file whose content is not what its name or the options say.
    #[error("{}{}: {message}", path.display(), line.map(|l| format!(", line {l}")).unwrap_or_default())]
    Format {
        /// The file concerned.
        path: PathBuf,
        /// The line or record, from 1, where there is one.
        line: Option<u64>,
        /// What was found, what was expected, what to do.
        message: String,
    },
    /// A setting outside its range, or settings that contradict each other.
    #[error("{name}: {message}")]
    Setting {
        /// The field's name, such as `n_ctx`; every front end spells it its own way.
        name: &'static str,
        /// What is wrong and what is allowed. Other settings stand in backticks: `` `batch` ``, `` `tokenizer = char` ``.
        message: String,
    },
    /// Nothing to count.
    #[error("no documents: {message}")]
    EmptyCorpus {
        /// How many documents were read and why none was kept.
        message: String,
    },
    /// Two shard summaries made with different settings.
    #[error("{} and {} cannot be merged: {message}", left.display(), right.display())]
    Incompatible {
        /// The first summary.
        left: PathBuf,
        /// The summary that differs from it.
        right: PathBuf,
        /// The setting that differs, with both values.
        message: String,
    },
    /// A builder that cannot write down what was asked for.
    #[error("{builder}: {refusal}")]
    Refused {
        /// The paper's key.
        builder: &'static str,
        /// Why.
        refusal: Refusal,
    },
    /// A sequence of vectors that a method cannot work on.
    #[error("sequence{}: {message}", t.map(|t| format!(", t = {t}")).unwrap_or_default())]
    Sequence {
        /// The step concerned, from 1, where there is one.
        t: Option<usize>,
        /// What was found, what is needed, what to do.
        message: String,
    },
    /// A step size with which layers of descent lose their digits or diverge.
    #[error("eta: {eta} {why}; the largest safe step here is {largest:.6}")]
    UnstableStep {
        /// The step size asked for.
        eta: f64,
        /// The largest that is safe.
        largest: f64,
        /// What it would do.
        why: String,
    },
    /// A figure or a page that cannot be drawn.
    #[error(transparent)]
    Figure(#[from] byrote_figures::Error),
    /// The caller's observer asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Why a builder refuses: the hypothesis of its theorem that fails, or what the arithmetic cannot carry.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Fewer neurons than contexts.
    #[error("{neurons} neurons for {contexts} contexts; the construction takes one a context")]
    TooFewNeurons {
        /// Neurons asked for.
        neurons: u64,
        /// Contexts to store.
        contexts: u64,
    },
    /// A context twice.
    #[error("the contexts {first} and {second} are the same")]
    DuplicateContext {
        /// A context, by its place in the problem.
        first: usize,
        /// Another one.
        second: usize,
    },
    /// The mixer takes two contexts to points that cannot be told apart.
    #[error(
        "the mixer takes the contexts {first} and {second} to the same point, or nearly (a gap of {relative_gap:.1e} of \
         the range); give positions, another seed or more dimensions"
    )]
    Collision {
        /// A context, by its place in the problem.
        first: usize,
        /// Another one.
        second: usize,
        /// Their distance by the range of all contexts.
        relative_gap: f64,
    },
    /// More contexts than the heads and the skip connection can tell apart.
    #[error(
        "{contexts} contexts, at most {capacity} are stored exactly: n_heads min(d_head, d_model) and what {last_tokens} \
         distinct last tokens add; take more heads, or `method = refit`"
    )]
    CapacityExceeded {
        /// Contexts to store.
        contexts: usize,
        /// The most that can be.
        capacity: usize,
        /// Distinct last tokens of the contexts.
        last_tokens: usize,
    },
    /// Contexts of one token, which no head can tell apart.
    #[error(
        "{contexts} contexts of one token, which every head returns as it is: at most d_model = {d_model} of them are stored \
         exactly; take `d_model = {contexts}`, `contexts = full`, or `method = refit`"
    )]
    OneTokenContexts {
        /// Contexts of one token.
        contexts: usize,
        /// The width of the stream.
        d_model: u64,
    },
    /// Features that depend on each other, whatever the draw.
    #[error(
        "the features of {contexts} contexts have rank {rank}, though {capacity} dimensions are there: the contexts are too \
         much alike; take more heads, or `method = refit`"
    )]
    RankDeficient {
        /// The rank that was found.
        rank: usize,
        /// Contexts to store.
        contexts: usize,
        /// The most that contexts in general position could have.
        capacity: usize,
    },
    /// The map from the stream to the output cannot take what the heads give.
    #[error(
        "the skip connection cannot be absorbed: {lost:.1e} of what the heads give is lost; another seed may help"
    )]
    SkipSingular {
        /// The share that is lost.
        lost: f64,
    },
    /// No draw came close enough.
    #[error("the largest error of a logit is {error:.1e}, above {tolerance:.0e}; {advice}")]
    Residual {
        /// The largest error of the best draw.
        error: f64,
        /// What was asked for.
        tolerance: f64,
        /// What may help.
        advice: &'static str,
    },
    /// The numbers do not carry the construction.
    #[error(
        "{contexts} contexts at {bits} bits: the largest error of a logit is {error:.1e}, above {tolerance:.0e}; the \
         condition number is about 2^{log2_condition:.0}, {advice}"
    )]
    PrecisionExhausted {
        /// Contexts to store.
        contexts: usize,
        /// Bits of the arithmetic.
        bits: usize,
        /// log2 of the condition number of the features.
        log2_condition: f64,
        /// The largest error of a logit.
        error: f64,
        /// What was asked for.
        tolerance: f64,
        /// What may help.
        advice: &'static str,
    },
    /// The matrices do not fit into memory.
    #[error("takes {} of memory, {} is allowed; {advice}", crate::units::bytes(*needed), crate::units::bytes(*available))]
    Memory {
        /// Bytes.
        needed: u64,
        /// Bytes.
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

    /// A file whose content is wrong as a whole.
    pub fn format(path: impl AsRef<Path>, message: impl Into<String>) -> Self {
        Error::Format { path: path.as_ref().to_path_buf(), line: None, message: message.into() }
    }

    /// A file whose content is wrong at a line or record (from 1).
    pub fn format_at(path: impl AsRef<Path>, line: u64, message: impl Into<String>) -> Self {
        Error::Format { path: path.as_ref().to_path_buf(), line: Some(line), message: message.into() }
    }

    /// A setting out of range.
    pub fn setting(name: &'static str, message: impl Into<String>) -> Self {
        Error::Setting { name, message: message.into() }
    }

    /// A short stable name for programs: the `kind` field of the JSON error.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Io { .. } => "io",
            Error::Busy { .. } => "busy",
            Error::OtherRun { .. } => "other_run",
            Error::InvalidUtf8 { .. } => "invalid_utf8",
            Error::Format { .. } => "format",
            Error::Setting { .. } => "setting",
            Error::EmptyCorpus { .. } => "empty_corpus",
            Error::Incompatible { .. } => "incompatible",
            Error::Refused { .. } => "refused",
            Error::Sequence { .. } => "sequence",
            Error::UnstableStep { .. } => "unstable_step",
            Error::Figure(_) => "figure",
            Error::Interrupted => "interrupted",
        }
    }

    /// The setting that the message begins with, by its field's name.
    pub fn setting_name(&self) -> Option<&'static str> {
        match self {
            Error::Setting { name, .. } => Some(name),
            Error::UnstableStep { .. } => Some("eta"),
            _ => None,
        }
    }

    /// The file concerned, where there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::Io { path, .. }
            | Error::Busy { path, .. }
            | Error::OtherRun { path, .. }
            | Error::InvalidUtf8 { path, .. }
            | Error::Format { path, .. } => Some(path),
            Error::Incompatible { right, .. } => Some(right),
            Error::Setting { .. }
            | Error::EmptyCorpus { .. }
            | Error::Refused { .. }
            | Error::Sequence { .. }
            | Error::UnstableStep { .. }
            | Error::Figure(_)
            | Error::Interrupted => None,
        }
    }

    /// The line or record concerned (from 1), where there is one.
    pub fn line(&self) -> Option<u64> {
        match self {
            Error::InvalidUtf8 { line, .. } => Some(*line),
            Error::Format { line, .. } => *line,
            _ => None,
        }
    }
}
