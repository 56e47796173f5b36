//! `byrote corpus`: contexts and floor.

use crate::args::Common;
use crate::input::CorpusInput;
use crate::interrupt;
use crate::spelling;
use crate::ui::{self, Table, thousands, thousands_f64};
use byrote::corpus::builtin::Stories;
use byrote::corpus::{CorpusSpec, Summary};
use byrote::output::{OutputFile, csv_text};
use byrote::units::Nats;
use byrote::{Error, Result};
use clap::Args;
use rayon::prelude::*;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub const EXAMPLES: &str = "Examples:
  byrote corpus                                          the built-in stories
  byrote corpus names.txt --tokenizer char --n-ctx 15
  byrote corpus books/*.jsonl.gz --field body --max-memory 2G
  byrote corpus tokens.bin --dtype u16 --separator-id 50256 --n-ctx 32
  byrote corpus a.txt --save a.summary; byrote corpus --merge a.summary b.summary
  byrote corpus --random 10000 --d-vocab 50 --lengths 1..8 --labels 10";

#[derive(Debug, Args)]
pub struct CorpusCommand {
    #[command(flatten)]
    pub corpus: CorpusInput,
    /// Print the table of context lengths as CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Write the built-in stories to FILE, one per line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["paths", "random", "merge"])]
    pub write: Option<PathBuf>,
}

pub fn run(args: &CorpusCommand, common: &Common) -> Result<ExitCode> {
    args.corpus.check([], args.write.as_deref().map(|path| ("write", path)))?;
    let written = match &args.write {
        Some(path) => {
            let documents = args.corpus.spec.builtin.unwrap_or(CorpusSpec::BUILTIN_DOCUMENTS);
            Some((path, write_stories(path, documents, common.seed)?))
        }
        None => None,
    };
    let corpus = args.corpus.read(common, false)?;
    let summary = &corpus.summary;
    if common.json {
        let mut object = as_json(summary);
        if let Some((path, bytes)) = written {
            object["written"] = json!({"path": path, "bytes": bytes});
        }
        ui::print_json(&object)?;
    } else if args.csv {
        ui::print(&csv(summary))?;
    } else {
        ui::print(&human(&args.corpus.spec.title(), summary))?;
    }
    if let Some((path, bytes)) = written {
        ui::note(common.quiet, &format!("wrote {} ({} bytes)", path.display(), thousands(bytes)));
    }
    if let Some(hint) = summary.hint() {
        ui::note(common.quiet, &format!("hint: {}", spelling::of_text(hint)));
    }
    for path in [&args.corpus.save, &args.corpus.list].into_iter().flatten() {
        ui::note(common.quiet, &format!("wrote {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The summary as the JSON object that other programs rely on.
pub fn as_json(summary: &Summary) -> Value {
    // A struct of numbers, strings and lists always serializes.
    serde_json::to_value(summary).unwrap_or(Value::Null)
}

fn csv(summary: &Summary) -> String {
    let row = |length: String, contexts: u64, predictions: u64, floor: Nats| {
        [length, contexts.to_string(), predictions.to_string(), floor.0.to_string()]
    };
    let lengths =
        summary.by_length.iter().map(|l| row(l.length.to_string(), l.contexts, l.predictions, l.floor_nats));
    let all = row("all".into(), summary.contexts, summary.predictions, summary.floor_nats);
    csv_text(["length", "contexts", "predictions", "floor_nats"], lengths.chain([all]))
}

fn human(title: &str, summary: &Summary) -> String {
    let mut out = format!("{title}, {} tokens, contexts up to {}\n\n", summary.tokenizer, summary.n_ctx);
    let percent = |part: u64, whole: u64| format!("{:.1}%", 100.0 * part as f64 / whole.max(1) as f64);
    let mut figures = Table::new(&["documents", &thousands(summary.documents), &dropped(summary)], &[0, 2]);
    let left_out = match summary.tokens_left_out {
        0 => "kept: at most one more than the longest context".into(),
        n => format!("kept; left out: {} tokens beyond the window", thousands(n)),
    };
    figures.row(vec!["tokens".into(), thousands(summary.tokens), left_out]);
    figures.row(vec!["vocabulary".into(), thousands(summary.d_vocab), String::new()]);
    figures.row(vec![
        "contexts".into(),
        thousands(summary.contexts),
        format!(
            "{} with a single next token ({}), {} contradictions",
            thousands(summary.deterministic_contexts),
            percent(summary.deterministic_contexts, summary.contexts),
            thousands(summary.contradictions()),
        ),
    ]);
    figures.row(vec!["predictions".into(), thousands(summary.predictions), String::new()]);
    let total = thousands_f64(summary.floor_nats.at_least(), 4);
    let floor = match summary.floor_nats_per_prediction {
        Some(nats) => [
            format!("{:.6}", nats.at_least()),
            format!("nats = {:.6} bits per prediction; {total} nats in total", nats.bits_at_least()),
        ],
        None => [total, "nats; nothing is predicted".into()],
    };
    figures.row(["floor".to_owned()].into_iter().chain(floor).collect());
    out += &figures.render();

    if !summary.by_length.is_empty() {
        let mut table =
            Table::new(&["length", "contexts", "predictions", "floor (nats)", "bits per prediction"], &[]);
        let shown = summary.by_length.len().min(40);
        for l in &summary.by_length[..shown] {
            let bits =
                l.floor_nats.per(l.predictions).map_or("-".into(), |n| format!("{:.4}", n.bits_at_least()));
            table.row(vec![
                l.length.to_string(),
                thousands(l.contexts),
                thousands(l.predictions),
                thousands_f64(l.floor_nats.at_least(), 3),
                bits,
            ]);
        }
        let _ = write!(out, "\n{}", table.render());
        if shown < summary.by_length.len() {
            let _ =
                writeln!(out, "... {} more lengths: see --csv or --json", summary.by_length.len() - shown);
        }
        let mut coverage = Table::new(&["share of predictions", "contexts that cover it (T_eps)"], &[]);
        for c in &summary.coverage {
            coverage.row(vec![format!("{}%", 100.0 - 100.0 * c.epsilon), thousands(c.contexts)]);
        }
        let _ = write!(out, "\n{}", coverage.render());
    }
    out
}

fn dropped(summary: &Summary) -> String {
    let parts: Vec<String> = [(summary.dropped.empty, "empty"), (summary.dropped.short, "too short")]
        .into_iter()
        .filter(|&(n, _)| n > 0)
        .map(|(n, what)| format!("{} {what}", thousands(n)))
        .collect();
    let kept = format!("kept, {} of them distinct", thousands(summary.sequences));
    if parts.is_empty() { kept } else { format!("{kept}; left out: {}", parts.join(", ")) }
}

/// Writes the stories, one per line, and returns the size of the file in bytes.
fn write_stories(path: &Path, documents: u64, seed: u64) -> Result<u64> {
    const BATCH: u64 = 1 << 12;
    let stories = Stories::new(seed);
    interrupt::clean_up_beside(path);
    let mut out = OutputFile::create(path)?;
    let mut bytes = 0;
    let mut start = 0;
    while start < documents {
        // A few batches at a time are made in parallel and written in order.
        let round = (BATCH * 16).min(documents - start);
        let texts: Vec<String> = (0..round.div_ceil(BATCH))
            .into_par_iter()
            .map(|batch| {
                let mut text = String::new();
                let from = start + batch * BATCH;
                for i in from..(from + BATCH).min(start + round) {
                    stories.write(i, &mut text);
                    text.push('\n');
                }
                text
            })
            .collect();
        for text in texts {
            out.write_all(text.as_bytes()).map_err(|e| Error::io(path, "write", e))?;
            bytes += text.len() as u64;
        }
        start += round;
        if interrupt::asked() {
            return Err(Error::Interrupted);
        }
    }
    out.commit()?;
    Ok(bytes)
}
