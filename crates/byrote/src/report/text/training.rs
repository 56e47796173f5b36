//! Training runs as text.

use super::TextTable;
use super::evaluation::{figures, losses};
use crate::evaluate::Evaluation;
use crate::train::{Run, Stop};
use crate::units::{counted, grouped};

/// Shows how a training run ended and, unless it was interrupted, how well the model knows its corpus. `saved` is whether the
/// run has a directory from which it can be resumed.
pub fn training(title: &str, run: &Run, found: Option<&Evaluation>, saved: bool) -> String {
    let (trainer, model) = (&run.trainer, &run.result.model);
    let shape = &model.config().shape;
    let mut out = format!(
        "{title}: {} parameters, d_model {}, d_mlp {}, {}\n\n",
        grouped(model.parameters().len() as u64),
        shape.d_model,
        shape.d_mlp,
        run.settings.method.name(),
    );
    let why = match run.stop {
        Stop::Reached => "the requested gap was reached".to_owned(),
        Stop::Steps => "the step limit; `steps` raises it".into(),
        Stop::Time => "the time limit".into(),
        Stop::Stalled { since } => format!("hardly any progress since step {}", grouped(since)),
        Stop::Diverged { step, tensor } => {
            format!("at step {}: {tensor} is not finite; the last finite weights are kept", grouped(step))
        }
        Stop::Interrupted if saved => "`resume` continues".into(),
        Stop::Interrupted => "runs with `out` can be resumed".into(),
    };
    let progress = trainer.progress();
    let pace = run.milliseconds.map_or(String::new(), |ms| format!(", {:.2} ms per step", ms.median));
    let mut table = TextTable::new(&["stop", run.stop.name(), &why], &[0, 2]);
    table.row([
        "steps".into(),
        grouped(progress.step),
        format!("{}, {:.1} s{pace}", counted(progress.evaluations, "evaluation"), run.seconds),
    ]);
    match found {
        Some(found) => figures(&mut table, found),
        None => {
            let dataset = trainer.dataset();
            let predictions = dataset.predictions() as u64;
            losses(&mut table, trainer.loss(), dataset.floor(), trainer.gap(), predictions);
        }
    }
    if let Some(accuracy) = trainer.accuracy_last_batches() {
        let what = "of the predictions in the last 100 batches were right, each batch before its step".into();
        table.row(["last batches".into(), format!("{:.1}%", 100.0 * accuracy), what]);
    }
    out += &table.render();
    out
}
