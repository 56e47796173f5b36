//! One file per command.

pub mod audit;
pub mod bounds;
pub mod build;
pub mod certify;
pub mod completions;
pub mod corpus;
pub mod eval;
pub mod export;
pub mod incontext;
pub mod predict;
pub mod rank;
pub mod report;
pub mod reproduce;
pub mod serve;
pub mod show;
pub mod study;
pub mod sweep;
pub mod train;
