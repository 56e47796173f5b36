//! `byrote eval`: how well a model knows a corpus.

use crate::args::Common;
use crate::exact;
use crate::input::CorpusInput;
use crate::model_kind::ModelKind;
use crate::ui::{self, Table, thousands, thousands_f64};
use byrote::corpus::{Corpus, Key, TokenizerChoice, Vocabulary};
use byrote::dataset::Dataset;
use byrote::evaluate::{Evaluation, Worst, evaluate};
use byrote::model::{Model, ModelFile};
use byrote::units::Nats;
use byrote::{Error, Result};
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

pub const EXAMPLES: &str = "Examples:
  byrote eval run/model.safetensors                          on the built-in stories
  byrote eval run/model.safetensors names.txt --limit 500
  byrote eval run/model.safetensors --builtin 100 --json";

#[derive(Debug, Args)]
pub struct EvalCommand {
    /// The model
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    #[command(flatten)]
    pub corpus: CorpusInput,
    /// A distribution is memorized where its KL is at most this many nats
    #[arg(long, allow_negative_numbers = true, value_name = "NATS", default_value_t = 1e-3)]
    pub tol: f64,
    /// How many of the worst contexts to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub worst: usize,
}

pub fn run(args: &EvalCommand, common: &Common) -> Result<ExitCode> {
    if ModelKind::of(&args.model)? == ModelKind::Exact {
        return exact::evaluate(args, common);
    }
    let file = ModelFile::load(&args.model)?;
    args.corpus.check([args.model.as_path()], [])?;
    let corpus = as_the_model_reads(&args.corpus, &file)?.read(common, true)?;
    let problem = dataset_for(&file, &corpus)?;
    let started = Instant::now();
    let found = evaluate(&file.model, &problem, Nats(args.tol), args.worst)?;
    let seconds = started.elapsed().as_secs_f64();
    if common.json {
        let mut object = as_json(&file.model, &found, &problem, &file.vocabulary);
        object["method"] = json!("eval");
        object["seed"] = json!(common.seed);
        object["seconds"] = json!(seconds);
        ui::print_json(&object)?;
    } else {
        ui::print(&human(&args.corpus.spec.title(), &file, &problem, &found))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The corpus options with the model's tokenizer and window where none are typed.
pub fn as_the_model_reads(typed: &CorpusInput, file: &ModelFile) -> Result<CorpusInput> {
    as_read_with(typed, &file.tokenizer, &file.vocabulary, file.model.config().shape.n_ctx)
}

/// The same for a model of any kind, which reads contexts of at most `longest` tokens.
pub fn as_read_with(
    typed: &CorpusInput,
    tokenizer: &str,
    vocabulary: &Vocabulary,
    longest: u64,
) -> Result<CorpusInput> {
    let mut args = typed.spec.clone();
    let reads_text = args.random.is_none() && args.merge.is_empty();
    if reads_text && args.tokenizer.is_none() {
        args.tokenizer = match tokenizer {
            "byte" => Some(TokenizerChoice::Byte),
            "char" => Some(TokenizerChoice::Char),
            "whitespace" => Some(TokenizerChoice::Whitespace),
            "wordpunct" => Some(TokenizerChoice::WordPunct),
            "ids" => None,
            other => {
                let message = format!("the model was made with {other}; name the file");
                return Err(Error::setting("tokenizer", message));
            }
        };
    }
    if reads_text {
        // A model that knows a start or an end token has been given it in every document.
        args.bos |= vocabulary.id(Key::Bos).is_some();
        args.eos |= vocabulary.id(Key::Eos).is_some();
    }
    if let Some(typed) = args.n_ctx.filter(|&t| u64::from(t) > longest) {
        return Err(Error::setting(
            "n_ctx",
            format!("must be at most {longest}, the longest context of the model (got {typed})"),
        ));
    }
    if reads_text && args.n_ctx.is_none() {
        args.n_ctx = u32::try_from(longest).ok();
    }
    Ok(typed.with(args))
}

/// The dataset of a corpus in the token ids of a model that is to read it.
pub fn dataset_for(file: &ModelFile, corpus: &Corpus) -> Result<Dataset> {
    let dataset = Dataset::from_corpus(corpus)?.in_vocabulary(&file.vocabulary)?;
    dataset.fits(file.model.config())?;
    Ok(dataset)
}

/// The fields that `eval` and `train` share.
pub fn as_json(model: &Model, found: &Evaluation, problem: &Dataset, vocabulary: &Vocabulary) -> Value {
    // A struct of numbers and lists: it always serialises.
    let mut object = serde_json::to_value(found).unwrap_or(Value::Null);
    object["parameters"] = json!(model.parameters().len());
    object["parameters_by_kind"] = json!(model.config().parameters_by_kind());
    object["relative_gap"] = json!((found.floor_nats.0 > 0.0).then(|| found.gap_nats.0 / found.floor_nats.0));
    if let Some(worst) = object["worst"].as_array_mut() {
        for (row, w) in worst.iter_mut().zip(&found.worst) {
            row["text"] = json!(problem.text_of(w.context));
            row["tokens"] = json!(problem.tokens_of(w.context));
            row["next"] = json!(
                problem
                    .next_of(w.context)
                    .iter()
                    .map(|&(t, n)| json!({"token": t, "text": vocabulary.text(t), "count": n}))
                    .collect::<Vec<_>>()
            );
            row["predicted_text"] = json!(vocabulary.text(w.predicted));
        }
    }
    object
}

/// Rows for loss, gap and memorized contexts.
pub fn figures(table: &mut Table, found: &Evaluation) {
    let Evaluation { loss_nats, floor_nats, gap_nats, .. } = found;
    let relative = match floor_nats.0 > 0.0 {
        true => format!("nats, {:.4}% of the floor", 100.0 * gap_nats.0 / floor_nats.0),
        false => format!("nats, {:.3e} a prediction", gap_nats.0 / found.predictions.max(1) as f64),
    };
    let share = |n: u64| {
        format!(
            "of {} contexts ({:.2}%)",
            thousands(found.contexts),
            100.0 * n as f64 / found.contexts.max(1) as f64
        )
    };
    let rows = [
        ("loss", thousands_f64(loss_nats.0, 4), "nats".to_owned()),
        ("floor", thousands_f64(floor_nats.at_least(), 4), "nats: no model can be below".into()),
        (
            "gap",
            if gap_nats.0 > 0.0 && gap_nats.0 < 1e-3 {
                format!("{:.2e}", gap_nats.0)
            } else {
                thousands_f64(gap_nats.0, 4)
            },
            relative,
        ),
        (
            "memorized",
            thousands(found.memorized),
            format!("{}: the likeliest token is a most frequent one", share(found.memorized)),
        ),
        (
            "as distributions",
            thousands(found.memorized_distribution),
            format!("{}; worst KL {:.4} nats", share(found.memorized_distribution), found.max_kl_nats.0),
        ),
        (
            "predictions right",
            format!("{:.2}%", 100.0 * found.prediction_accuracy),
            "the likeliest token is the one that follows".into(),
        ),
    ];
    for (name, value, note) in rows {
        table.row(vec![name.into(), value, note]);
    }
}

fn human(title: &str, file: &ModelFile, problem: &Dataset, found: &Evaluation) -> String {
    let mut out =
        format!("{title}: a model of {} parameters\n\n", thousands(file.model.parameters().len() as u64));
    let mut table = Table::new(&["predictions", &thousands(found.predictions), ""], &[0, 2]);
    figures(&mut table, found);
    out += &table.render();
    let heads = [
        "length",
        "contexts",
        "predictions",
        "gap (nats)",
        "memorized",
        "as distributions",
        "predictions right",
    ];
    let mut table = Table::new(&heads, &[]);
    for l in found.by_length.iter().take(40) {
        table.row(vec![
            l.length.to_string(),
            thousands(l.contexts),
            thousands(l.predictions),
            thousands_f64(l.gap_nats.0, 3),
            thousands(l.memorized),
            thousands(l.memorized_distribution),
            format!("{:.2}%", 100.0 * l.prediction_accuracy),
        ]);
    }
    let _ = write!(out, "\n{}", table.render());
    if found.by_length.len() > 40 {
        let _ = writeln!(out, "... {} lengths more: --json", found.by_length.len() - 40);
    }
    if !found.worst.is_empty() {
        let heads = ["gap (nats)", "count", "KL", "worst contexts", "next", "predicted", "with"];
        let mut table = Table::new(&heads, &[3, 4, 5]);
        for w in &found.worst {
            table.row(worst_row(w, problem, &file.vocabulary));
        }
        let _ = write!(out, "\n{}", table.render());
    }
    out
}

fn worst_row(w: &Worst, problem: &Dataset, vocabulary: &Vocabulary) -> Vec<String> {
    let text = problem.text_of(w.context);
    // The end of a long context tells more than its beginning.
    let length = text.chars().count();
    let text = match length > 48 {
        true => format!("...{}", text.chars().skip(length - 45).collect::<String>()),
        false => text,
    };
    vec![
        format!("{:.4}", w.gap_nats.0),
        thousands(w.count),
        format!("{:.4}", w.kl_nats.0),
        ui::shown(&text),
        ui::shown(&problem.next_text_of(w.context, 3)),
        ui::shown(&vocabulary.text(w.predicted)),
        format!("{:.1}%", 100.0 * w.probability),
    ]
}
