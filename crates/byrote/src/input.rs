//! Opening files that may be anything: directories, devices, pipes, files of any size.
//!
//! Readers that hold a file whole go through [`read_capped`], so that no file, however large, takes more memory than a
//! file of its kind may. Sibling of [`crate::output`].

use crate::{Error, Result, units};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;

/// The largest plan, in bytes.
pub const MOST_PLAN: u64 = 16 << 20;
/// The largest `tokenizer.json`, in bytes.
pub const MOST_TOKENIZER: u64 = 256 << 20;
/// The largest file of any other kind that is held whole (sequences, labelled pairs, journals, exact networks), in bytes.
pub const MOST_HELD: u64 = 1 << 30;

/// Opens a file or a pipe. A directory is refused here, because the system refuses it only when it is read.
pub fn open(path: &Path) -> Result<File> {
    open_with_metadata(path).map(|(file, _)| file)
}

fn open_with_metadata(path: &Path) -> Result<(File, Metadata)> {
    let fail = |e| Error::io(path, "open", e);
    let file = File::open(path).map_err(fail)?;
    let metadata = file.metadata().map_err(fail)?;
    if metadata.is_dir() {
        return Err(fail(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    Ok((file, metadata))
}

/// Opens a regular file and returns its size in bytes; anything else (a pipe, a device) is refused. `what` completes the
/// sentence "... must be a regular file", for example "a model".
pub fn open_regular(path: &Path, what: &str) -> Result<(File, u64)> {
    let (file, metadata) = open_with_metadata(path)?;
    if !metadata.is_file() {
        return Err(Error::format(path, format!("{what} must be a regular file, not a pipe or a device")));
    }
    Ok((file, metadata.len()))
}

/// Reads a file or a pipe whole, provided that it has at most `limit` bytes. A larger file is refused before it is read, a
/// device always, and a pipe as soon as it exceeds the limit. `what` is what the file should be, for example "a plan".
///
/// ```
/// let file = tempfile::NamedTempFile::new()?;
/// std::fs::write(file.path(), "seeds = [1, 2]")?;
/// assert_eq!(byrote::input::read_capped(file.path(), 100, "a plan")?, b"seeds = [1, 2]");
/// assert!(byrote::input::read_capped(file.path(), 10, "a plan").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_capped(path: &Path, limit: u64, what: &str) -> Result<Vec<u8>> {
    let (file, metadata) = open_with_metadata(path)?;
    if is_device(&metadata) {
        return Err(Error::format(path, format!("is a device, not {what}")));
    }
    let too_large = |size: String| {
        let message = format!("has {size}, but {what} has at most {}", units::bytes(limit));
        Err(Error::format(path, message))
    };
    if metadata.len() > limit {
        return too_large(units::bytes(metadata.len()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|e| Error::io(path, "read", e))?;
    if bytes.len() as u64 > limit {
        return too_large(format!("more than {}", units::bytes(limit)));
    }
    Ok(bytes)
}

/// As [`read_capped`], for text in UTF-8.
pub fn read_text_capped(path: &Path, limit: u64, what: &str) -> Result<String> {
    let bytes = read_capped(path, limit, what)?;
    String::from_utf8(bytes).map_err(|e| {
        let valid = e.utf8_error().valid_up_to();
        let line = 1 + e.as_bytes()[..valid].iter().filter(|&&b| b == b'\n').count() as u64;
        Error::format_at(path, line, format!("not {what}: it is not text in UTF-8"))
    })
}

#[cfg(unix)]
fn is_device(metadata: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    metadata.file_type().is_char_device() || metadata.file_type().is_block_device()
}

#[cfg(not(unix))]
fn is_device(_: &Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparse_file_beyond_the_limit_is_refused_unread() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(9 << 30).unwrap();
        let error = read_capped(file.path(), MOST_PLAN, "a plan").unwrap_err().to_string();
        assert!(error.contains("a plan has at most 16"), "{error}");
        file.as_file().set_len(5).unwrap();
        assert_eq!(read_capped(file.path(), 5, "a plan").unwrap(), [0; 5]);
        assert!(read_capped(file.path(), 4, "a plan").is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_are_refused_and_directories_too() {
        let zero = Path::new("/dev/zero");
        assert!(read_capped(zero, 10, "a plan").unwrap_err().to_string().contains("a device, not a plan"));
        let error = open_regular(zero, "a model").unwrap_err().to_string();
        assert!(error.contains("a model must be a regular file"), "{error}");
        assert_eq!(open(Path::new("/")).unwrap_err().kind(), "io");
    }

    #[test]
    fn bytes_that_are_not_text_are_reported_with_their_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"a\nb\xff").unwrap();
        assert_eq!(read_text_capped(file.path(), 10, "a plan").unwrap_err().line(), Some(2));
    }
}
