//! What was named on the command line. Nothing else is read.
//!
//! | a path | is |
//! |---|---|
//! | a directory with the files of a study, a sweep, a training run or an audit | that |
//! | a directory of Hugging Face, a `.safetensors`, `.gguf` or `.byrote` file, an exact network | a model |
//! | `study.json`, `audit.json` | the directory it is in |
//! | a directory whose folders are such directories, or an empty one | a place where runs appear |
//! | everything else | text |
//!
//! Requests name things by ids that are given out here, never by paths. A path keeps its id for as long as the server runs, and no other
//! path gets it, so that an address that was shared means the same tomorrow. Files *inside* a directory are read only if they are really
//! there: a link that leads out of it is not followed, and a directory of texts that has one is refused. What is named twice is shown
//! once; a text is read as often as it is named, as by `byrote corpus`.

use crate::state::held;
use byrote::corpus::CorpusSpec;
use byrote::output::{Holds, holds};
use byrote::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;

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
    /// What a person at the terminal may not expect.
    pub notes: Vec<String>,
    _temporary: Option<tempfile::TempDir>,
    /// The ids of directories, and of models.
    directory_ids: Mutex<Ids>,
    model_ids: Mutex<Ids>,
}

/// The ids that were given out.
#[derive(Debug, Default)]
struct Ids {
    of: BTreeMap<PathBuf, String>,
    taken: BTreeSet<String>,
}

impl Ids {
    /// The id of a path: the one it has, or its name, made unique.
    fn of(&mut self, path: &Path, name: &str) -> String {
        if let Some(id) = self.of.get(path) {
            return id.clone();
        }
        let id = unique(name, |id| self.taken.contains(id));
        self.taken.insert(id.clone());
        self.of.insert(path.to_path_buf(), id.clone());
        id
    }
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
            notes: Vec::new(),
            _temporary: temporary,
            directory_ids: Mutex::default(),
            model_ids: Mutex::default(),
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
        // A pattern is judged by the files that it finds.
        if !is_pattern || path.exists() {
            let found = std::fs::metadata(path).map_err(|e| Error::io(path, "open", e))?;
            if found.is_dir() {
                // One that cannot be read would look like one in which runs are about to appear.
                std::fs::read_dir(path).map_err(|e| Error::io(path, "read", e))?;
            }
        }
        let kind = Kind::of(path);
        let mut path = path.to_path_buf();
        match kind {
            Kind::Text => {
                // Runs may still appear beside the texts of a directory.
                if path.is_dir() {
                    let found = real(&path)?;
                    if let Some(link) = link_out_of(&found) {
                        let link = path.join(link.strip_prefix(&found).unwrap_or(&link));
                        return Err(Error::format(
                            &link,
                            "a link that leads out of its directory; name what it leads to",
                        ));
                    }
                    self.parents.push(found);
                }
                self.corpus.paths.push(path);
            }
            Kind::Model => {
                // Many models are called model.safetensors, so the directory belongs to the name.
                let found = real(&path)?;
                if self.models.iter().any(|model| model.path == found) {
                    return Ok(());
                }
                let id = held(&self.model_ids).of(&found, &shown(&path, &found, 2));
                self.models.push(ModelPlace { name: id.clone(), id, path: found, inside: None });
            }
            Kind::Parent => {
                let found = real(&path)?;
                if !self.parents.contains(&found) {
                    self.note_texts(&path);
                    self.parents.push(found);
                }
            }
            Kind::Directory => {
                if path.is_file() {
                    path = path
                        .parent()
                        .filter(|p| !p.as_os_str().is_empty())
                        .unwrap_or(Path::new("."))
                        .to_path_buf();
                }
                let found = real(&path)?;
                if self.named.iter().any(|place| place.path == found) {
                    return Ok(());
                }
                let id = held(&self.directory_ids).of(&found, &short_name(&found));
                self.named.push(Place { id, name: shown(&path, &found, 1), path: found });
            }
        }
        Ok(())
    }

    /// Notes that texts beside runs are not read: they may be anything, such as a README, and a corpus is one.
    fn note_texts(&mut self, directory: &Path) {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().take(MOST_RUNS);
        let is_text =
            |path: &PathBuf| path.is_file() && Kind::of(path) == Kind::Text && has_ending_of_text(path);
        if let Some(text) = entries.map(|entry| entry.path()).filter(is_text).min() {
            let (directory, text) = (directory.display(), text.display());
            self.notes.push(format!(
                "{directory} is shown as a directory of runs; to read the text in it as the corpus, name it too: {text}"
            ));
        }
    }

    /// All directories that hold something, those that have appeared since included.
    pub fn directories(&self) -> Vec<Place> {
        let mut all = self.named.clone();
        let mut ids = held(&self.directory_ids);
        for parent in &self.parents {
            let inside = Place { id: String::new(), name: String::new(), path: parent.clone() };
            let entries = std::fs::read_dir(parent).into_iter().flatten().flatten().take(MOST_RUNS);
            let mut paths: Vec<PathBuf> =
                entries.filter_map(|entry| inside.file(entry.file_name())).collect();
            paths.sort();
            paths.retain(|path| {
                path.is_dir() && holds(path).is_some() && !all.iter().any(|p| p.path == *path)
            });
            for path in paths {
                let short = short_name(&path);
                let id = ids.of(&path, &short);
                // Directories with the same name are told apart by their parents.
                let name = if id == short { short } else { format!("{}/{short}", short_name(parent)) };
                all.push(Place { id, name, path });
            }
        }
        all
    }

    /// Whether a new training may have this name: its directory must not exist, and its id must not be that of another one.
    pub fn check_new(&self, name: &str) -> Result<()> {
        let path = self.runs.join(name);
        // What has appeared since the last look has a right to its name, too.
        let _ = self.directories();
        let ids = held(&self.directory_ids);
        let is_free = !ids.taken.contains(name) || ids.of.get(&path).is_some_and(|own| own == name);
        match is_free && path.symlink_metadata().is_err() {
            true => Ok(()),
            false => Err(Error::setting("name", format!("there is a run called {name:?} already"))),
        }
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
        let named: BTreeSet<PathBuf> = all.iter().map(|model| model.path.clone()).collect();
        for place in self.directories() {
            let mut files: Vec<PathBuf> = Vec::new();
            if let Some(path) = place.file("model.safetensors") {
                files.push(path);
            }
            if let Some(folder) = place.file("models") {
                let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten().take(MOST_MODELS);
                files.extend(entries.filter_map(|e| place.file(Path::new("models").join(e.file_name()))));
            }
            files.retain(|path| is_model_file(path) && !named.contains(path));
            files.sort();
            for path in files {
                let inner = path.strip_prefix(&place.path).unwrap_or(&path).display().to_string();
                let name = format!("{}/{inner}", place.name.trim_end_matches('/'));
                let id = held(&self.model_ids).of(&path, &format!("{}/{inner}", place.id));
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

/// How the files of exact networks begin; they are text, and end in what their author likes.
const EXACT: &[u8] = b"byrote exact network ";

fn is_model_file(path: &Path) -> bool {
    let ending = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
    path.is_file()
        && (matches!(ending.as_deref(), Some("safetensors" | "gguf" | "byrote")) || is_exact_network(path))
}

fn is_exact_network(path: &Path) -> bool {
    let mut start = Vec::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(EXACT.len() as u64).read_to_end(&mut start));
    read.is_ok() && start == EXACT
}

fn has_ending_of_text(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    matches!(
        ending.as_deref(),
        Some("txt" | "text" | "jsonl" | "ndjson" | "parquet" | "arrow" | "gz" | "zst")
    )
}

fn real(path: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(path).map_err(|e| Error::io(path, "open", e))
}

/// A link in a directory, or in one below it, that leads out of it.
fn link_out_of(directory: &Path) -> Option<PathBuf> {
    let mut left = vec![directory.to_path_buf()];
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                left.push(path);
            } else if kind.is_symlink() {
                // A link that leads nowhere leads to no file.
                let target = std::fs::canonicalize(&path);
                if target.is_ok_and(|target| !target.starts_with(directory)) {
                    return Some(path);
                }
            }
        }
    }
    None
}

fn short_name(path: &Path) -> String {
    path.file_name().map_or_else(|| "directory".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// A path as a person reads it: as it was typed, if that is short; of a path from the root or from above, the last `parts`.
fn shown(typed: &Path, found: &Path, parts: usize) -> String {
    let is_plain = typed.components().all(|part| matches!(part, Component::Normal(_)));
    if is_plain {
        return typed.components().collect::<PathBuf>().display().to_string();
    }
    let names: Vec<Component<'_>> =
        found.components().filter(|c| matches!(c, Component::Normal(_))).collect();
    let last: PathBuf = names[names.len().saturating_sub(parts)..].iter().collect();
    last.display().to_string()
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
        std::fs::write(at("exact.txt"), "byrote exact network 1\n{}").unwrap();
        let given = [
            "sweep",
            "audit/audit.json",
            "texts",
            "all",
            "empty",
            "hf",
            "a.txt",
            "m.safetensors",
            "exact.txt",
        ]
        .map(at);
        let places = Places::new(&CorpusSpec::files(given), None).unwrap();
        let ids: Vec<String> = places.directories().into_iter().map(|place| place.id).collect();
        assert_eq!(ids, ["sweep", "audit", "run"]);
        assert_eq!(places.corpus.paths, [at("texts"), at("a.txt")]);
        assert_eq!(places.models().len(), 3);
        // Nobody wants to read where a temporary directory is.
        let above = here.path().file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(places.models()[1].name, format!("{above}/m.safetensors"));
        assert_eq!(places.directories()[0].name, "sweep");
        assert_eq!(shown(Path::new("a/b/"), Path::new("/x/a/b"), 1), "a/b");
        assert_eq!(shown(Path::new("../b/m.gguf"), Path::new("/x/b/m.gguf"), 2), "b/m.gguf");
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
        // Texts: within the directory a link is fine.
        std::fs::create_dir_all(at("texts/deep")).unwrap();
        std::fs::write(at("texts/a.txt"), "x").unwrap();
        std::os::unix::fs::symlink(at("texts/a.txt"), at("texts/deep/inner.txt")).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("texts/deep/broken.txt")).unwrap();
        assert!(Places::new(&CorpusSpec::files([at("texts")]), None).is_ok());
        std::os::unix::fs::symlink("/etc", at("texts/deep/out")).unwrap();
        let refused = Places::new(&CorpusSpec::files([at("texts")]), None).unwrap_err().to_string();
        assert!(refused.contains("texts/deep/out"), "{refused}");
    }

    #[test]
    fn an_id_is_kept_and_never_given_to_another_path() {
        let here = tempfile::tempdir().unwrap();
        let at = |name: &str| here.path().join(name);
        let run = |name: &str| {
            std::fs::create_dir_all(at(name)).unwrap();
            std::fs::write(at(name).join("init.safetensors"), "").unwrap();
            std::fs::write(at(name).join("model.safetensors"), "").unwrap();
        };
        run("all/b");
        std::fs::create_dir(at("runs")).unwrap();
        let places = Places::new(&CorpusSpec::files([at("all")]), Some(&at("runs"))).unwrap();
        let ids = || places.directories().into_iter().map(|place| place.id).collect::<Vec<_>>();
        let models = || places.models().into_iter().map(|model| model.id).collect::<Vec<_>>();
        assert_eq!((ids(), models()), (vec!["b".to_owned()], vec!["b/model.safetensors".to_owned()]));
        // One that comes before it in every order, and has the same name.
        assert!(places.check_new("b").is_err() && places.check_new("c").is_ok());
        run("runs/b");
        assert_eq!(ids(), ["b-2", "b"]);
        assert_eq!(models(), ["b-2/model.safetensors", "b/model.safetensors"]);
        let path = std::fs::canonicalize(at("all/b")).unwrap();
        assert_eq!(places.directory("b").unwrap().path, path);
        assert_eq!(places.directory("b-2").unwrap().name, "runs/b");
        // Neither is the id of one that has vanished free again, except for itself.
        std::fs::remove_dir_all(at("all/b")).unwrap();
        assert_eq!(ids(), ["b-2"]);
        assert!(places.check_new("b").is_err() && places.directory("b").is_err());
        std::fs::remove_dir_all(at("runs/b")).unwrap();
        run("runs/c");
        assert_eq!(ids(), ["c"]);
        std::fs::remove_dir_all(at("runs/c")).unwrap();
        assert!(places.check_new("c").is_ok());
    }

    #[test]
    fn texts_beside_runs_are_not_passed_over_in_silence() {
        let here = tempfile::tempdir().unwrap();
        let at = |name: &str| here.path().join(name);
        std::fs::create_dir_all(at("all/run")).unwrap();
        std::fs::write(at("all/run/init.safetensors"), "").unwrap();
        let notes = |paths: &[&str]| {
            Places::new(&CorpusSpec::files(paths.iter().map(|p| at(p))), None).unwrap().notes
        };
        assert!(notes(&["all"]).is_empty());
        std::fs::write(at("all/b.txt"), "x").unwrap();
        std::fs::write(at("all/a.txt"), "x").unwrap();
        let found = notes(&["all"]);
        assert!(found.len() == 1 && found[0].ends_with("all/a.txt"), "{found:?}");
    }

    #[test]
    fn what_is_named_twice_is_shown_once() {
        let here = tempfile::tempdir().unwrap();
        let at = |name: &str| here.path().join(name);
        std::fs::create_dir_all(at("all/run")).unwrap();
        std::fs::write(at("all/run/manifest.toml"), "").unwrap();
        std::fs::write(at("m.safetensors"), "").unwrap();
        let given = ["all", "all/run", "all", "all/run", "m.safetensors", "m.safetensors"].map(at);
        let places = Places::new(&CorpusSpec::files(given), None).unwrap();
        assert_eq!((places.directories().len(), places.models().len()), (1, 1));
    }
}
