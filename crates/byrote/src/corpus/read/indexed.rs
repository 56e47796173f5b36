//! Token ids with an index, as Megatron-LM and GPT-NeoX write them: `x.bin` holds the ids and `x.idx` says where documents end.
//!
//! ```text
//! "MMIDIDX\0\0" version:u64 = 1  type:u8  sequences:u64  documents:u64     34 bytes, little-endian like everything below
//! sizes:i32[sequences]  pointers:i64[sequences]  bounds:i64[documents]
//! ```
//!
//! A sequence is `sizes[i]` ids from byte `pointers[i]` of `x.bin`; every writer puts them end to end, and only that is accepted.
//! Document k consists of the sequences `bounds[k]..bounds[k + 1]`, so that there is one document less than bounds.

use super::ids::IntegerType;
use super::input::{Input, fill_to};
use super::{Content, Reader, Slab, slab_bytes};
use crate::corpus::options::Options;
use crate::units::counted;
use crate::{Error, Result};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 9] = b"MMIDIDX\0\0";
const HEADER_BYTES: u64 = 34;
/// The number of bytes of ids read at a time.
const BLOCK_BYTES: usize = 1 << 16;

/// The index of a file of ids, if there is one.
pub(super) fn index_of(path: &Path) -> Option<PathBuf> {
    let index = path.with_extension("idx");
    (path.extension().is_some_and(|ending| ending == "bin") && index.exists()).then_some(index)
}

/// Opens a file of ids by its index.
pub(super) fn open(path: &Path, index: &Path, options: &Options, input: Input) -> Result<IndexedReader> {
    for (name, given) in [
        ("dtype", options.dtype.is_some()),
        ("separator_id", options.separator_id.is_some()),
        ("documents", options.documents.is_some()),
        ("split", options.split.is_some()),
    ] {
        if given {
            let message =
                format!("does not apply to {}, which has an index: {}", path.display(), index.display());
            return Err(Error::setting(name, message));
        }
    }
    let (_, bytes) = crate::input::open_regular(path, "ids with an index")?;
    let (file, index_bytes) = crate::input::open_regular(index, "an index of ids")?;
    let part = |offset: u64| -> Result<Part> {
        let mut file = crate::input::open(index)?;
        file.seek(SeekFrom::Start(offset)).map_err(|e| Error::io(index, "read", e))?;
        Ok(Box::new(BufReader::with_capacity(BLOCK_BYTES, file)))
    };
    let header = Header::read(file, index_bytes, index)?;
    let [sizes, pointers, bounds] = header.offsets();
    let parts = [part(sizes)?, part(pointers)?, part(bounds)?];
    IndexedReader::new([path, index], options, header, parts, (input.bytes, bytes))
}

type Part = Box<dyn Read + Send>;

/// The header of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    integer: IntegerType,
    sequences: u64,
    bounds: u64,
}

impl Header {
    /// Reads the header of an index that has `bytes` bytes.
    pub(super) fn read(mut file: impl Read, bytes: u64, path: &Path) -> Result<Self> {
        let wrong = |message: String| Err(Error::format(path, message));
        let mut start = [0; HEADER_BYTES as usize];
        let held = bytes.min(HEADER_BYTES) as usize;
        file.read_exact(&mut start[..held]).map_err(|e| Error::io(path, "read", e))?;
        if held < 9 || start[..9] != *MAGIC {
            return wrong(
                "not an index of ids (MMIDIDX); move it away to read the .bin file without it".into(),
            );
        }
        if held < start.len() {
            return wrong(format!(
                "an index that is cut short: it has {held} bytes, its header {HEADER_BYTES}"
            ));
        }
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| start[at + i]));
        if number(9) != 1 {
            return wrong(format!("an index of version {}; only version 1 is known", number(9)));
        }
        let (bytes_per_id, signed) = match start[17] {
            1 => (1, false),
            2 => (1, true),
            3 => (2, true),
            4 => (4, true),
            5 => (8, true),
            6 | 7 => return wrong("an index of floating-point numbers; token ids must be integers".into()),
            8 => (2, false),
            // Not Megatron's own, but of programs derived from it.
            9 => (4, false),
            10 => (8, false),
            code => return wrong(format!("an index of elements of unknown type {code}")),
        };
        let integer = IntegerType { bytes: bytes_per_id, signed, big_endian: false };
        let header = Self { integer, sequences: number(18), bounds: number(26) };
        let expected =
            u128::from(HEADER_BYTES) + 12 * u128::from(header.sequences) + 8 * u128::from(header.bounds);
        if u128::from(bytes) == expected + u128::from(header.sequences) && header.sequences > 0 {
            return wrong(
                "an index of sequences of several kinds (multimodal), which is not supported".into(),
            );
        }
        if u128::from(bytes) != expected {
            return wrong(format!(
                "an index of {} and {} of documents has {expected} bytes, but this one has {bytes}",
                counted(header.sequences, "sequence"),
                counted(header.bounds, "bound"),
            ));
        }
        if header.bounds == 0 && header.sequences > 0 {
            return wrong(format!("has {}, but no document", counted(header.sequences, "sequence")));
        }
        Ok(header)
    }

    /// Where sizes, pointers and bounds start; the header was checked against the length of the file.
    pub(super) fn offsets(self) -> [u64; 3] {
        [HEADER_BYTES, HEADER_BYTES + 4 * self.sequences, HEADER_BYTES + 12 * self.sequences]
    }
}

/// Reads ids document by document, keeping no more of each than the window does.
pub(super) struct IndexedReader {
    path: PathBuf,
    index: PathBuf,
    header: Header,
    sizes: Part,
    pointers: Part,
    bounds: Part,
    ids: Part,
    /// The number of bytes of the file of ids, and of those that were read.
    bytes: u64,
    offset: u64,
    kept: usize,
    /// The numbers of bounds and of sequences that were read.
    bound: u64,
    sequence: u64,
    block: Vec<u8>,
    slab_bytes: usize,
}

impl IndexedReader {
    /// Reads `ids`, which are as many bytes as given, by the parts of their index.
    pub(super) fn new(
        [path, index]: [&Path; 2],
        options: &Options,
        header: Header,
        [sizes, pointers, bounds]: [Part; 3],
        (ids, bytes): (Part, u64),
    ) -> Result<Self> {
        let mut reader = Self {
            path: path.to_path_buf(),
            index: index.to_path_buf(),
            header,
            sizes,
            pointers,
            bounds,
            ids,
            bytes,
            offset: 0,
            kept: options.window.read(),
            bound: 0,
            sequence: 0,
            block: Vec::new(),
            slab_bytes: slab_bytes(options),
        };
        if header.bounds > 0 && reader.next_bound()? != 0 {
            return Err(reader.wrong("the first document does not start with the first sequence".into()));
        }
        Ok(reader)
    }

    fn wrong(&self, message: String) -> Error {
        Error::format(&self.index, message)
    }

    fn number<const N: usize>(part: &mut Part, index: &Path) -> Result<[u8; N]> {
        let mut number = [0; N];
        part.read_exact(&mut number).map_err(|e| Error::io(index, "read", e))?;
        Ok(number)
    }

    /// The next bound: the sequence with which a document starts, or the number of sequences.
    fn next_bound(&mut self) -> Result<u64> {
        let bound = i64::from_le_bytes(Self::number(&mut self.bounds, &self.index)?);
        self.bound += 1;
        match u64::try_from(bound) {
            Ok(bound) if (self.sequence..=self.header.sequences).contains(&bound) => Ok(bound),
            _ => Err(self.wrong(format!(
                "document {} ends before sequence {bound}, but must end from {} to {}",
                self.bound - 1,
                self.sequence,
                self.header.sequences
            ))),
        }
    }

    /// The number of ids of the next sequence, which must start where the one before ended.
    fn next_size(&mut self) -> Result<u64> {
        let number = self.sequence;
        let size = i32::from_le_bytes(Self::number(&mut self.sizes, &self.index)?);
        let pointer = i64::from_le_bytes(Self::number(&mut self.pointers, &self.index)?);
        self.sequence += 1;
        let Ok(size) = u64::try_from(size) else {
            return Err(self.wrong(format!("sequence {number} has {size} ids")));
        };
        if u64::try_from(pointer) != Ok(self.offset) {
            return Err(self.wrong(format!(
                "sequence {number} starts at byte {pointer}, but the one before ends at byte {}",
                self.offset
            )));
        }
        let end = self.offset + size * self.header.integer.bytes as u64;
        if end > self.bytes {
            return Err(self.wrong(format!(
                "sequence {number} ends at byte {end}, but {} has {} bytes",
                self.path.display(),
                self.bytes
            )));
        }
        Ok(size)
    }

    /// Reads a sequence of a document that starts at `start` in the slab; returns the number of ids that are not kept.
    fn sequence(&mut self, slab: &mut Slab, start: usize) -> Result<u64> {
        let (mut left, width) = (self.next_size()?, self.header.integer.bytes);
        let mut cut = 0;
        while left > 0 {
            let n = left.min((BLOCK_BYTES / width) as u64) as usize;
            self.block.clear();
            if fill_to(&mut *self.ids, &mut self.block, n * width, &self.path)? {
                return Err(Error::format(&self.path, "ended while it was read"));
            }
            for (i, element) in self.block.chunks_exact(width).enumerate() {
                let id = self.header.integer.id(element).map_err(|value| {
                    Error::format_at(
                        &self.path,
                        slab.first_line + slab.documents.len() as u64,
                        format!(
                            "id number {} is {value}: token ids are from 0 to {}",
                            self.offset / width as u64 + i as u64,
                            u32::MAX
                        ),
                    )
                })?;
                if slab.ids.len() - start < self.kept {
                    slab.ids.push(id);
                } else {
                    cut += 1;
                }
            }
            self.offset += (n * width) as u64;
            left -= n as u64;
        }
        Ok(cut)
    }

    /// Checks that all was read that the files hold.
    fn end(&self) -> Result<()> {
        let sequences = self.header.sequences;
        if self.sequence < sequences {
            return Err(self.wrong(format!(
                "its documents cover only {} of {}",
                self.sequence,
                counted(sequences, "sequence")
            )));
        }
        if self.offset < self.bytes {
            return Err(self.wrong(format!(
                "ends at byte {} of {}, which has {} bytes: it is the index of another file, or cut short",
                self.offset,
                self.path.display(),
                self.bytes
            )));
        }
        Ok(())
    }
}

impl Reader for IndexedReader {
    fn fill(&mut self, slab: &mut Slab) -> Result<bool> {
        slab.content = Content::Ids;
        slab.path.clone_from(&self.path);
        slab.first_line = self.bound.max(1);
        while self.bound < self.header.bounds
            && slab.ids.len() * 4 < self.slab_bytes
            && slab.documents.len() < 1 << 20
        {
            let (end, start, mut cut) = (self.next_bound()?, slab.ids.len(), 0);
            while self.sequence < end {
                cut += self.sequence(slab, start)?;
            }
            slab.cut.push(cut);
            slab.documents.push(start..slab.ids.len());
        }
        if slab.documents.is_empty() {
            self.end()?;
        }
        Ok(!slab.documents.is_empty())
    }
}

/// Reads ids by an index from memory, for the fuzzer.
pub(crate) fn read_bytes(index: &[u8], ids: &[u8], options: &Options) -> Result<(usize, usize)> {
    let [path, beside] = ["ids.bin", "ids.idx"].map(Path::new);
    let header = Header::read(index, index.len() as u64, beside)?;
    let part = |bytes: &[u8]| -> Part { Box::new(std::io::Cursor::new(bytes.to_vec())) };
    let parts = header.offsets().map(|at| part(&index[at as usize..]));
    let ids = (part(ids), ids.len() as u64);
    let mut reader = IndexedReader::new([path, beside], options, header, parts, ids)?;
    let (mut documents, mut tokens, mut slab) = (0, 0, Slab::default());
    while reader.fill(&mut slab)? {
        documents += slab.documents.len();
        tokens += slab.ids.len();
        slab.clear();
    }
    Ok((documents, tokens))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(code: u8, sizes: &[i32], pointers: &[i64], bounds: &[i64]) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &1u64.to_le_bytes(), &[code]].concat();
        bytes.extend((sizes.len() as u64).to_le_bytes());
        bytes.extend((bounds.len() as u64).to_le_bytes());
        bytes.extend(sizes.iter().flat_map(|n| n.to_le_bytes()));
        bytes.extend(pointers.iter().chain(bounds).flat_map(|n| n.to_le_bytes()));
        bytes
    }

    fn read(index: &[u8], ids: &[u8]) -> Result<(usize, usize), String> {
        read_bytes(index, ids, &Options::default()).map_err(|e| e.to_string())
    }

    #[test]
    fn sequences_between_bounds_are_a_document() {
        let ids = [7u8; 24];
        assert_eq!(read(&index(8, &[3, 0, 9], &[0, 6, 6], &[0, 2, 2, 3]), &ids), Ok((3, 12)));
        assert_eq!(read(&index(1, &[24], &[0], &[0, 1]), &ids), Ok((1, 10)), "T + 1 ids are kept");
        assert_eq!(read(&index(8, &[], &[], &[0]), &[]), Ok((0, 0)));
        assert_eq!(read(&index(8, &[], &[], &[]), &[]), Ok((0, 0)));
        for (code, width) in [(1, 1), (2, 1), (3, 2), (4, 4), (8, 2), (9, 4)] {
            assert_eq!(read(&index(code, &[8], &[0], &[0, 1]), &[1; 32][..8 * width]), Ok((1, 8)), "{code}");
        }
        for code in [5, 10] {
            assert_eq!(read(&index(code, &[3], &[0], &[0, 1]), &[0; 24]), Ok((1, 3)));
        }
    }

    #[test]
    fn an_index_that_lies_is_refused() {
        let ids = [7u8; 24];
        let good = index(8, &[3, 9], &[0, 6], &[0, 1, 2]);
        assert_eq!(read(&good, &ids), Ok((2, 12)));
        for end in 0..good.len() {
            assert!(read(&good[..end], &ids).is_err(), "{end}");
        }
        let with = |at: usize, bytes: &[u8]| {
            let mut lying = good.clone();
            lying[at..at + bytes.len()].copy_from_slice(bytes);
            lying
        };
        for (index, says) in [
            (Vec::new(), "not an index of ids"),
            (with(0, b"NOT"), "not an index of ids"),
            (with(9, &[2]), "an index of version 2"),
            (with(17, &[6]), "floating-point"),
            (with(17, &[0]), "unknown type 0"),
            (with(17, &[99]), "unknown type 99"),
            (with(18, &[255; 8]), "but this one has 82"),
            (with(26, &[255; 8]), "but this one has 82"),
            ([&good[..], &[0, 0]].concat(), "of several kinds"),
            ([&good[..], &[0]].concat(), "but this one has 83"),
            (index(8, &[-3, 9], &[0, 6], &[0, 1, 2]), "sequence 0 has -3 ids"),
            (index(8, &[i32::MAX, 9], &[0, 6], &[0, 1, 2]), "sequence 0 ends at byte 4294967294"),
            (
                index(8, &[3, 9], &[0, 5], &[0, 1, 2]),
                "sequence 1 starts at byte 5, but the one before ends at byte 6",
            ),
            (index(8, &[3, 9], &[0, 7], &[0, 1, 2]), "sequence 1 starts at byte 7"),
            (index(8, &[3, 9], &[0, -1], &[0, 1, 2]), "sequence 1 starts at byte -1"),
            (index(8, &[3, 10], &[0, 6], &[0, 1, 2]), "sequence 1 ends at byte 26, but ids.bin has 24 bytes"),
            (index(8, &[3, 8], &[0, 6], &[0, 1, 2]), "ends at byte 22 of ids.bin, which has 24 bytes"),
            (index(8, &[3, 9], &[0, 6], &[0, 1, 1]), "its documents cover only 1 of 2 sequences"),
            (index(8, &[3, 9], &[0, 6], &[0, 2, 1]), "document 2 ends before sequence 1"),
            (index(8, &[3, 9], &[0, 6], &[0, 1, 3]), "document 2 ends before sequence 3"),
            (index(8, &[3, 9], &[0, 6], &[1, 2]), "does not start with the first sequence"),
            (index(8, &[3, 9], &[0, 6], &[-1, 2]), "sequence -1"),
            (index(8, &[3, 9], &[0, 6], &[]), "but no document"),
        ] {
            let said = read(&index, &ids).unwrap_err();
            assert!(said.contains(says) && said.starts_with("ids.idx: "), "{said} ({says})");
        }
        let negative = read(&index(4, &[1], &[0], &[0, 1]), &[255; 4]).unwrap_err();
        assert!(negative.contains("ids.bin, line 1: id number 0 is -1"), "{negative}");
        let large =
            read(&index(5, &[1, 1], &[0, 8], &[0, 1, 2]), &[[0; 8], [0, 0, 0, 0, 1, 0, 0, 0]].concat());
        assert!(large.unwrap_err().contains("line 2: id number 1 is 4294967296"));
    }
}
