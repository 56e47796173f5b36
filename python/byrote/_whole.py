"""Whole jobs: studies, sweeps, laws, reports, reproduced figures, ranks, learning in context, exports."""

from __future__ import annotations

import csv
import html
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from byrote import _byrote
from byrote._corpus import Corpus, _flattened
from byrote._model import Model, model_of
from byrote._progress import Progress, Watch
from byrote._results import Result
from byrote._settings import CorpusSettings, Path, Precision, encode
from byrote._table import Table

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Report(os.PathLike[str]):
    """A self-contained HTML page: a notebook shows it, and it is a path that can be opened or copied."""

    def __init__(self, path: Path) -> None:
        self.path = os.fspath(path)

    def __fspath__(self) -> str:
        return self.path

    @property
    def html(self) -> str:
        """The page."""
        return FilePath(self.path).read_text(encoding="utf-8")

    def save(self, path: Path) -> None:
        """Write the page to another file."""
        FilePath(path).write_text(self.html, encoding="utf-8")

    def __repr__(self) -> str:
        return f"Report({self.path!r})"

    def _repr_html_(self) -> str:
        page = html.escape(self.html, quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:700px;border:1px solid #ccc"></iframe>'


class Study(Result):
    """Everything byrote can say about one text, in short; :attr:`report` has all of it."""

    verdict: list[str]
    """The answers, one per line."""

    @property
    def report(self) -> Report:
        """The report, which a notebook shows."""
        return Report(self._fields["report_file"])

    def __repr__(self) -> str:
        return "\n".join(self._fields["verdict"])

    def _repr_html_(self) -> str:
        return "".join(f"<p>{html.escape(line)}</p>" for line in self._fields["verdict"])


def study(
    *paths: Path | Sequence[Path],
    quick: bool = False,
    full: bool = False,
    incontext: bool = False,
    n_layers: int | None = None,
    out: Path = "study",
    threads: int | None = None,
    progress: Progress = None,
    **settings: Unpack[CorpusSettings],
) -> Study:
    """Do the main job: floor, bounds, closed forms with certificates, training by width, one report in the directory ``out``.

    ``quick`` takes a first look; ``full`` uses all documents. An interrupted study keeps what is finished: call again to resume.

    >>> import byrote, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     s = byrote.study(builtin=12, quick=True, out=folder)
    ...     "</html>" in s.report.html
    True
    >>> s.verdict[0][:6]
    'Floor:'
    """
    if quick and full:
        raise ValueError("quick: cannot be combined with full")
    given: dict[str, object] = dict(settings)
    if paths:
        given["paths"] = _flattened(paths)
    found = _byrote.study(
        encode(given),
        scale="quick" if quick else "full" if full else "default",
        incontext=incontext,
        n_layers=n_layers,
        out=os.fspath(out),
        command="byrote.study(...)",
        threads=threads,
        watch=Watch(progress),
    )
    return Study(json.loads(found))


class Sweep(Result):
    """A grid of training runs: how many are done, and a row per job."""

    _main = ("name", "jobs", "done", "failed", "interrupted")

    @property
    def results(self) -> Table:
        """Everything about every job: the columns of ``results.csv``."""
        with open(self._fields["results_file"], newline="", encoding="utf-8") as file:
            rows = [{name: _number(value) for name, value in row.items()} for row in csv.DictReader(file)]
        return Table.from_rows(rows)

    @property
    def report(self) -> Report:
        """The report, which a notebook shows."""
        return Report(self._fields["report_file"])


def _number(text: str) -> Any:
    """Return a field of a CSV file as a number where it is one, and None where it is empty."""
    if text == "":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _toml(plan: Mapping[str, Any]) -> str:
    """Return a plan as TOML: names, and sections of names."""
    plain = {name: value for name, value in plan.items() if not isinstance(value, Mapping)}
    lines = [f"{name} = {json.dumps(value)}" for name, value in plain.items()]
    for name, section in plan.items():
        if isinstance(section, Mapping):
            lines.append(f"[{name}]")
            lines.extend(f"{key} = {json.dumps(value)}" for key, value in section.items())
    return "\n".join(lines)


def sweep(
    plan: Path | Mapping[str, Any],
    out: Path | None = None,
    *,
    full: bool = False,
    dry_run: bool = False,
    fail_fast: bool = False,
    keep_models: bool = False,
    checkpoint_every: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress = None,
) -> Sweep:
    """Run a grid of training runs; the same call resumes it.

    ``plan`` is a TOML file (docs/plans.md), or a dictionary with the same sections, in which every list is an axis.

    >>> import byrote, tempfile
    >>> plan = {"corpus": {"builtin": 10}, "model": {"d_mlp": [4, 8]}, "training": {"steps": 20}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     s = byrote.sweep(plan, out=folder)
    ...     s.results["d_mlp"].tolist()
    [4, 8]
    >>> s.jobs, s.done
    (2, 2)
    """
    text = _toml(plan) if isinstance(plan, Mapping) else None
    found = _byrote.sweep(
        path=None if isinstance(plan, Mapping) else os.fspath(plan),
        text=text,
        out=None if out is None else os.fspath(out),
        full=full,
        dry_run=dry_run,
        fail_fast=fail_fast,
        keep_models=keep_models,
        checkpoint_every=checkpoint_every,
        seed=seed,
        command="byrote.sweep(...)",
        threads=threads,
        watch=Watch(progress),
    )
    result = Sweep(json.loads(found))
    if result.get("interrupted"):
        raise KeyboardInterrupt
    return result


LAWS = ("constant", "proportional", "linear", "quadratic-from-zero", "quadratic", "cubic-from-zero", "cubic", "power")
"""Laws that :func:`fit` compares by default."""


def _points(
    x: npt.ArrayLike, y: npt.ArrayLike, group: npt.ArrayLike | None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.uint64]]:
    sizes = np.ascontiguousarray(x, dtype=np.float64)
    groups = np.zeros(len(sizes)) if group is None else group
    return sizes, np.ascontiguousarray(y, dtype=np.float64), np.ascontiguousarray(groups, dtype=np.uint64)


def fit(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    group: npt.ArrayLike | None = None,
    *,
    laws: Sequence[str] = LAWS,
    threads: int | None = None,
    progress: Progress = None,
) -> Result:
    """Compare laws through measurements ``y`` at sizes ``x``; ``group`` is the seed of each (docs/laws.md).

    "No law" is an answer: the winner must explain the points, leave no pattern in the residuals and have determined parameters.

    >>> import byrote
    >>> noise = [0.1, -0.2, 0.3, -0.1, 0.0, 0.2, -0.3, 0.1, -0.1, 0.2, 0.0]
    >>> x = [1 + i % 8 for i in range(24)]
    >>> y = [2 * (i % 8) + noise[i % 11] for i in range(24)]
    >>> found = byrote.fit(x, y, [i // 8 for i in range(24)], laws=["linear", "quadratic"])
    >>> found.rows[0]["law"]
    'linear'
    """
    sizes, values, groups = _points(x, y, group)
    found = _byrote.compare_laws(sizes, values, groups, list(laws), threads=threads, watch=Watch(progress))
    return Result(json.loads(found))


def threshold(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    level: float,
    group: npt.ArrayLike | None = None,
    *,
    rises: bool = False,
    threads: int | None = None,
    progress: Progress = None,
) -> Result:
    """Find the smallest size at which ``y`` falls (or rises) to a level, with an interval.

    >>> import byrote
    >>> found = byrote.threshold([8, 16, 32, 64], [1.0, 0.5, 0.2, 0.01], level=0.1)
    >>> "size" in found.to_dict()
    True
    """
    sizes, values, groups = _points(x, y, group)
    found = _byrote.threshold(sizes, values, groups, level, rises=rises, threads=threads, watch=Watch(progress))
    return Result(json.loads(found))


def report(directory: Path, *, threads: int | None = None, progress: Progress = None) -> Report:
    """Draw the report of a run directory, a study or an audit again, even of an unfinished one.

    >>> import byrote, tempfile
    >>> plan = {"corpus": {"builtin": 10}, "model": {"d_mlp": [4]}, "training": {"steps": 5}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = byrote.sweep(plan, out=folder)
    ...     "</html>" in byrote.report(folder).html
    True
    """
    found = json.loads(_byrote.draw_report(os.fspath(directory), threads=threads, watch=Watch(progress)))
    return Report(found["report_file"])


def figures() -> Table:
    """Return the figures of papers that can be reproduced.

    >>> import byrote
    >>> "madden2024-fig1" in byrote.figures()["figure"]
    True
    """
    return Table.from_rows([{"figure": key, "what": what} for key, what in _byrote.figures()])


def reproduce(
    figure: str,
    out: Path | None = None,
    *,
    full: bool = False,
    dry_run: bool = False,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress = None,
) -> Result:
    """Reproduce a paper's figure: a small version, or with ``full`` as published.

    >>> import byrote
    >>> byrote.reproduce("madden2024-fig1", dry_run=True).figure
    'madden2024-fig1'
    """
    found = _byrote.reproduce(
        figure,
        out=None if out is None else os.fspath(out),
        full=full,
        dry_run=dry_run,
        seed=seed,
        command=f"byrote.reproduce({figure!r})",
        threads=threads,
        watch=Watch(progress),
    )
    return Result(json.loads(found))


def rank(*, seed: int = 0, threads: int | None = None, progress: Progress = None, **settings: Any) -> Result:
    """Certify the rank and the Kruskal rank of psi(a b^T): how many contexts neurons can distinguish.

    The keywords are the options of ``byrote rank --help``; ``a``, ``b`` and ``polynomial`` may be lists.

    >>> import byrote
    >>> byrote.rank(activation="tanh", b=[1, -1]).rank
    1
    """
    lists = {
        name: ",".join(map(str, value)) if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str) else value
        for name, value in settings.items()
    }
    return Result(json.loads(_byrote.rank(encode(lists), seed=seed, threads=threads, watch=Watch(progress))))


class InContext(Result):
    """Errors of a transformer that learns a map from its sequence."""

    model: Model | None = None
    """The network, if it has layers."""


def incontext(
    sequence: npt.ArrayLike | None = None,
    *,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress = None,
    **settings: Any,
) -> InContext:
    """Run an explicitly constructed transformer that learns in context, on synthetic or given sequences.

    ``sequence`` is an array ``[steps, d]`` or ``[sequences, steps, d]``; the keywords are the options of
    ``byrote incontext --help``.

    >>> import byrote
    >>> byrote.incontext(sequences=2, length=30, d=4).errors.columns[:2]
    ['t', 'squared_error']
    """
    import tempfile

    with tempfile.TemporaryDirectory(prefix="byrote-") as folder:
        given: dict[str, Any] = dict(settings)
        if sequence is not None:
            name = os.path.join(folder, "sequence.npy")
            np.save(name, np.ascontiguousarray(sequence, dtype=np.float64))
            given["file"] = [name]
        elif isinstance(given.get("file"), (str, os.PathLike)):
            given["file"] = [os.fspath(given["file"])]
        text, held = _byrote.incontext(encode(given), seed=seed, threads=threads, watch=Watch(progress))
    result = InContext(json.loads(text))
    result.model = None if held is None else Model(held)
    return result


def export(
    model: Model | Path,
    out: Path,
    *,
    to: Literal["onnx", "huggingface"] = "onnx",
    precision: Precision | None = None,
) -> Result:
    """Write a model for other programs: one ONNX file, or a directory that ``transformers`` loads.

    >>> import byrote, tempfile, os
    >>> m = byrote.build.madden2024(byrote.Corpus(builtin=10))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     byrote.export(m, os.path.join(folder, "m.onnx")).format
    'onnx'
    """
    found = _byrote.export(model_of(model)._held, to, os.fspath(out), precision=precision)
    return Result(json.loads(found))


__all__ = [
    "Corpus",
    "InContext",
    "Report",
    "Study",
    "Sweep",
    "export",
    "figures",
    "fit",
    "incontext",
    "rank",
    "report",
    "reproduce",
    "study",
    "sweep",
    "threshold",
]
