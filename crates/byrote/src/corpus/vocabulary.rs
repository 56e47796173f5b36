//! The vocabulary: which tokens occur, in their canonical order.
//!
//! Token ids are ranks: first the start and end tokens if they occur, then the tokens in byte order (bytes by value,
//! characters by code point, which is the byte order of UTF-8, given ids by value). So ids depend only on the set of
//! tokens, never on the order in which they were met, and the ids of a part map monotonically into those of the whole.

use super::beginning::{Listed, merge};
use super::tokenizer::TokenizerJson;
use crate::num::hash::Fnv;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// The kind of tokens in a corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Alphabet {
    /// Bytes.
    Byte,
    /// Unicode scalar values.
    Char,
    /// Strings taken from the text.
    Word,
    /// Numbers given by the user or by a `tokenizer.json`.
    Id,
}

/// A token. The order of the variants and of their content is the order of the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key<'a> {
    /// The start token added by `bos`.
    Bos,
    /// The end token added by `eos`.
    Eos,
    /// A byte, a scalar value or a given id.
    Symbol(u32),
    /// A string.
    Word(&'a [u8]),
}

/// Strings stored end to end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Arena {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Arena {
    pub(crate) fn push(&mut self, s: &[u8]) {
        self.bytes.extend_from_slice(s);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn get(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start..self.ends[i]]
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn footprint(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<usize>()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Keys {
    Symbols(Vec<u32>),
    Words(Arena),
}

/// A token occurs as the next token of some context.
pub(crate) const MARK_LABEL: u8 = 1;
/// A token occurs as the last token of some context.
pub(crate) const MARK_LAST: u8 = 2;

/// How many tokens there are, and how many of them occur where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VocabularySize {
    /// All tokens.
    pub(crate) tokens: u64,
    /// Those that follow some context.
    pub(crate) labels: u64,
    /// Those that end some context.
    pub(crate) last_tokens: u64,
}

/// The tokens that occur in the kept part of the documents, by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vocabulary {
    alphabet: Alphabet,
    /// The start and end tokens, if they occur.
    specials: Vec<Key<'static>>,
    keys: Keys,
    /// How each token occurs, for the bounds that need it: `MARK_LABEL`, `MARK_LAST`.
    marks: Vec<u8>,
    /// The texts of given ids, if a `tokenizer.json` provides them: one per id, without the special tokens.
    names: Option<Arena>,
    /// The `tokenizer.json` that makes the ids, in a vocabulary that holds one.
    tokenizer: Option<TokenizerJson>,
}

impl Vocabulary {
    /// An empty vocabulary.
    pub fn new(alphabet: Alphabet) -> Self {
        let keys = match alphabet {
            Alphabet::Word => Keys::Words(Arena::default()),
            _ => Keys::Symbols(Vec::new()),
        };
        Self { alphabet, specials: Vec::new(), keys, marks: Vec::new(), names: None, tokenizer: None }
    }

    /// All ids below `n`, as a model has that was not made from a corpus.
    pub fn of_ids(n: u32) -> Self {
        Self { keys: Keys::Symbols((0..n).collect()), marks: vec![0; n as usize], ..Self::new(Alphabet::Id) }
    }

    /// Whether every id is the given id: the token `i` of a vocabulary of ids is the id `i`.
    pub fn is_plain_ids(&self) -> bool {
        self.alphabet == Alphabet::Id && self.keys().zip(0..).all(|(key, id)| key == Key::Symbol(id))
    }

    /// Returns the `tokenizer.json` that makes the ids, if the vocabulary holds it.
    pub fn tokenizer(&self) -> Option<&TokenizerJson> {
        self.tokenizer.as_ref()
    }

    /// The same vocabulary with the `tokenizer.json` that makes its ids.
    #[must_use]
    pub fn with_tokenizer(self, tokenizer: TokenizerJson) -> Self {
        Self { tokenizer: Some(tokenizer), ..self }
    }

    /// Appends a token, which must come after all others. Returns `false` if it does not, or is of the wrong kind.
    pub(crate) fn push(&mut self, key: Key<'_>, marks: u8) -> bool {
        (self.is_empty() || self.key(self.len() as u32 - 1) < key) && self.append(key, marks)
    }

    /// Appends a token that is known to come after all others. Returns `false` if it is of the wrong kind.
    pub(crate) fn append(&mut self, key: Key<'_>, marks: u8) -> bool {
        match (key, &mut self.keys) {
            (Key::Bos, _) => self.specials.push(Key::Bos),
            (Key::Eos, _) => self.specials.push(Key::Eos),
            (Key::Symbol(s), Keys::Symbols(v)) => v.push(s),
            (Key::Word(w), Keys::Words(v)) => v.push(w),
            _ => return false,
        }
        self.marks.push(marks);
        true
    }

    /// Returns the kind of tokens.
    pub fn alphabet(&self) -> Alphabet {
        self.alphabet
    }

    /// Returns the number of tokens: omega, `d_vocab`.
    pub fn len(&self) -> usize {
        self.specials.len()
            + match &self.keys {
                Keys::Symbols(v) => v.len(),
                Keys::Words(v) => v.len(),
            }
    }

    /// Whether the vocabulary is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the token of an id below [`Vocabulary::len`].
    pub fn key(&self, id: u32) -> Key<'_> {
        let id = id as usize;
        if id < self.specials.len() {
            return self.specials[id];
        }
        let i = id - self.specials.len();
        match &self.keys {
            Keys::Symbols(v) => Key::Symbol(v[i]),
            Keys::Words(v) => Key::Word(v.get(i)),
        }
    }

    /// Iterates over the tokens in the order of their ids.
    pub fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        (0..self.len() as u32).map(|id| self.key(id))
    }

    pub(crate) fn marks(&self) -> &[u8] {
        &self.marks
    }

    /// Returns the numbers of tokens.
    pub(crate) fn size(&self) -> VocabularySize {
        VocabularySize {
            tokens: self.len() as u64,
            labels: self.labels(),
            last_tokens: self.distinct_last_tokens(),
        }
    }

    /// Returns the number of tokens that occur as the next token of some context.
    pub fn labels(&self) -> u64 {
        self.marks.iter().filter(|&&m| m & MARK_LABEL != 0).count() as u64
    }

    /// Returns the number of tokens that occur as the last token of some context.
    pub fn distinct_last_tokens(&self) -> u64 {
        self.marks.iter().filter(|&&m| m & MARK_LAST != 0).count() as u64
    }

    /// Assigns texts to the ids that `name` knows.
    pub(crate) fn set_names(&mut self, name: impl Fn(u32) -> Option<String>) {
        if let Keys::Symbols(ids) = &self.keys {
            let mut names = Arena::default();
            for &id in ids {
                names.push(name(id).unwrap_or_else(|| id.to_string()).as_bytes());
            }
            self.names = Some(names);
        }
    }

    pub(crate) fn has_names(&self) -> bool {
        self.names.is_some()
    }

    /// Returns the name of an id, if the vocabulary has names.
    pub(crate) fn name(&self, id: u32) -> Option<&[u8]> {
        let i = (id as usize).checked_sub(self.specials.len())?;
        self.names.as_ref().map(|names| names.get(i))
    }

    pub(crate) fn set_name_list(&mut self, names: Arena) {
        debug_assert_eq!(names.len() + self.specials.len(), self.len());
        self.names = Some(names);
    }

    /// Returns the memory held, in bytes.
    pub fn footprint(&self) -> usize {
        let keys = match &self.keys {
            Keys::Symbols(v) => v.len() * 4,
            Keys::Words(v) => v.footprint(),
        };
        keys + self.marks.len() + self.names.as_ref().map_or(0, Arena::footprint)
    }

    /// Returns the text of a token for people to read. Bytes that are not printable ASCII become `\xNN`, a backslash
    /// becomes two.
    pub fn text(&self, id: u32) -> String {
        if let Some(name) = self.name(id) {
            return String::from_utf8_lossy(name).into_owned();
        }
        match self.key(id) {
            Key::Bos => "<bos>".into(),
            Key::Eos => "<eos>".into(),
            Key::Word(w) => String::from_utf8_lossy(w).into_owned(),
            Key::Symbol(s) => match self.alphabet {
                Alphabet::Byte if s == u32::from(b'\\') => "\\\\".into(),
                Alphabet::Byte if (32..127).contains(&s) => char::from(s as u8).to_string(),
                Alphabet::Byte => format!("\\x{s:02x}"),
                Alphabet::Char => char::from_u32(s).unwrap_or(char::REPLACEMENT_CHARACTER).to_string(),
                Alphabet::Word | Alphabet::Id => s.to_string(),
            },
        }
    }

    /// Returns the id of a token; `None` if the vocabulary does not contain it.
    pub fn id(&self, key: Key<'_>) -> Option<u32> {
        let (mut low, mut high) = (0, self.len() as u32);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.key(middle).cmp(&key) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    /// Returns a hash of the tokens.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Fnv::new();
        for key in self.keys() {
            match key {
                Key::Bos => hash.write(b"B"),
                Key::Eos => hash.write(b"E"),
                Key::Symbol(s) => hash.write(&s.to_le_bytes()),
                Key::Word(w) => {
                    hash.write(&w.len().to_le_bytes());
                    hash.write(w);
                }
            }
        }
        hash.finish()
    }

    /// Returns, for every token, its id in another vocabulary, or the first token that the other lacks.
    pub fn ids_in(&self, other: &Vocabulary) -> Result<Vec<u32>, u32> {
        let alike = self.alphabet == other.alphabet;
        let find = |id: u32| other.id(self.key(id)).filter(|_| alike).ok_or(id);
        (0..self.len() as u32).map(find).collect()
    }

    /// Returns the separator between two tokens when a context is written as text.
    pub fn joiner(&self) -> &'static str {
        match self.alphabet {
            Alphabet::Byte | Alphabet::Char => "",
            Alphabet::Word | Alphabet::Id => " ",
        }
    }

    /// Returns the tokens that have `marks`, with these and with their names.
    pub(crate) fn restricted(&self, marks: impl Fn(u32) -> Option<u8>) -> Vocabulary {
        let mut part = Vocabulary::new(self.alphabet);
        let mut names = Arena::default();
        for (key, id) in self.keys().zip(0..) {
            let Some(marks) = marks(id) else { continue };
            part.append(key, marks);
            if let (Key::Symbol(_), Some(name)) = (key, self.name(id)) {
                names.push(name);
            }
        }
        part.names = self.has_names().then_some(names);
        part.tokenizer.clone_from(&self.tokenizer);
        part
    }

    /// Returns the union of several vocabularies of one alphabet, and for each of them the map from its ids to the
    /// union's. The maps are increasing, so anything sorted by a part's ids is also sorted by the union's.
    pub fn union(parts: &[&Vocabulary]) -> (Vocabulary, Vec<Vec<u32>>) {
        let key = |part: u32, id: u32| parts[part as usize].key(id);
        let lists = parts.par_iter().enumerate().map(|(part, vocabulary)| {
            vocabulary.keys().zip(0..).map(|(key, id)| (key.beginning(), part as u32, id)).collect()
        });
        let mut maps: Vec<Vec<u32>> = parts.iter().map(|p| vec![0; p.len()]).collect();
        let with_names = parts.iter().any(|p| p.has_names());
        let mut names = Arena::default();
        let alphabet = parts.first().map_or(Alphabet::Word, |p| p.alphabet);
        let mut union = Self::merged(alphabet, lists.collect(), &key, |new, same| {
            same.iter().for_each(|&(_, part, id)| maps[part as usize][id as usize] = new);
            if with_names && matches!(key(same[0].1, same[0].2), Key::Symbol(_)) {
                let name = same.iter().find_map(|&(_, part, id)| parts[part as usize].name(id));
                names.push(name.unwrap_or(b"?"));
            }
            same.iter().fold(0, |marks, &(_, part, id)| marks | parts[part as usize].marks[id as usize])
        });
        if with_names {
            union.names = Some(names);
        }
        (union, maps)
    }

    /// The vocabulary of sorted lists of tokens. `place` receives the id of each token and the elements of the lists that are this token,
    /// and returns its marks.
    pub(crate) fn merged<'k>(
        alphabet: Alphabet,
        lists: Vec<Vec<Listed>>,
        key: &(impl Fn(u32, u32) -> Key<'k> + Sync),
        mut place: impl FnMut(u32, &[Listed]) -> u8,
    ) -> Vocabulary {
        let order = |a: &Listed, b: &Listed| Key::order((a.0, b.0), || (key(a.1, a.2), key(b.1, b.2)));
        let mut vocabulary = Vocabulary::new(alphabet);
        for same in merge(lists, &order).chunk_by(|a, b| order(a, b).is_eq()) {
            let marks = place(vocabulary.len() as u32, same);
            let (beginning, list, id) = same[0];
            let appended = match beginning.word() {
                // Its string is at hand, and that of the list may be far away.
                Some((word, n)) if alphabet == Alphabet::Word => {
                    vocabulary.append(Key::Word(&word[..n]), marks)
                }
                _ => vocabulary.append(key(list, id), marks),
            };
            debug_assert!(appended, "the tokens of all lists have one alphabet");
        }
        vocabulary
    }
}

/// A vocabulary as stored in a model file: canonical, so that equal vocabularies give equal texts.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VocabularyJson {
    alphabet: Alphabet,
    bos: bool,
    eos: bool,
    /// Bytes, scalar values or given ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    symbols: Option<Vec<u32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    words: Option<Vec<String>>,
    /// The texts of given ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    names: Option<Vec<String>>,
    /// The text of the `tokenizer.json` that makes the ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokenizer: Option<String>,
}

impl Serialize for Vocabulary {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let texts = |arena: &Arena| {
            (0..arena.len()).map(|i| String::from_utf8_lossy(arena.get(i)).into_owned()).collect::<Vec<_>>()
        };
        VocabularyJson {
            alphabet: self.alphabet,
            bos: self.specials.contains(&Key::Bos),
            eos: self.specials.contains(&Key::Eos),
            symbols: match &self.keys {
                Keys::Symbols(v) => Some(v.clone()),
                Keys::Words(_) => None,
            },
            words: match &self.keys {
                Keys::Symbols(_) => None,
                Keys::Words(words) => Some(texts(words)),
            },
            names: self.names.as_ref().map(texts),
            tokenizer: self.tokenizer.as_ref().map(|json| json.text().to_owned()),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let json = VocabularyJson::deserialize(deserializer)?;
        let mut vocabulary = Vocabulary::new(json.alphabet);
        let words = json.words.unwrap_or_default();
        let symbols = json.symbols.unwrap_or_default();
        let keys = (json.bos.then_some(Key::Bos).into_iter())
            .chain(json.eos.then_some(Key::Eos))
            .chain(symbols.iter().map(|&s| Key::Symbol(s)))
            .chain(words.iter().map(|w| Key::Word(w.as_bytes())));
        for key in keys {
            if !vocabulary.push(key, 0) {
                return Err(D::Error::custom("a vocabulary out of order, or of the wrong kind"));
            }
        }
        if let Some(names) = json.names {
            if names.len() != symbols.len() {
                return Err(D::Error::custom(format!("{} names for {} tokens", names.len(), symbols.len())));
            }
            let mut arena = Arena::default();
            names.iter().for_each(|n| arena.push(n.as_bytes()));
            vocabulary.set_name_list(arena);
        }
        if let Some(text) = json.tokenizer {
            if json.alphabet != Alphabet::Id {
                return Err(D::Error::custom("a tokenizer.json for tokens that are not ids"));
            }
            vocabulary.tokenizer = Some(TokenizerJson::new(&text));
        }
        Ok(vocabulary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Vocabulary {
        let mut v = Vocabulary::new(Alphabet::Word);
        for w in list {
            assert!(v.push(Key::Word(w.as_bytes()), MARK_LABEL));
        }
        v
    }

    #[test]
    fn the_union_of_parts_is_sorted_and_its_maps_increase() {
        let (a, b) = (words(&["b", "d", "é"]), words(&["a", "b", "z"]));
        let (union, maps) = Vocabulary::union(&[&a, &b]);
        assert_eq!((0..5).map(|i| union.text(i)).collect::<Vec<_>>(), ["a", "b", "d", "z", "é"]);
        assert_eq!(maps, [vec![1, 2, 4], vec![0, 1, 3]]);
        assert_eq!((union.labels(), union.distinct_last_tokens()), (5, 0));
    }

    #[test]
    fn a_vocabulary_goes_through_json_without_its_marks() {
        let mut v = Vocabulary::new(Alphabet::Word);
        for key in [Key::Bos, Key::Word(b"a"), Key::Word("é".as_bytes())] {
            v.push(key, 0);
        }
        let json = serde_json::to_string(&v).unwrap();
        assert_eq!(json, r#"{"alphabet":"word","bos":true,"eos":false,"words":["a","é"]}"#);
        assert_eq!(serde_json::from_str::<Vocabulary>(&json).unwrap(), v);
        for wrong in [
            r#"{"alphabet":"word","bos":true,"eos":false,"words":["b","a"]}"#,
            r#"{"alphabet":"word","bos":true,"eos":false,"symbols":[1]}"#,
            r#"{"alphabet":"id","bos":true,"eos":false,"symbols":[1],"names":[]}"#,
            r#"{"alphabet":"id","bos":true,"eos":false,"symbols":[1],"what":3}"#,
        ] {
            assert!(serde_json::from_str::<Vocabulary>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_vocabulary_of_ids_keeps_the_tokenizer_that_makes_them() {
        let plain = Vocabulary::of_ids(3);
        assert!(plain.is_plain_ids() && !words(&["a"]).is_plain_ids());
        let held = plain.clone().with_tokenizer(TokenizerJson::new("{\"a\": \"é\"}"));
        assert_ne!(held, plain);
        let json = serde_json::to_string(&held).unwrap();
        assert_eq!(serde_json::from_str::<Vocabulary>(&json).unwrap(), held);
        let part = held.restricted(|id| (id > 0).then_some(0));
        assert_eq!((part.tokenizer(), part.is_plain_ids()), (held.tokenizer(), false));
        let words = r#"{"alphabet":"word","bos":false,"eos":false,"words":["a"],"tokenizer":"{}"}"#;
        assert!(serde_json::from_str::<Vocabulary>(words).is_err());
    }

    #[test]
    fn specials_come_first_and_order_is_kept() {
        let mut v = Vocabulary::new(Alphabet::Byte);
        assert!(v.push(Key::Bos, 0) && v.push(Key::Symbol(7), 0));
        assert!(!v.push(Key::Eos, 0), "out of order");
        assert!(!v.push(Key::Symbol(7), 0), "twice");
        assert!(!v.push(Key::Word(b"x"), 0), "wrong kind");
        assert_eq!((v.text(0), v.text(1), v.len()), ("<bos>".into(), "\\x07".into(), 2));
    }
}
