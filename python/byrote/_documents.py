"""Documents in memory, in whatever form they come, as the extension module takes them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from byrote._arguments import whole

Ids = npt.NDArray[Any]


@dataclass(frozen=True)
class Flat:
    """Documents in one array: of equal length, or between offsets."""

    ids: Ids
    length: int | None = None
    offsets: npt.NDArray[np.uint64] | None = None


def _column_of(given: Any) -> Any:
    """Return the data of a column of a Hugging Face dataset, which is Arrow underneath; anything else as it is."""
    source, name = getattr(given, "source", None), getattr(given, "column_name", None)
    if source is not None and isinstance(name, str) and hasattr(source, "with_format"):
        return source.with_format("arrow")[:][name]
    return given


def _arrow(given: Any) -> list[Any] | None:
    """Return the chunks of an Arrow column as arrays of pyarrow, or None if it is no such column."""
    if not (hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__")):
        return None
    try:
        import pyarrow
    except ImportError:
        return None
    column = given if isinstance(given, pyarrow.ChunkedArray) else pyarrow.chunked_array(given)
    return list(column.chunks)


def _refuse(given: Any, name: str, example: str) -> None:
    """Refuse what is not a list or a column: a table, a path, one document, a dictionary."""
    kind = type(given).__name__
    if hasattr(given, "column_names") or (hasattr(given, "columns") and not callable(given.columns)):
        raise TypeError(f"{name}: give one column of the table, such as table[{example!r}]")
    if isinstance(given, Mapping):
        raise TypeError(f"{name}: give a list of documents, or one column (got {kind})")
    if isinstance(given, os.PathLike):
        raise TypeError(f"{name}: give the documents themselves; byrote.Corpus(path) reads files")
    if not isinstance(given, Iterable) and not hasattr(given, "__array__") and not hasattr(given, "__arrow_c_array__"):
        raise TypeError(f"{name}: must be a list of documents (got {kind})")


def texts(given: Iterable[str]) -> Sequence[str]:
    """Return texts as a sequence of strings."""
    if isinstance(given, (str, bytes)):
        raise TypeError("texts: give a list of texts, one per document; for one document write [text], for a file byrote.Corpus(path)")
    _refuse(given, "texts", "text")
    found = _column_of(given)
    chunks = _arrow(found)
    if chunks is not None:
        return [text for chunk in chunks for text in chunk.to_pylist() if text is not None]
    if isinstance(found, (list, tuple)):
        return found
    return list(found)


def _checked(array: Any, name: str = "ids") -> Ids:
    """Return a contiguous and aligned array of integers."""
    if np.ma.is_masked(array):
        raise TypeError(f"{name}: has masked values; pass {name}.compressed(), or fill them")
    try:
        found = np.asarray(array)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: a document must be a list of integers (got a list that also holds other things)") from None
    if found.size == 0 and found.dtype.kind == "f":
        found = found.astype(np.uint32)  # An empty list has no integers.
    if found.dtype.kind == "O" and found.size and all(_is_id(x) for x in found.flat):
        found = found.astype(np.int64)
    if found.dtype.kind not in "iu":
        raise TypeError(f"{name}: must be integers (got {_what(found)})")
    if not found.dtype.isnative:
        found = found.astype(found.dtype.newbyteorder("="))
    return np.require(found, requirements=["C", "A"])


def _is_id(value: object) -> bool:
    """Whether a value is an integer that an array of numpy can hold."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value).bit_length() <= 63


def _what(array: Ids) -> str:
    """Return what an array has in place of integers, in words."""
    if array.dtype.kind in "US":
        return "text"
    if array.dtype.kind == "O":
        odd = next((x for x in array.flat if not _is_id(x)), None)
        return repr(odd) if len(repr(odd)) <= 40 else type(odd).__name__
    return str(array.dtype)


def _offsets(given: Any) -> npt.NDArray[np.uint64]:
    """Return offsets as the extension module takes them."""
    found = _checked(given, "offsets")
    if found.ndim != 1:
        raise ValueError(f"offsets: must be one-dimensional (got {found.ndim} dimensions)")
    if len(found) == 0:
        raise ValueError("offsets: must be one more than there are documents (got none)")
    if found.dtype.kind == "i" and found.size and int(found.min()) < 0:
        raise ValueError(f"offsets: must not be negative (got {int(found.min())})")
    if found.dtype == np.int64:
        return found.view(np.uint64)
    return found.astype(np.uint64, copy=False)


def _has_lists(chunk: Any) -> bool:
    """Whether an array of Arrow holds lists of any kind."""
    return hasattr(chunk, "offsets") or hasattr(chunk.type, "list_size")


def _of_arrow(chunks: list[Any]) -> Flat | list[Ids]:
    """Return the ids of a column of lists. One chunk without nulls stays where it is, unless it is of list views."""
    if len(chunks) == 1 and chunks[0].null_count == 0 and hasattr(chunks[0], "offsets") and not hasattr(chunks[0], "sizes"):
        return Flat(_checked(chunks[0].values), offsets=_offsets(chunks[0].offsets))
    found: list[Ids] = []
    for chunk in chunks:
        size = getattr(chunk.type, "list_size", 0)
        if size > 0 and chunk.null_count == 0:
            values = _checked(chunk.flatten()).reshape(-1, size)
            if len(chunks) == 1:
                return Flat(values.reshape(-1), length=size)
            found.extend(values)
        elif hasattr(chunk.type, "list_size"):
            # What missing lists hold is undefined.
            found.extend(_checked(row.values) for row in chunk if row.is_valid)
        else:
            values, starts = _checked(chunk.values), np.asarray(chunk.offsets)
            # The lists of a view may lie in any order and overlap.
            stops = starts + np.asarray(chunk.sizes) if hasattr(chunk, "sizes") else starts[1:]
            valid = np.asarray(chunk.is_valid())
            found.extend(values[starts[i] : stops[i]] for i in range(len(chunk)) if valid[i])
    return found


def ids(
    given: Any,
    offsets: npt.ArrayLike | None = None,
    *,
    separator_id: int | None = None,
    chunk: int | None = None,
    windows: bool = False,
) -> Flat | list[Ids]:
    """Return documents of ids as one array or as several."""
    _refuse(given, "ids", "input_ids")
    if isinstance(given, (str, bytes)):
        raise TypeError("ids: give the ids themselves; byrote.Corpus(path) reads files, from_texts takes texts")
    found = _column_of(given)
    marks = [name for name, value in (("offsets", offsets), ("separator_id", separator_id), ("chunk", chunk)) if value is not None]
    if len(marks) > 1:
        raise ValueError(f"{marks[1]}: cannot be combined with {marks[0]}")
    chunks = None if isinstance(found, np.ndarray) else _arrow(found)
    if chunks and not any(_has_lists(chunk) for chunk in chunks):
        # A column of numbers is one row of ids.
        found, chunks = np.concatenate([np.asarray(chunk) for chunk in chunks]), None
    if chunks is not None:
        if marks:
            raise ValueError(f"{marks[0]}: a column of lists has its documents already")
        return _of_arrow(chunks)
    if not isinstance(found, (np.ndarray, list, tuple)):
        # A tensor of torch, a range, a column of pandas, anything that can be iterated.
        array = np.asarray(found) if hasattr(found, "__array__") else None
        found = array if array is not None and array.dtype.kind != "O" else list(found)
    if isinstance(found, np.ndarray) and found.dtype.kind == "O" and found.ndim == 1:
        found = list(found)  # Such as the values of a column of pandas.
    if not isinstance(found, np.ndarray) and not _is_flat(found):
        if marks:
            raise ValueError(f"{marks[0]}: a list of documents has its documents already")
        return [one(document) for document in found]
    array = _checked(found)
    if array.ndim == 2:
        if marks:
            raise ValueError(f"{marks[0]}: a two-dimensional array has one document per row already")
        if array.shape[1] == 0:
            return list(array)
        return Flat(array.reshape(-1), length=array.shape[1])
    if array.ndim != 1:
        raise ValueError(f"ids: must have one or two dimensions (got {array.ndim})")
    if offsets is not None:
        return Flat(array, offsets=_offsets(offsets))
    if separator_id is not None:
        return _between(array, whole("separator_id", separator_id, most=(1 << 32) - 1))
    if chunk is not None:
        bounds = np.append(np.arange(0, len(array), chunk, dtype=np.uint64), np.uint64(len(array)))
        return Flat(array, offsets=bounds)
    if not windows and len(array) > 0:
        message = (
            "ids: is one row of ids: give offsets, separator_id or chunk to mark where documents end, "
            'or contexts="windows" to count the windows of one document'
        )
        raise ValueError(message)
    return Flat(array, offsets=np.array([0, len(array)], dtype=np.uint64))


def _is_flat(given: Any) -> bool:
    """Whether a list holds ids and not documents."""
    return isinstance(given, (list, tuple)) and len(given) > 0 and isinstance(given[0], (int, np.integer))


def one(document: Any, name: str = "ids") -> Ids:
    """Return one document."""
    array = _checked(document, name)
    if array.ndim == 0:
        raise TypeError(f"{name}: a document must be a list of integers (got {document!r} beside lists)")
    if array.ndim != 1:
        raise ValueError(f"{name}: a document must be one-dimensional (got {array.ndim} dimensions)")
    return array


def _between(array: Ids, separator_id: int) -> list[Ids]:
    """Return the documents between separators, as files of ids have them: the last need not end in one."""
    ends = np.flatnonzero(array == separator_id)
    starts = np.concatenate(([0], ends + 1))
    stops = np.concatenate((ends, [len(array)]))
    if len(starts) and starts[-1] == len(array):
        starts, stops = starts[:-1], stops[:-1]
    return [array[a:b] for a, b in zip(starts, stops, strict=True)]
