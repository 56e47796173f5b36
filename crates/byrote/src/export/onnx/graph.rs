//! An ONNX graph being written: nodes, constants, inputs, outputs.
//!
//! Every value has a name; an operator takes names and gives its result a new one. Numbers are of one type in the whole graph,
//! f32 or f64; indices are int64. Field numbers are those of the messages of ONNX's `onnx.proto`.

use super::super::protobuf::Message;
use crate::model::Precision;
use std::collections::BTreeMap;

/// The operator set: the first with every operator used here in its present form.
pub const OPSET: i64 = 13;
/// The version of the file format that came with it.
pub const IR_VERSION: i64 = 7;

/// `TensorProto.DataType`.
const FLOAT: i64 = 1;
const INT64: i64 = 7;
const DOUBLE: i64 = 11;

/// The name of a value in the graph.
pub(super) type Value = String;

/// A dimension of an input or output: fixed, or free under a name.
pub(super) enum Dimension {
    Free(&'static str),
    Fixed(u64),
}

/// A graph being written.
pub(super) struct Graph {
    precision: Precision,
    nodes: Message,
    constants: Message,
    inputs: Message,
    outputs: Message,
    /// Scalars by their bits, and lists of indices: each is stored once.
    scalars: BTreeMap<u64, Value>,
    indices: BTreeMap<Vec<i64>, Value>,
    count: usize,
}

impl Graph {
    pub(super) fn new(precision: Precision) -> Self {
        Self {
            precision,
            nodes: Message::default(),
            constants: Message::default(),
            inputs: Message::default(),
            outputs: Message::default(),
            scalars: BTreeMap::new(),
            indices: BTreeMap::new(),
            count: 0,
        }
    }

    /// The type of the numbers.
    pub(super) fn precision(&self) -> Precision {
        self.precision
    }

    fn number(&self) -> i64 {
        match self.precision {
            Precision::F32 => FLOAT,
            Precision::F64 => DOUBLE,
        }
    }

    /// The result of an operator without attributes.
    pub(super) fn op(&mut self, operator: &str, inputs: &[&str]) -> Value {
        self.with(operator, inputs, &[], &[])
    }

    /// The result of an operator with integer attributes.
    pub(super) fn op_with(&mut self, operator: &str, inputs: &[&str], attributes: &[(&str, i64)]) -> Value {
        self.with(operator, inputs, attributes, &[])
    }

    /// The transpose of a value by a permutation of its dimensions.
    pub(super) fn transpose(&mut self, value: &str, permutation: &[i64]) -> Value {
        self.with("Transpose", &[value], &[], &[("perm", permutation)])
    }

    /// The mean over the last dimension, which is kept with size 1.
    pub(super) fn mean(&mut self, value: &str) -> Value {
        self.with("ReduceMean", &[value], &[("keepdims", 1)], &[("axes", &[-1])])
    }

    fn with(
        &mut self,
        operator: &str,
        inputs: &[&str],
        integers: &[(&str, i64)],
        lists: &[(&str, &[i64])],
    ) -> Value {
        let value = format!("{}_{}", operator.to_lowercase(), self.count);
        self.count += 1;
        self.write_node(operator, inputs, &value, integers, lists);
        value
    }

    fn write_node(
        &mut self,
        operator: &str,
        inputs: &[&str],
        output: &str,
        integers: &[(&str, i64)],
        lists: &[(&str, &[i64])],
    ) {
        let mut node = Message::default();
        for input in inputs {
            node.bytes(1, input.as_bytes());
        }
        node.bytes(2, output.as_bytes()).bytes(3, output.as_bytes()).bytes(4, operator.as_bytes());
        for &(name, value) in integers {
            let mut attribute = Message::default();
            attribute.bytes(1, name.as_bytes()).integer(3, value).integer(20, 2); // AttributeType INT
            node.message(5, &attribute);
        }
        for &(name, values) in lists {
            let mut attribute = Message::default();
            attribute.bytes(1, name.as_bytes());
            for &value in values {
                attribute.integer(8, value);
            }
            attribute.integer(20, 7); // AttributeType INTS
            node.message(5, &attribute);
        }
        self.nodes.message(1, &node);
    }

    fn store(&mut self, name: &str, dimensions: &[usize], kind: i64, raw: &[u8]) {
        let mut tensor = Message::default();
        for &dimension in dimensions {
            tensor.integer(1, dimension as i64);
        }
        tensor.integer(2, kind).bytes(8, name.as_bytes()).bytes(9, raw);
        self.constants.message(5, &tensor);
    }

    /// A constant tensor, under this name.
    pub(super) fn tensor(&mut self, name: &str, dimensions: &[usize], values: &[f64]) -> Value {
        debug_assert_eq!(dimensions.iter().product::<usize>(), values.len());
        let raw = self.precision.bytes(values);
        self.store(name, dimensions, self.number(), &raw);
        name.to_owned()
    }

    /// A constant number.
    pub(super) fn scalar(&mut self, x: f64) -> Value {
        if let Some(known) = self.scalars.get(&x.to_bits()) {
            return known.clone();
        }
        let name = self.tensor(&format!("number_{}", self.scalars.len()), &[], &[x]);
        self.scalars.insert(x.to_bits(), name.clone());
        name
    }

    /// A constant list of indices.
    pub(super) fn list(&mut self, values: &[i64]) -> Value {
        self.whole(values, &[values.len()])
    }

    /// A constant index.
    pub(super) fn index(&mut self, value: i64) -> Value {
        self.whole(&[value], &[])
    }

    fn whole(&mut self, values: &[i64], dimensions: &[usize]) -> Value {
        // A list of one and an index differ in their dimensions only.
        let key = [&[dimensions.len() as i64], values].concat();
        if let Some(known) = self.indices.get(&key) {
            return known.clone();
        }
        let name = format!("indices_{}", self.indices.len());
        let raw: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.store(&name, dimensions, INT64, &raw);
        self.indices.insert(key, name.clone());
        name
    }

    /// An input of indices.
    pub(super) fn input(&mut self, name: &str, dimensions: &[Dimension]) -> Value {
        self.inputs.message(11, &declaration(name, INT64, dimensions));
        name.to_owned()
    }

    /// An input of numbers.
    pub(super) fn input_numbers(&mut self, name: &str, dimensions: &[Dimension]) -> Value {
        self.inputs.message(11, &declaration(name, self.number(), dimensions));
        name.to_owned()
    }

    /// Makes a value an output of numbers under this name.
    pub(super) fn output(&mut self, value: &str, name: &str, dimensions: &[Dimension]) {
        self.write_node("Identity", &[value], name, &[], &[]);
        self.outputs.message(12, &declaration(name, self.number(), dimensions));
    }

    /// The bytes of the file, with a text under a key in its metadata.
    pub(super) fn into_model(self, name: &str, about: &str, metadata: (&str, &str)) -> Vec<u8> {
        let mut graph = self.nodes;
        graph.bytes(2, name.as_bytes()).append(&self.constants).append(&self.inputs).append(&self.outputs);
        let mut opset = Message::default();
        opset.bytes(1, b"").integer(2, OPSET);
        let mut property = Message::default();
        property.bytes(1, metadata.0.as_bytes()).bytes(2, metadata.1.as_bytes());
        let mut model = Message::default();
        model
            .integer(1, IR_VERSION)
            .bytes(2, b"byrote")
            .bytes(3, env!("CARGO_PKG_VERSION").as_bytes())
            .bytes(6, about.as_bytes())
            .message(7, &graph)
            .message(8, &opset)
            .message(14, &property);
        model.into_bytes()
    }
}

/// A `ValueInfoProto`.
fn declaration(name: &str, kind: i64, dimensions: &[Dimension]) -> Message {
    let mut shape = Message::default();
    for dimension in dimensions {
        let mut one = Message::default();
        match dimension {
            Dimension::Fixed(size) => one.integer(1, *size as i64),
            Dimension::Free(name) => one.bytes(2, name.as_bytes()),
        };
        shape.message(1, &one);
    }
    let mut tensor = Message::default();
    tensor.integer(1, kind).message(2, &shape);
    let mut value_type = Message::default();
    value_type.message(1, &tensor);
    let mut info = Message::default();
    info.bytes(1, name.as_bytes()).message(2, &value_type);
    info
}
