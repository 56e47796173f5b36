//! `byrote build`: weights in closed form, one file per paper.

mod dana2024;
mod kajitsuka2024;
mod madden2024;

use crate::args::Common;
use crate::input::CorpusInput;
use crate::interrupt;
use crate::progress::Terminal;
use crate::ui;
use byrote::Result;
use byrote::corpus::Corpus;
use byrote::dataset::Dataset;
use byrote::evaluate::{TOLERANCE, check_tolerance, evaluate};
use byrote::model::{Model, ModelFile, Precision};
use byrote::observe::Observer as _;
use byrote::report::{json, text};
use byrote::units::Nats;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

pub const EXAMPLES: &str = "Examples:
  byrote build madden2024                      the built-in stories, attention, tanh
  byrote build madden2024 names.txt --tokenizer char --out names.safetensors
  byrote build madden2024 --activation gelu --slack 0.05 --out gelu.safetensors
  byrote build dana2024 --random 210 --lengths 2..2 --labels 50 --d-model 10 --n-heads 20
  byrote build kajitsuka2024 --random 10000    fewer parameters than facts";

#[derive(Debug, Args)]
pub struct BuildCommand {
    #[command(subcommand)]
    pub method: BuildMethod,
}

#[derive(Debug, Subcommand)]
pub enum BuildMethod {
    /// One hidden neuron per context: attention or token averaging, any activation (Theorems 5 and 7)
    #[command(after_help = madden2024::EXAMPLES)]
    Madden2024(Box<madden2024::Madden2024Command>),
    /// Attention alone with a skip connection: stores up to one context per dimension of the heads and the residual
    /// stream (Theorem 1)
    #[command(after_help = dana2024::EXAMPLES)]
    Dana2024(Box<dana2024::Dana2024Command>),
    /// About sqrt N parameters for N facts, one label each: a deep network with long weights, evaluated exactly
    #[command(after_help = kajitsuka2024::EXAMPLES)]
    Kajitsuka2024(Box<kajitsuka2024::Kajitsuka2024Command>),
}

/// What every builder takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub struct BuildArgs {
    /// Write the model here (f64 safetensors)
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Count a distribution as memorized if its KL divergence is at most this many nats
    #[arg(long, allow_negative_numbers = true, value_name = "NATS", default_value_t = TOLERANCE.0)]
    pub tol: f64,
}

impl BuildArgs {
    /// Refuses invalid settings, and a model file that would replace an input. Called before anything is read.
    pub fn check(&self, corpus: &CorpusInput) -> Result<()> {
        check_tolerance(Nats(self.tol))?;
        corpus.check([], self.out.as_deref().map(|path| ("out", path)))
    }
}

pub fn run(args: &BuildCommand, common: &Common) -> Result<ExitCode> {
    match &args.method {
        BuildMethod::Madden2024(args) => madden2024::run(args, common),
        BuildMethod::Dana2024(args) => dana2024::run(args, common),
        BuildMethod::Kajitsuka2024(args) => kajitsuka2024::run(args, common),
    }
}

/// A model that was built, on its way to the user.
pub struct Built<'a> {
    pub method: &'static str,
    pub model: Model,
    pub dataset: &'a Dataset,
    pub corpus: &'a Corpus,
    /// What the builder reports: fields of the JSON object.
    pub report: Value,
    /// What it reports, as rows of the table: name, value, note.
    pub rows: Vec<[String; 3]>,
    pub begun: Instant,
    pub seconds_building: f64,
}

impl Built<'_> {
    /// Measures the model, writes it, shows what was found.
    pub fn finish(self, title: &str, args: &BuildArgs, common: &Common) -> Result<ExitCode> {
        let found = evaluate(&self.model, self.dataset, Nats(args.tol), 10, &Terminal::new(common.quiet))?;
        let file = ModelFile {
            model: self.model,
            precision: Precision::F64,
            tokenizer: self.corpus.summary.tokenizer.clone(),
            vocabulary: self.corpus.vocabulary.clone(),
        };
        if let Some(path) = &args.out {
            // Whoever has asked to stop does not want the file.
            Terminal::new(common.quiet).check()?;
            interrupt::clean_up_beside(path);
            file.save(path)?;
        }
        let json = || {
            let mut object = json::construction(self.method, &file, &found, self.dataset, &self.report);
            object["seed"] = json!(common.seed);
            object["window_sample"] = json!(self.corpus.window_sample());
            object["seconds_building"] = json!(self.seconds_building);
            object["seconds"] = json!(self.begun.elapsed().as_secs_f64());
            object
        };
        let parameters = file.model.parameters().len();
        let text = || text::closed_form(title, self.method, parameters, &found, self.rows);
        ui::show(common, json, text)?;
        if !common.json {
            ui::wrote(common, &args.out);
        }
        Ok(ExitCode::SUCCESS)
    }
}
