//! Atomic output (a file appears complete or not at all), and tables as CSV.
//!
//! ```
//! let directory = tempfile::tempdir()?;
//! let path = directory.path().join("results.csv");
//! byrote::output::OutputFile::write(&path, b"n,gap\n100,0.5\n")?;
//! assert_eq!(std::fs::read_to_string(&path)?, "n,gap\n100,0.5\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod csv_text;
mod directory;
mod live;
mod lock;

pub(crate) use csv_text::csv_field;
pub use csv_text::csv_text;
pub use directory::{Claim, Holds, check, claim, holds};
pub use live::{LIVE_FILE, LiveLine, LiveLog, LivePoint};
pub(crate) use lock::now;
pub use lock::{holder, lock};

use crate::{Error, Result};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// A file that is written under a temporary name beside its target until [`OutputFile::commit`] renames it. If it is dropped
/// before that, nothing is left behind. Symbolic links are followed: the file they point to is replaced, not the link. An
/// existing target that is not a regular file (a pipe, a terminal, a device), or that refers to an open file
/// (`/dev/stdout`), is written directly, because renaming would replace it.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    /// The file and its temporary name, apart: errors of a named file end in that name, which says nothing to a user.
    Renamed(BufWriter<File>, TempPath),
    Direct(BufWriter<File>),
}

impl OutputFile {
    /// Starts to write `path`.
    pub fn create(path: &Path) -> Result<Self> {
        // The name alone: the temporary name that the system also mentions says nothing to a user.
        let fail = |e: io::Error| {
            let source = match e.kind() {
                io::ErrorKind::NotFound => io::Error::new(e.kind(), "its directory does not exist"),
                kind => io::Error::from(kind),
            };
            Error::io(path, "write", source)
        };
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let inner = match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => return Err(fail(io::Error::from(io::ErrorKind::IsADirectory))),
            Ok(meta) if !meta.is_file() || stands_for_an_open_file(path) => {
                Inner::Direct(BufWriter::new(File::options().write(true).open(path).map_err(fail)?))
            }
            _ => {
                let directory = match target.parent() {
                    Some(p) if !p.as_os_str().is_empty() => p,
                    _ => Path::new("."),
                };
                let mut builder = tempfile::Builder::new();
                let prefix = Self::temporary_prefix();
                builder.prefix(&prefix).suffix(".tmp");
                #[cfg(unix)]
                {
                    use std::os::unix::fs::PermissionsExt;
                    // Reduced by the umask, as for any new file.
                    builder.permissions(fs::Permissions::from_mode(0o666));
                }
                let (file, name) = builder.tempfile_in(directory).map_err(fail)?.into_parts();
                Inner::Renamed(BufWriter::new(file), name)
            }
        };
        let path = if matches!(inner, Inner::Renamed(..)) { target } else { path.to_path_buf() };
        Ok(Self { path, inner })
    }

    /// Returns the prefix of this process's temporary names, for programs that exit without unwinding and clean up themselves.
    pub fn temporary_prefix() -> String {
        format!(".byrote-{}-", std::process::id())
    }

    /// Returns whether a file name is a temporary one, of this process or another.
    pub fn is_temporary(name: &std::ffi::OsStr) -> bool {
        let name = name.to_string_lossy();
        name.starts_with(".byrote-") && name.ends_with(".tmp")
    }

    /// Returns the path that the file will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Flushes everything written so far to the disk.
    pub fn complete(&mut self) -> Result<()> {
        let done = match &mut self.inner {
            Inner::Direct(file) => file.flush(),
            Inner::Renamed(file, _) => file.flush().and_then(|()| file.get_ref().sync_all()),
        };
        done.map_err(|e| Error::io(&self.path, "write", e))
    }

    /// Completes the file and renames it to its target.
    pub fn commit(mut self) -> Result<()> {
        self.complete()?;
        let path = self.path;
        let fail = |e| Error::io(&path, "write", e);
        match self.inner {
            Inner::Direct(_) => Ok(()),
            Inner::Renamed(file, name) => {
                drop(file);
                name.persist(&path).map_err(|e| fail(e.error))
            }
        }
    }

    /// Writes a complete file.
    pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
        let mut file = Self::create(path)?;
        file.write_all(bytes).map_err(|e| Error::io(path, "write", e))?;
        file.commit()
    }
}

/// Returns whether a path names an open file: `/dev/stdout` and the like lead to a regular file when output is redirected,
/// but must still be written directly.
fn stands_for_an_open_file(path: &Path) -> bool {
    let mut path = path.to_path_buf();
    // Chains of links are short, and a cycle has no metadata, so it never gets here.
    for _ in 0..16 {
        if path.starts_with("/dev") || path.starts_with("/proc") {
            return true;
        }
        match fs::read_link(&path) {
            Ok(next) => path = path.parent().unwrap_or(Path::new(".")).join(next),
            Err(_) => return false,
        }
    }
    false
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.inner {
            Inner::Renamed(f, _) => f.write(bytes),
            Inner::Direct(f) => f.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.inner {
            Inner::Renamed(f, _) => f.flush(),
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

    #[cfg(unix)]
    #[test]
    fn a_link_is_followed_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        OutputFile::write(&link, b"new").unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let out = dir.path().join("out");
        std::os::unix::fs::symlink("/proc/self/fd/1", &out).unwrap();
        assert!(stands_for_an_open_file(&out) && !stands_for_an_open_file(&link));
    }

    #[test]
    fn a_directory_and_a_path_in_a_missing_directory_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(OutputFile::create(dir.path()).unwrap_err().kind(), "io");
        let missing = OutputFile::create(&dir.path().join("no/where")).unwrap_err();
        assert_eq!(missing.kind(), "io");
        assert!(missing.to_string().ends_with("its directory does not exist"), "{missing}");
    }
}
