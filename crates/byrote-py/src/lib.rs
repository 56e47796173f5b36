//! The extension module of the Python package `byrote`.
//!
//! It is thin: settings come as JSON objects and results leave as JSON text, exactly those of the program; arrays pass as numpy
//! arrays. `python/byrote` gives them their Python form. Everything that takes time runs through [`work`], which releases the
//! interpreter, reports progress and notices Ctrl-C.

mod arrays;
mod arrow;
mod audit;
mod bounds;
mod build;
mod cluster;
mod corpus;
mod error;
mod judge;
mod model;
mod program;
mod train;
mod whole;
mod work;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
mod _byrote {
    #[pymodule_init]
    fn init() {
        super::work::silence_panics();
    }

    #[pymodule_export]
    use super::arrow::arrow_stream;
    #[pymodule_export]
    use super::audit::{audit_model, compare_audits};
    #[pymodule_export]
    use super::bounds::bounds;
    #[pymodule_export]
    use super::build::{build, build_exact};
    #[pymodule_export]
    use super::cluster::{ClusterSweep, input_files, run_sweep_job, split_summary};
    #[pymodule_export]
    use super::corpus::Corpus;
    #[pymodule_export]
    use super::judge::{certify, evaluate, predict};
    #[pymodule_export]
    use super::model::Model;
    #[pymodule_export]
    use super::program::{builtin_stories, fields, nearest, run_program, version};
    #[pymodule_export]
    use super::train::{Step, train};
    #[pymodule_export]
    use super::whole::{
        certify_rank, compare_laws, draw_report, export, figures, reproduce_figure, run_incontext, run_study,
        run_sweep, threshold,
    };
}
