"""Corpora and sweeps that outgrow one machine, on Ray.

``byrote.ray.corpus`` counts a corpus that is spread over files and machines, and ``byrote.ray.sweep`` runs the jobs of a plan as Ray
tasks. Everything that tasks pass on is made of integers, or recorded once, so the results are those of one machine to the last bit,
whatever dies on the way. Needs Ray (``pip install 'byrote[ray]'``), and byrote on every machine. docs/cluster.md explains how the work
is divided and what it costs.
"""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

try:
    import ray
except ImportError as error:  # pragma: no cover
    raise ImportError("byrote.ray needs Ray: pip install 'byrote[ray]'") from error

from byrote import _arguments, _byrote, _errors
from byrote._corpus import Corpus
from byrote._progress import Progress, Watch
from byrote._ray_sweep import sweep
from byrote._ray_tasks import AGAIN, RETRIES, ClusterError, Tasks, arrived, clear, leave, let_go, memory, require, scratch, slots, start
from byrote._remote_files import InputFile, find
from byrote._settings import CorpusSettings, Path, encode
from byrote._table import Table

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["ClusterCorpus", "ClusterError", "corpus", "sweep"]

SHARD_BYTES = 256 << 20
"""About how much of the input one task reads, if the files are smaller."""
MOST_PARTITIONS = 64
"""The most partitions, unless another number is given."""
MOST_PIECES = 100_000
"""About the most pieces (one per shard and partition): the driver keeps a reference of about a kilobyte for each."""
INLINED = 100 << 10
"""Ray keeps results below this size in the memory of the driver."""
DRIVER_BYTES = 64 << 20
"""Pieces are made larger than that size if otherwise the driver could hold more than this."""
PATIENCE = 20.0
"""How many seconds a task waits for pieces before it makes room for the task that makes them again."""

Bytes = npt.NDArray[np.uint8]


class ClusterCorpus(Corpus):
    """A corpus that was counted on a cluster: all its figures, but not its contexts, which no machine has together."""

    moved_bytes: int
    """How many bytes tasks have passed to others."""

    _title: str
    _given: dict[str, Any]
    _folder: tempfile.TemporaryDirectory[str]

    def __init__(self, *paths: Any, **settings: Any) -> None:
        raise _made_by_corpus()

    @classmethod
    def for_model(cls, *arguments: Any, **settings: Any) -> Corpus:
        """Not available: byrote.ray.corpus makes these objects."""
        raise _made_by_corpus()

    @classmethod
    def from_texts(cls, *arguments: Any, **settings: Any) -> Corpus:
        """Not available: byrote.ray.corpus makes these objects."""
        raise _made_by_corpus()

    @classmethod
    def from_ids(cls, *arguments: Any, **settings: Any) -> Corpus:
        """Not available: byrote.ray.corpus makes these objects."""
        raise _made_by_corpus()

    @property
    def title(self) -> str:
        """A few words about it."""
        return self._title

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that it was read with."""
        return dict(self._given)

    @property
    def vocabulary(self) -> list[str]:
        """Not available: every part of the cluster knows its own tokens."""
        raise _without_contexts()

    def table(self, *, threads: int | None = None, progress: Progress = None) -> Table:
        """Not available: no machine has all contexts."""
        raise _without_contexts()

    def _has_contexts(self) -> None:
        raise _without_contexts()


def _made_by_corpus() -> BaseException:
    return TypeError("byrote.ray.corpus(...) counts files on a cluster; byrote.Corpus takes texts and ids in memory")


def _without_contexts() -> BaseException:
    message = "a corpus that was counted on a cluster has figures, not contexts and tokens; use byrote.Corpus for a part of the files"
    return _errors.of("setting", message, None, None, None, None)


# What runs in tasks.


@dataclass(frozen=True)
class _How:
    """What all tasks of a run share."""

    run: str
    settings: dict[str, Any]
    threads: int
    parts: int
    least: int
    """Pieces are padded to this size."""
    patience: float
    """How many seconds a task waits for pieces."""

    @property
    def temp_dir(self) -> str | None:
        given = self.settings.get("temp_dir")
        return None if given is None else os.fspath(given)

    def read(self, files: Sequence[InputFile], folder: str, save: str, **more: object) -> dict[str, Any]:
        """Count some files and save what was found; errors name the files as the caller knows them."""
        paths = [file.fetch(folder, number) for number, file in enumerate(files)]
        names = {path: file.name for path, file in zip(paths, files, strict=True)}
        settings = {**self.settings, **more, "paths": paths}
        try:
            held = _byrote.Corpus.read(encode(settings), save=save, threads=self.threads, watch=Watch(False))
        except _errors.Error as error:
            raise _errors.renamed(error, names) from None
        found: dict[str, Any] = json.loads(held.summary())
        return found


def _packed(path: Path | None, least: int = 0) -> Bytes:
    """Return a file as an array that begins with its length, and remove the file."""
    size = 0 if path is None else os.path.getsize(path)
    packed = np.zeros(max(8 + size, least), dtype=np.uint8)
    packed[:8].view(np.uint64)[0] = size
    if path is not None:
        with open(path, "rb") as file:
            file.readinto(packed[8 : 8 + size].data)
        os.remove(path)
    return packed


def _unpacked(packed: Bytes, path: str) -> bool:
    """Write a packed file; returns whether it has anything."""
    size = int(packed[:8].view(np.uint64)[0])
    if size == 0:
        return False
    with open(path, "wb") as file:
        file.write(packed[8 : 8 + size].data)
    return True


def _map(how: _How, files: Sequence[InputFile], shard: str | None) -> Iterator[Any]:
    """Read and sort a shard, split it by the classes of documents, and yield one piece per class; last, how many bytes they are."""
    with scratch(how.run, how.temp_dir) as folder:
        save = os.path.join(folder, "shard.summary")
        settings = dict(how.settings)
        # Settings of ids are an error where there are none, which is right for the whole and not for a shard.
        if not any(file.name.endswith((".bin", ".npy")) for file in files) and settings.get("format") not in ("bin", "npy"):
            settings = {name: value for name, value in settings.items() if name not in ("dtype", "separator_id")}
        elif not any(file.name.endswith(".bin") for file in files) and settings.get("format") != "bin":
            settings.pop("dtype", None)
        own = _How(how.run, settings, how.threads, how.parts, how.least, how.patience)
        found = own.read(files, folder, save, shard=shard)
        # A file without anything has no kind of tokens either.
        nothing = found["documents"] == 0 and not any(found["dropped"].values())
        pieces: list[Path | None] = [None] * how.parts
        if not nothing:
            split = os.path.join(folder, "split")
            os.mkdir(split)
            pieces = list[Path | None](_byrote.split_summary(save, how.parts, split, threads=how.threads, watch=Watch(False)))
            os.remove(save)
        moved = 0
        for piece in pieces:
            packed = _packed(piece, how.least)
            moved += packed.nbytes
            yield packed
        yield moved


def _reduce(how: _How, part: int, pieces: Sequence[Any]) -> bytes | str | None:
    """Merge the pieces of one class, and return its figures; None if there is nothing.

    Pieces that were on a machine that died are made again, for which there may be no processor but that of this task: rather than
    wait for long, it gives up and is run again later.
    """
    with scratch(how.run, how.temp_dir) as folder:
        merge: list[str] = []
        # A few at a time: the next ones travel while these are written.
        for start in range(0, len(pieces), 4):
            some = list(pieces[start : start + 4])
            if not arrived(some, how.patience):
                return AGAIN
            for packed in ray.get(some):
                path = os.path.join(folder, f"{len(merge):06}")
                if _unpacked(packed, path):
                    merge.append(path)
        if not merge:
            return None
        save = os.path.join(folder, "part")
        kept: dict[str, object] = {name: how.settings[name] for name in ("max_memory", "temp_dir") if name in how.settings}
        settings = {**kept, "merge": merge, "range": f"{part + 1}/{how.parts}"}
        _byrote.Corpus.read(encode(settings), save=save, threads=how.threads, watch=Watch(False))
        with open(save, "rb") as file:
            return file.read()


def _count_range(how: _How, part: int, files: Sequence[InputFile]) -> bytes:
    """Count the windows in one range of their order, and return the figures."""
    with scratch(how.run, how.temp_dir) as folder:
        save = os.path.join(folder, "range")
        how.read(files, folder, save, range=f"{part + 1}/{how.parts}")
        with open(save, "rb") as file:
            return file.read()


def _complain(how: _How, files: Sequence[InputFile]) -> None:
    """Read files without documents as one machine does, which says what is wrong."""
    with scratch(how.run, how.temp_dir) as folder:
        local = [file.fetch(folder, number) for number, file in enumerate(files)]
        _byrote.Corpus.read(encode({**how.settings, "paths": local}), threads=how.threads, watch=Watch(False))


# What runs in the driver.


def _shards(files: Sequence[InputFile], at_once: int, parts: int, settings: Mapping[str, Any]) -> list[tuple[list[InputFile], str | None]]:
    """Divide files into shards: small files together; a large one several times if there are fewer files than processors."""
    if str(settings.get("documents", "")).startswith("chunk:"):
        return [(list(files), None)]  # Blocks of text run on from one file into the next.
    total = sum(file.size for file in files)
    # Four per processor, so that a slow one does not hold up the rest, unless that is too many for the driver.
    target = max(min(SHARD_BYTES, total // (4 * at_once) + 1), total * parts // MOST_PIECES)
    shards: list[tuple[list[InputFile], str | None]] = []
    group: list[InputFile] = []
    for file in files:
        times = min(at_once // len(files), file.size // SHARD_BYTES) if file.open is None else 1
        if times > 1:
            shards.extend(([file], f"{i + 1}/{times}") for i in range(times))
            continue
        if group and sum(f.size for f in group) + file.size > target:
            shards.append((group, None))
            group = []
        group.append(file)
    if group:
        shards.append((group, None))
    return shards


def _names(files: Sequence[InputFile]) -> tuple[str, str | None]:
    """Return what a message says of the files of a task, and the path of an error."""
    rest = f" and {len(files) - 1} more files" if len(files) > 1 else ""
    return files[0].name + rest, files[0].name


@_arguments.checked("corpus")
def corpus(
    *paths: Path | Sequence[Path],
    num_partitions: int | None = None,
    num_cpus: float = 1,
    filesystem: Any = None,
    progress: Progress = None,
    **settings: Unpack[CorpusSettings],
) -> ClusterCorpus:
    """Count a corpus that is spread over files and machines; the figures are those of :class:`byrote.Corpus`, to the last bit.

    ``paths`` are local paths, which every machine must see, or URLs that fsspec or pyarrow can open (``s3://``, ``gs://``, ``hdfs://``),
    with directories and patterns as for a local corpus; ``filesystem`` is a file system of either. The other keywords are those of
    :class:`byrote.Corpus`. Shards of the input are read and sorted by one task each, with ``num_cpus`` threads and at most
    ``max_memory`` (by default half of the task's share of the machine), and split into ``num_partitions`` classes of documents; one
    task per class merges its pieces. Windows are divided by ranges of their order instead, and every task reads the whole text.

    >>> import byrote, os, ray, tempfile
    >>> _ = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for shard in range(3):
    ...         with open(os.path.join(folder, f"{shard}.txt"), "w") as file:
    ...             _ = file.write("\\n".join(byrote.builtin_stories(50, seed=shard)))
    ...     c = byrote.ray.corpus(folder)
    ...     c.to_dict() == byrote.Corpus(folder).to_dict()
    True
    """
    given = _arguments.of_corpus(paths, settings)
    files = _checked(given, given.pop("paths", []), num_partitions, num_cpus, filesystem)
    start()
    require(num_cpus)
    watch = Watch(progress)
    n = slots(num_cpus)
    windows = given.get("contexts") == "windows"
    parts = max(1 if windows else 2, min(n if windows else 2 * n, MOST_PARTITIONS) if num_partitions is None else num_partitions)
    if "max_memory" not in given and (most := memory(num_cpus)) is not None:
        given["max_memory"] = most
    shards = [] if windows else _shards(files, n, parts, given)
    least = INLINED + 1 if len(shards) * parts * INLINED > DRIVER_BYTES else 0
    how = _How(uuid.uuid4().hex[:12], given, max(1, int(num_cpus)), parts, least, PATIENCE)
    try:
        tasks = Tasks(2 * n, watch)
        figures, moved = _ranges(how, files, tasks, num_cpus) if windows else _merged(how, files, shards, tasks, num_cpus)
        found = _added(figures, files, dict(settings))
        found.moved_bytes = moved + sum(map(len, figures))
        return found
    finally:
        watch.close()
        leave(how.run, how.temp_dir)


def _checked(
    given: dict[str, Any], paths: list[str], num_partitions: int | None, num_cpus: float, filesystem: Any
) -> list[InputFile]:
    """Check the settings of a corpus, and return its files."""
    for name, value in (("num_partitions", num_partitions), ("num_cpus", num_cpus)):
        if value is not None and value <= 0:
            raise _errors.of("setting", f"{name}: must be positive (got {value})", None, None, name, None)
    if num_partitions is not None and num_partitions > 1 << 16:
        message = f"num_partitions: must be at most 65536 (got {num_partitions})"
        raise _errors.of("setting", message, None, None, "num_partitions", None)
    if not paths or "-" in paths:
        raise _errors.of("setting", "paths: name files that every machine can read", None, None, "paths", None)
    reasons = {
        "limit": "the first documents are those of the first shard only",
        "shard": "the shards are those of the cluster",
        "range": "the ranges are those of the cluster",
        "merge": "give the files themselves",
        "builtin": "give files",
        "random": "give files",
        "windows": "contexts are not kept, so no windows are drawn",
    }
    for name, reason in reasons.items():
        if given.get(name) is not None:
            raise _errors.of("setting", f"{name}: does not apply on a cluster: {reason}", None, None, name, None)
    tokenizer = given.get("tokenizer")
    if tokenizer is not None and os.path.exists(tokenizer):
        given["tokenizer"] = os.path.abspath(tokenizer)
    # What is wrong with the settings is said before anything starts.
    _byrote.input_files(encode({**given, "paths": ["checked"]}))
    return find(paths, format=given.get("format"), filesystem=filesystem)


def _merged(
    how: _How, files: Sequence[InputFile], shards: Sequence[tuple[list[InputFile], str | None]], tasks: Tasks, num_cpus: float
) -> tuple[list[bytes], int]:
    """Map and reduce; returns the figures of all classes, and the bytes that were passed from one to the other."""
    options = {"num_cpus": num_cpus, "max_retries": RETRIES}
    mapping = ray.remote(_map).options(num_returns=how.parts + 1, **options)
    reducing = ray.remote(_reduce).options(**options)
    pieces: list[list[Any] | None] = [None] * len(shards)

    def read(shard: int) -> Any:
        *found, size = mapping.remote(how, *shards[shard])
        pieces[shard] = found
        return size

    moved = 0
    try:
        for _, size in tasks.run("reading", "shards", len(shards), read, lambda shard: _names(shards[shard][0])):
            moved += size
    except BaseException:
        let_go(pieces)
        raise
    classes: list[list[Any]] = [list(of) for of in zip(*(found for found in pieces if found), strict=True)]
    pieces.clear()

    def merge(part: int) -> Any:
        return reducing.remote(how, part, classes[part])

    figures: list[bytes | None] = [None] * how.parts
    named = _names(files)
    for part, found in tasks.run("merging", "partitions", how.parts, merge, lambda part: named):
        figures[part] = found
        classes[part].clear()  # Its pieces are not needed any more.
    complete = [part for part in figures if part is not None]
    if not complete:
        _get(ray.remote(_complain).options(**options).remote(how, files), named)
    return complete, moved


def _ranges(how: _How, files: Sequence[InputFile], tasks: Tasks, num_cpus: float) -> tuple[list[bytes], int]:
    """Count windows by ranges of their order; only figures are passed on."""
    counting = ray.remote(_count_range).options(num_cpus=num_cpus, max_retries=RETRIES)
    figures: dict[int, bytes] = {}
    named = _names(files)
    for part, found in tasks.run(
        "counting", "ranges", how.parts, lambda part: counting.remote(how, part, files), lambda part: named
    ):
        figures[part] = found
    return [figures[part] for part in range(how.parts)], 0


def _get(reference: Any, named: tuple[str, str | None]) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        raise clear(error, *named) from error


def _added(figures: Sequence[bytes], files: Sequence[InputFile], settings: dict[str, Any]) -> ClusterCorpus:
    """Add the figures of all parts: a few kilobytes each."""
    folder = tempfile.TemporaryDirectory(prefix="byrote-figures-")
    merge = []
    for number, part in enumerate(figures):
        merge.append(os.path.join(folder.name, f"{number:06}"))
        with open(merge[-1], "wb") as file:
            file.write(part)
    found = ClusterCorpus.__new__(ClusterCorpus)
    found._take(_byrote.Corpus.read(encode({"merge": merge}), watch=Watch(False)))
    rest = f" and {len(files) - 1} more" if len(files) > 1 else ""
    found._title = os.path.basename(files[0].name) + rest
    found._given = {**settings, "paths": [file.name for file in files]}
    found._folder = folder
    return found
