//! A grid of jobs in a TOML file.
//!
//! ```toml
//! name = "widths"
//! seeds = [0, 1, 2]
//!
//! [corpus]
//! documents = [100, 200, 400]      # the first documents of the built-in stories, or of `path`
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
//! that made-up corpora differ from seed to seed too. The keys are the fields of [`CorpusSpec`],
//! [`ModelSpec`] and [`TrainingSpec`]; an unknown one is an error that names the nearest known one.

use super::job::{CorpusSpec, Job, ModelSpec, TrainingSpec};
use crate::input::{MOST_PLAN, read_text_capped};
use crate::{Error, Result};
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::path::Path;
use toml::{Table, Value};

const TOP: &[&str] = &["name", "seeds", "seed_corpora", "corpus", "model", "training"];
const CORPUS: &[&str] = &[
    "path",
    "documents",
    "tokenizer",
    "n_ctx",
    "exact_length",
    "contexts",
    "lengths",
    "d_vocab",
    "labels",
    "seed",
];
const MODEL: &[&str] = &["preset", "d_model", "n_heads", "d_head", "d_mlp", "activation", "mixer", "init"];
const TRAINING: &[&str] = &[
    "optimizer",
    "lr",
    "schedule",
    "last_lr",
    "steps",
    "weight_decay",
    "memory",
    "warmup",
    "warmup_lr",
    "batch",
    "sampling",
    "train_only",
    "precision",
    "stop_gap",
    "stop_relative_gap",
    "stall",
];

/// The most jobs of a plan.
const MOST: usize = 100_000;

/// A grid, written out.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What it is called.
    pub name: String,
    /// Its jobs, in order.
    pub jobs: Vec<Job>,
    /// Whether the seeds of corpora follow those of jobs.
    pub seed_corpora: bool,
    /// The command that runs it, for its manifest.
    pub command: Option<String>,
}

impl Plan {
    /// Reads a file. Paths in it are taken from where the file is.
    pub fn load(path: &Path) -> Result<Self> {
        let text = read_text_capped(path, MOST_PLAN, "a plan")?;
        let name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let mut plan = Self::parse(&text, &name).map_err(|e| match e {
            Error::Format { line, message, .. } => Error::Format { path: path.to_path_buf(), line, message },
            other => other,
        })?;
        let directory = path.parent().unwrap_or(Path::new(""));
        for file in plan.jobs.iter_mut().filter_map(|job| job.corpus.path.as_mut()) {
            *file = directory.join(&*file);
        }
        Ok(plan)
    }

    /// The same plan with other seeds: all of them moved by so much.
    pub fn moved(mut self, by: u64) -> Self {
        for job in &mut self.jobs {
            job.seed = job.seed.wrapping_add(by);
            if self.seed_corpora {
                job.corpus.seed = job.corpus.seed.wrapping_add(by);
            }
        }
        self
    }

    /// Reads the text of a plan; `name` is what it is called where it does not say.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let wrong = |line: Option<u64>, message: String| Error::Format { path: "plan".into(), line, message };
        let table: Table = text.parse().map_err(|e: toml::de::Error| {
            let line = e.span().map(|s| 1 + text[..s.start.min(text.len())].matches('\n').count() as u64);
            wrong(line, e.message().to_owned())
        })?;
        let line_of = |key: &str| line_of(text, "", key);
        let check = |table: &Table, known: &[&str], section: &str| -> Result<()> {
            match table.keys().find(|k| !known.contains(&k.as_str())) {
                Some(key) => {
                    let place = if section.is_empty() { String::new() } else { format!(" in [{section}]") };
                    let line = self::line_of(text, section, key);
                    Err(wrong(line, format!("unknown key {key:?}{place}{}", suggestion(key, known))))
                }
                None => Ok(()),
            }
        };
        check(&table, TOP, "")?;
        let name = match table.get("name") {
            Some(Value::String(name)) => name.clone(),
            None => name.to_owned(),
            Some(_) => return Err(wrong(line_of("name"), "name is a text".into())),
        };
        let seeds = seeds(table.get("seeds")).map_err(|message| wrong(line_of("seeds"), message))?;
        let seed_corpora = match table.get("seed_corpora") {
            None => false,
            Some(Value::Boolean(given)) => *given,
            Some(_) => return Err(wrong(line_of("seed_corpora"), "seed_corpora is true or false".into())),
        };
        let in_section = |section: &str, Mistake { key, message }: Mistake| {
            let line = self::line_of(text, section, &key).or_else(|| line_of(section));
            wrong(line, format!("[{section}] {key}: {message}"))
        };
        let section = |key: &str, known: &[&str]| -> Result<Vec<Table>> {
            let not_one = || wrong(line_of(key), format!("{key} is a section: write [{key}]"));
            let tables: Vec<Table> = match table.get(key) {
                Some(Value::Table(table)) => vec![table.clone()],
                None => vec![Table::new()],
                Some(Value::Array(list)) if !list.is_empty() => {
                    list.iter().map(|v| v.as_table().cloned().ok_or_else(not_one)).collect::<Result<_>>()?
                }
                Some(_) => return Err(not_one()),
            };
            let mut all = Vec::new();
            for table in &tables {
                check(table, known, key)?;
                all.extend(points(table).map_err(|e| in_section(key, e))?);
            }
            Ok(all)
        };
        let corpora: Vec<CorpusSpec> =
            read(section("corpus", CORPUS)?).map_err(|e| in_section("corpus", e))?;
        let models: Vec<ModelSpec> = read(section("model", MODEL)?).map_err(|e| in_section("model", e))?;
        let trainings: Vec<TrainingSpec> =
            read(section("training", TRAINING)?).map_err(|e| in_section("training", e))?;
        // What is no setting at all was refused above; this is what settings say together.
        let located = |e: Error| match e {
            Error::Setting { name, message } => {
                // `--d-vocab` and `corpus.d_vocab` are the key d_vocab.
                let key =
                    name.rsplit(['.']).next().unwrap_or_default().trim_start_matches("--").replace('-', "_");
                let sections = [("corpus", CORPUS), ("model", MODEL), ("training", TRAINING)];
                let section = sections.iter().find(|s| s.1.contains(&key.as_str())).map_or("", |s| s.0);
                wrong(self::line_of(text, section, &key), format!("[{section}] {key}: {message}"))
            }
            other => other,
        };
        let total = [models.len(), trainings.len(), seeds.len()]
            .into_iter()
            .try_fold(corpora.len(), usize::checked_mul)
            .filter(|&n| n <= MOST);
        let Some(total) = total else {
            return Err(wrong(None, format!("more than {MOST} jobs")));
        };
        let mut jobs = Vec::with_capacity(total);
        for corpus in &corpora {
            corpus.resolve().map_err(located)?;
            for model in &models {
                for training in &trainings {
                    training.resolve(0).map_err(located)?;
                    for &seed in &seeds {
                        let own = if seed_corpora { seed } else { 0 };
                        jobs.push(Job {
                            corpus: CorpusSpec { seed: corpus.seed.wrapping_add(own), ..corpus.clone() },
                            model: model.clone(),
                            training: training.clone(),
                            seed,
                        });
                    }
                }
            }
        }
        // Grids may overlap; a training is done once.
        let mut seen = HashSet::new();
        jobs.retain(|job| seen.insert(serde_json::to_string(job).unwrap_or_default()));
        Ok(Self { name, jobs, seed_corpora, command: None })
    }
}

/// A list of seeds, or one.
fn seeds(value: Option<&Value>) -> Result<Vec<u64>, String> {
    let one = |v: &Value| v.as_integer().and_then(|n| u64::try_from(n).ok());
    let wrong = || "seeds is a list of whole numbers from 0, e.g. [0, 1, 2]".to_owned();
    match value {
        None => Ok(vec![0]),
        Some(Value::Array(list)) if !list.is_empty() => {
            list.iter().map(|v| one(v).ok_or_else(wrong)).collect()
        }
        Some(value) => Ok(vec![one(value).ok_or_else(wrong)?]),
    }
}

/// The line of a key in a section, the first of that name; of a section where the first is empty.
fn line_of(text: &str, section: &str, key: &str) -> Option<u64> {
    let mut current = "";
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        let (head, is_head) = match line.strip_prefix('[') {
            Some(rest) => (rest.trim_start_matches('[').split(']').next().unwrap_or("").trim(), true),
            None => (line.split(['=', '.']).next().unwrap_or("").trim(), false),
        };
        if current == section && !is_head && head.trim_matches(['"', '\'']) == key
            || section.is_empty() && is_head && head == key
        {
            return Some(number);
        }
        if is_head {
            current = head;
        }
    }
    None
}

/// A key of a section, and what is wrong with it.
struct Mistake {
    key: String,
    message: String,
}

/// The points of a section: every list is an axis, in the order of the keys.
fn points(table: &Table) -> Result<Vec<Table>, Mistake> {
    let mut points = vec![Table::new()];
    for (key, value) in table {
        let wrong = |message: String| Mistake { key: key.clone(), message };
        let values = match value {
            Value::Array(list) if list.is_empty() => return Err(wrong("an empty list".into())),
            Value::Array(list) => list.clone(),
            other => vec![other.clone()],
        };
        if points.len().saturating_mul(values.len()) > MOST {
            return Err(wrong(format!("more than {MOST} points")));
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

fn read<T: DeserializeOwned>(tables: Vec<Table>) -> Result<Vec<T>, Mistake> {
    let all = tables.into_iter().map(|table| {
        T::deserialize(Value::Table(table.clone())).map_err(|e| {
            // Every key may be left out, so the one that is wrong is wrong alone.
            let alone = table.iter().find_map(|(key, value)| {
                let one = Table::from_iter([(key.clone(), value.clone())]);
                let e = T::deserialize(Value::Table(one)).err()?;
                Some(Mistake { key: key.clone(), message: e.message().to_owned() })
            });
            alone.unwrap_or_else(|| Mistake { key: String::new(), message: e.message().to_owned() })
        })
    });
    all.collect()
}

/// "; did you mean ...?" with the nearest known key, or all of them.
fn suggestion(key: &str, known: &[&str]) -> String {
    let nearest = known.iter().map(|k| (distance(key, k), k)).min();
    match nearest {
        Some((d, k)) if d <= 2.max(key.len() / 3) => format!("; did you mean {k:?}?"),
        _ => format!("; known are {}", known.join(", ")),
    }
}

/// Letters to insert, remove or replace.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Preset;
    use crate::train::Method;

    #[test]
    fn lists_are_axes_and_seeds_vary_fastest() {
        let text = "seeds = [3, 4]\n[corpus]\ndocuments = [10, 20]\n[model]\nd_mlp = [4, 8]\npreset = \"average\"\n\
                    [training]\noptimizer = \"adam\"\nlr = 0.01";
        let plan = Plan::parse(text, "grid").unwrap();
        assert_eq!((plan.name.as_str(), plan.jobs.len()), ("grid", 8));
        let seen: Vec<_> = plan.jobs.iter().map(|j| (j.corpus.documents, j.model.d_mlp, j.seed)).collect();
        assert_eq!(seen[0], (Some(10), Some(4), 3));
        assert_eq!(seen[1], (Some(10), Some(4), 4));
        assert_eq!(seen[2], (Some(10), Some(8), 3));
        assert_eq!(seen[7], (Some(20), Some(8), 4));
        assert_eq!(plan.jobs[0].model.preset, Preset::Average);
        assert_eq!(plan.jobs[0].training.optimizer, Method::Adam);
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
        assert_eq!(seen, [(Some(4), 1), (Some(8), 1), (None, 1), (None, 2), (None, 3)]);
        let twice = "seeds = [1, 1, 0]\n[[model]]\nd_mlp = [4, 8]\n[[model]]\nd_mlp = [8, 16]\n[training]\noptimizer = \"adamw\"";
        let seen: Vec<_> =
            Plan::parse(twice, "x").unwrap().jobs.iter().map(|j| (j.model.d_mlp, j.seed)).collect();
        let once = [4, 8, 16].map(|m| [(Some(m), 1), (Some(m), 0)]).concat();
        assert_eq!(seen, once);
    }

    #[test]
    fn an_empty_plan_is_one_default_job() {
        assert_eq!(Plan::parse("", "x").unwrap().jobs.len(), 1);
    }

    #[test]
    fn mistakes_are_told_with_their_line_and_what_was_meant() {
        let error = |text: &str| Plan::parse(text, "x").unwrap_err();
        for (text, line, words) in [
            ("[model]\nd_mpl = 4", Some(2), "did you mean \"d_mlp\"?"),
            ("[modle]\nd_mlp = 4", Some(1), "did you mean \"model\"?"),
            ("[training]\noptimiser = \"adam\"", Some(2), "did you mean \"optimizer\"?"),
            ("[training]\nzzz = 1", Some(2), "known are optimizer"),
            ("[training]\nlr = 0.1\noptimizer = \"sgd\"", Some(3), "sgd"),
            ("seeds = -1", Some(1), "seeds"),
            ("seeds = []", Some(1), "seeds"),
            ("[model]\nd_mlp = []", Some(2), "empty list"),
            ("[model]\nd_mlp = \"many\"", Some(2), "[model] d_mlp: invalid type"),
            ("seeds = 1\n[corpus]\nd_vocab = 5\nlengths = \"1..2\"\nseed = 1.5", Some(5), "[corpus] seed"),
            ("[corpus]\n\nlengths = \"8\"", Some(3), "A..B"),
            ("[corpus]\nlabels = 4", Some(2), "random associations"),
            ("[training]\nlr = 0.1\nlast_lr = 2.0\noptimizer = \"adam\"", Some(3), "[training] last_lr"),
            ("model = 3", Some(1), "[model]"),
            ("seed_corpora = 1", Some(1), "true or false"),
            ("a b", Some(1), ""),
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

    #[test]
    fn distances_are_edits() {
        assert_eq!((distance("abc", "abc"), distance("abc", "acb"), distance("", "ab")), (0, 2, 2));
    }
}
