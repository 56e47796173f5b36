"""Writes the ONNX files of this directory: `python3 make.py`, with the packages onnx and numpy.

All of them are tables of logits by the token before (a bigram model of 5 tokens) with the inputs of exporters of `transformers`;
those that an audit must refuse break one rule each.
"""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

HERE = Path(__file__).parent
TABLE = np.arange(25, dtype=np.float32).reshape(5, 5) % 7 / 2


def write(name, nodes, inputs=("input_ids", "attention_mask"), tensors=(), length="length"):
    ids = [helper.make_tensor_value_info(i, TensorProto.INT64, ["batch", length]) for i in inputs]
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", length, 5])
    constants = [numpy_helper.from_array(TABLE, "table"), *(numpy_helper.from_array(v, k) for k, v in tensors)]
    graph = helper.make_graph(nodes, name, ids, [logits], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    save(model, HERE / (name + ".onnx"))


def main():
    node = helper.make_node
    table = node("Gather", ["table", "input_ids"], ["rows"])
    write("bigram", [node("Gather", ["table", "input_ids"], ["logits"])])
    mean = node("ReduceMean", ["rows"], ["mean"], axes=[1], keepdims=1)
    write("not_causal", [table, mean, node("Add", ["rows", "mean"], ["logits"])])
    mean = node("ReduceMean", ["rows"], ["mean"], axes=[0], keepdims=1)
    write("mixes_rows", [table, mean, node("Add", ["rows", "mean"], ["logits"])])
    write("not_finite", [table, node("Log", ["rows"], ["logs"]), node("Sqrt", ["logs"], ["logits"])])
    write("other_inputs", [node("Gather", ["table", "input_ids"], ["logits"])], ("input_ids", "past_key_values.0.key"))
    write("fixed_length", [node("Gather", ["table", "input_ids"], ["logits"])], length=8)


if __name__ == "__main__":
    main()
