"""A mutant: one source file of the extender with one edit. Pure."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "extender" / "cotenant_extender"
PLANTED = "planted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One edit of one file.

    Attributes:
        group: the row of the table that counts this mutant.
        name: what a person calls it.
        file: path below the package's folder.
        first, last: numbers of the lines whose execution the edit can change.
        old, new: the text that is replaced, and its replacement.
        number: which of the equal edits of its function this is, from 1.
        constant: the name in the module whose value is another; empty: none.
        content: the whole file after the edit.
    """

    group: str
    name: str
    file: str
    first: int
    last: int
    old: str
    new: str
    content: str
    number: int = 1
    constant: str = ""

    @property
    def key(self) -> str:
        """Return the name under which results are kept: equal for equal content of the mutated file alone."""
        return hashlib.blake2b(f"{self.file}\0{self.content}".encode(), digest_size=8).hexdigest()

    @property
    def place(self) -> str:
        """Return file and line."""
        return f"{self.file}:{self.first}"

    @property
    def edit(self) -> str:
        """Return the edit on one line, for a person."""
        return f"{_shortened(self.old)}  ->  {_shortened(self.new)}"


def _shortened(text: str, limit: int = 100) -> str:
    words = " ".join(text.split())
    return words if len(words) <= limit else f"{words[: limit - 3]}..."
