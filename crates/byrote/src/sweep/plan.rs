//! A grid of jobs in a TOML file.
//!
//! ```toml
//! name = "widths"
//! seeds = [0, 1, 2]
//!
//! [corpus]
//! builtin = [100, 200, 400]        # numbers of built-in stories
//! exact_length = true
//!
//! [model]
//! d_mlp = [16, 64, 256]
//!
//! [training]
//! optimizer = "lbfgs"
//! ```
//!
//! A list is an axis of the grid; the first axis varies slowest, seeds fastest. A section that is written several times, as
//! `[[model]]`, is several grids, one after the other. `seed_corpora = true` adds the seed of a job to that of its corpus, so
//! that generated corpora differ from seed to seed too. The keys are the fields of [`CorpusSpec`], [`ModelSpec`] and
//! [`TrainSpec`]; `docs/plans.md` lists them.
//!
//! Models that are trained in different ways are grids of their own, `[[grid]]`. A grid may have `seeds` and sections of its own,
//! as `[grid.model]`; what it does not have, it takes from the top of the plan.
//!
//! ```
//! let plan = byrote::sweep::Plan::parse("seeds = [0, 1]\n[model]\nd_mlp = [16, 64]", "widths")?;
//! assert_eq!(plan.jobs.len(), 4);
//! let error = byrote::sweep::Plan::parse("[corpus]\nn_ctxx = 3", "x").unwrap_err();
//! assert_eq!(error.to_string(), "plan, line 2: unknown key `n_ctxx` in [corpus]; did you mean `n_ctx`?");
//! # Ok::<(), byrote::Error>(())
//! ```

use super::corpora::Corpora;
use super::job::{Job, modern};
use crate::corpus::{CorpusSpec, TokenizerChoice};
use crate::input::{MOST_PLAN, read_text_capped};
use crate::model::{ModelSpec, Preset};
use crate::setting::{fields, read_object, suggestion};
use crate::train::TrainSpec;
use crate::{Error, Result};
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

const TOP: &[&str] = &["name", "seeds", "seed_corpora", "corpus", "model", "training", "grid"];
const OF_A_GRID: &[&str] = &["seeds", "corpus", "model", "training"];

/// The maximum number of jobs of a plan.
const MOST: usize = 100_000;

/// A grid, expanded into its jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The name of the plan, and of its run directory unless another is given.
    pub name: String,
    /// Its jobs, in order.
    pub jobs: Vec<Job>,
    /// Whether the seeds of corpora depend on those of the jobs.
    pub seed_corpora: bool,
    /// The command that runs it, for its manifest.
    pub command: Option<String>,
}

impl Plan {
    /// Estimates how many seconds all jobs take with all threads.
    pub fn estimated_seconds(&self, corpora: &Corpora) -> f64 {
        self.jobs.iter().map(|job| job.estimated_seconds(corpora)).sum()
    }

    /// Makes every job take all its steps: no job stops near the floor or because it stalls.
    pub fn without_stops(&mut self) {
        for job in &mut self.jobs {
            job.training.stop_gap = None;
            job.training.stop_relative_gap = Some(0.0);
            job.training.stall = 0.0;
        }
    }

    /// Reads a plan from a file. Relative paths in it are relative to the directory of the file.
    pub fn load(path: &Path) -> Result<Self> {
        let text = read_text_capped(path, MOST_PLAN, "a plan")?;
        let name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let mut plan = Self::parse(&text, &name).map_err(|e| match e {
            Error::Format { line, message, .. } => Error::Format { path: path.to_path_buf(), line, message },
            other => other,
        })?;
        let directory = path.parent().unwrap_or(Path::new(""));
        for corpus in plan.jobs.iter_mut().map(|job| &mut job.corpus) {
            let tokenizer = match &mut corpus.tokenizer {
                Some(TokenizerChoice::File(path)) => Some(path),
                _ => None,
            };
            for file in corpus.paths.iter_mut().chain(&mut corpus.merge).chain(tokenizer) {
                *file = directory.join(&*file);
            }
        }
        Ok(plan)
    }

    /// Returns the same plan with `by` added to all seeds.
    #[must_use]
    pub fn moved(mut self, by: u64) -> Self {
        for job in &mut self.jobs {
            job.seed = job.seed.wrapping_add(by);
            if self.seed_corpora {
                job.corpus.seed = job.corpus.seed.wrapping_add(by);
            }
        }
        self
    }

    /// Parses a plan; `name` is its name unless it gives one.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let text = Text::read(text)?;
        let (table, top) = (&text.table, Place::default());
        text.check(table, TOP, &top)?;
        if !says_something(table) {
            return Err(wrong(
                None,
                "the plan is empty: it has no setting of a corpus, a model or a training run",
            ));
        }
        let name = text.name(name)?;
        let seed_corpora = match table.get("seed_corpora") {
            None => false,
            Some(Value::Boolean(given)) => *given,
            Some(_) => {
                let line = text.line(&top, "seed_corpora", None);
                return Err(wrong(line, "seed_corpora must be true or false"));
            }
        };
        let mut jobs = Vec::new();
        for grid in text.grids()? {
            grid.jobs(&text, seed_corpora, &mut jobs)?;
        }
        // Grids may overlap; each job runs once.
        let mut seen = HashSet::new();
        jobs.retain(|job| seen.insert(serde_json::to_string(job).unwrap_or_default()));
        Ok(Self { name, jobs, seed_corpora, command: None })
    }
}

/// Whether a plan has a setting: a name, or sections without keys, would run one job of defaults that nobody asked for.
fn says_something(table: &Table) -> bool {
    fn is_set(value: &Value) -> bool {
        match value {
            Value::Table(section) => section.values().any(is_set),
            // An empty list is a mistake of its own.
            Value::Array(sections) => sections.is_empty() || sections.iter().any(is_set),
            _ => true,
        }
    }
    table.iter().any(|(key, value)| key != "name" && is_set(value))
}

/// One grid of a plan.
struct Grid {
    seeds: Vec<u64>,
    corpora: Vec<Point<CorpusSpec>>,
    models: Vec<Point<ModelSpec>>,
    trainings: Vec<Point<TrainSpec>>,
}

impl Grid {
    /// Checks every point and adds the jobs.
    fn jobs(&self, text: &Text<'_>, seed_corpora: bool, jobs: &mut Vec<Job>) -> Result<()> {
        let Self { seeds, corpora, models, trainings } = self;
        let total = [models.len(), trainings.len(), seeds.len()]
            .into_iter()
            .try_fold(corpora.len(), usize::checked_mul)
            .and_then(|n| n.checked_add(jobs.len()))
            .filter(|&n| n <= MOST);
        if total.is_none() {
            return Err(wrong(None, format!("the plan has more than {MOST} jobs")));
        }
        for point in corpora {
            point.spec.resolve().map_err(|e| text.located(point, e))?;
        }
        for point in models {
            check_sizes(&point.spec).map_err(|e| text.located(point, e))?;
        }
        for point in trainings {
            point.spec.resolve(0).map_err(|e| text.located(point, e))?;
        }
        // One point of a grid may be a model that cannot be; its job fails, and the others run.
        if models.iter().all(|point| point.spec.check().is_err()) {
            models[0].spec.check().map_err(|e| text.located(&models[0], e))?;
        }
        for Point { spec: corpus, .. } in corpora {
            for &Point { spec: model, .. } in models {
                for &Point { spec: training, .. } in trainings {
                    for &seed in seeds {
                        let own = if seed_corpora { seed } else { 0 };
                        let corpus = corpus.clone().seed(corpus.seed.wrapping_add(own));
                        jobs.push(Job { corpus, model, training, seed });
                    }
                }
            }
        }
        Ok(())
    }
}

/// Refuses sizes that no model can have. Settings that contradict each other are results of their jobs instead: in a grid,
/// other points may be sound.
fn check_sizes(model: &ModelSpec) -> Result<()> {
    type Set = fn(ModelSpec, u64) -> ModelSpec;
    let sizes: [(&'static str, Option<u64>, Set); 4] = [
        ("d_model", model.d_model, ModelSpec::d_model),
        ("n_heads", model.n_heads, ModelSpec::n_heads),
        ("d_head", model.d_head, ModelSpec::d_head),
        ("d_mlp", model.d_mlp, ModelSpec::d_mlp),
    ];
    // This preset takes any number of heads.
    let any_number = ModelSpec::default().preset(Preset::Madden2024);
    for (name, size, set) in sizes {
        let Some(n) = size.filter(|&n| n > 0) else { continue };
        match set(any_number, n).check() {
            Err(Error::Setting { name: "model", message }) => {
                return Err(Error::setting(name, format!("a model with {n} {message}")));
            }
            other => other?,
        }
    }
    Ok(())
}

fn wrong(line: Option<u64>, message: impl Into<String>) -> Error {
    Error::Format { path: "plan".into(), line, message: message.into() }
}

/// The text of a plan, what it says, and the places of its keys and values.
struct Text<'a> {
    text: &'a str,
    table: Table,
    places: DeTable<'a>,
}

/// A section of a plan: the names on the way to it, each with its position among the sections of that name. The plan itself
/// is the empty one.
#[derive(Clone, Default)]
struct Place(Vec<(&'static str, usize)>);

impl Place {
    fn inner(&self, name: &'static str, position: usize) -> Self {
        Self(self.0.iter().copied().chain([(name, position)]).collect())
    }
}

/// The section's name as it is written in brackets.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|(name, _)| *name).collect();
        f.write_str(&names.join("."))
    }
}

/// A point of the grid of a section.
struct Point<T> {
    spec: T,
    /// The section.
    place: Place,
    /// The values of its keys.
    values: Table,
}

/// The line, from 1, of a byte of a text.
fn line_at(text: &str, byte: usize) -> u64 {
    1 + text.get(..byte).unwrap_or(text).matches('\n').count() as u64
}

impl<'a> Text<'a> {
    fn read(text: &'a str) -> Result<Self> {
        let refused = |e: toml::de::Error| wrong(e.span().map(|s| line_at(text, s.start)), e.message());
        let table = text.parse().map_err(refused)?;
        let places = DeTable::parse(text).map_err(refused)?.into_inner();
        Ok(Self { text, table, places })
    }

    /// Refuses an unknown key, suggesting the nearest known one.
    fn check(&self, table: &Table, known: &[&str], place: &Place) -> Result<()> {
        match table.keys().find(|k| !known.contains(&k.as_str())) {
            Some(key) => {
                let section = if place.0.is_empty() { String::new() } else { format!(" in [{place}]") };
                let message = format!("unknown key `{key}`{section}; {}", suggestion(key, known));
                Err(wrong(self.line(place, key, None), message))
            }
            None => Ok(()),
        }
    }

    /// The plan's name, which is also that of a directory.
    fn name(&self, default: &str) -> Result<String> {
        let refused = |message: &str| {
            Err(wrong(self.line(&Place::default(), "name", None), format!("name: {message}")))
        };
        let name = match self.table.get("name") {
            Some(Value::String(name)) => name,
            None => return Ok(default.to_owned()),
            Some(_) => return refused("must be a string"),
        };
        match name.as_str() {
            "" | "." => refused("must not be empty, because the run directory is named after it"),
            name if name.contains(['/', '\\']) || name == ".." || name.chars().any(char::is_control) => {
                refused(
                    "must be a plain name without path separators or control characters, because the run directory is named after it",
                )
            }
            name => Ok(name.to_owned()),
        }
    }

    /// Returns the grids of a plan; without any, the plan itself is one.
    fn grids(&self) -> Result<Vec<Grid>> {
        let top = Place::default();
        let grids: Vec<&Table> = match self.table.get("grid") {
            None => return Ok(vec![self.grid(&self.table, &top)?]),
            Some(Value::Table(grid)) => vec![grid],
            Some(Value::Array(list)) if !list.is_empty() => list.iter().filter_map(Value::as_table).collect(),
            Some(_) => Vec::new(),
        };
        if grids.is_empty() {
            return Err(wrong(self.line(&top, "grid", None), "grid must be a section: write [[grid]]"));
        }
        grids.into_iter().enumerate().map(|(i, grid)| self.grid(grid, &top.inner("grid", i))).collect()
    }

    /// Reads a grid, with the plan's own sections where it has none.
    fn grid(&self, grid: &Table, place: &Place) -> Result<Grid> {
        let top = Place::default();
        if !place.0.is_empty() {
            self.check(grid, OF_A_GRID, place)?;
        }
        let home = |key: &str| if grid.contains_key(key) { (grid, place) } else { (&self.table, &top) };
        let (table, own) = home("seeds");
        let seeds = seeds(table.get("seeds")).map_err(|mistake| {
            let line = self.line(own, &mistake.key, mistake.element);
            wrong(line, format!("{} {}", mistake.key, mistake.message))
        })?;
        Ok(Grid {
            seeds,
            corpora: self.section(home("corpus"), "corpus")?,
            models: self.section(home("model"), "model")?,
            trainings: self.section(home("training"), "training")?,
        })
    }

    /// Returns the points of all sections with this name.
    fn section<T: DeserializeOwned>(
        &self,
        (table, outer): (&Table, &Place),
        name: &'static str,
    ) -> Result<Vec<Point<T>>> {
        let not_one = || {
            let head = outer.inner(name, 0);
            wrong(self.line(outer, name, None), format!("{head} must be a section: write [{head}]"))
        };
        let none = Table::new();
        let tables: Vec<&Table> = match table.get(name) {
            Some(Value::Table(table)) => vec![table],
            None => vec![&none],
            Some(Value::Array(list)) if !list.is_empty() => {
                list.iter().map(|v| v.as_table().ok_or_else(not_one)).collect::<Result<_>>()?
            }
            Some(_) => return Err(not_one()),
        };
        let mut known = fields::<T>().to_vec();
        if name == "corpus" {
            known.push("path");
        }
        let mut all = Vec::new();
        for (i, table) in tables.into_iter().enumerate() {
            let place = outer.inner(name, i);
            self.check(table, &known, &place)?;
            let mistake = |Mistake { key, element, message }| {
                let line = self.line(&place, &key, element).or_else(|| self.line(outer, name, None));
                wrong(line, format!("[{place}] {key}: {message}"))
            };
            for values in points(table).map_err(mistake)? {
                let spec = read(&values, name).map_err(|(key, message)| {
                    let element = element(table, &values, &key);
                    mistake(Mistake { key, element, message })
                })?;
                all.push(Point { spec, place: place.clone(), values });
            }
        }
        Ok(all)
    }

    /// Reports an invalid combination of settings at the line of the offending one.
    fn located<T>(&self, point: &Point<T>, error: Error) -> Error {
        match error {
            Error::Setting { name, message } => {
                // Keys of earlier versions that correspond to this one.
                let earlier: &[&str] = match name {
                    "limit" | "builtin" | "random" => &["documents", "lengths"],
                    "paths" => &["path"],
                    _ => &[],
                };
                let Point { place, values, .. } = point;
                let line = |key: &str| {
                    let element = self.at(place).and_then(|table| element(table, values, key));
                    self.line(place, key, element)
                };
                let head = || {
                    let (&(name, _), outer) = place.0.split_last()?;
                    self.line(&Place(outer.to_vec()), name, None)
                };
                let line = [name].iter().chain(earlier).find_map(|key| line(key)).or_else(head);
                wrong(line, format!("[{place}] {name}: {message}"))
            }
            other => other,
        }
    }

    /// The keys of a section.
    fn at(&self, place: &Place) -> Option<&Table> {
        place.0.iter().try_fold(&self.table, |table, (name, position)| match table.get(*name)? {
            Value::Array(list) => list.get(*position)?.as_table(),
            value => value.as_table(),
        })
    }

    /// The line of a key of a section, or of an element of its list.
    fn line(&self, place: &Place, key: &str, element: Option<usize>) -> Option<u64> {
        let mut table = &self.places;
        for (name, position) in &place.0 {
            let (_, value) = table.iter().find(|(found, _)| found.get_ref() == name)?;
            table = match value.get_ref() {
                DeValue::Array(list) => list.get(*position)?.get_ref().as_table()?,
                value => value.as_table()?,
            };
        }
        let (name, value) = table.iter().find(|(found, _)| found.get_ref() == key)?;
        let element = element.and_then(|i| Some(value.get_ref().as_array()?.get(i)?.span()));
        Some(line_at(self.text, element.unwrap_or(name.span()).start))
    }
}

/// A list of seeds, or a single one.
fn seeds(value: Option<&Value>) -> Result<Vec<u64>, Mistake> {
    let one = |(i, v): (usize, &Value)| {
        let seed = v.as_integer().and_then(|n| u64::try_from(n).ok());
        seed.ok_or_else(|| Mistake {
            key: "seeds".into(),
            element: Some(i),
            message: "must be a list of whole numbers that are at least 0, for example [0, 1, 2]".into(),
        })
    };
    match value {
        None => Ok(vec![0]),
        Some(Value::Array(list)) if !list.is_empty() => list.iter().enumerate().map(one).collect(),
        Some(value) => Ok(vec![one((0, value))?]),
    }
}

/// A key of a section, the element of its list if it has one, and the error it causes.
struct Mistake {
    key: String,
    element: Option<usize>,
    message: String,
}

/// The position, in the list of a key, of the value that a point has.
fn element(section: &Table, point: &Table, key: &str) -> Option<usize> {
    let value = point.get(key)?;
    section.get(key)?.as_array()?.iter().position(|v| v == value)
}

/// The points of a section: every list is an axis, in the order of the keys.
fn points(table: &Table) -> Result<Vec<Table>, Mistake> {
    let mut points = vec![Table::new()];
    for (key, value) in table {
        let wrong = |element, message| Mistake { key: key.clone(), element, message };
        let values = match value {
            Value::Array(list) if list.is_empty() => return Err(wrong(None, "is an empty list".into())),
            Value::Array(list) => list.clone(),
            other => vec![other.clone()],
        };
        // JSON, through which the specs are read, has no such numbers and would leave the setting out.
        let not_finite = |v: &Value| v.as_float().filter(|x| !x.is_finite());
        if let Some((i, x)) = values.iter().enumerate().find_map(|(i, v)| Some((i, not_finite(v)?))) {
            let got = x.to_string().to_lowercase();
            return Err(wrong(Some(i), format!("must be a finite number (got {got})")));
        }
        if points.len().saturating_mul(values.len()) > MOST {
            return Err(wrong(None, format!("creates more than {MOST} points")));
        }
        points = points
            .iter()
            .flat_map(|point| {
                values.iter().map(move |value| {
                    let mut point = point.clone();
                    point.insert(key.clone(), value.clone());
                    point
                })
            })
            .collect();
    }
    Ok(points)
}

/// Reads a point of a section; the error is the key that is wrong, and why.
fn read<T: DeserializeOwned>(table: &Table, section: &str) -> Result<T, (String, String)> {
    type Map = serde_json::Map<String, serde_json::Value>;
    let json = serde_json::to_value(table).map_err(|error| (String::new(), error.to_string()))?;
    let serde_json::Value::Object(map) = json else { return Err((String::new(), "expected a table".into())) };
    let current: fn(Map) -> Map = if section == "corpus" { modern } else { |map| map };
    read_object(&map, current)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::Optimizer;

    #[test]
    fn lists_are_axes_and_seeds_vary_fastest() {
        let text = "seeds = [3, 4]\n[corpus]\ndocuments = [10, 20]\n[model]\nd_mlp = [4, 8]\npreset = \"average\"\n\
                    [training]\noptimizer = \"adam\"\nlr = 0.01";
        let plan = Plan::parse(text, "grid").unwrap();
        assert_eq!((plan.name.as_str(), plan.jobs.len()), ("grid", 8));
        let seen: Vec<_> = plan.jobs.iter().map(|j| (j.corpus.builtin, j.model.d_mlp, j.seed)).collect();
        assert_eq!(seen[0], (Some(10), Some(4), 3));
        assert_eq!(seen[1], (Some(10), Some(4), 4));
        assert_eq!(seen[2], (Some(10), Some(8), 3));
        assert_eq!(seen[7], (Some(20), Some(8), 4));
        assert_eq!(plan.jobs[0].model.preset, Some(Preset::Average));
        assert_eq!(plan.jobs[0].training.optimizer, Optimizer::Adam);
    }

    #[test]
    fn a_section_written_twice_is_two_grids() {
        let text = "[corpus]\ndocuments = 5\n[[model]]\nd_mlp = [4, 8]\n[[model]]\npreset = \"dana2024\"\nn_heads = [1, 2, 3]";
        let jobs = Plan::parse(text, "x").unwrap().jobs;
        let seeded =
            Plan::parse("seeds = [3, 4]\nseed_corpora = true\n[corpus]\nseed = 10", "x").unwrap().jobs;
        let moved = Plan::parse("seeds = [3, 4]\nseed_corpora = true\n[corpus]\nseed = 10", "x")
            .unwrap()
            .moved(5)
            .jobs;
        assert_eq!(moved.iter().map(|j| (j.seed, j.corpus.seed)).collect::<Vec<_>>(), [(8, 18), (9, 19)]);
        assert_eq!(seeded.iter().map(|j| (j.seed, j.corpus.seed)).collect::<Vec<_>>(), [(3, 13), (4, 14)]);
        let seen: Vec<_> = jobs.iter().map(|j| (j.model.d_mlp, j.model.n_heads)).collect();
        assert_eq!(
            seen,
            [(Some(4), None), (Some(8), None), (None, Some(1)), (None, Some(2)), (None, Some(3))]
        );
        let twice = "seeds = [1, 1, 0]\n[[model]]\nd_mlp = [4, 8]\n[[model]]\nd_mlp = [8, 16]\n[training]\noptimizer = \"adamw\"";
        let seen: Vec<_> =
            Plan::parse(twice, "x").unwrap().jobs.iter().map(|j| (j.model.d_mlp, j.seed)).collect();
        let once = [4, 8, 16].map(|m| [(Some(m), 1), (Some(m), 0)]).concat();
        assert_eq!(seen, once);
    }

    #[test]
    fn a_grid_has_what_it_says_and_the_rest_from_the_plan() {
        let text = "seeds = [1, 2]\n[corpus]\nbuiltin = 5\n[model]\nd_mlp = 8\n\
                    [[grid]]\n[grid.training]\noptimizer = \"adam\"\nlr = [0.1, 0.2]\n\
                    [[grid]]\nseeds = [7]\n[[grid.model]]\nd_mlp = 4\n[[grid.model]]\nd_mlp = 16";
        let seen: Vec<_> = Plan::parse(text, "x")
            .unwrap()
            .jobs
            .iter()
            .map(|j| (j.corpus.builtin, j.model.d_mlp, j.training.lr, j.seed))
            .collect();
        let adam = |lr, seed| (Some(5), Some(8), Some(lr), seed);
        let first = [adam(0.1, 1), adam(0.1, 2), adam(0.2, 1), adam(0.2, 2)];
        assert_eq!(seen[..4], first);
        assert_eq!(seen[4..], [(Some(5), Some(4), None, 7), (Some(5), Some(16), None, 7)]);
    }

    #[test]
    fn an_empty_plan_is_refused() {
        let empty = [
            "",
            "# nothing\n\n",
            "name = \"a\"",
            "[model]",
            "name = \"a\"\n[corpus]\n[model]",
            "[[model]]",
            "[[grid]]\n[grid.model]",
        ];
        for text in empty {
            assert!(Plan::parse(text, "x").unwrap_err().to_string().contains("the plan is empty"), "{text}");
        }
        for text in ["seeds = [3]", "[model]\nd_mlp = 4", "[corpus]\n[training]\nsteps = 5"] {
            assert_eq!(Plan::parse(text, "x").unwrap().jobs.len(), 1, "{text}");
        }
    }

    #[test]
    fn a_name_is_that_of_a_directory_here() {
        for name in ["", ".", "..", "../../evil", "a/b", "a\\\\b", "a\\u001b[31m"] {
            let error = Plan::parse(&format!("seeds = 1\nname = \"{name}\""), "x").unwrap_err();
            assert_eq!(error.line(), Some(2), "{error}");
        }
        assert_eq!(Plan::parse("seeds = 1\nname = \"a b.c\"", "x").unwrap().name, "a b.c");
    }

    #[test]
    fn files_of_a_plan_are_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.toml");
        let text = "[corpus]\npath = \"a.txt\"\ntokenizer = [\"tokenizer.json\", \"char\"]";
        std::fs::write(&path, text).unwrap();
        let plan = Plan::load(&path).unwrap();
        let beside = |name: &str| folder.path().join(name);
        assert_eq!(plan.jobs[0].corpus.paths, [beside("a.txt")]);
        let tokenizers: Vec<_> = plan.jobs.iter().map(|job| job.corpus.tokenizer.clone()).collect();
        let file = TokenizerChoice::File(beside("tokenizer.json"));
        assert_eq!(tokenizers, [Some(file), Some(TokenizerChoice::Char)]);
    }

    #[test]
    fn counts_have_a_cap() {
        for text in [
            "[corpus]\nbuiltin = 1000000000000",
            "[corpus]\nrandom = 1000000000000",
            "[corpus]\ndocuments = 1000000000000",
        ] {
            let error = Plan::parse(text, "x").unwrap_err();
            assert!(error.to_string().contains("must be at most") && error.line() == Some(2), "{error}");
        }
    }

    #[test]
    fn a_size_that_no_model_has_is_refused_with_its_line() {
        let error =
            Plan::parse("[corpus]\ndocuments = 5\n[model]\nd_mlp = [4, 1000000000000]", "x").unwrap_err();
        assert!(error.line() == Some(4) && error.to_string().contains("[model] "), "{error}");
        // A contradiction is the result of its job.
        assert!(Plan::parse("[model]\npreset = [\"dana2024\", \"average\"]\nd_mlp = 64", "x").is_ok());
    }

    #[test]
    fn numbers_that_are_not_finite_are_refused_and_not_left_out() {
        for (text, line, words) in [
            ("[training]\nsteps = 5\nlr = nan", 3, "[training] lr: must be a finite number (got nan)"),
            ("[training]\nlr = [0.1,\n  -inf]", 3, "[training] lr: must be a finite number (got -inf)"),
            ("[model]\nd_mlp = inf", 2, "[model] d_mlp: must be a finite number (got inf)"),
            ("model = {d_mlp = nan}", 1, "[model] d_mlp: must be a finite number (got nan)"),
        ] {
            let error = Plan::parse(text, "x").unwrap_err();
            assert_eq!(error.line(), Some(line), "{text:?}: {error}");
            assert!(error.to_string().contains(words), "{text:?}: {error}");
        }
    }

    #[test]
    fn values_of_the_wrong_kind_are_refused_in_plain_words() {
        for (text, words) in [
            ("[model]\nd_mlp = -3", "integer `-3`, expected a whole number of at least 0"),
            ("[training]\nlr = \"fast\"", "string \"fast\", expected a number"),
        ] {
            let error = Plan::parse(text, "x").unwrap_err().to_string();
            assert!(error.contains(words), "{text:?}: {error}");
        }
    }

    #[test]
    fn mistakes_are_reported_with_their_line_and_the_key_that_was_meant() {
        let error = |text: &str| Plan::parse(text, "x").unwrap_err();
        for (text, line, words) in [
            ("[model]\nd_mpl = 4", Some(2), "did you mean `d_mlp`?"),
            ("[modle]\nd_mlp = 4", Some(1), "did you mean `model`?"),
            ("[corpus]\nn_ctxx = 3", Some(2), "unknown key `n_ctxx` in [corpus]; did you mean `n_ctx`?"),
            ("[training]\noptimiser = \"adam\"", Some(2), "did you mean `optimizer`?"),
            ("[training]\nzzz = 1", Some(2), "the known ones are optimizer"),
            ("[training]\nlr = 0.1\noptimizer = \"sgd\"", Some(3), "sgd"),
            ("seeds = -1", Some(1), "seeds"),
            ("seeds = []", Some(1), "seeds"),
            ("[model]\nd_mlp = []", Some(2), "empty list"),
            ("[model]\nd_mlp = \"many\"", Some(2), "[model] d_mlp: invalid type"),
            ("seeds = 1\n[corpus]\nd_vocab = 5\nlengths = \"1..2\"\nseed = 1.5", Some(5), "[corpus] seed"),
            ("[corpus]\n\nlengths = \"8\"", Some(3), "A..B"),
            ("[corpus]\nlabels = 4", Some(2), "[corpus] labels: does not apply to the built-in stories"),
            ("[corpus]\npath = \"a.txt\"\ndocuments = 0", Some(3), "must be at least 1 (got 0)"),
            ("[model]\nd_mlp = 8\nd_model = 0", Some(3), "[model] d_model: "),
            ("[model]\nn_heads = [2, 4]", Some(2), "[model] n_heads: must be 1"),
            ("[corpus]\nn_ctx = 0", Some(2), "[corpus] n_ctx: must be at least 1 (got 0)"),
            ("[training]\nlr = 0.1\nlast_lr = 2.0\noptimizer = \"adam\"", Some(3), "[training] last_lr"),
            ("model = 3", Some(1), "[model]"),
            ("grid = 3", Some(1), "[[grid]]"),
            ("[[grid]]\nmodel = 3", Some(2), "[grid.model]"),
            ("[[grid]]\nseeds = -1", Some(2), "seeds"),
            ("[[grid]]\n[grid.modle]\nd_mlp = 4", Some(2), "did you mean `model`?"),
            ("[model]\nd_mlp = 4\n[[grid]]\n[grid.model]\nd_mpl = 4", Some(5), "did you mean `d_mlp`?"),
            ("[[grid]]\n[grid.corpus]\nn_ctx = 0", Some(3), "[grid.corpus] n_ctx: must be"),
            ("seed_corpora = 1", Some(1), "true or false"),
            ("a b", Some(1), ""),
            ("seeds = 1\nmodel = {d_mlpp = 3}", Some(2), "did you mean `d_mlp`?"),
            ("seeds = 1\ncorpus.bultin = 10", Some(2), "did you mean `builtin`?"),
            ("[corpus]\nbuiltin = 5\n[corpus.extra]\na = 1", Some(3), "unknown key `extra` in [corpus]"),
            ("[[model]]\nd_mlp = 4\n[[model]]\nd_mlp = \"x\"", Some(4), "[model] d_mlp: "),
            ("[model]\nd_mlp = [\n4,\n\"x\",\n]", Some(4), "[model] d_mlp: "),
            ("[training]\nlr = [\n0.1,\n-2.0,\n]", Some(4), "[training] lr: "),
            ("seeds = [\n0,\n-1,\n]", Some(3), "seeds must be a list"),
        ] {
            let found = error(text);
            assert_eq!(found.line(), line, "{text:?}: {found}");
            assert!(found.to_string().contains(words), "{text:?}: {found}");
        }
        assert!(error("[training]\nlr = -1.0").to_string().contains("above 0"));
        assert!(
            error(&format!("seeds = {:?}\n[model]\nd_mlp = {:?}", vec![1; 1000], vec![4; 1000]))
                .to_string()
                .contains("jobs")
        );
    }
}
