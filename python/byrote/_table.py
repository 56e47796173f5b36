"""Tables: columns by name, for notebooks and for every library that reads Arrow."""

from __future__ import annotations

import decimal
import html
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Union, overload

import numpy as np
import numpy.typing as npt

from byrote import _byrote, _errors

Column = Union[npt.NDArray[Any], list[Any]]
"""Numbers as a numpy array; texts, and columns with missing values, as a list."""


def _column(values: list[Any]) -> Column:
    """Return values as an array if they are all numbers of one kind."""
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return np.array(values, dtype=np.bool_)
    if kinds == {int} and all(-(1 << 63) <= value < 1 << 63 for value in values):
        return np.array(values, dtype=np.int64)
    if kinds and kinds <= {int, float}:
        return np.array(values, dtype=np.float64)
    return values


def six_digits(value: float, name: str = "") -> float:
    """Round a number to six digits; a bound, and the floor is one, outwards, so that what is shown is a bound too.

    >>> six_digits(0.0410546762), six_digits(0.0410546762, "floor_nats"), six_digits(1.00000004, "gap_nats_upper_bound")
    (0.0410547, 0.0410546, 1.00001)
    """
    if not math.isfinite(value):
        return value
    rounding = decimal.ROUND_HALF_EVEN
    if "lower_bound" in name or name.startswith("floor"):
        rounding = decimal.ROUND_FLOOR
    elif "upper_bound" in name:
        rounding = decimal.ROUND_CEILING
    return float(decimal.Context(prec=6, rounding=rounding).create_decimal(value))


def _shown(value: Any, name: str = "") -> str:
    """Return a value as a notebook shows it."""
    if value is None:
        return ""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    if isinstance(value, (float, np.floating)):
        return f"{six_digits(float(value), name):,.6g}"
    return str(value)


class Table:
    """A table: equally long columns by name.

    Other libraries read it without a copy of this package's code: it has ``__arrow_c_stream__``, so that ``pyarrow.table(t)``,
    ``polars.DataFrame(t)`` and ``duckdb`` take it as it is.

    >>> t = Table.from_rows([{"length": 1, "contexts": 3}, {"length": 2, "contexts": 5}])
    >>> t.columns, len(t)
    (['length', 'contexts'], 2)
    >>> t["contexts"].sum()
    np.int64(8)
    >>> t[1]
    {'length': 2, 'contexts': 5}
    """

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = dict(columns)
        lengths = {name: len(column) for name, column in self._columns.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name}: {length}" for name, length in lengths.items())
            raise ValueError(f"columns: must be equally long (got {listed})")

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Table:
        """Return the table of rows; a row without a value has None there.

        >>> Table.from_rows([{"n": 1, "name": "a"}, {"n": 2}])["name"]
        ['a', None]
        """
        names = list(dict.fromkeys(name for row in rows for name in row))
        return cls({name: _column([row.get(name) for row in rows]) for name in names})

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._columns)

    def __len__(self) -> int:
        for column in self._columns.values():
            return len(column)
        return 0

    @overload
    def __getitem__(self, key: str) -> Column: ...
    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice) -> Table: ...
    def __getitem__(self, key: str | int | slice) -> Column | dict[str, Any] | Table:
        if isinstance(key, str):
            if key not in self._columns:
                raise KeyError(f"there is no column {key}; the columns are {', '.join(self._columns)}")
            return self._columns[key]
        if isinstance(key, slice):
            return Table({name: column[key] for name, column in self._columns.items()})
        if not hasattr(key, "__index__"):
            raise TypeError(f"columns are chosen by name, and rows by number or slice (got {type(key).__name__})")
        if not -len(self) <= key < len(self):
            raise IndexError(f"there is no row {key} among {len(self)}")
        return {name: _item(column[key]) for name, column in self._columns.items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists."""
        return {name: [_item(value) for value in column] for name, column in self._columns.items()}

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``; pandas must be installed."""
        try:
            import pandas
        except ImportError:
            raise _errors.missing("to_pandas", "pandas") from None
        return pandas.DataFrame(self._columns)

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame``; polars must be installed."""
        try:
            import polars
        except ImportError:
            raise _errors.missing("to_polars", "polars") from None
        return polars.DataFrame(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the table as an Arrow stream. Lists and objects in it become JSON."""
        return _byrote.arrow_stream(self.columns, [_flat(column) for column in self._columns.values()])

    def __repr__(self) -> str:
        rows = "1 row" if len(self) == 1 else f"{len(self):,} rows"
        return f"Table({rows}: {', '.join(self.columns)})"

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self, rows: int = 50) -> str:
        """Return the first rows as an HTML table."""
        head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_shown(value, name))}</td>" for name, value in self[i].items()) + "</tr>"
            for i in range(min(rows, len(self)))
        )
        more = f"<p>{len(self) - rows:,} more rows</p>" if len(self) > rows else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _flat(column: Column) -> Column:
    """Return a column with texts in place of lists and objects."""
    if isinstance(column, np.ndarray):
        return np.require(column, requirements=["C", "A"])
    kinds = {type(value) for value in column if value is not None}
    if kinds <= {str} or kinds <= {int, float} or kinds <= {bool}:
        return column
    return [value if value is None or isinstance(value, str) else json.dumps(value) for value in column]
