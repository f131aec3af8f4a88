"""The extractor can travel alone: what it may use is checked without running it."""

import ast
import sys
from pathlib import Path

from cotenant_predictor import extraction

EXTRACTOR = (Path(extraction.__file__).parent / "extractor.py").read_text(encoding="utf-8")


def test_extractor_is_python_3_9() -> None:
    ast.parse(EXTRACTOR, feature_version=(3, 9))


def test_extractor_imports_only_torch_and_the_standard_library() -> None:
    imported = set()
    for node in ast.walk(ast.parse(EXTRACTOR)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(str(node.module).partition(".")[0])
    assert imported <= sys.stdlib_module_names | {"torch"}


def test_extractor_names_its_types_as_strings_only() -> None:
    future = next(node for node in ast.parse(EXTRACTOR).body if isinstance(node, ast.ImportFrom))
    assert future.module == "__future__"
