"""The rounding error of f64 forward passes: dana2024 at width 2 in NumPy, ONNX Runtime and extended precision.

    python3 benches/peers/onnx_precision.py target/release/byrote

Builds a model of (d, d_h, H) = (2, 2, 50) at capacity, exports it, and prints how far the two f64 passes are from a pass in
the 80 bits of numpy.longdouble (x86 only). Requires numpy, safetensors and onnxruntime.
"""

import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
from safetensors import safe_open

CORPUS = ["--random", "102", "--lengths", "2..2", "--d-vocab", "50", "--labels", "50"]
SHAPE = ["--d-model", "2", "--d-head", "2", "--n-heads", "50"]


def forward(tensors, ids, scaled, real):
    w = {name: values.astype(real) for name, values in tensors.items()}
    x = w["W_E"][ids] + w["W_pos"][: ids.shape[1]]
    last = x[:, -1]
    out = last.copy()
    scale = 1 / np.sqrt(real(w["W_Q"].shape[2])) if scaled else real(1)
    for q, k, v, o in zip(w["W_Q"], w["W_K"], w["W_V"], w["W_O"]):
        scores = np.einsum("nd,ntd->nt", last @ q, x @ k) * scale
        weights = np.exp(scores - scores.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        out = out + np.einsum("nt,ntd->nd", weights, x @ v) @ o
    return out @ w["W_U"]


def main():
    byrote = sys.argv[1] if len(sys.argv) > 1 else "byrote"
    with tempfile.TemporaryDirectory() as place:
        model, onnx, listed = (str(Path(place) / n) for n in ("m.safetensors", "m.onnx", "c.csv"))
        for words in (
            ["build", "dana2024", *CORPUS, *SHAPE, "--out", model],
            ["export", model, "--to", "onnx", "--out", onnx],
            ["corpus", *CORPUS, "--list", listed],
        ):
            subprocess.run([byrote, *words, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        with open(listed) as lines:
            ids = np.array([[int(t) for t in row["context"].split()] for row in csv.DictReader(lines)])
        with safe_open(model, "np") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}
            config = json.loads(next(iter(file.metadata().values())))["config"]
        double, extended = (forward(tensors, ids, config["scale_scores"], t) for t in (np.float64, np.longdouble))
        session = onnxruntime.InferenceSession(onnx)
        names = [i.name for i in session.get_inputs()]
        lengths = np.full(len(ids), ids.shape[1], np.int64)
        runtime = session.run(None, dict(zip(names, (ids.astype(np.int64), lengths))))[0]
    print(f"contexts                       {len(ids)}")
    print(f"largest logit                  {float(abs(extended).max()):.1f}")
    print(f"NumPy in f64, from 80 bits     {float(abs(double - extended).max()):.1e}")
    print(f"ONNX Runtime in f64, from 80   {float(abs(runtime - extended).max()):.1e}")


if __name__ == "__main__":
    main()
