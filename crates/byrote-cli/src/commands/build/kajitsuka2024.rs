//! `byrote build kajitsuka2024`: fewer parameters than facts, in exact arithmetic.

use crate::args::Common;
use crate::input::CorpusInput;
use crate::interrupt;
use crate::progress::Terminal;
use crate::ui;
use byrote::Result;
use byrote::construct::Kajitsuka2024Spec;
use byrote::construct::kajitsuka2024::corpus_task::{from_corpus, random_positions};
use byrote::construct::kajitsuka2024::{ExactFile, Goal, Labelled, build, pairs};
use byrote::corpus::{Corpus, Source};
use byrote::observe::Observer as _;
use byrote::report::{json, text};
use byrote::units::Nats;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

pub const EXAMPLES: &str = "Examples:
  byrote build kajitsuka2024 --random 10000    10,000 facts: random sequences with a label
  byrote build kajitsuka2024 --builtin 1000 --out stories.byrote
  byrote build kajitsuka2024 --pairs facts.tsv --method bounded --out facts.byrote
  byrote build kajitsuka2024 --random 1000 --lengths 8..8 --task s2s --attention bidirectional

A context is labelled with its most frequent next token. The network saves parameters, not
storage: its weights are long, and together they have more bits than a plain table of the
labels. Parameters are counted in two ways: weights that are not zero, as in the paper, and all
entries of all matrices (dense), as in the other papers.";

#[derive(Debug, Args)]
pub struct Kajitsuka2024Command {
    #[command(flatten)]
    pub corpus: CorpusInput,
    /// Instead of a corpus: labelled sequences, as .jsonl with the fields "sequence" and "label", or .tsv
    #[arg(long, value_name = "FILE", conflicts_with_all = ["paths", "builtin", "random", "merge"])]
    pub pairs: Option<PathBuf>,
    #[command(flatten)]
    pub construction: Kajitsuka2024Spec,
    /// Write the network here, as text
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub out: Option<PathBuf>,
}

impl Kajitsuka2024Command {
    /// The samples, the corpus they come from if there is one, and the number of contradictory contexts.
    fn samples(&self, common: &Common) -> Result<(Labelled, Option<Corpus>, u64)> {
        let switches = self.construction.switches();
        if let Some(path) = &self.pairs {
            let tokenizer = self.corpus.spec.tokenizer.clone().unwrap_or_default();
            return Ok((pairs::read(path, switches, &tokenizer)?, None, 0));
        }
        if switches.goal == Goal::EveryPosition
            && let Source::Random(associations) = self.corpus.seeded(common).resolve()?.0
        {
            return Ok((random_positions(&associations, common.seed, switches)?, None, 0));
        }
        let corpus = self.corpus.read(common, true)?;
        let (labelled, contradictions) = from_corpus(&corpus, switches)?;
        Ok((labelled, Some(corpus), contradictions))
    }

    fn title(&self) -> String {
        match &self.pairs {
            Some(path) => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            None => self.corpus.spec.title(),
        }
    }
}

pub fn run(args: &Kajitsuka2024Command, common: &Common) -> Result<ExitCode> {
    let begun = Instant::now();
    let settings = args.construction.resolve(common.seed)?;
    args.corpus.check(args.pairs.as_deref(), args.out.as_deref().map(|path| ("out", path)))?;
    // Before the work, so that an output that cannot be written is reported at once.
    if let Some(path) = &args.out {
        interrupt::clean_up_beside(path);
        byrote::output::OutputFile::create(path)?;
    }
    let (labelled, corpus, contradictions) = args.samples(common)?;
    let building = Instant::now();
    let built = {
        let watcher = Terminal::new(common.quiet);
        build(&labelled.samples, &settings, &watcher)?
    };
    let seconds_building = building.elapsed().as_secs_f64();
    let file = ExactFile {
        model: built.model.clone(),
        tokenizer: labelled.tokenizer.clone(),
        vocabulary: labelled.vocabulary.clone(),
        labels: labelled.labels.clone(),
    };
    if let Some(path) = &args.out {
        // Whoever has asked to stop does not want the file.
        Terminal::new(common.quiet).check()?;
        file.save(path)?;
    }
    let corpus = corpus.as_ref();
    let floor = corpus.map_or(Nats(0.0), |c| c.summary.floor_nats);
    let json = || {
        let mut object = json::kajitsuka2024(&file, &labelled, contradictions, &built, floor);
        object["seed"] = json!(common.seed);
        object["seconds_building"] = json!(seconds_building);
        object["seconds"] = json!(begun.elapsed().as_secs_f64());
        object
    };
    let contradictory = corpus.map(|_| contradictions);
    let samples = &labelled.samples;
    let text = || text::kajitsuka2024(&args.title(), &file, &built, samples, contradictory, seconds_building);
    ui::show(common, json, text)?;
    if !common.json {
        ui::wrote(common, &args.out);
    }
    Ok(ExitCode::SUCCESS)
}
