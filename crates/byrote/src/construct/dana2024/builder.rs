//! The construction step by step: checks by count, draws, systems, and measurements of the result.

use super::capacity::{self, Census};
use super::encoder::Encoder;
use super::encoder::loss::Divergence;
use super::report::{EncoderReport, Report};
use super::target::{Target, associated};
use super::{KEY, Method, Settings, Task, features, linear_system, refit};
use crate::construct::Targets;
use crate::dataset::Dataset;
use crate::error::Refusal;
use crate::model::{Config, Model};
use crate::num::linear::{Mat, MatRef, product, to_rows};
use crate::observe::{Observer, Stage};
use crate::train::{Evaluator, ProbePoint};
use crate::units::Nats;
use crate::{Error, Result};

/// The maximum number of random draws, and of times that heads are added if their number is free.
const DRAWS: u64 = 8;
const GROWTHS: usize = 6;
/// From this number of contexts on, a draw takes seconds, and features that two draws find dependent count as
/// dependent.
const MANY: usize = 600;

/// A dataset whose model is being constructed.
pub(super) struct Builder<'a> {
    observer: &'a dyn Observer,
    dataset: &'a Dataset,
    settings: &'a Settings,
    census: Census,
    config: Config,
    capacity: usize,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        dataset: &'a Dataset,
        settings: &'a Settings,
        observer: &'a dyn Observer,
    ) -> Result<Self> {
        let census = Census::of(dataset);
        let d_model = settings.d_model.unwrap_or(16.max(census.one_token_contexts as u64));
        let d_head = settings.d_head.unwrap_or(d_model);
        for (name, value) in [("d_model", d_model), ("d_head", d_head)] {
            if value == 0 {
                return Err(Error::setting(name, "must be at least 1 (got 0)"));
            }
        }
        let n_heads = settings.n_heads.unwrap_or_else(|| census.heads(d_model, d_head));
        let config =
            features::config(dataset.d_vocab(), dataset.n_ctx(), d_model, n_heads, d_head).checked()?;
        dataset.fits(&config)?;
        let capacity = census.capacity(d_model, n_heads, d_head);
        Ok(Self { observer, dataset, settings, census, config, capacity })
    }

    /// The encoder that the model should have.
    pub(super) fn target(&self) -> Result<Target> {
        let shape = &self.config.shape;
        Target::new(self.dataset, shape.d_model as usize, self.settings, self.observer)
    }

    fn refused<T>(&self, refusal: Refusal) -> Result<T> {
        Err(Error::Refused { builder: KEY, refusal })
    }

    /// Refuses by count alone what cannot be stored exactly.
    pub(super) fn check_capacity(&self) -> Result<()> {
        let Census { contexts, one_token_contexts, distinct_last_tokens: last_tokens, .. } = self.census;
        let d_model = self.config.shape.d_model;
        if one_token_contexts as u64 > d_model {
            return self.refused(Refusal::OneTokenContexts { contexts: one_token_contexts, d_model });
        }
        match contexts > self.capacity {
            true => {
                self.refused(Refusal::CapacityExceeded { contexts, capacity: self.capacity, last_tokens })
            }
            false => Ok(()),
        }
    }

    /// Refuses features that do not fit in memory three times: raw, scaled, and factored.
    pub(super) fn check_memory(&self) -> Result<()> {
        let shape = &self.config.shape;
        let heads = shape.n_heads.saturating_mul(shape.d_head.next_multiple_of(16));
        let rows = heads.saturating_add(shape.d_model);
        let rows = rows.saturating_mul(3).saturating_add(heads);
        let needed = (self.dataset.len() as u64).saturating_mul(rows).saturating_mul(8);
        match needed > self.settings.max_memory {
            true => self.refused(Refusal::Memory {
                needed,
                available: self.settings.max_memory,
                advice: "fewer heads (`n_heads`, with `method = refit`) need less",
            }),
            false => Ok(()),
        }
    }

    /// Changes the number of heads.
    fn with_heads(&self, n_heads: u64) -> Result<Self> {
        let shape = &self.config.shape;
        let (d, d_h) = (shape.d_model, shape.d_head);
        let config = features::config(shape.d_vocab, shape.n_ctx, d, n_heads, d_h).checked()?;
        Ok(Self { config, capacity: self.census.capacity(d, n_heads, d_h), ..*self })
    }

    /// A draw: its parameters and features.
    fn draw(&self, index: u64) -> Result<(Vec<f64>, Mat<f64>)> {
        self.observer.report(Stage::Solving, 0, None)?;
        let parameters = features::draw(&self.config, self.settings.kappa, self.settings.seed, index);
        let f = features::features(&self.config, &parameters, self.dataset);
        Ok((parameters, f))
    }

    /// Stores every context, with more heads if their number is free and the features need them.
    pub(super) fn exact(&mut self, target: &Target) -> Result<(Model, Report)> {
        for _ in 0..GROWTHS {
            let found = self.interpolate(target, None);
            let missing = match &found {
                Err(Error::Refused { refusal: Refusal::RankDeficient { rank, contexts, .. }, .. }) => {
                    contexts - rank
                }
                Err(Error::Refused { refusal: Refusal::Residual { .. }, .. }) => 1,
                _ => return found,
            };
            if self.settings.n_heads.is_some() || self.census.longest == 1 {
                return found;
            }
            let shape = &self.config.shape;
            let more = (missing as u64).div_ceil(shape.d_head.min(shape.d_model)).max(1);
            *self = self.with_heads(shape.n_heads + more)?;
            self.check_memory()?;
        }
        self.interpolate(target, None)
    }

    /// Stores the most frequent contexts, and accepts whatever logits the others get.
    pub(super) fn truncate(&self, target: &Target) -> Result<(Model, Report)> {
        let mut order = capacity::by_frequency(self.dataset);
        if let Some(epsilon) = self.settings.epsilon {
            let wanted = capacity::t_epsilon(self.dataset, epsilon);
            if wanted > self.capacity {
                return self.refused(Refusal::CapacityExceeded {
                    contexts: wanted,
                    capacity: self.capacity,
                    last_tokens: self.census.distinct_last_tokens,
                });
            }
            order.truncate(wanted);
        }
        order.truncate(self.capacity);
        self.interpolate(target, Some(&order))
    }

    /// Solves for all contexts, or for the independent ones of `order`; draws again until the logits are right.
    fn interpolate(&self, target: &Target, order: Option<&[usize]>) -> Result<(Model, Report)> {
        let Self { dataset, settings, config, .. } = self;
        let (n, d_vocab) = (dataset.len(), config.shape.d_vocab as usize);
        let Encoder { rank, w, e, .. } = &target.encoder;
        let mut best: Option<f64> = None;
        let mut deficient = Vec::new();
        let mut refusal = None;
        for index in 0..DRAWS {
            let (mut parameters, f) = self.draw(index)?;
            let kept: Vec<usize> = match order {
                Some(order) => refit::independent(f.as_ref(), order, self.observer)?,
                None => (0..n).collect(),
            };
            let codes: Vec<f64> = kept.iter().flat_map(|&i| &e[i * rank..(i + 1) * rank]).copied().collect();
            let Some(reduced) = linear_system::reduced(w, &codes, *rank, kept.len(), d_vocab) else {
                return self.refused(Refusal::Residual {
                    error: f64::NAN,
                    tolerance: settings.tolerance,
                    advice: "the codes are not finite; use a larger `gap`",
                });
            };
            let part = Mat::from_fn(f.nrows(), kept.len(), |i, j| f[(i, kept[j])]);
            let features = if order.is_some() { part.as_ref() } else { f.as_ref() };
            let prior = linear_system::prior(config, reduced.e.ncols(), settings.seed, index);
            let solution =
                linear_system::interpolate(features, reduced.e.as_ref(), prior.as_ref(), self.observer)?;
            let Some(solution) = solution else {
                deficient.push(linear_system::feature_rank(features));
                if n > MANY && deficient.len() == 2 {
                    break;
                }
                continue;
            };
            match linear_system::absorb(config, &mut parameters, reduced.w.as_ref(), solution.x.as_ref()) {
                Err(Error::Refused { refusal: reason, .. }) => refusal = Some(reason),
                Err(other) => return Err(other),
                Ok(skip_condition) => {
                    let model = Model::new(*config, parameters)?;
                    let (error, size) = self.error(&model, &target.encoder, &kept);
                    if error <= settings.tolerance * size.max(1.0) {
                        let method = if order.is_some() { Method::Truncate } else { Method::Exact };
                        let mut report = self.report(target, method, index, error);
                        report.condition = Some(solution.condition);
                        report.skip_condition = Some(skip_condition);
                        report.stored = kept.len();
                        return Ok((model, report));
                    }
                    best = Some(best.map_or(error, |b: f64| b.min(error)));
                }
            }
        }
        self.refused(match (deficient.iter().max(), best, refusal) {
            (Some(&rank), _, _) => {
                Refusal::RankDeficient { rank, contexts: self.census.contexts, capacity: self.capacity }
            }
            (None, Some(error), _) => Refusal::Residual {
                error,
                tolerance: settings.tolerance,
                advice: "try another `seed`, a larger `d_model` or one more head than needed",
            },
            (None, None, Some(refusal)) => refusal,
            (None, None, None) => Refusal::SkipSingular { lost: f64::NAN },
        })
    }

    /// Fits the last maps to all contexts.
    pub(super) fn refit(&self, target: &Target) -> Result<(Model, Report)> {
        let Self { dataset, settings, config, .. } = self;
        let (n, d_vocab) = (dataset.len(), config.shape.d_vocab);
        let eps = Targets::new(dataset, settings.gap)?.eps;
        let smoothed;
        // If the associated token is not the only one that follows, the association is what is fitted.
        let goal = match target.task {
            Task::Association => {
                smoothed = associated(dataset);
                &smoothed
            }
            Task::Distribution => *dataset,
        };
        let divergence = Divergence::new(goal, eps);
        let Encoder { rank, w, e, .. } = &target.encoder;
        let Some(reduced) = linear_system::reduced(w, e, *rank, n, d_vocab as usize) else {
            return self.refused(Refusal::SkipSingular { lost: f64::NAN });
        };
        let rank = reduced.w.ncols();
        let (w, e) = (to_rows(reduced.w.as_ref()), to_rows(reduced.e.as_ref()));
        let mut refusal = Refusal::SkipSingular { lost: f64::NAN };
        for index in 0..DRAWS {
            let (mut parameters, f) = self.draw(index)?;
            let (w, x, divergences) = match rank {
                0 => (Vec::new(), Mat::zeros(f.nrows(), 0), [0.0; 3]),
                _ => {
                    let prior = linear_system::prior(config, rank, settings.seed, index);
                    let start = (&w[..], &e[..]);
                    let steps = settings.steps;
                    let fit = refit::refit(
                        &divergence,
                        rank,
                        start,
                        f.as_ref(),
                        prior.as_ref(),
                        steps,
                        self.observer,
                    )?;
                    (fit.w, fit.x, fit.divergences)
                }
            };
            let w = MatRef::from_row_major_slice(&w, d_vocab as usize, rank);
            match linear_system::absorb(config, &mut parameters, w, x.as_ref()) {
                Err(Error::Refused { refusal: reason, .. }) => refusal = reason,
                Err(other) => return Err(other),
                Ok(skip_condition) => {
                    let model = Model::new(*config, parameters)?;
                    let e = to_rows(product(f.transpose(), x.as_ref()).as_ref());
                    let fitted = Encoder { rank, w: to_rows(w), e, gap: Nats(0.0), exact: false };
                    let (error, size) = self.error(&model, &fitted, &(0..n).collect::<Vec<_>>());
                    if error <= settings.tolerance * size.max(1.0) {
                        let mut report = self.report(target, Method::Refit, index, error);
                        report.skip_condition = Some(skip_condition);
                        let total = dataset.predictions();
                        report.refit_gaps_nats = Some(divergences.map(|d| Nats(d * total)));
                        return Ok((model, report));
                    }
                    refusal = Refusal::Residual {
                        error,
                        tolerance: settings.tolerance,
                        advice: "another `seed` may help",
                    };
                }
            }
        }
        self.refused(refusal)
    }

    /// The largest difference between the model's logits and the encoder's over some contexts, and the largest logit of
    /// the encoder there, with the public forward pass.
    fn error(&self, model: &Model, encoder: &Encoder, contexts: &[usize]) -> (f64, f64) {
        let mut wanted = vec![false; self.dataset.len()];
        contexts.iter().for_each(|&i| wanted[i] = true);
        let visit = |most: &mut (f64, f64), context: usize, logits: &[f64]| {
            if !wanted[context] {
                return;
            }
            for (logit, target) in logits.iter().zip(encoder.logits(context)) {
                let error = (logit - target).abs();
                // NaN counts as the largest possible error.
                most.0 = if error.is_nan() { f64::INFINITY } else { most.0.max(error) };
                most.1 = most.1.max(target.abs());
            }
        };
        Evaluator::<f64, _>::forward(self.config, self.dataset)
            .for_each_row(ProbePoint::Logits, model.parameters(), || (0.0, 0.0), visit)
            .into_iter()
            .fold((0.0, 0.0), |m, v| (f64::max(m.0, v.0), f64::max(m.1, v.1)))
    }

    fn report(&self, target: &Target, solver: Method, draw: u64, error: f64) -> Report {
        let shape = &self.config.shape;
        Report {
            solver,
            task: target.task,
            d_model: shape.d_model,
            n_heads: shape.n_heads,
            d_head: shape.d_head,
            retries: draw,
            max_logit_error: error,
            capacity: self.capacity,
            stored: 0,
            census: self.census,
            corollary2_accuracy: capacity::corollary2(self.capacity, self.census.contexts, shape.d_vocab),
            encoder: EncoderReport {
                rank: target.encoder.rank,
                gap_nats: target.encoder.gap,
                exact: target.encoder.exact,
                codes: target.codes.map(|c| c.0),
                coherence: target.codes.map(|c| c.1),
            },
            condition: None,
            skip_condition: None,
            refit_gaps_nats: None,
        }
    }
}
