//! Numbers: seeded random streams, extended precision, and kernels compiled for each instruction set. Nothing here knows of
//! texts or models.

pub mod dd;
pub mod elementary;
pub mod gemm;
pub mod hash;
pub mod line;
pub mod linear;
pub mod modular;
pub mod optimize;
pub(crate) mod pages;
pub mod precise;
pub mod real;
pub mod rows;
pub mod simd;
pub mod stream;
pub mod vector;
pub mod wide;

pub use dd::Dd;
pub use real::Real;
pub use stream::Stream;
