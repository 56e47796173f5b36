//! What a language model has memorized of a text.
//!
//! One pass with the true text as input (*teacher forcing*) gives six numbers per position
//! ([`PositionScore`](crate::inference::PositionScore)); every published measure of memorization follows from them. The literature
//! uses one word for several of these, so every measure has one name here:
//!
//! | name | meaning | called elsewhere |
//! |---|---|---|
//! | extractable | greedy decoding continues k tokens with the next m, token for token | k-extractable, exact match (of sequences) |
//! | teacher-forced accuracy | share of the m tokens that are the most likely one, given the true text before | exact memorization, exact match (of tokens) |
//! | free-running accuracy | share of positions at which greedy decoding agrees with the m tokens | memorization score |
//! | p_z | probability that sampling (top-k, temperature) produces the m tokens | probabilistic extraction |
//! | (n, p)-discoverable | n samples produce them at least once with probability p | |
//! | extraction strength | share of the m tokens that follow once the others are given | |
//! | bits | code length of the text under the model | loss, perplexity |
//! | unintended bits | how much shorter that is than under a reference model | unintended memorization |
//! | gap | distance of the loss to the lowest possible one | |
//!
//! ```text
//! spec, preset -> settings           collection: documents in the model's tokens
//! passes: documents, windows ------> estimate -> scores (scoring, score_file: resumable)
//! window_score, document_score, tally, coverage, duplicates, recall_curve, gap, canaries -> Audit -> verdict
//! ```

mod canaries;
mod collection;
mod compare;
mod control;
mod coverage;
mod document_score;
mod duplicates;
mod estimate;
mod gap;
mod given;
mod interval;
mod passages;
mod passes;
mod preset;
mod recall_curve;
mod rows;
mod score_file;
mod scoring;
mod spec;
mod subject;
mod tally;
mod text_audit;
mod verdict;
mod window_score;
mod windows;

pub use canaries::{Canary, CanaryFigures, CanaryGroup, CanaryScore};
pub use collection::{AuditDocument, Collection, TextTokens};
pub use compare::{AuditComparison, ComparedDocument, ComparedFigure, compare};
pub use control::{Difference, ReferenceFigures};
pub use coverage::{Stretch, Strip};
pub use document_score::{DocumentScore, HitRun, ScoredDocument, copyable};
pub use duplicates::DuplicateGroup;
pub use gap::{AuditGap, GapRow, WorstContext};
pub use given::GivenScores;
pub use interval::{IntervalMethod, ShareInterval, auroc, share_interval, wilson};
pub use passages::{ContextText, MARKED_STEPS, MarkedDocument, MarkedPassage, MarkedStretch, Passages};
pub use preset::{AuditPreset, Placement};
pub use recall_curve::RecallPoint;
pub use rows::{POSITIONS_FILE, documents_csv, positions_csv, strip_csv, windows_csv};
pub use spec::{AuditContext, AuditSettings, AuditSpec, GapContexts, StartToken, TextSpec, WindowStride};
pub use subject::{ModelFacts, Subject};
pub use tally::{
    CoverageShares, DecadeCount, DecodedScore, FrontierPoint, THRESHOLDS, ThresholdShare, WindowFigures,
    WindowTally,
};
pub use text_audit::{
    DocumentAudit, DocumentContext, Known, MeasuredText, ScoredWindows, TextAudit, TextFacts, TextRun,
};
pub use window_score::{WindowScore, draws_needed};
pub use windows::AuditWindow;

use crate::corpus::whole_documents::{block_length, whole_documents};
use crate::input::{MOST_HELD, read_capped};
use crate::num::hash::fnv1a;
use crate::observe::Observer;
use crate::output::{Holds, OutputFile, claim, lock};
use crate::{Error, Result};
use estimate::Workload;
use passes::Pieces;
use score_file::ScoreFile;
use scoring::Scorer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The result of an audit, saved as `audit.json`. It holds nothing of time, threads or machines: the same model, text and settings
/// give the same bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Audit {
    /// The version that made it.
    pub version: String,
    /// The model.
    pub model: ModelFacts,
    /// Every setting.
    pub settings: AuditSettings,
    /// Which numbers the model gives.
    pub known: Known,
    /// The measures of the corpus.
    #[serde(flatten)]
    pub text: TextAudit,
    /// Tokens that the model was run on.
    pub evaluated_tokens: u64,
    /// The distance to the floor.
    pub gap: Option<AuditGap>,
    /// Windows by how often their suffix occurs.
    pub duplicates: Vec<DuplicateGroup>,
    /// The measures of the held-out text.
    pub held_out: Option<TextAudit>,
    /// How well each score tells the documents of the corpus from held-out ones: 0.5 is chance.
    pub auroc: BTreeMap<String, f64>,
    /// Corpus minus held-out text, with intervals.
    pub differences: Vec<Difference>,
    /// The comparison with a reference model.
    pub reference: Option<ReferenceFigures>,
    /// Inserted strings.
    pub canaries: Option<CanaryFigures>,
    /// What to repeat: at most five lines.
    pub verdict: Vec<String>,
}

impl Audit {
    /// The name of the file in its directory.
    pub const FILE: &'static str = "audit.json";

    /// Reads an audit from its file, or from the directory that holds it.
    pub fn load(path: &Path) -> Result<Self> {
        let path = if path.is_dir() { &path.join(Self::FILE) } else { path };
        let bytes = read_capped(path, MOST_HELD, "an audit")?;
        serde_json::from_slice(&bytes).map_err(|e| Error::format(path, format!("not an audit: {e}")))
    }

    /// The audit as JSON.
    pub fn to_json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|e| Error::setting("audit", e.to_string()))
    }

    /// The share of windows that are extractable: of those run alone, or else in document context.
    pub fn extractable_share(&self) -> Option<f64> {
        let document = self.text.document_context.as_ref().map(|context| &context.all);
        self.text.windows.as_ref().or(document).and_then(|figures| figures.share)
    }
}

/// What to audit.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct AuditJob {
    /// The text.
    pub text: TextSpec,
    /// How.
    pub spec: AuditSpec,
    /// Text of the same kind that the model has not been trained on.
    pub held_out: Vec<PathBuf>,
    /// Strings that were inserted into the training text.
    pub canaries: Option<PathBuf>,
    /// The seed of drawn windows and intervals.
    pub seed: u64,
}

crate::setting::setters!(AuditJob {
    text: plain(TextSpec),
    spec: plain(AuditSpec),
    held_out: plain(Vec<PathBuf>),
    canaries: into(impl Into<Option<PathBuf>>),
    seed: plain(u64),
});

/// An audit with what its tables and pages show besides.
#[derive(Debug)]
pub struct Audited {
    /// The result.
    pub audit: Audit,
    /// The documents of the corpus.
    pub collection: Collection,
    /// Windows that were run alone.
    pub windows: Option<ScoredWindows>,
    /// How often the suffix of each of them occurs in the corpus.
    pub suffix_counts: Vec<u64>,
    /// What can be extracted, byte by byte, per distinct document.
    pub strips: Vec<Option<Strip>>,
    /// The scores of every distinct document, in document context.
    pub scored: Vec<ScoredDocument>,
}

/// Audits a model on a text. With a directory, every finished batch is saved there, and an audit that was interrupted continues
/// from it.
pub fn run(
    subject: &Subject,
    reference: Option<&Subject>,
    job: &AuditJob,
    directory: Option<&Path>,
    observer: &dyn Observer,
) -> Result<Audited> {
    let settings = job.spec.resolve(subject.n_ctx(), subject.start_token)?;
    let settings = AuditSettings { seed: job.seed, ..settings };
    subject.check(&settings)?;
    let read = |spec: &TextSpec, tokens: &TextTokens| -> Result<Collection> {
        let corpus = spec.corpus();
        Collection::new(whole_documents(&corpus, observer)?, tokens, block_length(&corpus), observer)
    };
    let collection = read(&job.text, &subject.tokens)?;
    if collection.documents.is_empty() {
        return Err(Error::EmptyCorpus { message: "the text has no tokens".into() });
    }
    let held_out = match job.held_out.is_empty() {
        true => None,
        false => Some(read(&job.text.of(&job.held_out), &subject.tokens)?),
    };
    if held_out.as_ref().is_some_and(|text| text.documents.is_empty()) {
        return Err(Error::setting("held_out", "the text has no tokens"));
    }
    let canaries = job.canaries.as_deref().map(Canary::load).transpose()?;
    let _held = directory.map(|path| claim(path, Holds::Audit).and_then(|_| lock(path))).transpose()?;
    let mut file = directory
        .map(|path| ScoreFile::open(&path.join("scores.bin"), identity(subject, &settings)))
        .transpose()?;
    if let (Some(file), Some(model)) = (&file, &subject.model) {
        probe(file, &**model, &settings, directory)?;
    }
    let mut runner = Runner {
        subject,
        settings: &settings,
        file: file.as_mut(),
        observer,
        evaluated: 0,
        done: 0,
        total: 0,
    };
    let Evaluated { corpus, mut held_out, gap, canaries } =
        runner.evaluate(&collection, held_out.as_ref(), canaries.as_deref())?;
    let evaluated_tokens = runner.evaluated;
    let Measured { measured: MeasuredText { mut audit, strips }, windows, scored } = corpus;
    let mut compared = None;
    if let Some(reference) = reference {
        let path = directory.map(|path| path.join("scores-reference.bin"));
        compared = Some(control::against_reference(
            reference,
            (&mut audit, &collection),
            held_out.as_mut().map(|held_out| (held_out, &job.held_out, &job.text)),
            &settings,
            path.as_deref(),
            subject.facts.parameters,
            observer,
        )?);
    }
    let (suffix_counts, groups) = by_duplicates(&collection, windows.as_ref(), &settings);
    let mut audit = Audit {
        version: env!("CARGO_PKG_VERSION").into(),
        model: subject.facts.clone(),
        known: subject.known(),
        evaluated_tokens,
        gap,
        duplicates: groups,
        auroc: held_out.as_ref().map(|held_out| control::aurocs(&audit, held_out)).unwrap_or_default(),
        differences: held_out
            .as_ref()
            .map(|held_out| control::differences(&audit, held_out, settings.seed))
            .unwrap_or_default(),
        text: audit,
        held_out,
        reference: compared,
        canaries,
        settings,
        verdict: Vec::new(),
    };
    audit.verdict = verdict::lines(&audit);
    let audited = Audited { audit, collection, windows, suffix_counts, strips, scored };
    if let Some(directory) = directory {
        audited.save(directory)?;
    }
    Ok(audited)
}

/// How often the suffix of each window occurs in the corpus, and the windows grouped by that.
fn by_duplicates(
    collection: &Collection,
    windows: Option<&ScoredWindows>,
    settings: &AuditSettings,
) -> (Vec<u64>, Vec<DuplicateGroup>) {
    let Some(windows) = windows else { return (Vec::new(), Vec::new()) };
    let counts = duplicates::suffix_counts(collection, &windows.windows);
    let overlapping = match settings.stride {
        WindowStride::Tokens(stride) => stride < settings.suffix as u64,
        WindowStride::Characters(_) => true,
    };
    let groups = duplicates::groups(&windows.windows, &windows.scores, &counts, overlapping, settings.seed);
    (counts, groups)
}

impl Audited {
    /// Writes the result and its tables into a directory.
    fn save(&self, directory: &Path) -> Result<()> {
        let write = |name: &str, text: &str| OutputFile::write(&directory.join(name), text.as_bytes());
        write("documents.csv", &documents_csv(&self.audit))?;
        if let Some(windows) = &self.windows {
            write("windows.csv", &windows_csv(windows, &self.suffix_counts, &self.collection))?;
        }
        if self.strips.iter().any(Option::is_some) {
            write("strip.csv", &strip_csv(&self.strips))?;
        }
        if self.scored.iter().any(|document| !document.scores.is_empty()) {
            write(POSITIONS_FILE, &positions_csv(&self.collection, &self.scored, self.audit.known))?;
        }
        match Passages::new(self) {
            Some(passages) => write(Passages::FILE, &passages.to_json()?)?,
            // Text that an earlier audit has left here must not stay.
            None => remove(&directory.join(Passages::FILE))?,
        }
        // Last, because it says that the audit is complete.
        write(Audit::FILE, &self.audit.to_json()?)
    }
}

/// Removes a file, if there is one.
fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(path, "remove", e)),
        _ => Ok(()),
    }
}

/// What scores depend on besides the sequence, as far as it is known without running the model.
fn identity(subject: &Subject, settings: &AuditSettings) -> u64 {
    let facts = serde_json::to_string(&subject.facts).unwrap_or_default();
    fnv1a(format!("{facts} {} {}", settings.top_k, settings.temperature).as_bytes())
}

/// Refuses scores that another model has left: a sequence is scored again and must give the same bits.
fn probe(
    file: &ScoreFile,
    model: &dyn crate::inference::LanguageModel,
    settings: &AuditSettings,
    directory: Option<&Path>,
) -> Result<()> {
    let Some((unit, before)) = file.probe() else { return Ok(()) };
    let sequence = crate::inference::Sequence { tokens: &unit.tokens, scored: unit.scored() };
    let now = model.score(&[sequence], settings.sampling())?;
    match now[0] == before {
        true => Ok(()),
        false => {
            let message =
                "holds the scores of another model, or of another machine; choose another directory";
            Err(Error::format(directory.unwrap_or(Path::new("")), message))
        }
    }
}

/// A text with its measures and the windows that were run alone.
struct Measured {
    measured: MeasuredText,
    windows: Option<ScoredWindows>,
    scored: Vec<ScoredDocument>,
}

/// What the model said of all texts.
struct Evaluated {
    corpus: Measured,
    held_out: Option<TextAudit>,
    gap: Option<AuditGap>,
    canaries: Option<CanaryFigures>,
}

/// What is to be run on a text.
struct TextPlan<'c> {
    collection: &'c Collection,
    is_corpus: bool,
    pieces: Pieces,
    windows: Option<Vec<AuditWindow>>,
    curve: recall_curve::CurveWindows,
}

/// The passes of one audit.
struct Runner<'a> {
    subject: &'a Subject,
    settings: &'a AuditSettings,
    file: Option<&'a mut ScoreFile>,
    observer: &'a dyn Observer,
    /// Tokens of distinct sequences, whether they were run now or before.
    evaluated: u64,
    /// Tokens that were run, of those to be run.
    done: u64,
    total: u64,
}

impl Runner<'_> {
    /// Calls `work` with a model at work, if there is a model.
    fn with<T>(&mut self, work: impl FnOnce(&mut Scorer<'_>) -> Result<T>) -> Result<Option<T>> {
        let Some(model) = &self.subject.model else { return Ok(None) };
        let sampling = self.settings.sampling();
        let mut scorer = Scorer::new(&**model, sampling, self.file.as_deref_mut(), self.observer)
            .within(self.done, self.total);
        let found = work(&mut scorer)?;
        self.evaluated += scorer.evaluated;
        self.done = scorer.done;
        Ok(Some(found))
    }

    /// Plans all passes, says how much there is to do, and does it.
    fn evaluate(
        &mut self,
        corpus: &Collection,
        held_out: Option<&Collection>,
        canaries: Option<&[Canary]>,
    ) -> Result<Evaluated> {
        let (settings, observer) = (self.settings, self.observer);
        let corpus = self.plan(corpus, true)?;
        let held_out = held_out.map(|text| self.plan(text, false)).transpose()?;
        let mut contexts = None;
        let inserted = canaries.map(|canaries| self.canaries(canaries)).transpose()?;
        if let Some(model) = &self.subject.model {
            contexts = gap::contexts(corpus.collection, settings, model.d_vocab(), observer)?;
            let mut work = Workload::default();
            for text in [Some(&corpus), held_out.as_ref()].into_iter().flatten() {
                let windows = text.windows.iter().flatten().map(|window| window.unit(settings.start()));
                work.add(&text.pieces.units, self.file.as_deref());
                work.add(windows, self.file.as_deref());
                work.add(&text.curve.units, self.file.as_deref());
            }
            work.add_contexts(contexts.as_ref().map_or(0, |contexts| contexts.dataset.len()));
            work.add(inserted.iter().flat_map(|(_, pieces)| &pieces.units), self.file.as_deref());
            work.announce(&**model, settings.sampling(), observer)?;
            self.total = work.tokens;
        }
        let corpus = self.text(corpus)?;
        let held_out = held_out.map(|text| self.text(text)).transpose()?.map(|text| text.measured.audit);
        let gap = match &contexts {
            Some(contexts) => self.with(|scorer| gap::gap(contexts, settings, scorer))?,
            None => None,
        };
        let canaries = match (canaries, inserted) {
            (Some(canaries), Some((documents, pieces))) => self
                .with(|scorer| passes::documents(&pieces, settings, scorer))?
                .map(|scored| canaries::figures(canaries, &documents, &scored, settings)),
            _ => None,
        };
        Ok(Evaluated { corpus, held_out, gap, canaries })
    }

    /// Lists what is to be run on a text.
    fn plan<'c>(&self, collection: &'c Collection, is_corpus: bool) -> Result<TextPlan<'c>> {
        let settings = self.settings;
        let mut plan = TextPlan {
            collection,
            is_corpus,
            pieces: Pieces::new(&[], settings),
            windows: None,
            curve: recall_curve::CurveWindows::default(),
        };
        if self.subject.model.is_none() {
            return Ok(plan);
        }
        plan.pieces = Pieces::new(&collection.documents, settings);
        plan.curve = recall_curve::curve_windows(collection, settings);
        if settings.context.window() {
            plan.windows = Some(windows::windows(collection, &self.subject.tokens, settings, self.observer)?);
        }
        // Before a long run, not after it.
        let needed = settings.prefix + settings.suffix;
        let in_documents = settings.context != AuditContext::Window
            && collection.documents.iter().any(|document| document.ids.len() >= needed);
        if is_corpus && !in_documents && plan.windows.as_ref().is_none_or(Vec::is_empty) {
            return Err(too_short(collection, settings));
        }
        Ok(plan)
    }

    /// Measures a text.
    fn text(&mut self, plan: TextPlan<'_>) -> Result<Measured> {
        let (settings, TextPlan { collection, is_corpus, pieces, windows, curve }) = (self.settings, plan);
        let scored = match &self.subject.given {
            Some(given) => given.documents(collection, settings)?,
            None => self.with(|scorer| passes::documents(&pieces, settings, scorer))?.unwrap_or_default(),
        };
        let windows = match windows {
            Some(windows) => self
                .with(|scorer| passes::windows(&windows, settings, scorer))?
                .map(|(scores, decoded)| ScoredWindows { windows, scores, decoded }),
            None => None,
        };
        let curve = self
            .with(|scorer| recall_curve::recall_curve(collection, &curve, settings, scorer))?
            .unwrap_or_default();
        let known = self.subject.known();
        let measured = text_audit::measure(collection, &scored, windows.as_ref(), curve, settings, known);
        let count = |figures: Option<&WindowFigures>| figures.map_or(0, |figures| figures.count);
        let text = &measured.audit;
        let in_documents = count(text.document_context.as_ref().map(|context| &context.all));
        if is_corpus && known.hits && in_documents == 0 && count(text.windows.as_ref()) == 0 {
            return Err(too_short(collection, settings));
        }
        Ok(Measured { measured, windows, scored })
    }

    /// The tokens of canaries.
    fn canaries(&self, canaries: &[Canary]) -> Result<(Vec<AuditDocument>, Pieces)> {
        if self.subject.model.is_none() {
            let message = "need a model; log-probabilities are those of the corpus alone";
            return Err(Error::setting("canaries", message));
        }
        let documents = canaries
            .iter()
            .zip(1..)
            .map(|(canary, number)| canary.document(&self.subject.tokens, number))
            .collect::<Result<Vec<_>>>()?;
        let pieces = Pieces::new(&documents, self.settings);
        Ok((documents, pieces))
    }
}

/// The error for a text without windows.
fn too_short(collection: &Collection, settings: &AuditSettings) -> Error {
    let longest = collection.documents.iter().map(|document| document.ids.len()).max().unwrap_or(0);
    let needed = settings.prefix + settings.suffix;
    let message = format!(
        "every document is shorter than a window of {} + {} = {needed} tokens (the longest has {longest}); lower `prefix` and \
         `suffix`, or read longer documents, such as whole files (`documents = file`)",
        settings.prefix, settings.suffix
    );
    Error::setting("prefix", message)
}
