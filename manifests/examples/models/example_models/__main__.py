"""`python -m example_models`: write the examples' graph documents, or check that they are what is extracted now."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from cotenant_api import files
from cotenant_api.graph import Graph
from cotenant_predictor.extraction import extractor

from . import catalog

_ALWAYS = ("v", "digest", "name", "mode", "batchSize", "parameters", "parameterBytes", "operators")


def graph_of(example: catalog.Example) -> Graph:
    """The example's graph document, extracted again."""
    return Graph.from_object(extractor.extract(example.job, example.options()), source=example.name).sealed()


def text_of(graph: Graph) -> str:
    """The document with an operator a line, and without what stands at its default."""
    content = graph.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    content.update({key: value for key, value in graph.to_object().items() if key in _ALWAYS and key != "operators"})
    operators = ",\n".join(_line(operator) for operator in content.pop("operators"))
    head = ",\n".join(f"{json.dumps(key)}:{_line(value)}" for key, value in sorted(content.items()))
    return f'{{{head},\n"operators":[\n{operators}\n]}}\n'


def main() -> int:
    """0: written, or equal; 1: a document is missing, differs or is left over."""
    parser = argparse.ArgumentParser(prog="example_models", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, metavar="DIR", help="write DIR/NAME.json of every example")
    action.add_argument("--check", type=Path, metavar="DIR", help="compare with what DIR holds")
    arguments = parser.parse_args()
    texts = {f"{example.name}.json": text_of(graph_of(example)) for example in catalog.EXAMPLES}
    if arguments.write:
        for name, text in texts.items():
            files.replace(arguments.write / name, text.encode(), field="--write")
        return 0
    found = {path.name: path.read_text(encoding="utf-8") for path in arguments.check.glob("*.json")}
    differing = sorted(name for name in {*texts, *found} if texts.get(name) != found.get(name))
    for name in differing:
        print(f"{arguments.check / name}: is not what is extracted now: run --write", file=sys.stderr)
    return 1 if differing else 0


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main())
