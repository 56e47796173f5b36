//! Which windows are run alone: their tokens, where they stand, and how many of each there are.

use super::collection::{AuditDocument, Collection, TextTokens};
use super::preset::Placement;
use super::scoring::ScoreUnit;
use super::spec::{AuditSettings, WindowStride};
use crate::num::Stream;
use crate::observe::Observer;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;

/// A window: prefix and suffix, without a start token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditWindow {
    /// Its document, among the distinct ones.
    pub document: usize,
    /// The token at which it starts, or the character if it was tokenized from there.
    pub start: usize,
    /// How many of its tokens are given.
    pub prefix: usize,
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// The bytes of the text that its suffix covers; none for documents of ids.
    pub bytes: Option<Range<usize>>,
    /// How many windows it stands for: copies of its document, as far as they were drawn.
    pub weight: u64,
}

impl AuditWindow {
    /// The tokens that must follow.
    pub fn suffix(&self) -> &[u32] {
        &self.tokens[self.prefix..]
    }

    /// What is scored, behind a start token if there is one.
    pub fn unit(&self, start: &[u32]) -> ScoreUnit {
        ScoreUnit { tokens: [start, &self.tokens].concat(), from: start.len() + self.prefix }
    }
}

/// The most characters of text that a window tokenized from a character is cut from.
const SLICE: usize = 2000;

/// The places of the windows of one document.
struct Places<'d> {
    document: &'d AuditDocument,
    /// Starts and lengths of prefixes, in tokens; starts in characters if `sliced` holds the tokens.
    starts: Vec<(usize, usize)>,
    /// With a stride in characters: the tokens and the bytes of the suffix.
    sliced: Vec<(Vec<u32>, Range<usize>)>,
}

impl Places<'_> {
    fn len(&self) -> usize {
        self.starts.len()
    }

    fn window(&self, document: usize, i: usize, suffix: usize, weight: u64) -> AuditWindow {
        let (start, prefix) = self.starts[i];
        if let Some((tokens, bytes)) = self.sliced.get(i) {
            let (tokens, bytes) = (tokens.clone(), Some(bytes.clone()));
            return AuditWindow { document, start, prefix, tokens, bytes, weight };
        }
        let end = start + prefix + suffix;
        let tokens = self.document.ids[start..end].to_vec();
        let bytes = self.document.text.is_some().then(|| self.document.byte_range(start + prefix..end));
        AuditWindow { document, start, prefix, tokens, bytes, weight }
    }
}

/// Lists the windows that the settings ask for, in the order of the documents; drawn ones if there are more than asked for.
pub fn windows(
    collection: &Collection,
    tokens: &TextTokens,
    settings: &AuditSettings,
    observer: &dyn Observer,
) -> Result<Vec<AuditWindow>> {
    let places = collection
        .documents
        .iter()
        .map(|document| {
            observer.check()?;
            places(document, tokens, settings)
        })
        .collect::<Result<Vec<_>>>()?;
    let total: u64 = places.iter().map(|p| p.document.copies * p.len() as u64).sum();
    let all = places.iter().enumerate();
    let Some(wanted) = settings.windows.filter(|&wanted| wanted < total) else {
        return Ok(all
            .flat_map(|(d, p)| (0..p.len()).map(move |i| p.window(d, i, settings.suffix, p.document.copies)))
            .collect());
    };
    let mut drawn = draw(total, wanted, settings.seed).into_iter().peekable();
    let mut found = Vec::new();
    let mut before = 0;
    for (d, p) in all {
        let end = before + p.document.copies * p.len() as u64;
        // Copies of a window fall together.
        let mut weights: BTreeMap<usize, u64> = BTreeMap::new();
        while let Some(at) = drawn.next_if(|&at| at < end) {
            *weights.entry(((at - before) % p.len() as u64) as usize).or_default() += 1;
        }
        found.extend(weights.into_iter().map(|(i, weight)| p.window(d, i, settings.suffix, weight)));
        before = end;
    }
    Ok(found)
}

/// Draws `wanted` of the numbers below `total`, in increasing order (Floyd's algorithm).
fn draw(total: u64, wanted: u64, seed: u64) -> Vec<u64> {
    let mut stream = Stream::new(seed, "audit windows", 0);
    let mut found = std::collections::BTreeSet::new();
    for last in total - wanted..total {
        let at = stream.below(last + 1);
        if !found.insert(at) {
            found.insert(last);
        }
    }
    found.into_iter().collect()
}

/// Where the windows of a document are.
fn places<'d>(
    document: &'d AuditDocument,
    tokens: &TextTokens,
    settings: &AuditSettings,
) -> Result<Places<'d>> {
    let (k, m, n) = (settings.prefix, settings.suffix, document.ids.len());
    let mut found = Places { document, starts: Vec::new(), sliced: Vec::new() };
    match (settings.placement, settings.stride) {
        (Placement::First, _) if n >= k + m => found.starts.push((0, k)),
        (Placement::End, _) => {
            let end = n.min(k + m);
            if end > m || (end == m && settings.start_token.is_some()) {
                found.starts.push((0, end - m));
            }
        }
        (Placement::Every, WindowStride::Tokens(stride)) if n >= k + m => {
            found.starts.extend((0..=n - k - m).step_by(stride as usize).map(|start| (start, k)));
        }
        (Placement::Every, WindowStride::Characters(stride)) => {
            let Some(text) = &document.text else {
                return Err(Error::setting("stride", "chars needs text, but the corpus has token ids"));
            };
            let boundaries: Vec<usize> = text.char_indices().map(|(i, _)| i).chain([text.len()]).collect();
            for at in (0..boundaries.len() - 1).step_by(stride as usize) {
                let from = boundaries[at];
                let slice = &text[from..boundaries[(at + SLICE).min(boundaries.len() - 1)]];
                let encoded = tokens.encode(slice)?;
                if encoded.ids.len() < k + m {
                    continue;
                }
                let start = if k == 0 { 0 } else { encoded.ends[k - 1] };
                found.starts.push((at, k));
                let bytes = from + start..from + encoded.ends[k + m - 1];
                found.sliced.push((encoded.ids[..k + m].to_vec(), bytes));
            }
        }
        _ => {}
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::spec::AuditSpec;
    use super::*;
    use crate::corpus::{Alphabet, DocumentBody, Key, Tokenizer, Vocabulary, WholeDocument};
    use crate::observe::Silent;

    fn letters() -> TextTokens {
        let mut vocabulary = Vocabulary::new(Alphabet::Char);
        ('a'..='z').for_each(|c| assert!(vocabulary.push(Key::Symbol(u32::from(c)), 0)));
        TextTokens { tokenizer: Some(Tokenizer::Char), vocabulary: Some(vocabulary) }
    }

    fn of(texts: &[&str], spec: &AuditSpec) -> Vec<AuditWindow> {
        let body = |text: &&str| DocumentBody::Text((*text).into());
        let whole =
            texts.iter().map(|text| WholeDocument { path: "t".into(), line: 1, body: body(text) }).collect();
        let collection = Collection::new(whole, &letters(), None, &Silent).unwrap();
        windows(&collection, &letters(), &spec.resolve(100, None).unwrap(), &Silent).unwrap()
    }

    #[test]
    fn windows_start_at_a_stride_and_stay_inside_their_document() {
        let spec = AuditSpec::default().prefix(2).suffix(1).stride(WindowStride::Tokens(2));
        let found = of(&["abcdef", "xy", "abcdef"], &spec);
        let plain: Vec<_> = found.iter().map(|w| (w.document, w.start, w.tokens.clone(), w.weight)).collect();
        assert_eq!(plain, [(0, 0, vec![0, 1, 2], 2), (0, 2, vec![2, 3, 4], 2)]);
        assert_eq!((found[1].suffix(), found[1].bytes.clone()), ([4].as_slice(), Some(4..5)));
        assert_eq!(found[0].unit(&[9]), ScoreUnit { tokens: vec![9, 0, 1, 2], from: 3 });
    }

    #[test]
    fn drawn_windows_are_distinct_seeded_and_as_many_as_asked_for() {
        let text: String = ('a'..='z').collect();
        let spec = AuditSpec::default().prefix(2).suffix(1).stride(WindowStride::Tokens(1));
        let drawn = |n| of(&[&text, "abcd", &text], &spec.clone().windows(n));
        let some = drawn(20);
        assert_eq!(some.iter().map(|w| w.weight).sum::<u64>(), 20);
        assert!(some.windows(2).all(|w| (w[0].document, w[0].start) < (w[1].document, w[1].start)));
        assert_eq!(some, drawn(20));
        // 24 windows twice and 2 once.
        assert_eq!(drawn(50), drawn(0));
        assert_eq!(drawn(1000), drawn(0));
        assert_eq!(drawn(0).iter().map(|w| w.weight).sum::<u64>(), 50);
    }

    #[test]
    fn presets_place_their_windows() {
        use super::super::preset::AuditPreset::{Cooper, Goldfish, Pythia};
        let text = "abcdefghijklmnopqrst";
        let base = |preset| AuditSpec::default().preset(preset).prefix(3).suffix(2);
        let first = of(&[text, "abcd"], &base(Pythia));
        assert_eq!(first.iter().map(|w| (w.document, w.start)).collect::<Vec<_>>(), [(0, 0)]);
        let last = of(&[text, "abcd", "ab"], &base(Goldfish));
        let plain: Vec<_> = last.iter().map(|w| (w.document, w.prefix, w.tokens.len())).collect();
        assert_eq!(plain, [(0, 3, 5), (1, 2, 4)]);
        let sliced = of(&[text], &base(Cooper));
        assert_eq!(sliced.iter().map(|w| w.start).collect::<Vec<_>>(), [0, 10]);
        assert_eq!(
            (sliced[1].tokens.clone(), sliced[1].bytes.clone()),
            (vec![10, 11, 12, 13, 14], Some(13..15))
        );
    }
}
