"""Bounds, certificates, evaluations and training: the calls that need a corpus and a model."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from byrote import _arguments, _byrote
from byrote._corpus import CorpusLike, corpus_of
from byrote._model import Model, model_of
from byrote._progress import Progress, Watch
from byrote._results import Bounds, Certificate, Evaluation, Training
from byrote._settings import Path, SizeSettings, TrainSettings, encode

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Step:
    """A step of a training run, as a callback sees it. Losses are per prediction, in nats."""

    def __init__(self, held: _byrote.Step) -> None:
        self._held = held

    @property
    def step(self) -> int:
        """Steps taken."""
        return self._held.step

    @property
    def loss(self) -> float:
        """The loss when it was last measured."""
        return self._held.loss_nats / max(self._held.predictions, 1)

    @property
    def gap(self) -> float:
        """The loss minus the floor."""
        return self._held.gap_nats / max(self._held.predictions, 1)

    @property
    def floor(self) -> float:
        """The lowest loss that any model can reach."""
        return self._held.floor_nats / max(self._held.predictions, 1)

    @property
    def seconds(self) -> float:
        """Seconds of training so far."""
        return self._held.seconds

    def model(self) -> Model:
        """Return the model with its current weights; only while the callback runs."""
        return Model(self._held.model())

    def __repr__(self) -> str:
        return f"Step(step={self.step}, loss={self.loss:.6f}, gap={self.gap:.6f})"


Callback = Callable[[Step], object]
"""Called after every step of a training run with a :class:`Step`; a true answer stops the run."""


@_arguments.checked("size")
def bounds(
    corpus: CorpusLike = None,
    *,
    d_vocab: int | None = None,
    n_ctx: int | None = None,
    encoder: int | Sequence[int] = (),
    seed: int = 0,
    threads: int | None = None,
    progress: Progress = None,
    **settings: Unpack[SizeSettings],
) -> Bounds:
    """Evaluate the capacity bounds of 21 papers for a corpus, a model, or both.

    Give a corpus, the shape of a model, a number of ``parameters``, or several of these; without a corpus, a shape needs
    ``d_vocab``. ``encoder`` also searches for the best encoder of that rank.

    >>> import byrote
    >>> b = byrote.bounds(byrote.Corpus(builtin=100), d_model=16, n_heads=4, d_mlp=512)
    >>> b.verdict[:59]
    'guaranteed: some weights get arbitrarily close to the floor'
    """
    alone = corpus is None and (d_vocab is not None or settings.get("parameters") is not None)
    read = None if alone else corpus_of(corpus, progress=progress, figures=True)
    ranks = [_arguments.whole("encoder", rank) for rank in ([encoder] if np.ndim(encoder) == 0 else encoder)]  # type: ignore[union-attr]
    found = _byrote.bounds(
        None if read is None else read._held,
        encode(settings),
        d_vocab=d_vocab,
        n_ctx=n_ctx,
        encoder=ranks,
        seed=seed,
        threads=threads,
        watch=Watch(progress),
    )
    return Bounds(json.loads(found))


@_arguments.checked()
def certify(
    model: Model | Path, corpus: CorpusLike = None, *, threads: int | None = None, progress: Progress = None
) -> Certificate:
    """Prove, in rigorous arithmetic, what the stored weights of a model memorize of a corpus.

    The certificate is true if every context is proven to be memorized.

    >>> import byrote
    >>> c = byrote.Corpus(builtin=20)
    >>> bool(byrote.certify(byrote.build.madden2024(c), c))
    True
    """
    found = model_of(model)
    read = corpus_of(corpus, found, progress)
    return Certificate(
        json.loads(_byrote.certify(found._held, read._held, threads=threads, watch=Watch(progress)))
    )


@_arguments.checked()
def evaluate(
    model: Model | Path,
    corpus: CorpusLike = None,
    *,
    tol: float | None = None,
    worst: int = 10,
    threads: int | None = None,
    progress: Progress = None,
) -> Evaluation:
    """Measure loss, gap to the floor, memorized contexts and the worst contexts of a model on a corpus.

    >>> import byrote
    >>> c = byrote.Corpus(builtin=20)
    >>> e = byrote.evaluate(byrote.build.madden2024(c), c)
    >>> e.memorized == e.contexts == c.contexts
    True
    """
    found = model_of(model)
    read = corpus_of(corpus, found, progress)
    result = _byrote.evaluate(
        found._held, read._held, tol=tol, worst=worst, threads=threads, watch=Watch(progress)
    )
    return Evaluation(json.loads(result))


@_arguments.checked("model", "train")
def train(
    corpus: CorpusLike = None,
    *,
    seed: int = 0,
    init: Model | Path | None = None,
    out: Path | None = None,
    resume: bool = False,
    checkpoint_every: float | None = None,
    tol: float | None = None,
    callback: Callback | Sequence[Callback] | None = None,
    callback_every: int = 1,
    threads: int | None = None,
    progress: Progress = None,
    **settings: Unpack[TrainSettings],
) -> Training:
    """Train a transformer towards the floor, and stop within 1% of it or say why it did not get there.

    The keywords are the options of ``byrote train --help``: ``preset``, ``n_layers``, ``d_model``, ``d_mlp``, ``optimizer``, ``lr``,
    ``steps`` and so on. ``out`` is a directory for the model, the curve and checkpoints, from which ``resume=True`` continues.
    ``callback`` sees every ``callback_every``-th step: its ``step``, ``loss``, ``gap`` and, on request, its ``model()``; a true
    answer stops the run, whose model is then evaluated as after any other stop. After Ctrl-C, the run so far is the attribute ``result`` of the ``KeyboardInterrupt``.

    >>> import byrote
    >>> r = byrote.train(byrote.Corpus(builtin=20), d_mlp=32)
    >>> r.stop, r.gap_nats <= 0.01 * r.floor_nats
    ('reached', True)
    """
    start = None if init is None else model_of(init, "init")
    read = corpus_of(corpus, start, progress)
    calls = [] if callback is None else list(callback) if isinstance(callback, Sequence) else [callback]
    for one in calls:
        if not callable(one):
            raise _arguments.wrong("callback", f"must be a function of one step, or a list of them (got {type(one).__name__})")

    def every(held: _byrote.Step) -> bool:
        step = Step(held)
        # Every callback sees every step, even if one has asked to stop.
        return any([bool(call(step)) for call in calls])

    try:
        held, report, curve = _byrote.train(
            read._held,
            encode(settings),
            seed=seed,
            init=None if start is None else start._held,
            out=None if out is None else os.fspath(out),
            resume=resume,
            checkpoint_every=checkpoint_every,
            tol=tol,
            callback=every if calls else None,
            callback_every=callback_every,
            threads=threads,
            watch=Watch(progress),
        )
    except KeyboardInterrupt as interrupt:
        partial: Any = getattr(interrupt, "partial", None)
        if partial is not None:
            held, report, curve = partial
            interrupt.result = Training(json.loads(report), Model(held), curve)  # type: ignore[attr-defined]
        raise
    return Training(json.loads(report), Model(held), curve)


__all__ = ["Callback", "Step", "bounds", "certify", "evaluate", "train"]
