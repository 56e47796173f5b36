//! Models as ONNX files, which rten runs.
//!
//! | inputs | output | written by |
//! |---|---|---|
//! | `input_ids` `[batch, length]`; `attention_mask` and `position_ids` if there are any | `logits` `[batch, length, d_vocab]` | exporters of `transformers` |
//! | `tokens` `[batch, length]`, `lengths` `[batch]` | `logits` `[batch, d_vocab]`, after the last token of a row | `byrote export` |
//!
//! Nothing is known of what such a graph computes, so a model is *probed* before it is used: its logits must be finite, those of a
//! position must not depend on the tokens after it, and those of a row must be the same alone and in a batch.
//!
//! Every sequence is run alone, so its scores do not depend on the others; in the second form all its beginnings are one batch.

use super::onnx_frame::is_framed;
use super::{LanguageModel, PositionScore, Sampling, Sequence, network::not_finite};
use crate::foreign::guarded;
use crate::{Error, Result};
use rayon::prelude::*;
use rten::{Dimension, Model, NodeId, RunOptions, ThreadPool, Value};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a graph is given, and what it answers.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// Logits of every position.
    Rows { ids: NodeId, mask: Option<NodeId>, positions: Option<NodeId> },
    /// Logits after the last token of every row.
    Last { tokens: NodeId, lengths: NodeId },
}

/// A model in an ONNX file.
pub struct OnnxModel {
    path: PathBuf,
    model: Model,
    form: Form,
    logits: NodeId,
    d_vocab: usize,
    n_ctx: usize,
    pool: Arc<ThreadPool>,
}

/// How far logits that should be equal may be apart, relative to the larger.
const APART: f32 = 1e-4;
/// Tokens that a model is probed with.
const PROBED: usize = 6;
/// The most tokens of one run in the second form.
const MOST: usize = 1 << 14;

impl OnnxModel {
    /// Reads a file, and finds its inputs and its output by their names. The model is then [`probe`](Self::probe)d.
    ///
    /// # Errors
    /// When the file is damaged, needs an operator that rten lacks, or has other inputs.
    pub fn load(path: &Path) -> Result<Self> {
        let wrong = |message: String| Error::format(path, message);
        let (file, length) = crate::input::open_regular(path, "an ONNX file")?;
        // rten does not return from some files that are not protocol buffers.
        if !is_framed(&mut BufReader::new(file), length).map_err(|e| Error::io(path, "read", e))? {
            return Err(wrong("not an ONNX file: its fields do not fit into it".into()));
        }
        let model = guarded(|| Model::load_file(path))
            .map_err(|e| wrong(format!("not an ONNX file: {e}")))?
            .map_err(|e| wrong(format!("cannot be loaded as an ONNX file: {e}")))?;
        let name = |id: &NodeId| model.node_info(*id).and_then(|node| node.name()).unwrap_or("").to_owned();
        let (inputs, outputs): (Vec<String>, Vec<String>) =
            (model.input_ids().iter().map(name).collect(), model.output_ids().iter().map(name).collect());
        let form = form_of(&model, &inputs).ok_or_else(|| {
            let found = inputs.join(", ");
            let message = format!(
                "has the inputs {found}, but needs input_ids (with attention_mask and position_ids, if it has any) or tokens and \
                 lengths; export the model without a cache of keys and values"
            );
            wrong(message)
        })?;
        let logits =
            model.find_node("logits").filter(|id| model.output_ids().contains(id)).ok_or_else(|| {
                wrong(format!("has no output `logits` (its outputs are {})", outputs.join(", ")))
            })?;
        let (Form::Rows { ids, .. } | Form::Last { tokens: ids, .. }) = form;
        let length = match model.node_info(ids).and_then(|node| node.shape()?.into_iter().nth(1)) {
            Some(Dimension::Fixed(n)) => Some(n),
            _ => None,
        };
        let pool = Arc::new(ThreadPool::with_num_threads(rayon::current_num_threads()));
        let path = path.to_path_buf();
        let mut found = Self { path, model, form, logits, d_vocab: 0, n_ctx: usize::MAX, pool };
        if let Some(n) = length {
            return Err(
                found.wrong(format!("reads {n} tokens and no other number; export it with a free length"))
            );
        }
        found.d_vocab = found.logits(&[0])?.len();
        Ok(found)
    }

    /// A text under a key of the file's metadata.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.model.metadata().get(key)
    }

    /// The number of weights.
    pub fn parameters(&self) -> u64 {
        self.model.total_params() as u64
    }

    /// Limits the length of contexts, which an ONNX file does not tell.
    #[must_use]
    pub fn with_n_ctx(self, n_ctx: u64) -> Self {
        Self { n_ctx: usize::try_from(n_ctx).unwrap_or(usize::MAX), ..self }
    }

    fn wrong(&self, message: impl Into<String>) -> Error {
        Error::format(&self.path, message)
    }

    /// Checks what an audit relies on: finite logits, causality, and rows that do not depend on each other.
    pub fn probe(&self) -> Result<()> {
        let n = PROBED.min(self.n_ctx);
        let tokens: Vec<u32> = (0..n).map(|i| (7 * i + 1) as u32 % self.d_vocab as u32).collect();
        let before = self.logits(&tokens)?;
        if let Some(z) = before.iter().find(|z| !z.is_finite()) {
            return Err(self.wrong(format!("computes a logit that is {z}")));
        }
        let mut changed = tokens.clone();
        changed[n - 1] = (tokens[n - 1] + 1) % self.d_vocab as u32;
        let after = self.logits(&changed)?;
        let earlier = (n - 1) * self.d_vocab;
        if let Some(i) = first_apart(&before[..earlier], &after[..earlier]) {
            let (position, by) = (i / self.d_vocab, (before[i] - after[i]).abs());
            return Err(self.wrong(format!(
                "is not causal: another token at position {} changes a logit of position {position} by {by}",
                n - 1
            )));
        }
        let together = self.batch(&[&tokens, &changed])?;
        let alone = [before, after].concat();
        if together.len() != alone.len() {
            return Err(self.wrong("ignores all rows of a batch but the first"));
        }
        match first_apart(&alone, &together) {
            Some(i) => {
                let by = (alone[i] - together[i]).abs();
                Err(self.wrong(format!(
                    "mixes the rows of a batch: a logit changes by {by} when another row is there"
                )))
            }
            None => Ok(()),
        }
    }

    /// The logits after every token of a sequence, `[length, d_vocab]`.
    fn logits(&self, tokens: &[u32]) -> Result<Vec<f32>> {
        self.batch(&[tokens])
    }

    /// The logits after every token of sequences of one length, `[batch, length, d_vocab]`.
    fn batch(&self, sequences: &[&[u32]]) -> Result<Vec<f32>> {
        let length = sequences.first().map_or(0, |tokens| tokens.len());
        match self.form {
            Form::Rows { ids, mask, positions } => {
                let shape = [sequences.len(), length];
                let tokens = sequences.iter().flat_map(|tokens| tokens.iter().map(|&token| token as i32));
                let places = || sequences.iter().flat_map(|_| 0..length as i32).collect();
                let mut inputs = vec![(ids, self.values(&shape, tokens.collect())?)];
                if let Some(mask) = mask {
                    inputs.push((mask, self.values(&shape, vec![1; sequences.len() * length])?));
                }
                if let Some(positions) = positions {
                    inputs.push((positions, self.values(&shape, places())?));
                }
                self.run(inputs, &[sequences.len(), length])
            }
            Form::Last { tokens, lengths } => {
                // Every beginning of every sequence is a row; what follows it is padding.
                let rows: Vec<(&[u32], usize)> =
                    sequences.iter().flat_map(|tokens| (1..=length).map(|n| (*tokens, n))).collect();
                let mut logits = Vec::with_capacity(rows.len() * self.d_vocab);
                for part in rows.chunks((MOST / length.max(1)).max(1)) {
                    let padded = part.iter().flat_map(|(tokens, _)| tokens.iter().map(|&token| token as i32));
                    let counts = part.iter().map(|(_, n)| *n as i32);
                    let inputs = vec![
                        (tokens, self.values(&[part.len(), length], padded.collect())?),
                        (lengths, self.values(&[part.len()], counts.collect())?),
                    ];
                    logits.extend(self.run(inputs, &[part.len()])?);
                }
                Ok(logits)
            }
        }
    }

    /// Integers as an input; rten holds those of 64 bits in 32.
    fn values(&self, shape: &[usize], numbers: Vec<i32>) -> Result<Value> {
        Value::from_shape(shape, numbers).map_err(|e| self.wrong(format!("cannot be run: {e}")))
    }

    /// Runs the graph once, and returns logits for as many positions as `shape` has.
    fn run(&self, inputs: Vec<(NodeId, Value)>, shape: &[usize]) -> Result<Vec<f32>> {
        let inputs = inputs.into_iter().map(|(id, value)| (id, value.into())).collect();
        let options = RunOptions::default().with_thread_pool(Some(self.pool.clone()));
        let found = guarded(|| self.model.run(inputs, &[self.logits], Some(options)))
            .map_err(|e| self.wrong(format!("cannot be run: {e}")))?
            .map_err(|e| self.wrong(format!("cannot be run: {e}")))?;
        let taken = found.into_iter().next().and_then(|value| match shape.len() {
            1 => value.into_shape_vec::<f32, 2>().ok().map(|(shape, numbers)| (shape.to_vec(), numbers)),
            _ => value.into_shape_vec::<f32, 3>().ok().map(|(shape, numbers)| (shape.to_vec(), numbers)),
        });
        let Some((mut found, numbers)) = taken else {
            let dimensions = shape.len() + 1;
            return Err(self.wrong(format!("has logits that are not numbers in {dimensions} dimensions")));
        };
        let d_vocab = found.pop().unwrap_or(0);
        // The shape of the output may have been left open.
        let wrong = d_vocab == 0 || (self.d_vocab > 0 && d_vocab != self.d_vocab);
        if found != shape || wrong {
            let message =
                format!("has logits for {found:?} positions of {d_vocab} tokens, expected {shape:?}");
            return Err(self.wrong(message));
        }
        Ok(numbers)
    }
}

impl LanguageModel for OnnxModel {
    fn d_vocab(&self) -> u64 {
        self.d_vocab as u64
    }

    fn n_ctx(&self) -> u64 {
        self.n_ctx as u64
    }

    fn score(&self, sequences: &[Sequence<'_>], sampling: Sampling) -> Result<Vec<Vec<PositionScore>>> {
        sampling.checked()?;
        let mut found = Vec::with_capacity(sequences.len());
        for (number, sequence) in sequences.iter().enumerate() {
            sequence.check(number, self.d_vocab(), self.n_ctx())?;
            if sequence.scored.is_empty() {
                found.push(Vec::new());
                continue;
            }
            let logits = self.logits(sequence.read())?;
            let score = |position: usize| {
                let row = logits[(position - 1) * self.d_vocab..][..self.d_vocab].to_vec();
                let score = PositionScore::of_logits(row, sequence.tokens[position], sampling);
                score.ok_or_else(|| not_finite(number, position))
            };
            let scores: Vec<Result<PositionScore>> =
                sequence.scored.clone().into_par_iter().map(score).collect();
            found.push(scores.into_iter().collect::<Result<_>>()?);
        }
        Ok(found)
    }
}

/// The form of a graph with these inputs.
fn form_of(model: &Model, inputs: &[String]) -> Option<Form> {
    let node = |name: &str| inputs.iter().any(|input| input == name).then(|| model.find_node(name)).flatten();
    let only = |known: &[&str]| inputs.iter().all(|input| known.contains(&input.as_str()));
    if let (Some(tokens), Some(lengths), true) =
        (node("tokens"), node("lengths"), only(&["tokens", "lengths"]))
    {
        return Some(Form::Last { tokens, lengths });
    }
    let known = ["input_ids", "attention_mask", "position_ids"];
    let ids = node("input_ids").filter(|_| only(&known))?;
    Some(Form::Rows { ids, mask: node("attention_mask"), positions: node("position_ids") })
}

/// The first place where two lists differ by more than rounding.
fn first_apart(a: &[f32], b: &[f32]) -> Option<usize> {
    // False where one of them is not a number.
    let close = |a: f32, b: f32| (a - b).abs() <= APART * a.abs().max(b.abs()).max(1.0);
    a.iter().zip(b).position(|(&a, &b)| !close(a, b))
}
