//! Which kind of model a file holds: told by how it begins, whatever its name.

use byrote::construct::kajitsuka2024::file::{MAGIC, is_exact};
use byrote::incontext::NetworkFile;
use byrote::{Error, Result};
use std::fs::File;
use std::io::Read;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelKind {
    /// A one-layer transformer as safetensors.
    Tensors,
    /// A network of many layers as safetensors.
    Network,
    /// An exact network of kajitsuka2024, as text.
    Exact,
}

impl ModelKind {
    /// The kind of a file; whatever is no other kind is taken for tensors, whose reader says what is wrong with it.
    pub fn of(path: &Path) -> Result<Self> {
        let fail = |e| Error::io(path, "read", e);
        let mut start = Vec::new();
        File::open(path).map_err(fail)?.take(MAGIC.len() as u64).read_to_end(&mut start).map_err(fail)?;
        Ok(match is_exact(&start) {
            true => Self::Exact,
            false if NetworkFile::is_network(path)? => Self::Network,
            false => Self::Tensors,
        })
    }

    /// Refuses an exact network where only tensors will do.
    pub fn expect_tensors(path: &Path, why: &str) -> Result<()> {
        match Self::of(path)? {
            Self::Tensors | Self::Network => Ok(()),
            Self::Exact => Err(Error::format(path, format!("an exact network (kajitsuka2024): {why}"))),
        }
    }
}
