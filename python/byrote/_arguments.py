"""What is wrong with the arguments of a call, said before it starts, in one sentence that names the keyword.

The library checks settings. What it never sees is checked here: keywords that do not exist, and arguments whose type Python would
complain about further down, without their name.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from byrote import _byrote, _errors

P = ParamSpec("P")
R = TypeVar("R")

ELSEWHERE = {
    "batch_size": "batch",
    "block_size": "n_ctx",
    "context_length": "n_ctx",
    "epochs": "steps",
    "hidden_size": "d_model",
    "learning_rate": "lr",
    "max_iters": "steps",
    "max_steps": "steps",
    "n_embd": "d_model",
    "num_heads": "n_heads",
    "num_layers": "n_layers",
    "verbose": "progress",
    "vocab_size": "d_vocab",
}
"""What other programs call a setting."""


def wrong(name: str, message: str) -> BaseException:
    """Return the exception for an argument that cannot be used."""
    return _errors.of("setting", f"{name}: {message}", None, None, name, None)


def _shown(value: object) -> str:
    """Return a value as a message shows it."""
    text = repr(value)
    return text if len(text) <= 40 and "\n" not in text else type(value).__name__


def whole(name: str, value: Any, least: int = 0, most: int = (1 << 64) - 1) -> int:
    """Return a whole number within limits.

    >>> whole("worst", 3)
    3
    >>> whole("worst", 2.5)
    Traceback (most recent call last):
    byrote._errors.SettingError: worst: must be a whole number of at least 0 (got 2.5)
    """
    try:
        found = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        found = None
    if found is None or not least <= found <= most:
        limit = f"of at least {least}" if found is None or found < least else f"of at most {most}"
        raise wrong(name, f"must be a whole number {limit} (got {_shown(value)})")
    return found


def number(name: str, value: Any) -> float:
    """Return a finite number.

    >>> number("level", "high")
    Traceback (most recent call last):
    byrote._errors.SettingError: level: must be a finite number (got 'high')
    """
    try:
        found = math.nan if isinstance(value, (str, bytes, bool)) or np.iscomplexobj(value) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise wrong(name, f"must be a finite number (got {_shown(value)})")
    return found


def numbers(name: str, value: Any, wanted: str = "must be a list of numbers") -> npt.NDArray[np.float64]:
    """Return numbers as an array.

    >>> numbers("x", [1, 2.5])
    array([1. , 2.5])
    """
    if np.ma.is_masked(value):
        raise wrong(name, "has masked values; leave them out")
    try:
        found = np.asarray(value)
        if found.dtype.kind == "c":
            raise wrong(name, "must be real numbers (got complex ones)")
        return np.require(found, dtype=np.float64, requirements=["C", "A"])
    except (TypeError, ValueError) as error:
        if isinstance(error, _errors.Error):
            raise
        raise wrong(name, wanted) from None


def path(name: str, value: Any) -> str:
    """Return a path as text.

    >>> path("out", 5)
    Traceback (most recent call last):
    byrote._errors.SettingError: out: must be a path (got 5)
    """
    found = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(found, str):
        raise wrong(name, f"must be a path (got {_shown(value)})")
    if not found:
        raise wrong(name, "must not be empty")
    return found


def paths(name: str, given: Iterable[Any]) -> list[str]:
    """Return paths, and lists of paths, as one list of texts.

    >>> paths("paths", ["a.txt", ["b.txt", "c.txt"]])
    ['a.txt', 'b.txt', 'c.txt']
    """
    found: list[str] = []
    for one in given:
        if isinstance(one, (str, os.PathLike)):
            found.append(path(name, one))
        elif isinstance(one, Iterable) and not isinstance(one, bytes):
            found.extend(path(name, inner) for inner in one)
        else:
            raise wrong(name, f"must be a path or a list of paths (got {_shown(one)})")
    if not found:
        raise wrong(name, "the list is empty")
    return found


def of_corpus(given: Iterable[Any], settings: Mapping[str, object]) -> dict[str, Any]:
    """Return the settings of a corpus with its paths, which are given before the keywords or as one of them.

    >>> of_corpus(["a.txt"], {"n_ctx": 5})
    {'n_ctx': 5, 'paths': ['a.txt']}
    """
    found = dict(settings)
    positional = tuple(given)
    if positional and found.get("paths") is not None:
        raise wrong("paths", "are given already, before the keywords")
    if positional:
        found["paths"] = list(positional)
    for name in ("paths", "merge"):
        if found.get(name) is not None:
            # An empty list is a pattern that matched nothing, and no request for the built-in stories.
            found[name] = paths(name, [found[name]] if isinstance(found[name], (str, os.PathLike)) else _listed(name, found[name]))
    return found


def _listed(name: str, value: Any) -> list[Any]:
    if not isinstance(value, Iterable) or isinstance(value, (bytes, Mapping)):
        raise wrong(name, f"must be a path or a list of paths (got {_shown(value)})")
    return list(value)


def _at_least_one(name: str, value: Any) -> int:
    return whole(name, value, least=1)


def _yes_or_no(name: str, value: Any) -> None:
    if not isinstance(value, bool) and type(value).__name__ not in ("bool", "bool_"):
        raise wrong(name, f"must be True or False (got {_shown(value)})")


def _text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise wrong(name, f"must be a str (got {_shown(value)})")


CHECKS: dict[str, Callable[[str, Any], object]] = {
    "int": whole,
    "float": number,
    "Path": path,
    "str": _text,
    "bool": _yes_or_no,
    "Progress": _yes_or_no,
}
"""Checks by the annotation of a parameter."""
FROM_ONE = ("batch_size", "callback_every", "chunk", "d_vocab", "n_ctx", "n_layers", "num_partitions", "threads")
"""Whole numbers that must be at least 1."""


def unknown(name: str, known: Iterable[str]) -> BaseException:
    """Return the exception for a keyword that does not exist, with the one that was meant.

    >>> str(unknown("block_size", ["n_ctx", "lr"]))
    'unknown setting `block_size`; did you mean `n_ctx`?'
    """
    names = list(dict.fromkeys(known))
    meant = ELSEWHERE.get(name)
    near = meant if meant in names else _byrote.nearest(name, names)
    if near is not None:
        hint = f"did you mean `{near}`?"
    elif name in _byrote.fields("corpus") or meant in _byrote.fields("corpus"):
        hint = f"it belongs to the corpus: byrote.Corpus(..., {meant or name}=...)"
    else:
        hint = f"the known ones are {', '.join(names)}"
    return _errors.of("unknown_setting", f"unknown setting `{name}`; {hint}", None, None, name, None)


def checked(*specs: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Check the arguments of a function, whose other keywords are the settings of some specs of the library."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        own = [p.name for p in signature.parameters.values() if p.kind in named and p.name not in ("self", "cls")]
        known = own + [name for spec in specs for name in _byrote.fields(spec)]
        checks = {}
        needed = set()
        for parameter in signature.parameters.values():
            kind, _, rest = str(parameter.annotation).partition(" | ")
            if kind in CHECKS and rest in ("", "None") and parameter.kind in named:
                checks[parameter.name] = _at_least_one if parameter.name in FROM_ONE else CHECKS[kind]
                if rest == "" and parameter.default is not None:
                    needed.add(parameter.name)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs:
                if name not in known:
                    raise unknown(name, known)
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError:
                return function(*args, **kwargs)  # Python says what is missing.
            for name, check in checks.items():
                if given.get(name) is not None or (name in needed and name in given):
                    check(name, given[name])
            return function(*args, **kwargs)

        return call

    return decorate
