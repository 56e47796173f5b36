//! Sweeps: many training runs, planned, run side by side, resumed and recorded.
//!
//! A [`Plan`] is a grid in a TOML file (`plan`); its points are [`Job`]s (`job`), each with an identity that follows from
//! its settings and its corpus. `run` runs them and writes a run directory (`directory`) as it goes: an
//! append-only journal, and `results.csv` after every job. However a run ends, the same call resumes it, and the results are
//! the same bytes as those of an uninterrupted run.
//!
//! ```
//! use byrote::observe::Silent;
//! use byrote::sweep::{self, Corpora, Directory, Plan, SweepOptions};
//!
//! let plan = "[corpus]\nbuiltin = 10\n[model]\nd_mlp = [4, 8]\n[training]\nsteps = 20\n";
//! let plan = Plan::parse(plan, "widths")?;
//! let corpora = Corpora::read(&plan.jobs, &Silent)?;
//! let folder = tempfile::tempdir()?;
//! let mut directory = Directory::open(folder.path(), &plan, &corpora)?;
//! let outcome = sweep::run(&plan, &corpora, &mut directory, SweepOptions::default(), &Silent)?;
//! assert_eq!((outcome.jobs, outcome.done), (2, 2));
//! assert!(folder.path().join("results.csv").exists());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod corpora;
pub(crate) mod directory;
pub(crate) mod job;
pub(crate) mod job_row;
pub(crate) mod plan;
pub(crate) mod record;
pub(crate) mod run;

pub use corpora::Corpora;
pub use directory::{Directory, JobFiles};
pub use job::Job;
pub use job_row::{JobResult, JobRow, JobStatus, to_csv};
pub use plan::Plan;
pub use record::Record;
pub use run::{SweepOptions, SweepOutcome, run, run_job};
