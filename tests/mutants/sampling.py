"""Mutants that nobody chooses by hand: every edit of a few kinds that the syntax tree of a file allows, and a sample.

The sample is drawn by a hash of the edit and its function, so that it stays the same while other functions change.
Docstrings, log calls, annotations, decorators, errors' texts and formatted strings are left alone.
"""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from mutants import constants, mutation

PACKAGES: Final = ("packing", "ledger", "queue")
RIM: Final = "leadership, binder, fencing, takeover"
MODULES: Final = ("leadership.py", "binder.py", "fencing.py", "takeover.py")

_OPPOSITE: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_BOUNDARY: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip
_ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_SWAPPED: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


class _Edit(NamedTuple):
    """A node, what takes its place, and the statement around both."""

    node: ast.expr | ast.stmt
    new: str
    around: ast.stmt
    function: str


def candidates(sources: Path = mutation.SOURCES) -> list[mutation.Mutant]:
    """Return all mutants, in the order in which a sample takes them."""
    files = [path for package in PACKAGES for path in sorted((sources / package).glob("*.py"))]
    found: list[tuple[str, mutation.Mutant]] = []
    for path in (*files, *(sources / name for name in MODULES)):
        name = path.relative_to(sources).as_posix()
        group = name.partition("/")[0] if "/" in name else RIM
        found.extend(_ranked(group, name, path.read_text()))
    return [mutant for _, mutant in sorted(found, key=lambda pair: pair[0])]


def of_file(group: str, file: str, source: str) -> list[mutation.Mutant]:
    """Return all mutants of one file, in its order."""
    return [mutant for _, mutant in _ranked(group, file, source)]


def _ranked(group: str, file: str, source: str) -> Iterator[tuple[str, mutation.Mutant]]:
    seen: Counter[tuple[str, ...]] = Counter()
    done: set[str] = set()
    for edit in _edits(ast.parse(source)):
        old, content = _spliced(source, edit.node, edit.new)
        if content in done:
            continue
        done.add(content)
        what = file, edit.function, old, edit.new
        seen[what] += 1
        rank = hashlib.blake2b("\0".join((*what, str(seen[what]))).encode(), digest_size=16).hexdigest()
        first, last = _lines(edit)
        yield (
            rank,
            mutation.Mutant(
                group=group, name=edit.function, file=file, first=first, last=last, old=old, new=edit.new,
                content=content, number=seen[what],
                constant=constants.name(edit.around) if edit.function == "module" else "",
            ),
        )  # fmt: skip


def _lines(edit: _Edit) -> tuple[int, int]:
    """Lines of the edit itself; of the whole statement where that is a simple one; of the body for a default."""
    here = edit.node if hasattr(edit.around, "body") else edit.around
    if isinstance(edit.around, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return edit.around.body[0].lineno, edit.around.end_lineno or here.lineno
    return here.lineno, here.end_lineno or here.lineno


def _spliced(source: str, node: ast.expr | ast.stmt, new: str) -> tuple[str, str]:
    """Return the text of a node, and the file with another in its place."""
    lines = source.encode().splitlines(keepends=True)
    last, end = (node.end_lineno or node.lineno), node.end_col_offset or 0
    begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    finish = sum(map(len, lines[: last - 1])) + end
    whole = source.encode()
    content = whole[:begin] + new.encode() + whole[finish:]
    return whole[begin:finish].decode(), content.decode()


def _edits(tree: ast.Module) -> Iterator[_Edit]:
    yield from _of_body(tree.body, "module")


def _of_body(body: Iterable[ast.stmt], function: str) -> Iterator[_Edit]:
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = statement.name if function == "module" else f"{function}.{statement.name}"
            yield from _defaults(statement, name)
            yield from _of_body(statement.body, name)
        elif not _excluded(statement):
            yield from _of_statement(statement, function)


def _defaults(statement: ast.stmt, function: str) -> Iterator[_Edit]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        for default in (*statement.args.defaults, *statement.args.kw_defaults):
            if default is not None:
                yield from (_Edit(default, new, statement, function) for new in _changed(default))


def _excluded(statement: ast.stmt) -> bool:
    """Whether a statement is a docstring, a log call, an import, or says what a slot or a type is."""
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.Raise() | ast.Assert():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="LOG")))):
            return True
        case ast.Assign(targets=[ast.Name(id="__slots__" | "LOG")]):
            return True
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return True
    return False


def _of_statement(statement: ast.stmt, function: str) -> Iterator[_Edit]:
    yield from _of_itself(statement, function)
    for name, value in ast.iter_fields(statement):
        for child in value if isinstance(value, list) else [value]:
            match child:
                case ast.stmt():
                    yield from _of_body([child], function)
                case ast.ExceptHandler() | ast.match_case():
                    yield from _of_body(child.body, function)
                case ast.expr() if name not in ("annotation", "targets", "target"):
                    yield from _of_expression(child, statement, function)
                case ast.withitem():
                    yield from _of_expression(child.context_expr, statement, function)


def _of_itself(statement: ast.stmt, function: str) -> Iterator[_Edit]:
    """Remove a statement, leave a loop early, go on where it returned early, or turn a condition around."""
    if _removable(statement):
        yield _Edit(statement, "pass", statement, function)
    match statement:
        case ast.Continue():
            yield _Edit(statement, "break", statement, function)
        case ast.If(body=body):
            early = (inner for inner in body if isinstance(inner, (ast.Return, ast.Continue, ast.Break, ast.Raise)))
            yield from (_Edit(inner, "pass", inner, function) for inner in early)
    if isinstance(statement, (ast.If, ast.While)):
        yield _Edit(statement.test, f"not ({ast.unparse(statement.test)})", statement, function)


def _removable(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Delete():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            return True
    return False


def _of_expression(expression: ast.expr, around: ast.stmt, function: str) -> Iterator[_Edit]:
    if isinstance(expression, ast.JoinedStr):
        return
    for new in _changed(expression):
        yield _Edit(expression, new, around, function)
    for child in ast.iter_child_nodes(expression):
        match child:
            case ast.expr():
                yield from _of_expression(child, around, function)
            case ast.keyword():
                yield from _of_expression(child.value, around, function)
            case ast.comprehension(ifs=ifs):
                yield from _of_expression(child.iter, around, function)
                for condition in ifs:
                    yield _Edit(condition, "True", around, function)
                    yield from _of_expression(condition, around, function)


def _changed(expression: ast.expr) -> Iterator[str]:
    """Return what may take the place of an expression."""
    match expression:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            for table in (_BOUNDARY, _OPPOSITE):
                if type(op) in table:
                    yield f"({ast.unparse(ast.Compare(left, [table[type(op)]()], [right]))})"
        case ast.Constant(value=bool() as flag):
            yield str(not flag)
        case ast.Constant(value=int() | float() as number):
            yield f"{number + 1}"
            yield f"{number - 1}" if number > 1 else f"({number - 1})"
        case _:
            other = _other(expression)
            if other is not None:
                yield f"({ast.unparse(other)})"


def _other(expression: ast.expr) -> ast.expr | None:
    """Return an expression with another operator, without one, or of another function; None: there is none."""
    match expression:
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _ARITHMETIC:
            return ast.BinOp(left, _ARITHMETIC[type(operation)](), right)
        case ast.BoolOp(op=joined, values=values):
            return ast.BoolOp(ast.Or() if isinstance(joined, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub(), operand=operand):
            return operand
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return ast.IfExp(test, orelse, body)
        case ast.Call(func=ast.Name(id=called), args=arguments, keywords=keywords) if called in _SWAPPED and arguments:
            return ast.Call(ast.Name(_SWAPPED[called]), arguments, keywords)
    return None
