//! What to audit and how: windows, contexts, sampling, controls.

use super::preset::{AuditPreset, Placement};
use crate::corpus::{CorpusSpec, DocumentRule, Format, IdType, PartOf, Split, TokenizerChoice};
use crate::inference::Sampling;
use crate::setting::{as_text, choices, deserialize_size, one_or_many, setters};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A text and how it is cut into documents. It is read whole and tokenized by the model's own tokenizer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Text"))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TextSpec {
    /// The text: files as in `byrote corpus`, a directory, a quoted pattern, or - for standard input [default: the built-in stories]
    #[cfg_attr(feature = "clap", arg(value_name = "PATH"))]
    #[serde(deserialize_with = "one_or_many")]
    pub paths: Vec<PathBuf>,
    /// Use N built-in stories instead of files
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", conflicts_with = "paths"))]
    pub builtin: Option<u64>,
    /// How the input is split into documents: line, blank-line, file or separator:STR for text; chunk:L for blocks of L tokens
    /// [default: line; one record per document in other formats]
    #[cfg_attr(feature = "clap", arg(long, value_name = "RULE", value_parser = crate::setting::parse::<DocumentRule>))]
    pub documents: Option<DocumentRule>,
    /// Read every file in this format, whatever its name
    #[cfg_attr(feature = "clap", arg(long, value_name = "FORMAT"))]
    pub format: Option<Format>,
    /// The field or column that holds the text or the ids; a dot leads into an object, as in meta.text [default: text]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub field: Option<String>,
    /// The tokenizer, where the model has none of its own: byte, char, whitespace, wordpunct or a tokenizer.json
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
    /// Read only this part of every file, from one fraction of its characters (ids of an id file) to another [default: all of it]
    #[cfg_attr(feature = "clap", arg(long, value_name = "A..B", value_parser = crate::setting::parse::<Split>))]
    pub split: Option<Split>,
    /// Read only every N-th document, starting with the I-th
    #[cfg_attr(feature = "clap", arg(long, value_name = "I/N", value_parser = crate::setting::parse::<PartOf>))]
    pub shard: Option<PartOf>,
    /// Keep only the first N documents
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "N"))]
    pub limit: Option<u64>,
    /// Replace invalid UTF-8 instead of refusing it
    #[cfg_attr(feature = "clap", arg(long))]
    pub lossy: bool,
}

impl TextSpec {
    /// Describes these files.
    pub fn files<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self { paths: paths.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// The same reading of other files.
    pub fn of(&self, paths: &[PathBuf]) -> Self {
        Self { paths: paths.to_vec(), builtin: None, split: None, shard: None, limit: None, ..self.clone() }
    }

    /// The corpus with these settings.
    pub fn corpus(&self) -> CorpusSpec {
        let Self {
            paths,
            builtin,
            documents,
            format,
            field,
            tokenizer,
            dtype,
            separator_id,
            split,
            shard,
            limit,
            lossy,
        } = self.clone();
        CorpusSpec {
            paths,
            builtin,
            documents,
            format,
            field,
            tokenizer,
            dtype,
            separator_id,
            split,
            shard,
            limit,
            lossy,
            ..CorpusSpec::default()
        }
    }
}

setters!(TextSpec {
    builtin: some(u64),
    documents: some(DocumentRule),
    limit: some(u64),
    lossy: plain(bool)
});

/// What a scored position is predicted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditContext {
    /// The window's own tokens alone: its prefix, and its suffix so far.
    Window,
    /// Everything before the position in its document, as far as the model reads.
    Document,
    /// Both, reported apart.
    Both,
}

choices!(AuditContext, "context" { Window = "window", Document = "document", Both = "both" });

impl AuditContext {
    /// Whether windows are run alone.
    pub fn window(self) -> bool {
        self != Self::Document
    }

    /// Whether windows are cut out of a pass over their document.
    pub fn document(self) -> bool {
        self != Self::Window
    }
}

/// Which contexts the gap to the floor is measured on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GapContexts {
    /// The prefixes of documents.
    #[default]
    Prefixes,
    /// Any tokens in a row, seen alone.
    Windows,
}

choices!(GapContexts, "contexts" { Prefixes = "prefixes", Windows = "windows" });

/// The distance between the starts of windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowStride {
    /// In tokens of the document.
    Tokens(u64),
    /// In characters: the text is tokenized again from every start.
    Characters(u64),
}

impl fmt::Display for WindowStride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tokens(n) => write!(f, "{n}"),
            Self::Characters(n) => write!(f, "chars:{n}"),
        }
    }
}

impl FromStr for WindowStride {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let (number, make): (&str, fn(u64) -> Self) = match text.strip_prefix("chars:") {
            Some(rest) => (rest, Self::Characters),
            None => (text, Self::Tokens),
        };
        match number.parse() {
            Ok(n) if n > 0 => Ok(make(n)),
            _ => {
                let message =
                    format!("{text:?} is not a positive number of tokens, nor chars:C for characters");
                Err(Error::setting("stride", message))
            }
        }
    }
}

as_text!(WindowStride);

/// The token before every document and every window that is run alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StartToken {
    /// What the model's own tokenizer puts there.
    #[default]
    Auto,
    /// None: the first token of a document is not scored.
    None,
    /// This id.
    Id(u32),
}

impl fmt::Display for StartToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::None => f.write_str("none"),
            Self::Id(id) => write!(f, "{id}"),
        }
    }
}

impl FromStr for StartToken {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            _ => text.parse().map(Self::Id).map_err(|_| {
                Error::setting("bos", format!("{text:?} is not one of auto, none or a token id"))
            }),
        }
    }
}

as_text!(StartToken);

/// The settings of an audit; anything not given takes the default of the preset.
///
/// ```
/// use byrote::audit::{AuditPreset, AuditSpec};
/// let settings = AuditSpec::default().preset(AuditPreset::Carlini).prefix(100).resolve(1024, None)?;
/// assert_eq!((settings.prefix, settings.suffix, settings.windows), (100, 50, None));
/// assert!(AuditSpec::default().prefix(2000).resolve(1024, None).is_err(), "longer than the model reads");
/// # Ok::<(), byrote::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Audit"))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AuditSpec {
    /// The conventions of a paper: carlini, pythia, goldfish or cooper [default: 50/50, both contexts]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub preset: Option<AuditPreset>,
    /// Tokens of a window that the model is given [default: 50]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "K"))]
    pub prefix: Option<usize>,
    /// Tokens of a window that it must continue with [default: 50]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "M"))]
    pub suffix: Option<usize>,
    /// Start windows that are run alone at every S-th token of a document, or chars:C for every C-th character [default: the
    /// suffix]
    #[cfg_attr(
        feature = "clap",
        arg(long, allow_negative_numbers = true, value_name = "S", value_parser = crate::setting::parse::<WindowStride>)
    )]
    pub stride: Option<WindowStride>,
    /// What a position is predicted from: its window alone, its document so far, or both, reported apart [default: both]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHICH"))]
    pub context: Option<AuditContext>,
    /// Draw N of the windows that are run alone; 0 takes all [default: 1000; all with a preset]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "N"))]
    pub windows: Option<u64>,
    /// Tokens that sampling draws from: the K most likely ones [default: 40]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "K"))]
    pub top_k: Option<u32>,
    /// The temperature of sampling [default: 1]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "T"))]
    pub temperature: Option<f64>,
    /// The token before every document and window: auto (what the model's tokenizer puts there), none, or an id [default: auto]
    #[cfg_attr(feature = "clap", arg(long, value_name = "ID", value_parser = crate::setting::parse::<StartToken>))]
    pub bos: Option<StartToken>,
    /// The longest context that the model is given [default: what it reads, at most 1024]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "C"))]
    pub n_ctx: Option<usize>,
    /// Decode greedily after the first mistake, for free-running accuracy and ROUGE-L [default: with pythia and goldfish]
    #[cfg_attr(feature = "clap", arg(long))]
    pub decode: bool,
    /// A position is copyable if the last G tokens, itself included, occur before in its document; fresh figures leave such
    /// positions out; 0 turns them off [default: 4]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "G"))]
    pub fresh: Option<usize>,
    /// A verdict is close if it changes when every margin of at most EPS changes sign [default: 0.001]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "EPS"))]
    pub margin: Option<f64>,
    /// Measure the recall curve and the gap to the floor for contexts of up to T tokens; 0 leaves them out [default: 32]
    #[cfg_attr(feature = "clap", arg(long, allow_negative_numbers = true, value_name = "T"))]
    pub lengths: Option<usize>,
    /// The contexts of the gap: prefixes of documents, or windows (any tokens in a row, seen alone) [default: prefixes]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHICH"))]
    pub contexts: Option<GapContexts>,
    /// Refuse a model that takes more memory than this, e.g. 2G [default: the free memory]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", value_parser = crate::setting::parse_size))]
    #[serde(deserialize_with = "deserialize_size", skip_serializing)]
    pub max_memory: Option<u64>,
    /// Leave the text of the corpus out of the results
    #[cfg_attr(feature = "clap", arg(long))]
    pub no_text: bool,
}

setters!(AuditSpec {
    preset: some(AuditPreset),
    prefix: some(usize),
    suffix: some(usize),
    stride: some(WindowStride),
    context: some(AuditContext),
    windows: some(u64),
    top_k: some(u32),
    temperature: some(f64),
    bos: some(StartToken),
    n_ctx: some(usize),
    decode: plain(bool),
    fresh: some(usize),
    margin: some(f64),
    lengths: some(usize),
    contexts: some(GapContexts),
    max_memory: some(u64),
    no_text: plain(bool),
});

/// The settings of an audit with every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditSettings {
    /// The preset, if one was chosen.
    pub preset: Option<AuditPreset>,
    /// Tokens of a window that the model is given; of goldfish, the most.
    pub prefix: usize,
    /// Tokens that it must continue with.
    pub suffix: usize,
    /// Where windows that are run alone start.
    pub stride: WindowStride,
    /// Which of them are taken.
    pub placement: Placement,
    /// What a position is predicted from.
    pub context: AuditContext,
    /// How many windows are drawn; all, if none is given.
    pub windows: Option<u64>,
    /// Tokens that sampling draws from.
    pub top_k: u32,
    /// The temperature of sampling.
    pub temperature: f64,
    /// The token before every document and window.
    pub start_token: Option<u32>,
    /// The longest context that the model is given.
    pub n_ctx: usize,
    /// Whether windows are decoded after their first mistake.
    pub decode: bool,
    /// The tokens of a copy; 0 turns fresh figures off.
    pub fresh: usize,
    /// Margins of at most this are close.
    pub margin: f64,
    /// The longest context of the recall curve and of the gap; 0 leaves both out.
    pub lengths: usize,
    /// The contexts of the gap.
    pub contexts: GapContexts,
    /// Whether the results hold no text.
    pub no_text: bool,
    /// The share of positions that Min-k% averages.
    pub min_k: f64,
    /// The seed of drawn windows and of intervals.
    pub seed: u64,
}

impl AuditSettings {
    /// How tokens are drawn.
    pub fn sampling(&self) -> Sampling {
        Sampling { top_k: self.top_k, temperature: self.temperature }
    }

    /// The tokens in front of every document and window.
    pub fn start(&self) -> &[u32] {
        self.start_token.as_slice()
    }
}

/// The longest context that a model is given by default. Longer ones cost more per token, and few texts need them.
const LONGEST: u64 = 1024;

impl AuditSpec {
    /// Fills in every default and checks the settings against a model that reads `n_ctx` tokens and whose tokenizer puts
    /// `start_token` in front of a text.
    pub fn resolve(&self, n_ctx: u64, start_token: Option<u32>) -> Result<AuditSettings> {
        let refuse = |name, message: String| Err(Error::setting(name, message));
        let at_least_1 = |name, value: usize| match value {
            0 => Err(Error::setting(name, "must be at least 1 (got 0)")),
            value => Ok(value),
        };
        let rules = AuditPreset::rules(self.preset);
        let start_token = match self.bos.unwrap_or(rules.bos) {
            StartToken::Auto => start_token,
            StartToken::None => None,
            StartToken::Id(id) => Some(id),
        };
        let n_ctx = match self.n_ctx {
            Some(asked) if asked as u64 > n_ctx => {
                return refuse(
                    "n_ctx",
                    format!("must be at most {n_ctx}, the longest context of the model (got {asked})"),
                );
            }
            Some(asked) => at_least_1("n_ctx", asked)?,
            None => n_ctx.min(LONGEST.max(rules.n_ctx)) as usize,
        };
        let suffix = at_least_1("suffix", self.suffix.unwrap_or(rules.suffix))?;
        let front = usize::from(start_token.is_some());
        // The last token of a window is predicted, so it need not fit into the context.
        let longest = (n_ctx + 1).saturating_sub(front + suffix);
        let prefix = match (self.prefix, rules.placement) {
            (None, Placement::End) => rules.prefix.min(longest),
            (given, _) => given.unwrap_or(rules.prefix),
        };
        at_least_1("prefix", prefix + front)?;
        if prefix > longest {
            let message = format!(
                "{prefix} and a suffix of {suffix} tokens do not fit into a context of {n_ctx}; at most {longest} fits beside that suffix"
            );
            return refuse("prefix", message);
        }
        let stride = self.stride.unwrap_or(rules.stride.unwrap_or(WindowStride::Tokens(suffix as u64)));
        let windows = match self.windows {
            Some(0) => None,
            Some(n) => Some(n),
            None => rules.windows,
        };
        let default = Sampling::default();
        let Sampling { top_k, temperature } = Sampling {
            top_k: self.top_k.unwrap_or(default.top_k),
            temperature: self.temperature.unwrap_or(default.temperature),
        }
        .checked()?;
        let margin = self.margin.unwrap_or(1e-3);
        if !(margin >= 0.0 && margin.is_finite()) {
            return refuse("margin", format!("must be finite and at least 0 (got {margin})"));
        }
        let lengths = self.lengths.unwrap_or(32.min(n_ctx));
        if lengths > n_ctx {
            return refuse(
                "lengths",
                format!("must be at most {n_ctx}, the longest context (got {lengths})"),
            );
        }
        Ok(AuditSettings {
            preset: self.preset,
            prefix,
            suffix,
            stride,
            placement: rules.placement,
            context: self.context.unwrap_or(AuditContext::Both),
            windows,
            top_k,
            temperature,
            start_token,
            n_ctx,
            decode: self.decode || rules.decode,
            fresh: self.fresh.unwrap_or(4),
            margin,
            lengths,
            contexts: self.contexts.unwrap_or_default(),
            no_text: self.no_text,
            min_k: 0.2,
            seed: 0,
        })
    }
}
