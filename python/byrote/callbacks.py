"""Callbacks: loggers for :func:`byrote.train`, and the floor beside the loss of your own training run.

>>> import byrote
>>> from byrote.callbacks import History
>>> history = History()
>>> r = byrote.train(byrote.Corpus(builtin=20), d_mlp=16, steps=5, callback=history)
>>> history.table.columns
['step', 'loss', 'gap', 'seconds']
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from byrote import _arguments, _errors
from byrote._corpus import Corpus
from byrote._settings import CorpusSettings
from byrote._table import Table

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from byrote._jobs import Step

__all__ = ["FloorCallback", "History", "TensorBoard", "WandB"]


class History:
    """Keeps step, loss, gap and seconds of every step it sees.

    >>> import byrote
    >>> history = History()
    >>> _ = byrote.train(byrote.Corpus(builtin=20), d_mlp=8, steps=3, callback=history)
    >>> len(history.table)
    4
    """

    def __init__(self) -> None:
        self._rows: list[dict[str, float]] = []

    def __call__(self, step: Step) -> None:
        self._rows.append({"step": step.step, "loss": step.loss, "gap": step.gap, "seconds": step.seconds})

    @property
    def table(self) -> Table:
        """What was seen."""
        return Table.from_rows(self._rows)


class TensorBoard:
    """Writes loss, gap and floor to a TensorBoard log; ``torch`` and ``tensorboard`` must be installed."""

    def __init__(self, log_dir: str | None = None, *, writer: Any = None) -> None:
        if writer is None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise _errors.missing("byrote.callbacks.TensorBoard", "torch", "tensorboard") from None
            writer = SummaryWriter(log_dir)
        self.writer = writer

    def __call__(self, step: Step) -> None:
        for name in ("loss", "gap", "floor"):
            self.writer.add_scalar(f"byrote/{name}", getattr(step, name), step.step)


class WandB:
    """Logs loss, gap and floor to a run of Weights & Biases; ``wandb`` must be installed."""

    def __init__(self, run: Any = None, **init: Any) -> None:
        if run is None:
            try:
                import wandb
            except ImportError:
                raise _errors.missing("byrote.callbacks.WandB", "wandb") from None
            run = wandb.init(**init)
        self.run = run

    def __call__(self, step: Step) -> None:
        values = {f"byrote/{name}": getattr(step, name) for name in ("loss", "gap", "floor")}
        self.run.log(values, step=step.step)


def _trainer_callback() -> Any:
    try:
        from transformers import TrainerCallback
    except ImportError:
        raise _errors.missing("byrote.callbacks.FloorCallback", "transformers", "torch") from None
    return TrainerCallback


@_arguments.checked("corpus")
def FloorCallback(
    dataset: Any = None, *, corpus: Corpus | None = None, column: str = "input_ids", **settings: Unpack[CorpusSettings]
) -> Any:
    """Return a ``transformers.TrainerCallback`` that logs the floor and the gap beside your loss.

    It computes the floor of the training set once: of ``corpus``, or of the column ``input_ids`` of ``dataset`` (by default the
    training set of the ``Trainer``), whose rows are documents of at most ``n_ctx + 1`` tokens (by default the longest row). From
    then on, every log with a ``loss`` also has ``floor`` and ``gap``, in nats per prediction. The floor is that of the training
    set: the loss of one batch may lie below it, its average over an epoch cannot, unless padding or masked labels are involved.

    >>> from byrote.callbacks import FloorCallback
    >>> trainer = Trainer(model, callbacks=[FloorCallback()])  # doctest: +SKIP
    """

    class Callback(_trainer_callback()):  # type: ignore[misc]
        """Logs the floor and the gap."""

        def __init__(self) -> None:
            self.corpus = corpus
            self.floor = math.nan

        def on_train_begin(self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **kwargs: Any) -> None:
            """Compute the floor."""
            if self.corpus is None:
                rows = dataset if dataset is not None else train_dataloader.dataset
                documents = rows[column] if hasattr(rows, "column_names") else [row[column] for row in rows]
                longest = max(len(row) for row in documents)
                if settings.get("n_ctx") is None:
                    settings["n_ctx"] = max(longest - 1, 1)
                self.corpus = Corpus.from_ids(documents, **settings)
            self.floor = self.corpus.floor.nats_per_prediction

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            """Add the floor and the gap to a log."""
            if logs is None or "loss" not in logs:
                return
            logs["floor"] = self.floor
            logs["gap"] = logs["loss"] - self.floor
            if state.log_history and state.log_history[-1].get("loss") == logs["loss"]:
                state.log_history[-1].update(floor=logs["floor"], gap=logs["gap"])

    return Callback()
