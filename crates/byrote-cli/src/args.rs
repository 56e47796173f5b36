//! The arguments of the program.

use crate::commands;
use byrote::{Error, Result};
use clap::{Args, Parser, Subcommand};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::sync::OnceLock;

/// How much can a transformer memorize?
#[derive(Debug, Parser)]
#[command(name = "byrote", version, about, arg_required_else_help = true, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub common: Common,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// Print one JSON object, and nothing else, on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// The seed for all random numbers
    #[arg(long, allow_negative_numbers = true, global = true, default_value_t = 0, value_name = "N")]
    pub seed: u64,
    /// Threads to use; results do not depend on their number [default: all cores]
    #[arg(long, allow_negative_numbers = true, global = true, value_name = "N")]
    pub threads: Option<usize>,
    /// Show no progress and no notes on standard error
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

impl Common {
    /// Runs in a pool of the threads asked for.
    pub fn in_pool<T: Send>(&self, run: impl FnOnce() -> T + Send) -> Result<T> {
        let threads = match self.threads {
            Some(0) => return Err(Error::setting("threads", "must be at least 1 (got 0)")),
            Some(n) if n > 4096 => {
                return Err(Error::setting("threads", format!("must be at most 4096 (got {n})")));
            }
            Some(n) => n,
            None => 0, // rayon's word for all cores
        };
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(|e| Error::setting("threads", e.to_string()))?;
        Ok(pool.install(run))
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// The main job: floor, bounds, models in closed form with certificates, training, and one report
    #[command(after_help = commands::study::EXAMPLES)]
    Study(Box<commands::study::StudyCommand>),
    /// Contexts and floor of a text: how much there is to memorize, and the lowest loss any model can reach
    #[command(after_help = commands::corpus::EXAMPLES)]
    Corpus(Box<commands::corpus::CorpusCommand>),
    /// Capacity bounds of 21 papers for a corpus, a model, or both, with their hypotheses checked
    #[command(after_help = commands::bounds::EXAMPLES)]
    Bounds(Box<commands::bounds::BoundsCommand>),
    /// Train a transformer towards the floor, and stop there
    #[command(after_help = commands::train::EXAMPLES)]
    Train(Box<commands::train::TrainCommand>),
    /// Weights in closed form that memorize a corpus, without training
    #[command(after_help = commands::build::EXAMPLES)]
    Build(Box<commands::build::BuildCommand>),
    /// Prove what a model memorizes, with rigorous arithmetic
    #[command(after_help = commands::certify::EXAMPLES)]
    Certify(Box<commands::certify::CertifyCommand>),
    /// Loss, gap, memorized contexts and the worst contexts of a model on a corpus
    #[command(after_help = commands::eval::EXAMPLES)]
    Eval(Box<commands::eval::EvalCommand>),
    /// The next-token distribution of a model for a text, next to that of the corpus
    #[command(after_help = commands::predict::EXAMPLES)]
    Predict(Box<commands::predict::PredictCommand>),
    /// What a language model of yours has memorized of a text: extraction, bits, distance to the floor
    #[command(after_help = commands::audit::EXAMPLES)]
    Audit(Box<commands::audit::AuditCommand>),
    /// A local web page: explore a corpus, compare models, watch runs, read audits, try shapes
    #[command(after_help = commands::serve::EXAMPLES)]
    Serve(Box<commands::serve::ServeCommand>),
    /// What a model holds: shape, switches, parameters by kind, vocabulary
    Show(commands::show::ShowCommand),
    /// Write a model for other programs: one ONNX file, or a directory for Hugging Face's transformers
    #[command(after_help = commands::export::EXAMPLES)]
    Export(commands::export::ExportCommand),
    /// Run a grid of training runs from a TOML plan; resumable
    #[command(after_help = commands::sweep::EXAMPLES)]
    Sweep(Box<commands::sweep::SweepCommand>),
    /// Rank and Kruskal rank of the hidden features psi(a b^T), certified
    #[command(after_help = commands::rank::EXAMPLES)]
    Rank(commands::rank::RankCommand),
    /// Run an explicitly constructed transformer that learns maps in context, on synthetic or user-supplied
    /// sequences
    #[command(after_help = commands::incontext::EXAMPLES)]
    Incontext(Box<commands::incontext::IncontextCommand>),
    /// Reproduce a paper's figure: a small version, or with --full as published
    #[command(after_help = commands::reproduce::EXAMPLES)]
    Reproduce(commands::reproduce::ReproduceCommand),
    /// Redraw the report of a run directory, even an unfinished one
    #[command(after_help = commands::report::EXAMPLES)]
    Report(commands::report::ReportCommand),
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// What was typed, with a negative number joined to the option before it (`--lr=-1e-3`), so that the check of its range answers
/// and not the parser, which takes `-1e-3` for options. A switch takes no value, and stays apart.
pub fn typed(command: &clap::Command, words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let switches = switches(command);
    let mut joined: Vec<OsString> = Vec::new();
    let mut options = true;
    for word in words {
        options &= word != "--";
        let takes_a_value = |before: &OsString| {
            let before = before.to_string_lossy();
            before.starts_with("--") && !before.contains('=') && !switches.contains(&before[2..])
        };
        match joined.last_mut().filter(|before| options && is_negative(&word) && takes_a_value(before)) {
            Some(before) => {
                before.push("=");
                before.push(&word);
            }
            None => joined.push(word),
        }
    }
    joined
}

/// The long options that take no value in any command.
fn switches(command: &clap::Command) -> BTreeSet<String> {
    let mut switches = BTreeSet::new();
    let mut options = BTreeSet::new();
    let mut open = vec![command];
    while let Some(command) = open.pop() {
        for argument in command.get_arguments() {
            let of_its_kind = if argument.get_action().takes_values() { &mut options } else { &mut switches };
            of_its_kind.extend(argument.get_long().map(str::to_owned));
        }
        open.extend(command.get_subcommands());
    }
    &switches - &options
}

/// Whether a word is a negative number, such as -3 or -1e-300.
fn is_negative(word: &OsStr) -> bool {
    let digits = word.to_str().and_then(|text| text.strip_prefix('-'));
    digits.is_some_and(|text| {
        text.starts_with(|c: char| c.is_ascii_digit() || c == '.') && text.parse::<f64>().is_ok()
    })
}

/// What was typed.
static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Keeps what was typed, for [`command_line`].
pub fn remember(arguments: &[OsString]) {
    let _ = ARGUMENTS.set(arguments.to_vec());
}

/// Returns the command that was typed, quoted for a shell, for the pages that show it.
pub fn command_line() -> String {
    let quoted = |a: String| match a.is_empty() || a.contains([' ', '\'', '"', '$', '*', '\\', '\n']) {
        true => format!("'{}'", a.replace('\'', "'\\''")),
        false => a,
    };
    let arguments = ARGUMENTS.get().map(Vec::as_slice).unwrap_or_default();
    let words = arguments.iter().skip(1).map(|a| quoted(a.to_string_lossy().into_owned()));
    std::iter::once("byrote".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn negative_numbers_are_joined_to_their_options() {
        let command = Cli::command();
        let of = |text: &str| {
            let words = text.split(' ').map(OsString::from);
            let words: Vec<String> =
                typed(&command, words).into_iter().map(|w| w.to_string_lossy().into_owned()).collect();
            words.join(" ")
        };
        assert_eq!(of("train --lr -1e-300 --tol -.5 a.txt"), "train --lr=-1e-300 --tol=-.5 a.txt");
        assert_eq!(of("train --lr=-1 -3 --quiet -q --lr - -x"), "train --lr=-1 -3 --quiet -q --lr - -x");
        assert_eq!(of("corpus --n-ctx 3 -- --lr -1"), "corpus --n-ctx 3 -- --lr -1");
        assert_eq!(of("predict m --ids -1 --top -2"), "predict m --ids -1 --top=-2");
    }
}
