"""Bounds how deep JSON from the API server is nested, before it is decoded. Pure.

The API server takes 10,000 levels; Python's decoder raises RecursionError at less than 1,000. Managed fields and every
field of which the schema is open (`spec.model.features`, parts of a pod template) may have them.

A megabyte of brackets takes part of a second, in steps that are short: who has an event loop does it beside that.
"""

import re
from collections.abc import Iterator
from typing import Final

MAX_DEPTH: Final = 64
"""Levels of an event or a listing that are kept; those of a pod, with all of its fields, are less than 20."""
CUT_DEPTH: Final = 32
"""What is nested deeper than MAX_DEPTH is left out from this level on: MARK is never longer than what it stands for."""
MARK: Final = "cotenant.dev: nested too deep, left out"
"""The string that stands for it."""
_TOKENS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b'{}[]"'))
_ALIKE: Final = bytes.maketrans(b"{}", b"[]")
_ROUNDS: Final = 8
"""So many innermost levels are taken off before the others are counted: what is flat is short then, at any depth."""
_WORTH: Final = 16
"""One such level that is less than this part of the rest is the last that is taken off."""


def bounded(data: bytes) -> bytes:
    """Return JSON of at most MAX_DEPTH levels, and not longer: what is nested deeper is replaced with MARK."""
    return b"".join(_cut(data)) if _is_deep(data) else data


def _is_deep(data: bytes) -> bool:
    """Return whether valid JSON has more than MAX_DEPTH levels."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    left = data.translate(_ALIKE, _NO_BRACKETS).replace(b'""', b"")
    if b'"' in left:
        # Strings with brackets in them: they are between an odd quote and the next.
        left = b"".join(left.split(b'"')[::2])
    for taken in range(_ROUNDS):
        outer = left.replace(b"[]", b"")
        if len(left) - len(outer) <= len(left) // _WORTH:
            return _goes_beyond(left, MAX_DEPTH - taken)
        left = outer
    return _goes_beyond(left, MAX_DEPTH - _ROUNDS)


def _goes_beyond(brackets: bytes, most: int) -> bool:
    """Return whether more than so many of these brackets are open at a time.

    A block is taken apart only if all that it opens, before it closes any, would be too many.
    """
    depth, blocks = 0, [(0, len(brackets))]
    while blocks:
        start, end = blocks.pop()
        opened = brackets.count(b"[", start, end)
        if depth + opened <= most:
            depth += 2 * opened - (end - start)
        elif end - start == 1:
            return True
        else:
            # At least so many as cannot be too many are counted at once.
            middle = min(start + max(most - depth, 1, (end - start) // 2), end - 1)
            blocks += [(middle, end), (start, middle)]
    return False


def _cut(data: bytes) -> Iterator[bytes]:
    """Yield the parts of the result."""
    depth = kept = outer = 0
    too_deep = False
    for token in _TOKENS.finditer(data):
        mark = token[0]
        if mark in (b"{", b"["):
            depth += 1
            if depth == CUT_DEPTH + 1:
                outer = token.start()
            too_deep = too_deep or depth > MAX_DEPTH
        elif mark in (b"}", b"]"):
            if depth == CUT_DEPTH + 1 and too_deep:
                yield data[kept:outer]
                yield b'"%s"' % MARK.encode()
                kept, too_deep = token.end(), False
            depth -= 1
    yield data[kept:]
