#!/usr/bin/env python3
"""Benchmark of training steps and time to the floor: byrote against PyTorch on the same documents and initial weights.

    python3 benches/peers/train_peers.py [--rounds 5] [--threads 2] [--seed 0] [--byrote PATH] [--json FILE]
                                         [--compile] [--floor [--floor-cap 50000]] [--only floor | steps]

Requires a Python with torch, safetensors and numpy, and cargo unless --byrote is given. The PyTorch program is
torch_step.py beside this file, which explains its modes. Only the file of --json is kept.

Steps. The shapes are 100 documents of the built-in corpus with 16 neurons, 1,000 with 64, and 1,000 with 512, all with
d_model 16 and documents of 10 tokens. byrote writes initial weights, every program takes 20 Adam steps from them at
the rate 1e-2 in f32, and their losses must agree to 1e-4. Then each is timed at the rate 1e-4 in interleaved rounds,
so that a slow phase of the machine affects all programs alike. Each warms up before it is timed, and loading is not
timed. A round yields the median and the fastest step of a run; the table shows the median of the medians and the
fastest step overall. PyTorch's threads spin while they wait, so a busy machine slows them out of proportion, in
byrote's favor: where a median is far from the fastest step, the verdict says so. GFLOP/s counts only the products of
the output layer, 6 n m omega operations per step for n contexts, m neurons and omega tokens, and is compared with the
best multiply-add rate measured between the runs.

Floor (--floor). 100 documents, 64 neurons: byrote with its default optimizer, and Adam at 1e-4 in mode paper from the
same weights, until the loss is within 1 % of the floor. Adam gives up after --floor-cap steps, and the ratio is then a
lower bound. byrote's time is the median of --rounds runs, half of them before PyTorch's single long run and half after.

Exit status: 0 if the losses agree, 1 if they do not, 2 if something could not be run. Missed targets do not change it.
"""

import argparse
import csv
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TORCH_STEP = Path(__file__).with_name("torch_step.py")

MODES = ("paper", "contexts", "tuned")
SHAPES = [  # documents, d_mlp, target speedups over modes paper and contexts; tuned has no target
    (100, 16, 15.0, 20.0),
    (1000, 64, 9.0, 3.0),
    (1000, 512, 6.0, 1.5),
]
PEAK_TARGET = 0.75  # of the measured peak, at the largest shape
FLOOR_SHAPE = (100, 64)
FLOOR_TARGET = 300.0
FLOOR_GAP = 0.01  # relative to the floor
MODEL = ["--preset", "madden2024-experiment", "--d-model", "16", "--n-heads", "1", "--d-head", "16"]
N_CTX = 9
CHECK_STEPS, CHECK_LR, CHECK_TOLERANCE = 20, 1e-2, 1e-4
LR = 1e-4
WARM_UP = 10  # steps
TIMED_SECONDS, FEWEST_STEPS, MOST_STEPS = 1.0, 20, 2000  # per run
BUSY = 1.5  # ratio of median to fastest step above which the machine counts as busy
WORD_PUNCT = re.compile(r"\w+|[^\w\s]+")


class CannotRun(Exception):
    """A program is missing or failed: exit status 2."""


def note(text: str):
    print(text, file=sys.stderr, flush=True)


def run(name: str, command: list) -> dict:
    """Run a program and return the JSON object that it prints."""
    try:
        done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True)
    except OSError as error:
        raise CannotRun("%s: %s" % (name, error)) from error
    if done.returncode:
        raise CannotRun("%s exited with status %d: %s" % (name, done.returncode, done.stdout.strip()[:400]))
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise CannotRun("%s printed no JSON object: %r" % (name, done.stdout[:200])) from error


# ---------------------------------------------------------------- the programs


class Byrote:
    """The program, and the driver that measures the multiply-add peak."""

    def __init__(self, given: str | None, n_threads: int, seed: int, directory: Path):
        if given is None:
            self.build("-p", "byrote-cli")
            self.build("-p", "byrote", "--features", "bench-internals", "--example", "fma_peak")
            release = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
            self.binary = release / "byrote"
        else:
            self.binary = Path(given).resolve()
            release = self.binary.parent
        if not self.binary.is_file():
            raise CannotRun("%s is not a file" % self.binary)
        peak = release / "examples" / "fma_peak"
        self.peak_binary = peak if peak.is_file() else None
        self.common = ["--seed", str(seed), "--threads", str(n_threads), "--json", "--quiet"]
        self.directory = directory
        self.n_runs = 0

    @staticmethod
    def build(*what: str):
        command = ["cargo", "build", "--release", *what]
        try:
            failed = subprocess.run(command, cwd=ROOT).returncode
        except OSError:
            failed = True
        if failed:
            raise CannotRun("failed: %s" % " ".join(command))

    def version(self) -> str:
        done = subprocess.run([self.binary, "--version"], stdout=subprocess.PIPE, text=True)
        return done.stdout.strip().removeprefix("byrote ")

    def train(self, n_documents: int, d_mlp: int, *options) -> tuple[dict, Path]:
        """Train, and return what the run printed and the directory it wrote."""
        self.n_runs += 1
        out = self.directory / ("run-%d" % self.n_runs)
        corpus = ["--builtin", n_documents, "--n-ctx", N_CTX, "--exact-length"]
        model = [*MODEL, "--d-mlp", d_mlp, "--out", out]
        return run("byrote train", [self.binary, "train", *corpus, *model, *options, *self.common]), out

    def adam(self, n_documents: int, d_mlp: int, steps: int, lr: float, *options) -> tuple[dict, Path]:
        result, out = self.train(
            n_documents, d_mlp, "--optimizer", "adam", "--lr", lr, "--steps", steps, *options
        )
        if result["steps"] != steps:
            raise CannotRun("byrote took %s of %d steps (%s)" % (result["steps"], steps, result.get("stop")))
        return result, out

    def documents(self, n_documents: int, vocabulary: list[str]) -> list[list[int]]:
        """Return the same documents as token ids of a model."""
        text = self.directory / ("stories-%d.txt" % n_documents)
        run("byrote corpus", [self.binary, "corpus", "--builtin", n_documents, "--write", text, *self.common])
        ids = {token: i for i, token in enumerate(vocabulary)}
        found = []
        with open(text, encoding="utf-8") as lines:
            for line in lines:
                tokens = WORD_PUNCT.findall(line)[: N_CTX + 1]
                if len(tokens) == N_CTX + 1:
                    if not ids.keys() >= set(tokens):
                        raise CannotRun("byrote's vocabulary lacks a token of %r" % line.strip())
                    found.append([ids[token] for token in tokens])
        return found

    def peak_gflops(self) -> float | None:
        if self.peak_binary is None:
            return None
        return float(run("fma_peak", [self.peak_binary])["f32_gflops"])


class Torch:
    """torch_step.py, run by the current Python."""

    def __init__(self, n_threads: int, compiled: bool):
        self.common = ["--threads", n_threads, "--warm-up", WARM_UP]
        self.compiled = compiled

    def train(self, mode: str, weights: Path, documents: Path, *options) -> dict:
        command = [sys.executable, TORCH_STEP, "--mode", mode, "--weights", weights, "--docs", documents]
        if self.compiled and mode == "tuned":
            command.append("--compile")
        return run("torch_step.py", [*command, *self.common, *options])


def vocabulary_of(model: Path) -> list[str]:
    from safetensors import safe_open

    with safe_open(model, framework="np") as file:
        vocabulary = json.loads(file.metadata()["byrote"])["vocabulary"]
    if vocabulary["bos"] or vocabulary["eos"] or "words" not in vocabulary:
        raise CannotRun("%s: expected a vocabulary that consists of words only" % model.name)
    return vocabulary["words"]


def prepared(byrote: Byrote, n_documents: int, out: Path) -> tuple[Path, Path, int, int]:
    """Return the initial weights, the documents as JSON, and the numbers of distinct contexts and of tokens."""
    weights = out / "init.safetensors"
    vocabulary = vocabulary_of(weights)
    documents = byrote.documents(n_documents, vocabulary)
    path = out / "documents.json"
    path.write_text(json.dumps(documents))
    contexts = {tuple(d[:length]) for d in documents for length in range(1, len(d))}
    return weights, path, len(contexts), len(vocabulary)


# ---------------------------------------------------------------- steps


def losses_of(curve: Path, steps: int) -> list[float]:
    """Return the losses before each of the first steps."""
    with open(curve, newline="", encoding="utf-8") as file:
        rows = [float(row["loss_nats"]) for row in csv.DictReader(file)]
    if len(rows) < steps:
        raise CannotRun("%s has %d rows, expected %d" % (curve.name, len(rows), steps))
    return rows[:steps]


def relative_difference(a: list[float], b: list[float]) -> float:
    return max((abs(x - y) / max(abs(x), abs(y), 1e-300) for x, y in zip(a, b, strict=True)), default=0.0)


def steps_in_time(milliseconds: float) -> int:
    return min(MOST_STEPS, max(FEWEST_STEPS, math.ceil(1e3 * TIMED_SECONDS / milliseconds)))


def figures(runs: list[tuple[float, float]]) -> dict:
    return {"median_ms": statistics.median(m for m, _ in runs), "min_ms": min(m for _, m in runs)}


def measure_steps(byrote: Byrote, torch: Torch, shape: tuple, rounds: int) -> dict:
    """Measure one shape: compare the losses, then time all programs in rounds."""
    n_documents, d_mlp, *targets = shape
    checked, out = byrote.adam(n_documents, d_mlp, CHECK_STEPS, CHECK_LR)
    weights, documents, n_contexts, d_vocab = prepared(byrote, n_documents, out)
    wrong = []
    if n_contexts != checked["contexts"]:
        wrong.append("contexts: byrote has %d, the documents have %d" % (checked["contexts"], n_contexts))
    ours = losses_of(out / "curve.csv", CHECK_STEPS) + [checked["loss_nats"]]
    steps = {"byrote": steps_in_time(checked["milliseconds_per_step_median"])}
    differences = {}
    for mode in MODES:
        result = torch.train(mode, weights, documents, "--steps", CHECK_STEPS, "--lr", CHECK_LR)
        difference = relative_difference(ours, result["losses"] + [result["final_loss"]])
        if not difference <= CHECK_TOLERANCE:
            wrong.append("losses of mode %s differ by %.1e (relative)" % (mode, difference))
        differences[mode] = difference
        steps[mode] = steps_in_time(result["ms_per_step_median"])

    runs = {name: [] for name in ("byrote", *MODES)}
    peaks = []
    for number in range(rounds):
        byrote.adam(n_documents, d_mlp, WARM_UP, LR)
        result, _ = byrote.adam(n_documents, d_mlp, steps["byrote"], LR)
        runs["byrote"].append((result["milliseconds_per_step_median"], result["milliseconds_per_step_min"]))
        for mode in MODES:
            result = torch.train(mode, weights, documents, "--steps", steps[mode], "--lr", LR)
            runs[mode].append((result["ms_per_step_median"], result["ms_per_step_min"]))
        peak = byrote.peak_gflops()
        if peak is not None:
            peaks.append(peak)
        last = "  ".join("%s %.3f ms" % (name, found[-1][0]) for name, found in runs.items())
        note("%d documents, d_mlp %d, round %d: %s" % (n_documents, d_mlp, number + 1, last))

    summary = {name: figures(found) for name, found in runs.items()}
    ratios = {
        mode: {key: summary[mode][key] / summary["byrote"][key] for key in ("median_ms", "min_ms")}
        for mode in MODES
    }
    flops = 6.0 * n_contexts * d_mlp * d_vocab
    return {
        "documents": n_documents,
        "d_mlp": d_mlp,
        "contexts": n_contexts,
        "d_vocab": d_vocab,
        "steps_per_run": steps,
        "runs_ms_median_and_min": runs,
        "summary": summary,
        "ratios": ratios,
        "targets": dict(zip(MODES, targets)),
        "gflops": {key: flops / (1e6 * summary["byrote"][key]) for key in ("median_ms", "min_ms")},
        "peaks_gflops": peaks,
        "loss_differences": differences,
        "disagreements": wrong,
    }


def print_steps(shapes: list[dict], peak: float | None):
    print("%9s %6s %9s %7s %-7s %10s" % ("documents", "d_mlp", "contexts", "tokens", "", "byrote ms"), end="")
    print("".join("%12s %6s" % (mode + " ms", "times") for mode in MODES), " GFLOP/s  of peak")
    for shape in shapes:
        place = "%9d %6d %9d %7d" % tuple(shape[k] for k in ("documents", "d_mlp", "contexts", "d_vocab"))
        for label, key in (("median", "median_ms"), ("fastest", "min_ms")):
            ms = {name: row[key] for name, row in shape["summary"].items()}
            peers = "".join("%12.3f %6.2f" % (ms[mode], shape["ratios"][mode][key]) for mode in MODES)
            share = "-" if peak is None else "%.0f %%" % (100 * shape["gflops"][key] / peak)
            row = (place, label, ms["byrote"], peers, shape["gflops"][key], share)
            print("%s %-7s %10.4f%s %8.1f %8s" % row)
            place = " " * len(place)
    print("\ntargets, by the medians:")
    for shape in shapes:
        for mode, target in shape["targets"].items():
            what = "%d documents, d_mlp %d, mode %s" % (shape["documents"], shape["d_mlp"], mode)
            busy = is_busy(shape["summary"], "byrote", mode)
            verdict(what, shape["ratios"][mode]["median_ms"], target, "times faster", busy)
    last = shapes[-1]
    if peak is None:
        print("  the peak was not measured: fma_peak is not beside the program")
    else:
        # The peak is the best rate of many short rounds, so the fastest step is comparable; the median is shown too.
        for label, key in (("fastest", "min_ms"), ("median", "median_ms")):
            what = "%d documents, d_mlp %d, %s step" % (last["documents"], last["d_mlp"], label)
            share = 100 * last["gflops"][key] / peak
            verdict(what, share, 100 * PEAK_TARGET, "%% of the peak of %.1f GFLOP/s" % peak)
    print("\nlosses of %d Adam steps at rate %g, largest relative difference:" % (CHECK_STEPS, CHECK_LR))
    for shape in shapes:
        found = "  ".join("%s %.1e" % pair for pair in shape["loss_differences"].items())
        print("  %d documents, d_mlp %d: %s" % (shape["documents"], shape["d_mlp"], found))


def is_busy(summary: dict, *names: str) -> bool:
    return any(summary[name]["median_ms"] > BUSY * summary[name]["min_ms"] for name in names)


def verdict(what: str, found: float, target: float, unit: str, busy: bool = False):
    met = "met" if found >= target else "MISSED"
    if busy:
        met += ", but the machine was BUSY: unreliable"
    print("  %-40s %8.2f %s, target %g: %s" % (what, found, unit, target, met))


# ---------------------------------------------------------------- time to the floor


def measure_floor(byrote: Byrote, torch: Torch, rounds: int, cap: int) -> dict:
    n_documents, d_mlp = FLOOR_SHAPE
    stop = ["--stop-relative-gap", FLOOR_GAP]
    first, out = byrote.train(n_documents, d_mlp, *stop)  # warm-up, not timed
    weights, documents, _, _ = prepared(byrote, n_documents, out)
    target = first["floor_nats"] * (1 + FLOOR_GAP)
    wrong = []
    loss = torch.train("positions", out / "model.safetensors", documents, "--steps", 0, "--f64")["final_loss"]
    if not loss <= target * (1 + 1e-6):
        wrong.append("PyTorch measures loss %.6f for byrote's model, expected at most %.6f" % (loss, target))

    def ours(n_runs: int) -> list[float]:
        found = []
        for _ in range(n_runs):
            result, _ = byrote.train(n_documents, d_mlp, *stop)
            found.append(result["seconds_training"])
            note("byrote, to the floor: %.3f s, %d steps" % (found[-1], result["steps"]))
        return found

    seconds = ours(rounds - rounds // 2)
    note("PyTorch, to the floor or for %d steps ..." % cap)
    options = ["--lr", LR, "--stop-loss", target, "--max-steps", cap]
    theirs = torch.train("paper", weights, documents, *options)
    seconds += ours(rounds // 2)
    return {
        "documents": n_documents,
        "d_mlp": d_mlp,
        "floor_nats": first["floor_nats"],
        "target_nats": target,
        "byrote": {
            "optimizer": first.get("optimizer"),
            "steps": first["steps"],
            "stop": first.get("stop"),
            "loss_nats": first["loss_nats"],
            "loss_nats_by_torch": loss,
            "median_seconds": statistics.median(seconds),
            "min_seconds": min(seconds),
            "runs_seconds": seconds,
        },
        "torch": {k: v for k, v in theirs.items() if k not in ("losses", "losses_every")},
        "ratio": theirs["seconds"] / statistics.median(seconds),
        "is_lower_bound": theirs["stop"] != "loss",
        "cap": cap,
        "disagreements": wrong,
    }


def print_floor(floor: dict):
    ours, theirs = floor["byrote"], floor["torch"]
    print(
        "\nto within %g %% of the floor (%.4f nats), %d documents, d_mlp %d"
        % (100 * FLOOR_GAP, floor["floor_nats"], floor["documents"], floor["d_mlp"])
    )
    print(
        "  byrote    %10.3f s (fastest %.3f s), %d steps of %s, loss %.4f"
        % (ours["median_seconds"], ours["min_seconds"], ours["steps"], ours["optimizer"], ours["loss_nats"])
    )
    print(
        "  PyTorch   %10.3f s, %d steps of Adam at %g, mode paper, loss %.4f"
        % (theirs["seconds"], theirs["steps"], LR, theirs["final_loss"] or math.nan)
    )
    if floor["is_lower_bound"]:
        above = 100 * ((theirs["final_loss"] or math.nan) / floor["floor_nats"] - 1)
        print(
            "  PyTorch stopped after %d steps (%s), %.1f %% above the floor: the ratio is a LOWER BOUND"
            % (theirs["steps"], theirs["stop"], above)
        )
    what = "time to the floor" + (", at least" if floor["is_lower_bound"] else "")
    busy = theirs["ms_per_step_median"] > BUSY * theirs["ms_per_step_min"]
    verdict(what, floor["ratio"], FLOOR_TARGET, "times faster", busy)


# ---------------------------------------------------------------- the driver


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def peer_versions() -> dict:
    try:
        return {name: version(name) for name in ("torch", "safetensors", "numpy")}
    except PackageNotFoundError as error:
        raise CannotRun("this Python has no %s: install torch, safetensors and numpy" % error.name) from error


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def arguments():
    parser = argparse.ArgumentParser(description="Training: byrote against PyTorch.")
    parser.add_argument("--rounds", type=positive, default=5, help="measurements per program (default 5)")
    parser.add_argument("--threads", type=positive, default=2, help="threads per program (default 2)")
    parser.add_argument("--seed", type=int, default=0, help="seed of stories and weights (default 0)")
    parser.add_argument("--byrote", metavar="PATH", help="the program (default: built with cargo)")
    parser.add_argument("--compile", action="store_true", help="run mode tuned through torch.compile")
    parser.add_argument("--floor", action="store_true", help="also measure the time to the floor")
    parser.add_argument("--floor-cap", type=positive, default=50_000, metavar="N", help="maximum number of Adam steps")
    parser.add_argument("--only", choices=("steps", "floor"), help="skip the other measurement")
    parser.add_argument("--json", metavar="FILE", help="write all measurements to this file")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    versions = peer_versions()
    with tempfile.TemporaryDirectory(prefix="train_peers-") as directory:
        byrote = Byrote(options.byrote, options.threads, options.seed, Path(directory))
        torch = Torch(options.threads, options.compile)
        head = {
            "cpu": cpu_name(),
            "cores": os.cpu_count(),
            "system": "%s %s" % (platform.system(), platform.machine()),
            "threads": options.threads,
            "rounds": options.rounds,
            "seed": options.seed,
            "compile": options.compile,
            "versions": {"byrote": byrote.version(), "python": platform.python_version(), **versions},
        }
        print("%(cpu)s, %(cores)d cores, %(system)s; %(threads)d threads, %(rounds)d rounds" % head)
        print(", ".join("%s %s" % pair for pair in head["versions"].items()))
        if options.compile:
            print("mode tuned is compiled by torch.compile")
        print(flush=True)
        shapes, floor, peak = [], None, None
        if options.only != "floor":
            shapes = [measure_steps(byrote, torch, shape, options.rounds) for shape in SHAPES]
            peak = max((peak for shape in shapes for peak in shape["peaks_gflops"]), default=None)
            print_steps(shapes, peak)
        if options.floor or options.only == "floor":
            floor = measure_floor(byrote, torch, options.rounds, options.floor_cap)
            print_floor(floor)

    wrong = [
        "%d documents, d_mlp %d: %s" % (part["documents"], part["d_mlp"], sentence)
        for part in [*shapes, *([floor] if floor else [])]
        for sentence in part["disagreements"]
    ]
    print("\nthe losses agree" if not wrong else "\nTHE LOSSES DO NOT AGREE\n  " + "\n  ".join(wrong))
    if options.json:
        record = {**head, "agree": not wrong, "peak_f32_gflops": peak, "steps": shapes, "floor": floor}
        Path(options.json).write_text(json.dumps(record, indent=2) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CannotRun as error:
        print("train_peers: %s" % error, file=sys.stderr)
        sys.exit(2)
