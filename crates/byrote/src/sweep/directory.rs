//! A run directory.
//!
//! ```text
//! manifest.toml     every setting, the seed, the version, the hashes of the corpora, the machine; written once
//! journal.jsonl     one line per event, append-only, flushed to disk line by line
//! results.csv       one row per job that has ended, in the order of the plan; rewritten after every job
//! curves/           one curve per job
//! checkpoints/      one per running job
//! models/           the trained models, if they are kept
//! live.jsonl        what running jobs are doing, for those who watch (see `output::live`)
//! lock              the process using the directory; its lock is released however the process ends
//! ```

use super::corpora::Corpora;
use super::job::Job;
use super::job_row::{JobRow, JobStatus, to_csv};
use super::plan::Plan;
use super::record::Record;
use crate::input::{MOST_HELD, read_capped, read_text_capped};
use crate::model::Init;
use crate::num::hash::fnv1a;
use crate::output::{Holds, OutputFile, claim, lock, now};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A line of the journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Event {
    /// A process started work.
    Begun { time: u64, process: u32, jobs: usize, done: usize },
    /// A job ended.
    Over { time: u64, seconds: f64, row: Box<JobRow> },
    /// A process stopped before all jobs had ended.
    Interrupted { time: u64 },
    /// All jobs have ended.
    Finished { time: u64 },
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) version: String,
    pub(super) name: String,
    /// A hash of all jobs and corpora.
    plan: String,
    pub(super) jobs: usize,
    pub(super) machine: String,
    /// The command line.
    #[serde(default)]
    pub(super) command: Option<String>,
    corpora: Vec<ManifestCorpus>,
    /// The jobs as in the plan: anything left out is null.
    pub(super) settings: Vec<String>,
    /// The jobs with everything filled in: the model and the training as they are run.
    #[serde(default)]
    resolved: Vec<String>,
}

impl Manifest {
    /// Describes a plan with this identity.
    fn new(identity: String, plan: &Plan, corpora: &Corpora) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: plan.name.clone(),
            plan: identity,
            jobs: plan.jobs.len(),
            machine: machine(),
            command: plan.command.clone(),
            corpora: corpora
                .fingerprints()
                .map(|(settings, hash)| ManifestCorpus {
                    settings: settings.to_owned(),
                    hash: format!("{hash:016x}"),
                })
                .collect(),
            settings: plan.jobs.iter().map(|j| serde_json::to_string(j).unwrap_or_default()).collect(),
            resolved: plan.jobs.iter().map(|job| resolved(job, corpora)).collect(),
        }
    }

    /// Writes the manifest into a directory.
    fn save(&self, directory: &Path) -> Result<()> {
        let path = directory.join("manifest.toml");
        let text = toml::to_string_pretty(self).map_err(|e| Error::format(&path, e.to_string()))?;
        OutputFile::write(&path, text.as_bytes())
    }

    /// Reads the manifest of a directory; `None` if there is none.
    pub(super) fn load(directory: &Path) -> Result<Option<Self>> {
        let path = directory.join("manifest.toml");
        match read_text_capped(&path, MOST_HELD, "a manifest") {
            Ok(text) => Self::parse(&text, &path).map(Some),
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Parses a manifest.
    pub(super) fn parse(text: &str, path: &Path) -> Result<Self> {
        toml::from_str(text).map_err(|e| Error::format(path, format!("not a manifest: {}", e.message())))
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ManifestCorpus {
    settings: String,
    hash: String,
}

/// The files that a job writes, wherever it runs.
#[derive(Debug, Clone)]
pub struct JobFiles {
    /// The identity of the job.
    pub id: String,
    /// Its curve of losses.
    pub curve: PathBuf,
    /// Its checkpoints.
    pub checkpoint: PathBuf,
    /// Its model.
    pub model: PathBuf,
}

/// An open run directory, locked by this process.
pub struct Directory {
    path: PathBuf,
    _lock: File,
    manifest: Manifest,
    journal: File,
    /// The rows by job.
    rows: BTreeMap<String, JobRow>,
    /// The total seconds of all jobs.
    seconds: f64,
    /// The seconds of the last run of every job.
    job_seconds: BTreeMap<String, f64>,
    /// The jobs in the order of the plan.
    order: Vec<String>,
}

fn machine() -> String {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{} {}, {threads} threads", std::env::consts::OS, std::env::consts::ARCH)
}

impl Directory {
    /// Opens or creates the directory of a plan. A directory that belongs to another plan, that holds something else, or
    /// that another process is using, is refused.
    pub fn open(path: &Path, plan: &Plan, corpora: &Corpora) -> Result<Self> {
        let _claim = claim(path, Holds::Sweep)?;
        for part in ["curves", "checkpoints", "models"] {
            let folder = path.join(part);
            std::fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, "create", e))?;
        }
        let lock = lock(path)?;
        // No other process is writing here now, so files that a killed process left incomplete can be removed.
        for folder in ["", "curves", "checkpoints", "models"].map(|part| path.join(part)) {
            for entry in std::fs::read_dir(&folder).map_err(|e| Error::io(&folder, "read", e))?.flatten() {
                if OutputFile::is_temporary(&entry.file_name()) {
                    let _ = std::fs::remove_file(entry.path());
                }
            }
        }
        let order: Vec<String> =
            plan.jobs.iter().map(|job| Ok(job.id(corpora.of(job)?))).collect::<Result<_>>()?;
        let identity = format!("{:016x}", fnv1a(order.join(" ").as_bytes()));
        let manifest = match Manifest::load(path)? {
            Some(found) if found.plan == identity => found,
            Some(Manifest { name, jobs, version, .. }) => {
                return Err(Error::OtherRun { path: path.to_path_buf(), name, jobs, version });
            }
            None => {
                let manifest = Manifest::new(identity, plan, corpora);
                manifest.save(path)?;
                manifest
            }
        };
        let journal_path = path.join("journal.jsonl");
        let Journal { rows, seconds, job_seconds, intact } = Journal::read(&journal_path)?;
        let journal = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&journal_path)
            .map_err(|e| Error::io(&journal_path, "write", e))?;
        // A line that a crash left incomplete would merge with the next one.
        journal.set_len(intact).map_err(|e| Error::io(&journal_path, "write", e))?;
        let rows: BTreeMap<String, JobRow> = rows.into_iter().filter(|(id, _)| order.contains(id)).collect();
        let path = path.to_path_buf();
        let mut directory = Self { path, _lock: lock, manifest, journal, rows, seconds, job_seconds, order };
        // A process may die after recording a job and before removing its checkpoint.
        for job in (0..directory.order.len()).filter(|&i| directory.is_done(i)) {
            let _ = std::fs::remove_file(directory.checkpoint(job));
        }
        let done = directory.done();
        directory.append(&Event::Begun {
            time: now(),
            process: std::process::id(),
            jobs: directory.order.len(),
            done,
        })?;
        directory.write_results()?;
        Ok(directory)
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a job has a result; failed jobs are tried again.
    pub fn is_done(&self, job: usize) -> bool {
        self.rows.get(&self.order[job]).is_some_and(|row| row.status == JobStatus::Done)
    }

    /// Returns the number of jobs with a result.
    pub fn done(&self) -> usize {
        (0..self.order.len()).filter(|&i| self.is_done(i)).count()
    }

    /// Returns the identity of a job.
    pub fn id(&self, job: usize) -> &str {
        &self.order[job]
    }

    /// Returns the path of the curve of a job.
    pub fn curve(&self, job: usize) -> PathBuf {
        self.path.join("curves").join(format!("{}.csv", self.order[job]))
    }

    /// Returns the path of the model of a job.
    pub fn model(&self, job: usize) -> PathBuf {
        self.path.join("models").join(format!("{}.safetensors", self.order[job]))
    }

    /// Returns the path of the checkpoints of a job.
    pub fn checkpoint(&self, job: usize) -> PathBuf {
        self.path.join("checkpoints").join(format!("{}.safetensors", self.order[job]))
    }

    /// Returns the files that a job writes.
    pub fn files(&self, job: usize) -> JobFiles {
        JobFiles {
            id: self.id(job).to_owned(),
            curve: self.curve(job),
            checkpoint: self.checkpoint(job),
            model: self.model(job),
        }
    }

    /// Records that a job has ended, after its curve and its model have been written.
    pub fn record(&mut self, row: JobRow, seconds: f64) -> Result<()> {
        let checkpoint = self.path.join("checkpoints").join(format!("{}.safetensors", row.job));
        self.append(&Event::Over { time: now(), seconds, row: Box::new(row.clone()) })?;
        self.job_seconds.insert(row.job.clone(), seconds);
        self.rows.insert(row.job.clone(), row);
        self.seconds += seconds;
        self.write_results()?;
        // Only now is the checkpoint no longer needed.
        match std::fs::remove_file(&checkpoint) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(checkpoint, "remove", e)),
            _ => Ok(()),
        }
    }

    /// Returns the plan and the results so far, as [`Record::load`] reads them.
    pub fn to_record(&self) -> Record {
        let journal = Journal {
            rows: self.rows.clone(),
            seconds: self.seconds,
            job_seconds: self.job_seconds.clone(),
            intact: 0,
        };
        Record::assemble(self.manifest.clone(), journal, |job| Record::read_curve(&self.path, job))
    }

    /// Records that a process is leaving.
    pub fn leave(&mut self) -> Result<()> {
        let time = now();
        let finished = self.order.iter().all(|id| self.rows.contains_key(id));
        self.append(&if finished { Event::Finished { time } } else { Event::Interrupted { time } })
    }

    /// Returns the rows so far, in the order of the plan.
    pub fn rows(&self) -> impl Iterator<Item = &JobRow> {
        self.order.iter().filter_map(|id| self.rows.get(id))
    }

    fn append(&mut self, event: &Event) -> Result<()> {
        let path = self.path.join("journal.jsonl");
        let line = serde_json::to_string(event).map_err(|e| Error::format(&path, e.to_string()))?;
        let written =
            self.journal.write_all(signed(&line).as_bytes()).and_then(|()| self.journal.sync_data());
        written.map_err(|e| Error::io(&path, "write", e))
    }

    fn write_results(&self) -> Result<()> {
        OutputFile::write(&self.path.join("results.csv"), to_csv(self.rows()).as_bytes())
    }
}

/// A job with every default filled in: the configuration of its model, its training and its limits. A job that cannot
/// be run holds the reason instead.
fn resolved(job: &Job, corpora: &Corpora) -> String {
    let config = corpora.of(job).and_then(|d| job.model.resolve(d.d_vocab(), d.n_ctx()));
    let made = config.and_then(|config| Ok((config, job.training.resolve(job.seed)?)));
    let value = match made {
        Ok((config, (settings, limits))) => json!({
            "config": config,
            "init": job.model.init.unwrap_or(Init::default_for(&config)),
            "training": settings,
            "steps": limits.steps,
            "stop_gap_nats": limits.gap.map(|g| g.0),
            "stop_relative_gap": limits.relative_gap,
            "stall": limits.stall.map(|s| json!({"window": s.window, "fraction": s.fraction})),
        }),
        Err(error) => json!({"error": error.to_string()}),
    };
    value.to_string()
}

/// A line of a journal with its checksum as the last field, so that an edited number is noticed.
fn signed(line: &str) -> String {
    let body = line.strip_suffix('}').unwrap_or(line);
    format!("{body},\"checksum\":\"{:016x}\"}}\n", fnv1a(line.as_bytes()))
}

/// Whether the checksum of a line, if it has one, matches the rest. Lines of older versions have none.
fn is_authentic(line: &[u8]) -> bool {
    let Some(start) = memchr::memmem::rfind(line, b",\"checksum\":\"") else { return true };
    let body = [&line[..start], b"}"].concat();
    let mut expected = signed(&String::from_utf8_lossy(&body)).into_bytes();
    expected.pop();
    expected == line
}

/// The contents of a journal.
#[derive(Default)]
pub(super) struct Journal {
    /// The last row of every job.
    pub(super) rows: BTreeMap<String, JobRow>,
    /// The total seconds of all jobs.
    pub(super) seconds: f64,
    /// The seconds of the last run of every job.
    pub(super) job_seconds: BTreeMap<String, f64>,
    /// The length of its complete lines.
    intact: u64,
}

impl Journal {
    pub(super) fn read(path: &Path) -> Result<Self> {
        match read_capped(path, MOST_HELD, "a journal") {
            Ok(bytes) => Self::parse(&bytes, path),
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                Ok(Self::default())
            }
            Err(e) => Err(e),
        }
    }

    /// Reads the bytes of a journal; anything after its last complete line is ignored.
    pub(super) fn parse(bytes: &[u8], path: &Path) -> Result<Self> {
        let intact = memchr::memrchr(b'\n', bytes).map_or(0, |end| end + 1);
        let mut journal = Self { intact: intact as u64, ..Self::default() };
        for (number, line) in bytes[..intact].split(|&b| b == b'\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            let wrong = |message: String| Error::format_at(path, number as u64 + 1, message);
            let event: Event =
                serde_json::from_slice(line).map_err(|e| wrong(format!("not a journal entry: {e}")))?;
            if !is_authentic(line) {
                let message = "the checksum does not match: this line was edited or damaged; remove it to run its job again";
                return Err(wrong(message.into()));
            }
            if let Event::Over { row, seconds, .. } = event {
                journal.seconds += seconds;
                journal.job_seconds.insert(row.job.clone(), seconds);
                journal.rows.insert(row.job.clone(), *row);
            }
        }
        Ok(journal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edited_journal_is_refused_with_its_line_and_an_old_one_is_read() {
        let line = serde_json::to_string(&Event::Finished { time: 17 }).unwrap();
        let begun = serde_json::to_string(&Event::Begun { time: 3, process: 4, jobs: 5, done: 0 }).unwrap();
        let path = Path::new("journal.jsonl");
        let read = |text: String| Journal::parse(text.as_bytes(), path);
        let both = signed(&begun) + &signed(&line);
        assert_eq!(read(both.clone()).unwrap().intact, both.len() as u64);
        assert!(read(format!("{begun}\n{line}\n")).is_ok(), "lines without checksums");
        let edited = read(both.replace("17", "18")).err().unwrap();
        assert_eq!(edited.line(), Some(2));
        assert!(edited.to_string().contains("checksum"), "{edited}");
        assert!(read(both.replace("\"checksum\":\"", "\"checksum\":\"0")).is_err());
        assert!(read(both[..both.len() - 1].to_owned()).is_ok(), "a line cut short by a crash is ignored");
    }
}
