//! The figures of a part of a text's windows in a file, for the jobs of a cluster: every job reads the whole text, counts the
//! windows of some classes, and saves the result; results are added in any order.

use super::Counted;
use super::bins::BinCounts;
use super::facts::{Facts, Stored, StoredCounts};
use super::figures::{Figures, Nodes};
use super::marks::Marks;
use super::repeats::{StoredPassage, UniqueLengths, count_runs, longest_of};
use super::summarize::{curve_points, summary};
use crate::corpus::figures_file::FiguresFile;
use crate::corpus::options::PartOf;
use crate::corpus::vocabulary::Vocabulary;
use crate::corpus::{Corpus, Outputs, Summary};
use crate::observe::{Observer, Stage};
use crate::output::OutputFile;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const FILE: FiguresFile =
    FiguresFile { magic: b"byrotew\x03", name: "a range of windows", advice: "count it again" };

/// The largest number of anything that is believed: 2^32 tokens have fewer contexts of up to 2^20 tokens.
pub(crate) const LARGEST: u64 = 1 << 53;

/// The figures of a part of the windows.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RangeFile {
    /// A hash of the text.
    text: u64,
    facts: Facts,
    part: PartOf,
    figures: Figures,
    nodes: Option<Nodes>,
    unique: UniqueLengths,
    bins: Vec<BinCounts>,
    passages: Vec<StoredPassage>,
    /// Where repeats are, as runs of equal marks.
    marks: Option<Vec<u64>>,
    firsts: Vec<StoredCounts>,
}

impl RangeFile {
    pub(crate) fn new(facts: &Facts, counted: &Counted, text: u64) -> Result<Self> {
        Ok(Self {
            text,
            facts: facts.clone(),
            part: counted.part,
            figures: counted.figures.clone(),
            nodes: counted.nodes.clone(),
            unique: counted.unique.clone(),
            bins: counted.bins.clone(),
            passages: counted.passages.clone(),
            marks: counted.marks.as_ref().map(Marks::runs).transpose()?,
            firsts: Vec::new(),
        })
    }

    /// Adds the counts of first tokens, which the curve needs.
    pub(crate) fn firsts(mut self, firsts: Vec<StoredCounts>) -> Self {
        self.firsts = firsts;
        self
    }

    /// Whether the numbers are of sizes that they can have.
    fn is_possible(&self) -> bool {
        let Facts { rule, header, documents, tokens, positions, windows, .. } = &self.facts;
        rule.n_ctx == header.window.n_ctx as usize
            && header.window.check().is_ok()
            && rule.stride > 0
            && *positions <= LARGEST
            // Every document ends with a mark.
            && tokens.checked_add(*documents) == Some(*positions)
            && *windows <= *positions
            && self.figures.are_possible(rule.n_ctx)
            && self.nodes.as_ref().is_none_or(|nodes| nodes.0.longest() <= rule.n_ctx + 3)
            && self.unique.is_possible()
            && self.bins.iter().all(|bin| bin.is_possible(*positions))
            && self.facts.tokens_by_count.iter().all(|&(k, n)| k <= LARGEST && n <= LARGEST)
            && self.firsts.iter().all(|stored| stored.is_possible())
            && self.passages.iter().all(|passage| passage.is_possible(*tokens))
    }

    /// Writes the file.
    pub(crate) fn write(&self, out: OutputFile) -> Result<()> {
        FILE.write(self, out)
    }
}

/// Whether a file has a range of windows.
pub(crate) fn is_range_file(path: &Path) -> Result<bool> {
    FILE.is_kind_of(path)
}

impl Summary {
    /// Reads a file of a range that is all of the windows, or the JSON inside of one, for tests with hostile bytes.
    pub(crate) fn from_range_bytes(bytes: &[u8]) -> Result<Self> {
        let path = Path::new("memory");
        let file = match bytes.starts_with(&FILE.magic[..7]) {
            true => FILE.read(bytes, path)?,
            false => {
                serde_json::from_slice(bytes).map_err(|e| Error::format(path, format!("damaged: {e}")))?
            }
        };
        merged(vec![(path.to_path_buf(), file)])
    }
}

/// Adds the figures in files.
pub(crate) fn merge(paths: &[PathBuf], outputs: Outputs, observer: &dyn Observer) -> Result<Corpus> {
    for (name, given) in [("save", outputs.save.is_some()), ("list", outputs.list.is_some())] {
        if given {
            return Err(Error::setting(name, "does not apply to ranges of windows, which hold only figures"));
        }
    }
    if outputs.contexts {
        let message =
            "ranges of windows hold only figures, not the contexts that a model needs; give the text";
        return Err(Error::setting("merge", message));
    }
    let mut files = Vec::with_capacity(paths.len());
    for (i, path) in paths.iter().enumerate() {
        observer.report(Stage::Merging, i as u64, Some(paths.len() as u64))?;
        files.push((path.clone(), FILE.open::<RangeFile>(path)?));
    }
    let alphabet = files[0].1.facts.header.alphabet;
    let summary = merged(files)?;
    Ok(Corpus { summary, vocabulary: Vocabulary::new(alphabet), contexts: None, head: None, whole: None })
}

/// The summary of all parts, which come in any order.
pub(crate) fn merged(files: Vec<(PathBuf, RangeFile)>) -> Result<Summary> {
    check(&files)?;
    let mut files = files.into_iter();
    let Some((path, first)) = files.next() else {
        return Err(Error::setting("merge", "needs at least one range"));
    };
    let damaged = |path: &Path| Error::format(path, "damaged: its figures contradict each other");
    let mut marks: Vec<Vec<u64>> = first.marks.into_iter().collect();
    let facts = first.facts;
    let mut all = Counted {
        part: PartOf::ALL,
        figures: first.figures,
        nodes: first.nodes,
        unique: first.unique,
        bins: first.bins,
        passages: first.passages,
        marks: None,
    };
    for (_, file) in files {
        all.figures.merge(&file.figures);
        if let (Some(nodes), Some(others)) = (&mut all.nodes, &file.nodes) {
            nodes.0.merge(&others.0);
        }
        all.unique.merge(&file.unique);
        all.bins.extend(file.bins);
        all.passages.extend(file.passages);
        marks.extend(file.marks);
    }
    all.bins.sort_unstable();
    let is_sound = all.figures.windows == facts.windows
        && all.bins.windows(2).all(|pair| pair[0].bin < pair[1].bin)
        && sum(&all.bins, |bin| bin.kept) == Some(facts.windows)
        && sum(&all.bins, |bin| bin.starts).is_some_and(|starts| starts <= facts.positions);
    if !is_sound {
        return Err(damaged(&path));
    }
    let repeats = match facts.rule.repeats {
        true => count_runs(&marks, facts.positions).ok_or_else(|| damaged(&path))?,
        false => Vec::new(),
    };
    all.passages = longest_of(all.passages);
    all.add_short_contexts(facts.rule.n_ctx);
    let points = curve_points(facts.rule.n_ctx);
    Ok(summary(&facts, &all, repeats, &points, &mut Stored::new(&first.firsts)))
}

/// The sum of a number over bins, unless it is too large.
fn sum(bins: &[BinCounts], number: fn(&BinCounts) -> u64) -> Option<u64> {
    bins.iter().try_fold(0u64, |sum, bin| sum.checked_add(number(bin)))
}

/// Refuses parts that do not belong together, or are not all there are.
fn check(files: &[(PathBuf, RangeFile)]) -> Result<()> {
    let Some((left, first)) = files.first() else { return Ok(()) };
    let of = first.part.of();
    for (right, file) in files {
        let differ =
            |message: String| Error::Incompatible { left: left.clone(), right: right.clone(), message };
        if file.facts.rule != first.facts.rule || file.facts.header != first.facts.header {
            return Err(differ("their settings differ".into()));
        }
        if (file.text, &file.facts, &file.firsts) != (first.text, &first.facts, &first.firsts) {
            return Err(differ("they are parts of different texts".into()));
        }
        if file.part.of() != of {
            return Err(differ(format!("one is part {}, the other part {}", first.part, file.part)));
        }
        let is_sound = file.is_possible()
            && file.nodes.is_some() == first.facts.rule.exact_length
            && file.marks.is_some() == first.facts.rule.repeats;
        if !is_sound {
            return Err(Error::format(right, "damaged: its figures do not fit its settings"));
        }
    }
    PartOf::check_complete(files.iter().map(|(path, file)| (file.part, path.as_path())))
}
