"""Runs programs to their end and reads what they print. For processes that stay, see `processes`."""

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

QUESTION_SECONDS = 20


def ask(argv: Sequence[str]) -> str | None:
    """Return what a program prints; None when it cannot be run, fails or takes too long."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=QUESTION_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def follow(
    argv: Sequence[str], *, environment: Mapping[str, str], directory: Path, log: TextIO, line: Callable[[str], None]
) -> int:
    """Run a program; its exit code. Each line that it prints goes into the log and to `line`.

    It is stopped when this process is interrupted meanwhile.
    """
    with subprocess.Popen(
        argv,
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as running:
        try:
            for text in running.stdout or ():
                log.write(text)
                line(text.rstrip("\n"))
        except BaseException:
            # go cleans up after SIGINT, and does not after SIGTERM.
            running.send_signal(signal.SIGINT)
            raise
    return running.returncode
