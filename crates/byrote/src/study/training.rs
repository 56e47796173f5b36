//! The training runs of a study: one per width, as a sweep in the folder `training`.

use super::{Part, StudySpec, note, set_aside};
use crate::corpus::CorpusSpec;
use crate::dataset::Dataset;
use crate::evaluate::Worst;
use crate::model::{ModelSpec, Preset};
use crate::observe::Observer;
use crate::output::OutputFile;
use crate::sweep::{self, Corpora, Directory, Job, JobRow, Plan, Record, SweepOptions};
use crate::train::TrainSpec;
use crate::units::Nats;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of the plans of studies.
const NAME: &str = "study";
/// The folder of the training runs.
pub(super) const FOLDER: &str = "training";

/// A trained model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainedModel {
    /// Its row of the results.
    pub row: JobRow,
    /// Its file, relative to the directory of the study; none if training failed.
    pub file: Option<PathBuf>,
    /// Steps and gaps in nats.
    pub curve: Vec<(f64, f64)>,
}

/// A context that the model knows badly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorstContext {
    /// Its text.
    pub text: String,
    /// How often it occurs.
    pub count: u64,
    /// The tokens that follow it, with their counts, the most frequent first.
    pub next: String,
    /// The same as a list; empty in files of earlier versions.
    #[serde(default)]
    pub next_tokens: Vec<(String, u64)>,
    /// The token that the model finds most probable.
    pub predicted: String,
    /// The probability that the model gives it.
    pub probability: f64,
    /// The KL divergence of the model's distribution from the true one.
    pub kl_nats: Nats,
}

/// Trains every width that the directory does not hold already; returns the models of one layer and of several, and the worst
/// contexts of the best one.
pub(super) fn run(
    spec: &StudySpec,
    corpus: &CorpusSpec,
    part: &Part,
    dataset: Arc<Dataset>,
    directory: &Path,
    command: Option<&str>,
    observer: &dyn Observer,
) -> Result<(Vec<TrainedModel>, Vec<TrainedModel>, Vec<WorstContext>)> {
    let plan = plan(spec, corpus, part, command);
    let n = plan.jobs.len();
    note(observer, &format!("training {n} model{}", if n == 1 { "" } else { "s" }));
    let corpora = Corpora::one(&plan.jobs[0].corpus, dataset.clone());
    let folder = directory.join(FOLDER);
    let mut run_directory = match Directory::open(&folder, &plan, &corpora) {
        // The training runs of another study are of no use here, but they may be of use to its owner.
        Err(Error::OtherRun { name, .. }) if name == NAME => {
            set_aside(directory, &[], observer)?;
            Directory::open(&folder, &plan, &corpora)?
        }
        other => other?,
    };
    let options = SweepOptions { keep_models: true, ..SweepOptions::default() };
    let outcome = sweep::run(&plan, &corpora, &mut run_directory, options, observer)?;
    if outcome.interrupted {
        return Err(Error::Interrupted);
    }
    let all = collect(run_directory.to_record(), directory)?;
    let best =
        all.iter().filter_map(|t| t.row.result.as_ref()).min_by(|a, b| a.gap_nats.total_cmp(&b.gap_nats));
    let worst = best.map_or_else(Vec::new, |r| r.worst.iter().map(|w| described(w, &dataset)).collect());
    let (deep, trained) = all.into_iter().partition(|t| t.row.settings.model.n_layers.is_some());
    Ok((trained, deep, worst))
}

/// One job per width; the corpus is the part that was read.
fn plan(spec: &StudySpec, corpus: &CorpusSpec, part: &Part, command: Option<&str>) -> Plan {
    let limits = spec.scale.limits();
    let corpus = match part.is_all || !corpus.merge.is_empty() {
        true => corpus.clone(),
        false => corpus.first_documents(part.documents),
    };
    let seed = corpus.seed;
    // Twice as many neurons as contexts show nothing new.
    let is_new = |m: &&u64| **m < 2 * part.contexts || **m == limits.widths[0];
    let one_layer = limits.widths.iter().filter(is_new).map(|&m| ModelSpec::default().d_mlp(m));
    let deep = spec.n_layers.into_iter().flat_map(|layers| {
        limits
            .streams
            .iter()
            .map(move |&d| ModelSpec::default().preset(Preset::Gpt2).n_layers(layers).d_model(d))
    });
    let job = |model| {
        let training = TrainSpec::default().steps(limits.steps);
        Job { corpus: corpus.clone(), model, training, seed }
    };
    let jobs = one_layer.chain(deep).map(job).collect();
    Plan { name: NAME.into(), jobs, seed_corpora: false, command: command.map(str::to_owned) }
}

/// Rows, curves and models of what was trained, the models under readable names as well.
fn collect(mut record: Record, directory: &Path) -> Result<Vec<TrainedModel>> {
    let mut all = Vec::new();
    for row in std::mem::take(&mut record.rows) {
        let curve = record.curves.remove(&row.job).unwrap_or_default();
        let model = directory.join(FOLDER).join("models").join(format!("{}.safetensors", row.job));
        let width = match row.settings.model {
            ModelSpec { n_layers: Some(layers), d_model: Some(d), .. } => format!("{layers}x{d}"),
            _ => row.d_mlp.to_string(),
        };
        let file = PathBuf::from("models").join(format!("trained-{width}.safetensors"));
        let exists = model.exists();
        if exists {
            name_again(&model, &directory.join(&file))?;
        }
        all.push(TrainedModel { row, file: exists.then_some(file), curve });
    }
    Ok(all)
}

/// How many of the tokens that follow a context are shown.
const NEXT: usize = 4;

/// The tokens that follow a context, the most frequent first.
fn next_tokens(context: usize, dataset: &Dataset) -> Vec<(String, u64)> {
    let mut next = dataset.next_of(context).to_vec();
    next.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    next.iter().take(NEXT).map(|&(token, n)| (dataset.vocabulary().text(token), n as u64)).collect()
}

/// Gives a file a second name, without a second copy where the file system can do that. Both names are safe: files are never
/// changed in place.
fn name_again(from: &Path, to: &Path) -> Result<()> {
    match std::fs::remove_file(to) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(Error::io(to, "replace", e)),
        _ => {}
    }
    if std::fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    let bytes = std::fs::read(from).map_err(|e| Error::io(from, "read", e))?;
    OutputFile::write(to, &bytes)
}

fn described(w: &Worst, dataset: &Dataset) -> WorstContext {
    WorstContext {
        text: dataset.text_of(w.context),
        count: w.count,
        next: dataset.next_text_of(w.context, NEXT),
        next_tokens: next_tokens(w.context, dataset),
        predicted: dataset.vocabulary().text(w.predicted),
        probability: w.probability,
        kl_nats: w.kl_nats,
    }
}
