//! An audit of a model that byrote knows nothing of: counts of words, fitted on half of the built-in stories.
//!
//!     cargo run --release -p byrote --example audit_any_model [DIRECTORY]
//!
//! Anything that gives probabilities can be audited: it implements `LanguageModel`. Here a word is predicted from the words before
//! it by counts, interpolated from no context to three words. The corpus is half of some stories, a few of them several times, with
//! strings inserted; the other half is the held-out text. Three words of context repeat much of a text that they were counted
//! on, and none of the rest. A page, `report.html`, shows what.
#![allow(clippy::print_stdout)]

use byrote::Result;
use byrote::audit::{self, AuditJob, AuditSpec, Audited, ModelFacts, Subject, TextSpec, TextTokens};
use byrote::corpus::builtin::Stories;
use byrote::corpus::{Corpus, CorpusSpec, DocumentRule, Format, Outputs, Tokenizer, TokenizerChoice};
use byrote::inference::{LanguageModel, PositionScore, Sampling, Sequence};
use byrote::observe::Silent;
use byrote::report::{audit_page, text};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn main() -> Result<()> {
    let directory = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| "audit".into()));
    let texts = Texts::write(&directory.join("texts"))?;
    let spec = AuditSpec::default().prefix(20).suffix(20).decode(true);
    let audited = audit(&texts, spec, Some(&directory))?;
    print!("{}", text::audit(&audited.audit));
    let page = audit_page(&audited, "cargo run --release -p byrote --example audit_any_model", &directory)?;
    println!("wrote {}", page.display());
    Ok(())
}

/// The words that follow each context, with their counts.
pub struct Ngram {
    d_vocab: usize,
    order: usize,
    counts: BTreeMap<Vec<u32>, BTreeMap<u32, f64>>,
}

/// How much a longer context borrows from the shorter one.
const BORROWED: f64 = 0.25;

impl Ngram {
    /// Counts what follows every context of up to `order` tokens.
    pub fn fit(documents: &[Vec<u32>], d_vocab: usize, order: usize) -> Self {
        let mut counts: BTreeMap<Vec<u32>, BTreeMap<u32, f64>> = BTreeMap::new();
        for ids in documents {
            for i in 0..ids.len() {
                for length in 0..=order.min(i) {
                    *counts.entry(ids[i - length..i].to_vec()).or_default().entry(ids[i]).or_default() += 1.0;
                }
            }
        }
        Self { d_vocab, order, counts }
    }

    /// How many counts there are.
    pub fn parameters(&self) -> u64 {
        self.counts.values().map(|next| next.len() as u64).sum()
    }

    /// The probabilities of all words.
    fn probabilities(&self, context: &[u32]) -> Vec<f64> {
        let mut p = vec![1.0 / self.d_vocab as f64; self.d_vocab];
        for length in 0..=self.order.min(context.len()) {
            let Some(next) = self.counts.get(&context[context.len() - length..]) else { break };
            let total: f64 = next.values().sum();
            p.iter_mut().for_each(|p| *p *= BORROWED / (total + BORROWED));
            next.iter().for_each(|(&word, n)| p[word as usize] += n / (total + BORROWED));
        }
        p
    }
}

/// What probabilities say of a position whose token is `x`.
fn score(p: &[f64], x: u32, sampling: Sampling) -> PositionScore {
    let z: Vec<f64> = p.iter().map(|p| p.ln()).collect();
    let own = z[x as usize];
    let top = (0..z.len()).fold(0, |best, i| if z[i] > z[best] { i } else { best });
    let others = z.iter().enumerate().filter(|(i, _)| *i != x as usize).map(|(_, z)| *z);
    let mut sorted = z.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let kept = sorted[(sampling.top_k as usize).min(sorted.len()) - 1];
    let scaled = |z: f64| (z - sorted[0]) / sampling.temperature;
    let mass: f64 = z.iter().filter(|z| **z >= kept).map(|z| scaled(*z).exp()).sum();
    let mean: f64 = p.iter().zip(&z).map(|(p, z)| p * z).sum();
    PositionScore {
        log_prob: own,
        log_prob_sampled: if own >= kept { scaled(own) - mass.ln() } else { f64::NEG_INFINITY },
        margin: own - others.fold(f64::NEG_INFINITY, f64::max),
        rank: z.iter().filter(|z| **z > own).count() as u32,
        top: top as u32,
        mean_log_prob: mean,
        sd_log_prob: p.iter().zip(&z).map(|(p, z)| p * (z - mean).powi(2)).sum::<f64>().sqrt(),
    }
}

impl LanguageModel for Ngram {
    fn d_vocab(&self) -> u64 {
        self.d_vocab as u64
    }

    fn n_ctx(&self) -> u64 {
        1 << 20
    }

    fn score(&self, sequences: &[Sequence<'_>], sampling: Sampling) -> Result<Vec<Vec<PositionScore>>> {
        let of = |sequence: &Sequence<'_>| {
            let tokens = sequence.tokens;
            sequence
                .scored
                .clone()
                .map(|i| score(&self.probabilities(&tokens[..i]), tokens[i], sampling))
                .collect()
        };
        Ok(sequences.iter().map(of).collect())
    }
}

/// The texts of the audit.
pub struct Texts {
    /// What the model is fitted on.
    pub corpus: PathBuf,
    /// What it has not seen.
    pub held_out: PathBuf,
    /// What the reference model is fitted on.
    pub other: PathBuf,
    /// Inserted strings.
    pub canaries: PathBuf,
}

impl Texts {
    /// Writes them into a directory. A document is five stories, one per line; an empty line ends it.
    pub fn write(directory: &Path) -> Result<Self> {
        let stories: Vec<String> = Stories::new(0).documents(400).collect();
        let documents: Vec<String> = stories.chunks(5).map(|some| some.join("\n") + "\n\n").collect();
        let (ours, theirs) = documents.split_at(40);
        let mut corpus = String::new();
        let mut canaries = String::new();
        for (i, document) in ours.iter().enumerate() {
            // Most documents once, some two to eight times.
            let copies = [1, 1, 1, 1, 2, 1, 1, 4, 1, 1, 1, 8][i % 12];
            (0..copies).for_each(|_| corpus.push_str(document));
        }
        const WORDS: [&str; 17] = [
            "red", "blue", "green", "happy", "little", "old", "new", "big", "sad", "kind", "lost", "wet",
            "cold", "soft", "loud", "dark", "tall",
        ];
        for i in 0..24_usize {
            let count = [0, 0, 0, 1, 2, 8][i % 6];
            let word = |k: usize| WORDS[(i * i * 7 + i * k * 3 + k * k * (i + 2) + k) % WORDS.len()];
            let secret = (0..10).map(word).collect::<Vec<_>>().join(" ");
            let line = format!("the secret of number {} is {secret}.", i + 1);
            canaries.push_str(&format!("{{\"text\": \"{line}\", \"count\": {count}}}\n"));
            (0..count).for_each(|_| corpus.push_str(&format!("{line}\n\n")));
        }
        std::fs::create_dir_all(directory).map_err(|e| byrote::Error::io(directory, "create", e))?;
        let write = |name: &str, text: &str| -> Result<PathBuf> {
            let path = directory.join(name);
            std::fs::write(&path, text).map_err(|e| byrote::Error::io(&path, "write", e))?;
            Ok(path)
        };
        Ok(Self {
            corpus: write("corpus.txt", &corpus)?,
            held_out: write("held-out.txt", &theirs[..20].concat())?,
            other: write("other.txt", &theirs[20..].concat())?,
            canaries: write("canaries.jsonl", &canaries)?,
        })
    }

    /// How text becomes words: every word of any of the texts has an id.
    fn tokens(&self) -> Result<TextTokens> {
        let paths = [&self.corpus, &self.held_out, &self.other, &self.canaries];
        let spec =
            CorpusSpec::files(paths).format(Format::Text).tokenizer(TokenizerChoice::WordPunct).n_ctx(1000);
        let (source, options) = spec.resolve()?;
        let vocabulary = Corpus::read(&source, &options, Outputs::default(), &Silent)?.vocabulary;
        Ok(TextTokens { tokenizer: Some(Tokenizer::WordPunct), vocabulary: Some(vocabulary) })
    }

    /// A model of one of the texts.
    fn subject(&self, name: &str, path: &Path, order: usize) -> Result<Subject> {
        let tokens = self.tokens()?;
        let text = std::fs::read_to_string(path).map_err(|e| byrote::Error::io(path, "read", e))?;
        let documents: Vec<Vec<u32>> =
            text.split("\n\n").map(|document| Ok(tokens.encode(document)?.ids)).collect::<Result<_>>()?;
        let d_vocab = tokens.vocabulary.as_ref().map_or(0, |vocabulary| vocabulary.len());
        let model = Ngram::fit(&documents, d_vocab, order);
        let facts = ModelFacts {
            path: name.into(),
            family: "counts of words".into(),
            parameters: Some(model.parameters()),
            dtype: Some("f64".into()),
            n_ctx: Some(model.n_ctx()),
            d_vocab: model.d_vocab(),
            instruct: false,
            tokenizer: "wordpunct".into(),
        };
        Ok(Subject::new(facts, Box::new(model), tokens, None))
    }

    /// Documents as they are cut out of the files.
    pub fn spec(&self) -> TextSpec {
        TextSpec::files([&self.corpus]).documents(DocumentRule::BlankLine)
    }
}

/// Audits a model of the corpus, beside held-out text and a model of other text.
pub fn audit(texts: &Texts, spec: AuditSpec, directory: Option<&Path>) -> Result<Audited> {
    let subject = texts.subject("three words", &texts.corpus, 3)?;
    let reference = texts.subject("other stories", &texts.other, 3)?;
    let job = AuditJob::default()
        .text(texts.spec())
        .spec(spec)
        .held_out(vec![texts.held_out.clone()])
        .canaries(texts.canaries.clone());
    audit::run(&subject, Some(&reference), &job, directory, &Silent)
}
