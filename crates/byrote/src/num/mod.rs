//! Numbers: seeded random streams and extended precision. Nothing here knows of texts or models.

pub mod dd;
pub mod gemm;
pub mod hash;
pub mod optimize;
pub(crate) mod pages;
pub mod simd;
pub mod stream;

pub use dd::Dd;
pub use stream::Stream;
