//! Signed numbers by length and count, of which few are not zero.

use super::range_file::LARGEST;
use crate::num::dd::{Dd, xlnx};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts below this are looked up in an array.
const SMALL: usize = 32;

/// Lengths below this are looked up in an array; of longer ones, few have cells.
const SHORT: usize = 1 << 12;

/// For every length, numbers by count. Counts of 1 are left out: they contribute 1 ln 1 = 0 to every sum that is taken here.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u32, u64, i64)>", into = "Vec<(u32, u64, i64)>")]
pub(crate) struct Cells {
    /// The cells of short lengths, by length.
    short: Vec<Cell>,
    long: BTreeMap<usize, Cell>,
}

#[derive(Debug, Clone, Default)]
struct Cell {
    small: Vec<i64>,
    large: FxHashMap<u64, i64>,
}

impl Cells {
    #[inline]
    pub(crate) fn add(&mut self, length: usize, count: u64, value: i64) {
        if count != 1 {
            self.add_any(length, count, value);
        }
    }

    fn add_any(&mut self, length: usize, count: u64, value: i64) {
        let cell = if length < SHORT {
            if length >= self.short.len() {
                self.short.resize(length + 1, Cell::default());
            }
            &mut self.short[length]
        } else {
            self.long.entry(length).or_default()
        };
        if count < SMALL as u64 {
            if cell.small.is_empty() {
                cell.small = vec![0; SMALL];
            }
            cell.small[count as usize] += value;
        } else {
            *cell.large.entry(count).or_insert(0) += value;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (length, count, value) in other.iter() {
            self.add(length, count, value);
        }
    }

    /// The numbers that are not zero: (length, count, number), in no order within a length.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, u64, i64)> + '_ {
        let long = self.long.iter().map(|(&length, cell)| (length, cell));
        self.short.iter().enumerate().chain(long).flat_map(|(length, cell)| {
            let small = (0..).zip(cell.small.iter().copied());
            let large = cell.large.iter().map(|(&count, &value)| (count, value));
            small
                .chain(large)
                .filter(|&(_, value)| value != 0)
                .map(move |(count, value)| (length, count, value))
        })
    }

    /// The greatest length that may have numbers.
    pub(crate) fn longest(&self) -> usize {
        self.long.last_key_value().map_or(self.short.len(), |(&length, _)| length)
    }

    /// The numbers of one length by increasing count.
    pub(crate) fn of_length(&self, length: usize) -> BTreeMap<u64, i128> {
        let Some(cell) = self.short.get(length).or_else(|| self.long.get(&length)) else {
            return BTreeMap::new();
        };
        let small = (0..).zip(cell.small.iter().copied());
        let large = cell.large.iter().map(|(&count, &value)| (count, value));
        small.chain(large).filter(|&(_, n)| n != 0).map(|(count, n)| (count, i128::from(n))).collect()
    }
}

impl TryFrom<Vec<(u32, u64, i64)>> for Cells {
    type Error = String;
    fn try_from(list: Vec<(u32, u64, i64)>) -> Result<Self, String> {
        let mut cells = Cells::default();
        for (length, count, value) in list {
            if count == 0 || value.unsigned_abs() > LARGEST {
                return Err("an impossible count".into());
            }
            cells.add(length as usize, count, value);
        }
        Ok(cells)
    }
}

impl From<Cells> for Vec<(u32, u64, i64)> {
    fn from(cells: Cells) -> Self {
        let mut list: Self =
            cells.iter().map(|(length, count, value)| (length as u32, count, value)).collect();
        list.sort_unstable();
        list
    }
}

/// Values of x ln x that were computed before.
#[derive(Debug, Default)]
pub(crate) struct LogTable(FxHashMap<u64, Dd>);

impl LogTable {
    pub(crate) fn xlnx(&mut self, x: u64) -> Dd {
        *self.0.entry(x).or_insert_with(|| xlnx(x))
    }
}
