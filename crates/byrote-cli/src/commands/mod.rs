//! One file a verb.

pub mod completions;
pub mod corpus;
