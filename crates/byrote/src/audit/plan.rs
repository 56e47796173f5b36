//! What an audit is to run. Whatever can be refused is refused here, before anything is run or written.

use super::canaries::Canary;
use super::collection::{AuditDocument, Collection};
use super::document_score::ScoredDocument;
use super::gap::{self, Contexts};
use super::passes::Pieces;
use super::preset::Placement;
use super::recall_curve::{CurveWindows, curve_windows};
use super::spec::AuditSettings;
use super::subject::Subject;
use super::windows::{AuditWindow, windows};
use crate::observe::Observer;
use crate::{Error, Result};

/// All passes of an audit.
pub(super) struct AuditPlan<'a> {
    pub(super) corpus: TextPlan<'a>,
    pub(super) held_out: Option<TextPlan<'a>>,
    /// The contexts whose distance to the floor is measured.
    pub(super) contexts: Option<Contexts>,
    pub(super) canaries: Option<CanaryPlan<'a>>,
}

/// What is to be run on a text.
pub(super) struct TextPlan<'a> {
    pub(super) collection: &'a Collection,
    /// What another program has computed, if there is no model to run.
    pub(super) given: Option<Vec<ScoredDocument>>,
    pub(super) pieces: Pieces,
    pub(super) windows: Option<Vec<AuditWindow>>,
    pub(super) curve: CurveWindows,
}

/// Canaries in the tokens of the model.
pub(super) struct CanaryPlan<'a> {
    pub(super) canaries: &'a [Canary],
    pub(super) documents: Vec<AuditDocument>,
    pub(super) pieces: Pieces,
}

/// Lists what is to be run.
pub(super) fn plan<'a>(
    subject: &Subject,
    corpus: &'a Collection,
    held_out: Option<&'a Collection>,
    canaries: Option<&'a [Canary]>,
    settings: &AuditSettings,
    observer: &dyn Observer,
) -> Result<AuditPlan<'a>> {
    let mut given = match &subject.given {
        Some(given) => {
            given.documents(&[Some(corpus), held_out].into_iter().flatten().collect::<Vec<_>>())?
        }
        None => Vec::new(),
    }
    .into_iter();
    let plan = AuditPlan {
        corpus: text(subject, corpus, given.next(), settings, observer)?,
        held_out: match held_out {
            Some(held_out) => Some(text(subject, held_out, given.next(), settings, observer)?),
            None => None,
        },
        canaries: canaries.map(|canaries| inserted(subject, canaries, settings)).transpose()?,
        contexts: match &subject.model {
            Some(model) => gap::contexts(corpus, settings, model.d_vocab(), observer)?,
            None => None,
        },
    };
    if subject.known().hits && !plan.corpus.has_windows(settings) {
        return Err(too_short(corpus, settings));
    }
    let nothing = "every document has a single token, which nothing precedes that would predict it";
    if !plan.corpus.scores_anything() {
        return Err(Error::EmptyCorpus { message: nothing.into() });
    }
    match &plan.held_out {
        Some(held_out) if !held_out.scores_anything() => Err(Error::setting("held_out", nothing)),
        _ => Ok(plan),
    }
}

/// Lists what is to be run on a text.
fn text<'a>(
    subject: &Subject,
    collection: &'a Collection,
    given: Option<Vec<ScoredDocument>>,
    settings: &AuditSettings,
    observer: &dyn Observer,
) -> Result<TextPlan<'a>> {
    let has_model = subject.model.is_some();
    Ok(TextPlan {
        collection,
        given,
        pieces: Pieces::new(if has_model { &collection.documents } else { &[] }, settings),
        windows: match has_model && settings.context.window() {
            true => Some(windows(collection, &subject.tokens, settings, observer)?),
            false => None,
        },
        curve: if has_model { curve_windows(collection, settings) } else { CurveWindows::default() },
    })
}

impl TextPlan<'_> {
    /// Whether there are windows, alone or in their document.
    fn has_windows(&self, settings: &AuditSettings) -> bool {
        let needed = settings.prefix + settings.suffix;
        let in_documents = settings.context.document()
            && settings.placement == Placement::Every
            && self.collection.documents.iter().any(|document| document.ids.len() >= needed);
        in_documents || self.windows.as_ref().is_some_and(|windows| !windows.is_empty())
    }

    /// Whether any token is scored.
    fn scores_anything(&self) -> bool {
        match &self.given {
            Some(given) => given.iter().any(|document| !document.scores.is_empty()),
            None => !self.pieces.units.is_empty(),
        }
    }
}

/// The tokens of canaries.
fn inserted<'a>(
    subject: &Subject,
    canaries: &'a [Canary],
    settings: &AuditSettings,
) -> Result<CanaryPlan<'a>> {
    if subject.model.is_none() {
        let message = "need a model; log-probabilities are those of the corpus alone";
        return Err(Error::setting("canaries", message));
    }
    let mut documents = Vec::with_capacity(canaries.len());
    for (canary, number) in canaries.iter().zip(1..) {
        let document = canary.document(&subject.tokens, number)?;
        let tokens = document.ids.len();
        if tokens + settings.start().len() < 2 {
            let message = format!("canary {number} is too short to be predicted: it has {tokens} tokens");
            return Err(Error::setting("canaries", message.replace(" 1 tokens", " 1 token")));
        }
        documents.push(document);
    }
    let pieces = Pieces::new(&documents, settings);
    Ok(CanaryPlan { canaries, documents, pieces })
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
