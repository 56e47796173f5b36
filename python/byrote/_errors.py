"""The exceptions of byrote: one class per kind, each also a class that Python code already catches."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from errno import EACCES, ENOENT


class Error(Exception):
    """What every exception of byrote is.

    Its attributes are the fields of the error that the program prints with ``--json``.
    """

    kind: str
    """The kind, such as ``"setting"``."""
    message: str
    """What is wrong and what to do, in one sentence."""
    path: str | None
    """The file concerned, if there is one."""
    line: int | None
    """Its line or record, from 1, if one is known."""
    setting: str | None
    """The keyword concerned, if there is one."""

    def __str__(self) -> str:
        return self.message


class InputError(Error, ValueError):
    """Input or settings that byrote cannot use."""


class SettingError(InputError):
    """A setting outside its range, or settings that contradict each other."""


class UnknownSettingError(SettingError, TypeError):
    """A keyword that does not exist; the message suggests the nearest one."""


class FormatError(InputError):
    """A file whose content contradicts its name or the settings."""


class EmptyCorpusError(InputError):
    """A corpus without documents or without contexts."""


class RefusedError(InputError):
    """A builder cannot construct the model: a hypothesis of its theorem does not hold."""


class SequenceError(InputError):
    """A sequence of vectors that a method cannot process."""


class FileError(Error, OSError):
    """The operating system could not read or write a file."""


class MissingFileError(FileError, FileNotFoundError):
    """A file or a directory that does not exist."""


class ForbiddenFileError(FileError, PermissionError):
    """A file that may not be read or written."""


class BusyError(FileError):
    """Another process is using a run directory."""


class OtherRunError(InputError):
    """A run directory belongs to a different run."""


_CLASSES: dict[str, type[Error]] = {
    "io": FileError,
    "busy": BusyError,
    "other_run": OtherRunError,
    "invalid_utf8": FormatError,
    "format": FormatError,
    "setting": SettingError,
    "unknown_setting": UnknownSettingError,
    "empty_corpus": EmptyCorpusError,
    "incompatible": InputError,
    "refused": RefusedError,
    "sequence": SequenceError,
    "unstable_step": SettingError,
    "figure": InputError,
}


_FOUND = {"sequence": "a list", "map": "a dictionary", "unit": "None", "null": "None"}
"""What the library calls the values of Python that have no short form."""


def _typed(message: str) -> str:
    """Return a message about a value of the wrong type in the words of Python.

    >>> _typed("n_ctx: invalid type: floating point `1.5`, expected a whole number of at least 0")
    'n_ctx: must be a whole number of at least 0 (got 1.5)'
    >>> _typed("field: invalid type: sequence, expected a string")
    'field: must be a str (got a list)'
    """
    found = re.fullmatch(r"(\w+: )invalid (?:type|value): (.+), expected (.+)", message, re.DOTALL)
    if found is None:
        return re.sub(r"^(\w+: )expected (a (?:text|number) .+)", r"\1must be \2", message)
    name, given, expected = found.groups()
    value = re.fullmatch(r"(?:floating point|integer|boolean|character) `(.*)`|string (\".*\")", given, re.DOTALL)
    shown = _FOUND.get(given, given) if value is None else value.group(1) or value.group(2)
    shown = {"true": "True", "false": "False"}.get(shown, shown)
    expected = {"a string": "a str", "true or false": "True or False"}.get(expected, expected)
    return f"{name}must be {expected} (got {shown})"


def spelled(message: str) -> str:
    """Return a message of the library with its settings and values as Python writes them."""

    def setting(found: re.Match[str]) -> str:
        name, value = found.group(1), found.group(2)
        if value in ("true", "false"):
            return f"{name}={value.capitalize()}"
        number = re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", value)
        return f"{name}={value}" if number else f'{name}="{value}"'

    # A float that is written with all its digits is hard to read.
    short = re.sub(r"\b\d{22,}\b", lambda digits: f"{float(digits.group()):.6g}", _typed(message))
    return re.sub(r"`(\w+) = ([^`]*)`", setting, re.sub(r"\b(has|have) 1 (\w+)s\b", r"\1 1 \2", short))


def of(
    kind: str, message: str, path: str | None, line: int | None, setting: str | None, errno: int | None
) -> BaseException:
    """Return the exception for an error of the library; the extension module calls this."""
    if kind == "interrupted":
        return KeyboardInterrupt()
    text = spelled(message)
    if kind == "io" and errno is None and text.endswith("does not exist"):
        errno = ENOENT  # The library has looked before it asked the system.
    found = _CLASSES.get(kind, Error)
    if found is FileError:
        found = {ENOENT: MissingFileError, EACCES: ForbiddenFileError}.get(errno or 0, FileError)
    error: Error
    if issubclass(found, OSError) and errno is not None:
        error = found(errno, os.strerror(errno), path)
    else:
        error = found(text)
    error.kind = kind
    error.message = text
    error.path = path
    error.line = line
    error.setting = setting
    return error


def renamed(error: Error, names: Mapping[str, str]) -> BaseException:
    """Return an error with other names of files."""
    message = error.message
    for inner, name in names.items():
        message = message.replace(inner, name)
    path = None if error.path is None else names.get(error.path, error.path)
    return of(error.kind, message, path, error.line, error.setting, getattr(error, "errno", None))


@contextlib.contextmanager
def said_of(what: str, instead: str) -> Iterator[None]:
    """Let a setting that does not apply to one thing not apply to another, which the caller knows."""
    try:
        yield
    except Error as error:
        end = f" does not apply to {what}"
        if not error.message.endswith(end):
            raise
        message = error.message.removesuffix(what) + instead
        raise of(error.kind, message, error.path, error.line, error.setting, None) from None


@contextlib.contextmanager
def called(setting: str, outer: str) -> Iterator[None]:
    """Name a setting of the library as the caller knows it."""
    try:
        yield
    except Error as error:
        if error.setting != setting:
            raise
        message = re.sub(rf"^{setting}:", f"{outer}:", error.message)
        raise of(error.kind, message, error.path, error.line, outer, None) from None


def missing(what: str, *packages: str) -> ImportError:
    """Return the exception for packages that are not installed.

    >>> missing("to_pandas", "pandas")
    ImportError('to_pandas needs pandas: pip install pandas')
    """
    return ImportError(f"{what} needs {' and '.join(packages)}: pip install {' '.join(packages)}")
