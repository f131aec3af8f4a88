"""What the screen shows of a campaign: a bar, what is left, and how the last run ended."""

from __future__ import annotations

import sys
from typing import TextIO

_WIDTH = 24


def line(*, done: int, total: int, stage: tuple[str, int, int], left_seconds: float | None, last: str) -> str:
    """One line: bar, all runs, the stage's runs, seconds that the rest will take if known, what was last."""
    filled = _WIDTH * done // total if total else _WIDTH
    bar = "#" * filled + "." * (_WIDTH - filled)
    rest = "" if left_seconds is None else f", about {_duration(left_seconds)} left"
    name, stage_done, stage_total = stage
    return f"[{bar}] {done}/{total}, {name} {stage_done}/{stage_total}{rest}  {last}"


class Screen:
    """Overwrites its line on a terminal, writes lines elsewhere."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Write to standard error, if to no other."""
        self._stream = stream or sys.stderr
        self._overwrites = self._stream.isatty()

    def show(self, text: str) -> None:
        """Show the state."""
        self._stream.write(f"\r\x1b[K{text}" if self._overwrites else f"{text}\n")
        self._stream.flush()

    def say(self, text: str) -> None:
        """Something that stays."""
        self._stream.write(f"{chr(10) if self._overwrites else ''}{text}\n")
        self._stream.flush()


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
