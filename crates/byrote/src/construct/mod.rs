//! Transformers written down in closed form, a folder a paper.
//!
//! A builder makes every parameter but the last linear map, runs the same forward pass that users call to see what that
//! map reads, solves for it, runs the forward pass again, and reports the error it measured there. It refuses
//! ([`crate::error::Refusal`]) rather than give weights that do not do what its theorem says.

pub mod dana2024;
pub mod kajitsuka2024;
pub mod madden2024;
pub mod spec;
pub mod targets;

pub use spec::{BuildSpec, Dana2024Spec, Kajitsuka2024Spec, Madden2024Method, Madden2024Spec};
pub use targets::Targets;

/// Refuses a tolerance of logits that no model could keep.
fn check_tolerance(tolerance: f64) -> crate::Result<()> {
    match tolerance > 0.0 {
        true => Ok(()),
        false => Err(crate::Error::setting("logit_tolerance", format!("must be above 0 (got {tolerance})"))),
    }
}
