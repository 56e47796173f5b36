//! Windows by how often their suffix occurs in the text.
//!
//! What a model has met often it knows better. Windows are grouped by the number of occurrences of their suffix tokens anywhere in
//! the corpus: 1, 2, 3 to 4, 5 to 8, and so on. Each distinct window counts once here.

use super::collection::Collection;
use super::interval::{ShareInterval, share_interval};
use super::tally::DecodedScore;
use super::text_audit::ScoredWindows;
use super::windows::AuditWindow;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// The windows whose suffixes occur about equally often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DuplicateGroup {
    /// The fewest occurrences.
    pub from: u64,
    /// The most.
    pub to: u64,
    /// Distinct windows.
    pub windows: u64,
    /// Those that are extractable.
    pub extractable: u64,
    /// Their share.
    pub share: f64,
    /// The interval of that share.
    pub interval: Option<ShareInterval>,
    /// The share of windows with p_z of at least 0.001.
    pub p_z_at_least_0_001: f64,
    /// The mean share of hits.
    pub mean_teacher_forced_accuracy: f64,
    /// The mean share of positions at which greedy decoding agrees, if windows were decoded.
    #[serde(default)]
    pub mean_free_running_accuracy: Option<f64>,
    /// The mean ROUGE-L, if windows were decoded.
    #[serde(default)]
    pub mean_rouge_l: Option<f64>,
    /// The mean extraction strength.
    #[serde(default)]
    pub mean_extraction_strength: f64,
}

/// Counts how often each suffix occurs in the documents, copies included.
pub fn suffix_counts(collection: &Collection, windows: &[AuditWindow]) -> Vec<u64> {
    let mut counts: HashMap<&[u32], u64> = windows.iter().map(|window| (window.suffix(), 0)).collect();
    let mut lengths: Vec<usize> = windows.iter().map(|window| window.suffix().len()).collect();
    lengths.sort_unstable();
    lengths.dedup();
    for document in &collection.documents {
        for &length in &lengths {
            for part in document.ids.windows(length) {
                if let Some(count) = counts.get_mut(part) {
                    *count += document.copies;
                }
            }
        }
    }
    windows.iter().map(|window| counts.get(window.suffix()).copied().unwrap_or(0)).collect()
}

/// The ends of the group of a count: powers of two, with those between them.
fn group(count: u64) -> (u64, u64) {
    let to = count.max(1).next_power_of_two();
    (if to <= 2 { to } else { to / 2 + 1 }, to)
}

/// Groups windows by their counts.
pub fn groups(scored: &ScoredWindows, counts: &[u64], overlapping: bool, seed: u64) -> Vec<DuplicateGroup> {
    let ScoredWindows { windows, scores, decoded } = scored;
    let mut found: BTreeMap<(u64, u64), Vec<usize>> = BTreeMap::new();
    for (i, &count) in counts.iter().enumerate() {
        found.entry(group(count)).or_default().push(i);
    }
    let figures = |((from, to), members): ((u64, u64), Vec<usize>)| {
        let n = members.len() as f64;
        let mut documents: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for &i in &members {
            let cell = documents.entry(windows[i].document).or_default();
            cell.0 += f64::from(u8::from(scores[i].extractable()));
            cell.1 += 1.0;
        }
        let documents: Vec<(f64, f64)> = documents.into_values().collect();
        let extractable = members.iter().filter(|&&i| scores[i].extractable()).count();
        let likely = members.iter().filter(|&&i| scores[i].p_z() >= 1e-3).count();
        let mean = |of: &dyn Fn(usize) -> f64| members.iter().map(|&i| of(i)).sum::<f64>() / n;
        let mean_decoded = |of: fn(DecodedScore) -> f64| {
            let all: Option<Vec<f64>> = members.iter().map(|&i| decoded[i].map(of)).collect();
            all.map(|all| all.iter().sum::<f64>() / n)
        };
        DuplicateGroup {
            from,
            to,
            windows: members.len() as u64,
            extractable: extractable as u64,
            share: extractable as f64 / n,
            interval: share_interval(&documents, overlapping, seed),
            p_z_at_least_0_001: likely as f64 / n,
            mean_teacher_forced_accuracy: mean(&|i| scores[i].teacher_forced_accuracy()),
            mean_free_running_accuracy: mean_decoded(|decoded| decoded.free_running_accuracy),
            mean_rouge_l: mean_decoded(|decoded| decoded.rouge_l),
            mean_extraction_strength: mean(&|i| scores[i].extraction_strength()),
        }
    };
    found.into_iter().map(figures).collect()
}

#[cfg(test)]
mod tests {
    use super::super::collection::AuditDocument;
    use super::*;

    #[test]
    fn groups_end_at_powers_of_two() {
        let found: Vec<_> = [0, 1, 2, 3, 4, 5, 8, 9, 16, 17].map(group).into();
        let wanted = [(1, 1), (1, 1), (2, 2), (3, 4), (3, 4), (5, 8), (5, 8), (9, 16), (9, 16), (17, 32)];
        assert_eq!(found, wanted);
    }

    #[test]
    fn suffixes_are_counted_anywhere_with_copies() {
        let document = |ids: &[u32], copies| AuditDocument {
            name: String::new(),
            text: None,
            ids: ids.to_vec(),
            ends: vec![],
            copies,
            special_tokens: 0,
        };
        let documents = vec![document(&[1, 2, 3, 2, 3], 2), document(&[9, 2, 3], 1)];
        let window = |tokens: &[u32]| AuditWindow {
            document: 0,
            start: 0,
            prefix: 1,
            tokens: tokens.to_vec(),
            bytes: None,
            weight: 1,
        };
        let windows = [window(&[1, 2, 3]), window(&[3, 2]), window(&[5, 8, 8])];
        assert_eq!(suffix_counts(&Collection { documents, order: vec![0, 0, 1] }, &windows), [5, 5, 0]);
    }
}
