"""The device nodes that a CDI specification of NVIDIA's gives, and what a container gets of them. Pure.

A file stays as it was written when a GPU falls off the bus, is moved, or a module of the driver gets another major
number. So a node counts by its path alone: one of the GPU's, or one of the driver's that all GPUs share.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

CONTROL = frozenset({"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"})
"""Of the driver, for every GPU."""
DISPLAY = "/dev/dri"
"""CUDA needs none of these nodes, and their numbers do not tell which GPU they are of."""

NOTHING = "/dev/null"
"""What the host has where a node stands for no device at all, as a stand-in's."""

_NUMBERS = frozenset({"major", "minor", "type"})
"""A runtime obeys a major number over the path; without one it asks the path on the host."""
_GPU = re.compile(r"/dev/nvidia(\d+)")
_BELOW_A_ROOT = re.compile(r"(?!/dev/)/.+(/dev/[^/]+)")
"""A node as the host has it where a driver container made it, and where the container has it."""
_PATHS_OF_HOOKS = frozenset({"--link", "--path"})

Object = Mapping[str, Any]


def wrong(nodes: Iterable[Object], minor: int) -> str | None:
    """Return why nodes do not give a GPU by its device node, and no other GPU; None where they do."""
    wanted = f"/dev/nvidia{minor}"
    given = [(container, host) for node in nodes for container, host in [_places(node)] if not _of_display(container)]
    places = {place for pair in given for place in pair}
    gpus = sorted(place for place in places if _GPU.fullmatch(place))
    others = sorted(places - CONTROL - set(gpus))
    if others:
        return f"gives {others[0]}, which is neither {wanted} nor known to be the driver's own"
    if gpus != [wanted]:
        return f"gives {' and '.join(gpus) or 'no device node'}, and the GPU is {wanted}"
    crossed = next((pair for pair in given if pair[0] != pair[1]), None)
    return None if crossed is None else f"gives {crossed[1]} as {crossed[0]}"


def minors(nodes: Iterable[Object]) -> frozenset[int]:
    """Return the minor numbers of the GPUs that nodes give, by where the container or the host has them."""
    places = {place for node in nodes for place in _places(node)}
    return frozenset(int(match[1]) for place in places if (match := _GPU.fullmatch(place)))


def for_containers(edits: Object) -> Object:
    """Return edits whose nodes are what their paths are on the host, without those of displays and hooks for them."""
    changed: dict[str, Any] = {}
    if edits.get("deviceNodes"):
        changed["deviceNodes"] = [_node(node) for node in edits["deviceNodes"] if not _of_display(_places(node)[0])]
    if edits.get("hooks"):
        changed["hooks"] = [hook for each in edits["hooks"] if (hook := _hook(each)) is not None]
    return {**edits, **changed} if changed else edits


def _node(node: Object) -> Object:
    """As it was compared: a path that is not normal may lead elsewhere by a link."""
    kept = {name: value for name, value in node.items() if name not in _NUMBERS}
    return kept | {name: _normal(node[name]) for name in ("path", "hostPath") if node.get(name)}


def _places(node: Object) -> tuple[str, str]:
    """Return where the container has a node, and where the host has it, below the driver's root if it has one."""
    container = _normal(node.get("path"))
    host = _normal(node.get("hostPath") or node.get("path"))
    if host == NOTHING:
        return container, container
    match = _BELOW_A_ROOT.fullmatch(host)
    return container, match[1] if match else host


def _normal(path: object) -> str:
    text = posixpath.normpath(str(path))
    # POSIX lets two slashes at the beginning mean something else; Linux does not.
    return f"/{text.lstrip('/')}" if text.startswith("//") else text


def _of_display(path: str) -> bool:
    return f"{path}/".startswith(f"{DISPLAY}/")


def _hook(hook: Object) -> Object | None:
    """Return a hook without what it does below the displays' folder; None where nothing is left for it to do."""
    arguments = hook.get("args") or []
    if not any(DISPLAY in argument for argument in arguments):
        return hook
    options = [option for option in _options(arguments) if not any(DISPLAY in part for part in option)]
    kept = [argument for option in options for argument in option]
    does = any(argument.partition("=")[0] in _PATHS_OF_HOOKS for argument in kept)
    return {**hook, "args": kept} if does else None


def _options(arguments: list[str]) -> Iterator[list[str]]:
    """Yield each argument, those that name paths together with what follows."""
    rest = iter(arguments)
    for argument in rest:
        yield [argument, *([value] if argument in _PATHS_OF_HOOKS and (value := next(rest, None)) is not None else [])]
