"""Reads a CSV file line by line; an error names file, line, column and remedy. Knows no column."""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

from cotenant_api import errors

Made = TypeVar("Made")

_MAX_DIGITS: Final = 12


class Row:
    """One line of a CSV file, and its place for the message of an error."""

    def __init__(self, file: Path, line: int, cells: Mapping[str, str | None]) -> None:
        self._file, self._line, self._cells = file, line, cells

    def text(self, column: str) -> str:
        """Return a cell; empty where the line ends before it, or the file has no such column."""
        return (self._cells.get(column) or "").strip()

    def number(self, column: str, *, least: int = 0) -> int:
        """Return a cell that is a whole number of at least `least`, also written as `1.0`; an empty one is 0."""
        text = self.text(column).removesuffix(".0") or "0"
        if not text.isascii() or not text.isdigit() or len(text) > _MAX_DIGITS or int(text) < least:
            raise self.error(column, f"must be a whole number of at least {least}")
        return int(text)

    def error(self, column: str, remedy: str) -> errors.InvalidInputError:
        """Return what is wrong with a cell."""
        return errors.InvalidInputError(f"{self._file}:{self._line}: {column}", self.text(column), remedy)


def rows(file: Path, columns: Iterable[str], make: Callable[[Row], Made]) -> Iterator[Made]:
    """Yield what `make` makes of each line of a CSV file.

    Args:
        file: its first line names the columns.
        columns: those that it must have; more may be there.
        make: what a line stands for.

    Raises:
        InvalidInputError: the file or a column is missing, or it is no CSV in UTF-8; what `make` raises.
    """
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, strict=True)
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                remedy = f"the first line must name the columns {', '.join(columns)}; missing: {', '.join(missing)}"
                raise errors.InvalidInputError(f"{file}:1", ",".join(reader.fieldnames or ()), remedy)
            for cells in reader:
                yield make(Row(file, reader.line_num, cells))
    except OSError as error:
        raise errors.InvalidInputError("--trace-dir", str(file), f"cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise errors.InvalidInputError(str(file), file.name, f"must be CSV in UTF-8: {error}") from error
