//! Every measure of one text: the corpus, or the held-out text beside it.

use super::collection::{AuditDocument, Collection};
use super::coverage::{CoverageTally, Strip};
use super::document_score::{DocumentScore, HitRun, ScoredDocument, compressed, copyable};
use super::preset::Placement;
use super::recall_curve::RecallPoint;
use super::spec::{AuditSettings, WindowStride};
use super::tally::{DecodedScore, WindowFigures, WindowTally};
use super::window_score::WindowScore;
use super::windows::AuditWindow;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Which numbers a model gives. One of byrote's gives all; log-probabilities computed elsewhere may be all there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Whether the most likely token is known.
    pub hits: bool,
    /// Whether the probability under top-k sampling is known.
    pub sampled: bool,
    /// Whether the mean and the standard deviation of log-probabilities are known.
    pub moments: bool,
}

impl Known {
    /// Everything.
    pub const ALL: Self = Self { hits: true, sampled: true, moments: true };
}

/// The measures of a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TextAudit {
    /// What the text is.
    pub corpus: TextFacts,
    /// Positions that were scored, copies included.
    pub scored_tokens: u64,
    /// The code length of the text under the model, in document context.
    pub bits: f64,
    /// The same per scored token.
    pub bits_per_token: Option<f64>,
    /// The same per byte of text: comparable between tokenizers.
    pub bits_per_byte: Option<f64>,
    /// Bits divided by the size of each document compressed by zlib, level 9.
    pub zlib_ratio: Option<f64>,
    /// Bits divided by the size of each document compressed by xz, preset 9e.
    pub xz_ratio: Option<f64>,
    /// The share of positions whose token is the most likely one.
    pub token_hits: Option<f64>,
    /// The same over positions that cannot be copied from the context.
    pub fresh_token_hits: Option<f64>,
    /// Windows run alone.
    pub windows: Option<WindowFigures>,
    /// Windows cut out of the pass over their document, at stride 1.
    pub document_context: Option<DocumentContext>,
    /// The longest runs of hits.
    pub longest_runs: Vec<TextRun>,
    /// The longest runs of hits without copyable positions.
    pub longest_fresh_runs: Vec<TextRun>,
    /// Bits and hits by the number of tokens seen.
    pub recall_curve: Vec<RecallPoint>,
    /// The distinct documents.
    pub documents: Vec<DocumentAudit>,
}

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TextFacts {
    /// Documents, copies included.
    pub documents: u64,
    /// Distinct documents.
    pub distinct_documents: u64,
    /// Tokens, without start tokens.
    pub tokens: u64,
    /// Bytes of text.
    pub bytes: u64,
    /// Documents too short for a window.
    pub short: u64,
    /// Documents longer than the model reads, which it was given in overlapping pieces.
    #[serde(default)]
    pub in_pieces: u64,
    /// Special tokens that the text spells out.
    pub special_tokens: u64,
}

/// Windows in document context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DocumentContext {
    /// All windows.
    #[serde(flatten)]
    pub all: WindowFigures,
    /// Windows whose suffix holds no copyable position.
    pub fresh: Option<WindowFigures>,
}

/// A run of hits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TextRun {
    /// Its document, among the distinct ones.
    pub document: usize,
    /// The position of its first token.
    pub token: usize,
    /// The first byte of its text.
    pub byte: Option<usize>,
    /// How many tokens it has.
    pub tokens: usize,
    /// Its text, unless it has none or text is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// The measures of a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DocumentAudit {
    /// Where it comes from.
    pub name: String,
    /// How often it occurs.
    pub copies: u64,
    /// Its tokens.
    pub tokens: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Positions that were scored.
    pub scored: u64,
    /// Its code length.
    pub bits: Option<f64>,
    /// The same per scored token.
    pub bits_per_token: Option<f64>,
    /// The same per byte.
    pub bits_per_byte: Option<f64>,
    /// Its size compressed by zlib, level 9, in bits.
    pub zlib_bits: Option<u64>,
    /// Its size compressed by xz, preset 9e, in bits.
    pub xz_bits: Option<u64>,
    /// Bits by zlib's.
    pub zlib_ratio: Option<f64>,
    /// The share of hits.
    pub token_hits: Option<f64>,
    /// The share of scored positions after the last miss.
    pub extraction_strength: Option<f64>,
    /// Min-k%.
    pub min_k: Option<f64>,
    /// Min-k%++.
    pub min_k_plus_plus: Option<f64>,
    /// The longest run of hits.
    pub longest_run: Option<TextRun>,
    /// The longest run without copyable positions.
    pub longest_fresh_run: Option<TextRun>,
    /// Windows in document context, at stride 1.
    pub windows: u64,
    /// Those that are extractable.
    pub extractable: Option<u64>,
    /// Those with p_z of at least 0.001.
    pub p_z_at_least_0_001: Option<u64>,
    /// Characters of the text.
    pub characters: u64,
    /// Those in the suffix of an extractable window.
    pub covered_characters: Option<u64>,
    /// The code length under the reference model.
    pub bits_reference: Option<f64>,
    /// How much shorter the code is than the reference model's, or 0.
    pub unintended_bits: Option<f64>,
    /// The smallest margin, in either direction.
    pub smallest_margin: Option<f64>,
}

/// Windows run alone, with their scores.
#[derive(Debug, Clone, Default)]
pub struct ScoredWindows {
    /// The windows.
    pub windows: Vec<AuditWindow>,
    /// Their scores.
    pub scores: Vec<WindowScore>,
    /// What decoding gave.
    pub decoded: Vec<Option<DecodedScore>>,
}

/// A text with its measures and what pages and tables show besides.
#[derive(Debug, Clone)]
pub struct MeasuredText {
    /// The measures.
    pub audit: TextAudit,
    /// The text as bytes that windows cover: one strip per distinct document with text.
    pub strips: Vec<Option<Strip>>,
}

/// How many runs of a text are listed.
const RUNS: usize = 20;

/// Measures a text, given the scores of its documents and of its windows.
pub(super) fn measure(
    collection: &Collection,
    scored: &[ScoredDocument],
    windows: Option<&ScoredWindows>,
    recall_curve: Vec<RecallPoint>,
    settings: &AuditSettings,
    known: Known,
) -> MeasuredText {
    let parts: Vec<Part> = collection
        .documents
        .par_iter()
        .zip(scored)
        .enumerate()
        .map(|(i, (document, scored))| Part::new(i, document, scored, settings, known))
        .collect();
    let weigh =
        |of: &dyn Fn(&Part) -> f64| -> f64 { parts.iter().map(|part| part.copies as f64 * of(part)).sum() };
    let score = |part: &Part, of: fn(&DocumentScore) -> f64| part.score.as_ref().map_or(0.0, of);
    let bits = weigh(&|part| score(part, |s| s.bits));
    let scored_tokens = weigh(&|part| score(part, |s| s.scored as f64));
    let ratio = |a: f64, b: f64| (b > 0.0).then(|| a / b);
    let with_text = parts.iter().any(|part| part.bytes > 0);
    let by_document = settings.context.document() && known.hits && settings.placement == Placement::Every;
    let longest = |of: fn(&Part) -> &[TextRun]| {
        let mut all: Vec<TextRun> = parts.iter().flat_map(|part| of(part).iter().cloned()).collect();
        all.sort_by_key(|run| (std::cmp::Reverse(run.tokens), run.document, run.token));
        all.truncate(RUNS);
        all
    };
    let document_context = by_document.then(|| inside(collection, &parts, settings));
    let alone = windows.map(|windows| window_figures(collection, windows, settings));
    let needed = settings.prefix + settings.suffix;
    let audit = TextAudit {
        corpus: TextFacts {
            documents: collection.count(),
            distinct_documents: collection.documents.len() as u64,
            tokens: collection.tokens(),
            bytes: collection.total(AuditDocument::bytes),
            short: collection.total(|document| u64::from(document.ids.len() < needed)),
            in_pieces: 0,
            special_tokens: collection.total(|document| document.special_tokens),
        },
        scored_tokens: scored_tokens as u64,
        bits,
        bits_per_token: ratio(bits, scored_tokens),
        bits_per_byte: ratio(bits, weigh(&|part| part.bytes as f64)),
        zlib_ratio: ratio(bits, weigh(&|part| part.compressed.map_or(0.0, |c| 8.0 * c.0 as f64)))
            .filter(|_| with_text),
        xz_ratio: ratio(bits, weigh(&|part| part.compressed.map_or(0.0, |c| 8.0 * c.1 as f64)))
            .filter(|_| with_text),
        token_hits: ratio(weigh(&|part| score(part, |s| s.hits as f64)), scored_tokens)
            .filter(|_| known.hits),
        fresh_token_hits: ratio(
            weigh(&|part| score(part, |s| s.fresh_hits as f64)),
            weigh(&|part| score(part, |s| s.fresh as f64)),
        )
        .filter(|_| known.hits && settings.fresh > 0),
        windows: alone.as_ref().map(|(figures, _)| figures.clone()),
        document_context,
        longest_runs: longest(|part| &part.runs),
        longest_fresh_runs: longest(|part| &part.fresh_runs),
        recall_curve,
        documents: parts
            .iter()
            .zip(&collection.documents)
            .map(|(part, document)| part.audit(document, known))
            .collect(),
    };
    let mut strips: Vec<Option<Strip>> = parts.into_iter().map(|part| part.strip).collect();
    if !by_document && let Some((_, alone)) = alone {
        strips = alone;
    }
    MeasuredText { audit, strips }
}

/// The figures of windows in document context.
fn inside(collection: &Collection, parts: &[Part], settings: &AuditSettings) -> DocumentContext {
    let (mut tally, mut fresh) = (WindowTally::default(), WindowTally::default());
    let mut coverage = CoverageTally::default();
    for (i, part) in parts.iter().enumerate() {
        for (score, is_fresh) in &part.windows {
            tally.add(i, part.copies, score, None);
            if *is_fresh {
                fresh.add(i, part.copies, score, None);
            }
        }
        if let (Some(strip), Some(text)) = (&part.strip, &collection.documents[i].text) {
            coverage.add(strip, text, part.copies);
        }
    }
    let overlapping = settings.suffix > 1;
    DocumentContext {
        all: WindowFigures { coverage: coverage.shares(), ..tally.figures(overlapping, settings.seed) },
        fresh: (settings.fresh > 0).then(|| fresh.figures(overlapping, settings.seed)),
    }
}

/// The figures of windows run alone, and what they cover.
fn window_figures(
    collection: &Collection,
    scored: &ScoredWindows,
    settings: &AuditSettings,
) -> (WindowFigures, Vec<Option<Strip>>) {
    let strip = |document: &AuditDocument| document.text.as_ref().map(|text| Strip::new(text.len()));
    let mut strips: Vec<Option<Strip>> = collection.documents.iter().map(strip).collect();
    let mut tally = WindowTally::default();
    for ((window, score), decoded) in scored.windows.iter().zip(&scored.scores).zip(&scored.decoded) {
        tally.add(window.document, window.weight, score, *decoded);
        if let (Some(strip), Some(bytes)) = (&mut strips[window.document], &window.bytes) {
            strip.add(bytes.clone(), score);
        }
    }
    let overlapping = match settings.stride {
        WindowStride::Tokens(stride) => {
            settings.placement == Placement::Every && stride < settings.suffix as u64
        }
        WindowStride::Characters(_) => true,
    };
    let mut coverage = CoverageTally::default();
    for (strip, document) in strips.iter().zip(&collection.documents) {
        if let (Some(strip), Some(text)) = (strip, &document.text) {
            coverage.add(strip, text, document.copies);
        }
    }
    // Drawn windows leave gaps between them: a share of the text would mean nothing.
    let coverage = coverage.shares().filter(|_| settings.windows.is_none());
    (WindowFigures { coverage, ..tally.figures(overlapping, settings.seed) }, strips)
}

/// One document.
struct Part {
    copies: u64,
    bytes: u64,
    compressed: Option<(u64, u64)>,
    score: Option<DocumentScore>,
    /// Windows in document context, and whether they are fresh.
    windows: Vec<(WindowScore, bool)>,
    strip: Option<Strip>,
    runs: Vec<TextRun>,
    fresh_runs: Vec<TextRun>,
}

impl Part {
    fn new(
        number: usize,
        document: &AuditDocument,
        scored: &ScoredDocument,
        settings: &AuditSettings,
        known: Known,
    ) -> Self {
        let copies = copyable(&document.ids, settings.fresh);
        let score = DocumentScore::new(&document.ids, scored, settings.min_k, &copies);
        let mut strip = document.text.as_ref().filter(|_| known.hits).map(|text| Strip::new(text.len()));
        let (k, m, n) = (settings.prefix, settings.suffix, document.ids.len());
        let mut windows = Vec::new();
        if settings.context.document() && known.hits && settings.placement == Placement::Every && n >= k + m {
            // A position without a score cannot be part of a suffix.
            for start in scored.first.saturating_sub(k)..=n - k - m {
                let suffix = start + k..start + k + m;
                let scores = &scored.scores[suffix.start - scored.first..suffix.end - scored.first];
                let score = WindowScore::new(&document.ids[suffix.clone()], scores, settings.margin);
                if let Some(strip) = &mut strip {
                    strip.add(document.byte_range(suffix.clone()), &score);
                }
                windows.push((score, !copies[suffix].contains(&true)));
            }
        }
        let runs = |runs: &[HitRun]| -> Vec<TextRun> {
            let run = |run: &HitRun| {
                let tokens = run.start..run.start + run.tokens;
                TextRun {
                    document: number,
                    token: run.start,
                    byte: document.text.as_ref().map(|_| document.byte_range(tokens.clone()).start),
                    tokens: run.tokens,
                    text: document.text_of(tokens).filter(|_| !settings.no_text).map(str::to_owned),
                }
            };
            runs.iter().filter(|_| known.hits).map(run).collect()
        };
        Self {
            copies: document.copies,
            bytes: document.bytes(),
            compressed: document.text.as_ref().map(|text| compressed(text.as_bytes())),
            runs: score.as_ref().map_or_else(Vec::new, |s| runs(&s.runs)),
            fresh_runs: score
                .as_ref()
                .filter(|_| settings.fresh > 0)
                .map_or_else(Vec::new, |s| runs(&s.fresh_runs)),
            score,
            windows,
            strip,
        }
    }

    fn audit(&self, document: &AuditDocument, known: Known) -> DocumentAudit {
        let score = self.score.as_ref();
        let hits = score.filter(|_| known.hits);
        let per = |bits: f64, n: u64| (n > 0).then(|| bits / n as f64);
        let count = |holds: &dyn Fn(&WindowScore) -> bool| {
            self.windows.iter().filter(|(s, _)| holds(s)).count() as u64
        };
        let zlib_bits = self.compressed.map(|c| 8 * c.0);
        DocumentAudit {
            name: document.name.clone(),
            copies: self.copies,
            tokens: document.ids.len() as u64,
            bytes: self.bytes,
            scored: score.map_or(0, |s| s.scored),
            bits: score.map(|s| s.bits),
            bits_per_token: score.map(DocumentScore::bits_per_token),
            bits_per_byte: score.and_then(|s| per(s.bits, self.bytes)),
            zlib_bits,
            xz_bits: self.compressed.map(|c| 8 * c.1),
            zlib_ratio: score.zip(zlib_bits).and_then(|(s, zlib)| per(s.bits, zlib)),
            token_hits: hits.map(|s| s.hits as f64 / s.scored as f64),
            extraction_strength: hits.map(|s| s.extraction_strength),
            min_k: score.map(|s| s.min_k),
            min_k_plus_plus: score.filter(|_| known.moments).map(|s| s.min_k_plus_plus),
            longest_run: self.runs.first().cloned(),
            longest_fresh_run: self.fresh_runs.first().cloned(),
            windows: self.windows.len() as u64,
            extractable: hits.map(|_| count(&WindowScore::extractable)),
            p_z_at_least_0_001: hits.filter(|_| known.sampled).map(|_| count(&|s| s.p_z() >= 1e-3)),
            characters: document.text.as_ref().map_or(0, |text| text.chars().count() as u64),
            covered_characters: self
                .strip
                .as_ref()
                .zip(document.text.as_ref())
                .map(|(strip, text)| strip.covered_characters(text).0),
            bits_reference: None,
            unintended_bits: None,
            smallest_margin: hits.map(|s| s.smallest_margin).filter(|m| m.is_finite()),
        }
    }
}
