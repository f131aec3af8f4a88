"""Put a mutant into modules that are imported already: the code of one function is exchanged for the mutant's.

That is the same as importing the mutant if the edit is in the body of a function and no line of that body ran during
imports. Everything else (constants of modules, defaults, decorators, base classes) needs a process that imports anew.
"""

import ast
import gc
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

Definition = ast.FunctionDef | ast.AsyncFunctionDef
Functions = Mapping[tuple[str, str, int], Sequence[FunctionType]]
"""Functions by path, qualified name and number of the first line."""


class Change(NamedTuple):
    """A function whose body is another in the mutant.

    Attributes:
        name: its qualified name.
        first: number of its first line, decorators included.
        body: numbers of the lines of its body.
        code: what it runs in the mutant.
    """

    name: str
    first: int
    body: range
    code: CodeType


class Swap(NamedTuple):
    """Functions, and what they run in the mutant."""

    functions: Sequence[FunctionType]
    code: CodeType

    def make(self) -> None:
        """Let the functions run the mutant's code from now on."""
        for each in self.functions:
            each.__code__ = self.code


class _ElsewhereError(Exception):
    """Something else than the body of a function differs."""


def change(source: str, content: str, path: Path) -> Change | None:
    """Return how a file's content differs from its source; None unless in the body of one function alone."""
    try:
        found = list(_differing(ast.parse(source).body, ast.parse(content).body, ""))
    except _ElsewhereError:
        return None
    if len(found) != 1:
        return None
    name, old, new = found[0]
    code = _code(compile(content, str(path), "exec", dont_inherit=True), name, _first(new))
    return Change(name, _first(old), range(old.body[0].lineno, (old.end_lineno or old.lineno) + 1), code)


def functions(package: Path) -> Functions:
    """Return all functions of a package that exist in this process."""
    found: defaultdict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(str(package)):
            code = each.__code__
            found[code.co_filename, code.co_qualname, code.co_firstlineno].append(each)
    return found


def swap(known: Functions, path: Path, wanted: Change) -> Swap | None:
    """Return how a change is made in this process; None where it cannot be."""
    found = known.get((str(path), wanted.name, wanted.first), ())
    if not found or any(each.__code__.co_freevars != wanted.code.co_freevars for each in found):
        return None
    return Swap(found, wanted.code)


def _differing(
    old: Sequence[ast.stmt], new: Sequence[ast.stmt], prefix: str
) -> Iterator[tuple[str, Definition, Definition]]:
    if len(old) != len(new):
        raise _ElsewhereError
    for before, after in zip(old, new, strict=True):
        if ast.dump(before) == ast.dump(after):
            continue
        if _header(before) != _header(after):
            raise _ElsewhereError
        match before, after:
            case ast.ClassDef(), ast.ClassDef():
                yield from _differing(before.body, after.body, f"{prefix}{before.name}.")
            case ((ast.FunctionDef() | ast.AsyncFunctionDef()), (ast.FunctionDef() | ast.AsyncFunctionDef())):
                yield f"{prefix}{before.name}", before, after
            case _:
                raise _ElsewhereError


def _header(statement: ast.stmt) -> list[str]:
    """Return all of a statement but its body."""
    fields = ((name, value if isinstance(value, list) else [value]) for name, value in ast.iter_fields(statement))
    parts = (part for name, values in fields if name != "body" for part in values)
    return [type(statement).__name__, *(ast.dump(part) if isinstance(part, ast.AST) else repr(part) for part in parts)]


def _first(definition: Definition) -> int:
    return min([definition.lineno, *(decorator.lineno for decorator in definition.decorator_list)])


def _code(code: CodeType, name: str, first: int) -> CodeType:
    inside = [code]
    while inside:
        each = inside.pop()
        if (each.co_qualname, each.co_firstlineno) == (name, first):
            return each
        inside.extend(part for part in each.co_consts if isinstance(part, CodeType))
    raise ValueError(f"no function {name} begins in line {first}")
