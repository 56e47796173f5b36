//! `byrote build kajitsuka2024`: fewer parameters than facts, in exact arithmetic.

use crate::args::Common;
use crate::corpus_args::CorpusArgs;
use crate::exact;
use crate::interrupt;
use crate::progress::Terminal;
use crate::ui::{self, Table, thousands, thousands_f64};
use byrote::construct::kajitsuka2024::corpus_task::{from_contexts, random_positions};
use byrote::construct::kajitsuka2024::{
    Attention, Built, ExactFile, Goal, Labelled, Lookup, Memory, Method, Settings, Switches, build, pairs,
};
use byrote::corpus::{Corpus, Source};
use byrote::{Error, Result};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

pub const EXAMPLES: &str = "Examples:
  byrote build kajitsuka2024 --random 10000                  10,000 facts, 50 tokens, lengths 1..8, 10 labels
  byrote build kajitsuka2024 --builtin 1000 --out stories.byrote
  byrote build kajitsuka2024 --pairs facts.tsv --method bounded --out facts.byrote
  byrote build kajitsuka2024 --random 1000 --lengths 8..8 --task s2s --attention bidirectional

A context is labelled with its most frequent next token. The network saves parameters, not storage: its weights are
long, and together they have more bits than a plain table of the labels.";

#[derive(Debug, Args)]
pub struct Kajitsuka2024Command {
    #[command(flatten)]
    pub corpus: CorpusArgs,
    /// Instead of a corpus: labelled sequences, as .jsonl with the fields "sequence" and "label", or .tsv
    #[arg(long, value_name = "FILE", conflicts_with_all = ["paths", "builtin", "random", "merge"])]
    pub pairs: Option<PathBuf>,
    /// The memory: bounded has a worst-case guarantee, searched is smaller, looped ties its weights [default: the smaller
    /// of the first two]
    #[arg(long, value_name = "WHICH", help_heading = "Construction")]
    pub method: Option<MemoryArg>,
    /// One label a sequence, or one a position
    #[arg(long, value_name = "TASK", default_value = "next", help_heading = "Construction")]
    pub task: TaskArg,
    /// What a position sees
    #[arg(long, value_name = "WHICH", default_value = "causal", help_heading = "Construction")]
    pub attention: AttentionArg,
    /// Fill sequences up to the longest: fewer parameters where lengths differ, one token more
    #[arg(long, help_heading = "Construction")]
    pub pad: bool,
    /// The lookup of the bounded memory: two neurons a block, or one and a few folds [default: the cheaper]
    #[arg(long, value_name = "WHICH", help_heading = "Construction")]
    pub lookup: Option<LookupArg>,
    /// Facts a block of the bounded or looped memory [default: the best; looped: 512]
    #[arg(long, allow_negative_numbers = true, value_name = "M", help_heading = "Construction")]
    pub block: Option<usize>,
    /// Hashes tried a block by the searched memory: more tries, fewer parameters
    #[arg(
        long,
        allow_negative_numbers = true,
        value_name = "N",
        default_value_t = Settings::default().tries,
        help_heading = "Construction"
    )]
    pub tries: u64,
    /// Write the network here, as text
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MemoryArg {
    Bounded,
    Searched,
    Looped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TaskArg {
    /// One label a sequence
    Next,
    /// One label a position: sequence to sequence
    S2s,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AttentionArg {
    Causal,
    Bidirectional,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LookupArg {
    Steps,
    Slopes,
}

impl Kajitsuka2024Command {
    fn switches(&self) -> Switches {
        Switches {
            goal: match self.task {
                TaskArg::Next => Goal::Next,
                TaskArg::S2s => Goal::EveryPosition,
            },
            attention: match self.attention {
                AttentionArg::Causal => Attention::Causal,
                AttentionArg::Bidirectional => Attention::Bidirectional,
            },
            padded: self.pad,
        }
    }

    fn settings(&self, seed: u64) -> Result<Settings> {
        if self.tries == 0 || self.tries > 1 << 32 {
            return Err(Error::setting("tries", format!("{}; from 1 to {}", self.tries, 1u64 << 32)));
        }
        if self.block == Some(0) {
            return Err(Error::setting("block", "0; at least 1"));
        }
        let searches = matches!(self.method, None | Some(MemoryArg::Searched));
        for (name, given) in [("--block", self.block.is_some()), ("--lookup", self.lookup.is_some())] {
            if given && searches {
                return Err(Error::setting(
                    name,
                    "is of the bounded and the looped memory; name one with --method",
                ));
            }
        }
        Ok(Settings {
            seed,
            memory: self.method.map(|m| match m {
                MemoryArg::Bounded => Memory::Bounded,
                MemoryArg::Searched => Memory::Searched,
                MemoryArg::Looped => Memory::Looped,
            }),
            lookup: self.lookup.map(|l| match l {
                LookupArg::Steps => Lookup::Steps,
                LookupArg::Slopes => Lookup::Slopes,
            }),
            block: self.block,
            tries: self.tries,
        })
    }

    /// The samples, the corpus they come from where there is one, and how many contexts contradict themselves.
    fn samples(&self, common: &Common) -> Result<(Labelled, Option<Corpus>, u64)> {
        let switches = self.switches();
        if let Some(path) = &self.pairs {
            let tokenizer = self.corpus.tokenizer.clone().unwrap_or_default();
            return Ok((pairs::read(path, switches, &tokenizer)?, None, 0));
        }
        if switches.goal == Goal::EveryPosition
            && let Source::Random(associations) = self.corpus.source(common)?
        {
            return Ok((random_positions(&associations, common.seed, switches)?, None, 0));
        }
        let corpus = self.corpus.read(common, true)?;
        let Some(contexts) = corpus.contexts.as_ref().filter(|c| !c.is_empty()) else {
            return Err(Error::EmptyCorpus { message: "no context is followed by a token".into() });
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
            None => self.corpus.title(),
        }
    }
}

pub fn run(args: &Kajitsuka2024Command, common: &Common) -> Result<ExitCode> {
    let begun = Instant::now();
    let settings = args.settings(common.seed)?;
    // Before the work: a place that cannot be written to is told at once.
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
        file.save(path)?;
    }
    let report = Report { labelled: &labelled, corpus: corpus.as_ref(), contradictions, built: &built };
    if common.json {
        let mut object = report.json();
        object["seed"] = json!(common.seed);
        object["seconds_building"] = json!(seconds_building);
        object["seconds"] = json!(begun.elapsed().as_secs_f64());
        ui::print_json(&object)?;
    } else {
        ui::print(&report.human(&args.title(), seconds_building))?;
        if let Some(path) = &args.out {
            ui::note(common.quiet, &format!("wrote {}", path.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

struct Report<'a> {
    labelled: &'a Labelled,
    corpus: Option<&'a Corpus>,
    contradictions: u64,
    built: &'a Built,
}

impl Report<'_> {
    fn json(&self) -> Value {
        let mut object = exact::counts(&self.built.model);
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
        let candidates =
            self.built.candidates.iter().map(|(m, p)| json!({"memory": m.name(), "parameters": p}));
        object["candidates"] = json!(candidates.collect::<Vec<_>>());
        object["information_bits"] = json!(self.information_bits());
        object["memorized"] = json!(self.built.verified);
        object["accuracy"] = json!(1.0);
        // The network answers with one token: certain, so right without loss where there is one next token, and with an
        // infinite loss elsewhere, which JSON calls null.
        object["memorized_distribution"] = json!(samples as u64 - self.contradictions);
        object["loss_nats"] = if deterministic { json!(0.0) } else { Value::Null };
        object["gap_nats"] = if deterministic { json!(0.0) } else { Value::Null };
        object["max_kl_nats"] = if deterministic { json!(0.0) } else { Value::Null };
        object["floor_nats"] = json!(self.corpus.map_or(0.0, |c| c.summary.floor_nats.0));
        object["max_logit_error"] = json!(0.0);
        object
    }

    /// N log2 C: what any memory must hold.
    fn information_bits(&self) -> f64 {
        let samples = &self.labelled.samples;
        samples.len() as f64 * f64::from(samples.task().labels).log2()
    }

    fn human(&self, title: &str, seconds: f64) -> String {
        let (model, samples) = (&self.built.model, &self.labelled.samples);
        let (tally, embedding) = (model.network.tally(), model.network.embedding());
        let n = samples.len();
        let mut out = format!(
            "{title}: kajitsuka2024, {}, {} parameters for {} facts\n\n",
            model.method.name(),
            thousands(tally.parameters as u64),
            thousands(n as u64)
        );
        let mut table = Table::new(
            &[
                "verified",
                &thousands(self.built.verified as u64),
                "of all samples, exactly, by both evaluators",
            ],
            &[0, 2],
        );
        let per_root = tally.parameters as f64 / (n as f64).sqrt();
        let mut row = |name: &str, value: String, note: String| table.row(vec![name.into(), value, note]);
        row(
            "parameters",
            thousands(tally.parameters as u64),
            format!(
                "and {} scalars of the embedding; {per_root:.1} sqrt N, {:.3} a fact",
                thousands(embedding.parameters as u64),
                tally.parameters as f64 / n as f64
            ),
        );
        if model.method == Method::Bounded
            && let Some(guarantee) = self.built.guarantee
        {
            row("guarantee", thousands(guarantee as u64), "on any data with these ids".into());
        }
        row("labels", thousands(samples.task().labels), contradictions(self.contradictions, self.corpus));
        row(
            "layers",
            thousands(tally.depth as u64),
            format!("of at most {} neurons on {} channels", model.network.width(), model.network.channels()),
        );
        row("longest weight", thousands(tally.largest_bits as u64), "bits".into());
        let (bits, least) = (tally.fixed_bits + embedding.fixed_bits, self.information_bits());
        let note = match least > 0.0 {
            true => format!(
                "bits, {:.1} times the {} of the labels alone",
                bits as f64 / least,
                thousands_f64(least, 0)
            ),
            false => "bits".into(),
        };
        row("all weights", thousands(bits as u64), note);
        row("seconds", format!("{seconds:.2}"), "building and verifying".into());
        out += &table.render();
        let _ = write!(out, "\n{}", exact::parts(&model.network).render());
        out += "\nParameters are saved, not storage: a plain table of the labels is shorter than these weights.\n";
        out
    }
}

fn contradictions(n: u64, corpus: Option<&Corpus>) -> String {
    match (n, corpus) {
        (_, None) => String::new(),
        (0, _) => "every context has one next token".into(),
        (n, _) => format!("{} contexts have several next tokens: the most frequent is learnt", thousands(n)),
    }
}
