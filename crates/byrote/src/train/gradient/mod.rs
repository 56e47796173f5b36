//! The loss of a model on a dataset, and its gradient, derived by hand.
//!
//! The forward pass is that of [`crate::model::config`]. Contexts are divided into *lanes*, whose number depends only
//! on the dataset and the model. One thread processes a lane in blocks of rows small enough that the logits, the
//! softmax and their gradient stay in the cache, and accumulates the gradient in order. Lanes are summed in order, so
//! the result is identical to the last bit for any number of threads. The n x omega matrix of logits is never stored.
//!
//! Backward, with G = c p - n (counts times probabilities minus next-token counts) in place of the logits:
//!
//! ```text
//! dW_U = Y^T G      dY = G W_U^T      dU = dY psi'(U)      dW_in = A^T dU      dA = dU W_in^T
//! dW_O = Z^T dA     dZ = dA W_O^T     dv_s = a_s dz        da_s = dz . v_s     ds_s = a_s (da_s - sum_r a_r da_r)
//! dq = f sum_s ds_s k_s               dk_s = f ds_s q      dX = dQ W_Q^T + dK W_K^T + dV W_V^T + (dA at last tokens)
//! ```
//!
//! With a bottleneck, dO = dA W_up^T takes the place of dA in the second line, and dR = dQ W_Q^T + ... reaches X as dR W_down^T.

pub(super) mod activate;
pub(super) mod packed_weights;
pub(super) mod places;

pub use super::lane::ProbePoint;
use super::lane::{Lane, LaneGradient, Mix, Output, Shared, Until};
use crate::dataset::Dataset;
use crate::model::{Config, Model, Positions};
use crate::num::aligned::padded;
use crate::num::gemm::{PANEL, panels};
use crate::num::optimize::Stopped;
use crate::num::real::Real;
use crate::num::row_ops::add;
use crate::num::simd::{Isa, SimdKernel, run};
use packed_weights::{Layout, Sizes, Weights};
use places::{Chunk, Places, Way};
use rayon::prelude::*;
use std::ops::Range;

/// The number of contexts that justifies a lane. It grows with the size of the gradient, which each lane writes and the
/// sum reads, up to a limit.
const LANE_CONTEXTS: usize = 80;
const LARGE_LANE_CONTEXTS: usize = 640;
const VALUES_PER_CONTEXT: usize = 512;
/// The maximum number of lanes, and the maximum number of values in the gradients of all lanes if there is more than
/// one.
const MAX_LANES: usize = 32;
const MAX_VALUES: usize = 1 << 28;
/// The number of gradient values summed over the lanes at a time.
const SUMMED: usize = 1 << 14;

/// Evaluates the loss and its gradient; owns all the memory it needs.
pub(super) struct OneLayerEvaluator<T, D> {
    config: Config,
    dataset: D,
    layout: Layout,
    sizes: Sizes,
    weights: Weights<T>,
    places: Places<T>,
    lanes: Vec<Lane<T>>,
    chunks: Vec<Chunk<T>>,
    backward: bool,
}

/// The number of lanes: a power of two that depends only on the dataset and the model, never on the number of threads.
fn n_lanes(contexts: usize, s: Sizes) -> usize {
    let values = s.read * s.omega;
    let enough = (LANE_CONTEXTS + values / VALUES_PER_CONTEXT).min(LARGE_LANE_CONTEXTS);
    let most = (contexts / enough).min(MAX_LANES).min(MAX_VALUES / values).max(1);
    1 << most.ilog2()
}

impl<T: Real, D: AsRef<Dataset>> OneLayerEvaluator<T, D> {
    /// Computes with the positions that a model stores.
    pub(super) fn use_positions_of(&mut self, model: &Model) {
        if model.config().positions == Positions::Sinusoidal {
            self.places.set_sinusoids(model.positions().unwrap_or_default());
        }
    }

    pub(super) fn new(config: Config, dataset: D, backward: bool) -> Self {
        let sizes = Sizes::new(&config);
        let all = dataset.as_ref();
        let n = all.len();
        let n_lanes = n_lanes(n, sizes);
        // Whole tiles of a product, so that only the last lane has a remainder.
        let step = n.div_ceil(n_lanes).next_multiple_of(8);
        let lanes: Vec<Lane<T>> = (0..n_lanes)
            .map(|lane| (lane * step).min(n)..((lane + 1) * step).min(n))
            .map(|contexts| Lane::new(&config, all, sizes, contexts, backward))
            .collect();
        Self {
            layout: Layout::new(&config),
            weights: Weights::new(&config, sizes),
            places: Places::new(&config, all, sizes),
            chunks: if backward { Chunk::all(&config, all, &lanes, sizes) } else { Vec::new() },
            backward,
            lanes,
            sizes,
            config,
            dataset,
        }
    }

    /// Returns the loss and overwrites `gradient`, unless `go_on` becomes false, which is asked before every block of contexts.
    pub(super) fn evaluate_while(
        &mut self,
        parameters: &[T],
        gradient: &mut [T],
        go_on: impl Fn() -> bool + Sync,
    ) -> Result<f64, Stopped> {
        let n = self.layout.n;
        assert!(self.backward, "a gradient of an evaluator that only goes forward");
        assert!(gradient.len() == n, "{} derivatives for a model of {n}", gradient.len());
        let loss = self.work(parameters, Until::Gradient, go_on)?;
        self.gather(gradient);
        Ok(loss)
    }

    /// Returns the loss alone.
    pub(super) fn loss_while(
        &mut self,
        parameters: &[T],
        go_on: impl Fn() -> bool + Sync,
    ) -> Result<f64, Stopped> {
        self.work(parameters, Until::Loss, go_on)
    }

    /// The number of predictions whose token had the largest logit when the loss was last evaluated.
    pub(super) fn hits(&self) -> f64 {
        self.lanes.iter().map(|lane| lane.hits).sum()
    }

    pub(super) fn dataset(&self) -> &Dataset {
        self.dataset.as_ref()
    }

    /// Visits the output of a layer for every context, in order.
    pub(super) fn for_each_row_while<S: Send>(
        &mut self,
        layer: ProbePoint,
        parameters: &[T],
        go_on: impl Fn() -> bool + Sync,
        start: impl Fn() -> S + Sync,
        visit: impl Fn(&mut S, usize, &[T]) + Sync,
    ) -> Vec<S> {
        let mut states: Vec<S> = self.lanes.iter().map(|_| start()).collect();
        self.prepare(parameters);
        let (lanes, shared) = self.parts();
        lanes.par_iter_mut().zip(&mut states).for_each(|(lane, state)| {
            if !go_on() {
                return;
            }
            run(Mix { lane, shared });
            for rows in lane.blocks() {
                if !go_on() {
                    return;
                }
                run(Output { lane, shared, rows: rows.clone(), until: Until::Layer(layer) });
                lane.rows(layer, rows, &shared).for_each(|(context, values)| visit(state, context, values));
            }
        });
        states
    }

    /// Calls `visit` with the output of attention for every context before `W_O`: the state of its lane, the context's
    /// index, the mixed values of all heads end to end (`[n_heads, d_head]`, empty for token averaging), and the
    /// embedded last token (`[d_model]`). States and order are those of [`Self::for_each_row_while`], and the values
    /// agree with it bit for bit.
    ///
    /// # Panics
    /// When `parameters` is not as long as the configuration says.
    pub(super) fn for_each_attended<S: Send>(
        &mut self,
        parameters: &[T],
        start: impl Fn() -> S + Sync,
        visit: impl Fn(&mut S, usize, &[T], &[T]) + Sync,
    ) -> Vec<S> {
        let mut states: Vec<S> = self.lanes.iter().map(|_| start()).collect();
        self.prepare(parameters);
        let (lanes, shared) = self.parts();
        let s = shared.s;
        lanes.par_iter_mut().zip(&mut states).for_each(|(lane, state)| {
            run(Mix { lane, shared });
            let mut mixed = Vec::with_capacity(s.heads * s.d_head);
            for (row, context) in lane.contexts.clone().enumerate() {
                mixed.clear();
                for head in 0..s.heads {
                    mixed.extend_from_slice(&lane.z[row * s.mixed + head * s.head_row..][..s.d_head]);
                }
                let read = shared.dataset.places_of(context);
                let last = read[read.len() - 1] as usize;
                visit(state, context, &mixed, &shared.places.x[last * s.d_row..][..s.d]);
            }
        });
        states
    }

    /// Packs the weights and embeds the places.
    fn prepare(&mut self, parameters: &[T]) {
        let n = self.layout.n;
        assert!(parameters.len() == n, "{} parameters for a model of {n}", parameters.len());
        let s = self.sizes;
        let (weights, layout) = (&mut self.weights, &self.layout);
        weights.pack_mixer(parameters, layout, s);
        self.places.embed(&self.config, self.dataset.as_ref(), (parameters, layout), weights, s);
        if !self.backward {
            weights.look_for_zeros(parameters, layout, s);
        }
        weights.pack_rest(parameters, layout, s);
    }

    fn parts(&mut self) -> (&mut [Lane<T>], Shared<'_, T>) {
        let Self { config, dataset, weights, places, sizes, lanes, .. } = self;
        (lanes, Shared { config, dataset: (*dataset).as_ref(), weights, places, s: *sizes })
    }

    /// Processes all lanes, as long as `go_on` is true.
    fn work(
        &mut self,
        parameters: &[T],
        until: Until,
        go_on: impl Fn() -> bool + Sync,
    ) -> Result<f64, Stopped> {
        let ask = || if go_on() { Ok(()) } else { Err(Stopped) };
        ask()?;
        self.prepare(parameters);
        let (lanes, shared) = self.parts();
        lanes.par_iter_mut().try_for_each(|lane| {
            (lane.loss, lane.hits) = (0.0, 0.0);
            ask()?;
            run(Mix { lane, shared });
            for rows in lane.blocks() {
                ask()?;
                run(Output { lane, shared, rows, until });
            }
            Ok(())
        })?;
        Ok(lanes.iter().map(|lane| lane.loss).sum())
    }

    /// Sums the gradients of the lanes and propagates them back to the places.
    fn gather(&mut self, gradient: &mut [T]) {
        let Self { config, dataset, weights, places, lanes, chunks, layout, sizes: s, .. } = self;
        let dataset = (*dataset).as_ref();
        let (s, lanes) = (*s, &lanes[..]);
        let (before, output) = gradient.split_at_mut(layout.w_u.start);
        let (w_u, b_u) = output.split_at_mut(layout.w_u.len());
        let (w_e, middle) = before.split_at_mut(layout.w_e.len());
        let way = Way { config, dataset, weights, places, lanes, s };
        rayon::join(
            || Chunk::gather(chunks, w_e, &way),
            || {
                let rows = (SUMMED / s.omega).max(1);
                w_u.par_chunks_mut(rows * s.omega).enumerate().for_each(|(i, target)| {
                    run(SumLanes { target, columns: s.omega, first: i * rows, lanes, of: |g| &g.w_u });
                });
                run(SumLanes { target: b_u, columns: s.omega, first: 0, lanes, of: |g| &g.b_u });
                sum_middle(middle, layout, lanes, s);
            },
        );
        Chunk::sum(chunks, gradient, layout, s);
    }
}

/// Everything between the embedding and the output, and zeros for what the chunks will add.
fn sum_middle<T: Real>(middle: &mut [T], layout: &Layout, lanes: &[Lane<T>], s: Sizes) {
    let start = layout.w_e.end;
    let mut sum = |range: &Range<usize>, columns: usize, of: fn(&LaneGradient<T>) -> &[T]| {
        if !range.is_empty() {
            let target = &mut middle[range.start - start..range.end - start];
            run(SumLanes { target, columns, first: 0, lanes, of });
        }
    };
    sum(&layout.u_pos, s.n_ctx, |g| &g.u_pos);
    sum(&layout.w_up, s.d, |g| &g.w_up);
    sum(&layout.b_o, s.w, |g| &g.b_o);
    sum(&layout.w_in, s.m, |g| &g.w_in);
    sum(&layout.b_in, s.m, |g| &g.b_in);
    sum(&layout.w_out, s.d, |g| &g.w_out);
    sum(&layout.b_out, s.d, |g| &g.b_out);
    // The heads of a lane's W_O are padded.
    let size = (s.d_head * s.w).max(1);
    let w_o = if layout.w_o.is_empty() { 0..0 } else { layout.w_o.start - start..layout.w_o.end - start };
    for (head, target) in middle[w_o].chunks_exact_mut(size).enumerate() {
        run(SumLanes { target, columns: s.w, first: head * s.head_row, lanes, of: |g| &g.w_o });
    }
    let places =
        layout.qkv.iter().flat_map(|(weight, bias)| [weight, bias]).chain([&layout.w_pos, &layout.w_down]);
    for range in places.filter(|range| !range.is_empty()) {
        middle[range.start - start..range.end - start].fill(T::from_f64(0.0));
    }
}

/// `target` = the sum over the lanes, in order, of some rows of a tensor, starting at row `first`.
struct SumLanes<'a, T> {
    target: &'a mut [T],
    columns: usize,
    first: usize,
    lanes: &'a [Lane<T>],
    of: fn(&LaneGradient<T>) -> &[T],
}

impl<T: Real> SimdKernel for SumLanes<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call<I: Isa>(self, _: I) {
        let Self { target, columns, first, lanes, of } = self;
        target.fill(T::from_f64(0.0));
        let width = padded(columns);
        for lane in lanes.iter().filter(|lane| !lane.contexts.is_empty()) {
            let values = of(&lane.gradient);
            for (column, panel) in panels(values, values.len() / width, width) {
                let n = PANEL.min(width - column);
                let rows = target.chunks_exact_mut(columns).zip(panel[first * n..].chunks_exact(n));
                rows.for_each(|(target, row)| add(&mut target[column..], row));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{Corpus, Options, Outputs, Source, Window};
    use crate::model::reference::log_sum_exp;
    use crate::model::{Activation, Hidden, Model, Positions, Preset, Shape};
    use crate::observe::Silent;
    use crate::train::Evaluator;

    fn stories(n: u64) -> (Dataset, u64) {
        let options = Options { window: Window { n_ctx: 6, ..Window::default() }, ..Options::default() };
        let outputs = Outputs { contexts: true, ..Outputs::default() };
        let source = Source::Stories { documents: n, seed: 0 };
        let corpus = Corpus::read(&source, &options, outputs, &Silent).unwrap();
        let dataset = Dataset::from_corpus(&corpus).unwrap();
        (dataset, corpus.summary.d_vocab)
    }

    /// Every preset, and switches that no preset has.
    fn configs(d_vocab: u64) -> Vec<Config> {
        let shape =
            Shape { d_vocab, n_ctx: 6, d_model: 5, n_heads: 2, d_head: 3, d_mlp: 7, ..Shape::default() };
        let mut all: Vec<Config> = Preset::ONE_LAYER.into_iter().map(|p| p.config(shape)).collect();
        let base = Preset::Madden2024.config(shape);
        for activation in Activation::ALL {
            all.push(Config {
                shape: Shape { activation, ..shape },
                attention_bias: true,
                output_bias: true,
                ..base
            });
        }
        all.push(Config { skip: true, positions: Positions::None, ..base });
        all.push(Config { hidden: Hidden::Residual, output_bias: true, ..base });
        let inside = Config { positions_in_attention: true, ..base };
        all.push(inside);
        all.push(Config { bottleneck: true, attention_bias: true, ..base });
        all.push(Config { bottleneck: true, positions: Positions::Sinusoidal, ..inside });
        let average = Preset::Average.config(shape);
        all.push(Config { skip: true, positions: Positions::Learned, ..average });
        all.push(Config { hidden: Hidden::Residual, skip: true, ..average });
        all.push(Config { hidden: Hidden::Absent, shape: Shape { d_mlp: 0, ..average.shape }, ..average });
        all
    }

    fn reference_loss(model: &Model, dataset: &Dataset) -> f64 {
        (0..dataset.len())
            .map(|i| {
                let logits = model.forward(&dataset.tokens_of(i));
                let next = dataset.next_of(i).iter().map(|&(t, n)| n * logits[t as usize]).sum::<f64>();
                dataset.counts[i] * log_sum_exp(&logits) - next
            })
            .sum()
    }

    #[test]
    fn the_loss_is_that_of_the_reference_in_both_precisions() {
        let (dataset, d_vocab) = stories(40);
        for config in configs(d_vocab) {
            let model = Model::random(config, 1).unwrap();
            let expect = reference_loss(&model, &dataset);
            let mut gradient = vec![0.0; config.n_parameters()];
            let loss = Evaluator::new(config, &dataset).evaluate(model.parameters(), &mut gradient);
            assert!((loss / expect - 1.0).abs() < 1e-13, "{config:?}: {loss} {expect}");
            assert!(loss >= dataset.floor.0);
            let narrow: Vec<f32> = model.parameters().iter().map(|&x| x as f32).collect();
            let mut gradient = vec![0.0f32; config.n_parameters()];
            let loss = Evaluator::new(config, &dataset).evaluate(&narrow, &mut gradient);
            assert!((loss / expect - 1.0).abs() < 1e-5, "{config:?}: {loss} {expect}");
        }
    }

    #[test]
    fn the_gradient_is_that_of_central_differences_for_every_switch() {
        let (dataset, d_vocab) = stories(12);
        for config in configs(d_vocab) {
            // ReLU has corners; a draw that avoids them is as good as any other.
            let model = Model::random(config, 2).unwrap();
            let mut gradient = vec![0.0; config.n_parameters()];
            let mut evaluator = Evaluator::new(config, &dataset);
            evaluator.evaluate(model.parameters(), &mut gradient);
            let mut spare = gradient.clone();
            let scale = gradient.iter().fold(1.0f64, |m, g| m.max(g.abs()));
            for tensor in config.tensors() {
                // A few parameters of every tensor.
                let step = (tensor.range.len() / 9).max(1);
                for i in tensor.range.clone().step_by(step) {
                    let h = 1e-5;
                    let mut at = |x: f64| {
                        let mut moved = model.parameters().to_vec();
                        moved[i] += x;
                        evaluator.evaluate(&moved, &mut spare)
                    };
                    let slope = (at(h) - at(-h)) / (2.0 * h);
                    assert!(
                        (slope - gradient[i]).abs() < 1e-7 * scale,
                        "{}[{}] of {config:?}: {slope} {}",
                        tensor.name,
                        i - tensor.range.start,
                        gradient[i]
                    );
                }
            }
        }
    }

    #[test]
    fn rows_and_the_loss_alone_are_those_of_the_reference() {
        let (dataset, d_vocab) = stories(200);
        for config in configs(d_vocab) {
            let model = Model::random(config, 4).unwrap();
            let mut evaluator = Evaluator::<f64, _>::new(config, &dataset);
            let mut gradient = vec![0.0; config.n_parameters()];
            let loss = evaluator.evaluate(model.parameters(), &mut gradient);
            assert_eq!(evaluator.loss(model.parameters()), loss);
            let visited = evaluator.for_each_row(
                ProbePoint::Logits,
                model.parameters(),
                Vec::new,
                |seen: &mut Vec<usize>, context, logits| {
                    let expect = model.forward(&dataset.tokens_of(context));
                    assert_eq!(logits.len(), expect.len());
                    assert!(logits.iter().zip(&expect).all(|(a, b)| (a - b).abs() < 1e-13), "{config:?}");
                    seen.push(context);
                },
            );
            assert_eq!(visited.concat(), (0..dataset.len()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_sparse_output_gives_what_a_full_one_gives_and_stages_follow_each_other() {
        let (dataset, d_vocab) = stories(200);
        for config in configs(d_vocab) {
            let mut parameters = Model::random(config, 4).unwrap().parameters().to_vec();
            let w_u = config.tensors().into_iter().find(|t| t.name == "W_U").unwrap().range;
            parameters[w_u].iter_mut().enumerate().for_each(|(i, v)| *v *= f64::from(u8::from(i % 19 == 0)));
            let full = Evaluator::<f64, _>::new(config, &dataset).rows(ProbePoint::Logits, &parameters);
            let mut forward = Evaluator::<f64, _>::forward(config, &dataset);
            let sparse = forward.rows(ProbePoint::Logits, &parameters);
            let mut one = OneLayerEvaluator::<f64, _>::new(config, &dataset, false);
            one.prepare(&parameters);
            assert!(one.weights.u_sparse.is_some());
            assert!(full.iter().zip(&sparse).all(|(a, b)| (a - b).abs() < 1e-13), "{config:?}");
            let read = forward.rows(ProbePoint::Read, &parameters);
            let mixed = forward.rows(ProbePoint::Mixed, &parameters);
            assert_eq!(mixed.len(), dataset.len() * 5);
            match config.hidden {
                Hidden::Absent => assert_eq!(read, mixed),
                Hidden::Output => assert_eq!(read.len(), dataset.len() * 7),
                Hidden::Residual => assert!(read.len() == mixed.len() && read != mixed),
            }
        }
    }

    #[test]
    fn what_heads_give_is_what_the_output_reads() {
        let (dataset, d_vocab) = stories(200);
        let shape =
            Shape { d_vocab, n_ctx: 6, d_model: 5, n_heads: 3, d_head: 2, d_mlp: 0, ..Shape::default() };
        let config = Preset::Dana2024.config(shape);
        let model = Model::random(config, 4).unwrap();
        let (w_o, w_u) = (model.tensor("W_O").unwrap(), model.tensor("W_U").unwrap());
        let visited = Evaluator::<f64, _>::forward(config, &dataset).for_each_attended(
            model.parameters(),
            Vec::new,
            |seen: &mut Vec<usize>, context, mixed, last| {
                let stream: Vec<f64> = (0..5)
                    .map(|k| last[k] + mixed.iter().enumerate().map(|(j, z)| z * w_o[j * 5 + k]).sum::<f64>())
                    .collect();
                let expect = model.forward(&dataset.tokens_of(context));
                for (v, logit) in expect.iter().enumerate() {
                    let found: f64 = (0..5).map(|k| stream[k] * w_u[k * d_vocab as usize + v]).sum();
                    assert!((found - logit).abs() < 1e-13);
                }
                seen.push(context);
            },
        );
        assert_eq!(visited.concat(), (0..dataset.len()).collect::<Vec<_>>());
    }

    #[test]
    fn a_parameter_that_is_not_finite_shows_and_does_not_panic() {
        let (dataset, d_vocab) = stories(40);
        for config in configs(d_vocab) {
            let model = Model::random(config, 5).unwrap();
            let parameters: Vec<f32> = model.parameters().iter().map(|&x| x as f32).collect();
            let mut gradient = vec![0.0f32; parameters.len()];
            let mut evaluator = Evaluator::new(config, &dataset);
            let clean = evaluator.evaluate(&parameters, &mut gradient);
            for tensor in config.tensors() {
                for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    let mut broken = parameters.clone();
                    // A token that occurs in no context, or ReLU of minus infinity, may hide one value, but not a whole
                    // tensor.
                    broken[tensor.range.clone()].fill(bad);
                    let loss = evaluator.evaluate(&broken, &mut gradient);
                    let shows = !loss.is_finite() || gradient.iter().any(|g| !g.is_finite());
                    assert!(shows || bad.is_infinite(), "{} = {bad} in {config:?}", tensor.name);
                }
            }
            // Nothing of it remains.
            assert_eq!(evaluator.evaluate(&parameters, &mut gradient), clean);
            assert!(gradient.iter().all(|g| g.is_finite()));
        }
    }

    #[test]
    fn an_empty_part_has_no_loss_and_no_gradient() {
        let (dataset, d_vocab) = stories(2);
        let empty = dataset.part(&[]);
        for config in configs(d_vocab) {
            let model = Model::random(config, 6).unwrap();
            let mut gradient = vec![1.0; config.n_parameters()];
            assert_eq!(Evaluator::new(config, &empty).evaluate(model.parameters(), &mut gradient), 0.0);
            assert!(gradient.iter().all(|&g| g == 0.0));
        }
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let (dataset, d_vocab) = stories(300);
        assert!(dataset.len() > LANE_CONTEXTS * 2);
        for config in configs(d_vocab) {
            let model = Model::random(config, 3).unwrap();
            let parameters: Vec<f32> = model.parameters().iter().map(|&x| x as f32).collect();
            let run = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    let mut gradient = vec![0.0f32; parameters.len()];
                    let loss = Evaluator::new(config, &dataset).evaluate(&parameters, &mut gradient);
                    (loss.to_bits(), gradient.iter().map(|g| g.to_bits()).collect::<Vec<_>>())
                })
            };
            assert_eq!(run(1), run(2));
            assert_eq!(run(1), run(3));
        }
    }
}
