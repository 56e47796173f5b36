"""Ray tasks: in flight up to a limit, run again where that helps, with one clear error where it does not, and cleaned up after."""

from __future__ import annotations

import contextlib
import gc
import glob
import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ray

from byrote import _arguments, _errors
from byrote._progress import Watch

RETRIES = 10
"""How often a task is run again if its worker or its machine dies."""


CANCELLED = 10.0
"""How many seconds to wait for tasks that were cancelled."""
SWEPT = 5.0
"""How many seconds to wait for workers that were ended, before their folders are removed."""
STARTED = 30.0
"""How many seconds a worker may take to start on a busy machine."""
AGAIN = "again"
"""What a task returns that should be run again later, because what it needs is not there yet."""


class ClusterError(_errors.Error, RuntimeError):
    """Workers died again and again, or the cluster has no room. The message names the files concerned."""


def _cluster_error(message: str, path: str | None = None) -> ClusterError:
    error = ClusterError(message)
    error.kind, error.message, error.path, error.line, error.setting = "cluster", message, path, None, None
    return error


@contextlib.contextmanager
def scratch(run: str, temp_dir: str | None) -> Iterator[str]:
    """Give a task a folder. What a killed task of this run has left on this machine is removed first."""
    node = ray.get_runtime_context().get_node_id()[:16]
    _sweep_up(run, temp_dir)
    with tempfile.TemporaryDirectory(prefix=f"byrote-ray-{run}-{node}-{os.getpid()}-", dir=temp_dir) as folder:
        yield folder


def _sweep_up(run: str, temp_dir: str | None, patience: float = 0.0) -> None:
    """Remove the folders of tasks of this run that have died on this machine, or do so within some seconds."""
    node = ray.get_runtime_context().get_node_id()[:16]
    until = time.monotonic() + patience
    while True:
        alive = False
        for folder in glob.glob(os.path.join(temp_dir or tempfile.gettempdir(), f"byrote-ray-{run}-{node}-*")):
            owner = int(folder.rsplit("-", 2)[-2])
            if owner != os.getpid() and not _is_alive(owner):
                shutil.rmtree(folder, ignore_errors=True)
            else:
                alive = True
        if not alive or time.monotonic() >= until:
            return
        time.sleep(0.05)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def arrived(references: Sequence[Any], patience: float) -> bool:
    """Wait until objects are on this machine; returns whether they are."""
    try:
        return not ray.wait(list(references), num_returns=len(references), timeout=patience)[1]
    except ray.exceptions.RayError:
        raise
    except OSError:
        return False  # The machine is being removed; so is this process, in a moment.


def let_go(references: list[Any]) -> None:
    """Forget the results of tasks that have failed. Ray would report each of them, beside the one error that is raised."""
    name = "RAY_IGNORE_UNHANDLED_ERRORS"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        references.clear()
        gc.collect()
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _cause(error: BaseException) -> BaseException:
    """Return what went wrong first."""
    while isinstance(error, ray.exceptions.RayTaskError) and isinstance(error.cause, BaseException):
        error = error.cause
    return error


def clear(error: BaseException, what: str, path: str | None) -> BaseException:
    """Return one clear error for what Ray raises; ``what`` names the files of the task."""
    cause = _cause(error)
    if isinstance(cause, (_errors.Error, KeyboardInterrupt)):
        return cause
    kinds = ray.exceptions
    if isinstance(cause, (kinds.OutOfDiskError, kinds.ObjectStoreFullError)):
        reason = "the object store of a machine is full, and so is the disk that it spills to; free some space, or add machines"
    elif isinstance(cause, kinds.OutOfMemoryError):
        reason = "a machine ran out of memory again and again; set max_memory lower, or num_cpus higher"
    elif isinstance(cause, (kinds.WorkerCrashedError, kinds.NodeDiedError, kinds.ObjectLostError, kinds.LocalRayletDiedError)):
        reason = f"the worker or its machine died again and again ({type(cause).__name__})"
    else:
        reason = f"{type(cause).__name__}: {cause}".split("\n")[0]
    return _cluster_error(f"{what}: {reason}", path)


class Tasks:
    """Tasks in flight, never more than a limit. If one fails, the others are cancelled."""

    def __init__(self, limit: int, watch: Watch) -> None:
        self._limit = limit
        self._watch = watch

    def run(
        self, stage: str, unit: str, n: int, submit: Callable[[int], Any], name: Callable[[int], tuple[str, str | None]]
    ) -> Iterator[tuple[int, Any]]:
        """Submit tasks 0 to n - 1, and yield each with its result as it ends; ``submit`` returns the reference to the result."""
        pending: dict[Any, int] = {}
        waiting = deque(range(n))
        ended = 0
        try:
            while ended < n:
                while waiting and len(pending) < self._limit:
                    task = waiting.popleft()
                    pending[submit(task)] = task
                ready, _ = ray.wait(list(pending), num_returns=1, timeout=0.2, fetch_local=False)
                for reference in ready:
                    task = pending.pop(reference)
                    try:
                        found = ray.get(reference)
                    except ray.exceptions.RayError as error:
                        raise clear(error, *name(task)) from error
                    if isinstance(found, str) and found == AGAIN:
                        waiting.append(task)
                        continue
                    yield task, found
                    ended += 1
                self._watch.show(stage, unit, ended, n, {})
        finally:
            # They remove their folders when they notice. One that waits for room in Ray's store never does: its worker is ended.
            left = list(pending)
            for force in (False, True):
                for reference in left:
                    with contextlib.suppress(Exception):
                        ray.cancel(reference, force=force)
                with contextlib.suppress(Exception):
                    left = ray.wait(left, num_returns=len(left), timeout=CANCELLED, fetch_local=False)[1]
                if not left:
                    break


def start() -> None:
    """Connect to the cluster that Ray's environment names, or start one on this machine."""
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="warning")


def require(num_cpus: float) -> None:
    """Raise if no machine has that many processors: Ray would wait for one that has, for ever and in silence."""
    largest = max((node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"]), default=0.0)
    if largest < num_cpus:
        message = f"no machine of the cluster has {num_cpus:g} processors (the largest has {largest:g})"
        raise _arguments.wrong("num_cpus", message)


def slots(num_cpus: float) -> int:
    """How many tasks run at once."""
    return max(1, int(ray.cluster_resources().get("CPU", 1) / num_cpus))


def memory(num_cpus: float) -> int | None:
    """How much memory a task may use by default: half of its share of the machine, by processors."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    shares = [n["memory"] * num_cpus / n["CPU"] for n in nodes if n.get("memory") and n.get("CPU", 0) >= num_cpus]
    return int(min(shares) / 2) if shares else None


def leave(run: str, temp_dir: str | None = None) -> None:
    """Remove what tasks that were killed have left on the machines."""
    with contextlib.suppress(Exception):
        strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        sweeping = ray.remote(_sweep_up)
        nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
        options = [{"num_cpus": 0, "scheduling_strategy": strategy(node, soft=False), "max_retries": 0} for node in nodes]
        # No task of this run is running any more, but its worker may take a moment to end.
        sweeps = [sweeping.options(**o).remote(run, temp_dir, SWEPT) for o in options]
        ray.wait(sweeps, num_returns=len(nodes), timeout=SWEPT + STARTED)
