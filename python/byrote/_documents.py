"""Documents in memory, in whatever form they come, as the extension module takes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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
    if isinstance(given, (pyarrow.Table, pyarrow.RecordBatch)):
        raise TypeError("give one column of the table, such as table['text'] or table['input_ids']")
    column = given if isinstance(given, pyarrow.ChunkedArray) else pyarrow.chunked_array(given)
    return list(column.chunks)


def texts(given: Iterable[str]) -> Sequence[str]:
    """Return texts as a sequence of strings."""
    found = _column_of(given)
    chunks = _arrow(found)
    if chunks is not None:
        return [text for chunk in chunks for text in chunk.to_pylist() if text is not None]
    if isinstance(found, (list, tuple)):
        return found
    return list(found)


def _checked(array: Any, name: str = "ids") -> Ids:
    """Return a contiguous array of integers."""
    found = np.asarray(array)
    if found.size == 0 and found.dtype.kind == "f":
        found = found.astype(np.uint32)  # An empty list has no integers.
    if found.dtype.kind not in "iu":
        raise TypeError(f"{name}: must be integers (got {found.dtype})")
    if not found.dtype.isnative:
        found = found.astype(found.dtype.newbyteorder("="))
    return np.ascontiguousarray(found)


def _offsets(given: Any) -> npt.NDArray[np.uint64]:
    """Return offsets as the extension module takes them."""
    found = _checked(given, "offsets")
    if found.ndim != 1:
        raise ValueError(f"offsets: must be one-dimensional (got {found.ndim} dimensions)")
    if found.dtype.kind == "i" and found.size and int(found.min()) < 0:
        raise ValueError(f"offsets: must not be negative (got {int(found.min())})")
    if found.dtype == np.int64:
        return found.view(np.uint64)
    return found.astype(np.uint64, copy=False)


def _of_arrow(chunks: list[Any]) -> Flat | list[Ids]:
    """Return the ids of a column of lists. One chunk without nulls stays where it is."""
    if len(chunks) == 1 and chunks[0].null_count == 0 and hasattr(chunks[0], "offsets"):
        chunk = chunks[0]
        return Flat(_checked(chunk.values), offsets=_offsets(chunk.offsets))
    found: list[Ids] = []
    for chunk in chunks:
        if not hasattr(chunk, "offsets"):
            raise TypeError(f"ids: must be a column of lists of integers (got {chunk.type})")
        values, bounds = _checked(chunk.values), np.asarray(chunk.offsets)
        valid = np.asarray(chunk.is_valid())
        found.extend(values[bounds[i] : bounds[i + 1]] for i in range(len(chunk)) if valid[i])
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
    found = _column_of(given)
    marks = [name for name, value in (("offsets", offsets), ("separator_id", separator_id), ("chunk", chunk)) if value is not None]
    if len(marks) > 1:
        raise ValueError(f"{marks[1]}: cannot be combined with {marks[0]}")
    chunks = None if isinstance(found, np.ndarray) else _arrow(found)
    if chunks is not None:
        if marks:
            raise ValueError(f"{marks[0]}: a column of lists has its documents already")
        return _of_arrow(chunks)
    if not isinstance(found, np.ndarray) and not _is_flat(found):
        if marks:
            raise ValueError(f"{marks[0]}: a list of documents has its documents already")
        return [_one(document) for document in found]
    array = _checked(found)
    if array.ndim == 2:
        if marks:
            raise ValueError(f"{marks[0]}: a two-dimensional array has one document per row already")
        return Flat(array.reshape(-1), length=array.shape[1])
    if array.ndim != 1:
        raise ValueError(f"ids: must have one or two dimensions (got {array.ndim})")
    if offsets is not None:
        return Flat(array, offsets=_offsets(offsets))
    if separator_id is not None:
        return _between(array, separator_id)
    if chunk is not None:
        if chunk < 1:
            raise ValueError(f"chunk: must be at least 1 (got {chunk})")
        bounds = np.append(np.arange(0, len(array), chunk, dtype=np.uint64), np.uint64(len(array)))
        return Flat(array, offsets=bounds)
    if not windows:
        message = (
            "ids: one row of ids: give offsets, separator_id or chunk to mark where documents end, "
            'or contexts="windows" for one document'
        )
        raise ValueError(message)
    return Flat(array, offsets=np.array([0, len(array)], dtype=np.uint64))


def _is_flat(given: Any) -> bool:
    """Whether a list holds ids and not documents."""
    return isinstance(given, (list, tuple)) and len(given) > 0 and isinstance(given[0], (int, np.integer))


def _one(document: Any) -> Ids:
    array = _checked(document)
    if array.ndim != 1:
        raise ValueError(f"ids: a document must be one-dimensional (got {array.ndim} dimensions)")
    return array


def _between(array: Ids, separator_id: int) -> list[Ids]:
    """Return the documents between separators, as files of ids have them: the last need not end in one."""
    ends = np.flatnonzero(array == separator_id)
    starts = np.concatenate(([0], ends + 1))
    stops = np.concatenate((ends, [len(array)]))
    if len(starts) and starts[-1] == len(array):
        starts, stops = starts[:-1], stops[:-1]
    return [array[a:b] for a, b in zip(starts, stops, strict=True)]
