//! `byrote audit`: what a language model has memorized of a text.

use crate::args::{self, Common};
use crate::commands::sweep::clean_up_in;
use crate::paths;
use crate::progress::Terminal;
use crate::ui;
use byrote::audit::{self, Audit, AuditJob, AuditSpec, Subject, TextSpec};
use byrote::memory;
use byrote::report::{audit_page, text};
use byrote::{Error, Result};
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

pub const EXAMPLES: &str = "Examples:
  byrote audit my-finetune/ train.jsonl --held-out test.jsonl --out audit
  byrote audit model.gguf LICENSE.txt --documents file
  byrote audit gpt2/ book.txt --documents file --preset cooper
  byrote audit tuned/ train.txt --reference base/
  byrote audit log_probs.npy train.npy --documents chunk:512       log-probabilities of another program
  byrote audit --compare audit-before audit-after";

#[derive(Debug, Args)]
pub struct AuditCommand {
    /// The model: a directory of Hugging Face, a .gguf file, a model of byrote, an .onnx file (feature `onnx`), or log-probabilities as .npy, .parquet or .csv
    #[arg(value_name = "MODEL", required_unless_present = "compare")]
    pub model: Option<PathBuf>,
    #[command(flatten)]
    pub text: TextSpec,
    #[command(flatten)]
    pub spec: AuditSpec,
    /// Text of the same kind that the model was not trained on, as a control
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = "Audit")]
    pub held_out: Vec<PathBuf>,
    /// A model that has not seen the text: what the audited one knows beyond it counts as memorized
    #[arg(long, value_name = "MODEL", help_heading = "Audit")]
    pub reference: Option<PathBuf>,
    /// Strings that were inserted into the training text: JSON lines or CSV with `text` and `count`
    #[arg(long, value_name = "FILE", help_heading = "Audit")]
    pub canaries: Option<PathBuf>,
    /// Exit with 1 if more than this share of the windows is extractable
    #[arg(long, allow_negative_numbers = true, value_name = "SHARE", help_heading = "Audit")]
    pub fail_above: Option<f64>,
    /// Compare two audits of the same text instead
    #[arg(long, value_names = ["A", "B"], num_args = 2, conflicts_with_all = ["model", "paths"])]
    pub compare: Vec<PathBuf>,
    /// Write audit.json, tables and report.html here; an interrupted audit continues from it
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

pub fn run(args: &AuditCommand, common: &Common) -> Result<ExitCode> {
    if let [before, after] = &args.compare[..] {
        let compared = audit::compare(&Audit::load(before)?, &Audit::load(after)?)?;
        ui::show(common, || json!(compared), || text::audit_comparison(&compared))?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(model) = &args.model else {
        return Err(Error::setting("model", "name a model"));
    };
    if args.text.paths.is_empty() && args.text.builtin.is_none() {
        let message = "name the text to audit behind the model: files, or - for standard input";
        return Err(Error::EmptyCorpus { message: message.into() });
    }
    if let Some(share) = args.fail_above.filter(|share| !(0.0..=1.0).contains(share)) {
        return Err(Error::setting("fail_above", format!("must be from 0 to 1 (got {share})")));
    }
    let mut inputs = args.text.corpus().inputs();
    inputs.push(model.clone());
    inputs.extend(args.held_out.iter().chain(&args.reference).chain(&args.canaries).cloned());
    paths::check(inputs.iter().map(PathBuf::as_path), args.out.iter().map(|path| ("out", path.as_path())))?;
    if let Some(out) = &args.out {
        clean_up_in(out);
    }
    let started = Instant::now();
    let max_memory = args.spec.max_memory.or_else(memory::free);
    let load = |path: &PathBuf| Subject::load(path, args.text.tokenizer.as_ref(), max_memory);
    let subject = load(model)?;
    let reference =
        args.reference.as_ref().map(|path| subject.load_reference(path, max_memory)).transpose()?;
    let job = AuditJob::default()
        .text(args.text.clone())
        .spec(args.spec.clone())
        .held_out(args.held_out.clone())
        .canaries(args.canaries.clone())
        .seed(common.seed);
    if subject.facts.instruct {
        ui::note(
            common.quiet,
            "this model has a chat template; the text is given without it, so the figures are lower bounds",
        );
    }
    let observer = Terminal::new(common.quiet);
    let audited = audit::run(&subject, reference.as_ref(), &job, args.out.as_deref(), &observer)?;
    let report = match &args.out {
        Some(out) => Some(audit_page(&audited, &args::command_line(), out)?),
        None => None,
    };
    drop(observer);
    let seconds = started.elapsed().as_secs_f64();
    let as_json = || {
        let mut object = serde_json::to_value(&audited.audit).unwrap_or(Value::Null);
        object["seconds"] = json!(seconds);
        object["report_file"] = json!(report);
        object
    };
    ui::show(common, as_json, || text::audit(&audited.audit))?;
    if let (Some(report), false) = (&report, common.json) {
        ui::wrote(common, [report]);
    }
    let share = audited.audit.extractable_share();
    let too_much = args.fail_above.zip(share).is_some_and(|(most, share)| share > most);
    Ok(if too_much { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
