"""How counting a corpus on Ray scales with processes, beside one process without Ray, and what is moved between them.

    python benches/peers/ray_scaling.py [--rounds 5] [--shards 8] [--documents 50000]

Counts the same files with `byrote.Corpus` on 1 and 2 threads and with `byrote.ray.corpus` on 1 and 2 processors of a local Ray, in turns,
and prints the fastest run of each, the bytes that tasks passed to others, and the memory that the driver has gained. Then it
prints what is moved of text without repetition, and what the driver does for every piece. Needs the package and Ray (`pip install '.[ray]'`).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ray

import byrote
import byrote.ray


def resident() -> int:
    """Return the memory of this process in bytes."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS"))


@dataclass
class Row:
    """A row of the table."""

    seconds: float
    answer: dict[str, Any]
    moved: int | None = None
    gained: int = 0


def timed(call: Callable[[], byrote.Corpus]) -> tuple[float, byrote.Corpus]:
    """Return the seconds and the result of a call."""
    started = time.perf_counter()
    found = call()
    return time.perf_counter() - started, found


def scaling(folder: Path, n_ctx: int, rounds: int, cpus: int, rows: dict[tuple[int, str], Row]) -> None:
    """Count with so many processors, with and without Ray in turns."""
    calls: dict[str, Callable[[], byrote.Corpus]] = {
        "byrote.Corpus": lambda: byrote.Corpus(folder, n_ctx=n_ctx, threads=cpus, progress=False),
        "byrote.ray.corpus": lambda: byrote.ray.corpus(folder, n_ctx=n_ctx, progress=False),
    }
    calls["byrote.ray.corpus"]()  # Workers start.
    before = resident()
    for _ in range(rounds):
        for name, call in calls.items():
            seconds, found = timed(call)
            row = rows.setdefault((n_ctx, f"{name}, {cpus}"), Row(seconds, found.to_dict()))
            assert found.to_dict() == row.answer
            row.seconds = min(seconds, row.seconds)
            if isinstance(found, byrote.ray.ClusterCorpus):
                row.moved, row.gained = found.moved_bytes, resident() - before


def random_ids(folder: Path) -> None:
    """Print what is moved of documents that do not repeat."""
    draw, weights = np.random.default_rng(0), 1 / np.arange(1, 20_001)
    for shard in range(4):
        ids = draw.choice(20_000, size=(50_000, 64), p=weights / weights.sum())
        np.save(folder / f"{shard}.npy", ids.astype(np.uint16))
    for n_ctx in (9, 63):
        found = byrote.ray.corpus(folder / "*.npy", n_ctx=n_ctx, progress=False)
        print(f"random ids, T = {n_ctx}: {found.moved_bytes / found.tokens:.2f} bytes moved per token")


def pieces(shards: int, parts: int) -> None:
    """Print what the driver does for every piece."""

    def make() -> list[bytes]:
        return [b""] * parts

    task = ray.remote(make).options(num_returns=parts)
    ray.get(task.remote())
    before, started = resident(), time.perf_counter()
    held = [task.remote() for _ in range(shards)]
    ray.wait([references[-1] for references in held], num_returns=shards)
    seconds = time.perf_counter() - started
    n = shards * parts
    print(f"\n{n:,} pieces: {1e6 * seconds / n:.0f} microseconds and {(resident() - before) / n:.0f} bytes of the driver each")


def main() -> None:
    """Run the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--documents", type=int, default=50_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for shard in range(arguments.shards):
            (folder / f"{shard}.txt").write_text("\n".join(byrote.builtin_stories(arguments.documents, seed=shard)))
        read = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
        rows: dict[tuple[int, str], Row] = {}
        for cpus in (1, 2):
            ray.init(address="local", num_cpus=cpus, include_dashboard=False, log_to_driver=False, logging_level="error")
            for n_ctx in (9, 63):
                scaling(folder, n_ctx, arguments.rounds, cpus, rows)
            ray.shutdown()
    print(f"{read:.0f} MB of text")
    print(f"{'T':>3}  {'threads or processes':24}{'seconds':>9}{'MB/s':>7}{'tokens kept':>13}{'bytes moved per token':>23}{'driver MB':>11}")
    for (n_ctx, name), row in sorted(rows.items()):
        tokens = int(row.answer["tokens"])
        moved = "" if row.moved is None else f"{row.moved / tokens:23.2f}{row.gained / 1e6:11.0f}"
        print(f"{n_ctx:3}  {name:24}{row.seconds:9.3f}{read / row.seconds:7.0f}{tokens:13,}{moved}")
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    with tempfile.TemporaryDirectory() as name:
        random_ids(Path(name))
    pieces(200, 64)


if __name__ == "__main__":
    main()
