#!/usr/bin/env python3
"""Benchmark of counting windows: byrote against Polars, DuckDB, libsais and infini-gram.

    python3 benches/peers/windows_peers.py [--tokens 5000000] [--rounds 3] [--threads 2] [--byrote PATH]

The text has 16-bit token ids of a Zipf law, with passages that were copied from earlier in the text. Windows of T + 1 tokens start
at every token; every prefix of 1 to T tokens is a context that predicts the next one. Each program reports the number of
contexts and of predictions and the floor

    H = sum_i c_i ln c_i - sum_{i,g} n_ig ln n_ig        (nats)

with c_i the count of context i and n_ig how often token g follows it.

    polars, duckdb  at T = 8: all windows as rows in memory, four ids packed into a 64-bit key, whole windows grouped once and every
                    shorter prefix from the groups of the next longer one, as in corpus_peers.py. Writing the windows out is not timed.
    libsais         suffix array and common prefixes on one thread, and one pass over them with a stack (count_windows --libsais)
    infini-gram     its index of the same ids, built by its own program, which orders all suffixes and counts nothing

byrote and libsais are timed from opening the file of ids to the figures, and byrote reports its repeats and unique lengths besides.
Each measurement runs in its own process, and rounds are interleaved, so that a slow phase of the machine affects all
programs alike. Memory is the growth of the process up to its peak, with the text.

Targets: 5 times faster than Polars and DuckDB at T = 8, 3 times faster than infini-gram's index, no slower than libsais with the
pass (both on one thread), and at most 10 bytes per token.

Exit status: 0 if the numbers agree, 1 if they do not, 2 if byrote could not be run. Missed targets and missing peers are reported
and do not change it.
"""

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import peers

SHORT, LONG = 8, 256
EXACT = ("contexts", "predictions")
FLOOR_TOLERANCE = 1e-9  # relative


def generate(tokens):
    """Write the text once, and return its path."""
    import numpy as np

    path = peers.DATA / ("tokens-%d.npy" % tokens)
    if path.exists():
        return path
    random = np.random.default_rng(0)
    text = (random.zipf(1.2, size=tokens) % 50_000).astype(np.uint16)
    # A tenth of the text are copies, most of them short.
    copied = 0
    while copied < tokens // 10:
        length = int(min(random.pareto(1.0) * 20 + 10, 2000, tokens // 4))
        source, target = random.integers(0, tokens - length, size=2)
        text[target : target + length] = text[source : source + length].copy()
        copied += length
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".tmp")
    with open(partial, "wb") as file:
        np.save(file, text)
    partial.replace(path)
    return path


# ---------------------------------------------------------------- one measurement, in a child process


def peak_bytes(who=resource.RUSAGE_SELF):
    peak = resource.getrusage(who).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def measure_groups(name, path, threads):
    """Group the windows of T = 8 with Polars or DuckDB."""
    import numpy as np

    import corpus_peers

    corpus_peers.WIDTH = SHORT + 1
    start = peak_bytes()
    peer = {"polars": corpus_peers.Polars, "duckdb": corpus_peers.DuckDB}[name](int(threads))
    windows = np.lib.stride_tricks.sliding_window_view(np.load(path), SHORT + 1)
    peer.load("warm_up", windows[:1000])
    peer.load("documents", windows)
    peer.count("warm_up", True)
    begin = time.perf_counter()
    contexts, predictions, _, floor = peer.count("documents", True)
    seconds = time.perf_counter() - begin
    found = {"contexts": contexts, "predictions": predictions, "floor_nats": floor}
    print(json.dumps({**found, "seconds": seconds, "peak_bytes": peak_bytes() - start}))


def measure_infinigram(path, threads):
    """Build infini-gram's index of the ids, given as its own program would have written them."""
    import numpy as np

    program = Path(next(iter(importlib.util.find_spec("infini_gram").submodule_search_locations))) / "indexing.py"
    with tempfile.TemporaryDirectory(dir=peers.DATA) as directory:
        data, index = Path(directory) / "data", Path(directory) / "index"
        data.mkdir()
        index.mkdir()
        (index / "tokenized.0").write_bytes(b"\xff\xff" + np.load(path).tobytes())
        (index / "offset.0").write_bytes(np.zeros(1, dtype=np.uint64).tobytes())
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        command = [sys.executable, str(program), "--data_dir", str(data), "--save_dir", str(index), "--token_dtype", "u16"]
        command += ["--cpus", threads, "--mem", "8", "--ulimit", str(files)]
        begin = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        seconds = time.perf_counter() - begin
        if done.returncode or not (index / "table.0").exists():
            print(done.stderr, file=sys.stderr)
            sys.exit(1)
    print(json.dumps({"seconds": seconds, "peak_bytes": peak_bytes(resource.RUSAGE_CHILDREN)}))


# ---------------------------------------------------------------- the driver


def commands(options, path):
    binary = peers.driver(options.byrote, "count_windows")
    child = [sys.executable, os.path.abspath(__file__), "--child"]
    threads = str(options.threads)
    found = {}
    for n_ctx in (SHORT, LONG):
        found["byrote T=%d" % n_ctx] = [binary, path, "--n-ctx", n_ctx, "--threads", threads]
        found["byrote T=%d, 1 thread" % n_ctx] = [binary, path, "--n-ctx", n_ctx, "--threads", 1]
        found["libsais T=%d, 1 thread" % n_ctx] = [binary, path, "--n-ctx", n_ctx, "--libsais"]
    for name in ("polars", "duckdb"):
        absent = peers.missing(name, "numpy", "pyarrow")
        found["%s T=%d" % (name, SHORT)] = absent or child + ["groups", name, path, threads]
    found["infini-gram"] = peers.missing("infini_gram", "tqdm", "numpy") or child + ["infinigram", path, threads]
    return found


def disagreements(results):
    """The figures of programs that differ from those of byrote at the same T."""
    found = []
    for name, runs in results.items():
        if isinstance(runs, str) or "T=" not in name:
            continue
        n_ctx = name.split("T=")[1].split(",")[0]
        reference = results["byrote T=%s" % n_ctx]
        if isinstance(reference, str):
            continue
        for run in runs:
            for key in EXACT:
                if run[key] != reference[0][key]:
                    found.append("%s: %s has %s, byrote %s" % (key, name, run[key], reference[0][key]))
            if abs(run["floor_nats"] - reference[0]["floor_nats"]) > FLOOR_TOLERANCE * abs(reference[0]["floor_nats"]):
                found.append("floor: %s has %r, byrote %r" % (name, run["floor_nats"], reference[0]["floor_nats"]))
    return list(dict.fromkeys(found))


def verdicts(medians, memory):
    def ratio(peer, byrote, target):
        if peer in medians:
            peers.verdict("%s / %s, seconds" % (peer, byrote), medians[peer] / medians[byrote], target)
        else:
            print("%-8s %s / %s: the peer could not be measured" % ("missing", peer, byrote))

    short, long = "byrote T=%d" % SHORT, "byrote T=%d" % LONG
    for name in ("polars", "duckdb"):
        ratio("%s T=%d" % (name, SHORT), short, 5)
    for byrote in (short, long):
        ratio("infini-gram", byrote, 3)
        ratio("libsais T=%s, 1 thread" % byrote.split("=")[1], byrote + ", 1 thread", 1)
        peers.verdict("%s, bytes per token" % byrote, memory[byrote], 10, at_least=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=peers.positive, default=5_000_000, help="tokens of the text (default 5000000)")
    parser.add_argument("--rounds", type=peers.positive, default=3, help="measurements per program (default 3)")
    parser.add_argument("--threads", type=peers.positive, default=2, help="threads per program (default 2)")
    parser.add_argument("--byrote", metavar="PATH", help="the compiled driver count_windows (default: built first)")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    peers.enter_environment(__file__)
    if options.child:
        {"groups": measure_groups, "infinigram": measure_infinigram}[options.child[0]](*options.child[1:])
        return 0

    path = generate(options.tokens)
    results = peers.interleaved(commands(options, path), options.rounds)
    for name, runs in results.items():
        if isinstance(runs, str) and name.startswith("byrote"):
            raise peers.CannotRun(runs)
    print("%d tokens, %d threads, %d rounds" % (options.tokens, options.threads, options.rounds))
    print("%-24s %10s %10s %12s %14s" % ("program", "median s", "min s", "ns per token", "bytes per token"))
    medians, memory = {}, {}
    for name, runs in results.items():
        if isinstance(runs, str):
            print("%-24s %s" % (name, runs))
            continue
        medians[name], least = peers.seconds(runs)
        memory[name] = max(run["peak_bytes"] for run in runs) / options.tokens
        per_token = medians[name] / options.tokens * 1e9
        print("%-24s %10.3f %10.3f %12.1f %14.1f" % (name, medians[name], least, per_token, memory[name]))
    verdicts(medians, memory)
    wrong = disagreements(results)
    print("the numbers agree" if not wrong else "THE NUMBERS DO NOT AGREE\n  " + "\n  ".join(wrong))
    record = {"tokens": options.tokens, "threads": options.threads, "rounds": options.rounds, "runs": results}
    peers.write_record("windows_peers", {**record, "agree": not wrong})
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except peers.CannotRun as error:
        print("windows_peers: %s" % error, file=sys.stderr)
        sys.exit(2)
