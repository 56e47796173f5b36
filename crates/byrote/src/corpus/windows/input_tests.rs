//! Every way in which an input becomes the documents of windows, against a reference that divides the text by hand.

use super::WindowRule;
use super::tests::{check, check_repeats};
use crate::corpus::{
    ContextRule, Corpus, DocumentRule, MemoryFile, Options, Outputs, PartOf, Source, Summary,
    TokenizerChoice, Window,
};
use crate::observe::Silent;
use crate::output::OutputFile;
use proptest::prelude::*;
use std::path::Path;

/// How an input is read.
#[derive(Debug, Clone)]
struct Input {
    /// Files of lines of digits, each of which is a word.
    files: Vec<Vec<Vec<u32>>>,
    rule: DocumentRule,
    join: bool,
    bos: bool,
    eos: bool,
    shard: (u64, u64),
}

const BOS: u32 = 0;
const EOS: u32 = 1;
/// The reference's id of the word "0".
const ZERO: u32 = 2;

fn input() -> impl Strategy<Value = Input> {
    let line =
        prop_oneof![9 => prop::collection::vec(0u32..4, 0..25), 1 => prop::collection::vec(0u32..10, 0..25)];
    let files = prop::collection::vec(prop::collection::vec(line, 1..6), 1..4);
    let rule = prop_oneof![
        Just(DocumentRule::Line),
        Just(DocumentRule::File),
        (1usize..12).prop_map(DocumentRule::Chunk),
    ];
    let shard = (1u64..4).prop_flat_map(|of| (1..=of, Just(of)));
    let shard = prop_oneof![2 => Just((1, 1)), 1 => shard];
    (files, rule, any::<(bool, bool, bool)>(), shard)
        .prop_map(|(files, rule, (join, bos, eos), shard)| Input { files, rule, join, bos, eos, shard })
}

impl Input {
    fn source(&self) -> Source {
        let words = |line: &Vec<u32>| line.iter().map(|w| w.to_string()).collect::<Vec<_>>().join(" ") + "\n";
        let files = self.files.iter().enumerate().map(|(i, lines)| MemoryFile {
            name: format!("{i}.txt").into(),
            bytes: lines.iter().map(words).collect::<String>().into_bytes().into(),
        });
        Source::Memory(files.collect())
    }

    /// The documents, by hand.
    fn documents(&self) -> Vec<Vec<u32>> {
        let divided: Vec<Vec<u32>> = match self.rule {
            DocumentRule::Chunk(n) => {
                let blocks =
                    |lines: &Vec<Vec<u32>>| lines.concat().chunks(n).map(<[u32]>::to_vec).collect::<Vec<_>>();
                self.files.iter().flat_map(blocks).collect()
            }
            DocumentRule::File => self.files.iter().map(|lines| lines.concat()).collect(),
            _ => self.files.iter().flatten().cloned().collect(),
        };
        let (number, of) = self.shard;
        let own = (0..).zip(divided).filter(|(i, _)| i % of == number - 1).map(|(_, document)| document);
        let marked = own.filter(|document| !document.is_empty()).map(|document| {
            let words = document.into_iter().map(|word| ZERO + word);
            let (bos, eos) = (self.bos.then_some(BOS), self.eos.then_some(EOS));
            bos.into_iter().chain(words).chain(eos).collect::<Vec<u32>>()
        });
        let documents: Vec<Vec<u32>> = marked.collect();
        match self.join && !documents.is_empty() {
            true => vec![documents.concat()],
            false => documents,
        }
    }

    fn options(&self, rule: WindowRule, directory: &Path) -> Options {
        let window = Window::default().n_ctx(rule.n_ctx as u32).bos(self.bos).eos(self.eos);
        let window = window.exact_length(rule.exact_length).contexts(ContextRule::Windows);
        let mut options = Options::default().window(window).tokenizer(TokenizerChoice::Whitespace);
        options = options.documents(self.rule.clone()).join(self.join).temp_dir(directory);
        options.stride = rule.stride as u64;
        options.shard = PartOf::new(self.shard.0, self.shard.1).unwrap();
        options
    }
}

/// The id of a token in the reference.
fn id(token: &str) -> u32 {
    match token {
        "<bos>" => BOS,
        "<eos>" => EOS,
        word => ZERO + word.parse::<u32>().unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn every_way_to_read_has_the_figures_of_the_documents_divided_by_hand(
        input in input(),
        n_ctx in prop_oneof![1usize..4, 1usize..40],
        exact_length in any::<bool>(),
        stride in prop_oneof![Just(1usize), 1usize..6],
        threads in 1usize..4,
        parts in 1u64..4,
    ) {
        let documents = input.documents();
        let rule = WindowRule { n_ctx, exact_length, stride, repeats: stride == 1, joined: input.join };
        let directory = tempfile::tempdir().unwrap();
        let options = input.options(rule, directory.path());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let read = |options: &Options, outputs| {
            pool.install(|| Corpus::read(&input.source(), options, outputs, &Silent))
        };
        let starts = documents.iter().map(|document| rule.starts(document.len()).count()).sum::<usize>();
        let found = match read(&options, Outputs::default()) {
            Ok(corpus) => corpus.summary,
            Err(error) => {
                prop_assert_eq!((error.kind(), starts), ("empty_corpus", 0), "{}", error);
                return Ok(());
            }
        };
        let joined = usize::from(input.join);
        prop_assert!(found.tokens == documents.iter().map(Vec::len).sum::<usize>() as u64);
        prop_assert!(joined == 1 || found.documents == documents.len() as u64);
        check(&documents, rule, &found)?;
        if stride == 1 {
            check_repeats(&documents, &found, id)?;
        }
        // On disk, and in parts that are saved and merged.
        let limited = options.clone().max_memory(0);
        prop_assert_eq!(&read(&limited, Outputs::default()).unwrap().summary, &found);
        if input.shard.1 == 1 {
            let saved: Vec<_> = (1..=parts).map(|i| directory.path().join(format!("{i}.range"))).collect();
            for (path, i) in saved.iter().zip(1..) {
                let mut options = if i % 2 == 0 { limited.clone() } else { options.clone() };
                options.range = PartOf::new(i, parts).unwrap();
                read(&options, Outputs::default().save(OutputFile::create(path).unwrap())).unwrap();
            }
            let merged = Corpus::read(&Source::Summaries(saved), &options, Outputs::default(), &Silent);
            // A summary of files has the curve at powers of two only, which is all that is reported.
            let reported = |summary: &Summary| serde_json::to_value(summary).unwrap();
            prop_assert_eq!(reported(&merged.unwrap().summary), reported(&found));
        }
    }
}

/// The source and options of words that are cut into blocks of so many.
fn blocks(files: Vec<Vec<Vec<u32>>>, of: usize, n_ctx: u32) -> (Source, Options) {
    let (bos, eos, join, shard) = (false, false, false, (1, 1));
    let source = Input { files, rule: DocumentRule::Chunk(of), join, bos, eos, shard }.source();
    let options = Options::default().window(Window::default().n_ctx(n_ctx));
    (source, options.tokenizer(TokenizerChoice::Whitespace).documents(DocumentRule::Chunk(of)))
}

#[test]
fn a_text_without_tokens_has_no_block() {
    let (source, mut options) = blocks(vec![vec![vec![]], vec![vec![0, 1, 2, 3, 0, 1, 2]]], 4, 8);
    for (number, of, expect) in [(1, 1, (2, 7, 1)), (1, 2, (1, 4, 1)), (2, 2, (1, 3, 0))] {
        options.shard = PartOf::new(number, of).unwrap();
        let found = Corpus::read(&source, &options, Outputs::default(), &Silent).unwrap().summary;
        let found = (found.documents, found.tokens, found.dropped.empty);
        assert_eq!(found, expect, "shard {number} of {of}: documents, tokens, empty texts");
    }
}

#[test]
fn blocks_beyond_the_limit_leave_no_trace() {
    let (source, options) = blocks(vec![vec![(0..100).map(|i| i % 7).collect()]], 7, 4);
    for contexts in [ContextRule::Prefixes, ContextRule::Windows] {
        let options = options.clone().window(options.window.contexts(contexts)).limit(2);
        let found = Corpus::read(&source, &options, Outputs::default(), &Silent).unwrap().summary;
        let left_out = if contexts == ContextRule::Windows { 0 } else { 4 };
        assert_eq!((found.documents, found.tokens_left_out), (2, left_out), "{contexts:?}");
    }
}
