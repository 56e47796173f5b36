//! What a directory holds, so that no result replaces one of another kind.
//!
//! A study, a sweep, a training run, an audit and a paper's figure each have a directory of their own. Some of their files have the same
//! names (`report.html`, `models`), so everything that writes into a directory claims it first.

use crate::{Error, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// A kind of result that has a directory of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// A study, complete or not.
    Study,
    /// A sweep, or a paper's figure that is one.
    Sweep,
    /// One training run.
    Training,
    /// An audit, complete or not.
    Audit,
    /// A page that belongs to none of the others: a paper's figure that is not a sweep.
    Page,
}

impl fmt::Display for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Study => "a study",
            Self::Sweep => "a sweep",
            Self::Training => "a training run",
            Self::Audit => "an audit",
            Self::Page => "the report of something else",
        })
    }
}

/// Returns what a directory holds; `None` if it holds none of these or does not exist.
pub fn holds(directory: &Path) -> Option<Holds> {
    let has = |names: &[&str]| names.iter().any(|name| directory.join(name).exists());
    // A study contains a sweep, and both have a page: the order matters.
    let kinds = [
        (Holds::Study, &["study.json", "closed_forms.json", "training/manifest.toml"][..]),
        (Holds::Sweep, &["manifest.toml", "journal.jsonl"]),
        (Holds::Training, &["checkpoint.safetensors", "init.safetensors"]),
        (Holds::Audit, &["audit.json", "scores.bin"]),
        (Holds::Page, &["report.html"]),
    ];
    kinds.into_iter().find(|(_, names)| has(names)).map(|(kind, _)| kind)
}

/// Refuses a directory that holds something of another kind, and a path that is not a directory.
pub fn check(directory: &Path, kind: Holds) -> Result<()> {
    let refuse = |what: String| Err(Error::setting("out", format!("{} {what}", directory.display())));
    if directory.exists() && !directory.is_dir() {
        return refuse("is a file, not a directory".into());
    }
    match holds(directory) {
        Some(other) if other != kind => refuse(format!("holds {other}; choose another directory")),
        _ => Ok(()),
    }
}

/// A directory that was claimed. If it was created for this and is still empty in the end, it is removed.
#[derive(Debug)]
#[must_use = "the directory is removed if it is empty when this is dropped"]
pub struct Claim {
    created: Option<PathBuf>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(path) = &self.created {
            // Fails where there is something in it, and that is meant.
            let _ = std::fs::remove_dir(path);
        }
    }
}

/// Claims a directory for one kind of result before any work is done for it: [`check`]s it, creates it where needed, and makes
/// sure that files can be written there.
///
/// ```
/// use byrote::output::{Holds, claim};
///
/// let place = tempfile::tempdir()?;
/// std::fs::write(place.path().join("study.json"), "{}")?;
/// assert!(claim(place.path(), Holds::Study).is_ok());
/// assert!(claim(place.path(), Holds::Sweep).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn claim(directory: &Path, kind: Holds) -> Result<Claim> {
    check(directory, kind)?;
    let created = (!directory.exists()).then(|| directory.to_path_buf());
    std::fs::create_dir_all(directory).map_err(|e| Error::io(directory, "create", e))?;
    let claim = Claim { created };
    // The error of the system names a temporary file, which says nothing to a user.
    tempfile::tempfile_in(directory)
        .map_err(|e| Error::io(directory, "write into", std::io::Error::from(e.kind())))?;
    Ok(claim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_recognized_and_refused_by_the_others() {
        let all = [Holds::Study, Holds::Sweep, Holds::Training, Holds::Page];
        for (kind, files) in [
            (Holds::Study, &["study.json", "report.html"][..]),
            (Holds::Study, &["closed_forms.json"]),
            (Holds::Study, &["training/manifest.toml"]),
            (Holds::Sweep, &["manifest.toml", "journal.jsonl", "report.html"]),
            (Holds::Training, &["model.safetensors", "init.safetensors", "curve.csv"]),
            (Holds::Audit, &["audit.json", "scores.bin"]),
            (Holds::Page, &["report.html"]),
        ] {
            let place = tempfile::tempdir().unwrap();
            for file in files {
                let path = place.path().join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "").unwrap();
            }
            assert_eq!(holds(place.path()), Some(kind));
            for wanted in all {
                let claimed = claim(place.path(), wanted);
                assert_eq!(claimed.is_ok(), wanted == kind, "{files:?}: {wanted}");
                if let Err(error) = claimed {
                    assert_eq!(error.setting_name(), Some("out"));
                    assert!(error.to_string().contains(&format!("holds {kind}; choose")), "{error}");
                }
            }
        }
    }

    #[test]
    fn other_files_belong_to_nothing() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("model.safetensors"), "").unwrap();
        std::fs::write(place.path().join("a.txt"), "").unwrap();
        assert_eq!(holds(place.path()), None);
        assert_eq!(holds(&place.path().join("missing")), None);
    }

    #[test]
    fn a_directory_that_stays_empty_is_removed_and_a_file_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let (empty, used) = (place.path().join("empty"), place.path().join("used"));
        drop(claim(&empty, Holds::Study).unwrap());
        assert!(!empty.exists());
        let claimed = claim(&used, Holds::Study).unwrap();
        std::fs::write(used.join("study.json"), "").unwrap();
        drop(claimed);
        assert!(used.join("study.json").exists());
        drop(claim(place.path(), Holds::Training).unwrap());
        assert!(place.path().exists(), "a directory that was there before is kept");
        let error = claim(&used.join("study.json"), Holds::Study).unwrap_err().to_string();
        assert!(error.ends_with("is a file, not a directory"), "{error}");
    }
}
