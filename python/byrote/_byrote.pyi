"""The extension module. Settings are JSON objects, results are JSON text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

__all__ = [
    "ClusterSweep",
    "Corpus",
    "Model",
    "Step",
    "arrow_stream",
    "audit",
    "bounds",
    "builtin_stories",
    "build",
    "build_exact",
    "certify",
    "compare_audits",
    "compare_laws",
    "draw_report",
    "evaluate",
    "export",
    "fields",
    "figures",
    "incontext",
    "input_files",
    "nearest",
    "predict",
    "rank",
    "reproduce",
    "run_job",
    "run_program",
    "split_summary",
    "study",
    "sweep",
    "threshold",
    "train",
    "version",
]

_Curve = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]

@final
class Corpus:
    @staticmethod
    def read(
        settings: str,
        *,
        model: Model | None = None,
        save: str | None = None,
        list: str | None = None,
        threads: int | None = None,
        watch: object = None,
    ) -> Corpus: ...
    @staticmethod
    def from_texts(
        texts: Sequence[str], settings: str, *, title: str, threads: int | None = None, watch: object = None
    ) -> Corpus: ...
    @staticmethod
    def from_arrays(
        arrays: Sequence[npt.NDArray[Any]],
        settings: str,
        *,
        title: str,
        threads: int | None = None,
        watch: object = None,
    ) -> Corpus: ...
    @staticmethod
    def from_flat(
        ids: npt.NDArray[Any],
        settings: str,
        *,
        title: str,
        length: int | None = None,
        offsets: npt.NDArray[np.uint64] | None = None,
        threads: int | None = None,
        watch: object = None,
    ) -> Corpus: ...
    def summary(self) -> str: ...
    def settings(self) -> str: ...
    def title(self) -> str: ...
    def vocabulary(self) -> list[str]: ...
    def read_loss(self, loss: str) -> str: ...
    def hint(self) -> str | None: ...
    def contexts(
        self, *, threads: int | None = None, watch: object = None
    ) -> tuple[
        list[str],
        npt.NDArray[np.int64],
        npt.NDArray[np.uint32],
        npt.NDArray[np.int64],
        npt.NDArray[np.int64],
        npt.NDArray[np.uint32],
        npt.NDArray[np.int64],
    ]: ...

@final
class Model:
    @staticmethod
    def load(path: str) -> Model: ...
    @staticmethod
    def from_bytes(kind: str, data: bytes) -> Model: ...
    def save(self, path: str) -> None: ...
    def kind(self) -> str: ...
    def show(self) -> str: ...
    def vocabulary(self) -> list[str]: ...
    def encode(self, text: str) -> list[int]: ...
    def logits(self, ids: Sequence[int]) -> npt.NDArray[np.float64]: ...
    def tensors(self) -> dict[str, npt.NDArray[Any]]: ...
    def to_bytes(self) -> tuple[str, bytes]: ...

@final
class Step:
    """A step of a training run, as a callback sees it."""

    @property
    def step(self) -> int:
        """Steps taken."""
    @property
    def loss_nats(self) -> float:
        """The loss when it was last measured, summed over all predictions, in nats."""
    @property
    def gap_nats(self) -> float:
        """The loss minus the floor."""
    @property
    def floor_nats(self) -> float:
        """The lowest loss that any model can reach."""
    @property
    def predictions(self) -> int:
        """Predictions, over which these are summed."""
    @property
    def seconds(self) -> float:
        """Seconds of training so far."""
    def model(self) -> Model:
        """The model with its current weights; only while the callback runs."""

def version() -> str: ...
def builtin_stories(documents: int, *, seed: int = 0) -> list[str]: ...
def fields(spec: str) -> list[str]: ...
def nearest(name: str, known: Sequence[str]) -> str | None: ...
def run_program(arguments: Sequence[str]) -> int: ...
def arrow_stream(names: Sequence[str], columns: Sequence[npt.NDArray[Any] | list[Any]]) -> object: ...
def bounds(
    corpus: Corpus | None,
    settings: str,
    *,
    d_vocab: int | None = None,
    n_ctx: int | None = None,
    encoder: Sequence[int] = ...,
    seed: int = 0,
    threads: int | None = None,
    watch: object = None,
) -> str: ...
def build(
    method: str,
    corpus: Corpus,
    settings: str,
    *,
    seed: int = 0,
    tol: float | None = None,
    threads: int | None = None,
    watch: object = None,
) -> tuple[Model | None, str]: ...
def build_exact(
    corpus: Corpus | None,
    settings: str,
    *,
    pairs: str | None = None,
    tokenizer: str | None = None,
    seed: int = 0,
    threads: int | None = None,
    watch: object = None,
) -> tuple[Model, str]: ...
def certify(model: Model, corpus: Corpus, *, threads: int | None = None, watch: object = None) -> str: ...
def evaluate(
    model: Model,
    corpus: Corpus,
    *,
    tol: float | None = None,
    worst: int = 10,
    seed: int = 0,
    threads: int | None = None,
    watch: object = None,
) -> str: ...
def predict(
    model: Model,
    *,
    text: str | None = None,
    ids: Sequence[int] | None = None,
    corpus: Corpus | None = None,
    top: int = 10,
    logits: bool = False,
    threads: int | None = None,
    watch: object = None,
) -> str: ...
def train(
    corpus: Corpus,
    settings: str,
    *,
    seed: int = 0,
    init: Model | None = None,
    out: str | None = None,
    resume: bool = False,
    checkpoint_every: float | None = None,
    tol: float | None = None,
    callback: object = None,
    callback_every: int = 1,
    threads: int | None = None,
    watch: object = None,
) -> tuple[Model, str, _Curve]: ...
def audit(
    settings: str,
    *,
    path: str | None = None,
    function: object = None,
    facts: str | None = None,
    start_token: int | None = None,
    vocabulary: Corpus | None = None,
    reference: str | None = None,
    held_out: Sequence[str] = ...,
    canaries: str | None = None,
    seed: int = 0,
    out: str | None = None,
    command: str = "",
    threads: int | None = None,
    watch: object = None,
) -> str: ...
def compare_audits(before: str, after: str) -> str: ...
def study(
    settings: str,
    *,
    scale: str = "default",
    incontext: bool = False,
    n_layers: int | None = None,
    out: str,
    command: str | None = None,
    threads: int | None = None,
    watch: object = None,
) -> str: ...
def sweep(
    *,
    path: str | None = None,
    text: str | None = None,
    name: str = "sweep",
    out: str | None = None,
    full: bool = False,
    dry_run: bool = False,
    fail_fast: bool = False,
    keep_models: bool = False,
    checkpoint_every: float | None = None,
    seed: int = 0,
    command: str | None = None,
    threads: int | None = None,
    watch: object = None,
) -> str: ...
def compare_laws(
    x: npt.NDArray[np.float64],
    y: npt.NDArray[np.float64],
    group: npt.NDArray[np.uint64],
    laws: Sequence[str],
    *,
    relative: bool = False,
    threads: int | None = None,
    watch: object = None,
) -> str: ...
def threshold(
    x: npt.NDArray[np.float64],
    y: npt.NDArray[np.float64],
    group: npt.NDArray[np.uint64],
    level: float,
    *,
    rises: bool = False,
    relative: bool = False,
    threads: int | None = None,
    watch: object = None,
) -> str: ...
def draw_report(directory: str, *, threads: int | None = None, watch: object = None) -> str: ...
def figures() -> list[tuple[str, str]]: ...
def reproduce(
    figure: str,
    *,
    out: str | None = None,
    full: bool = False,
    dry_run: bool = False,
    seed: int = 0,
    command: str | None = None,
    threads: int | None = None,
    watch: object = None,
) -> str: ...
def rank(settings: str, *, seed: int = 0, threads: int | None = None, watch: object = None) -> str: ...
def incontext(
    settings: str, *, seed: int = 0, threads: int | None = None, watch: object = None
) -> tuple[str, Model | None]: ...
def export(model: Model, to: str, out: str, *, precision: str | None = None) -> str: ...
def input_files(settings: str) -> list[Path]: ...
def split_summary(
    path: str, parts: int, directory: str, *, threads: int | None = None, watch: object = None
) -> list[Path]: ...
@final
class ClusterSweep:
    @staticmethod
    def open(
        *,
        path: str | None = None,
        text: str | None = None,
        name: str = "sweep",
        out: str | None = None,
        full: bool = False,
        seed: int = 0,
        command: str | None = None,
        threads: int | None = None,
        watch: object = None,
    ) -> ClusterSweep: ...
    def jobs(self) -> int: ...
    def remaining(self) -> list[tuple[int, str, str, Path]]: ...
    def record(
        self, job: int, row: str, *, seconds: float, curve: bytes | None = None, model: bytes | None = None
    ) -> bool: ...
    def finish(self, *, interrupted: bool = False, threads: int | None = None, watch: object = None) -> str: ...

def run_job(
    job: str,
    id: str,
    folder: str,
    *,
    checkpoint: str | None = None,
    checkpoint_every: float | None = None,
    keep_models: bool = False,
    threads: int | None = None,
    watch: object = None,
) -> str | None: ...
