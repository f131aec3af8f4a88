"""Mutants that change no behaviour, each with the reason; they are reported apart from those that survive."""

from typing import Final, NamedTuple

from mutants import mutation


class Equivalent(NamedTuple):
    """An edit that nobody can notice.

    Attributes:
        function: where it is, as the sample names it.
    """

    file: str
    function: str
    old: str
    new: str
    reason: str


EQUIVALENT: Final[tuple[Equivalent, ...]] = ()


def reason(mutant: mutation.Mutant) -> str | None:
    """Return why a mutant changes no behaviour; None where it is not known to be so."""
    where = mutant.file, mutant.name, mutant.old, mutant.new
    return next((entry.reason for entry in EQUIVALENT if entry[:4] == where), None)
