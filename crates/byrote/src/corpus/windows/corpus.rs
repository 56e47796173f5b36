//! From the documents of an input to a corpus of windows.

use super::facts::{Facts, FirstTokens, fingerprint, stored_counts, token_counts};
use super::marks::Marks;
use super::range_file::RangeFile;
use super::sample::sampled;
use super::summarize::{curve_points, dense_points, summary, vocabulary};
use super::text::TextBuilder;
use super::{Code, Job, Text, WindowRule};
use crate::corpus::documents::Documents;
use crate::corpus::options::Options;
use crate::corpus::sorted_run::Header;
use crate::corpus::stored_documents::StoredDocuments;
use crate::corpus::vocabulary::Vocabulary;
use crate::corpus::{Corpus, Outputs};
use crate::observe::Observer;
use crate::{Error, Result};
use rayon::prelude::*;
use std::io::{BufWriter, Write};

/// Counts the windows of documents.
pub(crate) fn corpus(
    (documents, stored): (Documents, Option<StoredDocuments>),
    names: impl FnOnce(&mut Vocabulary),
    header: Header,
    options: &Options,
    outputs: Outputs,
    observer: &dyn Observer,
) -> Result<Corpus> {
    if !options.range.is_all() && (outputs.list.is_some() || outputs.contexts) {
        return Err(Error::setting(
            "range",
            "counts a part of the windows; models and lists need all of them",
        ));
    }
    if !options.range.is_all() && outputs.save.is_none() {
        return Err(Error::setting(
            "range",
            "needs `save`: the figures of a part are added to those of the others",
        ));
    }
    if !options.shard.is_all() && outputs.save.is_some() {
        return Err(Error::setting(
            "shard",
            "the windows of different documents cannot be merged; divide the windows with `range`",
        ));
    }
    let (mut alphabet, maps) = documents.alphabet(stored.as_ref());
    names(&mut alphabet);
    let task = Task { documents, stored, alphabet, maps, header, options, outputs, observer };
    // Codes are ids plus one.
    match task.alphabet.len() {
        0..=0xff => task.run::<u8>(),
        0x100..=0xffff => task.run::<u16>(),
        _ => task.run::<u32>(),
    }
}

struct Task<'a> {
    documents: Documents,
    /// All documents, if they do not fit in memory.
    stored: Option<StoredDocuments>,
    /// The tokens of the text.
    alphabet: Vocabulary,
    /// For every chunk of documents, the ids of its provisional ones.
    maps: Vec<Vec<u32>>,
    header: Header,
    options: &'a Options,
    outputs: Outputs,
    observer: &'a dyn Observer,
}

impl Task<'_> {
    fn run<C: Code>(self) -> Result<Corpus> {
        let Self { documents, stored, alphabet, maps, header, options, mut outputs, observer } = self;
        let (read, text) = match stored {
            None => (documents.len(), text_of::<C>(&documents, &maps, options.join)),
            Some(stored) => (stored.ends().len(), text_in_file::<C>(stored, &maps, options)?),
        };
        let tokens = text.tokens();
        drop(documents);
        let rule = WindowRule {
            n_ctx: options.window.n_ctx as usize,
            exact_length: options.window.exact_length,
            stride: usize::try_from(options.stride).unwrap_or(usize::MAX),
            repeats: options.stride == 1,
            joined: options.join,
        };
        let longest = (0..text.documents()).map(|i| text.document(i).len()).max().unwrap_or(0);
        if (0..text.documents()).all(|i| rule.starts(text.document(i).len()).next().is_none()) {
            return Err(no_windows(read, tokens, longest, &header, rule));
        }
        let counts = token_counts(&text);
        let d = vocabulary(&text, &alphabet, rule, &counts);
        let facts = Facts::new(&text, rule, &d, &counts, header.clone());
        let job = Job {
            text: &text,
            rule,
            counts: &counts,
            d_vocab: d.len(),
            part: options.range,
            max_memory: options.max_memory,
            temp_dir: &options.temp_dir,
            alphabet: &alphabet,
        };
        let mut counted = job.count(observer)?;
        if let Some(out) = outputs.save.take() {
            let points = curve_points(rule.n_ctx);
            let file = RangeFile::new(&facts, &counted, fingerprint(&text, &alphabet))?
                .firsts(stored_counts(&text, rule.stride, &points));
            file.write(out)?;
        }
        if options.range.is_all() {
            counted.add_short_contexts(rule.n_ctx);
        }
        let mut firsts = match rule.stride {
            1 => FirstTokens::of_all(&text, counts),
            stride => FirstTokens::new(&text, stride),
        };
        let repeats = counted.marks.as_ref().map(Marks::count).transpose()?.unwrap_or_default();
        let summary = summary(&facts, &counted, repeats, &dense_points(rule.n_ctx), &mut firsts);
        text.check(&options.temp_dir)?;
        if outputs.list.is_none() && !outputs.contexts {
            return Ok(Corpus { summary, vocabulary: d, contexts: None, head: None, whole: None });
        }
        let mut sample = sampled(&text, rule, &alphabet, header, options, outputs, observer)?;
        sample.whole = Some(Box::new(summary));
        Ok(sample)
    }
}

/// The text of the documents, end to end if they are joined.
fn text_of<C: Code>(documents: &Documents, maps: &[Vec<u32>], join: bool) -> Text<C> {
    let ends = if join { usize::from(documents.tokens() > 0) } else { documents.len() };
    let mut text = TextBuilder::<C>::new(documents.tokens(), ends);
    let codes: Vec<Vec<C>> = maps.iter().map(|map| map.iter().map(|id| C::new(id + 1)).collect()).collect();
    let mut parts = Vec::new();
    let mut rest = text.codes();
    for run in documents.runs() {
        let (own, others) = rest.split_at_mut(run.tokens.len() + if join { 0 } else { run.len() });
        parts.push((run, own));
        rest = others;
    }
    // Piece by piece: some take longer, where the system clears memory first.
    parts.into_par_iter().with_max_len(1).for_each(|(run, mut own)| {
        let codes = &codes[run.chunk];
        for (tokens, ends) in run.documents() {
            let (document, others) = own.split_at_mut(tokens.len());
            tokens.map(codes, document);
            own = if ends && !join { &mut others[1..] } else { others };
        }
    });
    let mut length = 0;
    for (tokens, ends) in documents.runs().flat_map(|run| run.documents()) {
        length += tokens.len();
        if ends && !join {
            text.end_document(length);
            length += 1;
        }
    }
    if join && length > 0 {
        text.end_document(length);
    }
    text.finish()
}

/// The text of stored documents, end to end if they are joined, in a file again.
fn text_in_file<C: Code>(
    mut stored: StoredDocuments,
    maps: &[Vec<u32>],
    options: &Options,
) -> Result<Text<C>> {
    let failed = |e| Error::io(&options.temp_dir, "write to", e);
    let mut out = BufWriter::new(tempfile::tempfile_in(&options.temp_dir).map_err(failed)?);
    let ends = match options.join {
        true => vec![stored.tokens()],
        false => stored.ends().to_vec(),
    };
    let (mut at, mut marks) = (0, Vec::with_capacity(ends.len()));
    let mut codes: Vec<C> = Vec::new();
    stored.each(|chunk, mut ids| {
        codes.clear();
        while !ids.is_empty() {
            let end = ends.get(marks.len()).copied().unwrap_or(usize::MAX);
            let (now, later) = ids.split_at(ids.len().min(end - at));
            codes.extend(now.iter().map(|&id| C::new(maps[chunk][id as usize] + 1)));
            (at, ids) = (at + now.len(), later);
            if at == end {
                codes.push(C::new(0));
                marks.push(at + marks.len());
            }
        }
        out.write_all(bytemuck::cast_slice(&codes))
    })?;
    let file = out.into_inner().map_err(|e| failed(e.into_error()))?;
    Ok(Text::in_file(file, marks))
}

/// The error for a text without windows.
fn no_windows(documents: usize, tokens: usize, longest: usize, header: &Header, rule: WindowRule) -> Error {
    let message = match (documents, header.dropped.empty) {
        (0, 0) => "no windows: the input is empty".into(),
        (0, 1) => "no windows: the text has no tokens".into(),
        (0, empty) => format!("no windows: {empty} documents read, none of which has a token"),
        (1, _) => format!(
            "no full windows: they have {} tokens, and the text has {tokens} (`n_ctx`, `exact_length`)",
            rule.n_ctx + 1
        ),
        _ => format!(
            "no full windows: they have {} tokens, and the longest of {documents} documents has {longest} (`n_ctx`, \
             `exact_length`, `join`)",
            rule.n_ctx + 1
        ),
    };
    Error::EmptyCorpus { message }
}
