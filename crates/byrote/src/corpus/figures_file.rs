//! Files of figures that jobs of a cluster save and another one adds.
//!
//! ```text
//! magic:7 bytes version:u8                              then a zstd frame with a checksum: one JSON object of integers
//! ```

use crate::output::OutputFile;
use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{BufReader, Read, Write};
use std::path::Path;

/// The most bytes of JSON that a file may hold.
const MOST_BYTES: u64 = 1 << 34;

/// A kind of file: how it begins, and what it is called.
#[derive(Debug)]
pub(super) struct FiguresFile {
    /// Seven bytes, and the version of the format.
    pub(super) magic: &'static [u8; 8],
    pub(super) name: &'static str,
    /// What to do with a file of another version.
    pub(super) advice: &'static str,
}

impl FiguresFile {
    pub(super) fn write(&self, figures: &impl Serialize, mut out: OutputFile) -> Result<()> {
        let path = out.path().to_path_buf();
        let fail = |e| Error::io(&path, "write", e);
        out.write_all(self.magic).map_err(fail)?;
        let mut frame = zstd::Encoder::new(out, 3).map_err(fail)?;
        frame.include_checksum(true).map_err(fail)?;
        serde_json::to_writer(&mut frame, figures).map_err(|e| fail(e.into()))?;
        let mut out = frame.finish().map_err(fail)?;
        out.complete()?;
        out.commit()
    }

    pub(super) fn open<T: DeserializeOwned>(&self, path: &Path) -> Result<T> {
        self.read(crate::input::open(path)?, path)
    }

    pub(super) fn read<T: DeserializeOwned>(&self, mut file: impl Read, path: &Path) -> Result<T> {
        let mut magic = [0; 8];
        let read = file.read_exact(&mut magic);
        if read.is_err() || magic[..7] != self.magic[..7] {
            return Err(Error::format(path, format!("not {} written by byrote", self.name)));
        }
        if magic[7] != self.magic[7] {
            let message = format!(
                "{} of format {}; this version reads format {}: {}",
                self.name, magic[7], self.magic[7], self.advice
            );
            return Err(Error::format(path, message));
        }
        let frame = zstd::Decoder::new(file).map_err(|e| Error::io(path, "read", e))?;
        let damaged = |e: serde_json::Error| Error::format(path, format!("damaged: {e}"));
        serde_json::from_reader(BufReader::new(frame.take(MOST_BYTES))).map_err(damaged)
    }

    /// Whether a file begins as one of this kind does.
    pub(super) fn is_kind_of(&self, path: &Path) -> Result<bool> {
        let mut magic = [0; 7];
        let read = crate::input::open(path)?.read_exact(&mut magic);
        Ok(read.is_ok() && magic == self.magic[..7])
    }
}
