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
mod plan;
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
use plan::{AuditPlan, TextPlan};
use score_file::ScoreFile;
use scoring::Scorer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The scores of the model, in the directory of an audit.
const SCORES: &str = "scores.bin";
/// Those of the reference model.
const REFERENCE_SCORES: &str = "scores-reference.bin";

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
    // Whatever can be refused is refused before anything is written.
    let plan = plan::plan(subject, &collection, held_out.as_ref(), canaries.as_deref(), &settings, observer)?;
    let reference = reference.map(|model| control::Reference::new(model, &settings)).transpose()?;
    let _held = directory.map(|path| claim(path, Holds::Audit).and_then(|_| lock(path))).transpose()?;
    let mut file = None;
    if let (Some(path), Some(model)) = (directory, &subject.model) {
        let opened = ScoreFile::open(&path.join(SCORES), identity(&subject.facts, &settings))?;
        opened.probe(&**model, settings.sampling())?;
        file = Some(opened);
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
    let Evaluated { corpus, held_out: mut control, gap, canaries } = runner.evaluate(plan)?;
    let evaluated_tokens = runner.evaluated;
    let Measured { measured: MeasuredText { mut audit, strips }, windows, scored } = corpus;
    let mut compared = None;
    if let Some(reference) = reference {
        let path = directory.map(|path| path.join(REFERENCE_SCORES));
        let mut texts = vec![(&mut audit, &collection)];
        texts.extend(control.as_mut().zip(held_out.as_ref()));
        compared = Some(reference.compare(texts, path.as_deref(), subject.facts.parameters, observer)?);
    }
    let (suffix_counts, groups) = by_duplicates(&collection, windows.as_ref(), &settings);
    let mut audit = Audit {
        version: env!("CARGO_PKG_VERSION").into(),
        model: subject.facts.clone(),
        known: subject.known(),
        evaluated_tokens,
        gap,
        duplicates: groups,
        auroc: control.as_ref().map(|control| control::aurocs(&audit, control)).unwrap_or_default(),
        differences: control
            .as_ref()
            .map(|control| control::differences(&audit, control, settings.seed))
            .unwrap_or_default(),
        text: audit,
        held_out: control,
        reference: compared,
        canaries,
        settings,
        verdict: Vec::new(),
    };
    audit.verdict = verdict::lines(&audit);
    let audited = Audited { audit, collection, windows, suffix_counts, strips, scored };
    if let Some(directory) = directory {
        // Closed, because it may be removed.
        drop(file);
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
    let groups = duplicates::groups(windows, &counts, overlapping, settings.seed);
    (counts, groups)
}

impl Audited {
    /// Writes the result and its tables into a directory.
    fn save(&self, directory: &Path) -> Result<()> {
        let write = |name: &str, text: &str| OutputFile::write(&directory.join(name), text.as_bytes());
        write("documents.csv", &documents_csv(&self.audit))?;
        // What an earlier audit has left here, its text above all, must not stay.
        let write_or_remove = |name: &str, text: Option<String>| match text {
            Some(text) => write(name, &text),
            None => remove(&directory.join(name)),
        };
        let windows = self.windows.as_ref();
        let windows = windows.map(|windows| windows_csv(windows, &self.suffix_counts, &self.collection));
        write_or_remove("windows.csv", windows)?;
        let has_strips = self.strips.iter().any(Option::is_some);
        write_or_remove("strip.csv", has_strips.then(|| strip_csv(&self.strips)))?;
        let has_scores = self.scored.iter().any(|document| !document.scores.is_empty());
        let positions = || positions_csv(&self.collection, &self.scored, self.audit.known);
        write_or_remove(POSITIONS_FILE, has_scores.then(positions))?;
        let passages = Passages::new(self).map(|passages| passages.to_json()).transpose()?;
        write_or_remove(Passages::FILE, passages)?;
        // Last, because it says that the audit is complete.
        write(Audit::FILE, &self.audit.to_json()?)?;
        if self.audit.settings.no_text {
            // Scores are kept with the ids that they belong to, and ids are text to whoever has the tokenizer.
            remove(&directory.join(SCORES))?;
            remove(&directory.join(REFERENCE_SCORES))?;
        }
        Ok(())
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
fn identity(facts: &ModelFacts, settings: &AuditSettings) -> u64 {
    let facts = serde_json::to_string(facts).unwrap_or_default();
    fnv1a(format!("{facts} {} {}", settings.top_k, settings.temperature).as_bytes())
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

    /// Says how much there is to do, and does it.
    fn evaluate(&mut self, plan: AuditPlan<'_>) -> Result<Evaluated> {
        let (settings, observer) = (self.settings, self.observer);
        let AuditPlan { corpus, held_out, contexts, canaries } = plan;
        if let Some(model) = &self.subject.model {
            let mut work = Workload::default();
            for text in [Some(&corpus), held_out.as_ref()].into_iter().flatten() {
                let windows = text.windows.iter().flatten().map(|window| window.unit(settings.start()));
                work.add(&text.pieces.units, self.file.as_deref());
                work.add(windows, self.file.as_deref());
                work.add(&text.curve.units, self.file.as_deref());
            }
            work.add_contexts(contexts.as_ref().map_or(0, |contexts| contexts.dataset.len()));
            work.add(canaries.iter().flat_map(|plan| &plan.pieces.units), self.file.as_deref());
            work.announce(&**model, settings.sampling(), observer)?;
            self.total = work.tokens;
        }
        let corpus = self.text(corpus)?;
        let held_out = held_out.map(|text| self.text(text)).transpose()?.map(|text| text.measured.audit);
        let gap = match &contexts {
            Some(contexts) => self.with(|scorer| gap::gap(contexts, settings, scorer))?,
            None => None,
        };
        let canaries = match canaries {
            Some(plan) => self
                .with(|scorer| passes::documents(&plan.pieces, settings, scorer))?
                .map(|scored| canaries::figures(plan.canaries, &plan.documents, &scored, settings)),
            None => None,
        };
        Ok(Evaluated { corpus, held_out, gap, canaries })
    }

    /// Measures a text.
    fn text(&mut self, plan: TextPlan<'_>) -> Result<Measured> {
        let (settings, TextPlan { collection, given, pieces, windows, curve }) = (self.settings, plan);
        let scored = match given {
            Some(given) => given,
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
        let mut measured = text_audit::measure(collection, &scored, windows.as_ref(), curve, settings, known);
        measured.audit.corpus.in_pieces = pieces.cut(&collection.documents);
        Ok(Measured { measured, windows, scored })
    }
}
