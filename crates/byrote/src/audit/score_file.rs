//! Scores on disk, so that an audit that was interrupted or killed continues where it was.
//!
//! ```text
//! "byrote scores 1\n"    identity: u64
//! per sequence           tokens: u32   from: u32   ids: [u32; tokens]   scores: [[u8; 52]; tokens - from]   hash of the record: u64
//! ```
//!
//! A record whose `from` has its highest bit set holds no scores but a decoded text: its first `from` tokens were given.
//!
//! Records are appended, one batch at a time. A record that a crash left incomplete is cut off when the file is opened again. The
//! scores of a sequence depend on the model, so the identity covers what is known of it, and [`ScoreFile::open`] is followed by a
//! probe: the first sequence is scored again and must give the same bits.

use super::scoring::ScoreUnit;
use crate::inference::{LanguageModel, PositionScore, Sampling, Sequence};
use crate::input::{MOST_HELD, read_capped};
use crate::num::hash::fnv1a;
use crate::{Error, Result};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8] = b"byrote scores 1\n";
/// The bit of `from` that marks a decoded text.
const DECODED: u32 = 1 << 31;
/// The bytes of a score.
const SCORE: usize = 52;

/// Scores on disk.
#[derive(Debug)]
pub struct ScoreFile {
    path: PathBuf,
    file: File,
    found: HashMap<ScoreUnit, Arc<[PositionScore]>>,
    decoded: HashMap<Vec<u32>, Vec<u32>>,
    /// A sequence that was scored before this process, for the probe.
    probe: Option<ScoreUnit>,
    pending: Vec<u8>,
}

impl ScoreFile {
    /// Opens or creates a file; one with another identity is refused.
    pub fn open(path: &Path, identity: u64) -> Result<Self> {
        let (mut found, mut decoded) = (HashMap::new(), HashMap::new());
        let mut probe: Option<ScoreUnit> = None;
        let head = [MAGIC, &identity.to_le_bytes()].concat();
        let mut intact = 0;
        match read_capped(path, 8 * MOST_HELD, "a file of scores") {
            Ok(bytes) if bytes.len() < head.len() && head.starts_with(&bytes) => {}
            Ok(bytes) => {
                if !bytes.starts_with(&head) {
                    let message = "belongs to another audit (the model or the settings differ); choose another directory";
                    return Err(Error::format(path, message));
                }
                intact = head.len();
                while let Some((record, length)) = record(&bytes[intact..]) {
                    intact += length;
                    let (unit, scores) = match record {
                        Record::Scores(unit, scores) => (unit, scores),
                        Record::Decoded(prefix, text) => {
                            decoded.insert(prefix, text);
                            continue;
                        }
                    };
                    // The shortest is the cheapest to score again.
                    if probe.as_ref().is_none_or(|p| p.tokens.len() > unit.tokens.len()) {
                        probe = Some(unit.clone());
                    }
                    found.insert(unit, scores.into());
                }
            }
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let fail = |e| Error::io(path, "write", e);
        let mut file = OpenOptions::new().create(true).append(true).open(path).map_err(fail)?;
        file.set_len(intact as u64).map_err(fail)?;
        if intact == 0 {
            file.write_all(&head).map_err(fail)?;
        }
        Ok(Self { path: path.to_path_buf(), file, found, decoded, probe, pending: Vec::new() })
    }

    /// Refuses scores that another model has left: a sequence that an earlier process scored is scored again and must give the same
    /// bits.
    pub fn probe(&self, model: &dyn LanguageModel, sampling: Sampling) -> Result<()> {
        let Some((unit, before)) = self.probe.as_ref().and_then(|unit| Some((unit, self.found.get(unit)?)))
        else {
            return Ok(());
        };
        let now = model.score(&[Sequence { tokens: &unit.tokens, scored: unit.scored() }], sampling)?;
        match now[0] == **before {
            true => Ok(()),
            false => {
                let message =
                    "holds the scores of another model, or of another machine; choose another directory";
                Err(Error::format(&self.path, message))
            }
        }
    }

    /// How many sequences have scores.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether there are none.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The scores of a sequence, if they are there.
    pub fn find(&self, unit: &ScoreUnit) -> Option<Arc<[PositionScore]>> {
        self.found.get(unit).cloned()
    }

    /// Adds the scores of a sequence.
    pub fn append(&mut self, unit: &ScoreUnit, scores: &[PositionScore]) {
        let start = self.pending.len();
        let bytes = &mut self.pending;
        bytes.extend((unit.tokens.len() as u32).to_le_bytes());
        bytes.extend((unit.from as u32).to_le_bytes());
        unit.tokens.iter().for_each(|id| bytes.extend(id.to_le_bytes()));
        for s in scores {
            for number in [s.log_prob, s.log_prob_sampled, s.margin, s.mean_log_prob, s.sd_log_prob] {
                bytes.extend(number.to_le_bytes());
            }
            bytes.extend(s.rank.to_le_bytes());
            bytes.extend(s.top.to_le_bytes());
            bytes.extend([0; 4]); // Reserved.
        }
        let hash = fnv1a(&bytes[start..]);
        bytes.extend(hash.to_le_bytes());
    }

    /// The first `n` tokens that a prefix was continued with, if it was continued that far.
    pub fn find_decoded(&self, prefix: &[u32], n: usize) -> Option<Vec<u32>> {
        self.decoded.get(prefix)?.get(..n).map(<[u32]>::to_vec)
    }

    /// Adds the tokens that a prefix was continued with.
    pub fn append_decoded(&mut self, prefix: &[u32], decoded: &[u32]) {
        let start = self.pending.len();
        let bytes = &mut self.pending;
        bytes.extend(((prefix.len() + decoded.len()) as u32).to_le_bytes());
        bytes.extend((DECODED | prefix.len() as u32).to_le_bytes());
        prefix.iter().chain(decoded).for_each(|id| bytes.extend(id.to_le_bytes()));
        let hash = fnv1a(&bytes[start..]);
        bytes.extend(hash.to_le_bytes());
    }

    /// Writes what was added.
    pub fn flush(&mut self) -> Result<()> {
        self.file.write_all(&self.pending).map_err(|e| Error::io(&self.path, "write", e))?;
        self.pending.clear();
        Ok(())
    }
}

/// What a record holds.
enum Record {
    Scores(ScoreUnit, Vec<PositionScore>),
    /// A prefix and its continuation.
    Decoded(Vec<u32>, Vec<u32>),
}

/// The first record of some bytes and its length; none if it is incomplete or damaged.
fn record(bytes: &[u8]) -> Option<(Record, usize)> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let number = |at: usize| Some(f64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let (n, from) = (word(0)? as usize, word(4)?);
    let (is_decoded, from) = (from & DECODED != 0, (from & !DECODED) as usize);
    let scored = if is_decoded { 0 } else { n.checked_sub(from)? };
    let end = n.checked_mul(4)?.checked_add(8)?.checked_add(scored.checked_mul(SCORE)?)?;
    let stored = bytes.get(end..end.checked_add(8)?)?;
    if fnv1a(&bytes[..end]).to_le_bytes() != *stored {
        return None;
    }
    let tokens = (0..n).map(|i| word(8 + 4 * i)).collect::<Option<Vec<u32>>>()?;
    if is_decoded {
        let (prefix, text) = tokens.split_at_checked(from)?;
        return Some((Record::Decoded(prefix.to_vec(), text.to_vec()), end + 8));
    }
    let score = |i: usize| {
        let at = 8 + 4 * n + SCORE * i;
        Some(PositionScore {
            log_prob: number(at)?,
            log_prob_sampled: number(at + 8)?,
            margin: number(at + 16)?,
            mean_log_prob: number(at + 24)?,
            sd_log_prob: number(at + 32)?,
            rank: word(at + 40)?,
            top: word(at + 44)?,
        })
    };
    let scores = (0..scored).map(score).collect::<Option<Vec<_>>>()?;
    Some((Record::Scores(ScoreUnit { tokens, from }, scores), end + 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(x: f64) -> PositionScore {
        PositionScore {
            log_prob: x,
            log_prob_sampled: f64::NEG_INFINITY,
            margin: 0.5,
            rank: 3,
            top: 9,
            mean_log_prob: -1.5,
            sd_log_prob: 0.25,
        }
    }

    fn unit(tokens: &[u32]) -> ScoreUnit {
        ScoreUnit { tokens: tokens.to_vec(), from: 1 }
    }

    #[test]
    fn what_was_written_is_found_again_and_a_torn_record_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("scores.bin");
        let mut file = ScoreFile::open(&path, 7).unwrap();
        assert!(file.is_empty());
        file.append(&unit(&[1, 2, 3]), &[score(-1.0), score(-2.0)]);
        file.append(&unit(&[4, 5]), &[score(-3.0)]);
        file.flush().unwrap();
        drop(file);
        let whole = std::fs::read(&path).unwrap();
        for length in (0..=whole.len()).rev() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let mut file = ScoreFile::open(&path, 7).unwrap();
            let first = file.find(&unit(&[1, 2, 3]));
            match file.len() {
                2 => assert_eq!(length, whole.len()),
                1 => assert_eq!(first.unwrap()[..], [score(-1.0), score(-2.0)]),
                _ => assert!(first.is_none()),
            }
            file.append(&unit(&[6, 7]), &[score(-4.0)]);
            file.flush().unwrap();
            let again = ScoreFile::open(&path, 7).unwrap();
            assert_eq!(again.find(&unit(&[6, 7])).unwrap()[..], [score(-4.0)]);
        }
    }

    #[test]
    fn decoded_texts_are_found_as_far_as_they_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("scores.bin");
        let mut file = ScoreFile::open(&path, 7).unwrap();
        file.append_decoded(&[1, 2], &[3, 4, 5]);
        file.append(&unit(&[1, 2]), &[score(-1.0)]);
        file.flush().unwrap();
        let file = ScoreFile::open(&path, 7).unwrap();
        assert_eq!(file.find_decoded(&[1, 2], 2), Some(vec![3, 4]));
        assert_eq!((file.find_decoded(&[1, 2], 4), file.find_decoded(&[1], 1), file.len()), (None, None, 1));
    }

    #[test]
    fn another_audit_is_refused_and_a_changed_byte_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("scores.bin");
        let mut file = ScoreFile::open(&path, 7).unwrap();
        file.append(&unit(&[1, 2]), &[score(-1.0)]);
        file.flush().unwrap();
        assert!(ScoreFile::open(&path, 8).unwrap_err().to_string().contains("another audit"));
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 20;
        bytes[last] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert!(ScoreFile::open(&path, 7).unwrap().is_empty());
        std::fs::write(&path, b"something else entirely, but longer than a head").unwrap();
        assert!(ScoreFile::open(&path, 7).is_err());
    }
}
