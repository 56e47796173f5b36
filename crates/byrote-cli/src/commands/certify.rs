//! `byrote certify`: what a model does, proven.

use crate::args::Common;
use crate::commands::eval;
use crate::corpus_args::CorpusArgs;
use crate::model_kind::ModelKind;
use crate::progress::Counter;
use crate::ui::{self, Table, thousands};
use byrote::Result;
use byrote::certify::{Certificate, Injectivity, Verdict, certify_watched};
use byrote::model::{Model, ModelFile};
use byrote::train::Problem;
use clap::Args;
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

pub const EXAMPLES: &str = "Examples:
  byrote build madden2024 --out built.safetensors && byrote certify built.safetensors
  byrote certify run/model.safetensors names.txt --limit 500
  byrote certify run/model.safetensors --builtin 100 --json

Exit code 0 where every context is proven to be memorized, 1 where one is proven not to be, or it cannot be told.";

#[derive(Debug, Args)]
pub struct CertifyCommand {
    /// The model
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    #[command(flatten)]
    pub corpus: CorpusArgs,
}

pub fn run(args: &CertifyCommand, common: &Common) -> Result<ExitCode> {
    let exact = "`byrote eval` runs it without rounding, so what it counts is proven";
    ModelKind::expect_tensors(&args.model, exact)?;
    let file = ModelFile::load(&args.model)?;
    let corpus = eval::as_the_model_reads(&args.corpus, &file)?.read(common, true)?;
    let problem = eval::problem_for(&file, &corpus)?;
    let started = Instant::now();
    let found = certified(&file.model, &problem, common.quiet)?;
    let seconds = started.elapsed().as_secs_f64();
    if common.json {
        let mut object = json!(found);
        if let Some(doubt) = &found.doubt {
            object["doubt"]["text"] = json!(eval::context_text(&problem, &file.vocabulary, doubt.context));
            object["doubt"]["tokens"] = json!(problem.tokens_of(doubt.context));
        }
        object["parameters"] = json!(file.model.parameters().len());
        object["seconds"] = json!(seconds);
        ui::print_json(&object)?;
    } else {
        ui::print(&human(&args.corpus.title(), &file, &problem, &found, seconds))?;
    }
    Ok(match found.verdict {
        Verdict::Certified => ExitCode::SUCCESS,
        Verdict::Refuted | Verdict::Undecided => ExitCode::from(1),
    })
}

/// The certificate, with a bar on a terminal.
pub fn certified(model: &Model, problem: &Problem, quiet: bool) -> Result<Certificate> {
    let counter = Counter::new(quiet, problem.len() as u64, "certifying  {pos}/{len} contexts  {eta} left");
    certify_watched(model, problem, &|done| counter.reached(done as u64))
}

/// What is proven of the mixer, in words.
fn injectivity(found: &Injectivity) -> String {
    let (plain, absolute) = (found.smallest_gap_lower_bound, found.smallest_absolute_gap_lower_bound);
    match (found.distinct, found.distinct_absolute_values) {
        (true, _) if plain == f64::INFINITY => "there is one context".into(),
        (true, true) => format!(
            "contexts differ in coordinate {} by {plain:.1e} at least, in absolute value by {absolute:.1e}",
            found.coordinate
        ),
        (true, false) => format!(
            "contexts differ in coordinate {} by {plain:.1e} at least; in absolute value two may agree",
            found.coordinate
        ),
        (false, _) => "in no coordinate are all contexts proven to differ".into(),
    }
}

fn human(title: &str, file: &ModelFile, problem: &Problem, found: &Certificate, seconds: f64) -> String {
    let parameters = thousands(file.model.parameters().len() as u64);
    let mut out = format!("{title}: a model of {parameters} parameters, {seconds:.1} s\n\n");
    let why = match found.verdict {
        Verdict::Certified => "every context is memorized, whatever the rounding",
        Verdict::Refuted => "a context is not memorized",
        Verdict::Undecided => "for some contexts the arithmetic does not tell",
    };
    let mut table = Table::new(&["verdict", found.verdict.name(), why], &[0, 2]);
    let margin = match found.min_margin_lower_bound {
        f64::MAX => "no other token".to_owned(),
        margin if margin.abs() < 1e6 => format!("{margin:.6}"),
        margin => format!("{margin:.3e}"),
    };
    let rows = [
        (
            "certified",
            thousands(found.certified_contexts),
            format!(
                "of {} contexts: the largest logit of the top set is above all others",
                thousands(found.contexts)
            ),
        ),
        ("refuted", thousands(found.refuted_contexts), "a logit outside the top set is the largest".into()),
        ("undecided", thousands(found.undecided_contexts), String::new()),
        ("smallest margin", margin, "no context has a smaller one".into()),
        ("gap", format!("{:.4e}", found.gap_nats_upper_bound.0), "nats at most, to the floor".into()),
        ("widest enclosure", format!("{:.1e}", found.largest_radius), "of a logit: plus or minus".into()),
        (
            "mixer",
            if found.injectivity.distinct_absolute_values { "injective" } else { "not proven" }.into(),
            injectivity(&found.injectivity),
        ),
        ("arithmetic", String::new(), found.arithmetic.into()),
    ];
    for (name, value, note) in rows {
        table.row(vec![name.into(), value, note]);
    }
    out += &table.render();
    if let Some(doubt) = &found.doubt {
        let text = eval::context_text(problem, &file.vocabulary, doubt.context);
        let _ = match found.verdict {
            Verdict::Refuted => {
                writeln!(
                    out,
                    "\nrefuted by: {text}\n  its margin is at most {:.3e}",
                    doubt.margin_upper_bound
                )
            }
            _ if !doubt.radius.is_finite() => writeln!(
                out,
                "\nundecided: {text}\n  nothing is known of a logit: numbers on the way to it are beyond 1e308; it would \
                 take smaller weights"
            ),
            _ => writeln!(
                out,
                "\nundecided: {text}\n  its margin lies between {:.3e} and {:.3e}; it would take logits known to \
                 better than {:.1e}, here {:.1e}",
                doubt.margin_lower_bound,
                doubt.margin_upper_bound,
                0.25 * (doubt.margin_lower_bound + doubt.margin_upper_bound).abs(),
                doubt.radius
            ),
        };
    }
    out
}
