//! Files that appear whole or not at all.

use crate::{Error, Result};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A file being written under a temporary name beside its target; [`OutputFile::commit`] renames it. Dropped before
/// that, it leaves nothing behind. A target that exists and is not a regular file (a pipe, a terminal, a device) is
/// written to directly, since renaming would replace it.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Renamed(BufWriter<NamedTempFile>),
    Direct(BufWriter<File>),
}

impl OutputFile {
    /// Begins to write `path`.
    pub fn create(path: &Path) -> Result<Self> {
        let fail = |e| Error::io(path, "write", e);
        let inner = match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => return Err(fail(io::Error::from(io::ErrorKind::IsADirectory))),
            Ok(meta) if !meta.is_file() => {
                Inner::Direct(BufWriter::new(File::options().write(true).open(path).map_err(fail)?))
            }
            _ => {
                let directory = match path.parent() {
                    Some(p) if !p.as_os_str().is_empty() => p,
                    _ => Path::new("."),
                };
                let mut builder = tempfile::Builder::new();
                builder.prefix(".byrote-").suffix(".tmp");
                #[cfg(unix)]
                {
                    use std::os::unix::fs::PermissionsExt;
                    // Less the umask, as for any new file.
                    builder.permissions(fs::Permissions::from_mode(0o666));
                }
                Inner::Renamed(BufWriter::new(builder.tempfile_in(directory).map_err(fail)?))
            }
        };
        Ok(Self { path: path.to_path_buf(), inner })
    }

    /// The name the file will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Finishes the file and gives it its name.
    pub fn commit(self) -> Result<()> {
        let path = self.path;
        let fail = |e| Error::io(&path, "write", e);
        match self.inner {
            Inner::Direct(mut file) => file.flush().map_err(fail),
            Inner::Renamed(file) => {
                let file = file.into_inner().map_err(|e| fail(e.into_error()))?;
                file.as_file().sync_all().map_err(fail)?;
                file.persist(&path).map_err(|e| fail(e.error))?;
                Ok(())
            }
        }
    }

    /// Writes a whole file at once.
    pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
        let mut file = Self::create(path)?;
        file.write_all(bytes).map_err(|e| Error::io(path, "write", e))?;
        file.commit()
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.inner {
            Inner::Renamed(f) => f.write(bytes),
            Inner::Direct(f) => f.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.inner {
            Inner::Renamed(f) => f.flush(),
            Inner::Direct(f) => f.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_only_when_committed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        fs::write(&path, "old").unwrap();
        let mut file = OutputFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        OutputFile::write(&path, b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_directory_is_refused_and_a_missing_one_too() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(OutputFile::create(dir.path()).unwrap_err().kind(), "io");
        assert_eq!(OutputFile::create(&dir.path().join("no/where")).unwrap_err().kind(), "io");
    }
}
