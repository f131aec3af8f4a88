"""Which lines read a constant of a module: tests that run none of them, and do not name it, cannot notice its value."""

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from mutants import mutation

Places = Mapping[str, frozenset[tuple[str, int]]]
"""Files and lines by name."""


def name(statement: ast.stmt) -> str:
    """Return the name that a statement gives to a value; empty: it gives none."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=found)]) | ast.AnnAssign(target=ast.Name(id=found)):
            return found
    return ""


def places(mutant: mutation.Mutant) -> set[tuple[str, int]]:
    """Return the files and lines whose execution a mutant can change."""
    if not mutant.constant:
        return {(mutant.file, number) for number in range(mutant.first, mutant.last + 1)}
    inside, outside = _read()
    found = {place for place in inside[mutant.constant] if place[0] == mutant.file}
    return found | outside[mutant.constant]


@functools.cache
def _read() -> tuple[Places, Places]:
    """Return where names are read in their own module, and as attributes of another."""
    inside: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    outside: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    for path in sorted(mutation.SOURCES.rglob("*.py")):
        file = path.relative_to(mutation.SOURCES).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Name(id=found, ctx=ast.Load()):
                    inside[found].add((file, node.lineno))
                case ast.Attribute(attr=found):
                    outside[found].add((file, node.lineno))
                case ast.ImportFrom(names=aliases):
                    for alias in aliases:
                        outside[alias.name].add((file, node.lineno))
    return (
        defaultdict(frozenset, {key: frozenset(value) for key, value in inside.items()}),
        defaultdict(frozenset, {key: frozenset(value) for key, value in outside.items()}),
    )


def tests_naming(mutant: mutation.Mutant, folder: Path) -> Iterator[Path]:
    """Return files of tests that name a mutant's constant."""
    if mutant.constant:
        yield from (path for path in sorted(folder.rglob("*.py")) if mutant.constant in path.read_text())
