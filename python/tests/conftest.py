"""What all tests share: the program of the package, and its JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import byrote

# On a busy machine Ray takes longer to start than it allows itself.
os.environ.setdefault("RAY_raylet_start_wait_time_s", "240")


@pytest.fixture(scope="session")
def program() -> Callable[..., dict[str, Any]]:
    """Run the program with ``--json`` and return its object."""

    def run(*arguments: object, code: int = 0) -> dict[str, Any]:
        command = [sys.executable, "-m", "byrote", *map(str, arguments), "--json", "--quiet"]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        assert found.returncode == code, found.stderr + found.stdout
        answer: dict[str, Any] = json.loads(found.stdout)
        return answer

    return run


@pytest.fixture(scope="session")
def stories() -> byrote.Corpus:
    """A hundred built-in stories."""
    return byrote.Corpus(builtin=100)


def same(ours: Any, theirs: dict[str, Any], but: tuple[str, ...] = ()) -> None:
    """Compare a result with the program's object, without what depends on the clock."""
    clocks = ("seconds", "seconds_building", "seconds_training", "milliseconds_per_step_median", "milliseconds_per_step_min")
    ignored = {*clocks, *but}
    mine = ours.to_dict()
    assert {k: v for k, v in mine.items() if k not in ignored} == {k: v for k, v in theirs.items() if k not in ignored}


def importable(name: str, needed: bool = True) -> bool:
    """Whether a large optional library is here. Set BYROTE_TEST_TORCH=1 to require those that are needed: torch and transformers."""
    try:
        __import__(name)
    except ImportError:
        if needed and os.environ.get("BYROTE_TEST_TORCH") == "1":
            raise
        return False
    return True
