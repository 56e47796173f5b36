"""Audits: what a language model has memorized of a text."""

from __future__ import annotations

import contextlib
import html
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from byrote import _arguments, _byrote, _documents, _errors
from byrote._corpus import Corpus
from byrote._model import Model
from byrote._progress import Progress, Watch
from byrote._results import Result
from byrote._settings import AuditSettings, Path, encode
from byrote._table import Table

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from byrote._corpus import CorpusLike

Logits = Callable[[npt.NDArray[np.int64]], Any]
"""A model as a function: token ids ``[batch, length]`` to logits ``[batch, length, d_vocab]``."""


class Audit(Result):
    """What a model has memorized of a text."""

    verdict: list[str]
    """What to repeat: at most five lines."""

    @property
    def documents(self) -> Table:
        """The measures of every document."""
        return Table.from_rows(self._fields.get("documents", []))

    @property
    def extractable_share(self) -> float | None:
        """The share of windows that greedy decoding continues token for token."""
        windows = self._fields.get("windows") or (self._fields.get("document_context") or {}).get("all")
        return None if windows is None else windows.get("share")

    def __repr__(self) -> str:
        first = self._fields["verdict"][0] if self._fields["verdict"] else "no verdict"
        return f"Audit({first})"

    def _repr_html_(self) -> str:
        return "".join(f"<p>{html.escape(line)}</p>" for line in self._fields["verdict"])


class _Function:
    """Runs a model on batches of sequences of one length, as the extension module asks for them."""

    def __init__(self, function: Logits, batch: int, d_vocab: int) -> None:
        self._function = function
        self._batch = batch
        self._d_vocab = d_vocab

    def __call__(self, asked: Sequence[tuple[npt.NDArray[np.int64], int]]) -> list[npt.NDArray[np.float32]]:
        found: list[npt.NDArray[np.float32] | None] = [None] * len(asked)
        order = sorted(range(len(asked)), key=lambda i: len(asked[i][0]))
        start = 0
        while start < len(order):
            length = len(asked[order[start]][0])
            end = start
            while end < len(order) and end - start < self._batch and len(asked[order[end]][0]) == length:
                end += 1
            some = order[start:end]
            rows = _array(self._function(np.stack([asked[i][0] for i in some])))
            if rows.shape != (len(some), length, self._d_vocab):
                expected = f"[{len(some)}, {length}, {self._d_vocab}]"
                raise ValueError(f"the model must return logits of shape [batch, length, d_vocab], here {expected} (got {list(rows.shape)})")
            for row, i in zip(rows, some, strict=True):
                n = asked[i][1]
                found[i] = np.require(row[length - n :], dtype=np.float32, requirements=["C", "A"])
            start = end
        return [rows for rows in found if rows is not None]


def _array(given: Any) -> npt.NDArray[Any]:
    """Return logits as a numpy array: from torch, from anything with DLPack, or as they are."""
    if hasattr(given, "logits"):
        given = given.logits
    if hasattr(given, "detach"):
        given = given.detach().to("cpu").float().numpy()
    elif hasattr(given, "__dlpack__") and not isinstance(given, np.ndarray):
        given = np.from_dlpack(given)
    found = np.asarray(given)
    if found.dtype.kind == "c":
        raise ValueError("the model must return real logits (got complex ones)")
    return found


def _is_transformers(model: Any) -> bool:
    return hasattr(model, "config") and hasattr(model, "generate") and hasattr(model, "parameters")


def _of_transformers(model: Any) -> tuple[Logits, dict[str, Any]]:
    """Return a model of ``transformers`` as a function, and what is known of it."""
    import torch

    config = model.config
    names = ("n_positions", "max_position_embeddings", "n_ctx", "seq_length")
    n_ctx = next((int(getattr(config, name)) for name in names if getattr(config, name, None)), None)

    def logits(ids: npt.NDArray[np.int64]) -> Any:
        was_training = model.training
        model.eval()
        try:
            with torch.no_grad():
                return model(torch.from_numpy(ids).to(model.device)).logits
        finally:
            model.train(was_training)

    facts = {
        "path": str(getattr(config, "_name_or_path", "") or type(model).__name__),
        "family": str(getattr(config, "model_type", type(model).__name__)),
        "parameters": sum(p.numel() for p in model.parameters()),
        "dtype": str(getattr(model, "dtype", "")).replace("torch.", ""),
        "n_ctx": n_ctx,
        "d_vocab": int(config.vocab_size),
        "instruct": False,
        "tokenizer": "ids",
    }
    return logits, facts


def _ids(document: Any, d_vocab: int | None) -> list[int]:
    """Return a document of token ids."""
    ids: list[int] = _documents.one(document, "corpus").tolist()
    odd = next((i for i in ids if not 0 <= i < 1 << 32), None)
    if odd is not None:
        raise _arguments.wrong("corpus", f"has the id {odd}: token ids are from 0 to 4294967295")
    if d_vocab is not None and ids and max(ids) >= d_vocab:
        raise _arguments.wrong("corpus", f"has the id {max(ids)}: with d_vocab={d_vocab}, token ids are from 0 to {d_vocab - 1}")
    return ids


@contextlib.contextmanager
def _text(corpus: Any, d_vocab: int | None = None) -> Iterator[dict[str, Any]]:
    """Give the settings of a text; texts and ids in memory become a temporary file."""
    if isinstance(corpus, Corpus):
        known = set(_byrote.fields("text"))
        settings = corpus.settings
        if corpus._held.title() in ("texts", "ids") and not settings.get("paths"):
            raise TypeError("corpus: give the texts or the ids themselves; a Corpus keeps only their contexts")
        yield {name: value for name, value in settings.items() if name in known and value not in (None, [], False)}
        return
    if corpus is None or isinstance(corpus, (str, os.PathLike)):
        yield {} if corpus is None else {"paths": os.fspath(corpus)}
        return
    if not isinstance(corpus, Iterable):
        raise _arguments.wrong("corpus", f"must be a path, texts, or lists of token ids (got {type(corpus).__name__})")
    items = list(corpus)
    if items and all(isinstance(item, (str, os.PathLike)) and os.path.exists(item) for item in items):
        yield {"paths": [os.fspath(item) for item in items]}
        return
    with tempfile.TemporaryDirectory(prefix="byrote-") as folder:
        name = os.path.join(folder, "documents.jsonl")
        with open(name, "w", encoding="utf-8") as file:
            for item in items:
                record = item if isinstance(item, str) else _ids(item, d_vocab)
                file.write(json.dumps({"text": record}) + "\n")
        try:
            yield {"paths": name}
        except _errors.Error as error:
            place = "corpus" if error.line is None else f"corpus, document {error.line}"
            shown = name if error.line is None else f"{name}, line {error.line}"
            raise _errors.renamed(error, {shown: place, name: "corpus"}) from None


@_arguments.checked("text", "audit")
def audit(
    model: Model | Path | Logits | Any,
    corpus: CorpusLike | Iterable[str] | Iterable[Any] = None,
    *,
    tokenizer: Any = None,
    vocabulary: Corpus | None = None,
    d_vocab: int | None = None,
    n_ctx: int | None = None,
    start_token: int | None = None,
    batch_size: int = 8,
    reference: Path | None = None,
    held_out: Path | Iterable[Path] | None = None,
    canaries: Path | None = None,
    seed: int = 0,
    out: Path | None = None,
    threads: int | None = None,
    progress: Progress = None,
    **settings: Unpack[AuditSettings],
) -> Audit:
    """Audit a language model: what can be extracted verbatim, how many bits, how far it is from the floor.

    ``model`` is a path (a directory of Hugging Face, a GGUF file, a model of byrote, log-probabilities of another program), a
    :class:`Model`, a model of ``transformers``, or any function from token ids ``[batch, length]`` to logits
    ``[batch, length, d_vocab]``; a function needs ``d_vocab``, and ``n_ctx`` if it cannot read contexts of any length. ``corpus`` is a path, several, a list of texts, or a list of ids.
    ``tokenizer`` is the name of a tokenizer, the path of a ``tokenizer.json``, or a fast tokenizer of ``transformers``; for a
    function whose ids are those of a byrote corpus of characters or words, give that corpus as ``vocabulary``. The other
    keywords are the options of ``byrote audit --help``.

    >>> import byrote, numpy as np
    >>> def copies(ids):                       # a model that has learnt one sequence by heart: 0 1 2 3 0 1 2 3 ...
    ...     logits = np.zeros((*ids.shape, 4), dtype=np.float32)
    ...     np.put_along_axis(logits, ((ids + 1) % 4)[..., None], 9.0, -1)
    ...     return logits
    >>> documents = [[(i + k) % 4 for i in range(40)] for k in range(3)]
    >>> a = byrote.audit(copies, documents, d_vocab=4, n_ctx=64, prefix=8, suffix=8, bos="none")
    >>> a.extractable_share
    1.0
    """
    watch = Watch(progress)
    if vocabulary is not None and not isinstance(vocabulary, Corpus):
        raise _arguments.wrong("vocabulary", f"must be a byrote.Corpus (got {type(vocabulary).__name__})")
    if start_token is not None:
        _arguments.whole("start_token", start_token, most=(1 << 32) - 1)
    wanted = _arguments.of_corpus((), settings)
    if corpus is not None and wanted.get("paths") is not None:
        raise _arguments.wrong("paths", "cannot be combined with corpus")
    is_function = callable(model) and not isinstance(model, Model) and not _is_transformers(model)
    if is_function and d_vocab is None and vocabulary is not None:
        d_vocab = vocabulary.d_vocab
    with contextlib.ExitStack() as stack:
        # A model that reads ids says so as an error of its text.
        stack.enter_context(_errors.called("text", "corpus"))
        given = {**stack.enter_context(_text(corpus, d_vocab if is_function else None)), **wanted}
        if tokenizer is not None:
            given["tokenizer"] = _tokenizer(tokenizer, stack)
        how: dict[str, Any] = {
            "reference": None if reference is None else os.fspath(reference),
            "held_out": [] if held_out is None else _arguments.paths("held_out", [held_out]),
            "canaries": None if canaries is None else os.fspath(canaries),
            "seed": seed,
            "out": None if out is None else os.fspath(out),
            "command": "byrote.audit(...)",
            "threads": threads,
            "watch": watch,
        }
        if n_ctx is not None and not is_function:
            given["n_ctx"] = n_ctx
        if isinstance(model, Model):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="byrote-"))
            path = os.path.join(folder, "model.safetensors")
            model.save(path)
            return Audit(json.loads(_byrote.audit(encode(given), path=path, **how)))
        if isinstance(model, (str, os.PathLike)):
            return Audit(json.loads(_byrote.audit(encode(given), path=os.fspath(model), **how)))
        if _is_transformers(model):
            function, facts = _of_transformers(model)
        elif is_function:
            if d_vocab is None:
                raise TypeError("d_vocab: how many tokens the function knows must be given")
            function = model
            facts = {
                "path": getattr(model, "__name__", type(model).__name__),
                "family": "function",
                "parameters": None,
                "dtype": None,
                "instruct": False,
                "tokenizer": "ids" if vocabulary is None else str(vocabulary.to_dict()["tokenizer"]),
            }
        else:
            raise TypeError(f"model: {type(model).__name__} is neither a path, nor a model, nor a function")
        facts["d_vocab"] = d_vocab if d_vocab is not None else facts["d_vocab"]
        facts["n_ctx"] = n_ctx if is_function else facts["n_ctx"]
        found = _byrote.audit(
            encode(given),
            function=_Function(function, batch_size, facts["d_vocab"]),
            facts=json.dumps(facts),
            start_token=start_token,
            vocabulary=None if vocabulary is None else vocabulary._held,
            **how,
        )
    return Audit(json.loads(found))


def _tokenizer(given: Any, stack: contextlib.ExitStack) -> str:
    """Return a tokenizer as the library names it; one of ``transformers`` becomes a temporary ``tokenizer.json``."""
    if isinstance(given, (str, os.PathLike)):
        return os.fspath(given)
    backend = getattr(given, "backend_tokenizer", given)
    if not hasattr(backend, "to_str"):
        raise TypeError("tokenizer: must be a name, a path, or a fast tokenizer of transformers")
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="byrote-"))
    path = os.path.join(folder, "tokenizer.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(backend.to_str())
    return path


@_arguments.checked()
def compare_audits(before: Path, after: Path) -> Result:
    """Compare two audits of the same text, by their directories (``out``).

    >>> import byrote, os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = os.path.join(folder, "text.txt")
    ...     with open(text, "w") as file:
    ...         _ = file.write("the cat sat on the mat and the dog sat on the log\\n")
    ...     corpus = byrote.Corpus(text, n_ctx=12)
    ...     for steps in (1, 50):
    ...         model = byrote.train(corpus, preset="gpt2", n_layers=1, d_model=16, n_heads=2, steps=steps).model
    ...         _ = byrote.audit(model, text, prefix=4, suffix=4, out=os.path.join(folder, str(steps)))
    ...     found = byrote.compare_audits(os.path.join(folder, "1"), os.path.join(folder, "50"))
    >>> len(found) > 0
    True
    """
    return Result(json.loads(_byrote.compare_audits(os.fspath(before), os.fspath(after))))
