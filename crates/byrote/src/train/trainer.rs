//! Training, one step at a time.
//!
//! The loss, and with it the gap to the floor, is known after every step (with batches, after every pass over the
//! contexts), and the decision to stop is made before the next step. A target reached in f32 is confirmed in f64, and
//! when L-BFGS in f32 finds no lower point, it continues in f64.

use super::checkpoint::{Checkpoint, Identity};
use super::evaluator::Evaluator;
use super::loss_curve::{CurvePoint, LossCurve};
use super::settings::{Limits, Stop, TrainSettings, Trained};
use super::state::{self, LOSS, OptimizerMemory, State, Trouble};
use crate::dataset::Dataset;
use crate::model::{Config, Model, Precision};
use crate::num::optimize::Stopped;
use crate::observe::{Detail, Observer, Progress as Report, Stage};
use crate::units::Nats;
use crate::{Error, Result};
use std::sync::Arc;
use std::time::Instant;

/// A training run: a model's weights and their progress towards the floor.
///
/// ```
/// use byrote::dataset::Dataset;
/// use byrote::model::{Model, Preset, Shape};
/// use byrote::observe::Silent;
/// use byrote::train::{Limits, Optimizer, TrainSettings, Trainer};
/// use std::sync::Arc;
///
/// let dataset = Arc::new(Dataset::new(2, 1, [(vec![0], vec![(1, 1.0)]), (vec![1], vec![(0, 1.0)])])?);
/// let model = Model::random(Preset::Madden2024.config(Shape { d_vocab: 2, d_mlp: 4, ..Shape::default() }), 0)?;
/// let (settings, limits) = (TrainSettings::new(Optimizer::Adam), Limits::new(Optimizer::Adam).steps(20));
/// let mut trainer = Trainer::new(&model, &dataset, settings, limits, &Silent)?;
/// let before = trainer.loss();
/// while trainer.advance(&Silent).is_none() {} // one step each, until a limit or the target is reached
/// assert!(trainer.progress().step <= 20 && trainer.loss().0 < before.0);
/// # Ok::<(), byrote::Error>(())
/// ```
pub struct Trainer {
    identity: Identity,
    config: Config,
    dataset: Arc<Dataset>,
    limits: Limits,
    /// The target gap, in nats.
    target: Option<f64>,
    state: Box<dyn State>,
    /// The arithmetic of the state: that of the settings, or a finer one once that is exhausted.
    arithmetic: Precision,
    progress: TrainProgress,
    curve: LossCurve,
    started: Instant,
    /// The seconds spent by earlier runs.
    before: f64,
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainProgress {
    /// The number of steps taken.
    pub step: u64,
    /// The number of evaluations of the loss and its gradient.
    pub evaluations: u64,
    /// The step at which the loss was last measured, and the loss there, summed over all predictions.
    pub measured: (u64, f64),
    /// The step since which progress is judged, and the lowest gap up to that step.
    pub mark: (u64, f64),
    /// The lowest gap so far.
    pub lowest: f64,
}

impl Trainer {
    /// Starts from a model's weights, rounded to the precision of the settings, and measures their loss.
    pub fn new(
        model: &Model,
        dataset: &Arc<Dataset>,
        settings: TrainSettings,
        limits: Limits,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let (config, arithmetic) = (*model.config(), settings.precision);
        let mut trainer =
            Self::begin(config, model.parameters(), None, dataset, settings, limits, arithmetic, observer)?;
        trainer.identity = Identity::new(model, dataset, settings);
        let loss = trainer.state.loss(observer)?;
        let gap = loss - dataset.floor.0;
        trainer.progress =
            TrainProgress { step: 0, evaluations: 1, measured: (0, loss), mark: (0, gap), lowest: gap };
        trainer.curve.push(CurvePoint { step: 0, evaluations: 1, loss: Nats(loss) });
        Ok(trainer)
    }

    /// Resumes from a checkpoint, which must have the same start, dataset and settings; the limits may differ.
    pub fn resume(
        checkpoint: Checkpoint,
        model: &Model,
        dataset: &Arc<Dataset>,
        settings: TrainSettings,
        limits: Limits,
        observer: &dyn Observer,
    ) -> Result<Self> {
        checkpoint.identity.agrees(&Identity::new(model, dataset, settings))?;
        let config = *model.config();
        let Checkpoint { identity, progress, seconds, arithmetic, parameters, memory, curve, .. } =
            checkpoint;
        let memory = Some((progress.step, memory));
        let mut trainer =
            Self::begin(config, &parameters, memory, dataset, settings, limits, arithmetic, observer)?;
        trainer.identity = identity;
        trainer.progress = progress;
        trainer.before = seconds;
        trainer.curve = LossCurve::from_rows(curve);
        if !trainer.state.is_measured(progress.measured.0) {
            trainer.curve.make_provisional();
        }
        Ok(trainer)
    }

    #[allow(clippy::too_many_arguments)] // The two ways to start, which differ in all of them.
    fn begin(
        config: Config,
        parameters: &[f64],
        memory: Option<(u64, OptimizerMemory)>,
        dataset: &Arc<Dataset>,
        settings: TrainSettings,
        limits: Limits,
        arithmetic: Precision,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let (settings, limits, config) = (settings.checked()?, limits.checked()?, config.checked()?);
        if dataset.is_empty() {
            return Err(Error::EmptyCorpus { message: "no context to train on".into() });
        }
        dataset.fits(&config)?;
        settings.check_model(&config)?;
        let started = Instant::now();
        let state = match arithmetic {
            Precision::F32 => {
                state::new::<f32>(config, dataset, settings, parameters, memory, limits.memory, observer)
            }
            Precision::F64 => {
                state::new::<f64>(config, dataset, settings, parameters, memory, limits.memory, observer)
            }
        }?;
        let progress = TrainProgress {
            step: 0,
            evaluations: 0,
            measured: (0, f64::NAN),
            mark: (0, f64::NAN),
            lowest: f64::NAN,
        };
        let curve = LossCurve::default();
        let before = 0.0;
        let identity = Identity { config, settings, dataset: 0, start: 0 };
        Ok(Self {
            identity,
            config,
            dataset: dataset.clone(),
            target: limits.target(dataset.floor, dataset.predictions()),
            limits,
            state,
            arithmetic,
            progress,
            curve,
            started,
            before,
        })
    }

    /// Trains until a limit is reached or the observer asks to stop.
    ///
    /// The observer receives a report with [`Detail::Training`] before every step, and is asked before every step and every
    /// block of contexts within one whether to stop. A step that is stopped is not taken: the state remains that after
    /// the last complete step.
    pub fn run(&mut self, observer: &dyn Observer) -> Result<Stop> {
        self.run_with(observer, |_| {})
    }

    /// Like [`run`](Self::run), but `look` sees the trainer at the start and after every step, to save or to measure.
    pub fn run_with(&mut self, observer: &dyn Observer, mut look: impl FnMut(&Self)) -> Result<Stop> {
        loop {
            look(self);
            let detail = Detail::Training {
                step: self.progress.step,
                loss: self.loss(),
                gap: self.gap(),
                floor: self.dataset.floor,
                contexts: self.dataset.len() as u64,
                predictions: self.dataset.predictions() as u64,
            };
            let report = Report::new(Stage::Training, self.progress.step, Some(self.limits.steps));
            observer.progress(&report.with(detail));
            if observer.should_stop() {
                return Ok(Stop::Interrupted);
            }
            if let Some(stop) = self.advance(observer) {
                return Ok(stop);
            }
        }
    }

    /// Takes one step, or returns the reason to stop.
    pub fn advance(&mut self, observer: &dyn Observer) -> Option<Stop> {
        self.take_step(observer).err()
    }

    fn take_step(&mut self, observer: &dyn Observer) -> std::result::Result<(), Stop> {
        self.stop_before_a_step(observer)?;
        let step = self.progress.step;
        let mut successor = self.state.successor(step, observer)?;
        let taken = successor.as_mut().unwrap_or(&mut self.state).step(step, observer);
        // A successor whose first step is stopped has done nothing yet.
        if let Some(state) = successor.filter(|_| taken != Err(Trouble::Stopped)) {
            self.state = state;
        }
        match taken {
            Ok(evaluations) => {
                self.progress.step += 1;
                self.progress.evaluations += evaluations;
                if self.state.is_measured(step + 1) {
                    self.measure(observer)?;
                }
                Ok(())
            }
            Err(Trouble::NoDescent) if self.refine(observer)? => Ok(()),
            Err(Trouble::NoDescent) => Err(Stop::Stalled { since: step }),
            Err(Trouble::NotFinite(tensor)) => Err(Stop::Diverged { step, tensor }),
            Err(Trouble::Stopped) => Err(Stop::Interrupted),
        }
    }

    fn stop_before_a_step(&mut self, observer: &dyn Observer) -> std::result::Result<(), Stop> {
        // With batches, the last step may be in the middle of a pass over the contexts.
        if self.progress.step >= self.limits.steps && self.progress.measured.0 != self.progress.step {
            self.measure(observer)?;
        }
        let TrainProgress { step, measured, mark, lowest, .. } = self.progress;
        if !measured.1.is_finite() {
            return Err(Stop::Diverged { step, tensor: LOSS });
        }
        if measured.0 == step && self.is_low_enough(observer)? {
            return Err(Stop::Reached);
        }
        if step >= self.limits.steps {
            return Err(Stop::Steps);
        }
        if self.limits.seconds.is_some_and(|s| self.seconds() >= s) {
            return Err(Stop::Time);
        }
        let Some(stall) = self.limits.stall else { return Ok(()) };
        if measured.0 == step && step >= mark.0 + stall.window {
            // Rounding may take a gap below zero.
            let stalled = lowest > mark.1 - stall.fraction * mark.1.abs();
            if stalled && !self.refine(observer)? {
                return Err(Stop::Stalled { since: mark.0 });
            }
            self.progress.mark = (step, self.progress.lowest);
        }
        Ok(())
    }

    /// Switches to finer arithmetic if there is one: a run stuck in f32 may progress in f64.
    fn refine(&mut self, observer: &dyn Observer) -> std::result::Result<bool, Stopped> {
        let Some(mut state) = self.state.finer(observer)? else { return Ok(false) };
        // Measured before anything changes: here it can still be stopped.
        state.loss(observer)?;
        (self.state, self.arithmetic) = (state, Precision::F64);
        self.progress.evaluations += 1;
        // The gaps so far were measured in f32 and may be too low.
        self.progress.lowest = f64::INFINITY;
        self.measure(observer)?;
        Ok(true)
    }

    fn measure(&mut self, observer: &dyn Observer) -> std::result::Result<(), Stopped> {
        let TrainProgress { step, evaluations, .. } = self.progress;
        let loss = self.state.loss(observer)?;
        self.progress.measured = (step, loss);
        let row = CurvePoint { step, evaluations, loss: Nats(loss) };
        // Hitting a limit in the middle of a pass over the contexts does not affect the run: only the regular
        // measurements count.
        self.curve.push(row);
        match self.state.is_measured(step) {
            true => self.progress.lowest = self.progress.lowest.min(self.gap().0),
            false => self.curve.make_provisional(),
        }
        Ok(())
    }

    /// Whether the gap is as low as requested, measured in f64 whatever the arithmetic of the run.
    fn is_low_enough(&self, observer: &dyn Observer) -> std::result::Result<bool, Stopped> {
        let Some(target) = self.target else { return Ok(false) };
        if self.gap().0 > target {
            return Ok(false);
        }
        if self.arithmetic == Precision::F64 {
            return Ok(true);
        }
        let mut evaluator = match self.config.shape.blocks {
            Some(_) => Evaluator::<f64, _>::forward(self.config, &self.dataset),
            None => Evaluator::training(self.config, &self.dataset, Trained::All, self.limits.memory),
        };
        let loss = evaluator.loss_while(&self.state.parameters(), || !observer.should_stop())?;
        Ok(loss - self.dataset.floor.0 <= target)
    }

    /// Returns the progress so far.
    pub fn progress(&self) -> &TrainProgress {
        &self.progress
    }

    /// Returns the loss at its last measurement, summed over all predictions.
    pub fn loss(&self) -> Nats {
        Nats(self.progress.measured.1)
    }

    /// Returns the loss minus the floor.
    pub fn gap(&self) -> Nats {
        Nats(self.loss().0 - self.dataset.floor.0)
    }

    /// Returns the share of right predictions in the last 100 batches but one, each measured just before its step: the accuracy
    /// that dana2024's published program reports. `None` without batches. It counts a context as often as it was drawn, while
    /// the weights still move.
    pub fn accuracy_last_batches(&self) -> Option<f64> {
        let recent = self.state.recent();
        let counted = &recent[..recent.len().saturating_sub(1)];
        (!counted.is_empty()).then(|| counted.iter().sum::<f64>() / counted.len() as f64)
    }

    /// Returns the dataset.
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// Returns the limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the arithmetic in use: that of the settings, or f64 once L-BFGS in f32 has found no lower point.
    pub fn arithmetic(&self) -> Precision {
        self.arithmetic
    }

    /// Returns the curve of losses so far.
    pub fn curve(&self) -> &LossCurve {
        &self.curve
    }

    /// Returns the seconds spent so far, including those before the checkpoint.
    pub fn seconds(&self) -> f64 {
        self.before + self.started.elapsed().as_secs_f64()
    }

    /// Returns the model with its current weights.
    pub fn model(&self) -> Result<Model> {
        Model::new(self.config, self.state.parameters())
    }

    /// Returns everything needed to resume from here.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            identity: self.identity,
            progress: self.progress,
            seconds: self.seconds(),
            arithmetic: self.arithmetic,
            parameters: self.state.parameters(),
            memory: self.state.memory(),
            curve: self.curve.rows().to_vec(),
            finished: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{Corpus, Options, Outputs, Source};
    use crate::model::{ModelSpec, Preset, Shape};
    use crate::observe::{Impatient, Silent};
    use crate::train::settings::{Optimizer, Sampling, Schedule, Stall, Trained};
    use std::sync::atomic::{AtomicBool, Ordering};

    fn stories(documents: u64) -> (Arc<Dataset>, Config) {
        let outputs = Outputs { contexts: true, ..Outputs::default() };
        let source = Source::Stories { documents, seed: 0 };
        let corpus = Corpus::read(&source, &Options::default(), outputs, &Silent).unwrap();
        let shape = Shape {
            d_vocab: corpus.summary.d_vocab,
            n_ctx: 9,
            d_model: 8,
            n_heads: 1,
            d_head: 8,
            d_mlp: 24,
            ..Shape::default()
        };
        let dataset = Arc::new(Dataset::from_corpus(&corpus).unwrap());
        (dataset, Preset::Madden2024Experiment.config(shape))
    }

    /// Every way to train, with its limits.
    fn ways() -> Vec<TrainSettings> {
        let (adam, adamw, lbfgs) = (
            TrainSettings::new(Optimizer::Adam),
            TrainSettings::new(Optimizer::AdamW),
            TrainSettings::new(Optimizer::Lbfgs),
        );
        vec![
            TrainSettings { rate: 0.01, ..adam },
            TrainSettings { rate: 0.01, schedule: Schedule::Cosine, schedule_steps: 20, ..adamw },
            TrainSettings { rate: 0.01, batch: Some(7), seed: 3, ..adam },
            TrainSettings { precision: Precision::F64, memory: 4, warmup: 0, ..lbfgs },
            TrainSettings { warmup: 5, ..lbfgs },
            TrainSettings { rate: 0.01, batch: Some(7), sampling: Sampling::Uniform, ..adam },
            TrainSettings {
                rate: 0.01,
                batch: Some(21),
                sampling: Sampling::Sample,
                // About as many draws as there are contexts, so that most of them are trained.
                sample: (5, 5),
                schedule: Schedule::LinearEpochs,
                schedule_steps: 60,
                ..adam
            },
            TrainSettings { warmup: 5, trained: Trained::FeedForward, ..lbfgs },
        ]
    }

    /// Every way to train, of a one-layer transformer and of blocks.
    fn cases(documents: u64) -> Vec<(Arc<Dataset>, Config, TrainSettings)> {
        let (dataset, one_layer) = stories(documents);
        let blocks = ModelSpec::default().preset(Preset::Gpt2).n_layers(2).d_model(8).n_heads(2);
        let blocks = blocks.resolve(one_layer.shape.d_vocab, 9).unwrap();
        let lbfgs = TrainSettings::new(Optimizer::Lbfgs);
        let of_blocks = [
            // L-BFGS takes over in the middle of a pass, and where one ends.
            TrainSettings { warmup: 7, seed: 3, ..lbfgs },
            TrainSettings { warmup: 8, warmup_batches: Some(3), precision: Precision::F64, ..lbfgs },
            TrainSettings { warmup: 30, warmup_batches: Some(2), trained: Trained::FeedForward, ..lbfgs },
            TrainSettings { warmup: 5, warmup_batches: Some(1), ..lbfgs },
        ];
        let of_blocks = of_blocks.map(|settings| (dataset.clone(), blocks, settings));
        let ways = ways().into_iter().map(|settings| (dataset.clone(), one_layer, settings));
        ways.chain(of_blocks).collect()
    }

    fn steps(steps: u64) -> Limits {
        Limits { steps, relative_gap: None, stall: None, ..Limits::new(Optimizer::Adam) }
    }

    #[test]
    fn a_run_that_is_resumed_ends_bit_by_bit_where_one_ends_that_is_not() {
        for (dataset, config, settings) in cases(12) {
            let model = Model::random(config, 1).unwrap();
            let mut whole = Trainer::new(&model, &dataset, settings, steps(20), &Silent).unwrap();
            assert_eq!(whole.run(&Silent).unwrap(), Stop::Steps);
            for at in [0, 1, 5, 13, 20] {
                let mut first = Trainer::new(&model, &dataset, settings, steps(at), &Silent).unwrap();
                first.run(&Silent).unwrap();
                // The limit does not belong to the run: once it is removed, the run continues.
                let bytes = first.checkpoint().to_bytes().unwrap();
                let checkpoint = Checkpoint::from_bytes(std::path::Path::new("memory"), &bytes).unwrap();
                assert_eq!(checkpoint, Checkpoint { seconds: checkpoint.seconds, ..first.checkpoint() });
                let mut second =
                    Trainer::resume(checkpoint, &model, &dataset, settings, steps(20), &Silent).unwrap();
                assert_eq!(second.run(&Silent).unwrap(), Stop::Steps);
                assert_eq!(second.model().unwrap(), whole.model().unwrap(), "{settings:?} at {at}");
                assert_eq!(second.curve(), whole.curve());
                assert_eq!(second.accuracy_last_batches(), whole.accuracy_last_batches());
                assert_eq!(second.progress(), whole.progress());
            }
        }
    }

    #[test]
    fn a_stop_within_a_step_leaves_the_state_after_the_last_complete_step() {
        // A rate at which L-BFGS searches for several evaluations.
        let (dataset, config) = stories(12);
        let searching = TrainSettings { rate: 50.0, warmup: 2, ..TrainSettings::new(Optimizer::Lbfgs) };
        for (dataset, config, settings) in cases(12).into_iter().chain([(dataset, config, searching)]) {
            let model = Model::random(config, 1).unwrap();
            let mut whole = Trainer::new(&model, &dataset, settings, steps(12), &Silent).unwrap();
            whole.run(&Silent).unwrap();
            let mut within = 0;
            for patience in 0..60 {
                let mut stopped = Trainer::new(&model, &dataset, settings, steps(12), &Silent).unwrap();
                let asked = Asked { impatient: Impatient::new(patience), between: AtomicBool::new(false) };
                if stopped.run(&asked).unwrap() != Stop::Interrupted {
                    break;
                }
                within += u32::from(!asked.between.load(Ordering::Relaxed));
                let step = stopped.progress().step;
                let mut complete = Trainer::new(&model, &dataset, settings, steps(step), &Silent).unwrap();
                complete.run(&Silent).unwrap();
                let (found, expected) = (stopped.checkpoint(), complete.checkpoint());
                assert_eq!(found.parameters, expected.parameters, "{settings:?}, {patience}");
                assert_eq!(found.memory, expected.memory, "{settings:?}, {patience}");
                assert_eq!(found.progress.evaluations, expected.progress.evaluations);
                let mut resumed =
                    Trainer::resume(found, &model, &dataset, settings, steps(12), &Silent).unwrap();
                for trainer in [&mut stopped, &mut resumed] {
                    assert_eq!(trainer.run(&Silent).unwrap(), Stop::Steps);
                    assert_eq!(trainer.model().unwrap(), whole.model().unwrap(), "{settings:?}, {patience}");
                    assert_eq!((trainer.curve(), trainer.progress()), (whole.curve(), whole.progress()));
                }
            }
            assert!(within > 5, "{within} stops within a step: {settings:?}");
        }
    }

    /// Remembers whether the last report was followed by no more than one question: the one between two steps.
    struct Asked {
        impatient: Impatient,
        between: AtomicBool,
    }

    impl Observer for Asked {
        fn progress(&self, _: &Report<'_>) {
            self.between.store(true, Ordering::Relaxed);
        }

        fn should_stop(&self) -> bool {
            let stop = self.impatient.should_stop();
            if !stop {
                self.between.store(false, Ordering::Relaxed);
            }
            stop
        }
    }

    #[test]
    fn what_is_not_trained_keeps_its_bits_and_the_rest_moves() {
        let (dataset, config) = stories(12);
        let model = Model::random(config, 1).unwrap();
        for method in [Optimizer::Adam, Optimizer::Lbfgs] {
            // In f64, as the model is drawn; f32 rounds it at the start.
            let settings = TrainSettings {
                precision: Precision::F64,
                trained: Trained::FeedForward,
                warmup: if method == Optimizer::Lbfgs { 5 } else { 0 },
                ..TrainSettings::new(method)
            };
            let mut trainer = Trainer::new(&model, &dataset, settings, steps(20), &Silent).unwrap();
            trainer.run(&Silent).unwrap();
            let trained = trainer.model().unwrap();
            for tensor in config.tensors() {
                let same = trained.tensor(tensor.name.part()) == model.tensor(tensor.name.part());
                assert_eq!(same, Trained::FeedForward.freezes(tensor.kind), "{}", tensor.name);
            }
        }
    }

    #[test]
    fn the_rate_falls_to_the_last_one() {
        // If only one weight matters, Adam's first step equals the rate: after the schedule, the final rate remains.
        let (dataset, config) = stories(12);
        let model = Model::random(config, 1).unwrap();
        let settings = |last_rate, schedule_steps| TrainSettings {
            rate: 0.01,
            last_rate,
            schedule: Schedule::Linear,
            schedule_steps,
            ..TrainSettings::new(Optimizer::Adam)
        };
        let after = |settings: TrainSettings| {
            let mut trainer = Trainer::new(&model, &dataset, settings, steps(8), &Silent).unwrap();
            trainer.run(&Silent).unwrap();
            trainer.model().unwrap()
        };
        // Without a slope the loss cannot decrease; with one, it matters where it ends.
        let constant = TrainSettings { rate: 0.01, ..TrainSettings::new(Optimizer::Adam) };
        assert_eq!(after(settings(0.01, 4)), after(constant));
        assert_ne!(after(settings(0.005, 4)), after(settings(0.0, 4)));
    }

    #[test]
    fn weights_do_not_depend_on_the_number_of_threads() {
        for (dataset, config, settings) in cases(40) {
            let model = Model::random(config, 1).unwrap();
            let train = || {
                let mut trainer = Trainer::new(&model, &dataset, settings, steps(10), &Silent).unwrap();
                trainer.run(&Silent).unwrap();
                trainer.model().unwrap()
            };
            let of = |threads| {
                rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(train)
            };
            assert_eq!(of(1), of(2), "{settings:?}");
        }
    }

    #[test]
    fn every_method_lowers_the_loss_and_none_goes_below_the_floor() {
        for (dataset, config, settings) in cases(12) {
            let model = Model::random(config, 1).unwrap();
            let mut trainer = Trainer::new(&model, &dataset, settings, steps(60), &Silent).unwrap();
            let start = trainer.gap().0;
            trainer.run(&Silent).unwrap();
            assert!(trainer.gap().0 < 0.95 * start && trainer.gap().0 > 0.0, "{settings:?}");
        }
    }

    #[test]
    fn the_gap_asked_for_is_reached_and_confirmed_in_f64() {
        // Averaging cannot saturate as attention can, so this does not depend on rounding.
        let (dataset, config) = stories(12);
        let config = Preset::Average.config(Shape { d_mlp: 64, d_model: 16, ..config.shape });
        let model = Model::random(config, 1).unwrap();
        let limits = Limits { relative_gap: Some(0.05), ..Limits::new(Optimizer::Lbfgs) };
        let mut trainer =
            Trainer::new(&model, &dataset, TrainSettings::new(Optimizer::Lbfgs), limits, &Silent).unwrap();
        assert_eq!(trainer.run(&Silent).unwrap(), Stop::Reached);
        let parameters = trainer.model().unwrap().parameters().to_vec();
        let loss = Evaluator::<f64, _>::new(config, &dataset).loss(&parameters);
        assert!(loss - dataset.floor.0 <= 0.05 * dataset.floor.0);
        // The step before had not reached it yet.
        let rows = trainer.curve().rows();
        assert!(rows[rows.len() - 2].loss.0 - dataset.floor.0 > 0.0499 * dataset.floor.0);
    }

    #[test]
    fn a_warm_up_with_batches_reaches_the_floor_and_measures_the_weights_that_it_returns() {
        let (dataset, config) = stories(40);
        let spec = ModelSpec::default().preset(Preset::Gpt2).n_layers(2).d_model(32).n_heads(2);
        let config = spec.resolve(config.shape.d_vocab, 9).unwrap();
        let model = Model::random(config, 1).unwrap();
        let settings = TrainSettings::new(Optimizer::Lbfgs);
        let mut trainer =
            Trainer::new(&model, &dataset, settings, Limits::new(Optimizer::Lbfgs), &Silent).unwrap();
        assert_eq!(trainer.run(&Silent).unwrap(), Stop::Reached);
        assert!(trainer.progress().step < settings.warmup, "{:?}", trainer.progress());
        let parameters = trainer.model().unwrap().parameters().to_vec();
        let loss = Evaluator::<f64, _>::new(config, &dataset).loss(&parameters);
        assert!(loss - dataset.floor.0 <= 0.01 * dataset.floor.0);
        assert!((loss / trainer.loss().0 - 1.0).abs() < 1e-5);
        // It is measured after every second pass over the four batches.
        assert!(trainer.curve().rows().iter().all(|row| row.step % 8 == 0));
    }

    #[test]
    fn batches_of_a_warm_up_are_those_of_a_model_of_blocks() {
        let (dataset, config) = stories(12);
        let model = Model::random(config, 1).unwrap();
        let settings = TrainSettings::new(Optimizer::Lbfgs).warmup_batches(4);
        let refused = Trainer::new(&model, &dataset, settings, steps(1), &Silent).err().unwrap();
        assert_eq!(refused.setting_name(), Some("warmup_batches"));
        let settings = TrainSettings::new(Optimizer::Lbfgs);
        let trainer = Trainer::new(&model, &dataset, settings, steps(1), &Silent).unwrap();
        let same = settings.warmup_batches(1);
        assert!(Trainer::resume(trainer.checkpoint(), &model, &dataset, same, steps(1), &Silent).is_ok());
    }

    #[test]
    fn a_model_that_is_too_small_stalls() {
        let (dataset, config) = stories(40);
        let config = Config { shape: Shape { d_mlp: 1, d_model: 1, d_head: 1, ..config.shape }, ..config };
        let model = Model::random(config, 1).unwrap();
        let limits =
            Limits { stall: Some(Stall { window: 20, fraction: 0.2 }), ..Limits::new(Optimizer::Lbfgs) };
        let mut trainer =
            Trainer::new(&model, &dataset, TrainSettings::new(Optimizer::Lbfgs), limits, &Silent).unwrap();
        assert!(matches!(trainer.run(&Silent).unwrap(), Stop::Stalled { .. }));
    }

    #[test]
    fn divergence_names_tensor_and_step_and_keeps_the_last_good_weights() {
        let (dataset, config) = stories(12);
        let model = Model::random(config, 1).unwrap();
        for (rate, batch) in [(1e38, None), (1e38, Some(5)), (1e9, Some(7)), (1e20, Some(1))] {
            let settings = TrainSettings { rate, batch, ..TrainSettings::new(Optimizer::Adam) };
            let mut trainer = Trainer::new(&model, &dataset, settings, steps(500), &Silent).unwrap();
            let Stop::Diverged { step, tensor } = trainer.run(&Silent).unwrap() else {
                panic!("a rate of {rate} diverges")
            };
            assert_eq!(step, trainer.progress().step);
            assert!(config.tensors().iter().any(|t| t.name == tensor) || tensor == "loss", "{tensor}");
            assert!(trainer.model().unwrap().parameters().iter().all(|x| x.is_finite()));
            assert!(trainer.loss().0.is_finite());
        }
    }

    #[test]
    fn an_observer_ends_it_and_a_checkpoint_of_another_run_is_refused() {
        let (dataset, config) = stories(12);
        let model = Model::random(config, 1).unwrap();
        let settings = TrainSettings::new(Optimizer::Adam);
        let mut trainer = Trainer::new(&model, &dataset, settings, steps(50), &Silent).unwrap();
        let mut looks = 0;
        let stop = trainer.run_with(&Impatient::new(3), |t| {
            assert_eq!(t.progress().step, looks);
            looks += 1;
        });
        assert_eq!((stop.unwrap(), looks), (Stop::Interrupted, trainer.progress().step + 1));
        let other = TrainSettings { rate: 0.5, ..settings };
        let refused = Trainer::resume(trainer.checkpoint(), &model, &dataset, other, steps(50), &Silent);
        assert!(refused.err().unwrap().to_string().contains("a different rate"));
        let (other, _) = stories(13);
        let refused = Trainer::resume(trainer.checkpoint(), &model, &other, settings, steps(50), &Silent);
        assert!(refused.err().unwrap().to_string().contains("another corpus"));
        let elsewhere = Model::random(config, 2).unwrap();
        let refused =
            Trainer::resume(trainer.checkpoint(), &elsewhere, &dataset, settings, steps(50), &Silent);
        assert!(refused.err().unwrap().to_string().contains("different initial weights"));
    }
}
