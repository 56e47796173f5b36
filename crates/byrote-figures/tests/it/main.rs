//! Tests of the crate as its users see it.
#![allow(clippy::unwrap_used)]

mod browser;
mod probe;
