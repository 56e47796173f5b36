"""Whole jobs: studies, sweeps, laws, reports, reproduced figures, ranks, learning in context, exports."""

from __future__ import annotations

import contextlib
import csv
import html
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from errno import ENOENT
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from byrote import _arguments, _byrote, _errors
from byrote._corpus import Corpus
from byrote._model import Model, model_of
from byrote._progress import Progress, Watch
from byrote._results import Result
from byrote._settings import CorpusSettings, IncontextSettings, Path, Precision, RankSettings, _plain, encode
from byrote._table import Table

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Report(os.PathLike[str]):
    """A self-contained HTML page: a notebook shows it, and it is a path that can be opened or copied."""

    def __init__(self, path: Path) -> None:
        self.path = os.path.abspath(path)

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


class _Run(Result):
    """A run directory. Its paths are those of the working directory at the time of the call."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self._folder = os.getcwd()

    def _file(self, name: str) -> str:
        if name not in self._fields:
            raise _arguments.wrong("dry_run", "a dry run only lists the jobs; call again without it for results and a report")
        return os.path.join(self._folder, self._fields[name])

    @property
    def report(self) -> Report:
        """The report, which a notebook shows."""
        return Report(self._file("report_file"))


class Study(_Run):
    """Everything byrote can say about one text, in short; :attr:`report` has all of it."""

    verdict: list[str]
    """The answers, one per line."""

    def __repr__(self) -> str:
        return "\n".join(self._fields["verdict"])

    def _repr_html_(self) -> str:
        return "".join(f"<p>{html.escape(line)}</p>" for line in self._fields["verdict"])


@_arguments.checked("corpus")
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
        raise _arguments.wrong("quick", "cannot be combined with full")
    found = _byrote.study(
        encode(_arguments.of_corpus(paths, settings)),
        scale="quick" if quick else "full" if full else "default",
        incontext=incontext,
        n_layers=n_layers,
        out=os.fspath(out),
        command="byrote.study(...)",
        threads=threads,
        watch=Watch(progress),
    )
    return Study(json.loads(found))


TEXTS = frozenset(
    "job status corpus tokenizer preset activation mixer optimizer schedule sampling train_only init stop error positions norm".split()
)
"""The columns of ``results.csv`` that hold text, even where it looks like a number."""


class Sweep(_Run):
    """A grid of training runs: how many are done, and a row per job."""

    _main = ("name", "jobs", "done", "failed", "interrupted")

    @property
    def results(self) -> Table:
        """Everything about every job: the columns of ``results.csv``."""
        with open(self._file("results_file"), newline="", encoding="utf-8") as file:
            rows = [{name: _value_of(name, text) for name, text in row.items()} for row in csv.DictReader(file)]
        return Table.from_rows(rows)


def _value_of(name: str, text: str) -> Any:
    """Return a field of ``results.csv`` as what its column holds, and None where it is empty.

    >>> _value_of("job", "1234567890123e45"), _value_of("lr", "1e-3"), _value_of("tied", "true"), _value_of("error", "")
    ('1234567890123e45', 0.001, True, None)
    """
    if text == "":
        return None
    if name in TEXTS:
        return text
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _toml(plan: Mapping[str, Any]) -> str:
    """Return a plan as TOML: names, and sections of names.

    >>> print(_toml({"seeds": [0, 1], "corpus": {"builtin": 10, "limit": None}}))
    seeds = [0, 1]
    [corpus]
    builtin = 10
    """

    def lines(section: Mapping[str, Any]) -> list[str]:
        plain = {name: value for name, value in section.items() if value is not None and not isinstance(value, Mapping)}
        return [f"{_key(name)} = {_value(name, value)}" for name, value in plain.items()]

    found = lines(plan)
    for name, section in plan.items():
        if isinstance(section, Mapping):
            inner = next((key for key, value in section.items() if isinstance(value, Mapping)), None)
            if inner is not None:
                raise _arguments.wrong("plan", f"{inner} in {name} must be a value or a list of values")
            found += [f"[{_key(name)}]", *lines(section)]
    return "\n".join(found)


def _key(name: Any) -> str:
    text = str(name)
    return text if re.fullmatch("[A-Za-z0-9_-]+", text) else json.dumps(text)


def _value(name: Any, value: Any) -> str:
    try:
        return json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False)
    except TypeError:
        raise _arguments.wrong("plan", f"{name} cannot be of type {type(value).__name__}") from None
    except ValueError:
        raise _arguments.wrong("plan", f"{name} must be finite (got {value})") from None


@contextlib.contextmanager
def of_plan(plan: Path | Mapping[str, Any]) -> Iterator[tuple[str | None, str | None]]:
    """Give the path and the text of a plan, one of which is None. Errors name no line of a text that nobody has written."""
    if not isinstance(plan, Mapping):
        if not isinstance(plan, (str, os.PathLike)):
            raise _arguments.wrong("plan", f"must be a path or a dictionary (got {type(plan).__name__})")
        yield os.fspath(plan), None
        return
    try:
        yield None, _toml(plan)
    except _errors.FormatError as error:
        message = re.sub(r"^plan, line \d+:", "plan:", error.message)
        raise _errors.of(error.kind, message, None, None, error.setting, None) from None


@_arguments.checked()
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
    with of_plan(plan) as (path, text):
        found = _byrote.sweep(
            path=path,
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
    def numbers(name: str, given: npt.ArrayLike) -> npt.NDArray[np.float64]:
        found = _arguments.numbers(name, given)
        if found.ndim != 1:
            raise _arguments.wrong(name, f"must be one-dimensional (got {found.ndim} dimensions)")
        if not np.isfinite(found).all():
            where = int(np.flatnonzero(~np.isfinite(found))[0])
            raise _arguments.wrong(name, f"must be finite (got {found[where]} at index {where})")
        return found

    sizes, values = numbers("x", x), numbers("y", y)
    groups = np.zeros(len(sizes)) if group is None else numbers("group", group)
    if len(sizes) == 0:
        raise _arguments.wrong("x", "must not be empty")
    for name, found in (("y", values), ("group", groups)):
        if len(found) != len(sizes):
            raise _arguments.wrong(name, f"{len(found)} values for {len(sizes)} sizes")
    if (groups < 0).any() or (groups != np.floor(groups)).any():
        raise _arguments.wrong("group", "must be whole numbers of at least 0")
    return sizes, values, groups.astype(np.uint64)


@_arguments.checked()
def fit(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    group: npt.ArrayLike | None = None,
    *,
    laws: str | Sequence[str] = LAWS,
    relative: bool = False,
    threads: int | None = None,
    progress: Progress = None,
) -> Result:
    """Compare laws through measurements ``y`` at sizes ``x``; ``group`` is the seed of each (docs/laws.md).

    "No law" is an answer: the winner must explain the points, leave no pattern in the residuals and have determined parameters.
    With ``relative``, errors are equal in proportion, as reports assume for numbers of parameters; all ``y`` must be above zero.

    >>> import byrote
    >>> noise = [0.1, -0.2, 0.3, -0.1, 0.0, 0.2, -0.3, 0.1, -0.1, 0.2, 0.0]
    >>> x = [1 + i % 8 for i in range(24)]
    >>> y = [2 * (i % 8) + noise[i % 11] for i in range(24)]
    >>> found = byrote.fit(x, y, [i // 8 for i in range(24)], laws=["linear", "quadratic"])
    >>> found.rows[0]["law"]
    'linear'
    """
    sizes, values, groups = _points(x, y, group)
    names = [laws] if isinstance(laws, str) else laws
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise _arguments.wrong("laws", "must be the name of a law, or a list of names")
    names = list(names)
    with _errors.called("law", "laws"):
        found = _byrote.compare_laws(sizes, values, groups, names, relative=relative, threads=threads, watch=Watch(progress))
    return Result(json.loads(found))


def _size(size: Mapping[str, Any]) -> str:
    """Return a size, or an end of its interval, in words."""
    if size["kind"] == "at":
        return f"{size['size']:.6g}"
    if size["kind"] == "below-smallest":
        return f"at most {size['smallest']:.6g}, the smallest size given"
    return f"above {size['largest']:.6g}, the largest size given"


class Threshold(Result):
    """The smallest size at which a measurement reaches a level."""

    def _shown_fields(self) -> dict[str, Any]:
        size, interval = self._fields["size"], self._fields["interval"]
        shown = {"level": self._fields["settings"]["level"], "size": size["size"] if size["kind"] == "at" else _size(size)}
        if interval is not None:
            shown["interval"] = f"{_size(interval['low'])} to {_size(interval['high'])}"
        return shown


@_arguments.checked()
def threshold(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    level: float,
    group: npt.ArrayLike | None = None,
    *,
    rises: bool = False,
    relative: bool = False,
    threads: int | None = None,
    progress: Progress = None,
) -> Threshold:
    """Find the smallest size at which ``y`` falls (or rises) to a level, with an interval.

    Between the sizes given, ``y`` is interpolated; with ``relative`` it is ln ``y``, as reports do for gaps.

    >>> import byrote
    >>> byrote.threshold([8, 16, 32, 64], [1.0, 0.5, 0.2, 0.01], level=0.1)
    Threshold(level=0.1, size=46.0879)
    """
    sizes, values, groups = _points(x, y, group)
    found = _byrote.threshold(sizes, values, groups, level, rises=rises, relative=relative, threads=threads, watch=Watch(progress))
    return Threshold(json.loads(found))


@_arguments.checked()
def report(directory: Path, *, threads: int | None = None, progress: Progress = None) -> Report:
    """Draw the report of a run directory, a study or an audit again, even of an unfinished one.

    >>> import byrote, tempfile
    >>> plan = {"corpus": {"builtin": 10}, "model": {"d_mlp": [4]}, "training": {"steps": 5}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = byrote.sweep(plan, out=folder)
    ...     "</html>" in byrote.report(folder).html
    True
    """
    if not os.path.exists(directory):
        path = os.fspath(directory)
        raise _errors.of("io", f"directory: there is no {path}", path, None, "directory", ENOENT)
    found = json.loads(_byrote.draw_report(os.fspath(directory), threads=threads, watch=Watch(progress)))
    return Report(found["report_file"])


@_arguments.checked()
def figures() -> Table:
    """Return the figures of papers that can be reproduced.

    >>> import byrote
    >>> "madden2024-fig1" in byrote.figures()["figure"]
    True
    """
    return Table.from_rows([{"figure": key, "what": what} for key, what in _byrote.figures()])


@_arguments.checked()
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


@_arguments.checked("rank")
def rank(*, seed: int = 0, threads: int | None = None, progress: Progress = None, **settings: Unpack[RankSettings]) -> Result:
    """Certify the rank and the Kruskal rank of psi(a b^T): how many contexts neurons can distinguish.

    The keywords are the options of ``byrote rank --help``; ``a``, ``b`` and ``polynomial`` may be lists.

    >>> import byrote
    >>> byrote.rank(activation="tanh", b=[1, -1]).rank
    1
    """

    def listed(name: str, value: Any) -> Any:
        if name not in ("a", "b", "polynomial") or value is None or isinstance(value, str):
            return value
        return ",".join(repr(_arguments.number(name, one)) for one in np.atleast_1d(np.asarray(value, dtype=object)))

    lists = {name: listed(name, value) for name, value in settings.items()}
    return Result(json.loads(_byrote.rank(encode(lists), seed=seed, threads=threads, watch=Watch(progress))))


class InContext(Result):
    """Errors of a transformer that learns a map from its sequence."""

    model: Model | None = None
    """The network, if it has layers."""


@_arguments.checked("incontext")
def incontext(
    sequence: npt.ArrayLike | None = None,
    *,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress = None,
    **settings: Unpack[IncontextSettings],
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
        name = os.path.join(folder, "sequence.npy")
        if sequence is not None:
            if given.get("file") is not None:
                raise _arguments.wrong("sequence", "cannot be combined with file")
            np.save(name, _arguments.numbers("sequence", sequence, "must be an array of numbers, [steps, d] or [sequences, steps, d]"))
            given["file"] = [name]
        elif given.get("file") is not None:
            given["file"] = _arguments.paths("file", [given["file"]])
        try:
            text, held = _byrote.incontext(encode(given), seed=seed, threads=threads, watch=Watch(progress))
        except _errors.Error as error:
            raise _errors.renamed(error, {name: "sequence"}) from None
    result = InContext(json.loads(text))
    result.model = None if held is None else Model(held)
    return result


@_arguments.checked()
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
    "Threshold",
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
