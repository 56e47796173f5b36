//! Where repeats are: for every position of the text, the longest of the lengths that are reported of which it starts a repeat (low
//! four bits), and of which it starts one that occurs before it (high four bits), counted from 1.

use super::repeats::{Covered, Repeats};
use crate::{Error, Result};
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

/// The marks of a text.
#[derive(Debug)]
pub(crate) enum Marks {
    /// One byte per position.
    Memory(Vec<AtomicU8>),
    /// The marks as they are raised, in a file without a name: 56 bits of the position and 8 of the mark.
    File { positions: usize, records: Mutex<Records> },
}

#[derive(Debug)]
pub(crate) struct Records {
    file: BufWriter<File>,
    failed: Option<std::io::Error>,
}

/// The number of positions whose marks are read from a file at once, at least, and the number of such passes over it, at most.
const BLOCK: usize = 1 << 20;
const PASSES: usize = 16;

impl Marks {
    pub(crate) fn in_memory(positions: usize) -> Self {
        Marks::Memory((0..positions).map(|_| AtomicU8::new(0)).collect())
    }

    /// Marks in a file in a directory.
    pub(crate) fn in_file(positions: usize, directory: &Path) -> Result<Self> {
        let file = tempfile::tempfile_in(directory).map_err(|e| Error::io(directory, "write to", e))?;
        let records = Mutex::new(Records { file: BufWriter::new(file), failed: None });
        Ok(Marks::File { positions, records })
    }

    /// The number of bytes that the marks take in memory.
    pub(crate) fn footprint(&self) -> usize {
        match self {
            Marks::Memory(marks) => marks.len(),
            Marks::File { .. } => 0,
        }
    }

    /// Raises a mark to these levels at least. Only the thread that sorts the bin of a position writes there.
    pub(crate) fn raise(&self, position: usize, repeated: usize, redundant: usize) {
        let by = (redundant << 4 | repeated) as u8;
        match self {
            Marks::Memory(marks) => {
                let mark = marks[position].load(Ordering::Relaxed);
                let higher = raised(mark, by);
                if higher != mark {
                    marks[position].store(higher, Ordering::Relaxed);
                }
            }
            Marks::File { records, .. } => {
                let record = (position as u64) << 8 | u64::from(by);
                let mut records = records.lock().unwrap_or_else(PoisonError::into_inner);
                if let Err(e) = records.file.write_all(&record.to_le_bytes()) {
                    records.failed.get_or_insert(e);
                }
            }
        }
    }

    /// Gives all marks as runs of equal ones: (number, mark).
    fn each_run(&self, mut take: impl FnMut(u64, u8)) -> Result<()> {
        let (mut n, mut last) = (0, 0);
        let mut add = |marks: &[u8]| {
            for &mark in marks {
                if mark != last && n > 0 {
                    take(n, last);
                    n = 0;
                }
                (n, last) = (n + 1, mark);
            }
        };
        match self {
            Marks::Memory(marks) => {
                for marks in marks.chunks(BLOCK) {
                    let marks: Vec<u8> = marks.iter().map(|mark| mark.load(Ordering::Relaxed)).collect();
                    add(&marks);
                }
            }
            Marks::File { positions, records } => {
                let mut records = records.lock().unwrap_or_else(PoisonError::into_inner);
                read_back(&mut records, *positions, add)
                    .map_err(|e| Error::io(Path::new("a temporary file"), "write and read", e))?;
            }
        }
        if n > 0 {
            take(n, last);
        }
        Ok(())
    }

    /// The tokens in repeats.
    pub(crate) fn count(&self) -> Result<Vec<Repeats>> {
        let mut covered = Covered::default();
        self.each_run(|n, mark| covered.run(n, mark))?;
        Ok(covered.finish())
    }

    /// The marks as runs of equal ones: (number, mark), in one list.
    pub(crate) fn runs(&self) -> Result<Vec<u64>> {
        let mut runs = Vec::new();
        self.each_run(|n, mark| runs.extend([n, u64::from(mark)]))?;
        Ok(runs)
    }
}

/// A mark whose levels are the higher ones of two.
#[inline]
fn raised(mark: u8, by: u8) -> u8 {
    (mark & 15).max(by & 15) | (mark & 0xf0).max(by & 0xf0)
}

/// Gives the marks that were written to a file, block by block.
fn read_back(records: &mut Records, positions: usize, mut add: impl FnMut(&[u8])) -> std::io::Result<()> {
    if let Some(e) = records.failed.take() {
        return Err(e);
    }
    records.file.flush()?;
    let block = positions.div_ceil(PASSES).max(BLOCK);
    let mut marks = vec![0; block.min(positions)];
    for first in (0..positions).step_by(block) {
        let marks = &mut marks[..block.min(positions - first)];
        marks.fill(0);
        let mut file = records.file.get_ref();
        file.seek(SeekFrom::Start(0))?;
        let mut file = BufReader::with_capacity(1 << 16, file);
        let mut record = [0; 8];
        loop {
            match file.read_exact(&mut record) {
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => break,
                read => read?,
            }
            let record = u64::from_le_bytes(record);
            if let Some(mark) = ((record >> 8) as usize).checked_sub(first).and_then(|i| marks.get_mut(i)) {
                *mark = raised(*mark, record as u8);
            }
        }
        add(marks);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn marks_in_a_file_are_those_in_memory(
            raises in prop::collection::vec((0usize..3_000_000, 0usize..7, 0usize..7), 0..200),
        ) {
            let memory = Marks::in_memory(3_000_000);
            let file = Marks::in_file(3_000_000, &std::env::temp_dir()).unwrap();
            for (position, repeated, redundant) in raises {
                memory.raise(position, repeated, redundant);
                file.raise(position, repeated, redundant);
            }
            prop_assert_eq!(file.runs().unwrap(), memory.runs().unwrap());
            prop_assert_eq!(file.count().unwrap(), memory.count().unwrap());
        }
    }
}
