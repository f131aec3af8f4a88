"""The measured processes as the measurement sees them: started, placed, asked, ended."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from cotenant_e2e.space_time.mechanisms import Side

ROOT = Path(__file__).parents[3]
END_SECONDS = 20


class WorkerError(Exception):
    """A measured process has ended. The message has its last lines."""


class Worker:
    """A process of `worker`, in an environment of its own."""

    def __init__(self, python: str, words: list[str], *, environment: Mapping[str, str], log: Path) -> None:
        """Start the process and wait until it has its network.

        Raises:
            WorkerError: it has ended.
        """
        self.name = " ".join(words[:2])
        self._log = log
        self._errors = log.open("ab")
        self._process = subprocess.Popen(
            [python, "-m", "cotenant_e2e.space_time.worker", *words],
            env={**environment, "PYTHONPATH": f"{ROOT / 'e2e'}:{ROOT / 'runtime'}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        try:
            self.torch = str(self.answer()["torch"])
        except WorkerError:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """Return the process's number."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def tell(self, what: str, **more: Any) -> None:
        """Send a command."""
        self._write(json.dumps({"do": what, **more}))

    def interrupt(self) -> None:
        """End what runs until a line comes in."""
        self._write("")

    def answer(self) -> dict[str, Any]:
        """Wait for the answer to a command.

        Raises:
            WorkerError: the process has ended.
        """
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise WorkerError(f"{self.name} has ended: {self._log.read_text(errors='replace')[-2000:]}")
        found: dict[str, Any] = json.loads(line)
        return found

    def ask(self, what: str, **more: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self.tell(what, **more)
        return self.answer()

    def place(self, side: Side) -> None:
        """Place all threads of the process."""
        self.ask("place", cores=list(side.cores), threads=side.threads, nice=side.nice)

    def stop(self) -> None:
        """End the process."""
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self._errors.close()

    def _write(self, line: str) -> None:
        try:
            if self._process.stdin:
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerError(f"{self.name} has ended: {self._log.read_text(errors='replace')[-2000:]}") from None
