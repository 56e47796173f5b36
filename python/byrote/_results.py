"""Results: the JSON objects of the program with attributes, and what a notebook shows of them."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from byrote._table import Table, _shown, six_digits

if TYPE_CHECKING:
    import os

    import numpy as np
    import numpy.typing as npt

    from byrote._model import Model


class Result(Mapping[str, Any]):
    """A result: the fields that the program prints with ``--json``, as attributes and as items.

    >>> r = Result({"loss_nats": 1.5, "by_length": [{"length": 1, "contexts": 3}]})
    >>> r.loss_nats, r["loss_nats"]
    (1.5, 1.5)
    >>> r.by_length
    Table(1 row: length, contexts)
    """

    #: Fields that ``repr`` and notebooks show, in this order.
    _main: ClassVar[tuple[str, ...]] = ()

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = dict(fields)

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__.get("_fields", {})
        if name not in fields:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}; it has {', '.join(fields)}")
        value = fields[name]
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            return Table.from_rows(value)
        return value

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._fields]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a plain dictionary: the JSON object of the program."""
        return dict(self._fields)

    def to_json(self) -> str:
        """Return the fields as JSON.

        >>> Result({"contexts": 3}).to_json()
        '{"contexts": 3}'
        """
        return json.dumps(self._fields, ensure_ascii=False)

    def _shown_fields(self) -> dict[str, Any]:
        names = self._main or tuple(self._fields)
        simple = (str, int, float, bool)
        return {name: self._fields[name] for name in names if isinstance(self._fields.get(name), simple)}

    def __repr__(self) -> str:
        inside = ", ".join(
            f"{name}={six_digits(value, name):.6g}" if isinstance(value, float) else f"{name}={value!r}"
            for name, value in self._shown_fields().items()
        )
        return f"{type(self).__name__}({inside})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name.replace('_', ' '))}</th>"
            f"<td style='text-align:left'>{html.escape(_shown(value, name))}</td></tr>"
            for name, value in self._shown_fields().items()
        )
        return f"<table><tbody>{rows}</tbody></table>"


class Bounds(Result):
    """What capacity bounds say of a corpus, a model, or both."""

    _main = ("parameters",)

    @property
    def rows(self) -> Table:
        """One row per bound: key, whether it applies and why not, what it says."""
        return Table.from_rows(self._fields["rows"])

    @property
    def applicable(self) -> Table:
        """The rows that apply."""
        return Table.from_rows([row for row in self._fields["rows"] if row["applies"]])

    @property
    def smallest_models(self) -> Table:
        """The smallest models of each family that are guaranteed to suffice."""
        return Table.from_rows(self._fields["smallest_models"])

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        return str(self._fields["verdict"]["sentence"])

    def __repr__(self) -> str:
        return f"Bounds({len(self.applicable)} of {len(self.rows)} apply: {self.verdict})"

    def _repr_html_(self) -> str:
        names = ("key", "kind", "contexts", "required_parameters", "statement")
        rows = [{name: row.get(name) for name in names} for row in self._fields["rows"] if row["applies"]]
        return f"<p>{html.escape(self.verdict)}</p>{Table.from_rows(rows).to_html()}"


class Evaluation(Result):
    """How well a model knows a corpus. Losses ending in ``_nats`` are sums over all predictions.

    An exact network (kajitsuka2024) has no ``by_length``, no ``worst`` and no losses per prediction.
    """

    contexts: int
    predictions: int
    loss_nats: float | None
    floor_nats: float
    gap_nats: float | None
    loss_nats_per_prediction: float
    floor_nats_per_prediction: float
    gap_nats_per_prediction: float
    memorized: int
    memorized_distribution: int
    max_kl_nats: float | None
    accuracy: float
    prediction_accuracy: float
    parameters: int
    by_length: Table
    worst: Table
    seconds: float

    _main: ClassVar[tuple[str, ...]] = (
        "contexts",
        "memorized",
        "loss_nats_per_prediction",
        "floor_nats_per_prediction",
        "gap_nats_per_prediction",
        "accuracy",
        "parameters",
    )


class Certificate(Result):
    """What was proven about a model, in rigorous arithmetic."""

    verdict: str
    certified_contexts: int
    contexts: int
    min_margin_lower_bound: float
    gap_nats_upper_bound: float
    arithmetic: str
    seconds: float

    _main = ("verdict", "certified_contexts", "contexts", "min_margin_lower_bound", "gap_nats_upper_bound", "arithmetic")

    def __bool__(self) -> bool:
        """Whether every context is proven to be memorized."""
        return bool(self._fields["verdict"] == "certified")


class Prediction(Result):
    """The next-token distribution of a model for a context."""

    tokens: list[int]
    texts: list[str]
    next: Table
    corpus_count: float | None

    def __repr__(self) -> str:
        best = ", ".join(
            f"{row['text']!r}: {row['probability']:.4f}" if "probability" in row else repr(row["text"])
            for row in self._fields["next"][:5]
        )
        return f"Prediction(after {self._fields['texts']}: {best})"

    def _repr_html_(self) -> str:
        return Table.from_rows(self._fields["next"]).to_html()


class Construction(Result):
    """What a builder of closed-form models reports.

    For madden2024 and dana2024 it has the fields of an :class:`Evaluation`; kajitsuka2024 and ``literal`` have fields of their own.
    """

    method: str
    seed: int
    contexts: int
    seconds: float

    _main: ClassVar[tuple[str, ...]] = Evaluation._main


class Training(Evaluation):
    """A training run: its model, its curve of losses, and how it ended."""

    model: Model
    """The trained model."""
    steps: int
    stop: str
    optimizer: str
    seconds_training: float

    _main: ClassVar[tuple[str, ...]] = ("stop", "steps", *Evaluation._main)

    def __init__(
        self,
        fields: Mapping[str, Any],
        model: Model,
        curve: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]],
    ) -> None:
        super().__init__(fields)
        self.model = model
        steps, evaluations, losses = curve
        self._curve = Table({"step": steps, "evaluations": evaluations, "loss_nats": losses})

    def __getattr__(self, name: str) -> Any:
        if name in Evaluation.__annotations__ and name not in self.__dict__.get("_fields", {}):
            message = "the run was interrupted before its model was evaluated; byrote.evaluate(run.model, corpus) does that"
            raise AttributeError(f"Training has no field {name!r}: {message}")
        return super().__getattr__(name)

    @property
    def curve(self) -> Table:
        """The loss by step: ``step``, ``evaluations``, ``loss_nats``."""
        return self._curve

    @property
    def reached(self) -> bool:
        """Whether the target gap was reached."""
        return bool(self._fields["stop"] == "reached")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model."""
        self.model.save(path)
