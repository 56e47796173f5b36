//! `byrote build kajitsuka2024`: fewer parameters than facts, in exact arithmetic.

use crate::args::Common;
use crate::input::CorpusInput;
use crate::interrupt;
use crate::progress::Terminal;
use crate::ui;
use byrote::construct::Kajitsuka2024Spec;
use byrote::construct::kajitsuka2024::corpus_task::{from_contexts, random_positions};
use byrote::construct::kajitsuka2024::{Built, ExactFile, Goal, Labelled, build, pairs};
use byrote::corpus::{Corpus, Source};
use byrote::model::Counting;
use byrote::observe::Observer as _;
use byrote::report::text;
use byrote::{Error, Result};
use clap::Args;
use serde_json::{Value, json};
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
        let Some(contexts) = corpus.contexts.as_ref().filter(|c| !c.is_empty()) else {
            return Err(Error::no_contexts());
        };
        let task = from_contexts(contexts, corpus.vocabulary.len(), switches)?;
        let labelled = Labelled {
            samples: task.samples,
            labels: task.labels,
            vocabulary: corpus.vocabulary.clone(),
            tokenizer: corpus.summary.tokenizer.clone(),
        };
        Ok((labelled, Some(corpus), task.contradictions))
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
    let report = Report { file: &file, labelled: &labelled, corpus, contradictions, built: &built };
    let json = || {
        let mut object = report.json();
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

struct Report<'a> {
    file: &'a ExactFile,
    labelled: &'a Labelled,
    corpus: Option<&'a Corpus>,
    contradictions: u64,
    built: &'a Built,
}

impl Report<'_> {
    fn json(&self) -> Value {
        let mut object = json!(self.file.size());
        let samples = self.labelled.samples.len();
        let deterministic = self.contradictions == 0;
        object["method"] = json!("kajitsuka2024");
        object["memory"] = json!(self.built.model.method.name());
        object["contexts"] = json!(samples);
        object["samples"] = json!(samples);
        object["verified"] = json!(self.built.verified);
        object["duplicates"] = json!(self.labelled.samples.duplicates);
        object["contradictions"] = json!(self.contradictions);
        object["facts"] = json!(self.built.facts);
        object["ids"] = json!(self.built.ids);
        object["retries"] = json!(self.built.effort.tables.saturating_sub(1));
        object["guarantee"] = json!(self.built.guarantee);
        // The block size is chosen for the fewest non-zero weights, so there is no such guarantee for the dense count.
        object["guarantee_counting"] = json!(self.built.guarantee.map(|_| Counting::Nonzero));
        let candidates = self.built.candidates.iter().map(|(m, p)| {
            let [nonzero, dense] = Counting::ALL.map(|c| p.total(c));
            json!({"memory": m.name(), "parameters": nonzero, "parameters_dense": dense})
        });
        object["candidates"] = json!(candidates.collect::<Vec<_>>());
        object["information_bits"] = json!(self.labelled.samples.information_bits());
        object["memorized"] = json!(self.built.verified);
        object["accuracy"] = json!(1.0);
        // The network gives its answer probability 1, so its loss is 0 where there is one next token and infinite, which JSON
        // writes as null, elsewhere.
        object["memorized_distribution"] = json!(samples as u64 - self.contradictions);
        object["loss_nats"] = if deterministic { json!(0.0) } else { Value::Null };
        object["gap_nats"] = if deterministic { json!(0.0) } else { Value::Null };
        object["max_kl_nats"] = if deterministic { json!(0.0) } else { Value::Null };
        object["floor_nats"] = json!(self.corpus.map_or(0.0, |c| c.summary.floor_nats.0));
        object["max_logit_error"] = json!(0.0);
        object
    }
}
