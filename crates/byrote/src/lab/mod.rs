//! Many trainings: planned, run side by side, resumed, and written down.
//!
//! A [`Plan`] is a grid in a TOML file ([`plan`]); its points are [`Job`]s ([`job`]), each with an identity that follows from
//! its settings and its corpus. [`run`](mod@run) works them off and writes a run directory ([`directory`]) as it goes: an
//! append-only journal, and `results.csv` after every job. Whatever ends a run, the same call goes on where it ended, and
//! the results are the same bytes as if nothing had happened.

pub mod corpora;
pub mod directory;
pub mod job;
pub mod plan;
pub mod record;
pub mod row;
pub mod run;

pub use corpora::Corpora;
pub use directory::Directory;
pub use job::Job;
pub use plan::Plan;
pub use record::Record;
pub use row::{Row, Status, to_csv};
pub use run::{Outcome, run};
