"""Defects that were chosen by hand: each breaks one promise of the extender by one small edit."""

from typing import Final

from mutants import defects, defects_of_counting, defects_of_deciding, mutation

DEFECTS: Final = (*defects_of_counting.DEFECTS, *defects_of_deciding.DEFECTS)


def mutants() -> list[mutation.Mutant]:
    """Return a mutant for each defect.

    Raises:
        ValueError: the text of a defect does not occur exactly once in its file.
    """
    return [mutant(defect) for defect in DEFECTS]


def mutant(defect: defects.Defect) -> mutation.Mutant:
    """Return the mutant of a defect.

    Raises:
        ValueError: its text does not occur exactly once in its file.
    """
    source = (mutation.SOURCES / defect.file).read_text()
    if source.count(defect.old) != 1:
        raise ValueError(f"{defect.name}: {defect.old!r} occurs {source.count(defect.old)} times in {defect.file}")
    first = source[: source.index(defect.old)].count("\n") + 1
    return mutation.Mutant(
        group=mutation.PLANTED, name=defect.name, file=defect.file, first=first,
        last=first + defect.old.count("\n"), old=defect.old, new=defect.new,
        content=source.replace(defect.old, defect.new),
    )  # fmt: skip
