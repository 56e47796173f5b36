//! No output may replace an input or another output.

use byrote::{Error, Result};
use std::path::{Path, PathBuf};

/// A file by identity: links and hard links to one file are the same.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    path: PathBuf,
    /// Device and number of an existing file.
    node: Option<(u64, u64)>,
}

impl Identity {
    fn of(path: &Path) -> Self {
        Self { path: real(path), node: node(path) }
    }

    fn is(&self, other: &Self) -> bool {
        self.path == other.path || (self.node.is_some() && self.node == other.node)
    }
}

/// The path without links; of a file that does not exist yet, its directory's.
fn real(path: &Path) -> PathBuf {
    if let Ok(real) = std::fs::canonicalize(path) {
        return real;
    }
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (std::fs::canonicalize(directory), path.file_name()) {
        (Ok(directory), Some(name)) => directory.join(name),
        _ => path.to_path_buf(),
    }
}

#[cfg(unix)]
fn node(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).ok()?;
    // A device such as /dev/null or a terminal may be written to by any number of outputs.
    found.is_file().then(|| (found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn node(_: &Path) -> Option<(u64, u64)> {
    None
}

/// Whether writing to this path replaces nothing: a device, a pipe, a terminal.
fn is_stream(path: &Path) -> bool {
    path.as_os_str() == "-" || std::fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir())
}

/// A directory that is written to, and files in it.
pub fn in_directory(directory: &Path, files: &[&str]) -> Vec<PathBuf> {
    std::iter::once(directory.to_path_buf()).chain(files.iter().map(|file| directory.join(file))).collect()
}

/// Refuses an output, named by its setting, that is the same file as an input or as another output.
pub fn check<'i, 'o>(
    inputs: impl IntoIterator<Item = &'i Path>,
    outputs: impl IntoIterator<Item = (&'static str, &'o Path)>,
) -> Result<()> {
    let identified = |path: &Path| (!is_stream(path)).then(|| Identity::of(path));
    let inputs: Vec<(&Path, Identity)> =
        inputs.into_iter().filter_map(|p| Some((p, identified(p)?))).collect();
    let mut before: Vec<(&'static str, Identity)> = Vec::new();
    for (name, path) in outputs {
        let Some(own) = identified(path) else { continue };
        if let Some((input, _)) = inputs.iter().find(|(_, input)| input.is(&own)) {
            let message = format!("{} would replace the input {}", path.display(), input.display());
            return Err(Error::setting(name, message));
        }
        if let Some((other, _)) = before.iter().find(|(_, other)| other.is(&own)) {
            return Err(Error::setting(name, format!("{} is the same file as `{other}`", path.display())));
        }
        before.push((name, own));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_hard_links_and_detours_are_the_same_file() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("a"), "text").unwrap();
        std::fs::write(at("b"), "text").unwrap();
        std::fs::hard_link(at("a"), at("hard")).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        let input = at("a");
        for same in [at("a"), at("hard"), at("folder/../a")] {
            let error = check([input.as_path()], [("out", same.as_path())]).unwrap_err();
            assert_eq!(error.setting_name(), Some("out"), "{error}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(at("a"), at("soft")).unwrap();
            assert!(check([input.as_path()], [("out", at("soft").as_path())]).is_err());
        }
        assert!(check([input.as_path()], [("out", at("b").as_path()), ("csv", at("new").as_path())]).is_ok());
        let (new, detour) = (at("new"), at("folder/../new"));
        assert!(check([], [("save", new.as_path()), ("list", detour.as_path())]).is_err());
    }
}
