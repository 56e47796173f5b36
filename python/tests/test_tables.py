"""Tables reach other libraries through Arrow."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import byrote

ROWS = [
    {"n": 1, "x": 0.5, "name": "a", "ok": True, "maybe": None, "text": None, "list": [1, 2]},
    {"n": 2, "x": 1.5, "name": "ü", "ok": False, "maybe": 3, "text": "b", "list": []},
]


def test_columns_have_types_and_rows() -> None:
    table = byrote.Table.from_rows(ROWS)
    assert isinstance(table["n"], np.ndarray) and table["n"].dtype == np.int64
    assert isinstance(table["x"], np.ndarray) and table["x"].dtype == np.float64
    assert table["maybe"] == [None, 3] and table[1] == ROWS[1] and list(table) == ROWS
    assert "<td>ü</td>" in table._repr_html_()
    with pytest.raises(IndexError):
        table[2]
    for key in (["n"], None):
        with pytest.raises(TypeError, match="columns are chosen by name, and rows by number"):
            table[key]  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="columns: must be equally long"):
        byrote.Table({"a": [1, 2], "b": [1]})


def test_pyarrow_reads_a_table() -> None:
    pa = pytest.importorskip("pyarrow")
    found = pa.table(byrote.Table.from_rows(ROWS))
    assert found.to_pylist() == [{**row, "list": text} for row, text in zip(ROWS, ("[1, 2]", "[]"), strict=True)]
    found.validate(full=True)
    assert [str(field.type) for field in found.schema] == ["int64", "double", "large_string", "bool", "int64", "large_string", "large_string"]
    assert pa.table(byrote.Table({})).num_rows == 0
    for _ in range(200):
        byrote.Table.from_rows(ROWS).__arrow_c_stream__()  # Never read: the capsule frees it.
        pa.table(byrote.Table.from_rows(ROWS))
    gc.collect()
    reversed_rows = pa.table(byrote.Table({"n": np.arange(3)})[::-1])
    assert reversed_rows["n"].to_pylist() == [2, 1, 0]


def test_pandas_and_polars_read_a_table(stories: byrote.Corpus) -> None:
    pytest.importorskip("pandas")
    frame = stories.by_length.to_pandas()
    assert frame["contexts"].sum() == 337
    polars = pytest.importorskip("polars")
    assert stories.by_length.to_polars()["contexts"].sum() == 337
    assert polars.DataFrame(byrote.bounds(stories).rows).height == len(byrote.bounds(stories).rows)
