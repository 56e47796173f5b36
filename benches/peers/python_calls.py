"""What calling byrote from Python costs, and how soon Ctrl-C stops a call.

    python benches/peers/python_calls.py [--rounds 7] [--documents 2000000] [--interrupts 100]

Counts documents of 10 ids handed over as a numpy array, beside the program that counts the same ids from memory (the example
`count_ids`, which reads an .npy first and times the counting alone) and beside the program `byrote corpus`, which reads the file.
Runs are interleaved; the table has medians and the peak memory of the process beyond what it holds before the call. Then it
interrupts calls at random moments and prints how long the exception took. Needs the package (`pip install .`).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]

CALL = """
import json, resource, sys, time
import numpy as np
import byrote
ids = np.load(sys.argv[1])
byrote.Corpus.from_ids(ids[:1000], threads=int(sys.argv[2]), progress=False)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
started = time.perf_counter()
corpus = byrote.Corpus.from_ids(ids, threads=int(sys.argv[2]), progress=False)
seconds = time.perf_counter() - started
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": seconds, "added": (peak - before) * 1024, "contexts": corpus.contexts, "floor": corpus.floor_nats}))
"""


def count(path: Path, rounds: int, threads: int, driver: Path) -> None:
    """Print the table of counting."""
    size = path.stat().st_size
    rows: dict[str, list[tuple[float, float]]] = {"byrote from Python": [], "byrote from Rust (count_ids)": [], "byrote corpus": []}
    answers = set()
    for _ in range(rounds):
        found = json.loads(subprocess.check_output([sys.executable, "-c", CALL, path, str(threads)]))
        rows["byrote from Python"].append((found["seconds"], found["added"]))
        answers.add((found["contexts"], found["floor"]))
        if driver.exists():
            found = json.loads(subprocess.check_output([driver, path, "--threads", str(threads)]))
            # It holds the ids once while it counts, and the bytes of the file beside them before.
            rows["byrote from Rust (count_ids)"].append((found["seconds"], found["peak_rss_bytes"] - 2 * size))
            answers.add((found["contexts"], found["floor_nats"]))
        started = time.perf_counter()
        command = [sys.executable, "-m", "byrote", "corpus", path, "--json", "--quiet", "--threads", str(threads)]
        found = json.loads(subprocess.check_output(command))
        rows["byrote corpus"].append((time.perf_counter() - started, float("nan")))
        answers.add((found["contexts"], found["floor_nats"]))
    assert len(answers) == 1, answers
    first = statistics.median(seconds for seconds, _ in rows["byrote from Python"])
    print(f"{'':32}{'seconds':>9}{'added MB':>10}{'ratio':>7}")
    for name, runs in rows.items():
        if runs:
            seconds = statistics.median(run[0] for run in runs)
            print(f"{name:32}{seconds:9.3f}{statistics.median(run[1] for run in runs) / 1e6:10.0f}{first / seconds:7.2f}")


def interrupts(n: int) -> None:
    """Print how long Ctrl-C takes in each of four kinds of work."""
    import byrote

    corpus, wide = byrote.Corpus(builtin=1000), byrote.Corpus(builtin=3000)

    def silent(ids: np.ndarray) -> np.ndarray:
        return np.zeros((*ids.shape, 9), np.float32)

    calls = {
        "read": lambda: byrote.Corpus(builtin=10**8, progress=False),
        "build": lambda: byrote.build.madden2024(wide, activation="gelu", progress=False),
        "train": lambda: byrote.train(corpus, d_mlp=512, stop_relative_gap=0.0, stall=0.0, steps=10**6, progress=False),
        "audit": lambda: byrote.audit(silent, [[1] * 500] * 2000, d_vocab=9, n_ctx=99, bos="none", progress=False),
    }
    draw = random.Random(0)
    print(f"\n{'Ctrl-C':12}{'calls':>6}{'median ms':>11}{'90% ms':>8}{'worst ms':>10}")
    for name, call in calls.items():
        delays = []
        for _ in range(n // len(calls)):
            sent: list[float] = []

            def interrupt(sent: list[float] = sent) -> None:
                time.sleep(draw.uniform(0.01, 1.0))
                sent.append(time.perf_counter())
                os.kill(os.getpid(), signal.SIGINT)

            thread = threading.Thread(target=interrupt)
            thread.start()
            try:
                call()
                thread.join()
                time.sleep(0.05)
            except KeyboardInterrupt:
                delays.append(1e3 * (time.perf_counter() - sent[0]))
            thread.join()
            assert byrote.Corpus(builtin=100).contexts == 337
        delays.sort()
        if delays:
            ninth = delays[int(0.9 * (len(delays) - 1))]
            print(f"{name:12}{len(delays):6}{statistics.median(delays):11.1f}{ninth:8.1f}{delays[-1]:10.1f}")


def main() -> None:
    """Run both measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--documents", type=int, default=2_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--interrupts", type=int, default=100)
    parser.add_argument("--driver", type=Path, default=ROOT / "target/release/examples/count_ids")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ids.npy"
        # Some tokens are frequent and most are rare, as in text.
        weights = 1.0 / np.arange(1, 2001)
        ids = np.random.default_rng(0).choice(2000, size=(arguments.documents, 10), p=weights / weights.sum())
        np.save(path, ids.astype(np.uint16))
        count(path, arguments.rounds, arguments.threads, arguments.driver)
    interrupts(arguments.interrupts)


if __name__ == "__main__":
    main()
