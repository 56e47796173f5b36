"""A corpus: documents, their distinct contexts, the floor."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import numpy.typing as npt

from byrote import _arguments, _byrote, _documents, _errors
from byrote._progress import Progress, Watch
from byrote._results import Result
from byrote._settings import CorpusSettings, Path, encode
from byrote._table import Table

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from byrote._model import Model


@dataclass(frozen=True)
class Floor:
    """The lowest training loss that any model can reach, because identical contexts are followed by different tokens."""

    nats: float
    """The floor of all predictions together."""
    predictions: int
    """How many predictions there are."""

    @property
    def nats_per_prediction(self) -> float:
        """The floor per prediction: compare it with the training loss that a framework prints."""
        return self.nats / self.predictions if self.predictions else float("nan")

    @property
    def bits_per_prediction(self) -> float:
        """The floor per prediction in bits."""
        return self.nats_per_prediction / float(np.log(2.0))

    @property
    def perplexity(self) -> float:
        """The perplexity at the floor."""
        return float(np.exp(self.nats_per_prediction))

    def __float__(self) -> float:
        return self.nats_per_prediction


class LossReading(Result):
    """What a training loss means: its gap to the floor, and what that leaves unmemorized."""


class Corpus:
    """A text, counted: its distinct contexts, their next tokens, and the floor.

    Give paths (text, JSONL, Parquet, Arrow, ids, a directory, a pattern) and the settings of ``byrote corpus --help`` as keywords.
    Without a path it is the built-in stories.

    >>> import byrote
    >>> c = byrote.Corpus(builtin=100)
    >>> c.documents, c.contexts, c.predictions
    (100, 337, 900)
    >>> round(c.floor.nats_per_prediction, 6), round(c.floor.bits_per_prediction, 4)
    (0.353611, 0.5102)
    >>> c.by_length.columns[:3]
    ['length', 'contexts', 'predictions']
    """

    documents: int
    """Documents kept, after all filters."""
    tokens: int
    """Their tokens, at most ``n_ctx + 1`` of each."""
    tokens_left_out: int
    """Tokens of these documents that no context reaches."""
    d_vocab: int
    """Distinct tokens."""
    n_ctx: int
    """The longest context."""
    contexts: int
    """Distinct contexts."""
    predictions: int
    """Occurrences of contexts that a token follows."""
    deterministic_contexts: int
    """Contexts with a single next token."""
    floor_nats: float
    floor_nats_per_prediction: float | None
    floor_bits_per_prediction: float | None

    _held: _byrote.Corpus
    _summary: dict[str, Any]

    @_arguments.checked("corpus")
    def __init__(
        self,
        *paths: Path | Sequence[Path],
        save: Path | None = None,
        list: Path | None = None,
        threads: int | None = None,
        progress: Progress = None,
        **settings: Unpack[CorpusSettings],
    ) -> None:
        self._take(
            _byrote.Corpus.read(
                encode(_arguments.of_corpus(paths, settings)),
                save=None if save is None else os.fspath(save),
                list=None if list is None else os.fspath(list),
                threads=threads,
                watch=Watch(progress),
            )
        )

    def _take(self, held: _byrote.Corpus) -> None:
        self._held = held
        self._summary = json.loads(held.summary())

    @classmethod
    def _of(cls, held: _byrote.Corpus) -> Corpus:
        corpus = cls.__new__(cls)
        corpus._take(held)
        return corpus

    @classmethod
    @_arguments.checked("corpus")
    def for_model(
        cls,
        model: Model | Path,
        *paths: Path | Sequence[Path],
        threads: int | None = None,
        progress: Progress = None,
        **settings: Unpack[CorpusSettings],
    ) -> Corpus:
        """Read a corpus as a model reads it: with its tokenizer, its longest context, its start and end tokens.

        >>> import byrote
        >>> m = byrote.build.madden2024(byrote.Corpus(builtin=20, n_ctx=5))
        >>> Corpus.for_model(m, builtin=20).n_ctx
        5
        """
        from byrote._model import model_of

        given = _arguments.of_corpus(paths, settings)
        held = _byrote.Corpus.read(encode(given), model=model_of(model)._held, threads=threads, watch=Watch(progress))
        return cls._of(held)

    @classmethod
    @_arguments.checked("corpus")
    def from_texts(
        cls,
        texts: Iterable[str],
        *,
        title: str = "texts",
        threads: int | None = None,
        progress: Progress = None,
        **settings: Unpack[CorpusSettings],
    ) -> Corpus:
        """Count texts, each of which is a document: a list of strings, or a column of text (Arrow, pandas, Hugging Face).

        >>> c = Corpus.from_texts(["the cat sat", "the cat ran"])
        >>> c.contexts, round(c.floor_nats, 4)
        (2, 1.3863)
        """
        found = _documents.texts(texts)
        with _errors.said_of("files", "texts in memory"):
            held = _byrote.Corpus.from_texts(
                found, encode(settings), title=title, threads=threads, watch=Watch(progress)
            )
        return cls._of(held)

    @classmethod
    @_arguments.checked("corpus")
    def from_ids(
        cls,
        ids: Any,
        offsets: npt.ArrayLike | None = None,
        *,
        chunk: int | None = None,
        title: str = "ids",
        threads: int | None = None,
        progress: Progress = None,
        **settings: Unpack[CorpusSettings],
    ) -> Corpus:
        """Count documents of token ids.

        ``ids`` is a list of arrays (or lists), one per document; a two-dimensional array, one document per row; a one-dimensional
        array with ``offsets`` as in Arrow, with a ``separator_id`` between documents, or cut into blocks of ``chunk`` ids; or a
        column of lists of ids (Arrow, Hugging Face). A one-dimensional array alone is one document, of which
        ``contexts="windows"`` counts the windows. Arrays of type uint16 and uint32 are counted where they are, without a copy.

        >>> import numpy as np
        >>> rows = np.array([[7, 8, 9], [7, 8, 8]], dtype=np.uint16)
        >>> Corpus.from_ids(rows).contexts
        2
        >>> Corpus.from_ids(np.array([7, 8, 9, 7, 8], dtype=np.uint32), offsets=[0, 3, 5]).documents
        2
        """
        windows = settings.get("contexts") == "windows"
        separator_id = settings.pop("separator_id", None)
        found = _documents.ids(ids, offsets, separator_id=separator_id, chunk=chunk, windows=windows)
        how: dict[str, Any] = {"title": title, "threads": threads, "watch": Watch(progress)}
        with _errors.said_of("files", "ids in memory"):
            if isinstance(found, _documents.Flat):
                held = _byrote.Corpus.from_flat(
                    found.ids, encode(settings), length=found.length, offsets=found.offsets, **how
                )
            else:
                held = _byrote.Corpus.from_arrays(found, encode(settings), **how)
        return cls._of(held)

    def __getattr__(self, name: str) -> Any:
        summary = self.__dict__.get("_summary", {})
        if name not in summary:
            raise AttributeError(f"a corpus has no field {name!r}; it has {', '.join(summary)}")
        value = summary[name]
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            return Table.from_rows(value)
        return value

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._summary]

    @property
    def floor(self) -> Floor:
        """The lowest training loss that any model can reach."""
        return Floor(self._summary["floor_nats"], self._summary["predictions"])

    @property
    def by_length(self) -> Table:
        """Contexts, predictions and floor by context length."""
        return Table.from_rows(self._summary["by_length"])

    @property
    def coverage(self) -> Table:
        """The fewest contexts that make up all but a share epsilon of the predictions."""
        return Table.from_rows(self._summary["coverage"])

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that it was read with."""
        found: dict[str, Any] = json.loads(self._held.settings())
        return found

    @property
    def vocabulary(self) -> list[str]:
        """The tokens by id, as text."""
        return self._held.vocabulary()

    @property
    def title(self) -> str:
        """A few words about it."""
        return self._held.title()

    def to_dict(self) -> dict[str, Any]:
        """Return the statistics: the JSON object of ``byrote corpus --json``.

        >>> Corpus.from_texts(["a b", "a c"]).to_dict()["contexts"]
        1
        """
        return dict(self._summary)

    @_arguments.checked()
    def table(self, *, threads: int | None = None, progress: Progress = None) -> Table:
        """Return every context with its tokens, its count and its next tokens.

        >>> t = Corpus.from_texts(["a b", "a c"]).table()
        >>> t[0]
        {'text': 'a', 'tokens': [0], 'count': 2, 'next': [1, 2], 'next_counts': [1, 1]}
        """
        texts, starts, tokens, counts, next_starts, following, next_counts = self._held.contexts(
            threads=threads, watch=Watch(progress)
        )

        def lists(values: npt.NDArray[Any], ends: npt.NDArray[np.int64]) -> list[list[int]]:
            return [values[a:b].tolist() for a, b in zip(ends[:-1], ends[1:], strict=True)]

        return Table(
            {
                "text": texts,
                "tokens": lists(tokens, starts),
                "count": counts,
                "next": lists(following, next_starts),
                "next_counts": lists(next_counts, next_starts),
            }
        )

    @_arguments.checked()
    def read_loss(self, loss: float | Sequence[float]) -> LossReading:
        """Say what a training loss means, in nats per prediction: one number, or one per position.

        >>> import byrote
        >>> reading = byrote.Corpus(builtin=100).read_loss(1.2)
        >>> round(reading.gap_nats_per_prediction, 4)
        0.8464
        """
        losses = loss if isinstance(loss, Iterable) and not isinstance(loss, str) else [loss]
        text = ",".join(repr(_arguments.number("loss", one)) for one in losses)
        if not text:
            raise _arguments.wrong("loss", "the list is empty")
        return LossReading(json.loads(self._held.read_loss(text)))

    def _has_contexts(self) -> None:
        """Raise if its contexts are not available."""

    def __copy__(self) -> Corpus:
        return self  # Nothing changes a corpus.

    def __deepcopy__(self, memo: object) -> Corpus:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("a Corpus cannot be pickled: save it with Corpus(..., save=path) and read Corpus(merge=path), or read the files again")

    def __repr__(self) -> str:
        per = self._summary["floor_nats_per_prediction"]
        # A bound is rounded down, as the program prints it.
        floor = "nothing to predict" if per is None else f"floor {_down(per)} nats per prediction"
        return (
            f"Corpus({self.title}: {_counted(self.documents, 'document')}, {_counted(self.contexts, 'context')} "
            f"of at most {_counted(self.n_ctx, 'token')}, {floor})"
        )

    def _repr_html_(self) -> str:
        names = ("documents", "tokens", "d_vocab", "n_ctx", "contexts", "predictions", "deterministic_contexts")
        shown: dict[str, Any] = {name: self._summary[name] for name in names}
        if self._summary["predictions"]:
            shown["floor_nats_per_prediction"] = self.floor.nats_per_prediction
            shown["floor_bits_per_prediction"] = self.floor.bits_per_prediction
        return f"<p><b>{html.escape(self.title)}</b></p>{Result(shown)._repr_html_()}"


@_arguments.checked()
def builtin_stories(documents: int, *, seed: int = 0) -> list[str]:
    """Return built-in stories as texts, for examples.

    >>> Corpus.from_texts(builtin_stories(100)).floor_nats == Corpus(builtin=100).floor_nats
    True
    """
    return _byrote.builtin_stories(documents, seed=seed)


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _down(value: float) -> str:
    return str(Decimal(value).quantize(Decimal("1e-6"), ROUND_FLOOR))


CorpusLike = Union[Corpus, str, "os.PathLike[str]", Sequence["str | os.PathLike[str]"], None]
"""What calls take for a corpus: a :class:`Corpus`, a path, several paths, or None for the built-in stories."""


def corpus_of(corpus: CorpusLike, model: Model | None = None, progress: Progress = None, *, figures: bool = False) -> Corpus:
    """Return the corpus of a call; a path is read as the model reads it. Unless ``figures`` suffice, it must have its contexts."""
    if isinstance(corpus, Corpus):
        if not figures:
            corpus._has_contexts()
        return corpus
    try:
        paths: tuple[Any, ...] = () if corpus is None else (_arguments.paths("corpus", [corpus]),)
    except _errors.SettingError:
        hint = "from_texts and from_ids of byrote.Corpus take documents in memory"
        message = f"must be a byrote.Corpus, a path, or a list of paths (got {type(corpus).__name__}); {hint}"
        raise _arguments.wrong("corpus", message) from None
    if model is None:
        return Corpus(*paths, progress=progress)
    return Corpus.for_model(model, *paths, progress=progress)
