#!/usr/bin/env python3
"""Benchmark of audits: byrote against PyTorch/transformers (and llama.cpp) on the same weights and tokens.

    python3 benches/peers/audit_peers.py [--rounds 7] [--threads 2] [--driver PATH] [--names FILE] [--lines FILE] [--gguf FILE]
                                         [--json FILE]

Requires a Python with torch and transformers, and cargo unless --driver is given. With --gguf (a quantized model) and the package
xllamacpp, llama.cpp is measured as well. transformers writes random weights in two shapes, GPT-2 small and SmolLM2-135M, which
all programs then load. byrote is the driver audit_times, which stays loaded as PyTorch does, so that every round measures all
programs in turns and a slow phase of the machine affects them alike.

Passes. 8 windows of 100 tokens, and one document of 1,024. PyTorch runs layers, head, log_softmax and gather in f32 with
transformers' default attention; byrote computes all six numbers of an audit (log-probability, top-k probability, margin, rank, mean
and deviation). With `suffix only`, both compute the logits of the last 50 of 100 positions alone, as an audit does. The sums of the
log-probabilities must agree to 1e-4. GFLOP/s counts the products with weights and the scores and mixtures of attention, of the
causal half only; it is compared with the best multiply-add rate measured between the rounds, and with byrote's own products of
128 rows with a matrix of the hidden layer.

Shared beginnings (--names: one name per line, --lines: running text, by line; both by character). The gap to the floor needs the
next-token distribution after every distinct beginning of a document. A GPT-2 of 2 layers of width 128: byrote with beginnings
shared and document by document, PyTorch document by document in batches of one length, without padding; all skip copies.

Loading. From the start of the program's load to the first possible request, files in the page cache.

Exit status: 0 if the sums agree, 1 if they do not, 2 if something could not be run. Missed targets do not change it.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from peers import CannotRun, missing, positive, run_child, verdict
from train_peers import Byrote, cpu_name, note

TOLERANCE = 1e-4
PAUSE = 0.05  # seconds in which the threads of the program before go to sleep


class Driver:
    """byrote with a model in memory."""

    def __init__(self, program, model, threads):
        command = [str(program), str(model), str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.loaded = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise CannotRun("audit_times exited with status %s" % self.process.wait())
        return json.loads(line)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Torch:
    """A model of transformers in f32."""

    def __init__(self, model, threads):
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(threads)
        self.torch = torch
        self.model = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()

    def score(self, sequences, first=1):
        """The seconds and the sum of the log-probabilities of the positions from `first` on; all sequences have one length."""
        torch = self.torch
        start = time.perf_counter()
        with torch.inference_mode():
            ids = torch.tensor(sequences)
            targets = ids[:, first:]
            logits = self.model(ids[:, :-1], logits_to_keep=targets.shape[1], use_cache=False).logits
            found = torch.log_softmax(logits, -1).gather(-1, targets[..., None])
            total = float(found.double().sum())
        return {"seconds": time.perf_counter() - start, "log_prob": total}

    def score_by_length(self, sequences, rows=2048):
        """The same for sequences of any length, in batches of one length."""
        by_length = defaultdict(list)
        for sequence in sequences:
            by_length[len(sequence)].append(sequence)
        found = {"seconds": 0.0, "log_prob": 0.0}
        for length, same in sorted(by_length.items()):
            together = max(1, rows // length)
            for first in range(0, len(same), together):
                part = self.score(same[first : first + together])
                found = {key: found[key] + part[key] for key in found}
        return found


def write_models(directory):
    """Random weights in the shapes of two models that people have, and a small one over characters."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    smol = dict(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
                num_key_value_heads=3, max_position_embeddings=8192, rope_theta=100000.0, rms_norm_eps=1e-5,
                tie_word_embeddings=True)
    models = {
        "GPT-2 small": lambda: GPT2LMHeadModel(GPT2Config()),
        "SmolLM2-135M": lambda: LlamaForCausalLM(LlamaConfig(**smol)),
        "characters": lambda: GPT2LMHeadModel(
            GPT2Config(vocab_size=256, n_positions=256, n_embd=128, n_layer=2, n_head=4)
        ),
    }
    for name, make in models.items():
        make().save_pretrained(directory / name)
    return {name: directory / name for name in models}


def operations(config, length, scored):
    """Operations per sequence: products with weights, attention over what stands before, and the head."""
    if "n_embd" in config:
        d, layers, v = config["n_embd"], config["n_layer"], config["vocab_size"]
        weights, attention = layers * 12 * d * d, d
    else:
        d, layers, v, m = (config[k] for k in ("hidden_size", "num_hidden_layers", "vocab_size", "intermediate_size"))
        heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
        attention = heads * (d // heads)
        weights = layers * (2 * d * attention + 2 * d * attention * kv // heads + 3 * d * m)
    return 2 * weights * length + 4 * attention * layers * length * (length + 1) // 2 + 2 * v * d * scored


def peak_gflops(program):
    """The multiply-add peak, by the driver beside ours."""
    path = Path(program).with_name("fma_peak")
    return run_child("fma_peak", [path])["f32_gflops"] if path.is_file() else None


def turns(measurements, rounds, label):
    """Runs all measurements in turns, after one of each to warm up."""
    runs = {name: [] for name in measurements}
    for number in range(rounds + 1):
        for name, measure in measurements.items():
            time.sleep(PAUSE)
            found = measure()
            if number > 0:
                runs[name].append(found)
    best = "  ".join("%s %.3f s" % (name, min(run["seconds"] for run in found)) for name, found in runs.items())
    note("%s: %s" % (label, best))
    return runs


def figures(runs):
    seconds = [run["seconds"] for run in runs]
    return {"median": statistics.median(seconds), "min": min(seconds), "log_prob": runs[0]["log_prob"]}


def disagreements(label, found):
    sums = [row["log_prob"] for row in found.values()]
    apart = max(abs(a - sums[0]) / abs(sums[0]) for a in sums)
    return ["%s: sums of log-probabilities differ by %.1e" % (label, apart)] if not apart <= TOLERANCE else []


PASSES = [  # name, sequences, tokens read, first scored position, target
    ("8 x 100", 8, 100, 1, 1.3),
    ("8 x 100, suffix only", 8, 100, 51, None),
    ("1 x 1024", 1, 1024, 1, 1.2),
]


def measure_passes(name, path, options):
    config = json.loads((path / "config.json").read_text())
    draw = random.Random(0)
    driver, torch = Driver(options.driver, path, options.threads), Torch(path, options.threads)
    rows, wrong = [], []
    for label, count, length, first, target in PASSES:
        sequences = [[draw.randrange(config["vocab_size"]) for _ in range(length + 1)] for _ in range(count)]
        label = "%s, %s" % (name, label)
        runs = turns(
            {
                "byrote": lambda: driver.ask(kind="score", sequences=sequences, **{"from": first}),
                "torch": lambda: torch.score(sequences, first),
            },
            options.rounds,
            label,
        )
        found = {program: figures(part) for program, part in runs.items()}
        wrong += disagreements(label, found)
        flops = count * operations(config, length, length + 1 - first)
        rows.append({"label": label, "tokens": count * length, "operations": flops, "target": target, **found})
    d, m = (config["n_embd"], 4 * config["n_embd"]) if "n_embd" in config else (config["hidden_size"], config["intermediate_size"])
    products = [driver.ask(kind="products", rows=128, depth=d, width=m) for _ in range(options.rounds)]
    last = driver.ask(kind="score", sequences=[[1, 2]])
    driver.close()
    return {
        "model": name,
        "passes": rows,
        "products_gflops": max(p["operations"] / p["seconds"] / 1e9 for p in products),
        "load_seconds": driver.loaded["seconds"],
        "parameters": driver.loaded["parameters"],
        "peak_bytes": last["peak_bytes"],
        "wrong": wrong,
    }


def print_passes(models, peak):
    head = ("", "byrote tok/s", "torch tok/s", "ratio", "GFLOP/s", "of peak", "of products")
    print("%-44s %14s %14s %7s %9s %8s %12s" % head)
    for model in models:
        for row in model["passes"]:
            for which in ("median", "min"):
                ours, theirs = row["byrote"][which], row["torch"][which]
                rate = row["operations"] / ours / 1e9
                of_peak = "-" if peak is None else "%.0f%%" % (100 * rate / peak)
                label = "%s (%s)" % (row["label"], "median" if which == "median" else "fastest")
                numbers = (label, row["tokens"] / ours, row["tokens"] / theirs, theirs / ours, rate, of_peak)
                print("%-44s %14.0f %14.0f %7.2f %9.1f %8s" % numbers, end="")
                print("%11.0f%%" % (100 * rate / model["products_gflops"]))
    print("\nbyrote's own products: " + ", ".join("%s %.1f GFLOP/s" % (m["model"], m["products_gflops"]) for m in models), end="")
    print("" if peak is None else "; multiply-add peak %.1f GFLOP/s" % peak)
    for model in models:
        weights = 4 * model["parameters"]
        numbers = (model["model"], model["parameters"], model["load_seconds"], model["peak_bytes"] / 1e6, weights / 1e6)
        print("%s: %d parameters loaded in %.2f s; peak memory %.0f MB, weights in f32 %.0f MB" % numbers)
    for model in models:
        for row in model["passes"]:
            if row["target"]:
                verdict(row["label"] + ", times torch's rate", row["torch"]["median"] / row["byrote"]["median"], row["target"])
        row = model["passes"][0]
        share = row["operations"] / row["byrote"]["median"] / 1e9 / model["products_gflops"]
        verdict(row["label"] + ", share of byrote's products", share, 0.75)
        verdict(model["model"] + ", seconds to load", model["load_seconds"], 1.0, at_least=False)
        beside = (model["peak_bytes"] - 4 * model["parameters"]) / 1e6
        verdict(model["model"] + ", MB of memory beside the weights", beside, 300, at_least=False)


def measure_shared(name, file, path, options, target):
    lines = sorted({line for line in Path(file).read_text(encoding="utf-8").splitlines() if line})
    # Character 0 stands in front, so that the first character is predicted too.
    sequences = [[0, *line.encode()[:255]] for line in lines]
    sequences = [sequence for sequence in sequences if len(sequence) > 1]
    driver, torch = Driver(options.driver, path, options.threads), Torch(path, options.threads)
    runs = turns(
        {
            "shared": lambda: driver.ask(kind="contexts", sequences=sequences),
            "alone": lambda: driver.ask(kind="score", sequences=sequences),
            "torch": lambda: torch.score_by_length(sequences),
        },
        max(3, options.rounds // 2),
        name,
    )
    contexts = runs["shared"][0]["contexts"]
    driver.close()
    found = {program: figures(part) for program, part in runs.items()}
    read = sum(len(sequence) - 1 for sequence in sequences)
    return {"name": name, "read": read, "contexts": contexts, "target": target, **found,
            "wrong": disagreements(name, found)}


def print_shared(rows):
    print("\nshared beginnings: next-token distributions of all contexts of distinct documents, seconds")
    head = ("", "tokens", "contexts", "fewer", "byrote s", "alone s", "times", "torch s", "times")
    print("%-24s %9s %9s %7s %10s %10s %7s %10s %7s" % head)
    for row in rows:
        for which, label in (("median", "median"), ("min", "fastest")):
            shared, alone, torch = (row[name][which] for name in ("shared", "alone", "torch"))
            fewer = row["read"] / row["contexts"]
            place = ("%s (%s)" % (row["name"], label), row["read"], row["contexts"], fewer)
            print("%-24s %9d %9d %7.2f %10.3f %10.3f %7.2f %10.3f %7.2f" % (*place, shared, alone, alone / shared, torch, torch / shared))
    for row in rows:
        verdict(row["name"] + ", tokens per distinct context", row["read"] / row["contexts"], row["target"])
        verdict(row["name"] + ", times torch's rate", row["torch"]["median"] / row["shared"]["median"], 1.0)


def measure_llama(options):
    """The prompt rate of llama.cpp on a GGUF file, and byrote's on the same tokens."""
    if absent := missing("xllamacpp"):
        note("llama.cpp: " + absent)
        return None
    script = Path(__file__).with_name("llama_prompt.py")
    driver = Driver(options.driver, options.gguf, options.threads)
    draw = random.Random(0)
    rows = []
    for length in (100, 1024):
        sequence = [draw.randrange(1000, 40000) for _ in range(length + 1)]
        command = [sys.executable, script, options.gguf, str(length), str(options.threads)]
        runs = turns(
            {
                "byrote": lambda: driver.ask(kind="score", sequences=[sequence]),
                "llama.cpp": lambda: {**run_child("llama_prompt.py", command), "log_prob": 0.0},
            },
            max(3, options.rounds // 2),
            "prompt of %d" % length,
        )
        rows.append({"length": length, **{program: figures(part) for program, part in runs.items()}})
    loaded = driver.loaded
    driver.close()
    return {"rows": rows, "load_seconds": loaded["seconds"], "peak_bytes": loaded["peak_bytes"]}


def print_llama(found):
    print("\nllama.cpp on the quantized file (byrote computes in f32), prompt tokens per second")
    for row in found["rows"]:
        ours, theirs = (row["length"] / row[name]["median"] for name in ("byrote", "llama.cpp"))
        print("1 x %-5d byrote %7.0f   llama.cpp %7.0f   ratio %.2f" % (row["length"], ours, theirs, ours / theirs))
        verdict("1 x %d, times llama.cpp's rate" % row["length"], ours / theirs, 2.0)
    verdict("seconds to load the quantized file", found["load_seconds"], 2.0, at_least=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=positive, default=7)
    parser.add_argument("--threads", type=positive, default=2)
    parser.add_argument("--driver", metavar="PATH")
    parser.add_argument("--names", metavar="FILE")
    parser.add_argument("--lines", metavar="FILE")
    parser.add_argument("--gguf", metavar="FILE")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    try:
        if absent := missing("torch", "transformers"):
            raise CannotRun(absent)
        import torch
        import transformers

        if options.driver is None:
            for example in ("audit_times", "fma_peak"):
                Byrote.build("-p", "byrote", "--features", "bench-internals", "--example", example)
            from peers import TARGET

            options.driver = TARGET / "release" / "examples" / "audit_times"
        transformers.logging.set_verbosity_error()
        versions = "torch %s, transformers %s" % (torch.__version__, transformers.__version__)
        print("%s, %d threads, %s" % (cpu_name(), options.threads, versions))
        with tempfile.TemporaryDirectory() as directory:
            paths = write_models(Path(directory))
            peaks = [peak_gflops(options.driver)]
            models = []
            for name in ("GPT-2 small", "SmolLM2-135M"):
                models.append(measure_passes(name, paths[name], options))
                peaks.append(peak_gflops(options.driver))
            peak = max((p for p in peaks if p), default=None)
            print_passes(models, peak)
            files = [("names", options.names, 2.2), ("lines", options.lines, 1.4)]
            shared = [measure_shared(name, file, paths["characters"], options, target) for name, file, target in files if file]
            if shared:
                print_shared(shared)
            llama = measure_llama(options) if options.gguf else None
            if llama:
                print_llama(llama)
    except CannotRun as error:
        print("audit_peers.py: %s" % error, file=sys.stderr)
        return 2
    if options.json:
        record = {"models": models, "peaks_gflops": peaks, "shared": shared, "llama": llama, "versions": versions}
        Path(options.json).write_text(json.dumps(record, indent=1))
    wrong = [line for found in (*models, *shared) for line in found["wrong"]]
    for line in wrong:
        print("WRONG: " + line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
