#!/usr/bin/env python3
"""Benchmark of training models of many layers: byrote against PyTorch on the same documents and initial weights.

    python3 benches/peers/depth_peers.py [--rounds 5] [--threads 2] [--byrote PATH] [--names FILE] [--json FILE]
                                         [--only steps | peak | floor | warm-up] [--floor-cap 5000]

Requires a Python with torch, safetensors and numpy, and cargo unless --byrote is given. The PyTorch program is depth_torch.py
beside this file, which explains its modes: documents padded as nanoGPT computes them, distinct documents, distinct prefixes with
gathered ancestors.

Steps. GPT-2 with d_model 64 and 4 heads on 1,000 built-in stories (contexts of up to 9 tokens) with 2 and with 4 layers, and,
if --names is given, on a file of one name per line, by character (contexts of up to 15), with 2 layers. byrote writes initial
weights, every program takes 10 steps of Adam from them in f32, and their losses must agree to 1e-4. Then each is timed in
interleaved rounds; the table shows the median of the medians and the fastest step. Targets, by the medians: on the stories 6
times faster than padded and 2 times faster than the better of the other two, on names 12 times and 2 times.

Peak. d_model 256 with 4 layers on 1,000 stories: the multiply-adds of the matrix products per second, as a share of the best rate
measured between the runs (target: 60%).

Floor. 100 stories, d_model 32, 2 layers: the time of byrote's default optimizer to within 1% of the floor, and that of nanoGPT's
AdamW recipe from the same weights, which gives up after --floor-cap steps; the ratio is then a lower bound (target: 100).

Warm-up (only with --only warm-up). The way to within 1% of the floor with the batches of the default warm-up, and with all contexts at
every step: 100 and 300 stories, d_model 16, 32 and 64, 1, 2 and 4 layers, two seeds from --seed on, interleaved. Work is counted in
evaluations of all contexts.

Exit status: 0 if the losses agree, 1 if they do not, 2 if something could not be run. Missed targets do not change it.
"""

import argparse
import itertools
import json
import math
import re
import statistics
import sys
import tempfile
from pathlib import Path

from train_peers import (
    Byrote,
    CannotRun,
    cpu_name,
    figures,
    is_busy,
    losses_of,
    note,
    peer_versions,
    positive,
    relative_difference,
    run,
    steps_in_time,
    verdict,
)

TORCH = Path(__file__).with_name("depth_torch.py")
MODES = ("padded", "distinct", "nodes")
CHECK_STEPS, CHECK_LR, CHECK_TOLERANCE = 10, 1e-3, 1e-4
WORD_PUNCT = re.compile(r"\w+|[^\w\s]+")


class Case:
    """A corpus and a model."""

    def __init__(self, name, corpus, n_ctx, d_model, n_heads, n_layers, targets):
        self.name, self.corpus, self.n_ctx, self.targets = name, corpus, n_ctx, targets
        self.d_model, self.n_layers = d_model, n_layers
        self.model = ["--preset", "gpt2", "--n-layers", n_layers, "--d-model", d_model, "--n-heads", n_heads]


class Program(Byrote):
    def of(self, case, *options):
        self.n_runs += 1
        out = self.directory / ("run-%d" % self.n_runs)
        command = [self.binary, "train", *case.corpus, "--n-ctx", case.n_ctx, *case.model, "--out", out]
        return run("byrote train", [*command, *options, *self.common]), out

    def steps(self, case, steps, lr):
        return self.of(case, "--optimizer", "adam", "--lr", lr, "--steps", steps, "--stall", 0)

    def documents_of(self, case, model):
        """The documents as token ids of a model, as JSON."""
        from safetensors import safe_open

        with safe_open(model, framework="np") as file:
            vocabulary = json.loads(file.metadata()["byrote"])["vocabulary"]
        if vocabulary.get("words"):
            tokens, split = vocabulary["words"], WORD_PUNCT.findall
        else:
            tokens, split = [chr(symbol) for symbol in vocabulary["symbols"]], list
        path = self.directory / "corpus.txt"
        if case.corpus[0] == "--builtin":
            run("byrote corpus", [self.binary, "corpus", *case.corpus, "--write", path, *self.common])
        else:
            path = Path(case.corpus[0])
        ids = {token: i for i, token in enumerate(tokens)}
        lines = path.read_text(encoding="utf-8").splitlines()
        documents = [[ids[token] for token in split(line)[: case.n_ctx + 1]] for line in lines if line.strip()]
        out = self.directory / "documents.json"
        out.write_text(json.dumps(documents))
        return out


def torch(threads, mode, weights, documents, *options):
    command = [sys.executable, TORCH, "--mode", mode, "--weights", weights, "--docs", documents]
    return run("depth_torch.py", [*command, "--threads", threads, *options])


def measure(byrote, case, rounds, threads):
    checked, out = byrote.steps(case, CHECK_STEPS, CHECK_LR)
    weights, documents = out / "init.safetensors", byrote.documents_of(case, out / "init.safetensors")
    ours = losses_of(out / "curve.csv", CHECK_STEPS) + [checked["loss_nats"]]
    wrong, differences = [], {}
    steps = {"byrote": steps_in_time(checked["milliseconds_per_step_median"])}
    for mode in MODES:
        found = torch(threads, mode, weights, documents, "--steps", CHECK_STEPS, "--lr", CHECK_LR)
        differences[mode] = relative_difference(ours, found["losses"] + [found["final_loss"]])
        if not differences[mode] <= CHECK_TOLERANCE:
            wrong.append("%s: losses of mode %s differ by %.1e" % (case.name, mode, differences[mode]))
        steps[mode] = max(3, steps_in_time(found["ms_per_step_median"]) // 4)
    runs = {name: [] for name in ("byrote", *MODES)}
    for number in range(rounds):
        found, _ = byrote.steps(case, steps["byrote"], 1e-5)
        runs["byrote"].append((found["milliseconds_per_step_median"], found["milliseconds_per_step_min"]))
        for mode in MODES:
            found = torch(threads, mode, weights, documents, "--steps", steps[mode], "--lr", 1e-5)
            runs[mode].append((found["ms_per_step_median"], found["ms_per_step_min"]))
        note("%s, round %d: %s" % (case.name, number + 1, "  ".join("%s %.1f ms" % (n, r[-1][0]) for n, r in runs.items())))
    summary = {name: figures(found) for name, found in runs.items()}
    return {
        "case": case.name,
        "contexts": checked["contexts"],
        "parameters": checked["parameters"],
        "summary": summary,
        "ratios": {mode: {k: summary[mode][k] / summary["byrote"][k] for k in summary[mode]} for mode in MODES},
        "targets": case.targets,
        "loss_differences": differences,
        "disagreements": wrong,
    }


def print_steps(found):
    print("%-28s %9s %-8s %10s" % ("", "contexts", "", "byrote ms"), end="")
    print("".join("%14s %6s" % (mode + " ms", "times") for mode in MODES))
    for row in found:
        place = "%-28s %9d" % (row["case"], row["contexts"])
        for label, key in (("median", "median_ms"), ("fastest", "min_ms")):
            peers = "".join("%14.2f %6.2f" % (row["summary"][m][key], row["ratios"][m][key]) for m in MODES)
            print("%s %-8s %10.3f%s" % (place, label, row["summary"]["byrote"][key], peers))
            place = " " * len(place)
    print("\ntargets, by the medians:")
    for row in found:
        ratios = {mode: row["ratios"][mode]["median_ms"] for mode in MODES}
        padded, best = row["targets"]
        busy = is_busy(row["summary"], "byrote", *MODES)
        verdict(row["case"] + ", padded", ratios["padded"], padded, "times faster", busy)
        verdict(row["case"] + ", best other", min(ratios["distinct"], ratios["nodes"]), best, "times faster", busy)
    for row in found:
        pairs = "  ".join("%s %.1e" % pair for pair in row["loss_differences"].items())
        print("  losses of %d steps, %s: largest relative difference %s" % (CHECK_STEPS, row["case"], pairs))


def measure_peak(byrote, rounds):
    case = Case("", ["--builtin", 1000], 9, 256, 16, 4, None)
    rates, peaks = [], []
    for _ in range(rounds):
        found, _ = byrote.steps(case, 10, 1e-5)
        kinds = found["parameters_by_kind"]
        # Every weight of a block and of the output, which is tied to the embedding: once forward, twice backward, two
        # operations each.
        weights = kinds["attention"] + kinds["hidden"] + kinds["embedding"]
        rates.append(6e-6 * found["contexts"] * weights / found["milliseconds_per_step_min"])
        peaks.append(byrote.peak_gflops())
    peak = max((p for p in peaks if p), default=None)
    print("\nd_model 256, 4 layers: %.1f GFLOP/s in the products (median %.1f)" % (max(rates), statistics.median(rates)))
    if peak:
        verdict("share of the multiply-add peak", 100 * max(rates) / peak, 60, "%% of %.1f GFLOP/s" % peak)
    return {"gflops": rates, "peaks": peaks}


def measure_floor(byrote, rounds, threads, cap):
    case = Case("", ["--builtin", 100], 9, 32, 2, 2, None)
    first, out = byrote.of(case)
    weights, documents = out / "init.safetensors", byrote.documents_of(case, out / "init.safetensors")
    seconds = [byrote.of(case)[0]["seconds_training"] for _ in range(rounds)]
    target = 1.01 * first["floor_nats"]
    theirs = torch(threads, "padded", weights, documents, "--nanogpt", "--stop-loss", target, "--max-steps", cap)
    ours = statistics.median(seconds)
    print("\n100 stories, d_model 32, 2 layers, to within 1%% of the floor (%.3f nats):" % first["floor_nats"])
    print("  byrote    %9.3f s, %d steps, stopped: %s" % (ours, first["steps"], first["stop"]))
    end = "reached" if theirs["reached"] else "NOT reached: the ratio is a lower bound"
    print("  nanoGPT   %9.3f s, %d steps, loss %.3f, %s" % (theirs["seconds"], theirs["steps"], theirs["final_loss"], end))
    verdict("time to the floor", theirs["seconds"] / ours, 100, "times sooner")
    return {"byrote": {**first, "seconds": seconds}, "torch": {k: v for k, v in theirs.items() if k != "losses"}}


def work_of(found, nodes):
    """Evaluations of all contexts that a run with batches amounts to: a step of the warm-up evaluates one of four batches, which has
    `nodes` times a quarter of the contexts, and a measurement after every eighth is a third of an evaluation."""
    batches = min(found["steps"], 200)
    return batches * nodes / 4 + batches // 8 / 3 + found["evaluations"] - 1 - batches


def measure_warm_ups(byrote, rounds, seed):
    rows = []
    print("\n%8s %8s %7s %5s %16s %16s %6s %6s" % ("stories", "d_model", "layers", "seed", "all contexts", "batches", "work", "time"))
    for documents, d_model, layers, at in itertools.product((100, 300), (16, 32, 64), (1, 2, 4), (seed, seed + 1)):
        case = Case("", ["--builtin", documents], 9, d_model, d_model // 16, layers, None)
        byrote.common[1] = str(at)
        runs = {1: [], 4: []}
        for _ in range(rounds):
            for batches, found in runs.items():
                found.append(byrote.of(case, "--warmup-batches", batches)[0])
        whole, parts = runs[1][0], runs[4][0]
        seconds = [min(found["seconds_training"] for found in runs[batches]) for batches in runs]
        work = work_of(parts, 1.15) / whole["evaluations"]
        rows.append((work, seconds[1] / seconds[0]))
        ends = ["%7.3f s %5d" % (s, found["steps"]) for s, found in zip(seconds, (whole, parts))]
        marks = [" " if found["stop"] == "reached" else "!" for found in (whole, parts)]
        place = "%8d %8d %7d %5d" % (documents, d_model, layers, at)
        print("%s %s%s %s%s %6.2f %6.2f" % (place, ends[0], marks[0], ends[1], marks[1], *rows[-1]))
    means = [math.exp(statistics.fmean(math.log(row[i]) for row in rows)) for i in (0, 1)]
    print("geometric means: %.2f of the work (at most %.2f), %.2f of the time" % (means[0], max(row[0] for row in rows), means[1]))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--threads", type=positive, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--byrote", metavar="PATH")
    parser.add_argument("--names", metavar="FILE")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--only", choices=("steps", "peak", "floor", "warm-up"))
    parser.add_argument("--floor-cap", type=positive, default=5000)
    options = parser.parse_args()
    stories = [Case("stories, %d layers" % n, ["--builtin", 1000], 9, 64, 4, n, (6.0, 2.0)) for n in (2, 4)]
    cases = stories
    if options.names:
        cases = stories + [Case("names, 2 layers", [options.names, "--tokenizer", "char"], 15, 64, 4, 2, (12.0, 2.0))]
    try:
        versions = peer_versions()
        with tempfile.TemporaryDirectory() as directory:
            byrote = Program(options.byrote, options.threads, options.seed, Path(directory))
            print("%s, %d threads, byrote %s, %s" % (cpu_name(), options.threads, byrote.version(), versions))
            result = {}
            if options.only in (None, "steps"):
                result["steps"] = [measure(byrote, case, options.rounds, options.threads) for case in cases]
                print_steps(result["steps"])
            if options.only in (None, "peak"):
                result["peak"] = measure_peak(byrote, options.rounds)
            if options.only in (None, "floor"):
                result["floor"] = measure_floor(byrote, options.rounds, options.threads, options.floor_cap)
            if options.only == "warm-up":
                result["warm_up"] = measure_warm_ups(byrote, options.rounds, options.seed)
    except CannotRun as error:
        print("depth_peers.py: %s" % error, file=sys.stderr)
        return 2
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1))
    wrong = [w for row in result.get("steps", []) for w in row["disagreements"]]
    for line in wrong:
        print("WRONG: " + line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
