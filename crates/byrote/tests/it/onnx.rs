//! ONNX files against the reference forward pass: read by an independent reader and run by a small interpreter that
//! implements the operators from ONNX's documentation, independently of the code that wrote the file.

use byrote::corpus::Corpus;
use byrote::export::onnx;
use byrote::model::{
    Activation, Config, Hidden, Mixer, Model, ModelFile, Positions, Precision, Preset, Shape,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

// ---------------------------------------------------------------- protocol buffers

/// A field of a message: a number, or bytes.
#[derive(Clone, Copy)]
enum Field<'a> {
    Number(i64),
    Bytes(&'a [u8]),
}

/// The fields of a message, in order.
struct Fields<'a>(Vec<(u64, Field<'a>)>);

impl<'a> Fields<'a> {
    fn read(mut bytes: &'a [u8]) -> Self {
        fn varint(bytes: &mut &[u8]) -> u64 {
            let mut value = 0;
            for shift in (0..).step_by(7) {
                let byte = bytes[0];
                *bytes = &bytes[1..];
                value |= u64::from(byte & 0x7f) << shift;
                if byte < 0x80 {
                    break;
                }
            }
            value
        }
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let field = match tag & 7 {
                0 => Field::Number(varint(&mut bytes) as i64),
                2 => {
                    let size = varint(&mut bytes) as usize;
                    let (field, rest) = bytes.split_at(size);
                    bytes = rest;
                    Field::Bytes(field)
                }
                other => panic!("a field of kind {other}"),
            };
            all.push((tag >> 3, field));
        }
        Self(all)
    }

    fn numbers(&self, number: u64) -> Vec<i64> {
        let of = |f: &(u64, Field)| match *f {
            (n, Field::Number(x)) if n == number => Some(x),
            _ => None,
        };
        self.0.iter().filter_map(of).collect()
    }

    fn number(&self, number: u64) -> i64 {
        self.numbers(number)[0]
    }

    fn all(&self, number: u64) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter_map(move |f| match *f {
            (n, Field::Bytes(b)) if n == number => Some(b),
            _ => None,
        })
    }

    fn messages(&self, number: u64) -> impl Iterator<Item = Fields<'a>> {
        self.all(number).map(Fields::read)
    }

    fn message(&self, number: u64) -> Fields<'a> {
        self.messages(number).next().unwrap()
    }

    fn texts(&self, number: u64) -> Vec<String> {
        self.all(number).map(|b| String::from_utf8(b.to_vec()).unwrap()).collect()
    }

    fn text(&self, number: u64) -> String {
        self.texts(number).remove(0)
    }
}

// ---------------------------------------------------------------- tensors and operators

/// Indices and truth values are also kept as numbers.
#[derive(Clone, Debug)]
struct Array {
    shape: Vec<usize>,
    values: Vec<f64>,
}

impl Array {
    fn new(shape: Vec<usize>, values: Vec<f64>) -> Self {
        assert_eq!(shape.iter().product::<usize>(), values.len());
        Self { shape, values }
    }

    fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self::new(self.shape.clone(), self.values.iter().map(|&x| f(x)).collect())
    }

    /// The value at an index of a larger shape, by ONNX's broadcasting rule.
    fn at(&self, index: &[usize]) -> f64 {
        let skip = index.len() - self.shape.len();
        let flat = self.shape.iter().zip(&index[skip..]).fold(0, |flat, (&size, &i)| {
            assert!(size == 1 || i < size, "shapes do not agree");
            flat * size + if size == 1 { 0 } else { i }
        });
        self.values[flat]
    }
}

fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..shape.iter().product::<usize>()).map(move |mut flat| {
        let mut index = vec![0; shape.len()];
        for (i, &size) in index.iter_mut().zip(shape).rev() {
            (*i, flat) = (flat % size, flat / size);
        }
        index
    })
}

fn common(shapes: &[&[usize]]) -> Vec<usize> {
    let rank = shapes.iter().map(|s| s.len()).max().unwrap();
    let mut out = vec![1; rank];
    for shape in shapes {
        for (o, &size) in out[rank - shape.len()..].iter_mut().zip(*shape) {
            assert!(*o == 1 || size == 1 || *o == size, "{shapes:?}");
            *o = (*o).max(size);
        }
    }
    out
}

fn elementwise(inputs: &[&Array], f: impl Fn(&[f64]) -> f64) -> Array {
    let shape = common(&inputs.iter().map(|a| a.shape.as_slice()).collect::<Vec<_>>());
    let values = indices(&shape).map(|i| f(&inputs.iter().map(|a| a.at(&i)).collect::<Vec<_>>())).collect();
    Array::new(shape, values)
}

fn matmul(a: &Array, b: &Array) -> Array {
    let (last, inner) = (b.shape.len() - 1, a.shape.len() - 1);
    assert_eq!(a.shape[inner], b.shape[last - 1], "{:?} {:?}", a.shape, b.shape);
    let batch = common(&[&a.shape[..inner - 1], &b.shape[..last - 1]]);
    let shape = [batch, vec![a.shape[inner - 1], b.shape[last]]].concat();
    let values = indices(&shape)
        .map(|index| {
            let (batch, place) = index.split_at(index.len() - 2);
            let entry = |k| a.at(&[batch, &[place[0], k]].concat()) * b.at(&[batch, &[k, place[1]]].concat());
            (0..a.shape[inner]).map(entry).sum()
        })
        .collect();
    Array::new(shape, values)
}

/// The smallest part of ONNX that the files use.
fn apply(operator: &str, inputs: &[&Array], attributes: &BTreeMap<String, Vec<i64>>) -> Array {
    let x = inputs[0];
    let axes = || inputs[1].values.iter().map(|&a| a as usize).collect::<Vec<_>>();
    match operator {
        "Identity" => x.clone(),
        "Shape" => Array::new(vec![x.shape.len()], x.shape.iter().map(|&s| s as f64).collect()),
        "Range" => {
            let [start, end, step] = [0, 1, 2].map(|i| inputs[i].values[0] as i64);
            let values: Vec<f64> = (start..end).step_by(step as usize).map(|i| i as f64).collect();
            Array::new(vec![values.len()], values)
        }
        "Gather" => {
            let (row, rest) = (x.shape[1..].iter().product::<usize>(), &x.shape[1..]);
            let pick = |&i: &f64| {
                assert!(i >= 0.0 && (i as usize) < x.shape[0], "index {i} of {:?}", x.shape);
                x.values[i as usize * row..(i as usize + 1) * row].iter().copied()
            };
            Array::new(
                [&inputs[1].shape, rest].concat(),
                inputs[1].values.iter().flat_map(pick).collect::<Vec<_>>(),
            )
        }
        "GatherND" => {
            assert_eq!(attributes["batch_dims"], [1]);
            let (rows, size) = (x.shape[1], x.shape[2]);
            let pick = |(b, &i): (usize, &f64)| {
                assert!(i >= 0.0 && (i as usize) < rows);
                let at = (b * rows + i as usize) * size;
                x.values[at..at + size].iter().copied()
            };
            let values = inputs[1].values.iter().enumerate().flat_map(pick).collect();
            Array::new(vec![x.shape[0], size], values)
        }
        "Unsqueeze" => {
            let mut shape = x.shape.clone();
            axes().into_iter().for_each(|axis| shape.insert(axis, 1));
            Array::new(shape, x.values.clone())
        }
        "Squeeze" => {
            let mut shape = x.shape.clone();
            assert!(axes().iter().rev().all(|&axis| shape.remove(axis) == 1));
            Array::new(shape, x.values.clone())
        }
        "Transpose" => {
            let perm: Vec<usize> = attributes["perm"].iter().map(|&p| p as usize).collect();
            let shape: Vec<usize> = perm.iter().map(|&p| x.shape[p]).collect();
            let values = indices(&shape)
                .map(|index| {
                    let mut from = vec![0; index.len()];
                    perm.iter().zip(&index).for_each(|(&p, &i)| from[p] = i);
                    x.at(&from)
                })
                .collect();
            Array::new(shape, values)
        }
        "ReduceSum" => {
            assert_eq!(attributes["keepdims"], [0]);
            let axes = axes();
            let kept: Vec<usize> = (0..x.shape.len()).filter(|i| !axes.contains(i)).collect();
            let shape: Vec<usize> = kept.iter().map(|&i| x.shape[i]).collect();
            let mut sum = Array::new(shape.clone(), vec![0.0; shape.iter().product()]);
            for (index, value) in indices(&x.shape).zip(&x.values) {
                let place = kept.iter().fold(0, |flat, &i| flat * x.shape[i] + index[i]);
                sum.values[place] += value;
            }
            sum
        }
        "ReduceMean" => {
            assert_eq!((&attributes["axes"][..], &attributes["keepdims"][..]), (&[-1][..], &[1][..]));
            let last = *x.shape.last().unwrap();
            let shape = [&x.shape[..x.shape.len() - 1], &[1]].concat();
            Array::new(
                shape,
                x.values.chunks(last).map(|row| row.iter().sum::<f64>() / last as f64).collect(),
            )
        }
        "Softmax" => {
            assert_eq!(attributes["axis"], [-1]);
            let row = |row: &[f64]| {
                let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let e: Vec<f64> = row.iter().map(|x| (x - top).exp()).collect();
                let sum: f64 = e.iter().sum();
                e.into_iter().map(move |e| e / sum)
            };
            Array::new(x.shape.clone(), x.values.chunks(*x.shape.last().unwrap()).flat_map(row).collect())
        }
        "MatMul" => matmul(x, inputs[1]),
        "Add" => elementwise(inputs, |v| v[0] + v[1]),
        "Sub" => elementwise(inputs, |v| v[0] - v[1]),
        "Mul" => elementwise(inputs, |v| v[0] * v[1]),
        "Div" => elementwise(inputs, |v| v[0] / v[1]),
        "Min" => elementwise(inputs, |v| v[0].min(v[1])),
        "Less" => elementwise(inputs, |v| f64::from(u8::from(v[0] < v[1]))),
        "Where" => elementwise(inputs, |v| if v[0] != 0.0 { v[1] } else { v[2] }),
        "Abs" => x.map(f64::abs),
        "Neg" => x.map(|x| -x),
        "Exp" => x.map(f64::exp),
        "Sqrt" => x.map(f64::sqrt),
        "Tanh" => x.map(f64::tanh),
        "Sigmoid" => x.map(|x| Activation::Logistic.value(x)),
        "Erf" => x.map(|x| Activation::Erf.value(x)),
        "Atan" => x.map(f64::atan),
        "Relu" => x.map(|x| x.max(0.0)),
        other => panic!("{other} is not among the operators of the interpreter"),
    }
}

/// Runs a file; the operators it used are entered in `used`.
fn run(bytes: &[u8], tokens: Array, lengths: Array, used: &mut Vec<String>) -> Array {
    let model = Fields::read(bytes);
    assert!(model.number(1) <= 9, "the version of the format");
    let opset = model.message(8);
    assert!(opset.number(2) <= 20 && opset.text(1).is_empty());
    let graph = model.message(7);
    let mut values: BTreeMap<String, Array> = BTreeMap::new();
    for tensor in graph.messages(5) {
        let shape = tensor.numbers(1).iter().map(|&d| d as usize).collect();
        let raw = tensor.all(9).next().unwrap();
        let numbers = match tensor.number(2) {
            1 => raw.as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect(),
            7 => raw.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b) as f64).collect(),
            11 => raw.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
            other => panic!("a tensor of type {other}"),
        };
        assert!(values.insert(tensor.text(8), Array::new(shape, numbers)).is_none(), "two of one name");
    }
    let named: Vec<String> = graph.messages(11).map(|i| i.text(1)).collect();
    assert_eq!(named, ["tokens", "lengths"]);
    values.insert("tokens".into(), tokens);
    values.insert("lengths".into(), lengths);
    for node in graph.messages(1) {
        let attributes = node
            .messages(5)
            .map(|a| match a.number(20) {
                2 => (a.text(1), a.numbers(3)),
                7 => (a.text(1), a.numbers(8)),
                other => panic!("an attribute of type {other}"),
            })
            .collect();
        // Nodes are in topological order: a missing input is an error.
        let inputs: Vec<&Array> = node.all(1).map(|n| &values[std::str::from_utf8(n).unwrap()]).collect();
        let operator = node.text(4);
        let result = apply(&operator, &inputs, &attributes);
        used.push(operator);
        assert!(values.insert(node.text(2), result).is_none(), "two of one name");
    }
    let outputs: Vec<String> = graph.messages(12).map(|o| o.text(1)).collect();
    assert_eq!(outputs, ["logits"]);
    values.remove("logits").unwrap()
}

// ---------------------------------------------------------------- the tests

fn file(model: Model, precision: Precision) -> ModelFile {
    let d_vocab = model.config().shape.d_vocab as u16;
    let rows: Vec<u16> = (0..d_vocab).flat_map(|t| [t, t]).collect();
    let corpus = Corpus::from_rows(&rows, 2, 1).unwrap();
    ModelFile { model, precision, tokenizer: "ids".into(), vocabulary: corpus.vocabulary }
}

/// The largest difference between the file's logits and the reference's for a batch of contexts, relative to the largest
/// logit or 1.
pub(crate) fn difference(
    model: &Model,
    precision: Precision,
    contexts: &[Vec<u32>],
    used: &mut Vec<String>,
) -> f64 {
    let bytes = onnx(&file(model.clone(), precision), precision).unwrap();
    let longest = contexts.iter().map(Vec::len).max().unwrap();
    let pad = |c: &Vec<u32>| {
        // Data after the end of a row must not matter, even if it is not a token.
        let padding = (c.len()..longest).map(|i| [-7.0, 1e6, 0.0][i % 3]);
        c.iter().map(|&t| f64::from(t)).chain(padding).collect::<Vec<_>>()
    };
    let tokens = Array::new(vec![contexts.len(), longest], contexts.iter().flat_map(pad).collect());
    let lengths = Array::new(vec![contexts.len()], contexts.iter().map(|c| c.len() as f64).collect());
    let found = run(&bytes, tokens, lengths, used);
    let d_vocab = model.config().shape.d_vocab as usize;
    assert_eq!(found.shape, [contexts.len(), d_vocab]);
    let mut worst = 0f64;
    for (context, logits) in contexts.iter().zip(found.values.chunks(d_vocab)) {
        let expected = model.logits(context).unwrap();
        let size = expected.iter().fold(1f64, |m, x| m.max(x.abs()));
        for (a, b) in logits.iter().zip(&expected) {
            assert!(a.is_finite());
            worst = worst.max((a - b).abs() / size);
        }
    }
    worst
}

fn shape() -> Shape {
    Shape { d_vocab: 6, n_ctx: 5, d_model: 4, n_heads: 3, d_head: 2, d_mlp: 7, ..Shape::default() }
}

fn contexts() -> Vec<Vec<u32>> {
    vec![vec![3], vec![0, 5, 2, 1, 4], vec![5, 5], vec![1, 2, 3, 4], vec![0]]
}

#[test]
fn every_preset_and_activation_has_the_logits_of_the_reference() {
    let mut used = Vec::new();
    for preset in Preset::ONE_LAYER {
        for activation in Activation::ALL {
            let model = Model::random(preset.config(Shape { activation, ..shape() }), 3).unwrap();
            let f64 = difference(&model, Precision::F64, &contexts(), &mut used);
            assert!(f64 < 1e-12, "{preset} {activation}: {f64:e}");
            let f32 = difference(&model, Precision::F32, &contexts(), &mut used);
            assert!(f32 < 1e-6, "{preset} {activation}: {f32:e}");
        }
    }
}

#[test]
fn composed_activations_agree_with_the_reference_far_out_too() {
    // One token per context, no mixing: the hidden layer sees 40 steep multiples of it.
    for activation in Activation::ALL {
        for steepness in [0.3, 3.0, 300.0, 1e9] {
            let config = Preset::Average.config(Shape { activation, d_mlp: 40, ..shape() });
            let model = Model::random(config, 8).unwrap();
            let mut parameters = model.parameters().to_vec();
            for t in model.tensors().iter().filter(|t| t.name == "W_in" || t.name == "b_in") {
                parameters[t.range.clone()].iter_mut().for_each(|x| *x *= steepness);
            }
            let model = Model::new(config, parameters).unwrap();
            let found = difference(&model, Precision::F64, &contexts(), &mut Vec::new());
            assert!(found < 1e-12, "{activation} times {steepness}: {found:e}");
        }
    }
}

#[test]
fn a_file_in_f64_uses_no_operator_that_onnx_runtime_has_in_f32_only() {
    for activation in Activation::ALL {
        let model = Model::random(Preset::Dana2024Mlp.config(Shape { activation, ..shape() }), 3).unwrap();
        let (mut wide, mut narrow) = (Vec::new(), Vec::new());
        difference(&model, Precision::F64, &contexts(), &mut wide);
        difference(&model, Precision::F32, &contexts(), &mut narrow);
        assert!(!wide.iter().any(|o| ["Erf", "Atan", "Gelu"].contains(&o.as_str())), "{activation}");
        let composed = matches!(activation, Activation::Erf | Activation::Gelu | Activation::Arctan);
        assert_eq!(wide != narrow, composed, "{activation}");
    }
}

#[test]
fn the_file_carries_the_description_of_the_model_and_the_names_of_its_tensors() {
    let model = Model::random(Preset::Madden2024Experiment.config(shape()), 3).unwrap();
    let file = file(model, Precision::F32);
    let bytes = onnx(&file, Precision::F32).unwrap();
    assert_eq!(bytes, onnx(&file, Precision::F32).unwrap(), "equal models are equal files");
    let read = Fields::read(&bytes);
    let property = read.message(14);
    let description: serde_json::Value = serde_json::from_str(&property.text(2)).unwrap();
    assert_eq!((property.text(1).as_str(), &description["tokenizer"]), ("byrote", &"ids".into()));
    assert_eq!(description["config"]["shape"]["d_vocab"], 6);
    let names: Vec<String> = read.message(7).messages(5).map(|t| t.text(8)).collect();
    for tensor in file.model.tensors() {
        assert!(names.iter().any(|n| tensor.name == n.as_str()), "{}", tensor.name);
    }
    assert!(names.iter().any(|n| n == "W_pos"), "fixed positions are written too");
}

#[test]
fn a_changed_weight_changes_the_file_and_its_logits() {
    // The comparison above can fail: the file of another model is not the reference's.
    let config = Preset::Madden2024.config(shape());
    let (one, other) = (Model::random(config, 3).unwrap(), Model::random(config, 4).unwrap());
    let bytes = onnx(&file(other, Precision::F64), Precision::F64).unwrap();
    let tokens = Array::new(vec![1, 2], vec![1.0, 2.0]);
    let found = run(&bytes, tokens, Array::new(vec![1], vec![2.0]), &mut Vec::new());
    assert!(found.values.iter().zip(one.logits(&[1, 2]).unwrap()).any(|(a, b)| (a - b).abs() > 1e-3));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn any_switches_any_sizes_any_batch(
        sizes in (1u64..5, 1u64..6, 1u64..4, 1u64..4, 1u64..6, 1u64..6),
        switches in (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
        narrow in (any::<bool>(), any::<bool>(), any::<bool>()),
        (positions, hidden, activation) in (0usize..3, 0usize..3, 0usize..8),
        seed in 0u64..1000,
        batch in prop::collection::vec(prop::collection::vec(0u32..1000, 1..6), 1..4),
    ) {
        let (d_model, d_vocab, n_heads, d_head, d_mlp, n_ctx) = sizes;
        let hidden = [Hidden::Absent, Hidden::Output, Hidden::Residual][hidden];
        let shape = Shape {
            d_vocab,
            n_ctx,
            d_model,
            n_heads,
            d_head,
            d_mlp: if hidden == Hidden::Absent { 0 } else { d_mlp },
            activation: Activation::ALL[activation],
            mixer: if switches.0 { Mixer::Attention } else { Mixer::Average },
            blocks: None,
        };
        let config = Config {
            shape,
            positions: [Positions::Learned, Positions::Sinusoidal, Positions::None][positions],
            attention_bias: switches.1,
            scale_scores: switches.2,
            skip: switches.3,
            hidden,
            output_bias: switches.4,
            positions_in_attention: switches.0 && narrow.0,
            bottleneck: switches.0 && narrow.1,
            residual_bias: narrow.2,
        };
        let model = Model::random(config, seed).unwrap();
        let cut = |c: Vec<u32>| {
            c.into_iter().take(n_ctx as usize).map(|t| t % d_vocab as u32).collect::<Vec<_>>()
        };
        let contexts: Vec<Vec<u32>> = batch.into_iter().map(cut).collect();
        let found = difference(&model, Precision::F64, &contexts, &mut Vec::new());
        prop_assert!(found < 1e-12, "{config:?}: {found:e}");
    }
}
