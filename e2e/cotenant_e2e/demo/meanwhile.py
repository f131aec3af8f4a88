"""Something to read while Kubernetes is built: the simulator's comparison, computed beside the build."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from cotenant_api import errors
from cotenant_e2e.demo import comparison

_ARGUMENTS: Final = ("simulate", "horus", "--seeds", "0-1", "--processes", "1", "--json")
COMMAND: Final = (str(Path(sys.executable).with_name("cotenant")), *_ARGUMENTS)
"""Two repeats: 7 s on one core; the others are the build's."""


@contextlib.contextmanager
def compared(console: Console, command: Sequence[str] = COMMAND) -> Iterator[None]:
    """Show the comparison during the block, as soon as it is there; at the block's end it has been shown.

    Args:
        console: the one that the block writes to.
        command: prints the document that is shown. Where it fails, its last line is shown instead.
    """
    # A session of its own: the command's own processes end with it.
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        showing = threading.Thread(target=_show, args=(running, console), daemon=True)
        showing.start()
        try:
            yield
            showing.join()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGTERM)
            showing.join()
            raise


def _show(running: "subprocess.Popen[str]", console: Console) -> None:
    printed, said = running.communicate()
    if running.returncode == 0:
        console.print(comparison.table(json.loads(printed)))
    elif running.returncode > 0:
        lines = said.strip().splitlines() or [f"exit code {running.returncode}"]
        console.print(f"the simulation failed ({errors.shortened(lines[-1])})", markup=False, soft_wrap=True)
