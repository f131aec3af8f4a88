"""What matplotlib draws, as an SVG element that may stand beside others in one page.

Identifiers begin with the figure's own; what nobody refers to loses its own. Text takes the font of the page, and ink
its colour, so that it is readable on light and on dark. No metadata, no date, nothing from elsewhere. Pure.
"""

import re
from collections.abc import Mapping
from typing import Final
from xml.etree import ElementTree as ET

INK: Final = "#7f8790"
"""Drawn for text and axes; at least 3.5 to 1 on white and on near-black where nothing replaces it."""
INHERITED: Final = "currentColor"
_FONT_OF_ITS_OWN: Final = "; font-family: sans-serif"
"""Where no page gives one."""

_SVG: Final = "{http://www.w3.org/2000/svg}"
_LINK: Final = "{http://www.w3.org/1999/xlink}href"
_REFERENCE: Final = re.compile(r"url\(#([^)]+)\)")
_LONG_NUMBER: Final = re.compile(r"-?\d+\.\d{3,}")
_FONT: Final = re.compile(r"\s*font-family:[^;]*;?")
_NO_TURN: Final = re.compile(r"rotate\(-?0 [^)]*\)")
_NUMBERS: Final = ("d", "x", "y", "transform")


def element(drawn: bytes, *, ident: str, label: str, notes: Mapping[str, str], ink: str = INHERITED) -> str:
    """One `svg` element.

    Args:
        drawn: by matplotlib's SVG backend, with ink in `INK` and text as text.
        ident: begins every identifier; unique in the page.
        label: what a screen reader says.
        notes: by the group's identifier: what is shown where the pointer rests.
        ink: the colour of text and axes.
    """
    # Nobody but matplotlib wrote it.
    root = ET.fromstring(drawn)  # noqa: S314
    for unwanted in [child for child in root if child.tag.removeprefix(_SVG) == "metadata"]:
        root.remove(unwanted)
    for group in list(root.iter(f"{_SVG}defs")):
        for style in group.findall(f"{_SVG}style"):
            group.remove(style)
    _note(root, notes)
    names = _names(root, ident)
    for one in root.iter():
        one.tag = one.tag.removeprefix(_SVG)
        one.text = one.text if one.text and one.text.strip() else None
        one.tail = None
        one.attrib = _attributes(one.attrib, names, ink)
    _, _, width, height = root.attrib["viewBox"].split()
    root.attrib = {
        "xmlns": _SVG.strip("{}"),
        "viewBox": root.attrib["viewBox"],
        "width": width,
        "height": height,
        "role": "img",
        "aria-label": label,
        "style": "stroke-linejoin: round; stroke-linecap: butt" + ("" if ink == INHERITED else _FONT_OF_ITS_OWN),
    }
    return ET.tostring(root, encoding="unicode")


def _note(root: ET.Element, notes: Mapping[str, str]) -> None:
    for group in root.iter(f"{_SVG}g"):
        note = notes.get(group.attrib.get("id", ""))
        if note is not None:
            title = ET.Element(f"{_SVG}title")
            title.text = note
            group.insert(0, title)


def _names(root: ET.Element, ident: str) -> dict[str, str]:
    """Return new names of what is referred to."""
    used: set[str] = set()
    for one in root.iter():
        used.update(name for value in one.attrib.values() for name in _REFERENCE.findall(value))
        used.add(one.attrib.get(_LINK, "").removeprefix("#"))
    found = [one.attrib["id"] for one in root.iter() if one.attrib.get("id") in used]
    return {name: f"{ident}-{number}" for number, name in enumerate(found)}


def _attributes(given: Mapping[str, str], names: Mapping[str, str], ink: str) -> dict[str, str]:
    made = {}
    for key, value in given.items():
        if key == "id":
            if value in names:
                made[key] = names[value]
        elif key == _LINK:
            made["href"] = f"#{names[value.removeprefix('#')]}"
        elif key in _NUMBERS:
            short = _LONG_NUMBER.sub(_shortened, _NO_TURN.sub("", " ".join(value.split())))
            if short:
                made[key] = short
        elif key == "style":
            made[key] = _FONT.sub("", value).replace(INK, ink)
        else:
            made[key] = _REFERENCE.sub(lambda match: f"url(#{names[match[1]]})", value)
    return made


def _shortened(match: re.Match[str]) -> str:
    """To a hundredth of a point."""
    return f"{float(match[0]):.2f}".rstrip("0").rstrip(".")
