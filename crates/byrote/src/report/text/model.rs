//! Model files as text.

use super::{TextTable, shown};
use crate::construct::kajitsuka2024::{ExactFile, ExactNetwork, Goal, Visibility, WeightTally};
use crate::incontext::NetworkFile;
use crate::model::{
    Blocks, Config, Counting, Hidden, Mixer, ModelFile, Norm, ParameterCount, Preset, RotaryScaling,
    TensorKind,
};
use crate::units::grouped;
use serde_json::json;
use std::fmt::Write as _;

/// Shows a transformer: its shape, its switches and its tensors.
pub fn model(file: &ModelFile) -> String {
    let config = file.model.config();
    let preset = Preset::ALL.into_iter().find(|p| p.config(config.shape) == *config);
    let shape = &config.shape;
    let yes = |b: bool| if b { "yes" } else { "no" }.to_owned();
    let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let mut table = TextTable::new(&["model", preset.map_or("custom configuration", Preset::name)], &[0, 1]);
    let mut positions = word(json!(config.positions));
    if config.positions_in_attention {
        positions += ", in attention only";
    }
    if let Some(blocks) = &shape.blocks {
        return model_of_blocks(file, blocks, table);
    }
    let rows = [
        ("parameters", grouped(file.model.parameters().len() as u64)),
        ("precision", word(json!(file.precision))),
        ("tokenizer", file.tokenizer.clone()),
        ("vocabulary", format!("{} tokens, {}", grouped(shape.d_vocab), sample(file))),
        ("longest context", grouped(shape.n_ctx)),
        ("d_model", grouped(shape.d_model)),
        ("mixer", shape.mixer.name().to_owned()),
        ("heads", format!("{} of {}", shape.n_heads, shape.d_head)),
        ("attention biases", yes(config.attention_bias)),
        ("scores scaled", yes(config.scale_scores)),
        ("positions", positions),
        ("bottleneck", yes(config.bottleneck)),
        ("skip connections", yes(config.skip)),
        (
            "hidden layer",
            format!("{} neurons, {}, {}", grouped(shape.d_mlp), shape.activation, word(json!(config.hidden))),
        ),
        ("output bias", yes(config.output_bias)),
    ];
    for (name, value) in rows {
        table.row(vec![name.into(), value]);
    }
    let mut out = table.render();
    let mut tensors = TextTable::new(&["tensor", "shape", "parameters", "kind"], &[0, 1, 3]);
    for t in file.model.tensors() {
        tensors.row(vec![
            t.name.to_string(),
            format!("{:?}", t.shape),
            grouped(t.range.len() as u64),
            kind(t.kind).into(),
        ]);
    }
    let _ = write!(out, "\n{}", tensors.render());
    out
}

/// The rest of [`model`] for a model of blocks.
fn model_of_blocks(file: &ModelFile, blocks: &Blocks, mut table: TextTable) -> String {
    let config = file.model.config();
    let shape = &config.shape;
    let yes = |b: bool| if b { "yes" } else { "no" }.to_owned();
    let attention = shape.mixer == Mixer::Attention;
    let heads = match (attention, blocks.n_kv_heads == shape.n_heads) {
        (false, _) => "none".to_owned(),
        (true, true) => format!("{} of {}", shape.n_heads, shape.d_head),
        (true, false) => {
            let (queries, shared) = (shape.n_heads, blocks.n_kv_heads);
            format!("{queries} of {} for queries, {shared} for keys and values", shape.d_head)
        }
    };
    let norm = match blocks.norm {
        Norm::None => "none".to_owned(),
        norm => {
            let name = if norm == Norm::Layer { "LayerNorm" } else { "RMSNorm" };
            let end = if blocks.final_norm { "each part and of the output" } else { "each part" };
            format!("{name} in front of {end}, eps {:e}", blocks.norm_eps)
        }
    };
    let hidden = match config.hidden {
        Hidden::Absent => "none".to_owned(),
        _ => {
            let gated = if blocks.gated { ", gated" } else { "" };
            format!("{} neurons, {}{gated}", grouped(shape.d_mlp), shape.activation)
        }
    };
    let order = if blocks.parallel { "read the same stream" } else { "one after the other" };
    let rows = [
        ("parameters", grouped(file.model.parameters().len() as u64)),
        ("precision", file.precision.to_string()),
        ("tokenizer", file.tokenizer.clone()),
        ("vocabulary", format!("{} tokens, {}", grouped(shape.d_vocab), sample(file))),
        ("longest context", grouped(shape.n_ctx)),
        ("blocks", grouped(blocks.n_layers)),
        ("d_model", grouped(shape.d_model)),
        ("mixer", shape.mixer.name().to_owned()),
        ("heads", heads),
        ("attention biases", biases(attention, config.attention_bias, blocks.attention_output_bias)),
        ("scores scaled", yes(attention && config.scale_scores)),
        ("positions", positions(config, blocks)),
        ("hidden layer", hidden),
        ("hidden biases", yes(config.hidden != Hidden::Absent && blocks.mlp_bias)),
        ("mixer and hidden layer", order.to_owned()),
        ("normalization", norm),
        ("skip connections", skips(config.skip, blocks.mlp_skip)),
        ("output", if blocks.tied { "the embedding" } else { "a matrix of its own" }.to_owned()),
        ("output bias", yes(config.output_bias)),
    ];
    for (name, value) in rows {
        table.row(vec![name.into(), value]);
    }
    let mut out = table.render();
    let mut kinds = TextTable::new(&["kind", "parameters"], &[0]);
    let by_kind = config.parameters_by_kind();
    for (kind, count) in [
        (TensorKind::Embedding, by_kind.embedding),
        (TensorKind::Position, by_kind.position),
        (TensorKind::Attention, by_kind.attention),
        (TensorKind::Hidden, by_kind.hidden),
        (TensorKind::Norm, by_kind.norm),
        (TensorKind::Output, by_kind.output),
    ] {
        if count > 0 {
            kinds.row([self::kind(kind).to_owned(), grouped(count as u64)]);
        }
    }
    let _ = write!(out, "\n{}", kinds.render());
    let mut tensors = TextTable::new(&["tensor", "shape", "parameters", "kind"], &[0, 1, 3]);
    // One row for all blocks, which are alike.
    for t in file.model.tensors().iter().filter(|t| t.name.block().unwrap_or(0) == 0) {
        let (name, times) = match t.name.block() {
            Some(_) => (format!("blocks.*.{}", t.name.part()), blocks.n_layers),
            None => (t.name.to_string(), 1),
        };
        let count = t.range.len() as u64 * times;
        tensors.row(vec![name, format!("{:?}", t.shape), grouped(count), kind(t.kind).into()]);
    }
    let _ = write!(out, "\n{}", tensors.render());
    out
}

fn biases(attention: bool, projections: bool, output: bool) -> String {
    match (attention && projections, attention && output) {
        (true, true) => "queries, keys, values and output",
        (true, false) => "queries, keys and values",
        (false, true) => "output",
        (false, false) => "none",
    }
    .into()
}

fn skips(mixer: bool, hidden: bool) -> String {
    match (mixer, hidden) {
        (true, true) => "yes",
        (true, false) => "around the mixer only",
        (false, true) => "around the hidden layer only",
        (false, false) => "no",
    }
    .into()
}

fn positions(config: &Config, blocks: &Blocks) -> String {
    let Some(rotary) = &blocks.rotary else { return config.positions.to_string() };
    let scaling = match rotary.scaling {
        None => String::new(),
        Some(RotaryScaling::Linear { factor }) => format!(", frequencies divided by {factor}"),
        Some(RotaryScaling::Llama3 { factor, .. }) => {
            format!(", low frequencies divided by {factor} (llama3)")
        }
    };
    format!("rotary, {} of {} per head, theta {}{scaling}", rotary.dims, config.shape.d_head, rotary.theta)
}

/// Shows a network that learns in context, layer by layer.
pub fn network(file: &NetworkFile) -> String {
    let network = &file.network;
    let (d_in, d_out) = (network.w_e.len(), network.w_u.columns());
    let mut table = TextTable::new(&["network", "a causal transformer on vectors"], &[0, 1]);
    let input = json!(file.input).as_str().unwrap_or_default().to_owned();
    for (name, value) in [
        (
            "reads",
            format!("{input}: {d_in} numbers per step, up to {} steps", grouped(network.n_ctx() as u64)),
        ),
        ("predicts", format!("{d_out} numbers")),
        ("d_model", grouped(network.d_model() as u64)),
        ("layers", grouped(network.depth())),
        ("stored numbers", grouped(network.parameters() as u64)),
    ] {
        table.row(vec![name.into(), value]);
    }
    let mut out = table.render();
    let mut table = TextTable::new(&["layer", "times", "attention", "heads", "step", "neurons"], &[2]);
    for (l, layer) in network.layers.iter().enumerate() {
        let neurons = layer.hidden.as_ref().map_or(0, |h| h.w_in.columns());
        table.row(vec![
            l.to_string(),
            grouped(layer.repeat),
            layer.attention.to_string(),
            layer.heads.len().to_string(),
            format!("{:.6}", layer.step),
            grouped(neurons as u64),
        ]);
    }
    let _ = write!(out, "\n{}", table.render());
    out
}

/// Shows an exact network: its sizes, its task and its stages.
pub fn exact_network(file: &ExactFile) -> String {
    let (task, network) = (&file.model.task, &file.model.network);
    let (tally, count) = (network.tally(), file.parameters());
    let mut table =
        TextTable::new(&["model", &format!("kajitsuka2024, {}", file.model.method.name())], &[0, 1]);
    let padded = if task.padded { ", padded" } else { "" };
    let several = |n: u64, one: &str| format!("{} {one}{}", grouped(n), if n == 1 { "" } else { "s" });
    let rows = [
        ("parameters", parameters(&count, "")),
        ("distinct weights", grouped(network.distinct_weights() as u64)),
        (
            "task",
            match task.goal {
                Goal::Next => format!("one label per context, {}{padded}", attention(task.attention)),
                Goal::EveryPosition => {
                    format!("one label per position, {}{padded}", attention(task.attention))
                }
            },
        ),
        ("tokenizer", file.tokenizer.clone()),
        ("vocabulary", several(task.d_vocab.into(), "token")),
        ("labels", format!("{}: {}", grouped(task.labels), some_labels(file))),
        ("longest context", grouped(task.n_ctx)),
        ("layers", format!("{}, run in sequence", grouped(tally.depth as u64))),
        ("neurons per layer", format!("at most {}", network.width())),
        ("channels", network.channels().to_string()),
        ("longest weight", several(tally.largest_bits as u64, "bit")),
    ];
    for (name, value) in rows {
        table.row(vec![name.into(), value]);
    }
    let mut out = table.render();
    let _ = write!(out, "\n{}", parts(network).render());
    out
}

fn kind(kind: TensorKind) -> &'static str {
    match kind {
        TensorKind::Embedding => "embedding",
        TensorKind::Position => "position",
        TensorKind::Attention => "attention",
        TensorKind::Hidden => "hidden",
        TensorKind::Output => "output",
        TensorKind::Norm => "normalization",
    }
}

/// The first few tokens of the vocabulary.
fn sample(file: &ModelFile) -> String {
    let n = file.vocabulary.len() as u32;
    let few: Vec<String> = (0..n.min(5)).map(|id| shown(&file.vocabulary.text(id))).collect();
    format!("{}{}", few.join(" "), if n > 5 { " ..." } else { "" })
}

/// The stages of a network as a table.
pub(super) fn parts(network: &ExactNetwork) -> TextTable {
    let heads = ["stage", "non-zero", "dense", "layers", "bits", "longest weight (bits)"];
    let mut table = TextTable::new(&heads, &[0]);
    let mut row = |name: &str, tally: WeightTally| {
        let numbers = [tally.nonzero, tally.dense, tally.depth, tally.fixed_bits, tally.largest_bits];
        table.row([name.to_owned()].into_iter().chain(numbers.map(|n| grouped(n as u64))));
    };
    row("embedding", network.embedding());
    for (part, tally) in network.tallies() {
        row(part.name(), tally);
    }
    table
}

/// Both counts of the parameters, with their parts; `noun` follows the first.
pub(super) fn parameters(count: &ParameterCount, noun: &str) -> String {
    let [nonzero, dense] = Counting::ALL.map(|c| grouped(count.total(c)));
    let table = match count.label_table {
        0 => String::new(),
        entries => format!(" and {} in the label table", grouped(entries)),
    };
    format!(
        "{nonzero} non-zero{noun} ({dense} counting zeros), including {} in the embedding{table}",
        grouped(count.embedding)
    )
}

fn attention(attention: Visibility) -> &'static str {
    match attention {
        Visibility::Causal => "causal",
        Visibility::Bidirectional => "bidirectional",
    }
}

fn some_labels(file: &ExactFile) -> String {
    let n = file.model.task.labels;
    let few: Vec<String> = (0..n.min(8)).map(|y| shown(&file.label_text(y))).collect();
    format!("{}{}", few.join(" "), if n > 8 { " ..." } else { "" })
}
