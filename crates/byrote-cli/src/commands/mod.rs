//! One file a verb.

pub mod bounds;
pub mod completions;
pub mod corpus;
