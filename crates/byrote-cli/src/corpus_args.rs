//! The corpus options, shared by every command that reads text.

use crate::args::Common;
use crate::interrupt;
use crate::progress::Terminal;
use byrote::corpus::random::Associations;
use byrote::corpus::{
    ContextRule, Corpus, DocumentRule, Format, IdType, Options, Outputs, Source, TokenizerChoice, Window,
};
use byrote::output::OutputFile;
use byrote::{Error, Result};
use clap::{Args, ValueEnum};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Documents of the built-in corpus where no number is given.
pub const BUILTIN_DOCUMENTS: u64 = 1000;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Corpus")]
pub struct CorpusArgs {
    /// Text (.txt or any other name), .jsonl, .parquet, .gz or .zst of the first two, token ids as .npy or .bin, or -
    /// for standard input; the built-in stories where there is none
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Instead of PATH: so many documents of the built-in stories
    #[arg(long, value_name = "N", conflicts_with_all = ["paths", "random", "merge"])]
    pub builtin: Option<u64>,
    /// Instead of PATH: so many distinct random sequences, each followed by a random label; implies --contexts full
    #[arg(long, value_name = "N", conflicts_with_all = ["paths", "merge"])]
    pub random: Option<usize>,
    /// Instead of PATH: summaries written by --save
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "paths")]
    pub merge: Vec<PathBuf>,
    /// line, blank-line, file or separator:STR for text; chunk:L for 1-D ids [default: line; a record elsewhere]
    #[arg(long, value_name = "RULE", value_parser = parse::<DocumentRule>)]
    pub documents: Option<DocumentRule>,
    /// Read every file as this, whatever its name
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<FormatArg>,
    /// The field or column that holds the text or the ids [default: text]
    #[arg(long, value_name = "NAME")]
    pub field: Option<String>,
    /// byte, char, whitespace, wordpunct, or a Hugging Face tokenizer.json [default: wordpunct]
    #[arg(long, value_name = "NAME")]
    pub tokenizer: Option<TokenizerChoice>,
    /// The type of the ids in a .bin [default: u16]
    #[arg(long, value_name = "TYPE")]
    pub dtype: Option<DtypeArg>,
    /// The id between documents in 1-D ids
    #[arg(long, allow_negative_numbers = true, value_name = "ID")]
    pub separator_id: Option<u32>,
    /// The longest context T; T + 1 tokens of a document are kept [default: 9]
    #[arg(long, allow_negative_numbers = true, value_name = "T")]
    pub n_ctx: Option<u32>,
    /// Keep only documents of at least T + 1 tokens
    #[arg(long)]
    pub exact_length: bool,
    /// Keep the first N documents
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub limit: Option<u64>,
    /// Put a start token before every document
    #[arg(long)]
    pub bos: bool,
    /// Put an end token after every document that ends within the window
    #[arg(long)]
    pub eos: bool,
    /// Replace invalid UTF-8 instead of refusing it
    #[arg(long)]
    pub lossy: bool,
    /// Every prefix predicts its next token, or only the whole document but its last token predicts that one
    #[arg(long, value_name = "WHICH")]
    pub contexts: Option<ContextsArg>,
    /// Vocabulary of --random [default: 50]; in `bounds` also that of the model
    #[arg(long, allow_negative_numbers = true, value_name = "W")]
    pub d_vocab: Option<u64>,
    /// Lengths of the sequences of --random, the label not counted, both ends included [default: 1..8]
    #[arg(long, value_name = "A..B", value_parser = parse_lengths)]
    pub lengths: Option<RangeInclusive<usize>>,
    /// Labels of --random: the tokens 0..C-1 [default: 10, at most the vocabulary]
    #[arg(long, allow_negative_numbers = true, value_name = "C")]
    pub labels: Option<u32>,
    /// Go out of core above this, e.g. 256M or 4G [default: half of what is free]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_memory: Option<u64>,
    /// Where temporary files go [default: the system's place]
    #[arg(long, value_name = "DIR")]
    pub temp_dir: Option<PathBuf>,
    /// Write a shard summary, for --merge
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Write every context with its count and next tokens as CSV
    #[arg(long, value_name = "FILE")]
    pub list: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum FormatArg {
    Text,
    Jsonl,
    Parquet,
    Npy,
    Bin,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum DtypeArg {
    U16,
    U32,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ContextsArg {
    Prefixes,
    Full,
}

impl ContextsArg {
    pub fn name(self) -> &'static str {
        match self {
            ContextsArg::Prefixes => "prefixes",
            ContextsArg::Full => "full",
        }
    }
}

fn parse<T: std::str::FromStr<Err = Error>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|e: Error| e.to_string())
}

fn parse_lengths(text: &str) -> Result<RangeInclusive<usize>, String> {
    let wrong = || format!("{text:?} is not A..B, e.g. 1..8");
    let (a, b) = text.split_once("..").ok_or_else(wrong)?;
    let b = b.strip_prefix('=').unwrap_or(b);
    Ok(a.trim().parse().map_err(|_| wrong())?..=b.trim().parse().map_err(|_| wrong())?)
}

/// Sizes as people write them: 512K, 256M, 4G, 1.5GiB; a unit is a power of 1024.
fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no size; write e.g. 256M or 4G");
    let lower = text.trim().to_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &lower[digits.len()..] {
        "" | "b" => 1u64,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.trim().parse().map_err(|_| wrong())?;
    let size = number * unit as f64;
    if !(size >= (1u64 << 20) as f64 && size <= (1u64 << 60) as f64) {
        return Err(format!("{text:?} is not between 1M and 1E"));
    }
    Ok(size as u64)
}

/// The memory that is free, or what this group of processes may use, in bytes, where the system tells.
pub fn free_memory() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find(|l| l.starts_with("MemAvailable:"))?;
    let free = line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)?;
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|l| l.trim().parse::<u64>().ok()).unwrap_or(u64::MAX);
    Some(free.min(limit))
}

fn default_max_memory() -> Option<u64> {
    free_memory().map(|free| (free / 2).max(64 << 20))
}

impl CorpusArgs {
    /// Whether the user named a corpus at all.
    pub fn is_given(&self) -> bool {
        !self.paths.is_empty() || self.builtin.is_some() || self.random.is_some() || !self.merge.is_empty()
    }

    /// Where documents come from.
    pub fn source(&self, common: &Common) -> Result<Source> {
        if !self.merge.is_empty() {
            return Ok(Source::Summaries(self.merge.clone()));
        }
        if let Some(n) = self.random {
            let d_vocab = self.d_vocab.unwrap_or(50);
            let d_vocab = u32::try_from(d_vocab)
                .map_err(|_| Error::setting("d_vocab", format!("{d_vocab} is beyond {}", u32::MAX)))?;
            let lengths = self.lengths.clone().unwrap_or(1..=8);
            let labels = self.labels.unwrap_or(d_vocab.min(10));
            return Ok(Source::Random(Associations::new(n, d_vocab, lengths, labels, common.seed)?));
        }
        if self.paths.is_empty() {
            let documents = self.builtin.unwrap_or(BUILTIN_DOCUMENTS);
            return Ok(Source::Stories { documents, seed: common.seed });
        }
        Ok(Source::Files(self.paths.clone()))
    }

    /// How it is read.
    pub fn options(&self) -> Options {
        let longest = self.random.map(|_| self.lengths.as_ref().map_or(8, |l| *l.end() as u32));
        let contexts = match self.contexts {
            Some(ContextsArg::Prefixes) => ContextRule::Prefixes,
            Some(ContextsArg::Full) => ContextRule::Full,
            None if self.random.is_some() => ContextRule::Full,
            None => ContextRule::Prefixes,
        };
        Options {
            window: Window {
                n_ctx: self.n_ctx.or(longest).unwrap_or(Window::default().n_ctx),
                exact_length: self.exact_length,
                bos: self.bos,
                eos: self.eos,
                contexts,
            },
            tokenizer: self.tokenizer.clone().unwrap_or_default(),
            documents: self.documents.clone(),
            format: self.format.map(|f| match f {
                FormatArg::Text => Format::Text,
                FormatArg::Jsonl => Format::Jsonl,
                FormatArg::Parquet => Format::Parquet,
                FormatArg::Npy => Format::Npy,
                FormatArg::Bin => Format::Bin,
            }),
            field: self.field.clone().unwrap_or_else(|| "text".into()),
            dtype: self.dtype.map(|dtype| match dtype {
                DtypeArg::U16 => IdType::U16,
                DtypeArg::U32 => IdType::U32,
            }),
            separator_id: self.separator_id,
            limit: self.limit,
            lossy: self.lossy,
            max_memory: self.max_memory.or_else(default_max_memory),
            temp_dir: self.temp_dir.clone().unwrap_or_else(std::env::temp_dir),
        }
    }

    /// Refuses options that have no meaning for the source: figures must be for what was asked.
    fn check(&self) -> Result<()> {
        let files = !self.paths.is_empty();
        let (merge, random) = (!self.merge.is_empty(), self.random.is_some());
        let (source, text, window) = match (merge, random, files) {
            (true, _, _) => ("--merge, whose summaries were made with theirs", false, false),
            (_, true, _) => ("--random", false, true),
            (_, _, true) => ("files", true, true),
            _ => ("the built-in stories", true, true),
        };
        let given: [(&'static str, bool, bool); 17] = [
            ("--documents", self.documents.is_some(), files),
            ("--format", self.format.is_some(), files),
            ("--field", self.field.is_some(), files),
            ("--dtype", self.dtype.is_some(), files),
            ("--separator-id", self.separator_id.is_some(), files),
            ("--lossy", self.lossy, files),
            ("--tokenizer", self.tokenizer.is_some(), text),
            ("--n-ctx", self.n_ctx.is_some(), window),
            ("--exact-length", self.exact_length, window),
            ("--limit", self.limit.is_some(), window),
            ("--bos", self.bos, window),
            ("--eos", self.eos, window),
            ("--contexts", self.contexts.is_some(), window),
            ("--lengths", self.lengths.is_some(), random),
            ("--labels", self.labels.is_some(), random),
            ("--merge", merge && self.builtin.is_some(), false),
            ("--builtin", self.builtin.is_some() && files, false),
        ];
        if let Some((name, ..)) = given.into_iter().find(|&(_, given, means)| given && !means) {
            return Err(Error::setting(name, format!("has no meaning for {source}")));
        }
        if self.limit == Some(0) {
            return Err(Error::setting("limit", "0 keeps no document; the least is 1"));
        }
        // No output may overwrite an input or another output.
        let real = |path: &PathBuf| std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        let inputs: Vec<PathBuf> = self.paths.iter().chain(&self.merge).map(real).collect();
        for (name, path) in [("--save", &self.save), ("--list", &self.list)] {
            if path.as_ref().is_some_and(|p| inputs.contains(&real(p))) {
                return Err(Error::setting(name, "would overwrite what is being read"));
            }
        }
        match (&self.save, &self.list) {
            (Some(a), Some(b)) if real(a) == real(b) => {
                Err(Error::setting("list", "is the same file as --save"))
            }
            _ => Ok(()),
        }
    }

    /// Reads the corpus, writing what --save and --list ask for; keeps the contexts where `contexts` says so.
    ///
    /// A corpus without documents is an error, except for a shard that is being saved: one of many may be empty.
    pub fn read(&self, common: &Common, contexts: bool) -> Result<Corpus> {
        self.check()?;
        let source = self.source(common)?;
        let options = self.options();
        options.window.check()?;
        let open = |path: &Option<PathBuf>| {
            path.as_deref()
                .map(|path| {
                    interrupt::clean_up_beside(path);
                    OutputFile::create(path)
                })
                .transpose()
        };
        let outputs = Outputs {
            contexts,
            save: open(&self.save)?,
            list: open(&self.list)?,
            may_be_empty: self.save.is_some(),
        };
        Corpus::read(&source, &options, outputs, &Terminal::new(common.quiet))
    }

    /// The corpus in a few words, for titles.
    pub fn title(&self) -> String {
        let name = |p: &PathBuf| {
            p.file_name().map_or_else(|| p.to_string_lossy(), |n| n.to_string_lossy()).into_owned()
        };
        match (&self.merge[..], self.random, &self.paths[..]) {
            ([_, ..], _, _) => format!("{} summaries", self.merge.len()),
            (_, Some(n), _) => format!("{n} random associations"),
            (_, _, []) => format!("built-in stories ({})", self.builtin.unwrap_or(BUILTIN_DOCUMENTS)),
            (_, _, [path]) => name(path),
            (_, _, [path, rest @ ..]) => format!("{} and {} more", name(path), rest.len()),
        }
    }

    /// The corpus and how it is read, as options.
    pub fn in_words(&self) -> String {
        let file = |p: &PathBuf| p.file_name().unwrap_or(p.as_os_str()).to_string_lossy().into_owned();
        let files = |files: &[PathBuf]| files.iter().map(file).collect::<Vec<_>>().join(" ");
        let mut words = match (&self.merge[..], self.random, &self.paths[..]) {
            (merge @ [_, ..], _, _) => format!("--merge {}", files(merge)),
            (_, Some(n), _) => format!("--random {n}"),
            (_, _, []) => format!("--builtin {}", self.builtin.unwrap_or(BUILTIN_DOCUMENTS)),
            (_, _, paths) => files(paths),
        };
        let mut add = |option: &str, value: Option<String>| {
            if let Some(value) = value {
                words += &format!(" {option} {value}");
            }
        };
        add("--documents", self.documents.as_ref().map(ToString::to_string));
        add("--format", self.format.map(|f| format!("{f:?}").to_lowercase()));
        add("--field", self.field.clone());
        add("--dtype", self.dtype.map(|d| format!("{d:?}").to_lowercase()));
        add("--separator-id", self.separator_id.map(|x| x.to_string()));
        add("--limit", self.limit.map(|x| x.to_string()));
        add("--contexts", self.contexts.map(|c| c.name().to_owned()));
        add("--d-vocab", self.d_vocab.map(|x| x.to_string()));
        add("--lengths", self.lengths.as_ref().map(|l| format!("{}..{}", l.start(), l.end())));
        add("--labels", self.labels.map(|x| x.to_string()));
        for (option, given) in [
            ("--exact-length", self.exact_length),
            ("--bos", self.bos),
            ("--eos", self.eos),
            ("--lossy", self.lossy),
        ] {
            words += &if given { format!(" {option}") } else { String::new() };
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_size("256M"), Ok(256 << 20));
        assert_eq!(parse_size("1.5 GiB"), Ok(3 << 29));
        assert_eq!(parse_size("2097152"), Ok(2 << 20));
        for wrong in ["", "M", "12x", "-1G", "1K", "NaN", "inf"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lengths_are_a_range() {
        assert_eq!(parse_lengths("1..8"), Ok(1..=8));
        assert_eq!(parse_lengths("3..=3"), Ok(3..=3));
        assert!(parse_lengths("8").is_err() && parse_lengths("a..b").is_err());
    }
}
