"""What goes wrong on clusters: workers and machines that die, files that cannot be read, stores that are full.

Every test has a real Ray of its own. Processes are found by the folders of their tasks, so none but ours is killed.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import byrote

ray = pytest.importorskip("ray", reason="SKIPPED: Ray is not installed")

import byrote.ray  # noqa: E402

QUIET: dict[str, Any] = {"address": "local", "include_dashboard": False, "log_to_driver": False}
KILLS = int(os.environ.get("BYROTE_TEST_KILLS", "3"))
"""Workers that are killed; the gate has few."""


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    stories = byrote.builtin_stories(40_000)
    for shard in range(8):
        (folder / f"{shard}.txt").write_text("\n".join(stories[shard::8]))
    return folder


@contextmanager
def local(**more: Any) -> Iterator[None]:
    ray.init(num_cpus=2, **QUIET, **more)
    try:
        yield
    finally:
        ray.shutdown()


def _tasks(temp: Path) -> list[tuple[str, int, Path]]:
    """The node, the process and the folder of every task that is running."""
    found = []
    for folder in temp.glob("byrote-ray-*"):
        _, _, _, node, process, _ = folder.name.split("-", 5)
        found.append((node, int(process), folder))
    return found


def _wait_until_empty(temp: Path) -> None:
    """Tasks that were cancelled clean up when they notice, which takes a while on a busy machine."""
    for _ in range(600):
        if not list(temp.iterdir()):
            return
        time.sleep(0.1)
    raise AssertionError("something is left behind")


class Saboteur(threading.Thread):
    """Does something bad while a call runs, again and again, until it has done it often enough."""

    def __init__(self, act: Callable[[], bool], times: int = 1, seed: int = 0) -> None:
        super().__init__(daemon=True)
        self.act, self.times, self.done, self.over = act, times, 0, threading.Event()
        self.draw = random.Random(seed)

    def run(self) -> None:
        while self.done < self.times and not self.over.is_set():
            self.done += self.act()
            time.sleep(self.draw.uniform(0.0, 0.05))

    def __enter__(self) -> Saboteur:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()


def _kill_one(temp: Path, draw: random.Random, killed: set[int]) -> Callable[[], bool]:
    def kill() -> bool:
        running = [process for _, process, _ in _tasks(temp) if process not in killed]
        if not running:
            return False
        process = draw.choice(running)
        killed.add(process)
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    return kill


@pytest.mark.parametrize("settings", [{}, {"contexts": "windows", "n_ctx": 20}], ids=["prefixes", "windows"])
def test_workers_that_are_killed_leave_the_right_numbers(texts: Path, tmp_path: Path, settings: dict[str, Any]) -> None:
    expect = byrote.Corpus(texts, **settings).to_dict()
    temp = tmp_path / "temp"
    temp.mkdir()
    done = 0
    with local():
        for attempt in range(20 * KILLS):
            draw = random.Random(attempt)
            times = min(3, KILLS - done)
            with Saboteur(_kill_one(temp, draw, set()), times=times, seed=attempt) as saboteur:
                found = byrote.ray.corpus(texts, temp_dir=temp, num_partitions=4, **settings)
            assert found.to_dict() == expect
            assert not list(temp.iterdir()), "nothing is left behind"
            done += saboteur.done
            if done >= KILLS:
                break
    print(f"{done} workers were killed in {attempt + 1} runs")
    assert done >= KILLS


def test_a_worker_that_always_dies_is_reported_with_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temp = tmp_path / "temp"
    temp.mkdir()
    os.mkfifo(tmp_path / "endless.txt")  # Nobody writes to it, so its reader is always in the middle.
    monkeypatch.setattr(byrote.ray, "RETRIES", 1)
    with local(), Saboteur(_kill_one(temp, random.Random(0), set()), times=2) as saboteur:
        with pytest.raises(byrote.ray.ClusterError, match=r"endless\.txt: the worker or its machine died again and again"):
            byrote.ray.corpus(tmp_path / "endless.txt", temp_dir=temp)
        assert saboteur.done == 2 and not list(temp.iterdir()), "nothing is left behind"


@pytest.mark.parametrize("moment", ["reading", "merging"])
def test_a_machine_that_is_removed_leaves_the_right_numbers(
    texts: Path, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray.cluster_utils import Cluster

    expect = byrote.Corpus(texts).to_dict()
    monkeypatch.setattr(byrote.ray, "DRIVER_BYTES", -1)  # The pieces are where they were made, and lost with the machine.
    monkeypatch.setattr(byrote.ray, "PATIENCE", 2.0)
    # Ray notices within two seconds that a machine is gone, not within half a minute.
    soon = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 3}
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": {**soon, "health_check_timeout_ms": 1000}}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    doomed = cluster.add_node(num_cpus=1)
    removed = []
    run = byrote.ray.Tasks.run

    def sabotaged(tasks: Any, stage: str, *rest: Any) -> Iterator[Any]:
        for ended, found in enumerate(run(tasks, stage, *rest)):
            # The first tasks have ended, and others are running on both machines.
            if stage == moment and ended == 1:
                removed.append(cluster.remove_node(doomed, allow_graceful=False))
            yield found

    monkeypatch.setattr(byrote.ray.Tasks, "run", sabotaged)
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        cluster.wait_for_nodes()
        found = byrote.ray.corpus(texts, num_partitions=6)
        assert removed and found.to_dict() == expect
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_a_shard_that_cannot_be_read_is_named(texts: Path, tmp_path: Path) -> None:
    temp = tmp_path / "temp"
    temp.mkdir()
    (texts / "3.txt").write_bytes(b"one\nt\xffwo\n")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and nothing more")
    with local():
        with pytest.raises(byrote.FormatError, match=r"3\.txt") as wrong:
            byrote.ray.corpus(texts, temp_dir=temp)
        assert wrong.value.path == str(texts / "3.txt") and wrong.value.line == 2
        with pytest.raises(byrote.FormatError, match=r"cut\.parquet"):
            byrote.ray.corpus(texts / "0.txt", tmp_path / "cut.parquet", temp_dir=temp)
        with pytest.raises(byrote.MissingFileError, match=r"none\.txt"):
            byrote.ray.corpus(texts / "0.txt", tmp_path / "none.txt", temp_dir=temp)
        pytest.importorskip("fsspec")
        with pytest.raises(byrote.MissingFileError, match=r"none\.txt"):
            byrote.ray.corpus(f"zip://none.txt::file://{_archive(tmp_path, texts)}", temp_dir=temp)
        with pytest.raises(byrote.FormatError, match=r"3\.txt") as far:
            byrote.ray.corpus(f"zip://*::file://{_archive(tmp_path, texts)}", temp_dir=temp)
        assert far.value.path is not None and far.value.path.endswith("3.txt") and str(temp) not in str(far.value)
        _wait_until_empty(temp)


def _archive(folder: Path, texts: Path) -> Path:
    import zipfile

    with zipfile.ZipFile(folder / "all.zip", "w") as archive:
        for path in texts.iterdir():
            archive.write(path, path.name)
    return folder / "all.zip"


def test_a_network_that_fails_now_and_then_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from byrote import _remote_files

    monkeypatch.setattr(_remote_files.time, "sleep", lambda _: None)
    (tmp_path / "a.txt").write_text("a b\n")
    failures = iter([OSError("reset"), TimeoutError(), None, OSError("reset")])

    def flaky() -> Any:
        failure = next(failures)
        if failure is not None:
            raise failure
        return open(tmp_path / "a.txt", "rb")

    (tmp_path / "fetched").mkdir()
    local = _remote_files.InputFile("far://a.txt", 4, flaky).fetch(str(tmp_path / "fetched"), 0)
    assert Path(local).read_text() == "a b\n"

    def broken() -> Any:
        raise OSError("the bucket is gone")

    with pytest.raises(byrote.FileError, match=r"far://b\.txt: cannot read it: the bucket is gone"):
        _remote_files.InputFile("far://b.txt", 4, broken).fetch(str(tmp_path / "fetched"), 1)


def test_a_full_object_store_spills(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byrote.ray, "DRIVER_BYTES", -1)
    monkeypatch.setattr(byrote.ray, "INLINED", 3 << 20)  # 8 shards of 6 pieces of 3 MB are more than the store holds.
    with local(object_store_memory=80 << 20):
        assert byrote.ray.corpus(texts, num_partitions=6).to_dict() == byrote.Corpus(texts).to_dict()


def test_a_full_disk_is_one_clear_error(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byrote.ray, "DRIVER_BYTES", -1)
    monkeypatch.setattr(byrote.ray, "INLINED", 100 << 20)  # A piece is larger than the store.
    temp = tmp_path / "temp"
    temp.mkdir()
    # Ray believes that a disk of which a hundredth is used is full.
    with local(object_store_memory=80 << 20, _system_config={"local_fs_capacity_threshold": 0.01}):
        with pytest.raises(byrote.ray.ClusterError, match=r"\d\.txt: the object store of a machine is full"):
            byrote.ray.corpus(texts, num_partitions=6, temp_dir=temp)
        assert not list(temp.iterdir()), "nothing is left behind"


def test_a_sweep_survives_workers_that_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = {
        "seeds": [0, 1, 2],
        "corpus": {"builtin": 200},
        "model": {"d_mlp": [16, 32]},
        "training": {"optimizer": "adam", "steps": 400, "stop_relative_gap": 0.0, "stall": 0.0},
    }
    byrote.sweep(plan, out=tmp_path / "theirs")
    temp = tmp_path / "temp"
    temp.mkdir()
    with local(runtime_env={"env_vars": {"TMPDIR": str(temp)}}), Saboteur(_kill_one(temp, random.Random(1), set()), 3) as saboteur:
        byrote.ray.sweep(plan, out=tmp_path / "ours", checkpoint_every=0.05)
    assert saboteur.done > 0
    assert (tmp_path / "ours/results.csv").read_bytes() == (tmp_path / "theirs/results.csv").read_bytes()
    assert not _tasks(temp)
