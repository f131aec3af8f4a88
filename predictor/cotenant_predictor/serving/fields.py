"""Fields of a `config.json`, each checked as it is read."""

from collections.abc import Mapping
from typing import Any, Final

from cotenant_api import errors

MOST: Final = 1 << 24
"""No size of a model is larger; what is would only make figures that nobody can use."""


class Fields:
    """A configuration; `source`: what errors name it."""

    def __init__(self, values: Mapping[str, Any], source: str) -> None:
        self._values, self._source = values, source

    def count(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """Return a whole number, of the first of these fields that is there and not null.

        Raises:
            InvalidInputError: none is there and there is no default, or it is no whole number from `least` on.
        """
        for name in names:
            value = self._values.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
                raise self.invalid(name, value, f"must be a whole number from {least} to {MOST}")
            return value
        if default is None:
            raise self.invalid(names[0], None, "must be there: the size of the model follows from it")
        return default

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a boolean.

        Raises:
            InvalidInputError: it is none.
        """
        value = self._values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.invalid(name, value, "must be true or false")
        return value

    def word(self, name: str, *, default: str = "") -> str:
        """Return a text.

        Raises:
            InvalidInputError: it is none.
        """
        value = self._values.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.invalid(name, value, "must be a text")
        return value

    def items(self, name: str) -> list[Any] | None:
        """Return a list, or None where there is none.

        Raises:
            InvalidInputError: it is something else.
        """
        value = self._values.get(name)
        if value is not None and not isinstance(value, list):
            raise self.invalid(name, value, "must be a list")
        return value

    def within(self, name: str) -> "Fields | None":
        """Return an object that is one of the fields, or None where there is none.

        Raises:
            InvalidInputError: it is something else.
        """
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.invalid(name, value, "must be an object")
        return Fields(value, f"{self._source}: {name}")

    def objects(self) -> "list[tuple[str, Fields]]":
        """Return every field, each of which must be an object.

        Raises:
            InvalidInputError: one is something else.
        """
        found = [(name, self.within(name)) for name in self._values]
        return [(name, one) for name, one in found if one is not None]

    def invalid(self, name: str, value: object, remedy: str) -> errors.InvalidInputError:
        """Return the error for a field."""
        return errors.InvalidInputError(f"{self._source}: {name}", value, remedy)
