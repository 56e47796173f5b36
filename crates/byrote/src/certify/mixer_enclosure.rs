//! The output of the mixer, enclosed.
//!
//! Plain interval arithmetic along the formulas at the head of [`crate::model::config`]: queries, keys and values once per
//! place (a token at a position), then scores, exponentials, weights and mixed values for each context. The errors of
//! floating-point evaluation ([`super::floating`]) are bounded alongside. Sinusoidal positions are those that the model
//! stores.

use super::activation_enclosure::exp;
use super::floating::{EnclosedValue, Errors, FORMATS, FloatFormat};
use super::interval::Interval;
use super::layer::{BLOCK, Block, Entry};
use crate::Result;
use crate::dataset::Dataset;
use crate::model::{Mixer, Model};
use crate::observe::{Counter, Observer, Stage};
use rayon::prelude::*;
use std::ops::Range;

/// The output of the mixer for all contexts, `[contexts, d_model]`.
pub struct Enclosures {
    d: usize,
    entries: Vec<Entry>,
}

impl Enclosures {
    /// Encloses the mixer's output for every context of a dataset.
    pub fn new(model: &Model, dataset: &Dataset, observer: &dyn Observer) -> Result<Self> {
        let d = model.config().shape.d_model as usize;
        let places = Places::new(model, dataset);
        let entry = |value: EnclosedValue| {
            let (centre, radius) = value.exact.ball();
            Entry { centre, radius, errors: value.errors }
        };
        let counter = Counter::new(observer, Stage::Enclosing, Some(dataset.len() as u64));
        let contexts: Vec<Vec<Entry>> = (0..dataset.len())
            .into_par_iter()
            .map(|i| {
                let mixed = places.mixed(dataset.places_of(i));
                counter.add(1)?;
                Ok(mixed.into_iter().map(entry).collect())
            })
            .collect::<Result<_>>()?;
        Ok(Self { d, entries: contexts.concat() })
    }

    /// What a model of blocks gives its output to read, `[contexts, d_model]`.
    pub(super) fn of_entries(d_model: usize, entries: Vec<Entry>) -> Self {
        Self { d: d_model, entries }
    }

    /// How many contexts there are.
    pub fn len(&self) -> usize {
        self.entries.len() / self.d.max(1)
    }

    /// Whether there are no contexts.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of coordinates per context.
    pub fn d_model(&self) -> usize {
        self.d
    }

    /// The coordinates of a context.
    pub fn of(&self, context: usize) -> &[Entry] {
        &self.entries[context * self.d..(context + 1) * self.d]
    }

    /// A few contexts side by side.
    pub(super) fn block(&self, contexts: Range<usize>) -> Block {
        debug_assert!(contexts.len() <= BLOCK);
        let mut block = Block::zeros(self.d);
        for (lane, i) in contexts.enumerate() {
            for (j, &entry) in self.of(i).iter().enumerate() {
                block.set(j, lane, entry);
            }
        }
        block
    }
}

/// An input of sums: its enclosure, what it contributes to their errors per unit of weight, and its computed size.
struct Term {
    exact: Interval,
    carried: Errors,
    computed: Errors,
}

/// A sum: its enclosure, and for each format what its terms contribute to the error, and their absolute values.
#[derive(Clone)]
struct Column {
    exact: Interval,
    carried: Errors,
    total: Errors,
}

/// Weighted sums of the same inputs, with their errors in each format.
struct WeightedSums {
    columns: Vec<Column>,
    terms: usize,
    formats: [FloatFormat; FORMATS.len()],
    gammas: Errors,
    /// The largest computed input.
    input: Errors,
}

impl WeightedSums {
    /// Sums of `terms` products each, a bias and a skip connection.
    fn new(columns: usize, bias: Option<&[f64]>, terms: usize) -> Self {
        let terms = terms + 2;
        let gammas = FORMATS.map(|f| f.gamma(terms));
        let column = |b: f64| Column {
            exact: Interval::exact(b),
            carried: gammas.map(|gamma| gamma * b.abs()),
            total: [b.abs(); FORMATS.len()],
        };
        let columns = match bias {
            Some(bias) => bias.iter().map(|&b| column(b)).collect(),
            None => vec![column(0.0); columns],
        };
        Self { columns, terms, formats: FORMATS, gammas, input: [1.0; FORMATS.len()] }
    }

    /// The same, where a program may divide the weights and the bias by `root`.
    fn divided(self, root: f64) -> Self {
        Self { formats: FORMATS.map(|f| f.flushing(root)), ..self }
    }

    fn term(&mut self, input: &EnclosedValue) -> Term {
        let size = input.size();
        let computed = input.errors.map(|error| size + error);
        for (largest, computed) in self.input.iter_mut().zip(computed) {
            *largest = largest.max(computed);
        }
        let carried = [0, 1].map(|p| self.formats[p].carried(self.gammas[p], size, input.errors[p]));
        Term { exact: input.exact, carried, computed }
    }

    /// Adds an input times a row of weights, one per column.
    fn add_row(&mut self, input: &EnclosedValue, weights: &[f64]) {
        let term = self.term(input);
        self.columns.iter_mut().zip(weights).for_each(|(column, &weight)| column.add(&term, weight));
    }

    /// Adds an input times a weight to each column.
    fn add_each(&mut self, inputs: &[EnclosedValue], weight: f64) {
        for (i, input) in inputs.iter().enumerate() {
            let term = self.term(input);
            self.columns[i].add(&term, weight);
        }
    }

    fn finish(self) -> Vec<EnclosedValue> {
        let Self { columns, terms, formats, gammas, input } = self;
        let value = |column: Column| {
            let Column { exact, carried, total } = column;
            let error = |p: usize| formats[p].of_sum(carried[p], 0.0, gammas[p], terms, input[p], total[p]);
            EnclosedValue { exact, errors: [error(0), error(1)] }
        };
        columns.into_iter().map(value).collect()
    }
}

impl Column {
    fn add(&mut self, term: &Term, weight: f64) {
        self.exact = self.exact + term.exact.times(weight);
        let size = weight.abs();
        for p in 0..FORMATS.len() {
            self.carried[p] += size * term.carried[p];
            self.total[p] += size * term.computed[p];
        }
    }
}

/// Everything that depends on a token and its position alone.
struct Places<'m> {
    model: &'m Model,
    /// Embedding, plus position if that is added here, `[places][d_model]`.
    x: Vec<Vec<EnclosedValue>>,
    /// Queries, keys and values, `[heads][places][d_head]`.
    heads: Vec<Vec<[Vec<EnclosedValue>; 3]>>,
}

impl<'m> Places<'m> {
    fn new(model: &'m Model, dataset: &Dataset) -> Self {
        let config = model.config();
        let shape = &config.shape;
        let (d, d_head) = (shape.d_model as usize, shape.d_head as usize);
        let (width, width_of_positions) =
            (config.attention_width() as usize, config.position_width() as usize);
        let table = model.tensor("W_E").unwrap_or_default();
        // If a weight is beyond the range of a format, nothing is known about evaluating the model there.
        let largest = model.parameters().iter().fold(0f64, |m, x| m.max(x.abs()));
        let gammas = FORMATS.map(|f| if largest <= f.largest { f.gamma(2) } else { f64::INFINITY });
        let inside = config.positions_in_attention;
        let plain = |value: f64| {
            let error = |p: usize| FORMATS[p].of_sum(0.0, value.abs(), gammas[p], 2, 1.0, value.abs());
            EnclosedValue { exact: Interval::exact(value), errors: [error(0), error(1)] }
        };
        let row = |table: &'m [f64], row: u32, width: usize| &table[row as usize * width..][..width];
        let vector =
            |position: u32| model.positions().map(|positions| row(positions, position, width_of_positions));
        let embed = |token: u32, position: u32| -> Vec<EnclosedValue> {
            let positions = vector(position).filter(|_| !inside);
            let embedded = |(j, &a): (usize, &f64)| {
                let Some(row) = positions else { return plain(a) };
                let b = row[j];
                let size = a.abs() + b.abs();
                let error = |p: usize| FORMATS[p].of_sum(0.0, size, gammas[p], 2, 1.0, size);
                EnclosedValue { exact: Interval::exact(a) + Interval::exact(b), errors: [error(0), error(1)] }
            };
            row(table, token, d).iter().enumerate().map(embedded).collect()
        };
        let x: Vec<Vec<EnclosedValue>> =
            dataset.places.iter().map(|&(token, position)| embed(token, position)).collect();
        // What attention reads.
        let read: Vec<Vec<EnclosedValue>> = match config.bottleneck || inside {
            false => x.clone(),
            true => {
                let read = |(x, &(_, position)): (&Vec<EnclosedValue>, &(u32, u32))| {
                    let bias = vector(position).filter(|_| inside);
                    let mut sums = WeightedSums::new(width, bias, if config.bottleneck { d } else { 1 });
                    match model.tensor("W_down") {
                        Some(down) => {
                            x.iter().zip(down.chunks_exact(width)).for_each(|(x, row)| sums.add_row(x, row));
                        }
                        None => sums.add_each(x, 1.0),
                    }
                    sums.finish()
                };
                x.par_iter().zip(&dataset.places).map(read).collect()
            }
        };
        let n_heads = match shape.mixer {
            Mixer::Attention => shape.n_heads as usize,
            Mixer::Average | Mixer::None => 0,
        };
        // The factor of the scores may be applied to the query weights.
        let root = if model.config().scale_scores { (d_head as f64).sqrt().next_up() } else { 1.0 };
        let heads = (0..n_heads)
            .map(|head| {
                let project = |weight: &str, bias: &str, root: f64, x: &[EnclosedValue]| {
                    let size = width * d_head;
                    let matrix = &model.tensor(weight).unwrap_or_default()[head * size..][..size];
                    let bias = model.tensor(bias).map(|b| &b[head * d_head..][..d_head]);
                    let mut sums = WeightedSums::new(d_head, bias, width).divided(root);
                    x.iter().zip(matrix.chunks_exact(d_head)).for_each(|(x, row)| sums.add_row(x, row));
                    sums.finish()
                };
                read.par_iter()
                    .map(|x| {
                        let all = [("W_Q", "b_Q", root), ("W_K", "b_K", 1.0), ("W_V", "b_V", 1.0)];
                        all.map(|(weight, bias, root)| project(weight, bias, root, x))
                    })
                    .collect()
            })
            .collect();
        Self { model, x, heads }
    }

    /// The output of the mixer, with the skip connection, for a context.
    fn mixed(&self, read: &[u32]) -> Vec<EnclosedValue> {
        let config = self.model.config();
        let shape = &config.shape;
        let (d, d_head) = (shape.d_model as usize, shape.d_head as usize);
        let tensor = |name| self.model.tensor(name).unwrap_or_default();
        let mut sums;
        match shape.mixer {
            Mixer::Attention => {
                let width = config.attention_width() as usize;
                sums = WeightedSums::new(width, self.model.tensor("b_O"), self.heads.len() * d_head);
                for (places, output) in self.heads.iter().zip(tensor("W_O").chunks_exact(d_head * width)) {
                    let mixed = self.head(places, read);
                    mixed.iter().zip(output.chunks_exact(width)).for_each(|(z, row)| sums.add_row(z, row));
                }
                if let Some(up) = self.model.tensor("W_up") {
                    let out = sums.finish();
                    sums = WeightedSums::new(d, None, width);
                    out.iter().zip(up.chunks_exact(d)).for_each(|(o, row)| sums.add_row(o, row));
                }
            }
            Mixer::Average | Mixer::None => {
                sums = WeightedSums::new(d, None, read.len());
                for (&weight, &place) in tensor("u_pos").iter().zip(read) {
                    sums.add_each(&self.x[place as usize], weight);
                }
            }
        }
        if config.skip {
            sums.add_each(&self.x[read[read.len() - 1] as usize], 1.0);
        }
        sums.finish()
    }

    /// The mixed values of a head, `[d_head]`, from its queries, keys and values.
    fn head(&self, places: &[[Vec<EnclosedValue>; 3]], read: &[u32]) -> Vec<EnclosedValue> {
        let config = self.model.config();
        let d_head = config.shape.d_head as usize;
        // 1 / sqrt(d_head), or 1: the root and the quotient are rounded once each.
        let factor = match config.scale_scores {
            true => {
                let root = (d_head as f64).sqrt();
                Interval::exact(1.0) / Interval { lo: root.next_down(), hi: root.next_up() }
            }
            false => Interval::exact(1.0),
        };
        let zero = Interval::exact(0.0);
        let query = &places[read[read.len() - 1] as usize][0];
        let scores: Vec<EnclosedValue> =
            read.iter().map(|&place| score(query, &places[place as usize][1], factor)).collect();
        // Any common shift leaves the weights as they are.
        let shift = scores.iter().map(|s| s.exact.hi).fold(f64::NEG_INFINITY, f64::max);
        let shift = Interval::exact(if shift.is_finite() { shift } else { 0.0 });
        let parts: Vec<Interval> = scores.iter().map(|s| exp(s.exact - shift)).collect();
        let sum = parts.iter().fold(zero, |sum, &e| sum + e);
        let weights: Vec<Interval> = parts.iter().map(|&part| part / sum).collect();
        let taus: [Vec<f64>; FORMATS.len()] = [0, 1].map(|p| {
            let largest_error = scores.iter().map(|s| s.errors[p]).fold(0.0, f64::max);
            let tau = |s: &EnclosedValue| {
                FORMATS[p].of_exponential(s.errors[p], largest_error, (shift.hi - s.exact.lo).next_up())
            };
            scores.iter().map(tau).collect()
        });
        // If a score can overflow, its softmax can be anything.
        let known = [0, 1].map(|p| scores.iter().all(|s| s.errors[p].is_finite()));
        (0..d_head)
            .map(|j| {
                let values = read.iter().map(|&place| places[place as usize][2][j]);
                let mean = weights.iter().zip(values.clone()).fold(zero, |m, (&w, v)| m + w * v.exact);
                let most = weights.iter().map(|w| w.hi);
                let error = |p: usize| match known[p] {
                    true => FORMATS[p].of_mean(p, &taus[p], most.clone(), values.clone(), mean),
                    false => f64::INFINITY,
                };
                EnclosedValue { exact: mean, errors: [error(0), error(1)] }
            })
            .collect()
    }
}

/// The score of a query and a key: their scalar product times a factor.
fn score(query: &[EnclosedValue], key: &[EnclosedValue], factor: Interval) -> EnclosedValue {
    let zero = Interval::exact(0.0);
    let exact = factor * query.iter().zip(key).fold(zero, |sum, (q, k)| sum + q.exact * k.exact);
    let error = |p: usize| {
        let gamma = FORMATS[p].gamma(query.len());
        let (mut carried, mut total, mut input) = (0.0, 0.0, 1.0f64);
        for (q, k) in query.iter().zip(key) {
            let (size, error) = (k.size(), k.errors[p]);
            // The computed query takes the place of a weight, which is not exact either.
            let computed = q.size() + q.errors[p];
            carried += computed * FORMATS[p].carried(gamma, size, error) + size * q.errors[p];
            total += computed * (size + error);
            input = input.max(size + error).max(computed);
        }
        FORMATS[p].of_sum(carried * factor.hi, 0.0, gamma, query.len(), input, total)
    };
    EnclosedValue { exact, errors: [error(0), error(1)] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Preset, Shape};

    /// A weight above the smallest normal f32 that falls below it when it is divided by sqrt(1024), and may be flushed to 0.
    #[test]
    fn query_weights_may_vanish_when_they_are_scaled() {
        let shape = Shape { d_vocab: 2, n_ctx: 1, d_model: 1, n_heads: 1, d_head: 1024, ..Shape::default() };
        let config = Preset::Dana2024.config(shape);
        let dataset = Dataset::new(2, 1, [(vec![0], vec![(1, 1.0)])]).unwrap();
        let weight = 31.0 * f64::from(f32::MIN_POSITIVE);
        let mut parameters = vec![0.0; config.n_parameters()];
        let place = |name: &str| config.tensors().into_iter().find(|t| t.name == name).unwrap().range.start;
        parameters[place("W_E")] = 1.0;
        parameters[place("W_Q")] = weight;
        let model = Model::new(config, parameters).unwrap();
        let places = Places::new(&model, &dataset);
        let query = &places.heads[0][0][0][0];
        assert!(query.size() >= weight && query.size() < 1.01 * weight, "{query:?}");
        assert!(query.errors[1] >= weight, "{query:?}");
    }
}
