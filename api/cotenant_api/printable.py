"""Words from anywhere, made safe to show. Pure."""

import unicodedata
from typing import Final

_UNSHOWN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Controls (terminal escapes), formats (changes of direction), halves of surrogates, separators of lines."""


def plain(words: str) -> str:
    """On one line, without what a terminal, a page or XML would take for more than text: names come from anywhere."""
    if words.isascii() and words.isprintable():
        return words
    return "".join(" " if one in "\n\t" else "�" if unicodedata.category(one) in _UNSHOWN else one for one in words)
