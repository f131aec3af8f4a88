"""How large real models are, beside the bounds of what the operator reads.

    python -m predictor_kit.sizes --write PAGE

Reads the graphs of this repository, and the exported networks that the onnx package ships for its own tests.
"""

import argparse
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

import onnx
import onnx.backend.test

from cotenant_api import graph, sections
from cotenant_predictor.extraction import onnx_strip
from cotenant_predictor.extraction.onnx_reader import walk, wire

COMMAND: Final = "make sizes"
REPOSITORY: Final = Path(__file__).parents[2]
GRAPHS: Final = ("manifests/examples/graphs/*.json", "simulator/cotenant_simulator/horus/graphs/*.json.gz")
EXPORTED: Final = Path(onnx.backend.test.__file__).parent / "data" / "light"


@dataclass(frozen=True, kw_only=True)
class Size:
    """Of one model."""

    name: str
    unpacked: int
    packed: int
    parts: int
    operators: int


def graphs() -> Iterator[Size]:
    """The graph documents of the repository."""
    for file in sorted(path for pattern in GRAPHS for path in REPOSITORY.glob(pattern)):
        data = file.read_bytes()
        text = gzip.decompress(data) if file.suffix == ".gz" else data
        yield Size(
            name=file.name.partition(".json")[0],
            unpacked=len(text),
            packed=len(gzip.compress(text, mtime=0)),
            parts=graph.parts(text),
            operators=len(json.loads(text)["operators"]),
        )


def exported() -> Iterator[Size]:
    """Exported networks, without their weights as the pod of an extraction stores them."""
    for file in sorted(EXPORTED.glob("*.onnx")):
        data = onnx_strip.strip(file)
        yield Size(
            name=file.stem.removeprefix("light_"),
            unpacked=len(data),
            packed=len(gzip.compress(data, mtime=0)),
            parts=wire.parts(data),
            operators=len(onnx.load_model_from_string(data).graph.node),
        )


def table() -> list[str]:
    """The largest of each kind by each measure, and the bound."""
    documents, files = list(graphs()), list(exported())
    bounds = {
        "unpacked": (graph.MAX_BYTES, wire.MAX_BYTES),
        "packed": (graph.MAX_COMPRESSED_BYTES, graph.MAX_COMPRESSED_BYTES),
        "parts": (graph.MAX_PARTS, wire.MAX_PARTS),
        "operators": (graph.MAX_OPERATORS, walk.MAX_NODES),
    }
    words = {"unpacked": "bytes", "packed": "bytes, gzipped", "parts": "values", "operators": "operators"}
    rows = [
        f"| | largest of {len(documents)} graph documents | bound | largest of {len(files)} ONNX files | bound |",
        "|---|---|---|---|---|",
    ]
    for measure in (field.name for field in fields(Size) if field.name in bounds):
        cells = []
        for found, bound in zip((documents, files), bounds[measure], strict=True):
            largest = max(found, key=lambda size: int(getattr(size, measure)))
            cells += [f"{getattr(largest, measure):,} (`{largest.name}`)", f"{bound:,}"]
        rows.append(f"| {words[measure]} | {' | '.join(cells)} |")
    return rows


def main() -> None:
    """Write the table into a page."""
    parser = argparse.ArgumentParser(prog="sizes")
    parser.add_argument("--write", type=Path, required=True, metavar="PAGE")
    page = parser.parse_args().write
    sections.replace(page, table(), command=COMMAND)


if __name__ == "__main__":
    main()
