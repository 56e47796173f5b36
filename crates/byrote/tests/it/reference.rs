//! All statistics of a corpus compared with a slow reference that uses hash maps, for every tokenizer and window, with and
//! without shards and spilling, on any number of threads.

use byrote::corpus::{
    Alphabet, ContextRule, ContextSet, Corpus, DocumentRule, Key, Options, Outputs, Source, Summary,
    TokenizerChoice, Vocabulary, Window,
};
use byrote::observe::Silent;
use byrote::output::OutputFile;
use proptest::prelude::*;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// A token of the reference: a string, or the start or end token.
type Token = String;

/// The tokens by the definitions, through the `regex` crate.
fn tokens(tokenizer: &TokenizerChoice, text: &str) -> Vec<Token> {
    static SPACES: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\S+").unwrap());
    static WORDS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\w+|[^\w\s]+").unwrap());
    let cut = |pattern: &Regex| pattern.find_iter(text).map(|m| m.as_str().to_owned()).collect();
    match tokenizer {
        TokenizerChoice::Byte => text.bytes().map(|b| format!("byte {b}")).collect(),
        TokenizerChoice::Char => text.chars().map(String::from).collect(),
        TokenizerChoice::Whitespace => cut(&SPACES),
        TokenizerChoice::WordPunct => cut(&WORDS),
        TokenizerChoice::File(_) | TokenizerChoice::Held(_) => unreachable!(),
    }
}

/// The statistics of a list of texts by the definitions.
#[derive(Debug, Default, PartialEq)]
struct Reference {
    documents: u64,
    sequences: u64,
    tokens: u64,
    d_vocab: u64,
    contexts: u64,
    predictions: u64,
    deterministic: u64,
    pairs: u64,
    labels: u64,
    last_tokens: u64,
    full_support: u64,
    empty: u64,
    short: u64,
    floor: f64,
    by_length: BTreeMap<u32, (u64, u64, f64)>,
    coverage: Vec<u64>,
    /// Every context with its next tokens and their counts.
    listed: BTreeMap<Vec<Token>, BTreeMap<Token, u64>>,
}

fn reference(texts: &[String], tokenizer: &TokenizerChoice, window: Window, limit: Option<u64>) -> Reference {
    let kept = window.n_ctx as usize + 1;
    let mut r = Reference::default();
    let mut next: HashMap<Vec<Token>, HashMap<Token, u64>> = HashMap::new();
    let (mut vocabulary, mut distinct) = (BTreeSet::new(), BTreeSet::new());
    for text in texts {
        if limit.is_some_and(|limit| r.documents >= limit) {
            break;
        }
        let own = tokens(tokenizer, text);
        if own.is_empty() {
            r.empty += 1;
            continue;
        }
        let mut document: Vec<Token> =
            window.bos.then(|| "start".to_owned()).into_iter().chain(own).collect();
        if window.eos {
            document.push("end".to_owned()); // beyond the window it is cut off again
        }
        document.truncate(kept);
        if window.exact_length && document.len() < kept {
            r.short += 1;
            continue;
        }
        r.documents += 1;
        r.tokens += document.len() as u64;
        vocabulary.extend(document.iter().cloned());
        let lengths = match window.contexts {
            ContextRule::Prefixes | ContextRule::Windows => 1..document.len(),
            ContextRule::Full => document.len() - 1..document.len(),
        };
        for t in lengths.filter(|&t| t > 0) {
            *next.entry(document[..t].to_vec()).or_default().entry(document[t].clone()).or_default() += 1;
        }
        distinct.insert(document);
    }
    // The names of tokens in the program's vocabulary.
    r.sequences = distinct.len() as u64;
    r.d_vocab = vocabulary.len() as u64;
    let (mut labels, mut last, mut counts) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    // Sorted, so that the reference does not depend on the order of a hash map either.
    for (context, next) in next.into_iter().collect::<BTreeMap<_, _>>() {
        let next: BTreeMap<Token, u64> = next.into_iter().collect();
        r.listed.insert(context, next);
    }
    for (context, next) in &r.listed {
        let count: u64 = next.values().sum();
        let entropy: f64 = next.values().map(|&n| -(n as f64) * (n as f64 / count as f64).ln()).sum();
        r.contexts += 1;
        r.predictions += count;
        r.deterministic += u64::from(next.len() == 1);
        r.pairs += next.len() as u64;
        r.full_support += u64::from(next.len() == vocabulary.len());
        r.floor += entropy;
        let length = r.by_length.entry(context.len() as u32).or_default();
        (length.0, length.1, length.2) = (length.0 + 1, length.1 + count, length.2 + entropy);
        labels.extend(next.keys());
        last.insert(&context[context.len() - 1]);
        counts.push(count);
    }
    (r.labels, r.last_tokens) = (labels.len() as u64, last.len() as u64);
    counts.sort_unstable_by(|a, b| b.cmp(a));
    for epsilon in [50_000u64, 20_000, 10_000, 5_000, 1_000, 100, 0] {
        let needed = r.predictions * (100_000 - epsilon);
        let (mut covered, mut contexts) = (0, 0);
        for c in &counts {
            if covered * 100_000 >= needed {
                break;
            }
            covered += c;
            contexts += 1;
        }
        r.coverage.push(contexts);
    }
    r
}

fn assert_agrees(summary: &Summary, r: &Reference) {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * (1.0 + b.abs());
    assert_eq!(
        [summary.documents, summary.sequences, summary.tokens, summary.d_vocab, summary.contexts],
        [r.documents, r.sequences, r.tokens, r.d_vocab, r.contexts]
    );
    assert_eq!(
        [summary.predictions, summary.deterministic_contexts, summary.pairs, summary.labels],
        [r.predictions, r.deterministic, r.pairs, r.labels]
    );
    assert_eq!(
        [
            summary.distinct_last_tokens,
            summary.full_support_contexts,
            summary.dropped.empty,
            summary.dropped.short
        ],
        [r.last_tokens, r.full_support, r.empty, r.short]
    );
    assert!(near(summary.floor_nats.0, r.floor), "{} {}", summary.floor_nats.0, r.floor);
    let per = summary.floor_nats_per_prediction.map(|n| n.0);
    assert_eq!(per, (r.predictions > 0).then(|| summary.floor_nats.0 / r.predictions as f64));
    for l in &summary.by_length {
        let &(contexts, predictions, floor) = r.by_length.get(&l.length).unwrap_or(&(0, 0, 0.0));
        assert_eq!((l.contexts, l.predictions), (contexts, predictions), "length {}", l.length);
        assert!(near(l.floor_nats.0, floor), "length {}", l.length);
    }
    let lengths = summary.by_length.iter().filter(|l| l.contexts > 0).count();
    assert_eq!(lengths, r.by_length.len());
    assert_eq!(summary.coverage.iter().map(|c| c.contexts).collect::<Vec<_>>(), r.coverage);
}

/// Every context of a set, in the terms of the reference.
fn listed(contexts: &ContextSet, vocabulary: &Vocabulary) -> BTreeMap<Vec<Token>, BTreeMap<Token, u64>> {
    let word = |id: u32| match vocabulary.key(id) {
        Key::Bos => "start".to_owned(),
        Key::Eos => "end".to_owned(),
        Key::Symbol(b) if vocabulary.alphabet() == Alphabet::Byte => format!("byte {b}"),
        _ => vocabulary.text(id),
    };
    let mut tokens = Vec::new();
    let mut all = BTreeMap::new();
    for context in contexts.iter() {
        context.tokens(&mut tokens);
        let next: BTreeMap<Token, u64> = context.next().map(|(id, n)| (word(id), n)).collect();
        let largest = next.values().max().copied();
        let top: BTreeSet<Token> = context.top_set().into_iter().map(word).collect();
        let expect = next.iter().filter(|(_, n)| Some(**n) == largest).map(|(t, _)| t.clone());
        assert_eq!(top, expect.collect());
        assert_eq!(context.count(), next.values().sum::<u64>());
        all.insert(tokens.iter().map(|&id| word(id)).collect(), next);
    }
    all
}

fn write_shards(directory: &Path, texts: &[String], shards: usize) -> Vec<PathBuf> {
    let size = texts.len().div_ceil(shards).max(1);
    let mut paths = Vec::new();
    for (i, texts) in texts.chunks(size).enumerate() {
        let path = directory.join(format!("{i}.txt"));
        std::fs::write(&path, texts.iter().map(|t| format!("{t}\n")).collect::<String>()).unwrap();
        paths.push(path);
    }
    paths
}

fn window() -> impl Strategy<Value = Window> {
    (1u32..8, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(n_ctx, exact_length, bos, eos, full)| {
            let contexts = if full { ContextRule::Full } else { ContextRule::Prefixes };
            Window::default().n_ctx(n_ctx).exact_length(exact_length).bos(bos).eos(eos).contexts(contexts)
        },
    )
}

/// Texts over few characters, so that contexts are shared; with spaces of several kinds and letters beyond ASCII.
fn texts() -> impl Strategy<Value = Vec<String>> {
    let few = prop::collection::vec("[ab ,]{0,9}", 0..40);
    let many = prop::collection::vec("[a-dé日\u{2003}\u{200d}.'\t _1-]{0,14}", 0..40);
    // Wide vocabularies and long documents use indexed instead of packed keys.
    let wide = prop::collection::vec("[a-z]{1,2}( [a-z]{1,2}){0,30}", 0..40);
    prop_oneof![few, many, wide]
}

fn tokenizer() -> impl Strategy<Value = TokenizerChoice> {
    prop_oneof![
        Just(TokenizerChoice::Byte),
        Just(TokenizerChoice::Char),
        Just(TokenizerChoice::Whitespace),
        Just(TokenizerChoice::WordPunct)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 48 } else { 400 }))]

    #[test]
    fn every_figure_equals_the_reference(
        texts in texts(),
        tokenizer in tokenizer(),
        window in window(),
        long: bool,
        limit in prop::option::of(0u64..30),
        shards in 1usize..5,
        threads in 1usize..4,
        spill: bool,
    ) {
        let window = if long { window.n_ctx(window.n_ctx * 12) } else { window };
        let directory = tempfile::tempdir().unwrap();
        let paths = write_shards(directory.path(), &texts, shards);
        let expect = reference(&texts, &tokenizer, window, limit);
        let options = Options::default()
            .window(window)
            .tokenizer(tokenizer.clone())
            .limit(limit)
            .max_memory(spill.then_some(0))
            .temp_dir(directory.path());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let read = |paths: &[PathBuf], options: &Options, save: Option<&Path>| {
            let save = save.map(|p| OutputFile::create(p).unwrap());
            let outputs = Outputs::default().contexts(true).save(save).may_be_empty(true);
            pool.install(|| Corpus::read(&Source::Files(paths.to_vec()), options, outputs, &Silent).unwrap())
        };
        let whole = read(&paths, &options, None);
        assert_agrees(&whole.summary, &expect);

        // The set of contexts agrees with the statistics.
        let contexts = whole.contexts.unwrap();
        prop_assert_eq!(contexts.len() as u64, expect.contexts);
        prop_assert_eq!(listed(&contexts, &whole.vocabulary), expect.listed);
        let lengths: Vec<usize> = contexts.iter().map(|c| c.len()).collect();
        prop_assert!(lengths.is_sorted(), "the shortest come first");

        // Shards summarized separately and merged give the same result to the last bit; `limit` is not a property of
        // shards.
        if limit.is_none() && !paths.is_empty() {
            let summaries: Vec<PathBuf> = paths.iter().map(|p| p.with_extension("summary")).collect();
            for (path, summary) in paths.iter().zip(&summaries) {
                read(std::slice::from_ref(path), &options, Some(summary));
            }
            let outputs = Outputs::default().may_be_empty(true);
            let merged = Corpus::read(&Source::Summaries(summaries), &options, outputs, &Silent).unwrap();
            prop_assert_eq!(&merged.summary, &whole.summary);
            prop_assert_eq!(merged.vocabulary, whole.vocabulary);
        }
        // No temporary files remain.
        let left = std::fs::read_dir(directory.path()).unwrap().count();
        prop_assert!(left <= 2 * paths.len(), "{left} files");
    }

    #[test]
    fn the_order_of_documents_does_not_matter_to_the_last_bit(
        mut texts in prop::collection::vec("[abc]{1,7}", 1..200),
        seed: u64,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let options = Options::default().tokenizer(TokenizerChoice::Char);
        let figures = |texts: &[String]| {
            let paths = write_shards(directory.path(), texts, 1);
            Corpus::read(&Source::Files(paths), &options, Outputs::default(), &Silent).unwrap().summary
        };
        let before = figures(&texts);
        let mut stream = byrote::Stream::new(seed, "shuffle", 0);
        for i in (1..texts.len()).rev() {
            texts.swap(i, stream.below(i as u64 + 1) as usize);
        }
        prop_assert_eq!(figures(&texts), before);
    }
}

/// Enough documents for a radix sort in several parts and on several threads; many more with
/// `BYROTE_TEST_HUGE=1`.
#[test]
fn many_documents_equal_the_reference() {
    let directory = tempfile::tempdir().unwrap();
    let huge = std::env::var_os("BYROTE_TEST_HUGE").is_some_and(|value| value == "1");
    // Parts have at least 4,096 documents.
    let n = if huge { 30_000 } else { 9_000 };
    let stories: Vec<String> = byrote::corpus::builtin::Stories::new(5).documents(n).collect();
    let mut stream = byrote::Stream::new(1, "words", 0);
    // A wide vocabulary with a long tail, and many repetitions: keys of 192 bits and more.
    let wide: Vec<String> = (0..n)
        .map(|_| {
            let word = |_| format!("w{}", (stream.unit().powi(6) * 9000.0) as u32);
            (0..12).map(word).collect::<Vec<_>>().join(" ")
        })
        .collect();
    for (texts, n_ctx) in [(&stories, 9), (&wide, 9), (&wide, 11), (&stories, 40), (&wide, 3)] {
        let window = Window::default().n_ctx(n_ctx);
        let expect = reference(texts, &TokenizerChoice::WordPunct, window, None);
        let paths = write_shards(directory.path(), texts, 2);
        for threads in [1, 2, 3] {
            let options = Options::default().window(window).temp_dir(directory.path());
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let source = Source::Files(paths.clone());
            let outputs = Outputs::default().contexts(threads == 2);
            let corpus = pool.install(|| Corpus::read(&source, &options, outputs, &Silent)).unwrap();
            assert_agrees(&corpus.summary, &expect);
            if let Some(contexts) = corpus.contexts {
                assert_eq!(listed(&contexts, &corpus.vocabulary), expect.listed);
            }
        }
    }
}

#[test]
fn the_worked_example_comes_out() {
    let directory = tempfile::tempdir().unwrap();
    let paths = write_shards(directory.path(), &["abab", "abac", "abb"].map(String::from), 1);
    let options = Options::default()
        .window(Window::default().n_ctx(3))
        .tokenizer(TokenizerChoice::Char)
        .documents(DocumentRule::Line);
    let s = Corpus::read(&Source::Files(paths), &options, Outputs::default(), &Silent).unwrap().summary;
    assert_eq!((s.documents, s.contexts, s.predictions, s.deterministic_contexts), (3, 3, 8, 1));
    assert!((s.floor_nats.0 - 3.295_836_866_004_329).abs() < 1e-15);
}

#[test]
fn more_runs_than_are_merged_at_once_give_the_same_figures() {
    let directory = tempfile::tempdir().unwrap();
    let stories = byrote::corpus::builtin::Stories::new(3);
    let texts: Vec<String> = stories.documents(400).collect();
    let paths = write_shards(directory.path(), &texts, 200);
    let options =
        |max_memory: Option<u64>| Options::default().max_memory(max_memory).temp_dir(directory.path());
    let read = |options: &Options| {
        Corpus::read(&Source::Files(paths.clone()), options, Outputs::default(), &Silent).unwrap().summary
    };
    assert_eq!(read(&options(Some(0))), read(&options(None)));
}

#[test]
fn rows_in_memory_count_as_files_do() {
    let ids: Vec<u16> = (0..60_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u16 % 7).collect();
    let rows = Corpus::from_rows(&ids, 6, 4).unwrap().summary;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ids.bin");
    std::fs::write(&path, ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    let options = Options::default().window(Window::default().n_ctx(4)).documents(DocumentRule::Chunk(6));
    let file =
        Corpus::read(&Source::Files(vec![path]), &options, Outputs::default(), &Silent).unwrap().summary;
    assert_eq!(rows, file);
    let wide: Vec<u32> = ids.iter().map(|&id| u32::from(id)).collect();
    assert_eq!(Corpus::from_rows(&wide, 6, 4).unwrap().summary, rows);
    assert!(Corpus::from_rows(&ids, 7, 4).is_err() && Corpus::from_rows(&ids, 0, 4).is_err());
    assert!(Corpus::from_rows(&ids, 6, 0).is_err());
    // Ids too large for a table are looked up.
    let far: Vec<u32> = ids.iter().map(|&id| u32::MAX - 70_000 + u32::from(id)).collect();
    assert_eq!(Corpus::from_rows(&far, 6, 4).unwrap().summary, rows);
}
