"""The files of a corpus, wherever they are: local paths, and URLs that fsspec or pyarrow can open."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from errno import EACCES, ENOENT
from functools import partial
from typing import Any

from byrote import _arguments, _byrote, _errors
from byrote._settings import Path, encode

ENDINGS = (".parquet", ".arrow", ".npy", ".bin", *(s + z for s in (".txt", ".text", ".jsonl", ".ndjson") for z in ("", ".gz", ".zst")))
"""The names that readers know: the files of a directory that are read."""
ATTEMPTS = 4
"""How often a file is fetched before it counts as unreadable."""
PIECE = 4 << 20
"""How much of a file is in memory while it is fetched."""


@dataclass(frozen=True)
class InputFile:
    """A file, on this machine or elsewhere."""

    name: str
    """What messages call it: a path or a URL."""
    size: int
    """Its bytes, or 0 if that is not known."""
    open: Callable[[], Any] | None = None
    """Open it for reading, if it is elsewhere."""
    index: Callable[[], Any] | None = None
    """Open the index beside it, if it has one."""

    def fetch(self, folder: str, number: int) -> str:
        """Return a path of the file on this machine; what is elsewhere is copied into a folder."""
        if self.open is None:
            return self.name
        # The ending decides the format; the rest of the name may be anything.
        own = os.path.join(folder, f"{number:06}")
        os.mkdir(own)
        local = os.path.join(own, os.path.basename(self.name.split("::")[0].split("?")[0]) or "input")
        _copy(self.open, local, self.name)
        if self.index is not None:
            _copy(self.index, os.path.splitext(local)[0] + ".idx", self.name)
        return local


def unreadable(name: str, error: Exception) -> BaseException:
    """Return the exception for a file that cannot be read."""
    errno = getattr(error, "errno", None)
    if errno is None:
        errno = ENOENT if isinstance(error, FileNotFoundError) else EACCES if isinstance(error, PermissionError) else None
    reason = "no such file" if errno == ENOENT else str(error) or type(error).__name__
    return _errors.of("io", f"{name}: cannot read it: {reason}", name, None, None, errno)


def _copy(source: Callable[[], Any], local: str, name: str) -> None:
    """Copy a file piece by piece. Networks fail now and then, so this tries again, but not to read what is not there."""
    for attempt in range(ATTEMPTS):
        try:
            with source() as far, open(local, "wb") as near:
                shutil.copyfileobj(far, near, PIECE)
            return
        except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
            raise unreadable(name, error) from error
        except Exception as error:  # Every file system has its own.
            if attempt + 1 == ATTEMPTS:
                raise unreadable(name, error) from error
            time.sleep(0.2 * 2**attempt)


def find(paths: Iterable[Path], *, format: str | None = None, filesystem: Any = None) -> list[InputFile]:
    """Return the files that paths mean, with directories and patterns spelled out.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.txt", "a.txt", "notes.md"):
    ...         _ = open(os.path.join(folder, name), "w").write("x")
    ...     [os.path.basename(file.name) for file in find([folder])]
    ['a.txt', 'b.txt']
    """
    found: list[InputFile] = []
    for path in paths:
        text = os.fspath(path)
        if filesystem is not None:
            found.extend(_elsewhere(_as_fsspec(filesystem), text, format))
        elif text.startswith("file://"):
            found.extend(_local(text.removeprefix("file://"), format))
        elif "://" in text or "::" in text:
            found.extend(_of_url(text, format))
        else:
            found.extend(_local(text, format))
    return found


def _local(path: str, format: str | None) -> list[InputFile]:
    names = _byrote.input_files(encode({"paths": [path], "format": format}))

    def size(name: Path) -> int:
        try:
            return os.path.getsize(name)
        except OSError:
            return 0  # Reading it says why.

    return [InputFile(os.path.abspath(name), size(name)) for name in names]


def _as_fsspec(filesystem: Any) -> Any:
    """Return a file system of fsspec for one of pyarrow."""
    if hasattr(filesystem, "open_input_stream"):
        from fsspec.implementations.arrow import ArrowFSWrapper

        return ArrowFSWrapper(filesystem)
    if not hasattr(filesystem, "unstrip_protocol"):
        message = f"must be a file system of fsspec or pyarrow (got {type(filesystem).__name__})"
        raise _arguments.wrong("filesystem", message)
    return filesystem


def _of_url(url: str, format: str | None) -> list[InputFile]:
    try:
        import fsspec
    except ImportError as error:
        raise ImportError(f"{url}: URLs need fsspec; install it, or give local paths") from error
    try:
        system, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        # fsspec lacks the package for this protocol; pyarrow has some of its own.
        try:
            from pyarrow.fs import FileSystem

            theirs, path = FileSystem.from_uri(url)
        except Exception:
            raise unreadable(url, error) from error
        system = _as_fsspec(theirs)
    return _elsewhere(system, path, format, url)


def _elsewhere(system: Any, path: str, format: str | None, url: str | None = None) -> list[InputFile]:
    """Return the files that a path means in a file system of fsspec."""
    shown = url or path
    try:
        if any(special in path for special in "*?["):
            paths = sorted(p for p in system.glob(path) if not system.isdir(p))
            if not paths:
                raise _errors.of("format", f"{shown}: no file matches this pattern", shown, None, None, None)
        elif system.isdir(path):
            paths = sorted(p for p in system.find(path) if format or p.endswith(ENDINGS))
            if not paths:
                message = f"{shown}: is a directory without files to read; name the files, or set `format` to read all of them"
                raise _errors.of("format", message, shown, None, None, None)
        else:
            paths = [path]
        return [_one(system, p, shown if p == path else system.unstrip_protocol(p)) for p in paths]
    except _errors.Error:
        raise
    except Exception as error:
        raise unreadable(shown, error) from error


def _one(system: Any, path: str, name: str) -> InputFile:
    size = int(system.info(path).get("size") or 0)
    index = None
    if path.endswith(".bin") and system.exists(path.removesuffix(".bin") + ".idx"):
        index = partial(system.open, path.removesuffix(".bin") + ".idx", "rb")
    return InputFile(name, size, partial(system.open, path, "rb"), index)
