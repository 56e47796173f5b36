"""Signals, threads, forks, progress: how calls behave among others."""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import byrote
from byrote._progress import Watch

posix = pytest.mark.skipif(os.name != "posix", reason="signals and fork are those of POSIX")


def _script(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


@posix
@pytest.mark.parametrize(
    "call",
    [
        "byrote.Corpus(builtin=100_000_000)",
        "byrote.build.madden2024(byrote.Corpus(builtin=3000), activation='gelu')",
        "byrote.train(byrote.Corpus(builtin=1000), d_mlp=512, stop_relative_gap=0.0, stall=0.0, steps=10**6)",
        "byrote.audit(lambda ids: np.zeros((*ids.shape, 9), np.float32), [[1] * 500] * 500, d_vocab=9, n_ctx=99, bos='none')",
    ],
    ids=["read", "build", "train", "audit"],
)
def test_ctrl_c_at_random_moments_leaves_a_usable_interpreter(call: str) -> None:
    rounds = int(os.environ.get("BYROTE_TEST_INTERRUPTS", "3"))
    moments = [round(random.Random(i).uniform(0.01, 1.0), 3) for i in range(rounds)]
    code = f"""
    import os, signal, threading, time
    import numpy as np
    import byrote
    late = []
    for moment in {moments}:
        sent = []
        def interrupt():
            time.sleep(moment)
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=interrupt)
        try:
            thread.start()  # On a busy machine the signal may arrive before this returns.
            {call}
            thread.join()
            time.sleep(0.05)
        except KeyboardInterrupt:
            late.append(time.monotonic() - sent[0])
        thread.join()
        assert byrote.Corpus(builtin=100).contexts == 337
    print(len(late), max(late, default=0.0))
    """
    found = subprocess.run(_script(code), capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 0, found.stderr
    interrupted, latest = found.stdout.split()
    assert int(interrupted) > 0, "no call was still running when it was interrupted"
    # The clock of a busy machine is no test; benches/peers/python_calls.py measures the delay.
    assert float(latest) < 30.0


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="threads are counted as Linux lists them")
def test_calls_that_were_interrupted_do_not_pile_up() -> None:
    code = """
    import os, signal, threading, time
    import byrote
    corpus = byrote.Corpus(builtin=1500)
    most = 0

    def name(task):
        try:
            return open(f"/proc/self/task/{task}/comm").read().strip()
        except OSError:
            return ""  # It has just ended.

    for _ in range(6):
        thread = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        try:
            thread.start()
            byrote.build.madden2024(corpus, activation="gelu", threads=1)
        except KeyboardInterrupt:
            pass
        thread.join()
        names = [name(task) for task in os.listdir("/proc/self/task")]
        most = max(most, names.count("byrote"))
    print(most)
    """
    found = subprocess.run(_script(code), capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 0, found.stderr
    # At most two that end by themselves and the one that has just been interrupted, with two threads each.
    assert int(found.stdout) <= 6


@posix
def test_an_interrupted_run_keeps_what_was_done(tmp_path: Path) -> None:
    code = f"""
    import os, signal
    import byrote
    corpus = byrote.Corpus(builtin=100)
    def stop(step):
        if step.step == 5:
            os.kill(os.getpid(), signal.SIGINT)
    try:
        byrote.train(corpus, d_mlp=8, optimizer="adam", steps=10**7, stop_relative_gap=0.0, stall=0.0, out={str(tmp_path / "run")!r}, callback=stop)
    except KeyboardInterrupt as error:
        run = error.result
        assert run.stop == "interrupted" and run.steps >= 5, run
        assert byrote.evaluate(run.model, corpus).contexts == 337
    more = byrote.train(corpus, d_mlp=8, optimizer="adam", steps=run.steps + 2, stop_relative_gap=0.0, stall=0.0, out={str(tmp_path / "run")!r}, resume=True)
    print(more.resumed_at_step == run.steps)
    """
    found = subprocess.run(_script(code), capture_output=True, text=True, timeout=300, check=False)
    assert found.stdout.strip() == "True", found.stderr


@posix
def test_calls_work_after_a_fork(stories: byrote.Corpus) -> None:
    expect = stories.floor_nats
    for _ in range(3):
        child = os.fork()
        if child == 0:
            ok = byrote.Corpus(builtin=100).floor_nats == expect and byrote.train(stories, d_mlp=8, steps=3).steps == 3
            os._exit(0 if ok else 1)
        started = time.monotonic()
        while True:
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                break
            assert time.monotonic() - started < 120, "the child hangs"
            time.sleep(0.01)
        assert status == 0


@posix
def test_a_fork_while_another_thread_counts_does_not_hang() -> None:
    code = """
    import os, signal, threading, time
    import byrote
    corpus = byrote.Corpus(builtin=200_000)
    thread = threading.Thread(target=corpus.table)
    thread.start()
    time.sleep(0.1)
    assert thread.is_alive(), "the contexts were counted before the fork"
    child = os.fork()
    if child == 0:
        signal.alarm(120)
        os._exit(0 if len(corpus.table()) == corpus.contexts else 1)
    thread.join()
    _, status = os.waitpid(child, 0)
    print(status, len(corpus.table()) == corpus.contexts)
    """
    found = subprocess.run(_script(code), capture_output=True, text=True, timeout=300, check=False)
    assert found.stdout.split() == ["0", "True"], found.stderr


@posix
def test_stories_are_interrupted_and_limited() -> None:
    code = """
    import os, signal, threading
    import byrote
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        for _ in range(10_000):
            byrote.builtin_stories(200_000)
    except KeyboardInterrupt:
        print("interrupted")
    """
    found = subprocess.run(_script(code), capture_output=True, text=True, timeout=300, check=False)
    assert found.stdout.strip() == "interrupted", found.stderr
    with pytest.raises(byrote.SettingError, match="documents: .* stories do not fit in memory"):
        byrote.builtin_stories(2**62)


def test_two_threads_call_at_once() -> None:
    results: list[Any] = []

    def call(seed: int) -> None:
        results.append((seed, byrote.train(byrote.Corpus(builtin=50, seed=seed), d_mlp=8, steps=30).loss_nats))

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = {seed: byrote.train(byrote.Corpus(builtin=50, seed=seed), d_mlp=8, steps=30).loss_nats for seed in range(4)}
    assert dict(results) == alone


def test_the_interpreter_runs_while_a_call_works() -> None:
    ticks = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(1)
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    byrote.Corpus(builtin=200_000)
    done.set()
    thread.join()
    assert len(ticks) > 5


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    runs = [byrote.train(byrote.Corpus(builtin=60), d_mlp=16, steps=30, threads=n).model for n in (1, 2, 3)]
    first = runs[0].state_dict()
    assert all((run.state_dict()[name] == first[name]).all() for run in runs for name in first)


def test_progress_is_shown_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(Watch, "PATIENCE", 0.0)
    watch = Watch(True)
    watch.show("reading", "bytes", 1 << 20, 1 << 22, {"documents": 12.0})
    assert "reading  [#####               ]  25% of 4.0 MiB" in stream.getvalue()
    watch.close()
    assert stream.getvalue().endswith("\r")
    silent = Watch(False)
    silent.show("reading", "bytes", 1, None, {})
    assert silent._width == 0


def test_notes_of_the_library_go_to_the_logger(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with caplog.at_level("INFO", logger="byrote"):
        byrote.train(byrote.Corpus(builtin=10), d_mlp=4, steps=1, out=tmp_path / "run", resume=True)
    assert "there is no checkpoint yet" in caplog.text


def test_the_program_is_installed_with_the_package(program: Any, tmp_path: Path) -> None:
    assert program("corpus", "--builtin", 100)["contexts"] == 337
    wrong = subprocess.run(
        [sys.executable, "-m", "byrote", "corpus", tmp_path / "none.txt"], capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2 and "cannot open" in wrong.stderr
    version = subprocess.run([sys.executable, "-m", "byrote", "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.strip() == f"byrote {byrote.__version__}"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
