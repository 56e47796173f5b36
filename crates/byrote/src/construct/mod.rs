//! Transformers constructed in closed form, one directory per paper.
//!
//! A builder computes every parameter except the last linear map, runs the public forward pass to obtain the input of that
//! map, solves for it, runs the forward pass again, and reports the error it measured there. It refuses
//! ([`crate::error::Refusal`]) rather than return weights that do not do what its theorem says.
//!
//! ```
//! use byrote::construct::madden2024::{Settings, build};
//! use byrote::dataset::Dataset;
//! use byrote::model::reference::softmax;
//! use byrote::observe::Silent;
//!
//! // Two contexts: after 0 comes 1; after 1 comes 0 or 2, equally often.
//! let contexts = [(vec![0], vec![(1, 4.0)]), (vec![1], vec![(0, 1.0), (2, 1.0)])];
//! let dataset = Dataset::new(3, 1, contexts)?;
//! let (model, report) = build(&dataset, &Settings::default(), &Silent)?;
//! assert!(softmax(&model.logits(&[0])?)[1] > 0.99);
//! println!("the largest error of a logit is {:.1e}", report.max_logit_error);
//! # Ok::<(), byrote::Error>(())
//! ```

pub mod dana2024;
pub mod kajitsuka2024;
pub mod madden2024;
pub(crate) mod spec;
pub(crate) mod targets;

pub use spec::{BuildSpec, Dana2024Spec, Kajitsuka2024Spec, MAX_MEMORY, Madden2024Method, Madden2024Spec};
pub use targets::Targets;

/// Refuses a tolerance of logits that no model could keep.
fn check_tolerance(tolerance: f64) -> crate::Result<()> {
    match tolerance > 0.0 {
        true => Ok(()),
        false => Err(crate::Error::setting("logit_tolerance", format!("must be above 0 (got {tolerance})"))),
    }
}
