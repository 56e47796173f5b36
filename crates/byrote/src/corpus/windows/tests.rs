//! Every figure against a reference that writes out all windows.

use super::facts::{Facts, FirstTokenCounts, FirstTokens, stored_counts, token_counts};
use super::range_file::{RangeFile, merged};
use super::summarize::{curve_points, summary, vocabulary};
use super::*;
use crate::corpus::chunk::Dropped;
use crate::corpus::sorted_run::Header;
use crate::corpus::vocabulary::{Alphabet, Key, Vocabulary};
use crate::corpus::{
    ContextRule, Corpus, DocumentRule, MemoryFile, Options, Outputs, Source, Summary, TokenizerChoice, Window,
};
use crate::observe::Silent;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// The summary of windows, counted at once or in parts that are stored and merged; from a file if memory is limited.
fn counted<C: Code>(
    documents: &[Vec<u32>],
    rule: WindowRule,
    max_memory: Option<u64>,
    parts: Option<u64>,
) -> Summary {
    let text = match max_memory {
        None => text::text::<C>(documents),
        Some(_) => text::text_in_file::<C>(documents),
    };
    let mut alphabet = Vocabulary::new(Alphabet::Id);
    let tokens: BTreeSet<u32> = documents.iter().flatten().copied().collect();
    let most = tokens.last().map_or(0, |t| t + 1);
    (0..most).for_each(|token| assert!(alphabet.push(Key::Symbol(token), 0)));
    let vocabulary = vocabulary(&text, &alphabet, rule, &token_counts(&text));
    let window = Window::default().n_ctx(rule.n_ctx as u32).contexts(ContextRule::Windows);
    let header = Header {
        window,
        tokenizer: "ids".into(),
        alphabet: Alphabet::Id,
        dropped: Dropped::default(),
        tokens_left_out: 0,
    };
    let facts = Facts::new(&text, rule, &vocabulary, &token_counts(&text), header);
    let (counts, d_vocab) = (&token_counts(&text), vocabulary.len());
    let temp_dir = &std::env::temp_dir();
    let job =
        |part| Job { text: &text, rule, counts, d_vocab, part, max_memory, temp_dir, alphabet: &alphabet };
    if let Some(parts) = parts {
        let firsts = stored_counts(&text, rule.stride, &curve_points(rule.n_ctx));
        let files = (1..=parts).rev().map(|i| {
            let part = format!("{i}/{parts}").parse().unwrap();
            let counted = job(part).count(&Silent).unwrap();
            let file = RangeFile::new(&facts, &counted, 7).unwrap().firsts(firsts.clone());
            serde_json::from_slice(&serde_json::to_vec(&file).unwrap()).unwrap()
        });
        return merged(files.map(|file| ("memory".into(), file)).collect()).unwrap();
    }
    let mut counted = job(PartOf::ALL).count(&Silent).unwrap();
    counted.add_short_contexts(rule.n_ctx);
    let mut firsts = FirstTokens::new(&text, rule.stride);
    let repeats = counted.marks.as_ref().map_or_else(Vec::new, |marks| marks.count().unwrap());
    summary(&facts, &counted, repeats, &curve_points(rule.n_ctx), &mut firsts)
}

/// The windows as slices.
fn windows(documents: &[Vec<u32>], rule: WindowRule) -> Vec<&[u32]> {
    let mut windows = Vec::new();
    for document in documents {
        for start in (0..document.len()).step_by(rule.stride) {
            let window = &document[start..document.len().min(start + rule.n_ctx + 1)];
            if window.len() == rule.n_ctx + 1 || !rule.exact_length {
                windows.push(window);
            }
        }
    }
    windows
}

fn xlnx(k: u64) -> f64 {
    k as f64 * (k as f64).ln()
}

/// Next tokens with their counts, by context.
fn contexts<'d>(windows: &[&'d [u32]]) -> BTreeMap<&'d [u32], BTreeMap<u32, u64>> {
    let mut contexts: BTreeMap<&[u32], BTreeMap<u32, u64>> = BTreeMap::new();
    for window in windows {
        for t in 1..window.len() {
            *contexts.entry(&window[..t]).or_default().entry(window[t]).or_insert(0) += 1;
        }
    }
    contexts
}

fn floor(contexts: &BTreeMap<&[u32], BTreeMap<u32, u64>>, of: impl Fn(usize) -> bool) -> f64 {
    contexts
        .iter()
        .filter(|(context, _)| of(context.len()))
        .map(|(_, next)| xlnx(next.values().sum()) - next.values().map(|&n| xlnx(n)).sum::<f64>())
        .sum()
}

pub(super) fn check(documents: &[Vec<u32>], rule: WindowRule, found: &Summary) -> Result<(), TestCaseError> {
    let windows = windows(documents, rule);
    let contexts = contexts(&windows);
    let own = found.windows.as_ref().unwrap();
    let near = |found: f64, expect: f64| (found - expect).abs() < 1e-9 * expect.max(1.0);
    prop_assert_eq!(own.windows, windows.len() as u64);
    prop_assert_eq!(own.window_tokens, windows.iter().map(|w| w.len() as u64).sum::<u64>());
    prop_assert_eq!(own.distinct_windows, windows.iter().collect::<BTreeSet<_>>().len() as u64);
    let tokens: BTreeSet<u32> = windows.iter().copied().flatten().copied().collect();
    prop_assert_eq!(found.d_vocab, tokens.len() as u64);
    let labels: BTreeSet<u32> = contexts.values().flat_map(|next| next.keys().copied()).collect();
    prop_assert_eq!(found.labels, labels.len() as u64);
    let last: BTreeSet<u32> = contexts.keys().map(|context| context[context.len() - 1]).collect();
    prop_assert_eq!(found.distinct_last_tokens, last.len() as u64);
    let full_support = contexts.values().filter(|next| next.len() == tokens.len()).count();
    prop_assert_eq!(found.full_support_contexts, full_support as u64);
    prop_assert!(near(found.floor_nats.0, floor(&contexts, |_| true)));
    let mut lengths = 0;
    for t in 1..=rule.n_ctx {
        let here: Vec<_> = contexts.iter().filter(|(c, _)| c.len() == t).map(|(_, next)| next).collect();
        let Some(row) = found.by_length.get(t - 1) else {
            prop_assert!(here.is_empty());
            continue;
        };
        lengths += 1;
        let count = |next: &BTreeMap<u32, u64>| next.values().sum::<u64>();
        let deterministic: Vec<_> = here.iter().filter(|next| next.len() == 1).collect();
        prop_assert_eq!(row.length as usize, t);
        prop_assert_eq!(row.contexts, here.len() as u64);
        prop_assert_eq!(row.predictions, here.iter().map(|n| count(n)).sum::<u64>());
        prop_assert_eq!(row.pairs, here.iter().map(|n| n.len() as u64).sum::<u64>());
        prop_assert_eq!(row.deterministic_contexts, deterministic.len() as u64);
        prop_assert_eq!(row.deterministic_predictions, deterministic.iter().map(|n| count(n)).sum::<u64>());
        prop_assert_eq!(row.once, here.iter().filter(|n| count(n) == 1).count() as u64);
        prop_assert!(near(row.floor_nats.0, floor(&contexts, |length| length == t)));
    }
    prop_assert_eq!(lengths, found.by_length.len());
    let mut counts: Vec<u64> = contexts.values().map(|next| next.values().sum()).collect();
    counts.sort_unstable_by_key(|&c| std::cmp::Reverse(c));
    for coverage in &found.coverage {
        let (needed, mut sum) = ((1.0 - coverage.epsilon) * found.predictions as f64, 0);
        let n = counts.iter().take_while(|&&c| sum_below(&mut sum, c, needed)).count();
        prop_assert_eq!(coverage.contexts, n as u64, "{}", coverage.epsilon);
    }
    for point in &own.curve {
        let shorter = WindowRule { n_ctx: point.n_ctx as usize, ..rule };
        let windows = self::windows(documents, shorter);
        let contexts = self::contexts(&windows);
        let expect = floor(&contexts, |_| true);
        prop_assert!(near(point.floor_nats.0, expect), "{point:?} {expect}");
        let predictions: u64 = contexts.values().flat_map(|next| next.values()).sum();
        let per = point.floor_nats_per_prediction.map(|nats| nats.0);
        prop_assert!(per.is_none_or(|per| near(per, expect / predictions as f64)), "{point:?}");
        prop_assert_eq!(per.is_some(), predictions > 0);
    }
    Ok(())
}

/// Adds a count while the sum so far is below what is needed.
fn sum_below(sum: &mut u64, count: u64, needed: f64) -> bool {
    let more = (*sum as f64) < needed - 1e-6;
    *sum += count;
    more
}

/// Repeats and shortest unique substrings against all substrings; `id` is the id of a token by its text.
pub(super) fn check_repeats(
    documents: &[Vec<u32>],
    found: &Summary,
    id: impl Fn(&str) -> u32,
) -> Result<(), TestCaseError> {
    let own = found.windows.as_ref().unwrap();
    let mut places: BTreeMap<&[u32], Vec<(usize, usize)>> = BTreeMap::new();
    for (d, document) in documents.iter().enumerate() {
        for start in 0..document.len() {
            for end in start + 1..=document.len() {
                places.entry(&document[start..end]).or_default().push((d, start));
            }
        }
    }
    for row in &own.repeats {
        let (mut repeated, mut redundant) = (BTreeSet::new(), BTreeSet::new());
        for (_, places) in places.iter().filter(|(s, p)| s.len() == row.length as usize && p.len() > 1) {
            for (i, &(d, start)) in places.iter().enumerate() {
                for at in start..start + row.length as usize {
                    repeated.insert((d, at));
                    if i > 0 {
                        redundant.insert((d, at));
                    }
                }
            }
        }
        prop_assert_eq!(row.repeated_tokens, repeated.len() as u64, "{:?}", row);
        prop_assert_eq!(row.redundant_tokens, redundant.len() as u64, "{:?}", row);
    }
    let longest = places.iter().filter(|(_, p)| p.len() > 1).map(|(s, _)| s.len()).max().unwrap_or(0);
    prop_assert_eq!(own.longest_repeat, Some(longest as u64));
    // The longest passages that are not always preceded, nor always followed, by the same token.
    let beside = |&(d, start): &(usize, usize), length: usize| {
        let at = |i: Option<usize>| i.and_then(|i| documents[d].get(i)).copied();
        [at(start.checked_sub(1)), at(Some(start + length))]
    };
    let differ = |places: &[(usize, usize)], length: usize, side: usize| {
        let first = beside(&places[0], length)[side];
        first.is_none() || places.iter().any(|place| beside(place, length)[side] != first)
    };
    let mut maximal: Vec<(&[u32], (usize, usize))> = places
        .iter()
        .filter(|(s, p)| s.len() > 1 && p.len() > 1 && (0..2).all(|side| differ(p, s.len(), side)))
        .map(|(s, p)| (*s, p[0]))
        .collect();
    maximal.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    maximal.truncate(5);
    let expect: Vec<(Vec<u32>, u64)> = maximal
        .into_iter()
        .map(|(s, (d, start))| {
            (s.to_vec(), (documents[..d].iter().map(Vec::len).sum::<usize>() + start) as u64)
        })
        .collect();
    let ids = |text: &str| text.split_whitespace().map(&id).collect::<Vec<u32>>();
    let passages: Vec<_> = own.longest_repeats.iter().map(|p| (ids(&p.text), p.position)).collect();
    prop_assert_eq!(passages, expect);
    prop_assert!(own.longest_repeats.iter().all(|p| ids(&p.text).len() as u64 == p.length));
    let mut lengths = Vec::new();
    for document in documents {
        for start in 0..document.len() {
            let unique = (start + 1..=document.len()).find(|&end| places[&document[start..end]].len() == 1);
            lengths.push(unique.map_or(u64::MAX, |end| (end - start) as u64));
        }
    }
    lengths.sort_unstable();
    let unique = own.shortest_unique.unwrap();
    let quantile = |q: usize| {
        Some(lengths[(lengths.len() * q).div_ceil(100).max(1) - 1]).filter(|&length| length < u64::MAX)
    };
    prop_assert_eq!((unique.median, unique.p90, unique.p99), (quantile(50), quantile(90), quantile(99)));
    prop_assert_eq!(unique.never, lengths.iter().filter(|&&length| length == u64::MAX).count() as u64);
    Ok(())
}

fn documents() -> impl Strategy<Value = Vec<Vec<u32>>> {
    let random = |tokens: u32| prop::collection::vec(prop::collection::vec(0..tokens, 1..50), 1..5);
    // Copied passages make long common prefixes.
    let copied = |tokens: u32| {
        let copies = prop::collection::vec((any::<u16>(), any::<u16>(), 1usize..40), 0..4);
        (random(tokens), copies).prop_map(|(mut documents, copies)| {
            for (from, to, length) in copies {
                let source = documents[usize::from(from) % documents.len()].clone();
                let start = usize::from(from) % source.len();
                let passage = &source[start..source.len().min(start + length)];
                let n = documents.len();
                documents[usize::from(to) % n].extend_from_slice(passage);
            }
            documents
        })
    };
    // Few tokens have codes of one digit; the rarest of 250 have three.
    let repeated = (random(2), 2usize..6).prop_map(|(documents, n)| {
        documents.into_iter().map(|document| document.repeat(n)).collect::<Vec<_>>()
    });
    prop_oneof![random(1), random(2), random(6), random(250), copied(3), copied(250), repeated]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn every_figure_is_that_of_the_windows_written_out(
        documents in documents(),
        n_ctx in prop_oneof![1usize..4, 1usize..60],
        exact_length in any::<bool>(),
        stride in prop_oneof![Just(1usize), 1usize..8],
        parts in 1u64..6,
    ) {
        let rule = WindowRule { n_ctx, exact_length, stride, repeats: stride == 1, joined: false };
        let found = counted::<u8>(&documents, rule, None, None);
        check(&documents, rule, &found)?;
        if stride == 1 {
            check_repeats(&documents, &found, |id| id.parse().unwrap())?;
        }
        prop_assert_eq!(&counted::<u16>(&documents, rule, None, None), &found);
        prop_assert_eq!(&counted::<u32>(&documents, rule, None, None), &found);
        prop_assert_eq!(&counted::<u8>(&documents, rule, None, Some(parts)), &found);
        prop_assert_eq!(&counted::<u16>(&documents, rule, None, Some(parts)), &found);
        prop_assert_eq!(&counted::<u16>(&documents, rule, Some(0), None), &found);
        prop_assert_eq!(&counted::<u8>(&documents, rule, Some(0), Some(parts)), &found);
    }
}

#[test]
fn long_passages_are_kept_in_part() {
    // A text of one letter, and one that is written twice.
    let mut random = crate::num::stream::Stream::new(3, "test", 0);
    let page: Vec<u32> = (0..2500).map(|_| random.below(40) as u32).collect();
    for (document, length) in [(vec![0; 5000], 4999), (page.repeat(2), 2500)] {
        let rule = WindowRule { n_ctx: 7, exact_length: true, stride: 1, repeats: true, joined: false };
        let documents = [document];
        let found = counted::<u8>(&documents, rule, None, None);
        let own = found.windows.as_ref().unwrap();
        let longest = &own.longest_repeats[0];
        assert_eq!((own.longest_repeat, longest.length, longest.position), (Some(length), length, 0));
        assert!(longest.is_cut() && longest.text.split_whitespace().count() == 1000);
        assert_eq!(counted::<u16>(&documents, rule, Some(0), Some(3)), found);
    }
}

#[test]
fn the_curve_takes_time_in_proportion_to_the_text_for_many_documents() {
    // Documents that end are not looked at again.
    let mut documents = vec![vec![0, 1]; 5000];
    documents.push((0..3000).map(|i| i % 7).collect());
    let text = text::text::<u8>(&documents);
    let mut firsts = FirstTokens::new(&text, 1);
    for n_ctx in 1..=3000 {
        let windows = firsts.advance(n_ctx, &mut |_, _| {});
        let short = if n_ctx == 1 { 5000 } else { 0 };
        assert_eq!(windows, short + 3000u64.saturating_sub(n_ctx as u64));
        assert_eq!(firsts.long_documents(), if n_ctx == 1 { 5001 } else { usize::from(n_ctx < 3000) });
    }
}

#[test]
fn the_worked_example_has_its_figures() {
    let text: Vec<u32> = "abracadabra".bytes().map(|b| u32::from(b - b'a')).collect();
    for (exact_length, windows, predictions, once) in [(true, 8, 24, 16), (false, 11, 27, 13)] {
        let rule = WindowRule { n_ctx: 3, exact_length, stride: 1, repeats: true, joined: false };
        let found = counted::<u8>(std::slice::from_ref(&text), rule, None, None);
        assert_eq!(found.windows.as_ref().unwrap().windows, windows);
        assert_eq!((found.predictions, found.contexts, found.once), (predictions, 19, once));
        assert!((found.floor_nats.0 - (4.0 * 4f64.ln() - 2.0 * 2f64.ln())).abs() < 1e-14);
    }
}

#[test]
fn threads_and_passes_do_not_change_a_figure() {
    let mut random = crate::num::stream::Stream::new(1, "test", 0);
    let passage: Vec<u32> = (0..3000).map(|_| random.below(5) as u32).collect();
    let mut document: Vec<u32> = (0..200_000).map(|_| random.below(7) as u32).collect();
    document.splice(100_000..100_000, passage.iter().copied());
    document.splice(5_000..5_000, passage.iter().copied());
    let documents = [document, passage];
    let rule = WindowRule { n_ctx: 40, exact_length: true, stride: 1, repeats: true, joined: false };
    let expect = counted::<u8>(&documents, rule, None, None);
    assert_eq!(expect.windows.as_ref().unwrap().longest_repeat, Some(3000));
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert_eq!(pool.install(|| counted::<u16>(&documents, rule, Some(1 << 18), None)), expect);
    }
}

/// Texts of several slabs, whose documents are written to disk while they are read, in the middle of one too.
#[test]
fn texts_that_are_stored_on_disk_have_the_same_figures() {
    let mut random = crate::num::stream::Stream::new(5, "test", 0);
    let words = ["a", "b", "ab", "tale", "of", "two", "cities", "\n"];
    let text: Vec<&str> = (0..1_200_000).map(|_| words[random.below(8) as usize]).collect();
    let text = text.join(" ") + &" ".repeat(5 << 20);
    let ids: Vec<u8> = (0..6_000_000).map(|_| random.below(3) as u8).collect();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("text.txt"), text).unwrap();
    std::fs::write(path("ids.bin"), ids).unwrap();
    let window = Window::default().n_ctx(6).contexts(ContextRule::Windows);
    let marked = window.bos(true).eos(true);
    let words = Options::default().tokenizer(TokenizerChoice::Whitespace).window(window);
    let cases = [
        ("ids.bin", Options::default().documents(DocumentRule::File).window(marked)),
        ("text.txt", words.clone().documents(DocumentRule::File)),
        ("text.txt", words.clone().documents(DocumentRule::File).window(marked)),
        ("text.txt", words.clone().window(marked)),
        ("text.txt", words.join(true)),
    ];
    for (name, options) in cases {
        let source = Source::Files(vec![path(name)]);
        let count =
            |options: &Options| Corpus::read(&source, options, Outputs::default(), &Silent).unwrap().summary;
        assert_eq!(count(&options.clone().max_memory(1 << 16)), count(&options), "{name}");
    }
}

/// More kinds of tokens than two bytes can number: few beyond, and too many for a list of them. One thread, which numbers them all.
#[test]
fn large_vocabularies_have_the_figures_of_any_other() {
    let mut random = crate::num::stream::Stream::new(6, "test", 0);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    for (kinds, frequent) in [(70_000, 3), (100_000, 0)] {
        let mut document = Vec::new();
        for kind in 0..kinds {
            document.push(kind);
            document.extend((0..frequent).map(|_| random.below(50) as u32));
        }
        // Long words, so that the text is read in several parts.
        let word = |kind: &u32| format!("a-word-so-long-that-few-of-them-fill-a-part-of-the-text-{kind}");
        let words: Vec<String> = document.iter().map(word).collect();
        let file = MemoryFile { name: "words.txt".into(), bytes: words.join(" ").into_bytes().into() };
        let window = Window::default().n_ctx(2).contexts(ContextRule::Windows);
        let options = Options::default().tokenizer(TokenizerChoice::Whitespace).window(window);
        let options = options.documents(DocumentRule::File);
        let source = Source::Memory(vec![file]);
        let count = |options: &Options| {
            pool.install(|| Corpus::read(&source, options, Outputs::default(), &Silent)).unwrap().summary
        };
        let found = count(&options);
        let rule = WindowRule { n_ctx: 2, exact_length: false, stride: 1, repeats: true, joined: false };
        check(&[document], rule, &found).unwrap();
        assert_eq!(count(&options.max_memory(1 << 16)), found, "on disk");
    }
}

#[test]
fn positions_of_64_bits_count_the_same() {
    let mut random = crate::num::stream::Stream::new(2, "test", 0);
    let documents: Vec<Vec<u32>> =
        (0..20).map(|_| (0..random.below(300)).map(|_| random.below(4) as u32).collect()).collect();
    let text = text::text::<u8>(&documents);
    let mut alphabet = Vocabulary::new(Alphabet::Id);
    (0..4).for_each(|token| assert!(alphabet.push(Key::Symbol(token), 0)));
    let rule = WindowRule { n_ctx: 12, exact_length: true, stride: 1, repeats: true, joined: false };
    let part = PartOf::ALL;
    let counts = &token_counts(&text);
    let temp_dir = &std::env::temp_dir();
    let job =
        Job { text: &text, rule, counts, d_vocab: 4, part, max_memory: None, temp_dir, alphabet: &alphabet };
    let [narrow, wide] = [job.count_with::<u32>(&Silent).unwrap(), job.count_with::<u64>(&Silent).unwrap()];
    let of = |counted: &Counted| {
        serde_json::to_value((&counted.figures, &counted.nodes, &counted.unique)).unwrap()
    };
    assert_eq!(of(&narrow), of(&wide));
    assert_eq!((&narrow.passages, &narrow.bins), (&wide.passages, &wide.bins));
    assert_eq!(narrow.marks.unwrap().runs().unwrap(), wide.marks.unwrap().runs().unwrap());
}

/// The two halves of a small text, as they are written.
fn two_parts() -> [Vec<u8>; 2] {
    let text = text::text::<u8>(&[vec![0, 1, 0, 2, 0, 1, 0, 2, 0, 1], vec![1, 0, 2]]);
    let mut alphabet = Vocabulary::new(Alphabet::Id);
    (0..3).for_each(|token| assert!(alphabet.push(Key::Symbol(token), 0)));
    let rule = WindowRule { n_ctx: 3, exact_length: true, stride: 1, repeats: true, joined: false };
    let vocabulary = vocabulary(&text, &alphabet, rule, &token_counts(&text));
    let header = Header {
        window: Window::default().n_ctx(3).contexts(ContextRule::Windows),
        tokenizer: "ids".into(),
        alphabet: Alphabet::Id,
        dropped: Dropped::default(),
        tokens_left_out: 0,
    };
    let facts = Facts::new(&text, rule, &vocabulary, &token_counts(&text), header);
    ["1/2", "2/2"].map(|part| {
        let part = part.parse().unwrap();
        let job = Job {
            text: &text,
            rule,
            counts: &token_counts(&text),
            d_vocab: 3,
            part,
            max_memory: None,
            temp_dir: &std::env::temp_dir(),
            alphabet: &alphabet,
        };
        let firsts = stored_counts(&text, 1, &curve_points(3));
        let file = RangeFile::new(&facts, &job.count(&Silent).unwrap(), 7).unwrap().firsts(firsts);
        serde_json::to_vec(&file).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn damaged_parts_are_refused_or_give_numbers(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        with in prop_oneof![
            "(0|-1|4294967295|99999999999999999)",
            "[0-9]{1,19}",
            "[,\\[\\]]",
        ],
    ) {
        let mut parts = two_parts();
        let part = &mut parts[which.index(2)];
        // Replaces a number, or puts something in its place.
        let digits: Vec<usize> = (0..part.len()).filter(|&i| part[i].is_ascii_digit()).collect();
        let start = digits[at.index(digits.len())];
        let end = (start..part.len()).find(|&i| !part[i].is_ascii_digit()).unwrap_or(part.len());
        part.splice(start..end, with.bytes());
        let files: Result<Vec<RangeFile>, _> = parts.iter().map(|p| serde_json::from_slice(p)).collect();
        if let Ok(files) = files {
            let _ = merged(files.into_iter().map(|file| ("memory".into(), file)).collect());
        }
    }
}
