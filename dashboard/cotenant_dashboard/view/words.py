"""Words from anywhere, made safe to show, wherever they stand in a JSON value. Pure."""

from typing import Any

from cotenant_api import printable


def plain(value: Any) -> Any:
    """Return the value with every string on one line, without what would change the direction of writing."""
    match value:
        case str():
            return printable.plain(value)
        case dict():
            return {plain(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value
