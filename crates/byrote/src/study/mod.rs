//! The main job: everything byrote can say about one text.
//!
//! [`run`] reads a corpus, builds models in closed form and certifies them, trains models of several widths, and returns a
//! [`Study`]. The study is saved as `study.json` in its directory, so that its report can be drawn again at any time. The
//! directory also holds the models and the training runs:
//!
//! ```text
//! study.json          the result
//! closed_forms.json   models in closed form as they are finished, so that an interrupted study keeps them
//! models/             every model, built and trained, by a readable name
//! training/           the run directory of the training runs (see `sweep`)
//! ```
//!
//! ```
//! use byrote::corpus::CorpusSpec;
//! use byrote::observe::Silent;
//! use byrote::study::{self, StudyScale, StudySpec};
//!
//! let directory = tempfile::tempdir()?;
//! let spec = StudySpec::default().corpus(CorpusSpec::default().builtin(12)).scale(StudyScale::Quick);
//! let study = study::run(&spec, directory.path(), None, &Silent)?;
//! assert_eq!(study.summary.documents, 12);
//! assert_eq!(study::Study::load(directory.path())?, study);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod closed_form;
mod part;
pub(crate) mod spec;
mod training;

pub use closed_form::{BuildOutcome, BuiltModel, ClosedForm, ModelProof};
pub use part::Part;
pub use spec::{StudyScale, StudySpec};
pub use training::{TrainedModel, WorstContext};

use crate::corpus::{Corpus, CorpusSpec, Options, Outputs, Summary, TokenizerChoice};
use crate::incontext::{self, Attention, ErrorSeries, Kernel, Map, PredictionMethod, Sequence, SequenceTask};
use crate::input::{MOST_HELD, read_text_capped};
use crate::num::hash::fnv1a;
use crate::observe::{Detail, Observer, Progress, Stage};
use crate::output::{Holds, OutputFile, claim, lock};
use crate::units::grouped;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of the file that holds a study.
pub const FILE: &str = "study.json";

/// Everything a study found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Study {
    /// The version of byrote that made it.
    pub version: String,
    /// The corpus in a few words.
    pub title: String,
    /// The command that makes the study again, where there was one.
    pub command: Option<String>,
    /// The settings.
    pub spec: StudySpec,
    /// The figures of the whole corpus.
    pub summary: Summary,
    /// The part of it that was built and trained on.
    pub part: Part,
    /// Models in closed form.
    pub built: Vec<ClosedForm>,
    /// Trained models of one layer, by width.
    pub trained: Vec<TrainedModel>,
    /// Trained models of several layers, by width; empty unless requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deep: Vec<TrainedModel>,
    /// The contexts that the best trained model knows worst.
    pub worst: Vec<WorstContext>,
    /// Errors of transformers that learn in context, if requested.
    pub in_context: Vec<ErrorSeries>,
}

impl Study {
    /// Reads the study of a directory.
    pub fn load(directory: &Path) -> Result<Self> {
        let path = directory.join(FILE);
        Self::from_text(&path, &read_text_capped(&path, MOST_HELD, "a study")?)
    }

    /// Reads a study from the text of its file; `path` is for errors.
    pub fn from_text(path: &Path, text: &str) -> Result<Self> {
        if !is_authentic(text) {
            let message = "the checksum does not match: this file was edited or damaged; run the study again to restore it";
            return Err(Error::format(path, message));
        }
        serde_json::from_str(text).map_err(|e| {
            // The version is readable even where the rest has changed.
            let version = serde_json::from_str::<serde_json::Value>(text)
                .ok()
                .and_then(|v| Some(v.get("version")?.as_str()?.to_owned()));
            let by = version.map_or(String::new(), |v| format!(" (written by byrote {v})"));
            Error::format(path, format!("is not a study that this version reads{by}: {e}"))
        })
    }

    /// Writes the study into a directory; returns the path of the file.
    pub fn save(&self, directory: &Path) -> Result<PathBuf> {
        let path = directory.join(FILE);
        // A struct of numbers and text always serialises.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        OutputFile::write(&path, signed(&text).as_bytes())?;
        Ok(path)
    }

    /// The trained model with the fewest neurons that came within 1% of the floor.
    pub fn threshold(&self) -> Option<&TrainedModel> {
        self.trained
            .iter()
            .filter(|t| t.row.relative_gap().is_some_and(|g| g <= 0.01))
            .min_by_key(|t| t.row.d_mlp)
    }

    /// Training runs that ended with an error.
    pub fn failed(&self) -> usize {
        self.trained.iter().filter(|t| t.row.result.is_none()).count()
    }
}

/// Where the checksum of a study begins.
const CHECKSUM: &str = ",\n  \"checksum\": \"";

/// A study as JSON with its checksum as the last field, so that an edited number is noticed.
fn signed(text: &str) -> String {
    let body = text.strip_suffix("\n}").unwrap_or(text);
    format!("{body}{CHECKSUM}{:016x}\"\n}}\n", fnv1a(text.as_bytes()))
}

/// Whether the checksum, if there is one, matches the rest. Files of older versions have none.
fn is_authentic(text: &str) -> bool {
    text.rfind(CHECKSUM).is_none_or(|start| signed(&format!("{}\n}}", &text[..start])) == text)
}

/// Runs a study in a directory, which is created where needed and locked while the study runs.
///
/// Interrupted or repeated, the study keeps what is finished: the same call continues. If the directory holds a study of another
/// corpus, its results are moved aside first ([`Detail::Note`] says where). A directory that holds something else, such as a
/// sweep, is refused before anything is read.
pub fn run(
    spec: &StudySpec,
    directory: &Path,
    command: Option<&str>,
    observer: &dyn Observer,
) -> Result<Study> {
    run_with(spec, Outputs::default(), directory, command, observer)
}

/// As [`run`], writing a summary or a list of the whole corpus as it is read.
pub fn run_with(
    spec: &StudySpec,
    outputs: Outputs,
    directory: &Path,
    command: Option<&str>,
    observer: &dyn Observer,
) -> Result<Study> {
    spec.check()?;
    let _claim = claim(directory, Holds::Study)?;
    note(observer, &format!("reading {}", spec.corpus.title()));
    let (corpus_spec, corpus) = read(spec, outputs, observer)?;
    let whole = corpus.whole.as_deref().unwrap_or(&corpus.summary).clone();
    let (part, dataset) = part::choose(spec, corpus, observer)?;
    let dataset = Arc::new(dataset);
    let _lock = lock(directory)?;
    if !part.is_all {
        note(
            observer,
            &format!(
                "building and training on {}, {} contexts",
                part.in_words(&whole),
                grouped(part.contexts)
            ),
        );
    }
    if closed_form::are_of_another_study(spec, &dataset, directory) {
        set_aside(directory, &["models", closed_form::FILE], observer)?;
    }
    let built = closed_form::build_all(spec, &dataset, directory, observer)?;
    let (trained, deep, worst) =
        training::run(spec, &corpus_spec, &part, dataset, directory, command, observer)?;
    let in_context = if spec.incontext { in_context(spec.corpus.seed, observer)? } else { Vec::new() };
    let study = Study {
        version: env!("CARGO_PKG_VERSION").into(),
        title: spec.corpus.title(),
        command: command.map(str::to_owned),
        spec: StudySpec { corpus: corpus_spec, ..spec.clone() },
        summary: whole,
        part,
        built,
        trained,
        deep,
        worst,
        in_context,
    };
    study.save(directory)?;
    Ok(study)
}

/// Moves the training runs and the page of the previous study in a directory out of the way, and `also`.
fn set_aside(directory: &Path, also: &[&str], observer: &dyn Observer) -> Result<()> {
    let moved: Vec<&str> = [training::FOLDER, "figures", "report.html", FILE]
        .iter()
        .chain(also)
        .copied()
        .filter(|name| directory.join(name).exists())
        .collect();
    let renamed = |name: &str, n: u32| match name.split_once('.') {
        Some((stem, extension)) => format!("{stem}-{n}.{extension}"),
        None => format!("{name}-{n}"),
    };
    let free = |n: &u32| moved.iter().all(|name| !directory.join(renamed(name, *n)).exists());
    let n = (1..).find(free).unwrap_or_default();
    for name in &moved {
        let from = directory.join(name);
        std::fs::rename(&from, directory.join(renamed(name, n)))
            .map_err(|e| Error::io(&from, "rename", e))?;
    }
    let names: Vec<String> = moved.iter().map(|name| renamed(name, n)).collect();
    note(observer, &format!("moved the previous study out of the way: {}", names.join(", ")));
    Ok(())
}

/// Tells the observer what begins.
fn note(observer: &dyn Observer, text: &str) {
    observer.progress(&Progress::new(Stage::Jobs, 0, None).with(Detail::Note(text)));
}

/// Reads the corpus once, keeping its contexts if they are few and its first documents otherwise.
///
/// Every line of a word list is one token, so there is nothing to predict; such files are read as characters instead.
fn read(spec: &StudySpec, outputs: Outputs, observer: &dyn Observer) -> Result<(CorpusSpec, Corpus)> {
    let (max_contexts, head) = (Some(part::most_contexts(spec)), Some(part::head_tokens(spec)));
    let mut given = spec.corpus.clone();
    given.max_memory = given.max_memory.or(spec.memory);
    let max_work = Some(spec.scale.limits().work);
    let asked = Outputs { contexts: true, max_contexts, max_work, head, ..outputs };
    let (source, options) = given.resolve()?;
    let is_text = !given.paths.is_empty() && given.tokenizer.is_none();
    let options = Options { letters_of_words: is_text, ..options };
    let corpus = Corpus::read(&source, &options, asked, observer)?;
    let letters = TokenizerChoice::Char;
    if is_text && corpus.summary.tokenizer == letters.to_string() {
        note(observer, "every document is a single word: reading characters instead");
        return Ok((spec.corpus.clone().tokenizer(letters), corpus));
    }
    Ok((spec.corpus.clone(), corpus))
}

/// Sequences of the demonstration of in-context learning, their length and their dimension.
const SEQUENCES: u64 = 20;
const LENGTH: usize = 120;
const DIMENSION: usize = 15;

/// Errors of causal kernel descent on linear sequences: in the limit and with a few numbers of layers.
fn in_context(seed: u64, observer: &dyn Observer) -> Result<Vec<ErrorSeries>> {
    note(observer, "learning in context: causal kernel descent on linear sequences");
    let (task, kernel) = (SequenceTask::Linear(Map::Orthogonal), Kernel::exp(1.0)?);
    let known = incontext::sequences(task, DIMENSION, LENGTH, seed, 0, SEQUENCES)?;
    let seen: Vec<Sequence> = known.iter().map(|x| x.first(LENGTH)).collect::<Result<_>>()?;
    [
        ("limit", "infinitely many layers", PredictionMethod::Direct),
        ("layers-4", "4 layers", PredictionMethod::layers(4)),
        ("layers-16", "16 layers", PredictionMethod::layers(16)),
        ("layers-64", "64 layers", PredictionMethod::layers(64)),
    ]
    .into_iter()
    .map(|(key, label, method)| {
        let found = incontext::predict(&seen, kernel, Attention::Softmax, method, observer)?;
        let errors = incontext::errors_at(&found.predictions, &known);
        Ok(ErrorSeries { key: key.into(), label: label.into(), errors })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edited_study_is_refused_and_an_old_one_is_read() {
        let text = "{\n  \"version\": \"0.1.0\",\n  \"gap\": 0.25\n}";
        let whole = signed(text);
        assert!(serde_json::from_str::<serde_json::Value>(&whole).is_ok(), "{whole}");
        assert!(is_authentic(&whole) && is_authentic(text) && is_authentic(&format!("{text}\n")));
        assert!(!is_authentic(&whole.replace("0.25", "0.24")));
        assert!(!is_authentic(&whole.replace("checksum\": \"", "checksum\": \"0")));
    }
}
