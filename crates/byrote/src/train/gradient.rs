//! The loss of a model on a problem, and its gradient by hand.
//!
//! The forward pass is that of [`crate::model::config`]. Contexts are cut into *lanes* whose number depends on the problem
//! alone; a lane is worked off by one thread in blocks of rows small enough that logits, softmax and their gradient stay in
//! the cache, and adds its gradients in order. Lanes are summed in order, so the result is the same to the last bit for any
//! number of threads. The n x omega matrix of logits is never held.
//!
//! Backward, with G = c p - n (counts times probabilities minus next-token counts) in place of the logits:
//!
//! ```text
//! dW_U = Y^T G      dY = G W_U^T      dU = dY psi'(U)      dW_in = A^T dU      dA = dU W_in^T
//! dW_O = Z^T dA     dZ = dA W_O^T     dv_s = a_s dz        da_s = dz . v_s     ds_s = a_s (da_s - sum_r a_r da_r)
//! dq = f sum_s ds_s k_s               dk_s = f ds_s q      dX = dQ W_Q^T + dK W_K^T + dV W_V^T + (dA at last tokens)
//! ```

use super::lane::{BLOCK, Block, Lane, Layout, PlaceBuffers, Sizes, add, axpy, sizes};
use super::problem::Problem;
use crate::model::{Config, Mixer, Positions};
use crate::num::gemm::{Into, Real, View, times, times_transposed, transposed_times};
use rayon::prelude::*;

/// Contexts that make a lane worth having, and the most lanes.
const LANE_CONTEXTS: usize = 128;
const MAX_LANES: usize = 8;

/// Evaluates the loss and its gradient; holds all memory it needs.
pub struct Evaluator<'p, T> {
    config: Config,
    problem: &'p Problem,
    layout: Layout,
    n_parameters: usize,
    /// Fixed positions, or empty.
    sinusoids: Vec<T>,
    lanes: Vec<Lane<T>>,
    places: PlaceBuffers<T>,
    /// For each place, the (context, position in `context_places`) pairs that read it.
    readers: Readers,
}

/// The contexts that read each place.
struct Readers {
    starts: Vec<usize>,
    /// Index into `context_places`, and the context.
    entries: Vec<(u32, u32)>,
}

impl<'p, T: Real> Evaluator<'p, T> {
    /// An evaluator for a model of this configuration, which must be [`Config::checked`] and wide enough for the problem.
    pub fn new(config: Config, problem: &'p Problem) -> Self {
        let s = sizes(&config);
        let n = problem.len();
        let n_lanes = n.div_ceil(LANE_CONTEXTS).clamp(1, MAX_LANES);
        let step = n.div_ceil(n_lanes);
        let n_parameters = config.n_parameters();
        let lanes = (0..n_lanes)
            .map(|lane| {
                let contexts = (lane * step).min(n)..((lane + 1) * step).min(n);
                let read = problem.context_starts[contexts.end] - problem.context_starts[contexts.start];
                let zeros = |size: usize| vec![T::of(0.0); size];
                Lane {
                    weights: zeros(read * s.heads),
                    d_scores: zeros(read * s.heads),
                    z: zeros(contexts.len() * s.mixed),
                    dz: zeros(contexts.len() * s.mixed),
                    da: zeros(contexts.len() * s.d),
                    block: Block::default(),
                    gradient: zeros(n_parameters),
                    loss: 0.0,
                    contexts,
                }
            })
            .collect();
        let p = problem.places.len();
        let zeros = |size: usize| vec![T::of(0.0); size];
        let projected = || [zeros(p * s.mixed), zeros(p * s.mixed), zeros(p * s.mixed)];
        Self {
            sinusoids: config.sinusoids().into_iter().map(T::of).collect(),
            lanes,
            places: PlaceBuffers {
                x: zeros(p * s.d),
                qkv: projected(),
                dx: zeros(p * s.d),
                dqkv: projected(),
            },
            readers: Readers::new(problem),
            layout: Layout(config.tensors().into_iter().map(|t| (t.name, t.range)).collect()),
            n_parameters,
            config,
            problem,
        }
    }

    /// The loss in nats, over all predictions; `gradient` is overwritten.
    ///
    /// # Panics
    /// When `parameters` or `gradient` is not as long as the configuration says.
    pub fn evaluate(&mut self, parameters: &[T], gradient: &mut [T]) -> f64 {
        let n = self.n_parameters;
        assert!(
            parameters.len() == n && gradient.len() == n,
            "{} parameters and {} derivatives for a model of {n}",
            parameters.len(),
            gradient.len()
        );
        let layout = std::mem::take(&mut self.layout);
        let s = sizes(&self.config);
        self.embed(parameters, &layout, s);
        let (config, problem, places) = (&self.config, self.problem, &self.places);
        self.lanes.par_iter_mut().for_each(|lane| {
            lane.gradient.fill(T::of(0.0));
            lane.loss = 0.0;
            lane.mix(config, problem, places, s);
            let rows = lane.contexts.len();
            for start in (0..rows).step_by(BLOCK) {
                let block = start..(start + BLOCK).min(rows);
                lane.output(config, problem, places, parameters, &layout, s, block);
            }
        });
        gradient.fill(T::of(0.0));
        let mut loss = 0.0;
        for lane in &self.lanes {
            loss += lane.loss;
            gradient.iter_mut().zip(&lane.gradient).for_each(|(g, l)| *g += *l);
        }
        self.back_to_places(parameters, gradient, &layout, s);
        self.layout = layout;
        loss
    }

    /// Embeds every place and projects it to queries, keys and values.
    fn embed(&mut self, parameters: &[T], layout: &Layout, s: Sizes) {
        let table = &parameters[layout.of("W_E")];
        let positions = match self.config.positions {
            Positions::Learned => &parameters[layout.of("W_pos")],
            Positions::Sinusoidal => &self.sinusoids[..],
            Positions::None => &[],
        };
        for (&(token, position), x) in self.problem.places.iter().zip(self.places.x.chunks_exact_mut(s.d)) {
            x.copy_from_slice(&table[token as usize * s.d..][..s.d]);
            if !positions.is_empty() {
                add(x, &positions[position as usize * s.d..][..s.d]);
            }
        }
        if self.config.shape.mixer == Mixer::Average {
            return;
        }
        let n = self.problem.places.len();
        for (i, (weight, bias)) in PROJECTIONS.into_iter().enumerate() {
            let weight = &parameters[layout.of(weight)];
            let bias = &parameters[layout.of(bias)];
            let out = &mut self.places.qkv[i];
            for head in 0..s.heads {
                let matrix = View::new(&weight[head * s.d * s.d_head..][..s.d * s.d_head], s.d, s.d_head);
                times(
                    &mut out[head * s.d_head..],
                    s.mixed,
                    Into::Replace,
                    View::new(&self.places.x, n, s.d),
                    matrix,
                );
            }
            if !bias.is_empty() {
                out.chunks_exact_mut(s.mixed).for_each(|row| add(row, bias));
            }
        }
    }

    /// From the derivatives of scores and values to those of the places, and on to the place tensors.
    fn back_to_places(&mut self, parameters: &[T], gradient: &mut [T], layout: &Layout, s: Sizes) {
        let (problem, places, lanes, readers) = (self.problem, &mut self.places, &self.lanes, &self.readers);
        let PlaceBuffers { x, qkv, dx, dqkv } = places;
        let n = problem.places.len();
        let attention = self.config.shape.mixer == Mixer::Attention;
        let factor = T::of(self.config.score_factor());
        let averaging = &parameters[layout.of("u_pos")];
        let step = lanes.first().map_or(1, |l| l.contexts.len()).max(1);
        let skip = self.config.skip;
        let [q, k, _] = &*qkv;
        let [dq, dk, dv] = dqkv;
        // Each place gathers from its readers, in their order: no two threads write to one place.
        let rows = dx.par_chunks_exact_mut(s.d).zip(
            dq.par_chunks_mut(s.mixed.max(1))
                .zip(dk.par_chunks_mut(s.mixed.max(1)).zip(dv.par_chunks_mut(s.mixed.max(1)))),
        );
        let gather = |place: usize, dx: &mut [T], dq: &mut [T], dk: &mut [T], dv: &mut [T]| {
            dx.fill(T::of(0.0));
            dq.fill(T::of(0.0));
            dk.fill(T::of(0.0));
            dv.fill(T::of(0.0));
            for &(entry, context) in &readers.entries[readers.starts[place]..readers.starts[place + 1]] {
                let (entry, context) = (entry as usize, context as usize);
                let lane = &lanes[context / step];
                let row = context - lane.contexts.start;
                let first = problem.context_starts[lane.contexts.start];
                let is_last = entry + 1 == problem.context_starts[context + 1];
                let da = &lane.da[row * s.d..][..s.d];
                if is_last && skip {
                    add(dx, da);
                }
                if !attention {
                    let u = averaging[problem.places[place].1 as usize];
                    dx.iter_mut().zip(da).for_each(|(x, d)| *x += u * *d);
                    continue;
                }
                let query = problem.context_places[problem.context_starts[context + 1] - 1] as usize;
                let dz = &lane.dz[row * s.mixed..][..s.mixed];
                for head in 0..s.heads {
                    let cut = head * s.d_head..(head + 1) * s.d_head;
                    let weight = lane.weights[(entry - first) * s.heads + head];
                    let d_score = factor * lane.d_scores[(entry - first) * s.heads + head];
                    axpy(&mut dv[cut.clone()], weight, &dz[cut.clone()]);
                    axpy(&mut dk[cut.clone()], d_score, &q[query * s.mixed..][cut.clone()]);
                    if is_last {
                        let read = problem.places_of(context);
                        let start = problem.context_starts[context] - first;
                        for (i, &key) in read.iter().enumerate() {
                            let d_score = factor * lane.d_scores[(start + i) * s.heads + head];
                            axpy(&mut dq[cut.clone()], d_score, &k[key as usize * s.mixed..][cut.clone()]);
                        }
                    }
                }
            }
        };
        if attention {
            rows.enumerate().for_each(|(place, (dx, (dq, (dk, dv))))| gather(place, dx, dq, dk, dv));
        } else {
            dx.par_chunks_exact_mut(s.d)
                .enumerate()
                .for_each(|(place, dx)| gather(place, dx, &mut [], &mut [], &mut []));
        }
        if attention {
            for ((weight, bias), d) in PROJECTIONS.into_iter().zip([&*dq, &*dk, &*dv]) {
                let matrix = &parameters[layout.of(weight)];
                for head in 0..s.heads {
                    let size = s.d * s.d_head;
                    let dh = View::strided(&d[head * s.d_head..], n, s.d_head, s.mixed);
                    let target = &mut gradient[layout.of(weight)][head * size..][..size];
                    transposed_times(target, s.d_head, Into::Add, View::new(x, n, s.d), dh);
                    let matrix = View::new(&matrix[head * size..][..size], s.d, s.d_head);
                    times_transposed(dx, s.d, Into::Add, dh, matrix);
                }
                let bias = &mut gradient[layout.of(bias)];
                if !bias.is_empty() {
                    d.chunks_exact(s.mixed).for_each(|row| add(bias, row));
                }
            }
        }
        let learned = self.config.positions == Positions::Learned;
        let (embedding, position) = (layout.of("W_E"), layout.of("W_pos"));
        for (&(token, at), dx) in problem.places.iter().zip(dx.chunks_exact(s.d)) {
            add(&mut gradient[embedding.clone()][token as usize * s.d..][..s.d], dx);
            if learned {
                add(&mut gradient[position.clone()][at as usize * s.d..][..s.d], dx);
            }
        }
    }
}

const PROJECTIONS: [(&str, &str); 3] = [("W_Q", "b_Q"), ("W_K", "b_K"), ("W_V", "b_V")];

impl Readers {
    fn new(problem: &Problem) -> Self {
        let mut starts = vec![0; problem.places.len() + 1];
        problem.context_places.iter().for_each(|&p| starts[p as usize + 1] += 1);
        for i in 0..problem.places.len() {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut entries = vec![(0, 0); problem.context_places.len()];
        for context in 0..problem.len() {
            for entry in problem.context_starts[context]..problem.context_starts[context + 1] {
                let slot = &mut next[problem.context_places[entry] as usize];
                entries[*slot] = (entry as u32, context as u32);
                *slot += 1;
            }
        }
        Self { starts, entries }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{Corpus, Options, Outputs, Silent, Source, Window};
    use crate::model::reference::log_sum_exp;
    use crate::model::{Activation, Hidden, Model, Preset, Shape};

    fn stories(n: u64) -> (Problem, u64) {
        let options = Options { window: Window { n_ctx: 6, ..Window::default() }, ..Options::default() };
        let outputs = Outputs { contexts: true, ..Outputs::default() };
        let source = Source::Stories { documents: n, seed: 0 };
        let corpus = Corpus::read(&source, &options, outputs, &Silent).unwrap();
        let problem = Problem::new(&corpus.contexts.unwrap(), corpus.summary.floor_nats);
        (problem, corpus.summary.d_vocab)
    }

    /// Every preset, and switches that no preset has.
    fn configs(d_vocab: u64) -> Vec<Config> {
        let shape =
            Shape { d_vocab, n_ctx: 6, d_model: 5, n_heads: 2, d_head: 3, d_mlp: 7, ..Shape::default() };
        let mut all: Vec<Config> = Preset::ALL.into_iter().map(|p| p.config(shape)).collect();
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
        let average = Preset::Average.config(shape);
        all.push(Config { skip: true, positions: Positions::Learned, ..average });
        all.push(Config { hidden: Hidden::Residual, skip: true, ..average });
        all.push(Config { hidden: Hidden::Absent, shape: Shape { d_mlp: 0, ..average.shape }, ..average });
        all
    }

    fn reference_loss(model: &Model, problem: &Problem) -> f64 {
        (0..problem.len())
            .map(|i| {
                let logits = model.logits(&problem.tokens_of(i));
                let next = problem.next_of(i).iter().map(|&(t, n)| n * logits[t as usize]).sum::<f64>();
                problem.counts[i] * log_sum_exp(&logits) - next
            })
            .sum()
    }

    #[test]
    fn the_loss_is_that_of_the_reference_in_both_precisions() {
        let (problem, d_vocab) = stories(40);
        for config in configs(d_vocab) {
            let model = Model::random(config, 1).unwrap();
            let expect = reference_loss(&model, &problem);
            let mut gradient = vec![0.0; config.n_parameters()];
            let loss = Evaluator::new(config, &problem).evaluate(model.parameters(), &mut gradient);
            assert!((loss / expect - 1.0).abs() < 1e-13, "{config:?}: {loss} {expect}");
            assert!(loss >= problem.floor.0);
            let narrow: Vec<f32> = model.parameters().iter().map(|&x| x as f32).collect();
            let mut gradient = vec![0.0f32; config.n_parameters()];
            let loss = Evaluator::new(config, &problem).evaluate(&narrow, &mut gradient);
            assert!((loss / expect - 1.0).abs() < 1e-5, "{config:?}: {loss} {expect}");
        }
    }

    #[test]
    fn the_gradient_is_that_of_central_differences_for_every_switch() {
        let (problem, d_vocab) = stories(12);
        for config in configs(d_vocab) {
            // ReLU has corners; a draw that keeps away from them is as good as any.
            let model = Model::random(config, 2).unwrap();
            let mut gradient = vec![0.0; config.n_parameters()];
            let mut evaluator = Evaluator::new(config, &problem);
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
    fn threads_do_not_change_a_bit() {
        let (problem, d_vocab) = stories(300);
        assert!(problem.len() > LANE_CONTEXTS * 2);
        for config in configs(d_vocab) {
            let model = Model::random(config, 3).unwrap();
            let parameters: Vec<f32> = model.parameters().iter().map(|&x| x as f32).collect();
            let run = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    let mut gradient = vec![0.0f32; parameters.len()];
                    let loss = Evaluator::new(config, &problem).evaluate(&parameters, &mut gradient);
                    (loss.to_bits(), gradient.iter().map(|g| g.to_bits()).collect::<Vec<_>>())
                })
            };
            assert_eq!(run(1), run(2));
            assert_eq!(run(1), run(3));
        }
    }
}
