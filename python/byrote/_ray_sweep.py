"""Sweeps whose jobs are Ray tasks."""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import ray

from byrote import _arguments, _byrote
from byrote._progress import Progress, Watch
from byrote._ray_tasks import RETRIES, Tasks, leave, require, scratch, slots, start
from byrote._settings import Path
from byrote._whole import Sweep, of_plan


@contextlib.contextmanager
def _in_directory(path: str) -> Iterator[None]:
    """Run where the driver runs, so that relative paths mean the same files."""
    before = os.getcwd()
    with contextlib.suppress(OSError):
        os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


def _train(
    run: str, where: str, manifest: str, job: str, identity: str, checkpoint: str, options: Mapping[str, Any]
) -> tuple[str | None, bytes | None, bytes | None, float]:
    """Run one job; return its row, its curve, its model and its seconds."""
    started = time.monotonic()

    def content(folder: str, name: str) -> bytes | None:
        try:
            with open(os.path.join(folder, name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    # Where the run directory is visible, checkpoints are kept there, and another attempt resumes.
    is_shared = content(os.path.dirname(os.path.dirname(checkpoint)), "manifest.toml") == manifest.encode()
    with scratch(run, None) as folder, _in_directory(where):
        kept = checkpoint if is_shared else None
        row = _byrote.run_job(job, identity, folder, checkpoint=kept, watch=Watch(False), **options)
        return row, content(folder, "curve.csv"), content(folder, "model.safetensors"), time.monotonic() - started


@_arguments.checked()
def sweep(
    plan: Path | Mapping[str, Any],
    out: Path | None = None,
    *,
    num_cpus: float = 1,
    full: bool = False,
    fail_fast: bool = False,
    keep_models: bool = False,
    checkpoint_every: float | None = None,
    seed: int = 0,
    progress: Progress = None,
) -> Sweep:
    """Run a grid of training runs, one Ray task per job; the same call resumes it.

    The run directory is that of :func:`byrote.sweep`, and ``results.csv`` has the same bytes; either call resumes what the other has
    begun. Every job has ``num_cpus`` threads, and reads its corpus where it runs, so files must be visible to all machines. If the run
    directory is visible too, jobs keep their checkpoints there.

    >>> import byrote, ray, tempfile
    >>> _ = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    >>> plan = {"corpus": {"builtin": 10}, "model": {"d_mlp": [4, 8]}, "training": {"steps": 20}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     s = byrote.ray.sweep(plan, out=folder)
    ...     s.results["d_mlp"].tolist()
    [4, 8]
    """
    if num_cpus <= 0:
        raise _arguments.wrong("num_cpus", f"must be positive (got {num_cpus})")
    start()
    require(num_cpus)
    watch = Watch(progress)
    threads = max(1, int(num_cpus))
    with of_plan(plan) as (path, text):
        held = _byrote.ClusterSweep.open(
            path=path,
            text=text,
            out=None if out is None else os.fspath(out),
            full=full,
            seed=seed,
            command="byrote.ray.sweep(...)",
            watch=watch,
        )
    remaining = held.remaining()
    total = held.jobs()
    options = {"checkpoint_every": checkpoint_every, "keep_models": keep_models, "threads": threads}
    run = uuid.uuid4().hex[:12]
    training = ray.remote(_train).options(num_cpus=num_cpus, max_retries=RETRIES)
    manifest = ""
    if remaining:
        folder = os.path.dirname(os.path.dirname(remaining[0][3]))
        with open(os.path.join(folder, "manifest.toml"), encoding="utf-8") as file:
            manifest = file.read()

    def submit(i: int) -> Any:
        _, identity, job, checkpoint = remaining[i]
        return training.remote(run, os.getcwd(), manifest, job, identity, os.path.abspath(checkpoint), options)

    def name(i: int) -> tuple[str, str | None]:
        return f"job {remaining[i][1]} ({remaining[i][0] + 1} of {total})", None

    interrupted = True
    try:
        for i, (row, curve, model, seconds) in Tasks(2 * slots(num_cpus), watch).run("training", "jobs", len(remaining), submit, name):
            if row is None:
                raise KeyboardInterrupt
            done = held.record(remaining[i][0], row, seconds=seconds, curve=curve, model=model)
            if fail_fast and not done:
                break
        interrupted = False
    finally:
        leave(run)
        found = held.finish(interrupted=interrupted, watch=watch)
    return Sweep(json.loads(found))
