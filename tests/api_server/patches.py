"""Patches: JSON merge patches, and strategic ones as far as pods need them. Pure: what is given is not changed."""

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]

MERGE_KEYS = {"conditions": "type", "schedulingGates": "name", "containers": "name", "tolerations": "key"}
"""Lists that a strategic merge patch merges by a key; it replaces every other."""


def merged(value: Mapping[str, Any], change: Mapping[str, Any]) -> Object:
    """A JSON merge patch (RFC 7386) applied."""
    found = dict(value)
    for key, new in change.items():
        if new is None:
            found.pop(key, None)
        elif isinstance(new, dict):
            old = found.get(key)
            found[key] = merged(old if isinstance(old, dict) else {}, new)
        else:
            found[key] = new
    return found


def strategic(value: Mapping[str, Any], change: Mapping[str, Any]) -> Object:
    """A strategic merge patch applied."""
    found = dict(value)
    for key, new in change.items():
        old = found.get(key)
        if new is None:
            found.pop(key, None)
        elif isinstance(new, dict):
            found[key] = strategic(old if isinstance(old, dict) else {}, new)
        elif key in MERGE_KEYS:
            found[key] = _merged_by(MERGE_KEYS[key], old or [], new)
        else:
            found[key] = new
    return found


def _merged_by(key: str, old: list[Object], change: list[Object]) -> list[Object]:
    found = {item[key]: item for item in old}
    for item in change:
        if item.get("$patch") == "delete":
            found.pop(item[key], None)
        else:
            found[item[key]] = strategic(found.get(item[key], {}), item)
    return list(found.values())
