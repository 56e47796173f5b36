//! What byrote shows: the figures and pages of studies, sweeps, bounds and reproduced papers.
//!
//! This module holds content only. It turns results into the figures and pages of [`byrote_figures`] (reexported as
//! [`figures`](crate::figures)), which draws them.

mod averages;
pub mod bounds_figure;
pub mod incontext_figure;
mod laws;
mod numbers;
pub mod papers;
pub mod square_root_figures;
pub mod study_page;
pub mod sweep_page;

use byrote_figures::html::Page;

/// A page that names this version of byrote in its footer.
fn new_page(title: impl Into<byrote_figures::html::Prose>) -> Page {
    Page::new(title).generator(concat!("byrote ", env!("CARGO_PKG_VERSION")))
}
