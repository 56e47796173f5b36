//! Which files a path means: the file itself, the files of a directory, or the files that match a pattern.

use super::input::{is_known, is_stdin};
use crate::corpus::options::Format;
use crate::{Error, Result};
use glob::{MatchOptions, Pattern};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// The files that paths mean, in the order of the paths; those of a directory or a pattern in the byte order of their paths.
///
/// A path that exists means itself, even if it looks like a pattern. A directory means the files in it and below it whose names
/// a reader knows, or all of them if the format is given.
pub(crate) fn expand(paths: &[PathBuf], format: Option<Format>) -> Result<Vec<PathBuf>> {
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        match std::fs::metadata(path) {
            _ if is_stdin(path) => files.push(path.clone()),
            Ok(found) if found.is_dir() => files.extend(of_directory(path, format)?),
            Err(_) if is_pattern(path) && path.symlink_metadata().is_err() => {
                files.extend(of_pattern(path)?);
            }
            // A file, or an error that opening it will explain.
            _ => files.push(path.clone()),
        }
    }
    if matches!(format, None | Some(Format::Bin)) { without_indices(files) } else { Ok(files) }
}

fn is_pattern(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.contains(['*', '?', '[']))
}

fn of_directory(root: &Path, format: Option<Format>) -> Result<Vec<PathBuf>> {
    let files = walk(root, usize::MAX, false, |path| format.is_some() || is_known(path))?;
    if files.is_empty() {
        let message = match format {
            Some(_) => "is a directory without files",
            None => {
                "is a directory without files to read (.txt, .text, .jsonl, .ndjson, .parquet, .arrow, .npy, .bin, or .gz and \
                 .zst of the first four); name the files, or set `format` to read all of them"
            }
        };
        return Err(Error::format(root, message));
    }
    Ok(files)
}

fn of_pattern(path: &Path) -> Result<Vec<PathBuf>> {
    // The longest part without special characters is the directory to search.
    let special = path.components().position(|c| is_pattern(Path::new(c.as_os_str()))).unwrap_or(0);
    let root: PathBuf = path.components().take(special).collect();
    let rest: PathBuf = path.components().skip(special).collect();
    let pattern = Pattern::new(&root.join(&rest).to_string_lossy())
        .map_err(|e| Error::format(path, format!("no such file, and not a pattern: {}", e.msg)))?;
    let here = root.as_os_str().is_empty();
    let plain = |path: &Path| if here { path.strip_prefix(".").unwrap_or(path) } else { path }.to_path_buf();
    let options = MatchOptions {
        case_sensitive: true,
        require_literal_separator: true,
        require_literal_leading_dot: true,
    };
    let matches = |path: &Path| pattern.matches_path_with(&plain(path), options);
    let names: Vec<&OsStr> = rest.iter().collect();
    let depth = if names.iter().any(|name| *name == "**") { usize::MAX } else { names.len() };
    let hidden = names.iter().any(|name| is_hidden(name));
    let root = if here { Path::new(".") } else { &root };
    let files = if root.is_dir() { walk(root, depth, hidden, matches)? } else { Vec::new() };
    if files.is_empty() {
        return Err(Error::format(path, "no file matches this pattern"));
    }
    Ok(files.iter().map(|path| plain(path)).collect())
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// The files below a directory that are wanted; links are followed.
fn walk(root: &Path, depth: usize, hidden: bool, wanted: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let shown = |name: &OsStr| hidden || !is_hidden(name);
    let entries = WalkDir::new(root).follow_links(true).max_depth(depth).into_iter();
    let mut files = Vec::new();
    for entry in entries.filter_entry(|entry| entry.depth() == 0 || shown(entry.file_name())) {
        match entry {
            Ok(entry) if entry.file_type().is_file() && wanted(entry.path()) => {
                files.push(entry.into_path());
            }
            Ok(_) => {}
            Err(error) => {
                let missing = error.io_error().is_some_and(|e| e.kind() == io::ErrorKind::NotFound);
                let would_be_read = |path: &Path| path.file_name().is_none_or(shown) && wanted(path);
                // A link that leads nowhere matters only if it would be read.
                if !missing || error.path().is_none_or(would_be_read) {
                    return Err(unreadable(root, error));
                }
            }
        }
    }
    files.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
    Ok(files)
}

fn unreadable(root: &Path, error: walkdir::Error) -> Error {
    let path = error.path().unwrap_or(root).to_path_buf();
    match error.loop_ancestor().map(Path::to_path_buf) {
        Some(ancestor) => Error::format(path, format!("is a link that leads back to {}", ancestor.display())),
        None => Error::io(path, "read", error.into_io_error().unwrap_or(io::ErrorKind::Other.into())),
    }
}

/// Replaces indices of ids (`x.idx`) by the ids themselves (`x.bin`), which are read with the index beside them.
fn without_indices(files: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
    let is_index = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "idx");
    if !files.iter().any(is_index) {
        return Ok(files);
    }
    let given: BTreeSet<PathBuf> = files.iter().filter(|path| !is_index(path)).cloned().collect();
    let mut kept = Vec::with_capacity(files.len());
    for path in files {
        let ids = path.with_extension("bin");
        if !is_index(&path) || !path.exists() {
            kept.push(path);
        } else if given.contains(&ids) {
        } else if ids.exists() {
            kept.push(ids);
        } else {
            let message = format!(
                "is an index of ids, but {} does not exist; set `format` to read it as another kind of file",
                ids.display()
            );
            return Err(Error::format(path, message));
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new(files: &[&str]) -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            for name in files {
                let path = tree.path(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "x").unwrap();
            }
            tree
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        /// What a path means, relative to the tree.
        fn of(&self, name: &str, format: Option<Format>) -> Result<Vec<String>> {
            let found = expand(&[self.path(name)], format)?;
            let name =
                |path: &PathBuf| path.strip_prefix(self.0.path()).unwrap().to_str().unwrap().to_owned();
            Ok(found.iter().map(name).collect())
        }
    }

    #[test]
    fn a_directory_means_its_files_of_known_names_in_byte_order() {
        let tree = Tree::new(&[
            "d/b.txt",
            "d/C.TXT",
            "d/a-1.jsonl.zst",
            "d/a/z.txt.gz",
            "d/a/.hidden.txt",
            "d/.git/x.txt",
            "d/README.md",
            "d/x.json",
            "d/x.parquet",
            "d/x.npy",
            "d/x.npy.gz",
            "d/y.bin",
            "d/y.idx",
            "d/z.arrow",
            "e/README.md",
        ]);
        let known = [
            "d/C.TXT",
            "d/a-1.jsonl.zst",
            "d/a/z.txt.gz",
            "d/b.txt",
            "d/x.npy",
            "d/x.parquet",
            "d/y.bin",
            "d/z.arrow",
        ];
        assert_eq!(tree.of("d", None).unwrap(), known);
        assert_eq!(tree.of("d", Some(Format::Text)).unwrap().len(), 12, "all but the hidden ones");
        std::fs::create_dir(tree.path("empty")).unwrap();
        let says = |name, format| tree.of(name, format).unwrap_err().to_string();
        assert!(says("e", None).contains("a directory without files to read"), "{}", says("e", None));
        assert!(says("empty", Some(Format::Text)).ends_with("is a directory without files"));
    }

    #[test]
    fn a_pattern_means_the_files_that_match_and_an_existing_file_itself() {
        let tree = Tree::new(&[
            "d/1.txt",
            "d/2.txt",
            "d/sub/3.txt",
            "d/.4.txt",
            "d/[1].txt",
            "d/x.md",
            "d/.h/5.txt",
        ]);
        for (pattern, files) in [
            ("d/*.txt", &["d/1.txt", "d/2.txt", "d/[1].txt"][..]),
            ("d/**/*.txt", &["d/1.txt", "d/2.txt", "d/[1].txt", "d/sub/3.txt"]),
            ("d/?.txt", &["d/1.txt", "d/2.txt"]),
            ("d/[2-9].txt", &["d/2.txt"]),
            ("d/[1].txt", &["d/[1].txt"]),
            ("d/*/3.txt", &["d/sub/3.txt"]),
            ("d//*.md", &["d/x.md"]),
            ("d/.*.txt", &["d/.4.txt"]),
            ("d/.h/*", &["d/.h/5.txt"]),
        ] {
            assert_eq!(tree.of(pattern, None).unwrap(), files, "{pattern}");
        }
        for (pattern, says) in [
            ("d/*.csv", "no file matches this pattern"),
            ("nowhere/*.txt", "no file matches this pattern"),
            ("d/s*", "no file matches this pattern"),
            ("d/[1.txt", "not a pattern"),
            ("d/a**.txt", "not a pattern"),
        ] {
            let error = tree.of(pattern, None).unwrap_err().to_string();
            assert!(error.contains(says), "{pattern}: {error}");
        }
        // A missing file is left for the reader to report.
        assert_eq!(tree.of("d/none.txt", None).unwrap(), ["d/none.txt"]);
        assert_eq!(expand(&["-".into()], None).unwrap(), [PathBuf::from("-")]);
    }

    #[test]
    fn an_index_means_the_ids_beside_it() {
        let tree = Tree::new(&["x.bin", "x.idx", "alone.idx"]);
        assert_eq!(tree.of("x.idx", None).unwrap(), ["x.bin"]);
        assert_eq!(tree.of("x.*", None).unwrap(), ["x.bin"]);
        assert_eq!(tree.of("x.idx", Some(Format::Text)).unwrap(), ["x.idx"]);
        let error = tree.of("alone.idx", None).unwrap_err().to_string();
        assert!(error.contains("alone.bin does not exist"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_but_not_in_circles_and_not_to_nowhere() {
        use std::os::unix::fs::symlink;
        let tree = Tree::new(&["blobs/a", "d/b.txt"]);
        symlink(tree.path("blobs/a"), tree.path("d/a.txt")).unwrap();
        symlink(tree.path("nowhere"), tree.path("d/x.md")).unwrap();
        symlink("user@host", tree.path("d/.#b.txt")).unwrap();
        assert_eq!(tree.of("d", None).unwrap(), ["d/a.txt", "d/b.txt"]);
        assert_eq!(tree.of("d/*.txt", None).unwrap(), ["d/a.txt", "d/b.txt"]);
        symlink(tree.path("nowhere"), tree.path("d/c.txt")).unwrap();
        assert_eq!(tree.of("d", None).unwrap_err().kind(), "io");
        std::fs::remove_file(tree.path("d/c.txt")).unwrap();
        symlink(tree.path("d"), tree.path("d/loop")).unwrap();
        for name in ["d", "d/**/*.txt"] {
            let error = tree.of(name, None).unwrap_err().to_string();
            assert!(error.contains("a link that leads back to"), "{error}");
        }
    }
}
