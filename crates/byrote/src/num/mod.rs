//! Numerical building blocks: seeded random streams, extended precision, and kernels compiled for several instruction sets.
//!
//! Nothing here knows about texts or models. The module is private to the crate: it exposes types of other crates and kernels
//! that trust their callers' shapes.

pub mod aligned;
pub mod dd;
pub mod elementary;
pub mod gemm;
pub mod hash;
pub(crate) mod huge_pages;
pub mod line_vector;
pub mod linear;
pub mod modular;
pub mod optimize;
pub mod panel_order;
pub mod precise;
pub mod real;
pub mod row_ops;
pub mod simd;
pub mod stream;
pub mod vector;

pub use real::Real;
pub use stream::Stream;
