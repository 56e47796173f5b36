//! The text itself, with memorized stretches marked by strength.

use super::{document_name, percent};
use crate::audit::{
    Audit, AuditContext, MARKED_STEPS, MarkedDocument, MarkedPassage, MarkedStretch, Passages, Placement,
};
use crate::report::numbers::thousands;
use byrote_figures::html::{Mark, MarkedText, Prose, Section};

/// The passages that can be extracted; none without text.
pub(super) fn section(audit: &Audit, passages: Option<&Passages>) -> Option<Section> {
    let documents = passages?.documents.as_slice();
    if documents.is_empty() {
        return None;
    }
    let mut section =
        Section::new("The text, marked").anchor("text").paragraph(Prose::parse(&about(audit, documents)));
    for (i, document) in documents.iter().enumerate() {
        let marked = MarkedText::new(caption(audit, document));
        let marked = match i {
            0 => key(audit, marked),
            _ => marked,
        };
        section = section.marked(document.passages.iter().fold(marked, |text, p| text.passage(marks(p))));
    }
    Some(section)
}

/// Says what the marks mean.
fn key(audit: &Audit, text: MarkedText) -> MarkedText {
    let step =
        |p_z: &f64| format!("p_z from {p_z}").replace("0.000001", "1e-6").replace("0.000000000001", "1e-12");
    let steps: Vec<String> = match audit.known.sampled {
        true => MARKED_STEPS.iter().map(step).collect(),
        false => Vec::new(),
    };
    text.key(steps, "extractable")
}

fn marks(passage: &MarkedPassage) -> impl Iterator<Item = Mark> {
    passage.stretches.iter().map(|stretch: &MarkedStretch| Mark {
        text: stretch.text.clone(),
        level: stretch.step(),
        underlined: stretch.extractable,
    })
}

/// What is marked, and how much of the text is shown.
fn about(audit: &Audit, documents: &[MarkedDocument]) -> String {
    let settings = &audit.settings;
    let (k, m) = (settings.prefix, settings.suffix);
    let in_document = settings.context != AuditContext::Window
        && settings.placement == Placement::Every
        && audit.text.document_context.is_some();
    let windows = match (in_document, settings.windows) {
        (true, _) => format!("the {m} tokens of some window, given everything before them in the document"),
        (false, Some(_)) => format!("the {m} tokens of a window that was drawn, given the {k} before them"),
        (false, None) => format!("the {m} tokens of a window, given the {k} before them"),
    };
    let mut out = String::new();
    if audit.known.sampled {
        out += &format!(
            "The background says how likely sampling is to produce a stretch of the text as part of {windows}: the largest p_z of \
             the windows whose suffix covers it."
        );
        out += " What is underlined, greedy decoding produces.";
    } else {
        out += &format!("What is underlined, greedy decoding produces as part of {windows}.");
    }
    let all = audit.text.documents.iter().filter(|document| document.characters > 0).count() as u64;
    let covered =
        audit.text.document_context.as_ref().map(|context| &context.all).or(audit.text.windows.as_ref());
    if let Some(coverage) = covered.and_then(|figures| figures.coverage) {
        out += &format!(" In all, {} of the text is extractable", percent(coverage.extractable));
        out += &match audit.known.sampled {
            true => format!(", and {} has a p_z of at least 0.001.", percent(coverage.p_z)),
            false => ".".to_owned(),
        };
    }
    let nothing = documents
        .iter()
        .flat_map(|d| &d.passages)
        .flat_map(|p| &p.stretches)
        .all(|s| s.step() == 0 && !s.extractable);
    out += &match (nothing, documents.len() as u64) {
        (true, _) => " No stretch of the text reaches the lowest step; this is how it begins.".to_owned(),
        (false, 1) if all == 1 => String::new(),
        (false, shown) if shown == all => {
            format!(" All {} distinct documents are shown, the most memorized first.", thousands(all))
        }
        (false, 1) => format!(" Of {} distinct documents, only this one is marked.", thousands(all)),
        (false, shown) => format!(
            " Shown are {shown} of {} distinct documents, the most memorized first; `strip.csv` has all of them.",
            thousands(all)
        ),
    };
    out
}

/// The name of a document, what can be extracted of it, and how much of it is shown.
fn caption(audit: &Audit, marked: &MarkedDocument) -> Prose {
    let mut words = Prose::new().strong(document_name(audit, marked.document));
    let Some(document) = audit.text.documents.get(marked.document) else { return words };
    let mut facts = Vec::new();
    if document.copies > 1 {
        facts.push(format!("{} copies", thousands(document.copies)));
    }
    if let Some(covered) =
        document.covered_characters.filter(|_| document.characters > 0 && document.windows > 0)
    {
        facts.push(format!("{} extractable", percent(covered as f64 / document.characters as f64)));
    }
    if let Some(bits) = document.bits_per_byte {
        facts.push(format!("{bits:.3} bits per byte"));
    }
    let shown: u64 = marked.passages.iter().map(MarkedPassage::characters).sum();
    if shown < document.characters {
        let (n, all) = (thousands(shown), thousands(document.characters));
        facts.push(match marked.passages.as_slice() {
            [_] => format!("{n} of its {all} characters, the rest is cut"),
            several => format!("{n} of its {all} characters in {} passages, the rest is cut", several.len()),
        });
    }
    if !facts.is_empty() {
        words = words.text(format!(": {}", facts.join("; ")));
    }
    words
}
