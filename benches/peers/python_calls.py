"""What calling byrote from Python costs, and how soon Ctrl-C stops a call.

    python benches/peers/python_calls.py [--rounds 7] [--documents 2000000] [--interrupts 100]

Counts documents of 10 ids handed over as a numpy array, beside the same counting in Rust (the example `count_ids`, which reads an .npy
first and times the counting alone) and beside the program `byrote corpus`, which reads the file. Runs are interleaved; the table has
medians of the seconds and of the processor time (the better measure if others use the machine; for `count_ids`, the difference between
runs that count once and five times), the peak memory of the process, and how much of it the call adds to what the process holds before
it (interpreter, numpy and the ids). Then it interrupts calls at random moments and prints how long the exception took. Needs the package (`pip install .`), and
`cargo build --release -p byrote-cli`; the second row needs `cargo build --release -p byrote --features bench-internals --example
count_ids`. Incremental builds (CARGO_INCREMENTAL=1) count half as fast: do not measure them.
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

MAKE = """
import sys
import numpy as np
# Some tokens are frequent and most are rare, as in text.
weights = 1.0 / np.arange(1, 2001)
ids = np.random.default_rng(0).choice(2000, size=(int(sys.argv[2]), 10), p=weights / weights.sum())
np.save(sys.argv[1], ids.astype(np.uint16))
"""

CALL = """
import json, resource, sys, time
import numpy as np
import byrote
def memory(name):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(name))
ids = np.load(sys.argv[1])
byrote.Corpus.from_ids(ids[:1000], threads=int(sys.argv[2]), progress=False)
open("/proc/self/clear_refs", "w").write("5")
before = memory("VmRSS")
def processor():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
cpu, started = processor(), time.perf_counter()
corpus = byrote.Corpus.from_ids(ids, threads=int(sys.argv[2]), progress=False)
seconds, cpu = time.perf_counter() - started, processor() - cpu
peak = memory("VmHWM")
print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": peak, "added": peak - before, "contexts": corpus.contexts, "floor": corpus.floor_nats}))
"""


def program(command: list[str]) -> tuple[dict[str, float], float, float, float]:
    """Run a program; return its first answer, its seconds, its processor time and its peak memory."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    answer, _ = json.JSONDecoder().raw_decode(process.stdout.read().decode())
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    return answer, time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024.0


def count(path: Path, rounds: int, threads: int, driver: Path, binary: Path) -> None:
    """Print the table of counting."""
    rows: dict[str, list[tuple[float, ...]]] = {"byrote from Python": [], "byrote from Rust (count_ids)": [], "byrote corpus": []}
    answers = set()
    for _ in range(rounds):
        found = json.loads(subprocess.check_output([sys.executable, "-c", CALL, path, str(threads)]))
        rows["byrote from Python"].append((found["seconds"], found["cpu"], found["peak"], found["added"]))
        answers.add((found["contexts"], found["floor"]))
        if driver.exists():
            command = [str(driver), str(path), "--threads", str(threads)]
            (found, _, once, peak), (_, _, often, _) = program(command), program([*command, "--rounds", "5"])
            rows["byrote from Rust (count_ids)"].append((found["seconds"], (often - once) / 4, peak, float("nan")))
            answers.add((found["contexts"], found["floor_nats"]))
        start = [str(binary)] if binary.exists() else [sys.executable, "-m", "byrote"]
        found, seconds, cpu, peak = program([*start, "corpus", str(path), "--json", "--quiet", "--threads", str(threads)])
        rows["byrote corpus"].append((seconds, cpu, peak, float("nan")))
        answers.add((found["contexts"], found["floor_nats"]))
    assert len(answers) == 1, answers
    first = [statistics.median(run[i] for run in rows["byrote from Python"]) for i in range(3)]
    print(f"{'':32}{'seconds':>9}{'cpu s':>8}{'peak MB':>9}{'added MB':>10}{'time':>7}{'cpu':>6}{'memory':>8}   (of Python / of this)")
    for name, runs in rows.items():
        if runs:
            seconds, cpu, peak, added = (statistics.median(run[i] for run in runs) for i in range(4))
            ratios = f"{first[0] / seconds:7.2f}{first[1] / cpu:6.2f}{first[2] / peak:8.2f}"
            print(f"{name:32}{seconds:9.3f}{cpu:8.3f}{peak / 1e6:9.0f}{added / 1e6:10.0f}{ratios}")


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
            try:
                thread.start()  # On a busy machine the signal may arrive before this returns.
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
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/byrote")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ids.npy"
        # In a process of its own: a child's peak includes what its parent held when it was started.
        subprocess.run([sys.executable, "-c", MAKE, path, str(arguments.documents)], check=True)
        count(path, arguments.rounds, arguments.threads, arguments.driver, arguments.binary)
    interrupts(arguments.interrupts)


if __name__ == "__main__":
    main()
