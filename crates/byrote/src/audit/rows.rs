//! The tables of an audit: one row per document, per window, per stretch of text.

use super::Audit;
use super::collection::Collection;
use super::coverage::Strip;
use super::document_score::ScoredDocument;
use super::text_audit::{Known, ScoredWindows};
use crate::output::{csv_field, csv_text};

/// One row per distinct document of the corpus, then of the held-out text.
pub fn documents_csv(audit: &Audit) -> String {
    let head = [
        "text",
        "document",
        "name",
        "copies",
        "tokens",
        "bytes",
        "scored",
        "bits",
        "bits_per_byte",
        "zlib_ratio",
        "token_hits",
        "extraction_strength",
        "min_k",
        "min_k_plus_plus",
        "longest_run",
        "longest_fresh_run",
        "windows",
        "extractable",
        "p_z_at_least_0_001",
        "characters",
        "covered_characters",
        "bits_reference",
        "unintended_bits",
    ];
    let texts = [("corpus", Some(&audit.text)), ("held-out", audit.held_out.as_ref())];
    let documents =
        texts.into_iter().filter_map(|(name, text)| Some((name, text?))).flat_map(|(name, text)| {
            text.documents.iter().enumerate().map(move |(i, document)| (name, i, document))
        });
    let row = |(text, i, d): (&str, usize, &super::DocumentAudit)| {
        vec![
            text.to_owned(),
            i.to_string(),
            d.name.clone(),
            d.copies.to_string(),
            d.tokens.to_string(),
            d.bytes.to_string(),
            d.scored.to_string(),
            csv_field(d.bits),
            csv_field(d.bits_per_byte),
            csv_field(d.zlib_ratio),
            csv_field(d.token_hits),
            csv_field(d.extraction_strength),
            csv_field(d.min_k),
            csv_field(d.min_k_plus_plus),
            csv_field(d.longest_run.as_ref().map(|run| run.tokens)),
            csv_field(d.longest_fresh_run.as_ref().map(|run| run.tokens)),
            d.windows.to_string(),
            csv_field(d.extractable),
            csv_field(d.p_z_at_least_0_001),
            d.characters.to_string(),
            csv_field(d.covered_characters),
            csv_field(d.bits_reference),
            csv_field(d.unintended_bits),
        ]
    };
    csv_text(head, documents.map(row))
}

/// One row per distinct window that was run alone.
pub fn windows_csv(scored: &ScoredWindows, counts: &[u64], collection: &Collection) -> String {
    let head = [
        "document",
        "name",
        "start",
        "prefix",
        "suffix",
        "copies",
        "suffix_occurrences",
        "extractable",
        "teacher_forced_accuracy",
        "first",
        "extraction_strength",
        "ln_p",
        "ln_p_z",
        "min_margin",
        "close",
        "free_running_accuracy",
        "rouge_l",
    ];
    let row = |i: usize| {
        let (window, score, decoded) = (&scored.windows[i], &scored.scores[i], scored.decoded[i]);
        vec![
            window.document.to_string(),
            collection.documents[window.document].name.clone(),
            window.start.to_string(),
            window.prefix.to_string(),
            score.suffix.to_string(),
            window.weight.to_string(),
            csv_field(counts.get(i)),
            u8::from(score.extractable()).to_string(),
            score.teacher_forced_accuracy().to_string(),
            score.first.to_string(),
            score.extraction_strength().to_string(),
            score.ln_p.to_string(),
            csv_field(score.ln_p_z),
            score.min_margin.to_string(),
            u8::from(score.close).to_string(),
            csv_field(decoded.map(|d| d.free_running_accuracy)),
            csv_field(decoded.map(|d| d.rouge_l)),
        ]
    };
    csv_text(head, (0..scored.windows.len()).map(row))
}

/// The name of the table of positions in the directory of an audit.
pub const POSITIONS_FILE: &str = "positions.csv";

/// One row per scored token of a document with text, in document context: the characters that it ends and covers, its
/// log-probability, how many tokens were more likely, and the entropy of the model's distribution.
pub fn positions_csv(collection: &Collection, scored: &[ScoredDocument], known: Known) -> String {
    let head = ["document", "character_start", "character_end", "ln_p", "rank", "entropy_nats"];
    let documents = collection.documents.iter().zip(scored).enumerate();
    let rows = documents.flat_map(|(i, (document, scored))| {
        let text = document.text.as_deref().unwrap_or_default();
        // The characters that begin before a byte, in the order of the bytes that are asked for.
        let mut starts = text.char_indices().map(|(byte, _)| byte).peekable();
        let mut characters = 0u64;
        let mut before = move |byte: usize| {
            while starts.next_if(|start| *start < byte).is_some() {
                characters += 1;
            }
            characters
        };
        let mut start = document.ends.get(scored.first.wrapping_sub(1)).map_or(0, |end| before(*end));
        document.ends.iter().skip(scored.first).zip(&scored.scores).map(move |(end, score)| {
            let from = std::mem::replace(&mut start, before(*end));
            vec![
                i.to_string(),
                from.to_string(),
                start.to_string(),
                score.log_prob.to_string(),
                csv_field(known.hits.then_some(score.rank)),
                csv_field(known.moments.then_some(-score.mean_log_prob)),
            ]
        })
    });
    csv_text(head, rows)
}

/// One row per stretch of bytes that are covered alike.
pub fn strip_csv(strips: &[Option<Strip>]) -> String {
    let head = ["document", "byte_start", "byte_end", "p_z", "extractable"];
    let stretches = strips.iter().enumerate().filter_map(|(i, strip)| Some((i, strip.as_ref()?)));
    let rows = stretches.flat_map(|(i, strip)| {
        strip.stretches().into_iter().map(move |s| {
            let number = |n: usize| n.to_string();
            vec![
                number(i),
                number(s.bytes.start),
                number(s.bytes.end),
                s.p_z.to_string(),
                u8::from(s.extractable).to_string(),
            ]
        })
    });
    csv_text(head, rows)
}
