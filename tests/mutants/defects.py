"""What a planted defect is."""

from typing import NamedTuple


class Defect(NamedTuple):
    """An edit of a text that occurs once in a file.

    Attributes:
        breaks: the promise that does not hold any more.
    """

    name: str
    file: str
    old: str
    new: str
    breaks: str
