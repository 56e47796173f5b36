//! The corpus: its floor, its trie of contexts, what contradicts itself and what repeats.
//!
//! The trie stays here. A page sees one node at a time: its count, its next tokens, its entropy, its share of the floor.

use crate::answer::error_json;
use crate::query::Query;
use crate::state::{CorpusState, State};
use byrote::corpus::{Context, ContextSet, Corpus, CorpusSpec, Outputs, Reading};
use byrote::observe::{Observer, Progress};
use byrote::units::Nats;
use byrote::{Error, Result, memory};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// A corpus that was read, and what is found in one pass over its contexts.
#[derive(Debug)]
pub struct LoadedCorpus {
    /// What it was read from.
    pub spec: CorpusSpec,
    /// The corpus.
    pub corpus: Corpus,
    /// The contexts that contribute most to the floor.
    contradictions: Vec<Vec<u32>>,
    /// The longest contexts that occur more than once.
    repeats: Vec<Vec<u32>>,
    /// What tells it from other corpora, once somebody has asked.
    fingerprint: OnceLock<Option<String>>,
}

/// How many contexts are listed.
const LISTED: usize = 100;
/// How many next tokens are sent.
const NEXT: usize = 100;

/// Begins to read the corpus.
pub fn load(state: &Arc<State>) {
    let state = state.clone();
    std::thread::spawn(move || {
        let work = || {
            let found = state.in_pool(|| read(&state))?;
            found.map(Arc::new)
        };
        // A panic is a bug, and no reason to end the server.
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        match found {
            Ok(Ok(corpus)) => state.set_corpus(CorpusState::Ready(corpus)),
            Ok(Err(Error::Interrupted)) => {}
            Ok(Err(error)) => {
                state.note(&format!("the corpus cannot be shown: {error}"));
                state.set_corpus(CorpusState::Failed(error_json(&error)));
            }
            Err(_) => {
                let error =
                    json!({"kind": "bug", "message": "a bug in byrote, please report it", "setting": null});
                state.set_corpus(CorpusState::Failed(error));
            }
        }
    });
}

fn read(state: &State) -> Result<LoadedCorpus> {
    let mut spec = state.places.corpus.clone();
    spec.max_memory = spec.max_memory.or_else(memory::share);
    let observer = Reader { state, told: Mutex::new(None) };
    let corpus = Corpus::from_spec(&spec, Outputs::default().contexts(true), &observer)?;
    Ok(LoadedCorpus::new(spec, corpus))
}

/// Tells pages how far reading is, a few times a second.
struct Reader<'a> {
    state: &'a State,
    told: Mutex<Option<Instant>>,
}

impl Observer for Reader<'_> {
    fn progress(&self, progress: &Progress<'_>) {
        let mut told = crate::state::held(&self.told);
        if told.is_none_or(|told| told.elapsed() > Duration::from_millis(250)) {
            *told = Some(Instant::now());
            self.state.set_corpus(CorpusState::Loading(progress_json(progress)));
        }
    }

    fn should_stop(&self) -> bool {
        self.state.should_stop()
    }
}

/// Progress as pages show it.
pub fn progress_json(progress: &Progress<'_>) -> Value {
    json!({
        "stage": progress.stage.to_string(),
        "done": progress.done,
        "total": progress.total,
        "unit": progress.stage.unit(),
    })
}

impl LoadedCorpus {
    fn new(spec: CorpusSpec, corpus: Corpus) -> Self {
        let (contradictions, repeats) = match &corpus.contexts {
            Some(contexts) => listed(contexts),
            None => Default::default(),
        };
        Self { spec, corpus, contradictions, repeats, fingerprint: OnceLock::new() }
    }

    /// The contexts.
    pub fn contexts(&self) -> Result<&ContextSet> {
        self.corpus.contexts.as_ref().ok_or_else(|| Error::setting("corpus", "has too many contexts to list"))
    }

    /// What tells the corpus from others: its contexts with their counts, and its vocabulary. None if its contexts are not listed.
    pub fn fingerprint(&self) -> Option<&str> {
        let compute = || {
            let contexts = self.corpus.contexts.as_ref()?.fingerprint();
            Some(format!("{contexts:016x}{:016x}", self.corpus.vocabulary.fingerprint()))
        };
        self.fingerprint.get_or_init(compute).as_deref()
    }

    /// Of how many windows its contexts are, if those are only some of all: nothing can then be said of what does not occur.
    fn sample(&self) -> Option<Value> {
        let sample = self.corpus.window_sample().filter(|sample| sample.windows < sample.of)?;
        Some(json!({"windows": sample.windows, "of": sample.of}))
    }

    fn reading(&self) -> Reading<'_> {
        let summary = &self.corpus.summary;
        Reading {
            tokenizer: &summary.tokenizer,
            vocabulary: &self.corpus.vocabulary,
            n_ctx: u64::from(summary.n_ctx),
        }
    }

    /// The tokens that a query names, by `tokens` or by `text`.
    pub fn tokens(&self, query: &Query) -> Result<Vec<u32>> {
        if let Some(tokens) = query.tokens("tokens")? {
            let known = self.corpus.vocabulary.len();
            return match tokens.iter().find(|&&t| t as usize >= known) {
                Some(t) => Err(Error::setting("tokens", format!("there is no token {t} among {known}"))),
                None => Ok(tokens),
            };
        }
        match query.get("text").unwrap_or_default() {
            "" => Ok(Vec::new()),
            text => {
                self.reading().tokens(text, false, self.spec.tokenizer.as_ref()).map_err(
                    |error| match error {
                        // What reads is said to be a model, and here is none.
                        Error::Setting { name, message } => {
                            Error::setting(name, message.replace("the model", "the corpus"))
                        }
                        other => other,
                    },
                )
            }
        }
    }

    fn texts(&self, tokens: &[u32]) -> Vec<String> {
        tokens.iter().map(|&t| self.corpus.vocabulary.text(t)).collect()
    }

    fn text(&self, tokens: &[u32]) -> String {
        self.texts(tokens).join(self.corpus.vocabulary.joiner())
    }

    /// What is known of a context.
    fn node(&self, tokens: &[u32]) -> Result<Value> {
        let contexts = self.contexts()?;
        let found = contexts.find(tokens);
        let mut next: Vec<(u32, u64)> = match (&found, tokens.is_empty()) {
            (Some(context), _) => context.next().collect(),
            (None, true) => contexts.first_tokens().collect(),
            (None, false) => Vec::new(),
        };
        let count: u64 = next.iter().map(|n| n.1).sum();
        let kinds = next.len();
        next.sort_by_key(|&(token, n)| (Reverse(n), token));
        let floor = floor_of(next.iter().map(|n| n.1), count);
        let total = self.corpus.summary.floor_nats.0;
        let longer = |token: u32| {
            let deeper = contexts.find(&[tokens, &[token]].concat());
            deeper.map_or(0, |context| context.count())
        };
        let rows = next.iter().take(NEXT).map(|&(token, n)| {
            json!({
                "token": token,
                "text": self.corpus.vocabulary.text(token),
                "count": n,
                "probability": n as f64 / count.max(1) as f64,
                // The predictions of the longer context: none, and it leads nowhere.
                "deeper": longer(token),
            })
        });
        let is_root = tokens.is_empty();
        Ok(json!({
            "tokens": tokens,
            "texts": self.texts(tokens),
            "text": self.text(tokens),
            "joiner": self.corpus.vocabulary.joiner(),
            "is_context": count > 0 && !is_root,
            "occurs": found.is_some() || is_root,
            "count": count,
            "next_tokens": kinds,
            "next": rows.collect::<Vec<_>>(),
            "entropy_nats": (count > 0).then(|| floor / count as f64),
            "floor_nats": (!is_root).then_some(floor),
            "floor_share": (!is_root && total > 0.0).then(|| floor / total),
            "sample": self.sample(),
        }))
    }

    fn row(&self, tokens: &[u32]) -> Option<Value> {
        let context = self.corpus.contexts.as_ref()?.find(tokens)?;
        let count = context.count();
        let mut next: Vec<(u32, u64)> = context.next().collect();
        next.sort_by_key(|&(token, n)| (Reverse(n), token));
        let floor = floor_of(next.iter().map(|n| n.1), count);
        let total = self.corpus.summary.floor_nats.0;
        let shown = next.iter().take(4);
        let shown =
            shown.map(|&(t, n)| json!({"token": t, "text": self.corpus.vocabulary.text(t), "count": n}));
        Some(json!({
            "tokens": tokens, "text": self.text(tokens), "length": tokens.len(), "count": count,
            "next_tokens": next.len(), "next": shown.collect::<Vec<_>>(), "floor_nats": floor,
            "floor_share": (total > 0.0).then(|| floor / total),
        }))
    }
}

/// A context's contribution to the floor: its count times the entropy of its next tokens.
fn floor_of(next: impl Iterator<Item = u64>, count: u64) -> f64 {
    Nats(next.map(|n| n as f64 * (count as f64 / n as f64).ln()).sum()).0
}

/// The contexts that cost most, and the longest that repeat, in one pass.
fn listed(contexts: &ContextSet) -> (Vec<Vec<u32>>, Vec<Vec<u32>>) {
    // Positive floats are ordered as their bits are; the number of the context keeps equal ones apart, in order.
    let mut costly: BTreeSet<(u64, Reverse<usize>)> = BTreeSet::new();
    let mut repeated: BTreeSet<(usize, u64, Reverse<usize>)> = BTreeSet::new();
    let mut tokens: std::collections::BTreeMap<usize, Vec<u32>> = Default::default();
    let keep = |context: &Context<'_>, i: usize, tokens: &mut std::collections::BTreeMap<usize, Vec<u32>>| {
        tokens.entry(i).or_insert_with(|| {
            let mut own = Vec::new();
            context.tokens(&mut own);
            own
        });
    };
    for (i, context) in contexts.iter().enumerate() {
        let count = context.count();
        let floor = floor_of(context.next().map(|n| n.1), count).max(0.0).to_bits();
        let is_costly =
            floor > 0 && (costly.len() < LISTED || costly.first().is_some_and(|least| least.0 < floor));
        let length = context.len();
        let is_long = |least: &(usize, u64, Reverse<usize>)| (least.0, least.1) < (length, count);
        let is_repeated = count > 1 && (repeated.len() < LISTED || repeated.first().is_some_and(is_long));
        if is_costly {
            keep(&context, i, &mut tokens);
            costly.insert((floor, Reverse(i)));
            if costly.len() > LISTED {
                costly.pop_first();
            }
        }
        if is_repeated {
            keep(&context, i, &mut tokens);
            repeated.insert((length, count, Reverse(i)));
            if repeated.len() > LISTED {
                repeated.pop_first();
            }
        }
        if tokens.len() > 8 * LISTED {
            let used: BTreeSet<usize> =
                costly.iter().map(|c| c.1.0).chain(repeated.iter().map(|r| r.2.0)).collect();
            tokens.retain(|i, _| used.contains(i));
        }
    }
    let of = |i: usize| tokens.get(&i).cloned().unwrap_or_default();
    (costly.iter().rev().map(|c| of(c.1.0)).collect(), repeated.iter().rev().map(|r| of(r.2.0)).collect())
}

/// `/api/corpus`: the JSON of `byrote corpus`, and whether it is there yet.
pub fn summary(state: &State, _: &Query) -> Result<Value> {
    Ok(match state.corpus_state() {
        CorpusState::Loading(progress) => json!({"state": "loading", "progress": progress}),
        CorpusState::Failed(error) => json!({"state": "failed", "error": error}),
        CorpusState::Ready(loaded) => {
            let corpus = &loaded.corpus;
            json!({
                "state": "ready",
                "title": loaded.spec.title(),
                "summary": corpus.whole.as_deref().unwrap_or(&corpus.summary),
                "window_sample": corpus.window_sample().map(|sample| sample.to_string()),
                "sample": loaded.sample(),
                "shown": corpus.summary,
                "hint": corpus.summary.hint(),
            })
        }
    })
}

/// `/api/corpus/context`: one node of the trie, by its tokens or by text.
pub fn context(state: &State, query: &Query) -> Result<Value> {
    let loaded = state.corpus()?;
    loaded.node(&loaded.tokens(query)?)
}

/// `/api/corpus/search`: tokens that contain a text, and contexts that end with its tokens.
pub fn search(state: &State, query: &Query) -> Result<Value> {
    let loaded = state.corpus()?;
    // Of characters, a space is one: it is left out only where tokens are sought by a part of their text.
    let text = query.required("text")?;
    let sought = Some(text.trim()).filter(|part| !part.is_empty()).unwrap_or(text).to_lowercase();
    if sought.is_empty() {
        return Err(Error::setting("text", "must not be empty"));
    }
    let vocabulary = &loaded.corpus.vocabulary;
    let ids = 0..vocabulary.len() as u32;
    let holds = |id: &u32| vocabulary.text(*id).to_lowercase().contains(&sought);
    let tokens = ids.filter(holds).take(30).map(|id| json!({"token": id, "text": vocabulary.text(id)}));
    let tokens: Vec<Value> = tokens.collect();
    let ending = loaded.reading().tokens(text, false, loaded.spec.tokenizer.as_ref()).unwrap_or_default();
    let mut found: BTreeSet<(u64, Reverse<usize>, Vec<u32>)> = BTreeSet::new();
    let mut total = 0u64;
    if !ending.is_empty() {
        for (i, context) in loaded.contexts()?.iter().enumerate().filter(|(_, c)| c.ends_with(&ending)) {
            total += 1;
            let mut own = Vec::new();
            context.tokens(&mut own);
            found.insert((context.count(), Reverse(i), own));
            if found.len() > LISTED {
                found.pop_first();
            }
        }
    }
    let rows: Vec<Value> = found.iter().rev().filter_map(|(_, _, tokens)| loaded.row(tokens)).collect();
    Ok(json!({"text": text, "tokens": tokens, "contexts": rows, "total": total, "sample": loaded.sample()}))
}

/// `/api/corpus/contradictions`: the contexts that contribute most to the floor.
pub fn contradictions(state: &State, _: &Query) -> Result<Value> {
    let loaded = state.corpus()?;
    let rows: Vec<Value> = loaded.contradictions.iter().filter_map(|tokens| loaded.row(tokens)).collect();
    Ok(json!({"rows": rows, "sample": loaded.sample()}))
}

/// `/api/corpus/repeats`: the longest contexts that occur more than once; of windows, the repeats of the text too.
pub fn repeats(state: &State, _: &Query) -> Result<Value> {
    let loaded = state.corpus()?;
    let rows: Vec<Value> = loaded.repeats.iter().filter_map(|tokens| loaded.row(tokens)).collect();
    let whole = loaded.corpus.whole.as_deref().unwrap_or(&loaded.corpus.summary);
    Ok(json!({"rows": rows, "windows": whole.windows, "sample": loaded.sample()}))
}
