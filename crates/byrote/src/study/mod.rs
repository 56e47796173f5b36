//! The main job: everything about a corpus, in one call.

pub mod spec;

pub use spec::{Scale, StudySpec};
