"""When a control daemon counts as one that hangs: it lives, and has answered none of many questions in a row. Pure.

One question without an answer proves nothing: on a busy machine the program that asks may get no turn in time. Nor do
many in a moment: a daemon that starts refuses them at once.
"""

from dataclasses import dataclass, replace
from typing import Final

QUESTIONS: Final = 6
"""Unanswered in a row, each of which is waited for; with the pauses between them about two minutes."""


@dataclass(frozen=True)
class Silence:
    """What is known of a daemon's silence.

    Attributes:
        unanswered: how many questions in a row.
        since: when the first of them was put; None: the last one was answered.
    """

    unanswered: int = 0
    since: float | None = None

    def longer(self, asked: float) -> "Silence":
        """Return what is known after another question without an answer, put at this time."""
        return replace(self, unanswered=self.unanswered + 1, since=asked if self.since is None else self.since)

    def hangs(self, now: float, *, questions: int, seconds: float) -> bool:
        """Return whether so many questions over so long prove that the daemon hangs."""
        return self.since is not None and self.unanswered >= questions and now - self.since >= seconds

    def told(self, now: float) -> str:
        """Return the evidence, in words."""
        seconds = 0 if self.since is None else now - self.since
        return f"lives and has answered none of {self.unanswered} questions in {seconds:.0f} s"
