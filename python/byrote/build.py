"""Models in closed form: weights computed by a formula and one linear solve, without training, from three papers.

>>> import byrote
>>> c = byrote.Corpus(builtin=100)
>>> m = byrote.build.madden2024(c)
>>> m.parameters, m.report.memorized
(72202, 337)
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from byrote import _arguments, _byrote
from byrote._corpus import CorpusLike, corpus_of
from byrote._model import Model
from byrote._progress import Progress, Watch
from byrote._results import Construction
from byrote._settings import Dana2024Settings, Kajitsuka2024Settings, Madden2024Settings, Path, encode

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["dana2024", "kajitsuka2024", "literal", "madden2024"]


def _build(
    method: str, corpus: CorpusLike, settings: dict[str, Any], seed: int, tol: float | None, threads: int | None, progress: Progress
) -> tuple[_byrote.Model | None, Construction]:
    read = corpus_of(corpus, progress=progress)
    held, report = _byrote.build(
        method, read._held, encode(settings), seed=seed, tol=tol, threads=threads, watch=Watch(progress)
    )
    return held, Construction(json.loads(report))


@_arguments.checked("madden2024")
def madden2024(
    corpus: CorpusLike = None,
    *,
    seed: int = 0,
    tol: float | None = None,
    threads: int | None = None,
    progress: Progress = None,
    **settings: Unpack[Madden2024Settings],
) -> Model:
    """Build a one-layer transformer with one hidden neuron per context: attention or averaging, any activation.

    The keywords are the options of ``byrote build madden2024 --help``; ``report`` of the model says how well it came out. The
    method ``literal``, which stores nothing, is :func:`literal`.

    >>> import byrote
    >>> m = byrote.build.madden2024(byrote.Corpus(builtin=20), activation="gelu", slack=0.05)
    >>> m.report.gap_nats < 1e-3
    True
    """
    if settings.get("method") == "literal":
        raise _arguments.wrong("method", "the literal construction is reported, not stored; call byrote.build.literal")
    held, report = _build("madden2024", corpus, dict(settings), seed, tol, threads, progress)
    assert held is not None
    return Model(held, report)


@_arguments.checked("madden2024")
def literal(
    corpus: CorpusLike = None,
    *,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress = None,
    **settings: Unpack[Madden2024Settings],
) -> Construction:
    """Follow the proof of madden2024 to the letter, for a few dozen contexts, and report the bits that it takes.

    >>> import byrote
    >>> byrote.build.literal(byrote.Corpus(builtin=3)).solver
    'literal'
    """
    given = {**settings, "method": "literal"}
    return _build("madden2024", corpus, given, seed, None, threads, progress)[1]


@_arguments.checked("dana2024")
def dana2024(
    corpus: CorpusLike = None,
    *,
    seed: int = 0,
    tol: float | None = None,
    threads: int | None = None,
    progress: Progress = None,
    **settings: Unpack[Dana2024Settings],
) -> Model:
    """Build a transformer of attention alone: exact up to its capacity, refitted or truncated above it.

    The keywords are the options of ``byrote build dana2024 --help``.

    >>> import byrote
    >>> c = byrote.Corpus(random=40, lengths="2..2", labels=5)
    >>> byrote.build.dana2024(c, d_model=8).report.memorized
    40
    """
    held, report = _build("dana2024", corpus, dict(settings), seed, tol, threads, progress)
    assert held is not None
    return Model(held, report)


@_arguments.checked("kajitsuka2024")
def kajitsuka2024(
    corpus: CorpusLike = None,
    *,
    pairs: Path | None = None,
    tokenizer: str | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress = None,
    **settings: Unpack[Kajitsuka2024Settings],
) -> Model:
    """Build an exact network with about sqrt N parameters for N facts, and verify every fact.

    A context is labelled with its most frequent next token. ``pairs`` names a file of labelled sequences instead of a corpus. The
    other keywords are the options of ``byrote build kajitsuka2024 --help``.

    >>> import byrote
    >>> m = byrote.build.kajitsuka2024(byrote.Corpus(random=200))
    >>> m.report.verified
    200
    """
    if pairs is not None and corpus is not None:
        raise _arguments.wrong("pairs", "cannot be combined with a corpus")
    if tokenizer is not None and pairs is None:
        raise _arguments.wrong("tokenizer", "applies only to pairs; a corpus has its own")
    read = None if pairs is not None else corpus_of(corpus, progress=progress)
    held, report = _byrote.build_exact(
        None if read is None else read._held,
        encode(settings),
        pairs=None if pairs is None else os.fspath(pairs),
        tokenizer=tokenizer,
        seed=seed,
        threads=threads,
        watch=Watch(progress),
    )
    return Model(held, Construction(json.loads(report)))
