//! Which corpus, and how it is read: the settings shared by everything that reads text.

use super::builtin::MAX_STORIES;
use super::random::Associations;
use super::read::files::expand;
use super::{
    ContextRule, Corpus, DocumentRule, Format, IdType, Options, Outputs, PartOf, Source, Split, Summary,
    TokenizerChoice, Window,
};
use crate::observe::Observer;
use crate::setting::{Span, deserialize_size, one_or_many, setters};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A corpus and how it is read.
///
/// At most one of `paths`, `builtin`, `random` and `merge` is given; without any, the corpus is
/// [`BUILTIN_DOCUMENTS`](CorpusSpec::BUILTIN_DOCUMENTS) built-in stories. A setting that does not apply to that source
/// is an error, so that no setting is silently ignored.
///
/// ```
/// use byrote::corpus::{Corpus, CorpusSpec, Outputs};
/// use byrote::observe::Silent;
/// let spec = CorpusSpec::default().builtin(100).n_ctx(5);
/// let corpus = Corpus::from_spec(&spec, Outputs::default(), &Silent)?;
/// assert_eq!(corpus.summary.documents, 100);
/// assert!(CorpusSpec::default().builtin(100).labels(3).resolve().is_err());
/// # Ok::<(), byrote::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Corpus"))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CorpusSpec {
    /// Files to read: text (.txt or any other name), .jsonl, .gz or .zst of these two, .parquet, .arrow, token ids as .npy or
    /// .bin (with the .idx of Megatron beside it, if there is one), a directory of such files, a quoted pattern such as
    /// 'data/**/*.jsonl.zst', or - for standard input [default: the built-in stories]
    #[cfg_attr(feature = "clap", arg(value_name = "PATH"))]
    #[serde(deserialize_with = "one_or_many")]
    pub paths: Vec<PathBuf>,
    /// Use N built-in stories instead of files
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", conflicts_with_all = ["paths", "random", "merge"]))]
    pub builtin: Option<u64>,
    /// Use N distinct random sequences, each followed by a random label, instead of files; only full sequences are then
    /// contexts
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", conflicts_with_all = ["paths", "merge"]))]
    pub random: Option<u64>,
    /// Merge summaries of shards instead of reading files
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "paths"))]
    #[serde(deserialize_with = "one_or_many")]
    pub merge: Vec<PathBuf>,
    /// How the input is split into documents: line, blank-line, file or separator:STR for text; chunk:L for
    /// blocks of L tokens of text or of 1-D ids [default: line; one record per document in other formats; 1-D ids are one
    /// document if the contexts are those of windows]
    #[cfg_attr(feature = "clap", arg(long, value_name = "RULE", value_parser = crate::setting::parse::<DocumentRule>))]
    pub documents: Option<DocumentRule>,
    /// Read every file in this format, whatever its name
    #[cfg_attr(feature = "clap", arg(long, value_name = "FORMAT"))]
    pub format: Option<Format>,
    /// The field or column that holds the text or the ids; a dot leads into an object, as in meta.text [default: text]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub field: Option<String>,
    /// byte, char, whitespace, wordpunct, or a Hugging Face tokenizer.json [default: wordpunct]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "NAME", value_parser = crate::setting::parse::<TokenizerChoice>)
    )]
    pub tokenizer: Option<TokenizerChoice>,
    /// The type of the ids in a .bin file [default: u16]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TYPE"))]
    pub dtype: Option<IdType>,
    /// The id that separates documents in 1-D ids
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "ID"))]
    pub separator_id: Option<u32>,
    /// The longest context T; the first T + 1 tokens of each document, or window, are kept [default: 9]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "T"))]
    pub n_ctx: Option<u32>,
    /// Keep only documents, or windows, of at least T + 1 tokens
    #[cfg_attr(feature = "clap", arg(long))]
    pub exact_length: bool,
    /// Read only this part of every file, from one fraction of its characters (bytes for byte, ids of an id file) to another;
    /// nanoGPT trains on 0..0.9 [default: all of it]
    #[cfg_attr(feature = "clap", arg(long, value_name = "A..B", value_parser = crate::setting::parse::<Split>))]
    pub split: Option<Split>,
    /// Join all documents into one, with the end token between them if there is one (windows)
    #[cfg_attr(feature = "clap", arg(long))]
    pub join: bool,
    /// Start a window at every R-th token of a document (windows) [default: 1]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "R"))]
    pub stride: Option<u64>,
    /// Use N windows, drawn at random, where contexts are taken one by one: to train, build, evaluate or certify a model, or to
    /// list them [default: those of about a million tokens]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "N"))]
    pub windows: Option<u64>,
    /// Count only part I of P, by first tokens, and --save the result for --merge: for the jobs of a cluster, each of which reads
    /// the whole text (windows) or all the summaries (with --merge)
    #[cfg_attr(feature = "clap", arg(long, value_name = "I/P", value_parser = crate::setting::parse::<PartOf>))]
    pub range: Option<PartOf>,
    /// Read only every N-th document of the input, starting with the I-th: one of N shards for the jobs of a cluster, whose
    /// summaries (--save) can be merged (--merge); windows are divided by --range instead
    #[cfg_attr(feature = "clap", arg(long, value_name = "I/N", value_parser = crate::setting::parse::<PartOf>))]
    pub shard: Option<PartOf>,
    /// Keep only the first N documents
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "N"))]
    pub limit: Option<u64>,
    /// Put a start token before every document
    #[cfg_attr(feature = "clap", arg(long))]
    pub bos: bool,
    /// Put an end token after every document that ends within the window
    #[cfg_attr(feature = "clap", arg(long))]
    pub eos: bool,
    /// Replace invalid UTF-8 instead of refusing it
    #[cfg_attr(feature = "clap", arg(long))]
    pub lossy: bool,
    /// Which contexts count: prefixes (every prefix of a document predicts its next token), full (one
    /// context per document: all its tokens but the last, which it predicts) or windows (every prefix of T + 1 tokens that start
    /// anywhere in a document, as language models are trained) [default: prefixes; full for random sequences]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHICH", hide_possible_values = true))]
    pub contexts: Option<ContextRule>,
    /// The vocabulary size of random sequences [default: 50]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "W"))]
    pub d_vocab: Option<u64>,
    /// The lengths of random sequences, without the label, both ends included [default: 1..8]
    #[cfg_attr(feature = "clap", arg(long, value_name = "A..B", value_parser = crate::setting::parse::<Span>))]
    pub lengths: Option<Span>,
    /// The number of labels of random sequences: the tokens 0..C-1 [default: 10, at most the vocabulary]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "C"))]
    pub labels: Option<u32>,
    /// Work on disk above this much memory, e.g. 256M or 4G [default: half of the free memory]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", value_parser = crate::setting::parse_size))]
    #[serde(deserialize_with = "deserialize_size", skip_serializing)]
    pub max_memory: Option<u64>,
    /// The directory for temporary files [default: the system's temporary directory]
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIR"))]
    #[serde(skip_serializing)]
    pub temp_dir: Option<PathBuf>,
    /// The seed of the built-in stories and of random sequences.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub seed: u64,
}

setters!(CorpusSpec {
    builtin: some(u64),
    random: some(u64),
    documents: some(DocumentRule),
    format: some(Format),
    tokenizer: some(TokenizerChoice),
    dtype: some(IdType),
    separator_id: some(u32),
    n_ctx: some(u32),
    exact_length: plain(bool),
    split: some(Split),
    join: plain(bool),
    stride: some(u64),
    windows: some(u64),
    range: some(PartOf),
    shard: some(PartOf),
    limit: some(u64),
    bos: plain(bool),
    eos: plain(bool),
    lossy: plain(bool),
    contexts: some(ContextRule),
    d_vocab: some(u64),
    lengths: some(Span),
    labels: some(u32),
    max_memory: some(u64),
    seed: plain(u64),
});

/// The default vocabulary size of random sequences.
const RANDOM_TOKENS: u64 = 50;
/// The default number of labels.
const RANDOM_LABELS: u32 = 10;
/// The default lengths.
const RANDOM_LENGTHS: Span = Span { first: 1, last: 8 };

impl CorpusSpec {
    /// The number of built-in stories if no source is given.
    pub const BUILTIN_DOCUMENTS: u64 = 1000;

    /// Describes a corpus of these files.
    pub fn files<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self { paths: paths.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Sets `field`.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>) -> Self {
        self.field = Some(name.into());
        self
    }

    /// Sets `temp_dir`.
    #[must_use]
    pub fn temp_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.temp_dir = Some(directory.into());
        self
    }

    /// Whether a source is named at all.
    pub fn is_given(&self) -> bool {
        !self.paths.is_empty() || self.builtin.is_some() || self.random.is_some() || !self.merge.is_empty()
    }

    /// Whether standard input is read.
    pub fn reads_standard_input(&self) -> bool {
        self.paths.iter().any(|p| p.as_os_str() == "-")
    }

    /// Returns every file that is read: texts, with directories and patterns spelled out, summaries, a tokenizer. What cannot be
    /// found is returned as it was given; reading it says why.
    pub fn inputs(&self) -> Vec<PathBuf> {
        let found = |path: &PathBuf| {
            let one = [path.clone()];
            expand(&one, self.format).unwrap_or_else(|_| one.to_vec())
        };
        let tokenizer = match &self.tokenizer {
            Some(TokenizerChoice::File(path)) => Some(path),
            _ => None,
        };
        let paths = self.paths.iter().flat_map(found);
        paths.chain(self.merge.iter().chain(tokenizer).cloned()).collect()
    }

    /// Returns a hint if the figures suggest that the text was not read as it was meant to be.
    ///
    /// ```
    /// use byrote::corpus::{Corpus, CorpusSpec, Outputs};
    /// use byrote::observe::Silent;
    ///
    /// let dir = tempfile::tempdir()?;
    /// let path = dir.path().join("ids.bin");
    /// std::fs::write(&path, [1, 0, 2, 0, 1, 0])?; // The ids 1, 2, 1 in 16 bits each.
    /// let read = |spec: &CorpusSpec| Corpus::from_spec(spec, Outputs::default(), &Silent).map(|corpus| corpus.summary);
    /// let spec = CorpusSpec::files([&path]).separator_id(7);
    /// assert!(spec.hint(&read(&spec)?).is_some_and(|hint| hint.contains("7 does not occur")));
    /// let spec = spec.separator_id(2);
    /// assert_eq!(spec.hint(&read(&spec)?), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hint(&self, summary: &Summary) -> Option<String> {
        if let Some(hint) = summary.hint() {
            return Some(hint.into());
        }
        let id = self.separator_id?;
        let documents = summary.documents + summary.dropped.empty + summary.dropped.short;
        let is_limited = self.limit.is_some() || self.shard.is_some() || self.join;
        let is_whole = !is_limited && documents > 0 && documents <= self.inputs().len() as u64;
        is_whole.then(|| {
            format!("the id {id} does not occur, so every file is one document; check `separator_id`")
        })
    }

    /// Returns the source and how it is read, with every setting checked.
    pub fn resolve(&self) -> Result<(Source, Options)> {
        self.check_source()?;
        self.check_meaning()?;
        if self.limit == Some(0) {
            return Err(Error::setting("limit", "must be at least 1 (got 0)"));
        }
        let lengths = self.lengths.unwrap_or(RANDOM_LENGTHS);
        let source = if !self.merge.is_empty() {
            Source::Summaries(self.merge.clone())
        } else if let Some(n) = self.random {
            Source::Random(self.associations(n, lengths)?)
        } else if self.paths.is_empty() {
            let documents = self.builtin.unwrap_or(Self::BUILTIN_DOCUMENTS);
            if documents > MAX_STORIES {
                return Err(Error::setting(
                    "builtin",
                    format!("must be at most {MAX_STORIES} (got {documents})"),
                ));
            }
            Source::Stories { documents, seed: self.seed }
        } else {
            Source::Files(self.paths.clone())
        };
        let random = self.random.is_some();
        let longest = random.then_some(lengths.last as u32);
        let implied = if random { ContextRule::Full } else { ContextRule::Prefixes };
        let default = Options::default();
        let options = Options {
            window: Window {
                n_ctx: self.n_ctx.or(longest).unwrap_or(default.window.n_ctx),
                exact_length: self.exact_length,
                bos: self.bos,
                eos: self.eos,
                contexts: self.contexts.unwrap_or(implied),
            },
            tokenizer: self.tokenizer.clone().unwrap_or_default(),
            letters_of_words: false,
            documents: self.documents.clone(),
            format: self.format,
            field: self.field.clone().unwrap_or(default.field),
            dtype: self.dtype,
            separator_id: self.separator_id,
            split: self.split,
            join: self.join,
            stride: self.stride.unwrap_or(default.stride),
            windows: self.windows,
            range: self.range.unwrap_or(default.range),
            shard: self.shard.unwrap_or(default.shard),
            seed: self.seed,
            limit: self.limit,
            lossy: self.lossy,
            max_memory: self.max_memory,
            temp_dir: self.temp_dir.clone().unwrap_or(default.temp_dir),
        };
        options.window.check()?;
        Ok((source, options))
    }

    /// Returns how documents are read that are already in memory, as `texts` or as `ids`, with every setting checked. Settings of
    /// files are refused.
    pub fn resolve_in_memory(&self, what: &'static str) -> Result<Options> {
        let ids = what == "ids";
        let of_files = [
            ("paths", !self.paths.is_empty()),
            ("builtin", self.builtin.is_some()),
            ("random", self.random.is_some()),
            ("merge", !self.merge.is_empty()),
            ("documents", self.documents.is_some()),
            ("format", self.format.is_some()),
            ("field", self.field.is_some()),
            ("dtype", self.dtype.is_some()),
            ("separator_id", self.separator_id.is_some()),
            ("split", self.split.is_some()),
            ("lossy", self.lossy),
            ("tokenizer", ids && self.tokenizer.is_some()),
        ];
        if let Some((name, _)) = of_files.into_iter().find(|&(_, given)| given) {
            return Err(Error::setting(name, format!("does not apply to {what} in memory")));
        }
        Self { paths: vec![what.into()], ..self.clone() }.resolve().map(|(_, options)| options)
    }

    fn associations(&self, n: u64, lengths: Span) -> Result<Associations> {
        let too_many = |name, value: u64, most: u64| {
            Error::setting(name, format!("must be at most {most} (got {value})"))
        };
        let d_vocab = self.d_vocab.unwrap_or(RANDOM_TOKENS);
        let d_vocab = u32::try_from(d_vocab).map_err(|_| too_many("d_vocab", d_vocab, u32::MAX.into()))?;
        let n = usize::try_from(n).map_err(|_| too_many("random", n, usize::MAX as u64))?;
        let labels = self.labels.unwrap_or(d_vocab.min(RANDOM_LABELS));
        Associations::new(n, d_vocab, lengths.range(), labels, self.seed)
    }

    /// Checks that at most one source is given.
    fn check_source(&self) -> Result<()> {
        let given: Vec<&str> = [
            ("paths", !self.paths.is_empty()),
            ("builtin", self.builtin.is_some()),
            ("random", self.random.is_some()),
            ("merge", !self.merge.is_empty()),
        ]
        .into_iter()
        .filter_map(|(name, given)| given.then_some(name))
        .collect();
        match given[..] {
            [first, second, ..] => Err(Error::setting(
                match second {
                    "builtin" => "builtin",
                    "random" => "random",
                    _ => "merge",
                },
                format!("cannot be combined with `{first}`"),
            )),
            _ => Ok(()),
        }
    }

    /// Refuses settings that do not apply to the source.
    fn check_meaning(&self) -> Result<()> {
        let (files, random) = (!self.paths.is_empty(), self.random.is_some());
        let merge = !self.merge.is_empty();
        let (source, text, window) = match (merge, random, files) {
            (true, _, _) => ("`merge`: summaries keep the settings they were made with", false, false),
            (_, true, _) => ("`random`", false, true),
            (_, _, true) => ("files", true, true),
            _ => ("the built-in stories", true, true),
        };
        let windows = window && self.contexts == Some(ContextRule::Windows);
        let given: [(&'static str, bool, bool); 18] = [
            ("documents", self.documents.is_some(), files),
            ("format", self.format.is_some(), files),
            ("field", self.field.is_some(), files),
            ("dtype", self.dtype.is_some(), files),
            ("separator_id", self.separator_id.is_some(), files),
            ("split", self.split.is_some(), files),
            ("lossy", self.lossy, files),
            ("tokenizer", self.tokenizer.is_some(), text),
            ("n_ctx", self.n_ctx.is_some(), window),
            ("exact_length", self.exact_length, window),
            ("limit", self.limit.is_some(), window),
            ("shard", self.shard.is_some(), window),
            ("bos", self.bos, window),
            ("eos", self.eos, window),
            ("contexts", self.contexts.is_some(), window),
            ("d_vocab", self.d_vocab.is_some(), random),
            ("lengths", self.lengths.is_some(), random),
            ("labels", self.labels.is_some(), random),
        ];
        let of_windows = [
            ("join", self.join),
            ("stride", self.stride.is_some()),
            ("windows", self.windows.is_some()),
            ("range", self.range.is_some()),
        ];
        let applies = |name| windows || (merge && name == "range");
        if let Some((name, _)) = of_windows.into_iter().find(|&(name, given)| given && !applies(name)) {
            return Err(Error::setting(name, "applies only to windows (`contexts = windows`)"));
        }
        if self.join && self.shard.is_some() {
            let message = "cannot be combined with `join`: a shard has only some of the documents to join; \
                           divide the windows with `range`";
            return Err(Error::setting("shard", message));
        }
        if self.contexts == Some(ContextRule::Windows) && random {
            return Err(Error::setting("contexts", "random sequences have no windows"));
        }
        for (name, value) in [("stride", self.stride), ("windows", self.windows)] {
            if value == Some(0) {
                return Err(Error::setting(name, "must be at least 1 (got 0)"));
            }
        }
        match given.into_iter().find(|&(_, given, applies)| given && !applies) {
            Some((name, ..)) => Err(Error::setting(name, format!("does not apply to {source}"))),
            None => Ok(()),
        }
    }

    /// Describes the corpus in a few words, for titles.
    ///
    /// ```
    /// use byrote::corpus::CorpusSpec;
    /// assert_eq!(CorpusSpec::files(["texts/a.txt", "b.txt"]).title(), "a.txt and 1 more");
    /// ```
    pub fn title(&self) -> String {
        let name = |p: &Path| p.file_name().unwrap_or(p.as_os_str()).to_string_lossy().into_owned();
        match (&self.merge[..], self.random, &self.paths[..]) {
            ([_, ..], _, _) => format!("{} summaries", self.merge.len()),
            (_, Some(n), _) => format!("{n} random associations"),
            (_, _, []) => format!("built-in stories ({})", self.builtin.unwrap_or(Self::BUILTIN_DOCUMENTS)),
            (_, _, [path]) => name(path),
            (_, _, [path, rest @ ..]) => format!("{} and {} more", name(path), rest.len()),
        }
    }

    /// Names the corpus for a table that has separate columns for the number of documents, the tokenizer and the
    /// window: `stories`, `random 1..8`, or the files, followed by every other setting that was given.
    pub fn label(&self) -> String {
        let name = |p: &PathBuf| p.file_name().unwrap_or(p.as_os_str()).to_string_lossy().into_owned();
        let names = |paths: &[PathBuf]| paths.iter().map(name).collect::<Vec<_>>().join(" ");
        let mut label = match (&self.merge[..], self.random, &self.paths[..]) {
            (merge @ [_, ..], _, _) => names(merge),
            (_, Some(_), _) => format!("random {}", self.lengths.unwrap_or(RANDOM_LENGTHS)),
            (_, _, []) => "stories".into(),
            (_, _, paths) => names(paths),
        };
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                label += &format!(", {name} = {value}");
            }
        };
        let flag = |given: bool| given.then(|| "true".to_owned());
        add("documents", self.documents.as_ref().map(ToString::to_string));
        add("format", self.format.map(|f| f.to_string()));
        add("field", self.field.clone());
        add("dtype", self.dtype.map(|d| d.to_string()));
        add("separator_id", self.separator_id.map(|x| x.to_string()));
        add("exact_length", flag(self.exact_length && !self.paths.is_empty()));
        add("bos", flag(self.bos));
        add("eos", flag(self.eos));
        add("lossy", flag(self.lossy));
        add("split", self.split.map(|s| s.to_string()));
        add("join", flag(self.join));
        add("stride", self.stride.map(|s| s.to_string()));
        add("range", self.range.map(|r| r.to_string()));
        add("shard", self.shard.map(|s| s.to_string()));
        add("windows", self.windows.map(|n| n.to_string()));
        add("contexts", self.contexts.map(|c| c.to_string()));
        label
    }

    /// Returns the same corpus with at most N documents, or with N windows drawn from it.
    #[must_use]
    pub fn first_documents(&self, documents: u64) -> Self {
        let mut part = self.clone();
        if self.contexts == Some(ContextRule::Windows) {
            part.windows = Some(self.windows.map_or(documents, |windows| documents.min(windows)));
            return part;
        }
        match (self.random, self.paths.is_empty()) {
            (Some(n), _) => part.random = Some(documents.min(n)),
            (None, true) => {
                part.builtin = Some(documents.min(self.builtin.unwrap_or(Self::BUILTIN_DOCUMENTS)))
            }
            (None, false) => part.limit = Some(self.limit.map_or(documents, |limit| documents.min(limit))),
        }
        part
    }
}

impl Corpus {
    /// Reads the corpus of a spec.
    pub fn from_spec(spec: &CorpusSpec, outputs: Outputs, observer: &dyn Observer) -> Result<Self> {
        let (source, options) = spec.resolve()?;
        Self::read(&source, &options, outputs, observer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_does_not_apply_to_the_source_is_refused_by_name() {
        let files = CorpusSpec::files(["a.txt"]);
        for (spec, name) in [
            (files.clone().labels(3), "labels"),
            (files.clone().d_vocab(3), "d_vocab"),
            (files.clone().builtin(3), "builtin"),
            (files.clone().limit(0), "limit"),
            (files.n_ctx(0), "n_ctx"),
            (CorpusSpec::default().builtin(5).documents(DocumentRule::File), "documents"),
            (CorpusSpec::default().random(5).tokenizer(TokenizerChoice::Char), "tokenizer"),
            (CorpusSpec::default().builtin(1_000_000_000_000), "builtin"),
            (CorpusSpec::default().random(1_000_000_000_000), "random"),
            (CorpusSpec::default().random(5).d_vocab(1 << 40), "d_vocab"),
            (CorpusSpec { merge: vec!["a".into()], ..CorpusSpec::default() }.bos(true), "bos"),
        ] {
            assert_eq!(spec.resolve().unwrap_err().setting_name(), Some(name), "{spec:?}");
        }
    }

    #[test]
    fn random_sequences_bring_their_window_and_their_contexts() {
        let (_, options) =
            CorpusSpec::default().random(5).lengths(Span { first: 1, last: 4 }).resolve().unwrap();
        assert_eq!((options.window.n_ctx, options.window.contexts), (4, ContextRule::Full));
        let (_, options) = CorpusSpec::default().resolve().unwrap();
        assert_eq!((options.window.n_ctx, options.window.contexts), (9, ContextRule::Prefixes));
        assert_eq!(options.temp_dir, std::env::temp_dir());
    }

    #[test]
    fn what_is_written_is_read_back() {
        let spec = CorpusSpec::files(["a.txt", "b.txt"])
            .documents(DocumentRule::Separator(b"\n--\n".to_vec()))
            .tokenizer(TokenizerChoice::Char)
            .lengths(Span { first: 2, last: 3 })
            .format(Format::Text)
            .seed(7);
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<CorpusSpec>(&json).unwrap(), spec);
        let one: CorpusSpec = serde_json::from_str(r#"{"paths": "a.txt", "max_memory": "256M"}"#).unwrap();
        assert_eq!((one.paths.len(), one.max_memory), (1, Some(256 << 20)));
        assert!(serde_json::from_str::<CorpusSpec>(r#"{"n_ctxx": 3}"#).is_err());
    }

    #[test]
    fn labels_name_what_has_no_column() {
        assert_eq!(CorpusSpec::files(["x/words.txt"]).eos(true).label(), "words.txt, eos = true");
        assert_eq!(CorpusSpec::default().random(50).label(), "random 1..8");
        assert_eq!(CorpusSpec::default().exact_length(true).label(), "stories");
    }
}
