"""The error tree.

    CotenantError
    +-- InvalidInputError      what somebody wrote cannot be used; it names field, value and remedy
    |   +-- UnsupportedVersionError
    +-- PermanentError         trying again changes nothing
    |   +-- NotFoundError      nothing has the name that somebody asked for
    +-- TemporaryError         worth trying again after `delay_seconds`

Each error is raised once, at the boundary where the foreign error is known, and chained from it.
"""

import reprlib
from pathlib import PurePath

MAX_FOREIGN_TEXT = 256


class CotenantError(Exception):
    """Base of every error that Cotenant raises on purpose."""


class InvalidInputError(CotenantError):
    """A document, object or argument that cannot be used.

    Args:
        field: path of the field, as the reader would write it (`spec.model.configMapRef.key`).
        value: what stands there; shortened in the message.
        remedy: what to write instead.
    """

    def __init__(self, field: str, value: object, remedy: str) -> None:
        self.field, self.value, self.remedy = field, value, remedy
        super().__init__(f"{field}: {shortened(value)}: {remedy}")

    def __reduce__(self) -> "tuple[type[InvalidInputError], tuple[str, object, str]]":
        """So that it comes out of a process of its own as it was raised there."""
        return type(self), (self.field, self.value, self.remedy)


class UnsupportedVersionError(InvalidInputError):
    """A document of a higher major version than this program reads."""


class PermanentError(CotenantError):
    """Trying again changes nothing."""


class NotFoundError(PermanentError):
    """Nothing has the name that somebody asked for; see `InvalidInputError`."""

    def __init__(self, field: str, value: object, remedy: str) -> None:
        super().__init__(f"{field}: {shortened(value)}: {remedy}")


class TemporaryError(CotenantError):
    """Worth trying again after `delay_seconds`."""

    def __init__(self, message: str, *, delay_seconds: float) -> None:
        self.delay_seconds = delay_seconds
        super().__init__(message)


def shortened(value: object, *, limit: int = MAX_FOREIGN_TEXT) -> str:
    """Return the value as text, quoted if it is a string, cut to `limit` characters.

    Cheap, however large or deep it is.
    """
    value = str(value) if isinstance(value, PurePath) else value
    text = repr(value[: limit + 1]) if isinstance(value, (str, bytes)) else _bounded.repr(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


_bounded = reprlib.Repr()
_bounded.maxlevel = 8
_bounded.maxlist = _bounded.maxtuple = _bounded.maxdict = 64
_bounded.maxstring = _bounded.maxother = _bounded.maxlong = MAX_FOREIGN_TEXT
