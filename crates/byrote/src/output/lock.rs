//! The lock of a directory: one process at a time writes there.

use crate::{Error, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Returns the process that took the lock of a directory last, and when, in seconds since 1970. It may have ended since.
pub fn holder(directory: &Path) -> Option<(u32, u64)> {
    let mut text = String::new();
    File::open(directory.join("lock")).ok()?.take(100).read_to_string(&mut text).ok()?;
    let (process, time) = text.trim().strip_prefix("process ")?.split_once(" since ")?;
    Some((process.parse().ok()?, time.parse().ok()?))
}

/// Takes the lock of a directory for as long as the file is open; [`Error::Busy`] names the process that holds it.
pub fn lock(directory: &Path) -> Result<File> {
    let path = directory.join("lock");
    let mut file = OpenOptions::new()
        .create(true)
        .read(true)
        .write(true)
        .truncate(false)
        .open(&path)
        .map_err(|e| Error::io(&path, "write", e))?;
    match file.try_lock() {
        Ok(()) => {
            let text = format!("process {} since {}\n", std::process::id(), now());
            let written = file.set_len(0).and_then(|()| file.write_all(text.as_bytes()));
            written.map_err(|e| Error::io(&path, "write", e))?;
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            let holder = holder.trim();
            // "process 12 since 1794817114": a duration needs no time zone.
            let holder = match holder
                .rsplit_once(" since ")
                .and_then(|(who, t)| Some((who, t.parse::<u64>().ok()?)))
            {
                Some((who, time)) => format!("{who}, for {} s", now().saturating_sub(time)),
                None => holder.to_owned(),
            };
            Err(Error::Busy { path: directory.to_path_buf(), holder })
        }
        Err(TryLockError::Error(e)) => Err(Error::io(&path, "lock", e)),
    }
}
