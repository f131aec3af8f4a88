"""The parts of the page by their keys, with the revision at which each changed last. Pure.

Whoever has seen the page at some revision is told what changed since: no history is kept, and who reads slowly is told
less often, never more at once than the whole page.
"""

import json
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant_dashboard.view import words

_UNSAFE: Final = re.compile(r"[^ -~]|\\[bfnrtu]")
"""What is no ASCII, or what JSON escapes: most parts have none of it, and to look is quicker than to make plain."""
GONE_LIMIT: Final = 4096
"""Keys of parts that are gone, kept so that a reader is told of them; who is further behind is told the whole page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is new since a revision.

    Attributes:
        whole: these are all parts there are; else those that changed.
        parts: JSON texts by key: in the order in which they changed, or all of them in that of their keys.
        gone: keys of parts that are no more.
    """

    revision: int
    whole: bool
    parts: Mapping[str, str]
    gone: tuple[str, ...]


class Parts:
    """All parts.

    Args:
        gone_limit: of how many parts that are gone it is known when they went.

    Attributes:
        revision: of the newest change.
    """

    def __init__(self, *, gone_limit: int = GONE_LIMIT) -> None:
        self.revision, self._limit = 0, gone_limit
        self._parts: OrderedDict[str, tuple[int, str]] = OrderedDict()
        self._gone: OrderedDict[str, int] = OrderedDict()
        self._forgotten = 0

    def put(self, key: str, value: Mapping[str, Any]) -> None:
        """Let a part be this, its words made plain; nothing is new if it is already."""
        text = _text(value)
        if _UNSAFE.search(text):
            text = _text(words.plain(value))
        known = self._parts.get(key)
        if known is not None and known[1] == text:
            return
        self.revision += 1
        self._gone.pop(key, None)
        self._parts[key] = (self.revision, text)
        self._parts.move_to_end(key)

    def remove(self, key: str) -> None:
        """Let there be no such part."""
        if self._parts.pop(key, None) is None:
            return
        self.revision += 1
        self._gone[key] = self.revision
        if len(self._gone) > self._limit:
            _, self._forgotten = self._gone.popitem(last=False)

    def since(self, revision: int | None) -> Change:
        """Return what changed after a revision.

        All of it, for who has seen none, or one that is too old or not of these.
        """
        whole = revision is None or not self._forgotten <= revision <= self.revision
        seen = 0 if whole or revision is None else revision
        keys = sorted(self._parts) if whole else list(_after(self._parts, seen))[::-1]
        return Change(
            revision=self.revision,
            whole=whole,
            parts={key: self._parts[key][1] for key in keys},
            gone=() if whole else tuple(key for key, removed in self._gone.items() if removed > seen),
        )


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def _after(parts: "OrderedDict[str, tuple[int, str]]", revision: int) -> Iterator[str]:
    """Keys of what is newer, the newest first: their order is that of their changes."""
    for key in reversed(parts):
        if parts[key][0] <= revision:
            return
        yield key
