#!/usr/bin/env python3
"""Benchmark of causal kernel descent: byrote against NumPy and SciPy on the same sequences.

    python3 benches/peers/incontext_peers.py [--rounds 7] [--threads 2] [--byrote-example PATH] [--json FILE]

Requires a Python with numpy and scipy, and cargo unless --byrote-example names the compiled driver incontext_times
(benches/drivers of the library, built in release).

Limit. One sequence of 2,000 unit vectors in dimension 15 under a random orthogonal matrix, the kernel exp(<x, y>), and
predictions u with L u = N y. SciPy's triangular solve is used in two ways: directly from the formula (the kernel, its
strictly lower part times y, the solve), and in the fastest formulation found. There, r = y - u solves L r = diag(K) y,
which needs no product; the exponential is computed in place, and the symmetric matrix is passed transposed to avoid a
copy. All times include the kernel. Eight sequences at once are timed as well.

Recursion. 100,000 vectors in dimension 15 with the linear kernel, W += (x_{t+1} - W x_t) x_t^T, as a NumPy loop in two
ways: a straightforward one, and one that writes all results in place.

Rounds are interleaved, so that a slow phase of the machine affects all programs alike. Every program warms up before it
is timed, and reading is not timed. Exit status: 0 if the predictions agree to 1e-9, 1 if they do not, 2 if something
could not be run. Missed targets do not change it.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LENGTH, LONG, D = 2000, 100_000, 15
AT_ONCE = 8
TOLERANCE = 1e-9
TARGETS = {"limit": 2.0, "limit at once": 2.0, "recursion": 10.0}


class CannotRun(Exception):
    """A program is missing or failed: exit status 2."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--byrote-example", metavar="PATH")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def build() -> Path:
    command = ["cargo", "build", "--release", "-p", "byrote", "--features", "bench-internals"]
    command += ["--example", "incontext_times"]
    try:
        failed = subprocess.run(command, cwd=ROOT).returncode
    except OSError:
        failed = True
    if failed:
        raise CannotRun("failed: %s" % " ".join(command))
    release = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    return release / "examples" / "incontext_times"


def sequence(np, length: int, seed: int):
    draw = np.random.default_rng(seed)
    q, r = np.linalg.qr(draw.standard_normal((D, D)))
    w = q * np.sign(np.diag(r))
    x = np.empty((length, D))
    x[0] = draw.standard_normal(D)
    x[0] /= np.linalg.norm(x[0])
    for t in range(1, length):
        x[t] = w @ x[t - 1]
        x[t] /= np.linalg.norm(x[t])
    return x


def after(np, x):
    """Return y_s = x_{s+1}. The last one is unknown and has no influence."""
    return np.vstack([x[1:], np.zeros((1, x.shape[1]))])


def peers(np, solve_triangular):
    def by_the_formula(x):
        y = after(np, x)
        k = np.exp(x @ x.T)
        return solve_triangular(k, np.tril(k, -1) @ y, lower=True)

    def fastest(x):
        y = after(np, x)
        k = x @ x.T
        np.exp(k, out=k)
        c = np.ascontiguousarray(k.diagonal())
        r = solve_triangular(k.T, c[:, None] * y, lower=True, check_finite=False, overwrite_b=True)
        return y - r

    def loop(x):
        w = np.zeros((x.shape[1], x.shape[1]))
        u = np.zeros_like(x)
        for t in range(len(x) - 1):
            u[t] = w @ x[t]
            w += np.outer(x[t + 1] - u[t], x[t])
        u[-1] = w @ x[-1]
        return u

    def loop_in_place(x):
        d = x.shape[1]
        w, step, r = np.zeros((d, d)), np.empty((d, d)), np.empty(d)
        column = r[:, None]
        u = np.zeros_like(x)
        dot, subtract, multiply, add = np.dot, np.subtract, np.multiply, np.add
        rows, outs = list(x), list(u)
        for t in range(len(x) - 1):
            now, out = rows[t], outs[t]
            dot(w, now, out=out)
            subtract(rows[t + 1], out, out=r)
            multiply(column, now, out=step)
            add(w, step, out=w)
        dot(w, rows[-1], out=outs[-1])
        return u

    return {
        "limit": {"SciPy, by the formula": by_the_formula, "SciPy, the fastest formulation found": fastest},
        "recursion": {"NumPy, straightforward": loop, "NumPy, in place": loop_in_place},
    }


def byrote(example: Path, path: Path, method: str, threads: int, *options) -> float:
    command = [example, path, method, "--threads", threads, *options]
    try:
        done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True)
    except OSError as error:
        raise CannotRun("%s: %s" % (example, error)) from error
    if done.returncode:
        raise CannotRun("%s exited with status %d" % (example, done.returncode))
    return json.loads(done.stdout)["seconds"]


def timed(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> int:
    options = arguments()
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    try:
        import numpy as np
        import scipy
        from scipy.linalg import solve_triangular
    except ImportError as error:
        raise CannotRun("%s: this benchmark needs numpy and scipy" % error) from error
    example = Path(options.byrote_example) if options.byrote_example else build()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        short, long = sequence(np, LENGTH, 1), sequence(np, LONG, 2)
        np.save(folder / "short.npy", short)
        np.save(folder / "long.npy", long)
        theirs = peers(np, solve_triangular)

        # The predictions of all programs, once.
        gaps = {}
        for task, x, file, how in [
            ("limit", short, "short.npy", ["direct", "--beta", "1"]),
            ("recursion", long, "long.npy", ["recursion"]),
        ]:
            out = folder / "predictions.bin"
            byrote(example, folder / file, how[0], options.threads, *how[1:], "--out", out)
            ours = np.fromfile(out).reshape(x.shape)
            for name, work in theirs[task].items():
                gaps[name] = float(np.abs(work(x) - ours).max())

        times = {}

        def add(task, name, seconds):
            times.setdefault(task, {}).setdefault(name, []).append(seconds)

        for number in range(options.rounds):
            print("round %d of %d" % (number + 1, options.rounds), file=sys.stderr, flush=True)
            threads = options.threads
            add("limit", "byrote", byrote(example, folder / "short.npy", "direct", threads, "--beta", 1))
            for name, work in theirs["limit"].items():
                work(short)
                add("limit", name, timed(lambda: work(short)))
            many = ("--beta", 1, "--copies", AT_ONCE)
            add("limit at once", "byrote", byrote(example, folder / "short.npy", "direct", threads, *many))
            for name, work in theirs["limit"].items():
                work(short)
                add("limit at once", name, timed(lambda: [work(short) for _ in range(AT_ONCE)]))
            add("recursion", "byrote", byrote(example, folder / "long.npy", "recursion", threads))
            for name, work in theirs["recursion"].items():
                work(long[:1000])
                add("recursion", name, timed(lambda: work(long)))

    print("%s, Python %s, NumPy %s, SciPy %s, %d threads, %d rounds, medians (fastest)" % (
        platform.machine(), platform.python_version(), np.__version__, scipy.__version__,
        options.threads, options.rounds))
    titles = {
        "limit": "The limit, T = %d, d = %d, exp kernel, one sequence" % (LENGTH, D),
        "limit at once": "The same, %d sequences" % AT_ONCE,
        "recursion": "The recursion, T = %d, d = %d, linear kernel" % (LONG, D),
    }
    report = {"threads": options.threads, "rounds": options.rounds, "agreement": gaps, "tasks": {}}
    for task, by_name in times.items():
        own = by_name["byrote"]
        print("\n" + titles[task])
        rows = {}
        for name, seconds in by_name.items():
            ratio = statistics.median(seconds) / statistics.median(own)
            rows[name] = {"seconds": statistics.median(seconds), "fastest": min(seconds), "times": ratio}
            print("  %-40s %9.3f ms (%9.3f)  %7.1f times" % (
                name, 1e3 * statistics.median(seconds), 1e3 * min(seconds), ratio))
        least = min(row["times"] for name, row in rows.items() if name != "byrote")
        met = least >= TARGETS[task]
        print("  target: %g times faster than the fastest peer: %s" % (TARGETS[task], "met" if met else "MISSED"))
        report["tasks"][task] = {"rows": rows, "target": TARGETS[task], "met": met}
    print("\nlargest difference between predictions: %s" % ", ".join("%s %.1e" % pair for pair in gaps.items()))
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=2) + "\n")
    agree = all(gap <= TOLERANCE for gap in gaps.values())
    if not agree:
        print("the predictions do NOT agree to %g" % TOLERANCE)
    return 0 if agree else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CannotRun as error:
        print("incontext_peers: %s" % error, file=sys.stderr)
        sys.exit(2)
