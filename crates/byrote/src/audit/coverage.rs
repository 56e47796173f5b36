//! Which stretches of a text can be extracted, byte by byte.
//!
//! A byte has the largest p_z of a window whose *suffix* covers it, and whether an extractable one does. What is given to the model
//! as a prefix is not covered by that window.

use super::tally::CoverageShares;
use super::window_score::WindowScore;
use std::ops::Range;

/// The p_z from which a character counts as covered.
pub const COVERED: f64 = 1e-3;

/// The bytes of one text.
#[derive(Debug, Clone, PartialEq)]
pub struct Strip {
    p_z: Vec<f32>,
    extractable: Vec<bool>,
}

/// A stretch of bytes with equal values.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// The bytes.
    pub bytes: Range<usize>,
    /// The largest probability of sampling a suffix that covers them.
    pub p_z: f32,
    /// Whether an extractable window covers them.
    pub extractable: bool,
}

impl Strip {
    /// A text that nothing covers yet.
    pub fn new(bytes: usize) -> Self {
        Self { p_z: vec![0.0; bytes], extractable: vec![false; bytes] }
    }

    /// Adds a window whose suffix covers these bytes.
    pub fn add(&mut self, bytes: Range<usize>, score: &WindowScore) {
        let p_z = score.p_z() as f32;
        self.p_z[bytes.clone()].iter_mut().for_each(|p| *p = p.max(p_z));
        if score.extractable() {
            self.extractable[bytes].fill(true);
        }
    }

    /// The characters of the text that are covered: by extractable windows, and by windows with p_z of at least [`COVERED`]. A
    /// character is covered if all its bytes are.
    pub fn covered_characters(&self, text: &str) -> (u64, u64) {
        let extractable = self.characters(text).filter(|(_, extractable)| *extractable).count();
        let likely = self.characters(text).filter(|(p_z, _)| f64::from(*p_z) >= COVERED).count();
        (extractable as u64, likely as u64)
    }

    /// For every character of the text the least p_z of its bytes, and whether all of them are extractable.
    pub fn characters(&self, text: &str) -> impl Iterator<Item = (f32, bool)> {
        text.char_indices().map(|(i, c)| i..i + c.len_utf8()).map(|bytes| {
            let p_z = self.p_z[bytes.clone()].iter().copied().fold(f32::INFINITY, f32::min);
            (p_z, self.extractable[bytes].iter().all(|extractable| *extractable))
        })
    }

    /// The maximal stretches of bytes with equal values, in order.
    pub fn stretches(&self) -> Vec<Stretch> {
        let mut found: Vec<Stretch> = Vec::new();
        for (i, (&p_z, &extractable)) in self.p_z.iter().zip(&self.extractable).enumerate() {
            match found.last_mut() {
                Some(last) if last.p_z == p_z && last.extractable == extractable => last.bytes.end = i + 1,
                _ => found.push(Stretch { bytes: i..i + 1, p_z, extractable }),
            }
        }
        found
    }
}

/// The shares of all texts, weighted by their copies.
#[derive(Debug, Clone, Copy, Default)]
pub struct CoverageTally {
    characters: u64,
    extractable: u64,
    likely: u64,
}

impl CoverageTally {
    /// Adds a text.
    pub fn add(&mut self, strip: &Strip, text: &str, copies: u64) {
        let (extractable, likely) = strip.covered_characters(text);
        self.characters += copies * text.chars().count() as u64;
        self.extractable += copies * extractable;
        self.likely += copies * likely;
    }

    /// The shares; none without text.
    pub fn shares(&self) -> Option<CoverageShares> {
        let share = |n: u64| n as f64 / self.characters as f64;
        (self.characters > 0).then(|| CoverageShares {
            characters: self.characters,
            extractable: share(self.extractable),
            p_z: share(self.likely),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(extractable: bool, p_z: f64) -> WindowScore {
        WindowScore {
            suffix: 2,
            hits: 2,
            first: 2,
            needed: u32::from(!extractable),
            ln_p: -1.0,
            ln_p_z: (p_z > 0.0).then(|| p_z.ln()),
            min_margin: 1.0,
            close: false,
            ties: 0,
        }
    }

    #[test]
    fn a_byte_has_the_largest_probability_of_the_windows_over_it() {
        let text = "aébc";
        let mut strip = Strip::new(text.len());
        strip.add(0..2, &score(true, 0.0));
        strip.add(1..4, &score(false, 0.5));
        strip.add(3..5, &score(false, 1e-4));
        // The second byte of é is covered by no extractable window.
        assert_eq!(strip.covered_characters(text), (1, 2));
        let plain: Vec<_> = strip.stretches().into_iter().map(|s| (s.bytes, s.p_z, s.extractable)).collect();
        assert_eq!(plain, [(0..1, 0.0, true), (1..2, 0.5, true), (2..4, 0.5, false), (4..5, 1e-4, false)]);
        let mut tally = CoverageTally::default();
        tally.add(&strip, text, 3);
        let shares = tally.shares().unwrap();
        assert_eq!((shares.characters, shares.extractable, shares.p_z), (12, 0.25, 0.5));
        assert!(CoverageTally::default().shares().is_none());
    }
}
