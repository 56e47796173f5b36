//! `byrote study`: the whole story of a corpus, and one report.

use crate::args::Common;
use crate::commands::eval;
use crate::commands::reproduce::sander2024::{errors, sequences};
use crate::commands::sweep::{SweepArgs, execute_plan, exit_code};
use crate::input::CorpusInput;
use crate::interrupt;
use crate::memory;
use crate::progress::Terminal;
use crate::reporting::{command_line, write_page};
use crate::ui::{self, thousands};
use byrote::certify::certify;
use byrote::construct::{dana2024, kajitsuka2024, madden2024};
use byrote::corpus::{Corpus, Summary, TokenizerChoice};
use byrote::dataset::Dataset;
use byrote::evaluate::evaluate;
use byrote::incontext::{Attention, Kernel, Map, Method, Sequence, Task, predict};
use byrote::lab::directory::lock;
use byrote::lab::{Corpora, Job, Plan, Record};
use byrote::model::{Activation, Counting, Model, ModelFile, ModelSpec};
use byrote::output::OutputFile;
use byrote::report::incontext_figure::Series;
use byrote::report::study_page::{Built, BuiltOutcome, Certificate, Part, Study, Trained, WorstContext};
use byrote::train::TrainSpec;
use byrote::units::Nats;
use byrote::{Error, Result};
use clap::Args;
use serde_json::json;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

pub const EXAMPLES: &str = "Examples:
  byrote study                       the built-in stories
  byrote study my.txt --quick        fifteen seconds
  byrote study my.txt --out study    report.html, results and models in the directory study

The floor and the bounds are of the whole text. Building and training take the first documents that fit the time; --full
takes all of them.";

#[derive(Debug, Args)]
pub struct StudyCommand {
    #[command(flatten)]
    pub corpus: CorpusInput,
    #[command(flatten)]
    pub study: StudyArgs,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Study")]
pub struct StudyArgs {
    /// A look in about fifteen seconds
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// All documents, more widths, as long as it takes
    #[arg(long)]
    pub full: bool,
    /// Show a transformer that learns in the context too
    #[arg(long)]
    pub incontext: bool,
    /// Where report.html and everything else goes
    #[arg(long, value_name = "DIR", default_value = "study")]
    pub out: PathBuf,
}

/// Contexts up to which dense systems are solved.
const DENSE: usize = 6000;
/// Bytes that a dense system takes for every pair of contexts, about: the matrix, its factors, and what they are made from.
const BYTES_OF_A_PAIR: u64 = 48;
/// Contexts up to which the exact network is built.
const EXACT: usize = 20_000;

/// How much is done.
struct Scale {
    /// Contexts to build and train on, at most.
    contexts: u64,
    /// Contexts times vocabulary, at most: the work of a step.
    work: u64,
    widths: &'static [u64],
    steps: u64,
}

impl StudyArgs {
    fn scale(&self) -> Scale {
        match (self.quick, self.full) {
            (true, _) => Scale { contexts: 3000, work: 1_000_000, widths: &[16, 64, 256], steps: 400 },
            (_, true) => Scale {
                contexts: u64::MAX,
                work: u64::MAX,
                widths: &[4, 8, 16, 32, 64, 128, 256, 512, 1024],
                steps: 10_000,
            },
            _ => Scale {
                contexts: 6000,
                work: 3_000_000,
                widths: &[8, 16, 32, 64, 128, 256, 512],
                steps: 1500,
            },
        }
    }

    fn name(&self) -> &'static str {
        match (self.quick, self.full) {
            (true, _) => "--quick",
            (_, true) => "--full",
            _ => "default",
        }
    }
}

pub fn run(args: &StudyCommand, common: &Common) -> Result<ExitCode> {
    let started = Instant::now();
    let out = &args.study.out;
    let say = |words: &str| ui::note(common.quiet, words);
    let scale = args.study.scale();

    say(&format!("reading {}", args.corpus.spec.title()));
    // Standard input goes to a file of the study, which is held from then on; otherwise nothing is written for a text that
    // cannot be read.
    args.corpus.check([], [])?;
    let from_stdin = args.corpus.spec.reads_standard_input();
    let held = if from_stdin { Some(hold(out)?) } else { None };
    let whole = if from_stdin { spool(&args.corpus, out)? } else { args.corpus.clone() };
    let (corpus_args, summary) = read_whole(&whole, common, &say)?;
    let (part_args, part) = part_that_fits(&corpus_args, common, &summary, &scale)?;
    let _held = match held {
        Some(file) => file,
        None => hold(out)?,
    };
    let facts = Part {
        documents: part.documents(),
        contexts: part.len() as u64,
        d_vocab: part.d_vocab(),
        floor_nats: part.floor().0,
        is_all: part.documents() == summary.documents,
    };
    if !facts.is_all {
        say(&format!(
            "building and training on the first {} documents, {} contexts",
            thousands(facts.documents),
            thousands(facts.contexts)
        ));
    }

    let max_memory = memory::for_matrices(args.corpus.spec.max_memory);
    let built = build(&part, max_memory, common, &say)?;
    if interrupt::asked() {
        return interrupted(common);
    }
    let plan = plan(&part_args, common, &scale, &facts);
    let corpora = Corpora::one(&plan.jobs[0].corpus, Arc::new(part));
    let n = plan.jobs.len();
    say(&format!("training {n} width{}", if n == 1 { "" } else { "s" }));
    let running =
        SweepArgs { out: None, dry_run: false, fail_fast: false, keep_models: true, checkpoint_every: 30.0 };
    let directory = out.join("training");
    let (outcome, _) = match execute_plan(&plan, &corpora, &directory, &running, common) {
        // The directory of another study: its training is of no use here, but it may be of use.
        Err(Error::OtherRun { name, .. }) if name == STUDY => {
            let aside = put_aside(out)?;
            say(&format!(
                "another study was here: its trainings and its page are kept, see {}",
                aside.display()
            ));
            execute_plan(&plan, &corpora, &directory, &running, common)?
        }
        other => other?,
    };
    if outcome.interrupted {
        return interrupted(common);
    }
    let material = corpora.of(&plan.jobs[0])?;
    let trained = trained(&plan, &directory, material)?;
    let worst = worst(&trained, material);

    let study = Study {
        title: args.corpus.spec.title(),
        summary,
        part: facts,
        built,
        trained,
        worst,
        in_context: if args.study.incontext { in_context(common, &say)? } else { Vec::new() },
        command: command_line(),
        settings: vec![
            ("seed".into(), common.seed.to_string()),
            ("scale".into(), args.study.name().into()),
            ("tokenizer".into(), material.tokenizer().to_owned()),
            ("n_ctx".into(), material.n_ctx().to_string()),
        ],
    };
    let page = study.page();
    let report = write_page(out, &page)?;
    for name in OPTIONAL_FIGURES.iter().filter(|name| page.exhibits().iter().all(|(n, _)| n != **name)) {
        for ending in ["svg", "png", "csv"] {
            // One of an earlier study here would pass for this one's.
            let _ = std::fs::remove_file(out.join("figures").join(format!("{name}.{ending}")));
        }
    }
    let verdict = study.verdict();
    if common.json {
        ui::print_json(&json!({
            "verdict": verdict,
            "report_file": report,
            "contexts": study.summary.contexts,
            "floor_nats": study.summary.floor_nats,
            "part": {"documents": study.part.documents, "contexts": study.part.contexts, "all": study.part.is_all},
            "threshold_d_mlp": study.threshold().map(|t| t.row.d_mlp),
            "seconds": started.elapsed().as_secs_f64(),
        }))?;
    } else {
        ui::print(&(verdict.join("\n") + "\n"))?;
        say(&format!("wrote {}", report.display()));
    }
    if outcome.failed > 0 {
        let results = directory.join("results.csv");
        // Not a note: it is told even to who asked for quiet.
        ui::note(
            false,
            &format!(
                "byrote: {} of {} trainings failed; see {}",
                outcome.failed,
                outcome.jobs,
                results.display()
            ),
        );
    }
    Ok(exit_code(&outcome))
}

/// The name of the plans of studies.
const STUDY: &str = "study";
/// Figures that not every study's page has.
const OPTIONAL_FIGURES: [&str; 3] = ["training", "widths", "in-context"];

/// Moves the trainings and the page of another study out of the way; gives the folder of the trainings.
fn put_aside(out: &Path) -> Result<PathBuf> {
    let free = |n: &u32| {
        !out.join(format!("training-{n}")).exists() && !out.join(format!("report-{n}.html")).exists()
    };
    let n = (1..).find(free).unwrap_or_default();
    let (from, aside) = (out.join("training"), out.join(format!("training-{n}")));
    std::fs::rename(&from, &aside).map_err(|e| Error::io(&from, "rename", e))?;
    let page = out.join("report.html");
    match std::fs::rename(&page, out.join(format!("report-{n}.html"))) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(&page, "rename", e)),
        _ => Ok(aside),
    }
}

/// Ctrl-C: what was done stays, and the same command goes on.
fn interrupted(common: &Common) -> Result<ExitCode> {
    if common.json {
        ui::print_json(&json!({"interrupted": true}))?;
    }
    ui::note(common.quiet, "interrupted; the same command goes on");
    Ok(ExitCode::from(interrupt::EXIT_CODE))
}

/// Makes the directory of a study, and holds it against others while the file is open.
fn hold(out: &Path) -> Result<File> {
    std::fs::create_dir_all(out).map_err(|e| Error::io(out, "create", e))?;
    lock(out)
}

/// Standard input, written to a file of the study: it is read more than once.
fn spool(args: &CorpusInput, out: &Path) -> Result<CorpusInput> {
    let path = out.join("stdin.txt");
    interrupt::clean_up_beside(&path);
    let mut file = OutputFile::create(&path)?;
    std::io::copy(&mut std::io::stdin().lock(), &mut file).map_err(|e| Error::io(&path, "write", e))?;
    file.commit()?;
    let mut spooled = args.clone();
    for given in spooled.spec.paths.iter_mut().filter(|p| p.as_os_str() == "-") {
        given.clone_from(&path);
    }
    Ok(spooled)
}

/// The figures of the whole corpus. A list of words has no contexts by words; it has by letters, and that is what its user
/// means.
fn read_whole(args: &CorpusInput, common: &Common, say: &dyn Fn(&str)) -> Result<(CorpusInput, Summary)> {
    let summary = args.read(common, false)?.summary;
    let from_stdin = args.spec.reads_standard_input();
    if summary.contexts > 0 || args.spec.tokenizer.is_some() || args.spec.paths.is_empty() || from_stdin {
        return Ok((args.clone(), summary));
    }
    let mut letters = args.clone();
    letters.spec.tokenizer = Some(TokenizerChoice::Char);
    match letters.read(common, false) {
        Ok(corpus) if corpus.summary.contexts > 0 => {
            say("every document is one word: reading characters (--tokenizer char)");
            Ok((letters, corpus.summary))
        }
        _ => Ok((args.clone(), summary)),
    }
}

/// The first documents that the scale allows, with the options that read them.
fn part_that_fits(
    args: &CorpusInput,
    common: &Common,
    whole: &Summary,
    scale: &Scale,
) -> Result<(CorpusInput, Dataset)> {
    // Where memory is limited, so many contexts that their dense system fits.
    let held = args.spec.max_memory.map_or(u64::MAX, |bytes| (bytes / BYTES_OF_A_PAIR).isqrt());
    let most = scale.contexts.min(held.max(1));
    let fits = |s: &Summary| s.contexts <= most && s.contexts.saturating_mul(s.d_vocab) <= scale.work;
    // The lists and summaries that were asked for are of the whole, and written by now.
    let args = &CorpusInput::only(args.spec.clone());
    if fits(whole) {
        return Ok((args.clone(), Dataset::from_corpus(&args.read(common, true)?)?));
    }
    if !args.spec.merge.is_empty() {
        let message = "summaries cannot be read in part; give files, or --full";
        return Err(Error::setting("paths", message));
    }
    // Contexts grow a little slower than documents, their product with the vocabulary faster.
    let share = (most as f64 / whole.contexts as f64)
        .min((scale.work as f64 / (whole.contexts as f64 * whole.d_vocab as f64)).sqrt());
    let mut documents = ((whole.documents as f64 * share * 1.5) as u64).clamp(1, whole.documents);
    loop {
        let part = CorpusInput::only(args.spec.first_documents(documents));
        let corpus: Corpus = part.read(common, true)?;
        if fits(&corpus.summary) || documents == 1 {
            return Ok((part, Dataset::from_corpus(&corpus)?));
        }
        documents = (documents * 3 / 4).max(1);
    }
}

/// Closed-form models of the part, each certified.
fn build(part: &Dataset, max_memory: u64, common: &Common, say: &dyn Fn(&str)) -> Result<Vec<Built>> {
    let (problem, seed) = (part, common.seed);
    let observer = Terminal::new(common.quiet);
    let mut all = Vec::new();
    let mut add =
        |method, words: &str, distributions: bool, make: &dyn Fn() -> Result<Model>| -> Result<()> {
            if interrupt::asked() {
                return Ok(());
            }
            say(&format!("building {method}: {words}"));
            let outcome = match make() {
                Ok(model) => {
                    let found = evaluate(&model, problem, Nats(1e-3), 0)?;
                    let certificate = certify(&model, problem, &observer)?;
                    Ok(BuiltOutcome {
                        parameters: model.parameters().len() as u64,
                        counts: None,
                        memorized: found.memorized,
                        gap_nats: distributions.then_some(found.gap_nats.0),
                        certificate: Certificate::Enclosed(Box::new(certificate)),
                    })
                }
                Err(Error::Refused { refusal, .. }) => Err(refusal.to_string()),
                Err(other) => return Err(other),
            };
            all.push(Built { method, words: words.into(), outcome });
            Ok(())
        };
    let hidden = |activation| {
        let settings =
            madden2024::Settings { activation, seed, max_memory, ..madden2024::Settings::default() };
        madden2024::build(problem, &settings, &observer).map(|b| b.0)
    };
    add("madden2024", "attention, tanh neurons, steps along one direction", true, &|| {
        hidden(Activation::Tanh)
    })?;
    // Dense systems grow with the cube of the contexts.
    if problem.len() <= DENSE {
        add("madden2024", "attention, GELU neurons, one linear system", true, &|| hidden(Activation::Gelu))?;
        add("dana2024", "attention alone, for the most frequent next token", false, &|| {
            let task = Some(dana2024::Task::Association);
            let settings = dana2024::Settings { task, seed, max_memory, ..dana2024::Settings::default() };
            dana2024::build(problem, &settings, &observer).map(|b| b.0)
        })?;
    }
    let too_many = |method, words: &str, most: usize| Built {
        method,
        words: words.into(),
        outcome: Err(format!(
            "above {most} contexts it takes too long here; `byrote build {method}` has no such limit"
        )),
    };
    if problem.len() > DENSE {
        all.push(too_many("dana2024", "attention alone", DENSE));
    }
    if problem.len() > EXACT {
        all.push(too_many("kajitsuka2024", "a deep network of long weights", EXACT));
    } else if !interrupt::asked() {
        all.push(square_root(part, common, say)?);
    }
    Ok(all)
}

/// The exact network with about the square root of as many parameters as contexts.
fn square_root(part: &Dataset, common: &Common, say: &dyn Fn(&str)) -> Result<Built> {
    let words = "a deep network of long weights, for the most frequent next token";
    say(&format!("building kajitsuka2024: {words}"));
    let observer = Terminal::new(common.quiet);
    let built = kajitsuka2024::build_for(part, common.seed, &observer)?;
    let counts = built.parameters();
    let outcome = BuiltOutcome {
        parameters: u64::try_from(counts.total(Counting::Dense)).unwrap_or(u64::MAX),
        counts: Some(counts),
        memorized: built.verified as u64,
        gap_nats: None,
        certificate: Certificate::Exact(built.verified as u64),
    };
    Ok(Built { method: "kajitsuka2024", words: words.into(), outcome: Ok(outcome) })
}

/// Sequences of the demonstration, their length and width.
const SEQUENCES: u64 = 20;
const LENGTH: usize = 120;
const WIDTH: usize = 15;

/// Transformers that learn in the context: errors of the method's limit, of networks of some layers, and of guessing.
fn in_context(common: &Common, say: &dyn Fn(&str)) -> Result<Vec<Series>> {
    say("learning in the context: causal kernel descent on linear sequences");
    let (task, kernel) = (Task::Linear(Map::Orthogonal), Kernel::exp(1.0)?);
    let known = sequences(task, WIDTH, LENGTH, common.seed, 0, SEQUENCES)?;
    let seen: Vec<Sequence> = known.iter().map(|x| x.first(LENGTH)).collect::<Result<_>>()?;
    let observer = Terminal::new(common.quiet);
    let mut series = Vec::new();
    for (key, label, method) in [
        ("limit", "infinitely many layers", Method::Direct),
        ("layers-4", "4 layers", Method::layers(4)),
        ("layers-16", "16 layers", Method::layers(16)),
        ("layers-64", "64 layers", Method::layers(64)),
    ] {
        let found = predict(&seen, kernel, Attention::Softmax, method, &observer)?;
        series.push(Series {
            key: key.into(),
            label: label.into(),
            errors: errors(&found.predictions, &known),
        });
    }
    Ok(series)
}

/// Widths to train; the corpus is the one that was read.
fn plan(args: &CorpusInput, common: &Common, scale: &Scale, part: &Part) -> Plan {
    let spec = args.seeded(common);
    let corpus = match part.is_all || !spec.merge.is_empty() {
        true => spec,
        false => spec.first_documents(part.documents),
    };
    let training = TrainSpec::default().steps(scale.steps);
    let jobs = scale
        .widths
        .iter()
        // More neurons than contexts tell nothing new.
        .filter(|&&m| m < 2 * part.contexts || m == scale.widths[0])
        .map(|&m| Job {
            corpus: corpus.clone(),
            model: ModelSpec::default().d_mlp(m),
            training,
            seed: common.seed,
        })
        .collect();
    Plan { name: STUDY.into(), jobs, seed_corpora: false, command: Some(command_line()) }
}

/// Rows, curves and evaluations of what was trained.
fn trained(plan: &Plan, directory: &Path, material: &Dataset) -> Result<Vec<Trained>> {
    let mut record = Record::load(directory)?;
    let mut all = Vec::new();
    for row in record.rows.into_iter().filter(|r| plan.jobs.contains(&r.settings)) {
        let curve = record.curves.remove(&row.job).unwrap_or_default();
        let model = ModelFile::load(&directory.join("models").join(format!("{}.safetensors", row.job)));
        let evaluation = match model {
            Ok(file) => Some(evaluate(&file.model, material, Nats(1e-3), 10)?),
            Err(_) => None,
        };
        all.push(Trained { row, curve, evaluation });
    }
    Ok(all)
}

/// The worst contexts of the model with the smallest gap.
fn worst(trained: &[Trained], material: &Dataset) -> Vec<WorstContext> {
    let best = trained
        .iter()
        .filter_map(|t| Some((t.evaluation.as_ref()?, t.row.result.as_ref()?.gap_nats)))
        .min_by(|a, b| a.1.total_cmp(&b.1));
    let Some((evaluation, _)) = best else { return Vec::new() };
    evaluation
        .worst
        .iter()
        .map(|w| WorstContext {
            text: material.text_of(w.context),
            count: w.count,
            next: eval::next_text(material, material.vocabulary(), w.context, 4),
            predicted: material.vocabulary().text(w.predicted),
            probability: w.probability,
            kl_nats: w.kl_nats.0,
        })
        .collect()
}
