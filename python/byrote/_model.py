"""Models: built, trained or loaded."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from byrote import _arguments, _byrote, _errors
from byrote._corpus import corpus_of
from byrote._progress import Progress, Watch
from byrote._results import Construction, Prediction
from byrote._settings import Path
from byrote._table import Table

if TYPE_CHECKING:
    from byrote._corpus import CorpusLike


class Model:
    """A model of any kind: a transformer, an exact network (kajitsuka2024), or a network that learns in context (sander2024).

    Build one with :mod:`byrote.build`, train one with :func:`byrote.train`, or read one with :func:`byrote.load`.
    """

    report: Construction | None
    """What its builder reported, if it was just built."""

    def __init__(self, held: _byrote.Model, report: Construction | None = None) -> None:
        self._held = held
        self._show: dict[str, Any] = json.loads(held.show())
        self.report = report

    @property
    def kind(self) -> str:
        """What it is, in words."""
        return self._held.kind()

    @property
    def parameters(self) -> int:
        """How many parameters it has."""
        return int(self._show["parameters"])

    @property
    def config(self) -> dict[str, Any]:
        """Shape and switches of a transformer."""
        found: dict[str, Any] = self._show.get("config", {})
        return found

    @property
    def vocabulary(self) -> list[str]:
        """The tokens by id, as text."""
        return self._held.vocabulary()

    @property
    def tensors(self) -> Table:
        """Names, shapes, kinds and sizes of the weights."""
        return Table.from_rows(self._show.get("tensors", []))

    def to_dict(self) -> dict[str, Any]:
        """Return what it holds: the JSON object of ``byrote show --json``.

        >>> import byrote
        >>> byrote.build.madden2024(byrote.Corpus(builtin=20)).to_dict()["parameters"] > 0
        True
        """
        return dict(self._show)

    @_arguments.checked()
    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text; a token that the model does not know is an error.

        >>> import byrote
        >>> m = byrote.build.madden2024(byrote.Corpus(builtin=20))
        >>> [m.vocabulary[i] for i in m.encode("Once upon")]
        ['Once', 'upon']
        """
        return self._held.encode(text)

    @_arguments.checked()
    def logits(self, context: str | Sequence[int] | npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return the logits of the next token after a context, computed in f64.

        >>> import byrote
        >>> m = byrote.build.madden2024(byrote.Corpus(builtin=20))
        >>> m.logits("Once upon").shape == (len(m.vocabulary),)
        True
        """
        return self._held.logits(self.encode(context) if isinstance(context, str) else _ids(context))

    @_arguments.checked()
    def predict(
        self,
        context: str | Sequence[int] | npt.NDArray[Any],
        *,
        corpus: CorpusLike = None,
        top: int = 10,
        logits: bool = False,
        progress: Progress = None,
    ) -> Prediction:
        """Predict the token after a text or after token ids; with a corpus, beside what follows there.

        >>> import byrote
        >>> c = byrote.Corpus(builtin=100)
        >>> m = byrote.build.madden2024(c)
        >>> m.predict("Once upon", top=1).next[0]["text"]
        'a'
        """
        read = None if corpus is None else corpus_of(corpus, self, progress)
        text = context if isinstance(context, str) else None
        ids = None if isinstance(context, str) else _ids(context)
        with _errors.called("text", "context"):
            found = _byrote.predict(
                self._held,
                text=text,
                ids=ids,
                corpus=None if read is None else read._held,
                top=top,
                logits=logits,
                watch=Watch(progress),
            )
        return Prediction(json.loads(found))

    def state_dict(self) -> dict[str, npt.NDArray[Any]]:
        """Return the weights by their TransformerLens names, as numpy arrays in the precision in which they are stored.

        >>> import byrote
        >>> m = byrote.build.madden2024(byrote.Corpus(builtin=20))
        >>> sorted(m.state_dict())[:3]
        ['W_E', 'W_K', 'W_O']
        """
        return self._held.tensors()

    def to_torch(self) -> Any:
        """Return a ``torch.nn.Module`` with the same weights and the same logits; torch must be installed.

        It takes token ids ``[batch, length]`` and returns logits ``[batch, length, d_vocab]``: at every position those of the
        token after it.

        >>> import byrote
        >>> m = byrote.build.madden2024(byrote.Corpus(builtin=20))
        >>> module = m.to_torch()  # doctest: +SKIP
        """
        try:
            from byrote._torch import module
        except ImportError:
            raise _errors.missing("to_torch", "torch") from None
        return module(self)

    @_arguments.checked()
    def save(self, path: Path) -> None:
        """Write the model: a transformer as safetensors.

        >>> import byrote, os, tempfile
        >>> m = byrote.build.madden2024(byrote.Corpus(builtin=20))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     m.save(os.path.join(folder, "m.safetensors"))
        ...     byrote.load(os.path.join(folder, "m.safetensors")).parameters == m.parameters
        True
        """
        self._held.save(os.fspath(path))

    def __repr__(self) -> str:
        return f"Model({self.kind}, {self.parameters:,} parameters)"

    def _repr_html_(self) -> str:
        return f"<p><b>{self.kind}</b>, {self.parameters:,} parameters</p>{self.tensors.to_html()}"

    def __copy__(self) -> Model:
        return Model(self._held, self.report)

    def __deepcopy__(self, memo: object) -> Model:
        return Model(self._held, self.report)  # Nothing changes the weights.

    def __reduce__(self) -> Any:
        return _from_bytes, (*self._held.to_bytes(), self.report)


def _ids(context: Any) -> list[int]:
    """Return a context of token ids."""
    if not isinstance(context, Iterable):
        raise _arguments.wrong("context", f"must be a text or token ids (got {context!r})")
    return [_arguments.whole("context", token, most=(1 << 32) - 1) for token in context]


def _from_bytes(kind: str, data: bytes, report: Construction | None) -> Model:
    """Return a model from the kind and the bytes of its file, as pickling does."""
    return Model(_byrote.Model.from_bytes(kind, data), report)


@_arguments.checked()
def load(path: Path) -> Model:
    """Read a model: a file of byrote (safetensors), a GGUF file, or a directory of Hugging Face.

    >>> import byrote, tempfile, os
    >>> m = byrote.build.madden2024(byrote.Corpus(builtin=20))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     m.save(os.path.join(folder, "m.safetensors"))
    ...     again = byrote.load(os.path.join(folder, "m.safetensors"))
    >>> again.parameters == m.parameters
    True
    """
    return Model(_byrote.Model.load(os.fspath(path)))


def model_of(model: Model | Path, name: str = "model") -> Model:
    """Return the model of a call, which may be given by its path."""
    if isinstance(model, Model):
        return model
    if not isinstance(model, (str, os.PathLike)):
        raise _arguments.wrong(name, f"must be a byrote.Model or a path (got {type(model).__name__})")
    return load(model)

