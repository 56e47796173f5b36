#!/usr/bin/env python3
"""Benchmark of the closed-form builder's dense system: byrote (faer) against SciPy (LAPACK).

    python3 benches/peers/solve_peers.py [--rounds 7] [--documents 1000] [--threads 2]

byrote writes the features and target logits of `byrote build madden2024 --activation gelu` on the built-in stories. Both
programs then factor the same matrix, solve for all tokens, compute the residual and solve once more, in interleaved rounds.
The table shows the median and the shortest time of each, and the ratio of the medians. Target: at most 1.15.

Requires cargo, and a Python with numpy and scipy.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = 1.15


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    threads = str(args.threads)
    # Set before numpy is imported, because BLAS reads it only once.
    os.environ.update({k: threads for k in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")})
    import numpy as np
    import scipy.linalg as linalg

    build = ["cargo", "build", "--release", "-q", "-p", "byrote", "--features", "bench-internals"]
    subprocess.run([*build, "--example", "solve_system"], cwd=ROOT, check=True)
    program = str(ROOT / "target/release/examples/solve_system")
    with tempfile.TemporaryDirectory() as directory:
        sizes = subprocess.run(
            [program, "write", directory, str(args.documents)], check=True, capture_output=True, text=True
        ).stdout.split()
        n, m, omega = map(int, sizes)
        a = np.fromfile(Path(directory) / "features.bin").reshape(n, m)
        y = np.fromfile(Path(directory) / "targets.bin").reshape(n, omega)
    # The storage order of LAPACK, so that no time is lost on copies.
    a, y = np.asfortranarray(a), np.asfortranarray(y)

    def scipy_solve():
        started = time.perf_counter()
        factors = linalg.lu_factor(a, check_finite=False)
        x = linalg.lu_solve(factors, y, check_finite=False)
        residual = y - a @ x
        x += linalg.lu_solve(factors, residual, check_finite=False)
        seconds = time.perf_counter() - started
        return seconds, np.abs(y - a @ x).max()

    ours = subprocess.Popen(
        [program, "time", str(args.documents)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert ours.stdout.readline() == "ready\n"

    def byrote_solve():
        ours.stdin.write("go\n")
        ours.stdin.flush()
        return float(ours.stdout.readline().split()[0])

    byrote_solve(), scipy_solve()  # warm-up
    times = {"byrote": [], "scipy": []}
    error = 0.0
    for _ in range(args.rounds):
        times["byrote"].append(byrote_solve())
        seconds, error = scipy_solve()
        times["scipy"].append(seconds)
    ours.stdin.close()
    ours.wait()

    print(f"{n} x {m} system, {omega} right-hand sides, f64, {threads} threads, {args.rounds} interleaved rounds")
    print("factor, solve, residual and one refinement:\n")
    print(f"{'':8} {'median':>9} {'shortest':>9}")
    for name, seconds in times.items():
        print(f"{name:8} {statistics.median(seconds):8.3f}s {min(seconds):8.3f}s")
    ratio = statistics.median(times["byrote"]) / statistics.median(times["scipy"])
    print(f"\nbyrote / scipy = {ratio:.2f} (target: at most {TARGET}); SciPy's residual: {error:.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
