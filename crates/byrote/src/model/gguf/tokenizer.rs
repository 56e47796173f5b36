//! The tokenizer of a GGUF file, rebuilt as a `tokenizer.json`.
//!
//! `tokenizer.ggml.tokens` lists the tokens by id, `tokenizer.ggml.token_type` says what each is, and `tokenizer.ggml.model` how
//! text is cut into them:
//!
//! | model | tokens | merges | text before merging |
//! |---|---|---|---|
//! | `gpt2` | strings of GPT-2's printable stand-ins for bytes | `tokenizer.ggml.merges`, the first ones first | cut by the rule named in `tokenizer.ggml.pre` ([`Splitting`]) |
//! | `llama` | strings with U+2581 for a space, `<0x0A>` for a byte without a token | any two tokens whose concatenation is a token, the largest `tokenizer.ggml.scores` first | whole, with a space in front unless `tokenizer.ggml.add_space_prefix` is false |
//!
//! Tokens of the types 2 (unknown), 3 (control) and 4 (defined by the user) are found in the text first, and are never the result of
//! a merge. A tokenizer that byrote does not know how to rebuild is refused when a text is to be read; the model can still read ids,
//! or text through the `tokenizer.json` of the same model.

use super::metadata::Metadata;
use crate::Result;
use crate::corpus::vocabulary::Arena;
use crate::corpus::{TokenizerJson, Vocabulary};
use crate::model::huggingface;
use crate::model::stored::Text;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const SCORES: &str = "tokenizer.ggml.scores";
const PRE: &str = "tokenizer.ggml.pre";

/// The types of tokens that matter here.
const NORMAL: i64 = 1;
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

/// How text is cut before tokens are merged.
struct Splitting {
    names: &'static [&'static str],
    /// Regular expressions that cut one after the other; none leaves it to GPT-2's rule, which is built in.
    rules: &'static [Rule],
    /// Whether text is normalized to NFC first.
    nfc: bool,
    /// Whether a piece that is a token is not built by merges.
    whole_tokens: bool,
    /// Whether a start token is put in front where the file does not say.
    start: bool,
}

/// One step of cutting.
enum Rule {
    /// Every digit alone.
    Digits,
    /// Every match alone, and what is between them.
    Matches(&'static str),
    /// GPT-2's rule.
    Gpt2,
}

/// GPT-2's rule: contractions, letters, digits or other characters with the space in front of them, white space.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// The rules by their names in files. Llama 3 takes up to three digits together, Qwen2 one.
const SPLITTINGS: [Splitting; 5] = [
    Splitting {
        names: &["gpt-2", "mpt"],
        rules: &[Rule::Gpt2],
        nfc: false,
        whole_tokens: false,
        start: false,
    },
    Splitting {
        names: &["smollm", "starcoder", "refact"],
        rules: &[Rule::Digits, Rule::Gpt2],
        nfc: false,
        whole_tokens: false,
        start: false,
    },
    Splitting {
        names: &["llama-bpe", "llama3", "llama-v3"],
        rules: &[Rule::Matches(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        )],
        nfc: false,
        whole_tokens: true,
        start: true,
    },
    Splitting {
        names: &["qwen2"],
        rules: &[Rule::Matches(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        )],
        nfc: true,
        whole_tokens: false,
        start: false,
    },
    Splitting {
        names: &["default"],
        rules: &[
            Rule::Matches(r"[\p{P}\$\+<=>\^~\|]+"),
            Rule::Matches(GPT2),
            Rule::Matches(r"\p{N}+"),
            Rule::Matches(r"[0-9][0-9][0-9]"),
        ],
        nfc: false,
        whole_tokens: false,
        start: false,
    },
];

impl Splitting {
    /// The field `pre_tokenizer`.
    fn json(&self) -> Value {
        let bytes = |use_regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex});
        let mut steps: Vec<Value> = Vec::new();
        for rule in self.rules {
            steps.push(match rule {
                Rule::Digits => json!({"type": "Digits", "individual_digits": true}),
                Rule::Matches(regex) => {
                    json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false})
                }
                Rule::Gpt2 => bytes(true),
            });
        }
        if !matches!(self.rules.last(), Some(Rule::Gpt2)) {
            steps.push(bytes(false));
        }
        json!({"type": "Sequence", "pretokenizers": steps})
    }
}

/// Reads the tokenizer of a model with `d_vocab` tokens.
pub(super) fn read(metadata: &Metadata, path: &Path, d_vocab: u64) -> Result<Text> {
    let n = u32::try_from(d_vocab).map_err(|_| {
        metadata.error(format!("token_embd.weight has {d_vocab} rows; byrote reads at most {}", u32::MAX))
    })?;
    let mut vocabulary = Vocabulary::of_ids(n);
    let instruct = metadata.has("tokenizer.chat_template");
    let Some(tokens) = Tokens::read(metadata, d_vocab)? else {
        return Ok(Text { tokenizer: "ids".into(), vocabulary, start: Vec::new(), instruct });
    };
    let (json, start) = match tokens.model {
        "gpt2" => tokens.byte_level()?,
        "llama" => tokens.sentence_piece()?,
        other => (Err(format!("tokenizer.ggml.model = {other:?}")), tokens.start(false)?),
    };
    match json {
        Ok(json) => {
            let text = json.to_string();
            let (vocabulary, _) = huggingface::held(vocabulary, path, &text)?;
            let tokenizer = TokenizerJson::new(&text).name();
            Ok(Text { tokenizer, vocabulary, start, instruct })
        }
        Err(unknown) => {
            vocabulary.set_names(|id| tokens.get(id as usize).map(str::to_owned));
            let tokenizer = format!("a GGUF tokenizer that byrote cannot rebuild ({unknown})");
            Ok(Text { tokenizer, vocabulary, start, instruct })
        }
    }
}

/// The tokens of a file.
struct Tokens<'a> {
    metadata: &'a Metadata,
    model: &'a str,
    tokens: &'a Arena,
    types: Vec<i64>,
    ids: BTreeMap<&'a str, u32>,
}

/// A `tokenizer.json`, or the setting that byrote does not know; and the tokens in front of a text.
type Rebuilt = (Result<Value, String>, Vec<u32>);

impl<'a> Tokens<'a> {
    /// The tokens of a file that has some.
    fn read(metadata: &'a Metadata, d_vocab: u64) -> Result<Option<Self>> {
        let model = metadata.text("tokenizer.ggml.model")?.unwrap_or("none");
        let Some(tokens) = metadata.texts(TOKENS)?.filter(|_| !["none", "no_vocab"].contains(&model)) else {
            return Ok(None);
        };
        if tokens.len() as u64 > d_vocab {
            let message =
                format!("has {} tokens, but the model's vocabulary has {d_vocab} tokens", tokens.len());
            return Err(metadata.wrong(TOKENS, &message));
        }
        let types = metadata.integers(TYPES)?.unwrap_or_else(|| vec![NORMAL; tokens.len()]);
        if types.len() != tokens.len() {
            return Err(metadata.wrong(TYPES, &format!("{} types for {} tokens", types.len(), tokens.len())));
        }
        let mut found = Self { metadata, model, tokens, types, ids: BTreeMap::new() };
        for i in 0..tokens.len() {
            let token = found.text(i);
            if let Some(before) = found.ids.insert(token, i as u32) {
                let message = format!("the tokens {before} and {i} are both {token:?}");
                return Err(metadata.wrong(TOKENS, &message));
            }
        }
        Ok(Some(found))
    }

    /// A token, by an id below the number of tokens.
    fn text(&self, i: usize) -> &'a str {
        // The reader of the header has checked that it is text.
        std::str::from_utf8(self.tokens.get(i)).unwrap_or_default()
    }

    fn get(&self, i: usize) -> Option<&'a str> {
        (i < self.tokens.len()).then(|| self.text(i))
    }

    /// Whether a token is found in the text before anything else.
    fn is_added(&self, i: usize) -> bool {
        [UNKNOWN, CONTROL, USER_DEFINED].contains(&self.types[i])
    }

    /// The tokens in front of a text; `usual` is what a file means that does not say.
    fn start(&self, usual: bool) -> Result<Vec<u32>> {
        const ADD: &str = "tokenizer.ggml.add_bos_token";
        const ID: &str = "tokenizer.ggml.bos_token_id";
        if !self.metadata.switch(ADD)?.unwrap_or(usual) {
            return Ok(Vec::new());
        }
        let id = self.metadata.count(ID)?;
        match id.and_then(|id| u32::try_from(id).ok()).filter(|&id| (id as usize) < self.tokens.len()) {
            Some(id) => Ok(vec![id]),
            None => {
                let found = id.map_or("is missing".to_owned(), |id| format!("there is no token {id}"));
                Err(self.metadata.wrong(ID, &format!("{found}, but texts begin with this token")))
            }
        }
    }

    /// Byte-level BPE.
    fn byte_level(&self) -> Result<Rebuilt> {
        let pre = self.metadata.text(PRE)?;
        let splitting = SPLITTINGS.iter().find(|s| pre.is_some_and(|pre| s.names.contains(&pre)));
        let Some(splitting) = splitting else {
            let found = pre.map_or_else(|| format!("{PRE} is missing"), |pre| format!("{PRE} = {pre:?}"));
            return Ok((Err(found), self.start(false)?));
        };
        let Some(merges) = self.metadata.texts(MERGES)? else {
            return Err(self.metadata.error(format!("{MERGES} is missing")));
        };
        let mut pairs = Vec::new();
        for i in 0..merges.len() {
            let merge = std::str::from_utf8(merges.get(i)).unwrap_or_default();
            let pair = merge
                .char_indices()
                .skip(1)
                .find(|(_, c)| *c == ' ')
                .map(|(at, _)| (&merge[..at], &merge[at + 1..]));
            let known = |(a, b): &(&str, &str)| {
                [*a, *b, format!("{a}{b}").as_str()].iter().all(|token| self.ids.contains_key(token))
            };
            let Some(pair) = pair.filter(known) else {
                let message = format!("{merge:?} (number {i}) does not join two tokens to a token");
                return Err(self.metadata.wrong(MERGES, &message));
            };
            pairs.push(pair);
        }
        let start = self.start(splitting.start)?;
        let model = json!({
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": false, "byte_fallback": false, "ignore_merges": splitting.whole_tokens,
            "vocab": self.ids, "merges": pairs,
        });
        let bytes =
            json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
        let parts = Parts {
            normalizer: if splitting.nfc { json!({"type": "NFC"}) } else { Value::Null },
            pre_tokenizer: splitting.json(),
            post_processors: vec![
                json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true}),
            ],
            decoder: bytes,
            model,
        };
        Ok((Ok(self.json(parts, &start)), start))
    }

    /// SentencePiece's BPE.
    fn sentence_piece(&self) -> Result<Rebuilt> {
        let start = self.start(true)?;
        for key in ["tokenizer.ggml.remove_extra_whitespaces", "tokenizer.ggml.precompiled_charsmap"] {
            if self.metadata.has(key) && self.metadata.switch(key).unwrap_or(None) != Some(false) {
                return Ok((Err(key.to_owned()), start));
            }
        }
        let Some(scores) = self.metadata.numbers(SCORES)? else {
            return Err(self.metadata.error(format!("{SCORES} is missing")));
        };
        if scores.len() != self.tokens.len() || scores.iter().any(|score| score.is_nan()) {
            let message = format!("must be {} numbers (got {})", self.tokens.len(), scores.len());
            return Err(self.metadata.wrong(SCORES, &message));
        }
        let unknown = (0..self.tokens.len()).find(|&i| self.types[i] == UNKNOWN).map(|i| self.text(i));
        let model = json!({
            "type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": self.ids, "merges": self.merges_by_score(&scores),
        });
        let prefix = self.metadata.switch("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
        let mut steps = vec![json!({"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"})];
        let mut back = vec![
            json!({"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "}),
            json!({"type": "ByteFallback"}),
            json!({"type": "Fuse"}),
        ];
        if prefix {
            steps.insert(0, json!({"type": "Prepend", "prepend": "\u{2581}"}));
            back.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
        }
        let parts = Parts {
            normalizer: json!({"type": "Sequence", "normalizers": steps}),
            pre_tokenizer: Value::Null,
            post_processors: Vec::new(),
            decoder: json!({"type": "Sequence", "decoders": back}),
            model,
        };
        Ok((Ok(self.json(parts, &start)), start))
    }

    /// Every way to join two tokens to a third, the one with the largest score first; among ways to the same token, those with
    /// the longest left part first.
    fn merges_by_score(&self, scores: &[f32]) -> Vec<(&'a str, &'a str)> {
        let normal = |text: &str| self.ids.get(text).filter(|&&id| self.types[id as usize] == NORMAL);
        let mut merges = Vec::new();
        for (&token, &id) in &self.ids {
            if self.types[id as usize] != NORMAL {
                continue;
            }
            for (at, _) in token.char_indices().skip(1) {
                let (left, right) = token.split_at(at);
                if normal(left).is_some() && normal(right).is_some() {
                    merges.push((id, left, right));
                }
            }
        }
        merges.sort_by(|a, b| {
            let (x, y) = (scores[a.0 as usize], scores[b.0 as usize]);
            y.total_cmp(&x).then(a.0.cmp(&b.0)).then(b.1.len().cmp(&a.1.len()))
        });
        merges.into_iter().map(|(_, left, right)| (left, right)).collect()
    }

    /// The whole file.
    fn json(&self, parts: Parts, start: &[u32]) -> Value {
        let added: Vec<Value> = (0..self.tokens.len())
            .filter(|&i| self.is_added(i))
            .map(|i| {
                json!({
                    "id": i, "content": self.text(i), "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false, "special": self.types[i] != USER_DEFINED,
                })
            })
            .collect();
        let mut processors = parts.post_processors;
        if let Some(&id) = start.first() {
            let name = self.text(id as usize);
            let special = |type_id: u32| json!({"SpecialToken": {"id": name, "type_id": type_id}});
            let text = |which: &str, type_id: u32| json!({"Sequence": {"id": which, "type_id": type_id}});
            processors.push(json!({
                "type": "TemplateProcessing",
                "single": [special(0), text("A", 0)],
                "pair": [special(0), text("A", 0), special(1), text("B", 1)],
                "special_tokens": {name: {"id": name, "ids": [id], "tokens": [name]}},
            }));
        }
        let processor = match processors.len() {
            0 => Value::Null,
            1 => processors.remove(0),
            _ => json!({"type": "Sequence", "processors": processors}),
        };
        json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
            "normalizer": parts.normalizer, "pre_tokenizer": parts.pre_tokenizer, "post_processor": processor,
            "decoder": parts.decoder, "model": parts.model,
        })
    }
}

/// The parts of a `tokenizer.json` that differ between models.
struct Parts {
    normalizer: Value,
    pre_tokenizer: Value,
    post_processors: Vec<Value>,
    decoder: Value,
    model: Value,
}
