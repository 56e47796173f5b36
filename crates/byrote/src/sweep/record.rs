//! Reads a run directory: the plan and the results so far.

use super::directory::{Journal, Manifest};
use super::job::Job;
use super::job_row::{JobRow, JobStatus};
use crate::input::{MOST_HELD, read_text_capped};
use crate::{Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The contents of a run directory. It need not be complete, and another process may be writing to it.
///
/// ```
/// use byrote::observe::Silent;
/// use byrote::sweep::{self, Corpora, Directory, Plan, Record, SweepOptions};
///
/// let plan = Plan::parse("[corpus]\nbuiltin = 10\n[model]\nd_mlp = 4\n[training]\nsteps = 5\n", "small")?;
/// let corpora = Corpora::read(&plan.jobs, &Silent)?;
/// let folder = tempfile::tempdir()?;
/// let mut directory = Directory::open(folder.path(), &plan, &corpora)?;
/// sweep::run(&plan, &corpora, &mut directory, SweepOptions::default().keep_models(true), &Silent)?;
///
/// let record = Record::load(folder.path())?;
/// assert_eq!((record.name.as_str(), record.jobs, record.is_complete()), ("small", 1, true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The plan's name.
    pub name: String,
    /// The total number of jobs.
    pub jobs: usize,
    /// The jobs that have ended, in the order of the plan.
    pub rows: Vec<JobRow>,
    /// Steps and gaps in nats, for every row that has a curve.
    pub curves: BTreeMap<String, Vec<(f64, f64)>>,
    /// The total seconds of all jobs.
    pub seconds: f64,
    /// The seconds of each job that has ended.
    pub job_seconds: BTreeMap<String, f64>,
    /// All jobs of the plan, as far as this version can read them.
    pub planned: Vec<Job>,
    /// The version of the program that started it.
    pub version: String,
    /// The machine that started it.
    pub machine: String,
    /// The command that started it.
    pub command: Option<String>,
}

impl Record {
    /// Reads a run directory.
    ///
    /// # Errors
    /// If it is not a run directory, or its manifest or journal is damaged.
    pub fn load(directory: &Path) -> Result<Self> {
        Self::read(directory, |job| Self::read_curve(directory, job))
    }

    /// As [`load`](Self::load), without the curves, which may be many: [`read_curve`](Self::read_curve) reads one.
    pub fn load_rows(directory: &Path) -> Result<Self> {
        Self::read(directory, |_| None)
    }

    fn read(directory: &Path, curve: impl Fn(&str) -> Option<Vec<(f64, f64)>>) -> Result<Self> {
        match std::fs::metadata(directory) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(Error::format(directory, "is a file, not a run directory")),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::format(directory, "this directory does not exist"));
            }
            Err(e) => return Err(Error::io(directory, "read", e)),
        }
        let Some(manifest) = Manifest::load(directory)? else {
            let has = |name: &str| directory.join(name).exists();
            let message = if has("training/manifest.toml") {
                "is an unfinished study: run it again to finish it; its training runs are in the folder training"
            } else if has("closed_forms.json") || has("lock") && has("models") {
                "is an unfinished study without training runs: running the same command again finishes it"
            } else if has("lock") {
                "is an unfinished run without results: running the same command again finishes it"
            } else {
                "is not a run directory: it has no manifest.toml"
            };
            return Err(Error::format(directory, message));
        };
        let journal = Journal::read(&directory.join("journal.jsonl"))?;
        Ok(Self::assemble(manifest, journal, curve))
    }

    /// Reads the curve of a job, if it has one: steps and gaps in nats.
    pub fn read_curve(directory: &Path, job: &str) -> Option<Vec<(f64, f64)>> {
        let path = directory.join("curves").join(format!("{job}.csv"));
        Some(points(read_text_capped(&path, MOST_HELD, "a curve").ok()?.as_bytes()))
    }

    /// Reads the parts of a run directory from memory; `curve` returns the curve of a job.
    #[doc(hidden)]
    pub fn from_parts(manifest: &str, journal: &[u8], curve: &str) -> Result<Self> {
        let manifest = Manifest::parse(manifest, Path::new("manifest.toml"))?;
        let journal = Journal::parse(journal, Path::new("journal.jsonl"))?;
        Ok(Self::assemble(manifest, journal, |_| Some(points(curve.as_bytes()))))
    }

    pub(super) fn assemble(
        manifest: Manifest,
        journal: Journal,
        curve: impl Fn(&str) -> Option<Vec<(f64, f64)>>,
    ) -> Self {
        // Read and written again, so that settings that an earlier version did not have are there.
        let current = |settings: &String| match serde_json::from_str::<Job>(settings) {
            Ok(job) => serde_json::to_string(&job).unwrap_or_default(),
            Err(_) => settings.clone(),
        };
        let position: BTreeMap<String, usize> =
            manifest.settings.iter().enumerate().map(|(i, s)| (current(s), i)).collect();
        let place = |row: JobRow| {
            let settings = serde_json::to_string(&row.settings).unwrap_or_default();
            position.get(settings.as_str()).map(|&i| (i, row))
        };
        let mut rows: Vec<(usize, JobRow)> = journal.rows.into_values().filter_map(place).collect();
        rows.sort_by_key(|r| r.0);
        let rows: Vec<JobRow> = rows.into_iter().map(|r| r.1).collect();
        let curve = |row: &JobRow| Some((row.job.clone(), curve(&row.job)?));
        Self {
            name: manifest.name,
            jobs: manifest.jobs,
            curves: rows.iter().filter_map(curve).collect(),
            rows,
            seconds: journal.seconds,
            job_seconds: journal.job_seconds,
            planned: manifest.settings.iter().filter_map(|s| serde_json::from_str(s).ok()).collect(),
            version: manifest.version,
            machine: manifest.machine,
            command: manifest.command,
        }
    }

    /// Returns the rows with a result.
    pub fn done(&self) -> impl Iterator<Item = &JobRow> {
        self.rows.iter().filter(|row| row.status == JobStatus::Done)
    }

    /// Whether every job has a result.
    pub fn is_complete(&self) -> bool {
        self.done().count() == self.jobs
    }
}

/// The steps and gaps of a curve; damaged rows are skipped.
pub(super) fn points(file: impl std::io::Read) -> Vec<(f64, f64)> {
    #[derive(Deserialize)]
    struct Point {
        step: f64,
        gap_nats: f64,
    }
    let rows = csv::Reader::from_reader(file).into_deserialize();
    rows.filter_map(|row: csv::Result<Point>| row.ok()).map(|p| (p.step, p.gap_nats)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_directories_of_the_previous_version_are_read() {
        // Written before settings of a job were added.
        let (manifest, journal) =
            (include_str!("test_data/manifest.toml"), include_bytes!("test_data/journal.jsonl"));
        let record = Record::from_parts(manifest, journal, "step,gap_nats\n0,1\n").unwrap();
        assert!(record.is_complete());
        assert_eq!(record.rows.iter().map(|row| row.d_mlp).collect::<Vec<_>>(), [4, 8]);
    }

    #[test]
    fn a_directory_that_is_not_a_run_directory_is_refused() {
        let empty = tempfile::tempdir().unwrap();
        let error = |path: &Path| Record::load(path).unwrap_err().to_string();
        assert!(error(empty.path()).contains("no manifest.toml"));
        assert!(error(&empty.path().join("none")).ends_with("none: this directory does not exist"));
        std::fs::write(empty.path().join("a.txt"), "x").unwrap();
        assert!(error(&empty.path().join("a.txt")).ends_with("a.txt: is a file, not a run directory"));
        std::fs::write(empty.path().join("lock"), "").unwrap();
        assert!(error(empty.path()).contains("is an unfinished run without results"));
        std::fs::create_dir(empty.path().join("models")).unwrap();
        assert!(error(empty.path()).ends_with("running the same command again finishes it"));
        assert!(error(empty.path()).contains("is an unfinished study without training runs"));
        std::fs::create_dir(empty.path().join("training")).unwrap();
        std::fs::write(empty.path().join("training/manifest.toml"), "x").unwrap();
        assert!(error(empty.path()).contains("folder training"));
        assert!(error(&empty.path().join("training")).contains("not a manifest"));
    }

    #[test]
    fn a_curve_is_steps_and_gaps_without_its_damaged_rows() {
        let text = "step,evaluations,loss_nats,gap_nats\n0,1,5.5,x\n10,12,5.5,0.25\n20,12\n";
        assert_eq!(points(text.as_bytes()), [(10.0, 0.25)]);
    }
}
