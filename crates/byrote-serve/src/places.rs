//! What was named on the command line. Nothing else is read.
//!
//! | a path | is |
//! |---|---|
//! | a directory with the files of a study, a sweep, a training run or an audit | that |
//! | a directory of Hugging Face, a `.safetensors`, `.gguf` or `.byrote` file | a model |
//! | `study.json`, `audit.json` | the directory it is in |
//! | a directory whose folders are such directories, or an empty one | a place where runs appear |
//! | everything else | text |
//!
//! Requests name things by ids that are given out here, never by paths. Files *inside* a directory are read only if they are really
//! there: a link that leads out of it is not followed.

use byrote::corpus::CorpusSpec;
use byrote::output::{Holds, holds};
use byrote::{Error, Result};
use std::path::{Component, Path, PathBuf};

/// A directory that was named, and is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its id in requests: its name, made unique.
    pub id: String,
    /// As it is shown.
    pub name: String,
    /// Without links.
    pub path: PathBuf,
}

impl Place {
    /// A file inside, by its path from here; none if it is not there, or if it is a link that leads out.
    pub fn file(&self, relative: impl AsRef<Path>) -> Option<PathBuf> {
        let relative = relative.as_ref();
        if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
            return None;
        }
        let found = std::fs::canonicalize(self.path.join(relative)).ok()?;
        found.starts_with(&self.path).then_some(found)
    }

    /// What the directory holds.
    pub fn holds(&self) -> Option<Holds> {
        holds(&self.path)
    }

    /// Whether all of these files, as far as they exist, are inside. The library reads them by their names.
    pub fn contains(&self, names: &[&str]) -> bool {
        let escapes = |name: &&str| {
            let path = self.path.join(name);
            path.symlink_metadata().is_ok() && self.file(name).is_none()
        };
        !names.iter().any(escapes)
    }
}

/// A model that was named, or that lies in a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelPlace {
    /// Its id in requests.
    pub id: String,
    /// As it is shown.
    pub name: String,
    /// The file, or the directory of Hugging Face.
    pub path: PathBuf,
    /// The directory that it must not leave, if it was found and not named.
    pub inside: Option<PathBuf>,
}

/// Everything that may be read.
#[derive(Debug)]
pub struct Places {
    /// The text, with how it is read.
    pub corpus: CorpusSpec,
    /// Directories that were named.
    named: Vec<Place>,
    /// Models that were named.
    models: Vec<ModelPlace>,
    /// Directories in which runs appear.
    parents: Vec<PathBuf>,
    /// Where trainings are written.
    pub runs: PathBuf,
    /// Whether they are kept.
    pub keeps_runs: bool,
    _temporary: Option<tempfile::TempDir>,
}

/// The most directories that are looked at in a place where runs appear.
const MOST_RUNS: usize = 1000;
/// The most models of a directory.
const MOST_MODELS: usize = 500;

impl Places {
    /// Sorts out what was named; `runs` is where trainings are written.
    ///
    /// # Errors
    /// If something does not exist.
    pub fn new(corpus: &CorpusSpec, runs: Option<&Path>) -> Result<Self> {
        let (runs, temporary) = match runs {
            Some(path) => {
                std::fs::create_dir_all(path).map_err(|e| Error::io(path, "create", e))?;
                (real(path)?, None)
            }
            None => {
                let made = tempfile::Builder::new().prefix("byrote-serve-").tempdir();
                let made = made.map_err(|e| Error::io(std::env::temp_dir(), "write into", e))?;
                (real(made.path())?, Some(made))
            }
        };
        let mut text = corpus.clone();
        text.paths.clear();
        let mut places = Self {
            corpus: text,
            named: Vec::new(),
            models: Vec::new(),
            parents: vec![runs.clone()],
            runs,
            keeps_runs: temporary.is_none(),
            _temporary: temporary,
        };
        for path in &corpus.paths {
            places.add(path)?;
        }
        places.corpus.resolve()?;
        Ok(places)
    }

    fn add(&mut self, path: &Path) -> Result<()> {
        if path.as_os_str() == "-" {
            return Err(Error::setting("paths", "standard input cannot be read again; name a file"));
        }
        let is_pattern = path.to_string_lossy().contains(['*', '?', '[']);
        if !path.exists() && !is_pattern {
            return Err(Error::io(path, "open", std::io::ErrorKind::NotFound.into()));
        }
        let kind = Kind::of(path);
        let mut path = path.to_path_buf();
        match kind {
            Kind::Text => {
                // Runs may still appear beside the texts of a directory.
                if path.is_dir() {
                    self.parents.push(real(&path)?);
                }
                self.corpus.paths.push(path);
            }
            Kind::Model => {
                let name = path.display().to_string();
                let id = unique(&name, |id| self.models.iter().any(|m| m.id == id));
                self.models.push(ModelPlace { id, name, path: real(&path)?, inside: None });
            }
            Kind::Parent => self.parents.push(real(&path)?),
            Kind::Directory => {
                if path.is_file() {
                    path = path
                        .parent()
                        .filter(|p| !p.as_os_str().is_empty())
                        .unwrap_or(Path::new("."))
                        .to_path_buf();
                }
                let found = real(&path)?;
                let id = unique(&short_name(&found), |id| self.named.iter().any(|place| place.id == id));
                self.named.push(Place { id, name: path.display().to_string(), path: found });
            }
        }
        Ok(())
    }

    /// All directories that hold something, those that have appeared since included.
    pub fn directories(&self) -> Vec<Place> {
        let mut all = self.named.clone();
        for parent in &self.parents {
            let inside = Place { id: String::new(), name: String::new(), path: parent.clone() };
            let entries = std::fs::read_dir(parent).into_iter().flatten().flatten().take(MOST_RUNS);
            let mut paths: Vec<PathBuf> =
                entries.filter_map(|entry| inside.file(entry.file_name())).collect();
            paths.sort();
            for path in paths.into_iter().filter(|path| path.is_dir() && holds(path).is_some()) {
                let name = short_name(&path);
                let id = unique(&name, |id| all.iter().any(|place| place.id == id));
                all.push(Place { id, name, path });
            }
        }
        all
    }

    /// The directory with this id.
    pub fn directory(&self, id: &str) -> Result<Place> {
        self.directories()
            .into_iter()
            .find(|place| place.id == id)
            .ok_or_else(|| Error::setting("id", format!("there is no directory {id:?} here")))
    }

    /// All models: those that were named, and those in the directories.
    pub fn models(&self) -> Vec<ModelPlace> {
        let mut all = self.models.clone();
        for place in self.directories() {
            let mut files: Vec<PathBuf> = Vec::new();
            if let Some(path) = place.file("model.safetensors") {
                files.push(path);
            }
            if let Some(folder) = place.file("models") {
                let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten().take(MOST_MODELS);
                files.extend(entries.filter_map(|e| place.file(Path::new("models").join(e.file_name()))));
            }
            // A study writes exact networks as text.
            let is_text =
                |path: &Path| path.is_file() && path.extension().is_some_and(|ending| ending == "txt");
            files.retain(|path| is_model_file(path) || is_text(path));
            files.sort();
            for path in files {
                let inner = path.strip_prefix(&place.path).unwrap_or(&path).display().to_string();
                let name = format!("{}/{inner}", place.name.trim_end_matches('/'));
                let id = unique(&format!("{}/{inner}", place.id), |id| all.iter().any(|m| m.id == id));
                all.push(ModelPlace { id, name, path, inside: Some(place.path.clone()) });
            }
        }
        all
    }

    /// The model with this id.
    pub fn model(&self, id: &str) -> Result<ModelPlace> {
        let found = self.models().into_iter().find(|model| model.id == id);
        found.ok_or_else(|| Error::setting("id", format!("there is no model {id:?} here")))
    }
}

/// What a path is.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Model,
    Directory,
    Parent,
}

impl Kind {
    fn of(path: &Path) -> Self {
        if path.is_dir() {
            if holds(path).is_some_and(|kind| kind != Holds::Page) {
                return Self::Directory;
            }
            if path.join("config.json").exists() {
                return Self::Model;
            }
            let mut entries =
                std::fs::read_dir(path).into_iter().flatten().flatten().take(MOST_RUNS).peekable();
            if entries.peek().is_none() || entries.any(|e| holds(&e.path()).is_some()) {
                return Self::Parent;
            }
            return Self::Text;
        }
        let is_named = |names: &[&str]| path.file_name().is_some_and(|name| names.iter().any(|n| name == *n));
        match is_named(&["study.json", "audit.json"]) {
            true => Self::Directory,
            false if is_model_file(path) => Self::Model,
            false => Self::Text,
        }
    }
}

fn is_model_file(path: &Path) -> bool {
    let ending = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
    path.is_file() && matches!(ending.as_deref(), Some("safetensors" | "gguf" | "byrote"))
}

fn real(path: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(path).map_err(|e| Error::io(path, "open", e))
}

fn short_name(path: &Path) -> String {
    path.file_name().map_or_else(|| "directory".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// A name that is not taken: with a number behind it, if need be.
fn unique(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    if !is_taken(name) {
        return name.to_owned();
    }
    (2..).map(|n: u32| format!("{name}-{n}")).find(|id| !is_taken(id)).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_sorted_by_what_they_are() {
        let here = tempfile::tempdir().unwrap();
        let at = |name: &str| here.path().join(name);
        for folder in ["sweep", "audit", "texts", "all/run", "empty", "hf"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        for file in [
            "sweep/manifest.toml",
            "audit/audit.json",
            "texts/a.txt",
            "all/run/init.safetensors",
            "hf/config.json",
        ] {
            std::fs::write(at(file), "").unwrap();
        }
        std::fs::write(at("a.txt"), "x").unwrap();
        std::fs::write(at("m.safetensors"), "").unwrap();
        let given =
            ["sweep", "audit/audit.json", "texts", "all", "empty", "hf", "a.txt", "m.safetensors"].map(at);
        let places = Places::new(&CorpusSpec::files(given), None).unwrap();
        let ids: Vec<String> = places.directories().into_iter().map(|place| place.id).collect();
        assert_eq!(ids, ["sweep", "audit", "run"]);
        assert_eq!(places.corpus.paths, [at("texts"), at("a.txt")]);
        assert_eq!(places.models().len(), 2);
        assert!(Places::new(&CorpusSpec::files([at("none.txt")]), None).is_err());
        assert!(places.directory("../sweep").is_err() && places.model("/etc/passwd").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_that_lead_out_are_not_followed() {
        let here = tempfile::tempdir().unwrap();
        let at = |name: &str| here.path().join(name);
        std::fs::create_dir_all(at("run/models")).unwrap();
        std::fs::write(at("secret.safetensors"), "x").unwrap();
        std::fs::write(at("run/manifest.toml"), "").unwrap();
        std::fs::write(at("run/models/own.safetensors"), "").unwrap();
        std::os::unix::fs::symlink(at("secret.safetensors"), at("run/models/link.safetensors")).unwrap();
        std::os::unix::fs::symlink(at("secret.safetensors"), at("run/journal.jsonl")).unwrap();
        let places = Places::new(&CorpusSpec::files([at("run")]), None).unwrap();
        let place = places.directory("run").unwrap();
        assert!(place.file("models/own.safetensors").is_some());
        assert!(place.file("models/link.safetensors").is_none());
        for outside in ["../secret.safetensors", "/etc/passwd", "models/../../secret.safetensors", ".."] {
            assert!(place.file(outside).is_none(), "{outside}");
        }
        assert!(
            !place.contains(&["manifest.toml", "journal.jsonl"])
                && place.contains(&["manifest.toml", "none"])
        );
        assert_eq!(places.models().len(), 1);
    }
}
