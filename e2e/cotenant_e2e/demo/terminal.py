"""What somebody sees on a terminal, as a picture that loads nothing from elsewhere."""

import errno
import io
import os
import pty
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console, RenderableType
from rich.text import Text

from cotenant_api import errors

_CHUNK_BYTES: Final = 65_536


def picture(shown: RenderableType, path: Path, *, title: str, width: int) -> None:
    """Write it as SVG. `width`: of the terminal, in characters."""
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(shown)
    svg = console.export_svg(title=title)
    path.write_text(re.sub(r"@font-face {.*?}\s*", "", svg, flags=re.DOTALL))


def session(command: Sequence[str], printed: str) -> Text:
    """Return a prompt with the command as people type it, and below what it printed."""
    return Text.from_ansi(f"$ {' '.join(command)}\n{printed.rstrip()}")


def width_of(text: Text) -> int:
    """Characters of its longest line."""
    return max(line.cell_len for line in text.split())


def printed(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return what a command prints to a terminal, colours included.

    Raises:
        PermanentError: it failed; the message is what it said.
    """
    reader, writer = pty.openpty()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=writer, stderr=writer, env=environment) as running:
        os.close(writer)
        text = _read(reader).decode(errors="replace").replace("\r\n", "\n")
    if running.returncode:
        raise errors.PermanentError(f"{' '.join(command)}: {errors.shortened(text.strip())}")
    return text


def _read(reader: int) -> bytes:
    """All of it, up to the end of whoever writes."""
    found = bytearray()
    with open(reader, "rb", buffering=0) as terminal:
        while True:
            try:
                chunk = terminal.read(_CHUNK_BYTES)
            except OSError as error:
                # So Linux says that nobody has the other end any more.
                if error.errno != errno.EIO:
                    raise
                return bytes(found)
            if not chunk:
                return bytes(found)
            found += chunk
