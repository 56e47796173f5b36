"""Progress bars: one line in a terminal, one in a notebook, nothing elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from typing import Any

log = logging.getLogger("byrote")

Progress = bool | None
"""Whether to show progress: True, False, or None to decide by where the code runs."""


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    running = shell.get_ipython()
    return running is not None and type(running).__name__ == "ZMQInteractiveShell"


def _in_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _duration(seconds: float) -> str:
    whole = int(seconds + 0.5)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _count(n: int, unit: str) -> str:
    if unit != "bytes":
        return f"{n:,} {unit}"
    for size, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if n >= size:
            return f"{n / size:.1f} {name}"
    return f"{n} bytes"


class Watch:
    """Shows the progress of one call. The extension module calls ``show``, ``note`` and ``close``."""

    #: Seconds before anything is shown: most calls are done by then.
    PATIENCE = 0.5

    def __init__(self, progress: Progress = None) -> None:
        self._started = time.monotonic()
        self._stage = ""
        self._stage_started = self._started
        self._width = 0
        self._display: Any = None
        notebook = _in_notebook()
        wanted = (notebook or _in_terminal()) if progress is None else progress
        self._notebook = wanted and notebook
        self._terminal = wanted and not notebook

    def show(self, stage: str, unit: str, done: int, total: int | None, details: Mapping[str, float]) -> None:
        """Show how far a stage has come."""
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._stage_started = stage, now
        if not (self._terminal or self._notebook) or now - self._started < self.PATIENCE:
            return
        line = self._line(stage, unit, done, total, details, now - self._stage_started)
        if self._terminal:
            blank = " " * max(0, self._width - len(line))
            sys.stderr.write(f"\r{line}{blank}")
            sys.stderr.flush()
            self._width = len(line)
        else:
            self._in_notebook(line, done, total)

    @staticmethod
    def _line(
        stage: str, unit: str, done: int, total: int | None, details: Mapping[str, float], seconds: float
    ) -> str:
        parts = [stage]
        if total:
            share = min(done / total, 1.0)
            bar = "#" * int(20 * share)
            parts.append(f"[{bar:<20}] {share:4.0%} of {_count(total, unit)}")
            if 0.02 < share < 1.0:
                parts.append(f"{_duration(seconds * (1 / share - 1))} left")
        elif done:
            parts.append(_count(done, unit))
        parts.extend(f"{name} {value:,.6g}" for name, value in details.items())
        return "  ".join(parts)

    def _in_notebook(self, line: str, done: int, total: int | None) -> None:
        from IPython.display import HTML, display

        value = f' value="{done}" max="{total}"' if total else ""
        shown = HTML(f"<progress{value}></progress> <code>{line}</code>")
        if self._display is None:
            self._display = display(shown, display_id=True)
        else:
            self._display.update(shown)

    def note(self, text: str, is_warning: bool) -> None:
        """Pass on a remark of the library, to the logger ``byrote``."""
        log.log(logging.WARNING if is_warning else logging.INFO, text)

    def close(self) -> None:
        """Remove what was shown."""
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
            self._width = 0
        if self._display is not None:
            from IPython.display import HTML

            self._display.update(HTML(""))
            self._display = None
