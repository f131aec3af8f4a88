"""Blocks of code in Markdown files, and what becomes of them: each command is run by a test, or says why not.

The line above a block says it: `<!-- run: tests/docs/test_commands.py -->` names the file of the test that runs all
blocks so marked; `<!-- not run: REASON -->` says why none does. Pure but for reading the files.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

COMMANDS: Final = ("sh", "console", "bash", "shell")
"""Languages of blocks that hold commands."""
_FENCE: Final = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)[^`]*$")
_MARK: Final = re.compile(r"^\s*<!-- (?P<verb>run|not run): (?P<said>.+?) -->\s*$")


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block.

    Attributes:
        page: path of the file, in the repository.
        line: of the opening fence, from 1.
        language: after the fence; may be empty.
        text: what is in it, without its indentation.
        test: path of the test that runs it; empty: none is named.
        reason: why none runs it; empty: none is given.
    """

    page: str
    line: int
    language: str
    text: str
    test: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Step:
    """A script for a shell, and lines that must be in what it prints."""

    script: str
    expected: tuple[str, ...] = ()


def blocks(text: str, *, page: str) -> Iterator[Block]:
    """Every fenced block of a Markdown text, in order."""
    above, start, fence = "", 0, None
    body: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        if fence is None:
            fence = _FENCE.match(line)
            start, body = number, []
            if fence is None and line.strip():
                above = line
        elif line.strip() == "```":
            code = "\n".join(body)
            yield Block(page=page, line=start, language=fence["language"], text=code, **_said(above))
            above, fence = "", None
        else:
            body.append(line.removeprefix(fence["indent"]))


def pages(root: Path) -> list[str]:
    """Every Markdown file that git knows or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return sorted(name for name in set(listed.stdout.splitlines()) if (root / name).is_file())


def of_pages(root: Path) -> Iterator[Block]:
    """Every block of every page."""
    for page in pages(root):
        yield from blocks((root / page).read_text(encoding="utf-8"), page=page)


def run_by(test: str, root: Path) -> Mapping[str, Sequence[Step]]:
    """Page -> what a test has to run of it, in order.

    Of a `console` block that are the lines after `$ `, and what stands below each must be printed, but for lines `...`.
    Of any other block it is all of it; where a block of `text` follows, its first line must be printed.
    """
    found: dict[str, list[Step]] = {}
    before: Block | None = None
    for block in of_pages(root):
        if block.test == test:
            found.setdefault(block.page, []).extend(steps(block))
        elif before is not None and before.test == test and block.page == before.page and block.language == "text":
            last = found[block.page][-1]
            found[block.page][-1] = Step(last.script, (*last.expected, block.text.split("\n")[0]))
        before = block
    return found


def steps(block: Block) -> Iterator[Step]:
    """What a block has a reader type: of `console` each command, of any other language all of it."""
    if block.language != "console":
        yield Step(block.text)
        return
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        lines = part.rstrip("\n").split("\n")
        size = 1
        while size < len(lines) and lines[size - 1].endswith("\\"):
            size += 1
        expected = tuple(line for line in lines[size:] if line.strip() and line != "...")
        yield Step("\n".join(lines[:size]), expected)


def missing(step: Step, printed: str) -> list[str]:
    """Return the expected lines that were not printed; runs of blanks count as one."""
    lines = {_squeezed(line) for line in printed.split("\n")}
    return [line for line in step.expected if _squeezed(line) not in lines]


def _said(above: str) -> dict[str, str]:
    """Return what the line above a block says of it: fields of `Block`."""
    mark = _MARK.match(above)
    return {} if mark is None else {"test" if mark["verb"] == "run" else "reason": mark["said"]}


def _squeezed(line: str) -> str:
    return " ".join(line.split())
