//! Parts of a merge, for summaries that together are too much for one process.
//!
//! Every document belongs to one of P *classes*, by a hash of its first token (of its second, if all documents begin with a
//! start token). All documents with a given context are in one class, so the contexts of the classes are counted separately and
//! added; the one exception is the start token alone, which is a context in every class and is put together at the end. Tokens
//! belong to classes too, so that each is counted once.
//!
//! ```text
//! shards (save) -- split_summary --> P files per shard -- merge, range = I/P, save --> P part files -- merge --> figures
//! ```
//!
//! Splitting is for moving less: `merge` with a `range` also reads whole summaries, and skips the documents of other classes.

use super::count::sort::RowVisitor;
use super::count::tally::Tally;
use super::count::trie_scan::{Scan, Scanned};
use super::figures_file::FiguresFile;
use super::merge::{merge as merge_rows, union};
use super::options::{Options, PartOf};
use super::sorted_run::{self, AnyRun, Header, RunWriter, StoredToken, save_shell};
use super::summary::Summary;
use super::vocabulary::{Alphabet, Arena, Key, Vocabulary, VocabularySize};
use super::{Corpus, Outputs, open_summaries};
use crate::num::hash::Fnv;
use crate::observe::{Observer, Stage};
use crate::output::OutputFile;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

const FILE: FiguresFile =
    FiguresFile { magic: b"byrotep\x01", name: "a part of a merge", advice: "merge the summaries again" };

/// More tokens than a class can have; the sum over all classes is below 2^64.
const MOST_TOKENS: u64 = 1 << 43;

/// The class of a token, from 0.
pub(super) fn class_of(key: Key<'_>, part: PartOf) -> u32 {
    let mut hash = Fnv::new();
    match key {
        Key::Bos => hash.write(&[0]),
        Key::Eos => hash.write(&[1]),
        Key::Symbol(symbol) => {
            hash.write(&[2]);
            hash.write(&symbol.to_le_bytes());
        }
        Key::Word(word) => {
            hash.write(&[3]);
            hash.write(word);
        }
    }
    // FNV mixes upwards: its low bits depend on few bits of the input, so both halves are mixed before the top is taken.
    let hash = hash.finish();
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(mixed) * u128::from(part.of())) >> 64) as u32
}

/// The token of a document that decides its class.
pub(super) fn deciding_token(document: &[u32], bos: bool) -> Option<u32> {
    document.get(usize::from(bos)).or(document.first()).copied()
}

/// The figures of one class of documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartFile {
    header: Header,
    part: PartOf,
    /// The number of summaries.
    shards: u64,
    scanned: Scanned,
    /// Of the tokens of this class.
    vocabulary: VocabularySize,
}

impl PartFile {
    fn open(path: &Path) -> Result<Self> {
        let part: Self = FILE.open(path)?;
        match part.is_possible() {
            true => Ok(part),
            false => Err(Error::format(path, "damaged: its figures do not fit its settings")),
        }
    }

    /// Whether the numbers are of sizes that they can have.
    fn is_possible(&self) -> bool {
        let Scanned { rows, documents, tokens, by_length } = &self.scanned;
        let VocabularySize { tokens: d_vocab, labels, last_tokens } = self.vocabulary;
        self.header.window.check().is_ok()
            && by_length.len() <= self.header.window.n_ctx as usize
            && rows <= documents
            && documents <= tokens
            && *tokens <= MOST_TOKENS
            && d_vocab <= MOST_TOKENS
            && labels.max(last_tokens) <= d_vocab
            && by_length.iter().all(|tally| tally.predictions <= *tokens && tally.is_consistent())
    }
}

/// Whether a file is a part of a merge.
pub(super) fn is_part_file(path: &Path) -> Result<bool> {
    FILE.is_kind_of(path)
}

/// Counts one class of the documents of summaries, and saves the figures.
pub(super) fn count(
    paths: &[PathBuf],
    options: &Options,
    mut outputs: Outputs,
    observer: &dyn Observer,
) -> Result<Corpus> {
    if outputs.list.is_some() || outputs.contexts {
        let message = "counts a part of the documents; models and lists need all of them";
        return Err(Error::setting("range", message));
    }
    let Some(out) = outputs.save.take() else {
        let message = "needs `save`: the figures of a part are added to those of the others";
        return Err(Error::setting("range", message));
    };
    let (header, mut runs) = open_summaries(paths, options, observer)?;
    let (union, maps) = union(&mut runs, options.max_memory)?;
    let mut scan = Scan::new(header.window.contexts);
    merge_rows(&mut runs, &maps, None, &mut scan, observer)?;
    let is_own = |key: Key<'_>| u64::from(class_of(key, options.range)) + 1 == options.range.number();
    let mut vocabulary = Vocabulary::new(header.alphabet);
    for (key, &marks) in union.keys().zip(union.marks()).filter(|(key, _)| is_own(*key)) {
        vocabulary.push(key, marks);
    }
    let part = PartFile {
        header: header.clone(),
        part: options.range,
        shards: paths.len() as u64,
        scanned: scan.finish(),
        vocabulary: vocabulary.size(),
    };
    FILE.write(&part, out)?;
    let summary =
        Summary { range: Some(options.range), ..Summary::new(&part.scanned, part.vocabulary, header) };
    Ok(Corpus { summary, vocabulary, contexts: None, head: None, whole: None })
}

/// Adds the figures of all classes.
pub(super) fn merge(paths: &[PathBuf], outputs: Outputs, observer: &dyn Observer) -> Result<Corpus> {
    for (name, given) in [("save", outputs.save.is_some()), ("list", outputs.list.is_some())] {
        if given {
            return Err(Error::setting(name, "does not apply to parts of a merge, which hold only figures"));
        }
    }
    if outputs.contexts {
        let message = "parts of a merge hold only figures, not the contexts that a model needs; \
                       merge the summaries themselves";
        return Err(Error::setting("merge", message));
    }
    let mut files = Vec::with_capacity(paths.len());
    for (i, path) in paths.iter().enumerate() {
        observer.report(Stage::Merging, i as u64, Some(paths.len() as u64))?;
        files.push((path.as_path(), PartFile::open(path)?));
    }
    check(&files)?;
    let Some((_, first)) = files.first() else {
        return Err(Error::setting("merge", "needs at least one part"));
    };
    let header = first.header.clone();
    let (scanned, vocabulary) = added(&files, header.window.bos);
    if scanned.documents == 0 && !outputs.may_be_empty {
        return Err(super::finish::empty_corpus(header.dropped, header.window));
    }
    let alphabet = header.alphabet;
    let summary = Summary::new(&scanned, vocabulary, header);
    Ok(Corpus { summary, vocabulary: Vocabulary::new(alphabet), contexts: None, head: None, whole: None })
}

/// The sum of the figures. With a start token, the only context of length 1 is that token, in every class.
fn added(files: &[(&Path, PartFile)], bos: bool) -> (Scanned, VocabularySize) {
    let mut all = Scanned { rows: 0, documents: 0, tokens: 0, by_length: Vec::new() };
    let mut size = VocabularySize::default();
    for (_, PartFile { scanned, vocabulary, .. }) in files {
        all.rows += scanned.rows;
        all.documents += scanned.documents;
        all.tokens += scanned.tokens;
        if all.by_length.len() < scanned.by_length.len() {
            all.by_length.resize_with(scanned.by_length.len(), Tally::default);
        }
        for (length, (sum, tally)) in all.by_length.iter_mut().zip(&scanned.by_length).enumerate() {
            if bos && length == 0 { sum.merge_same_context(tally) } else { sum.merge(tally) }
        }
        size.tokens += vocabulary.tokens;
        size.labels += vocabulary.labels;
        size.last_tokens += vocabulary.last_tokens;
    }
    (all, size)
}

/// Refuses parts that do not belong together, or are not all there are.
fn check(files: &[(&Path, PartFile)]) -> Result<()> {
    let Some((left, first)) = files.first() else { return Ok(()) };
    for (right, file) in files {
        let differ = |message: String| Error::Incompatible {
            left: left.to_path_buf(),
            right: right.to_path_buf(),
            message,
        };
        if (&file.header, file.shards) != (&first.header, first.shards) {
            return Err(differ("they are parts of different corpora".into()));
        }
        if file.part.of() != first.part.of() {
            return Err(differ(format!("one is part {}, the other part {}", first.part, file.part)));
        }
    }
    PartOf::check_complete(files.iter().map(|(path, file)| (file.part, *path)))
}

/// Splits a summary into one file per class, for jobs that each merge one class of many summaries; returns the files, named
/// `part-0001` and so on, in `directory`.
///
/// Each is a summary of its documents, with the settings and the numbers of documents left out of the whole. It has the tokens
/// of its documents and those of its class.
pub fn split_summary(
    path: &Path,
    parts: u32,
    directory: &Path,
    observer: &dyn Observer,
) -> Result<Vec<PathBuf>> {
    if parts == 0 || parts > 1 << 16 {
        return Err(Error::setting("parts", format!("must be between 1 and 65536 (got {parts})")));
    }
    let d_vocab = sorted_run::open_saved(path)?.d_vocab;
    // A pass over the summary takes a map of all tokens for each class that it writes.
    let at_once = ((64 << 20) / (4 * d_vocab.max(1))).clamp(1, 64) as u32;
    let mut written = Vec::new();
    for first in (1..=parts).step_by(at_once as usize) {
        let numbers = first..=parts.min(first + at_once - 1);
        written.extend(write_classes(path, parts, numbers, directory, observer)?);
    }
    // Every file is complete before the first gets its name.
    let mut paths = Vec::with_capacity(written.len());
    for out in written {
        paths.push(out.path().to_path_buf());
        out.commit()?;
    }
    Ok(paths)
}

/// The id of a token that a class does not have.
const ABSENT: u32 = u32::MAX;

/// Some of the classes of a summary.
struct Classes {
    /// Their numbers, from 1.
    numbers: RangeInclusive<u32>,
    /// The class of every token of the summary, from 0.
    of_token: Vec<u32>,
    bos: bool,
    /// For each of these classes, the ids that the tokens of the summary have in it.
    ids: Vec<Vec<u32>>,
}

impl Classes {
    /// Which of these classes a class is.
    fn place(&self, class: u32) -> Option<usize> {
        self.numbers.contains(&(class + 1)).then(|| (class + 1 - self.numbers.start()) as usize)
    }

    /// Which of these classes a document belongs to.
    fn place_of(&self, document: &[u32]) -> Option<usize> {
        self.place(self.of_token[deciding_token(document, self.bos)? as usize])
    }
}

/// Writes some of the classes of a summary, without giving the files their names.
fn write_classes(
    path: &Path,
    parts: u32,
    numbers: RangeInclusive<u32>,
    directory: &Path,
    observer: &dyn Observer,
) -> Result<Vec<OutputFile>> {
    let all = PartOf::new(1, u64::from(parts))?;
    let mut run = sorted_run::open_saved(path)?;
    let mut tokens = Vec::new();
    while let Some(token) = run.next_token()? {
        tokens.push(token);
    }
    let of_token: Vec<u32> = tokens.iter().map(|token| class_of(token.key(), all)).collect();
    let ids = vec![vec![ABSENT; tokens.len()]; numbers.clone().count()];
    let mut classes = Classes { numbers, of_token, bos: run.header.window.bos, ids };
    mark_tokens(&mut run, &mut classes, observer)?;
    let mut writers = Vec::with_capacity(classes.ids.len());
    for (number, ids) in classes.numbers.clone().zip(&mut classes.ids) {
        let vocabulary = own_vocabulary(&tokens, ids, run.header.alphabet)
            .ok_or_else(|| run.damaged("the vocabulary is out of order"))?;
        let out = OutputFile::create(&directory.join(format!("part-{number:04}")))?;
        let name = out.path().to_path_buf();
        let writer = save_shell(out).and_then(|shell| RunWriter::new(shell, &run.header, &vocabulary));
        writers.push((writer.map_err(|e| Error::io(&name, "write", e))?, Vec::new(), name));
    }
    let mut run = sorted_run::open_saved(path)?;
    while run.next_token()?.is_some() {}
    let mut rows = 0u64;
    while let Some(count) = run.advance()? {
        rows += 1;
        if rows & 0xffff == 0 {
            observer.report(Stage::Merging, rows, None)?;
        }
        let Some(place) = classes.place_of(run.document()) else { continue };
        let (writer, before, _) = &mut writers[place];
        let own: Vec<u32> = run.document().iter().map(|&token| classes.ids[place][token as usize]).collect();
        let lcp = own.iter().zip(before.iter()).take_while(|(a, b)| a == b).count();
        writer.row(lcp, own.len(), count, |p| own[p]);
        *before = own;
    }
    let finished = writers.into_iter().map(|(writer, _, name)| {
        let shell = writer.finish().and_then(|shell| shell.finish());
        let mut out = shell.map_err(|e| Error::io(&name, "write", e))?;
        out.complete()?;
        Ok(out)
    });
    finished.collect()
}

/// Marks the tokens of every class: those that belong to it, and those of its documents.
fn mark_tokens(run: &mut AnyRun, classes: &mut Classes, observer: &dyn Observer) -> Result<()> {
    for token in 0..classes.of_token.len() {
        if let Some(place) = classes.place(classes.of_token[token]) {
            classes.ids[place][token] = 0;
        }
    }
    let mut rows = 0u64;
    while run.advance()?.is_some() {
        if let Some(place) = classes.place_of(run.document()) {
            run.document().iter().for_each(|&token| classes.ids[place][token as usize] = 0);
        }
        rows += 1;
        if rows & 0xffff == 0 {
            observer.check()?;
        }
    }
    Ok(())
}

/// The vocabulary of the tokens that are marked in `ids`, which get the ids that they have in it; `None` if they are out of order.
fn own_vocabulary(tokens: &[StoredToken], ids: &mut [u32], alphabet: Alphabet) -> Option<Vocabulary> {
    let (mut vocabulary, mut names) = (Vocabulary::new(alphabet), Arena::default());
    for (token, id) in tokens.iter().zip(ids).filter(|(_, id)| **id != ABSENT) {
        *id = vocabulary.len() as u32;
        if !vocabulary.push(token.key(), token.marks) {
            return None;
        }
        if let Some(name) = &token.name {
            names.push(name);
        }
    }
    if tokens.iter().any(|token| token.name.is_some()) {
        vocabulary.set_name_list(names);
    }
    Some(vocabulary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{ContextRule, CorpusSpec, TokenizerChoice};
    use crate::observe::Silent;
    use proptest::prelude::*;

    /// Saves every shard of some documents, in `directory`.
    fn shards(documents: &[Vec<String>], spec: &CorpusSpec, directory: &Path) -> Vec<PathBuf> {
        let save = |(i, shard): (usize, &Vec<String>)| {
            let (text, saved) = (directory.join(format!("{i}.txt")), directory.join(format!("{i}.summary")));
            std::fs::write(&text, shard.join("\n")).unwrap();
            let outputs = Outputs::default().save(OutputFile::create(&saved).unwrap()).may_be_empty(true);
            Corpus::from_spec(&CorpusSpec { paths: vec![text], ..spec.clone() }, outputs, &Silent).unwrap();
            saved
        };
        documents.iter().enumerate().map(save).collect()
    }

    fn merged(paths: &[PathBuf]) -> Result<Summary> {
        let spec = CorpusSpec { merge: paths.to_vec(), ..CorpusSpec::default() };
        Ok(Corpus::from_spec(&spec, Outputs::default(), &Silent)?.summary)
    }

    /// Counts every class of summaries, in `directory`; `of` has the files of each class.
    fn counted(of: &[Vec<PathBuf>], directory: &Path) -> Vec<PathBuf> {
        let count = |(i, paths): (usize, &Vec<PathBuf>)| {
            let out = directory.join(format!("{i}.part"));
            let range = PartOf::new(i as u64 + 1, of.len() as u64).unwrap();
            let spec = CorpusSpec { merge: paths.clone(), range: Some(range), ..CorpusSpec::default() };
            let outputs = Outputs::default().save(OutputFile::create(&out).unwrap());
            Corpus::from_spec(&spec, outputs, &Silent).unwrap();
            out
        };
        of.iter().enumerate().map(count).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn classes_add_up_to_the_whole(
            documents in prop::collection::vec(prop::collection::vec("[abé ]{1,7}", 0..8), 1..4),
            of in 2usize..5,
            (bos, eos, full, words) in any::<(bool, bool, bool, bool)>(),
        ) {
            prop_assume!(documents.iter().flatten().any(|text| !text.trim().is_empty()));
            let directory = tempfile::tempdir().unwrap();
            let spec = CorpusSpec {
                tokenizer: Some(if words { TokenizerChoice::Whitespace } else { TokenizerChoice::Char }),
                contexts: Some(if full { ContextRule::Full } else { ContextRule::Prefixes }),
                bos,
                eos,
                n_ctx: Some(3),
                ..CorpusSpec::default()
            };
            let saved = shards(&documents, &spec, directory.path());
            let whole = merged(&saved).unwrap();
            let parts = counted(&vec![saved.clone(); of], directory.path());
            prop_assert_eq!(&merged(&parts).unwrap(), &whole);
            // The same from files that have one class each.
            let mut by_class = vec![Vec::new(); of];
            for (i, path) in saved.iter().enumerate() {
                let own = directory.path().join(format!("split-{i}"));
                std::fs::create_dir(&own).unwrap();
                let split = split_summary(path, of as u32, &own, &Silent).unwrap();
                prop_assert_eq!(split.len(), of);
                by_class.iter_mut().zip(split).for_each(|(class, path)| class.push(path));
            }
            let parts = counted(&by_class, directory.path());
            prop_assert_eq!(&merged(&parts).unwrap(), &whole);
            // Any order, but each exactly once.
            let mut reversed = parts.clone();
            reversed.reverse();
            prop_assert_eq!(&merged(&reversed).unwrap(), &whole);
            prop_assert!(merged(&parts[1..]).unwrap_err().to_string().contains("is missing"));
            let twice = [&parts[..], &parts[..1]].concat();
            prop_assert!(merged(&twice).unwrap_err().to_string().contains("both are part"));
        }
    }

    #[test]
    fn a_split_keeps_every_document_once_however_many_passes_it_takes() {
        let directory = tempfile::tempdir().unwrap();
        let documents: Vec<String> = (0..300).map(|i| format!("w{} w{} end", i % 90, i % 7)).collect();
        let saved = shards(&[documents], &CorpusSpec::default(), directory.path());
        let split = split_summary(&saved[0], 130, directory.path(), &Silent).unwrap();
        assert_eq!(split.len(), 130);
        assert_eq!(merged(&split).unwrap().contexts, merged(&saved).unwrap().contexts);
        let error = split_summary(&saved[0], 0, directory.path(), &Silent).unwrap_err();
        assert!(error.to_string().contains("must be between 1 and 65536"), "{error}");
    }

    #[test]
    fn parts_of_different_merges_and_damaged_parts_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let spec = CorpusSpec { tokenizer: Some(TokenizerChoice::Char), ..CorpusSpec::default() };
        let saved = shards(&[vec!["abc".into()], vec!["abd".into(), "b".into()]], &spec, directory.path());
        let parts = counted(&vec![saved.clone(); 2], directory.path());
        let elsewhere = tempfile::tempdir().unwrap();
        let others = counted(&vec![saved[..1].to_vec(); 2], elsewhere.path());
        let error = merged(&[parts[0].clone(), others[1].clone()]).unwrap_err();
        assert!(error.to_string().contains("different corpora"), "{error}");
        let bytes = std::fs::read(&parts[0]).unwrap();
        let damaged = directory.path().join("damaged.part");
        for cut in [8, bytes.len() / 2, bytes.len() - 1] {
            std::fs::write(&damaged, &bytes[..cut]).unwrap();
            assert!(merged(&[damaged.clone(), parts[1].clone()]).is_err(), "cut to {cut} bytes");
        }
        let spec =
            CorpusSpec { merge: parts, range: Some(PartOf::new(1, 2).unwrap()), ..CorpusSpec::default() };
        let error = Corpus::from_spec(&spec, Outputs::default(), &Silent).unwrap_err();
        assert!(error.to_string().contains("parts already"), "{error}");
    }
}
