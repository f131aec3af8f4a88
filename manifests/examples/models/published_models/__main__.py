"""`python -m published_models`: write the graph documents of published measurements and job mixes, or check them."""

import argparse
import json
import lzma
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch

from cotenant_api import files
from cotenant_api.graph import Graph
from cotenant_predictor.extraction import extractor

from . import alnair, carma, gavel, horus, miso, neusight, timm_benchmark, zeus
from .jobs import Published

Manifests = Mapping[str, Callable[[], list[Published]]]
"""A set's manifests by file name, and the jobs that each names."""
SETS: Mapping[str, Manifests] = {
    "neusight": {"manifest.json": neusight.jobs},
    "gavel": {"manifest.json": gavel.jobs},
    "carma": {"manifest.json": carma.jobs},
    "miso": {"manifest.json": miso.jobs},
    "zeus": {"manifest.json": zeus.jobs},
    "alnair": {"manifest.json": alnair.jobs},
}
MIXES: Mapping[str, Manifests] = {
    "horus": {"manifest.json": horus.jobs, "manifest-torchvision.json": horus.jobs_of_torchvision},
}
"""Jobs of which only a description is public; made where `--only` names them."""
XZ = b"\xfd7zXZ\x00"
"""What a file in its packing begins with."""
BUNDLES: Mapping[str, Callable[[], Mapping[str, list[Published]]]] = {"timm": timm_benchmark.bundles}
"""Jobs of a set by the file that holds their graphs, a line each; they take long, and are made where named."""


def graph_of(job: Published) -> Graph:
    """The job's graph document, extracted again."""
    torch.backends.cudnn.allow_tf32 = job.tf32
    return Graph.from_object(extractor.extract(job.build, job.options()), source=job.name).sealed()


def files_of(manifests: Manifests, *, every: int = 1) -> dict[str, bytes | None]:
    """File contents by name: a graph each, and the manifests, which find a job's graph by the job's key.

    `every`: content of each so many graphs alone, None for the others.
    """
    listed = {name: jobs() for name, jobs in manifests.items()}
    graphs = {f"{job.name}.json.gz": job for jobs in listed.values() for job in jobs}
    made = {file: None if place % every else graph_of(job).packed() for place, (file, job) in enumerate(graphs.items())}
    for name, jobs in listed.items():
        manifest = {job.key: f"{job.name}.json.gz" for job in jobs}
        made[name] = (json.dumps(manifest, indent=1) + "\n").encode()
    return made


def bundled(name: str, *, every: int = 1) -> Iterator[tuple[str, bytes]]:
    """Every so many files of a set, by name: graphs that differ by more than their names and digests."""
    for file, jobs in list(BUNDLES[name]().items())[::every]:
        if graphs := _unlike(jobs):
            yield file, lzma.compress(b"".join(graph.to_json().encode() + b"\n" for graph in graphs))


def _unlike(jobs: list[Published]) -> list[Graph]:
    found: dict[str, Graph] = {}
    for job in jobs:
        try:
            graph = graph_of(job)
        except extractor.ExtractionError as error:
            print(f"{job.name}: {error}", file=sys.stderr)
        else:
            found.setdefault(graph.digest, graph)
    return list(found.values())


def main() -> int:
    """0: written, or equal; 1: a file is missing, differs or is left over."""
    parser = argparse.ArgumentParser(prog="published_models", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, metavar="DIR", help="write DIR/SET/graphs of every set")
    action.add_argument("--check", type=Path, metavar="DIR", help="compare with what DIR holds")
    parser.add_argument("--only", choices=sorted({**SETS, **MIXES, **BUNDLES}), help="one set")
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="with --check: each N-th graph or bundle alone"
    )
    arguments = parser.parse_args()
    bad = 0
    for name in [arguments.only] if arguments.only else SETS:
        bundle = name in BUNDLES
        every = arguments.every if arguments.check else 1
        made = bundled(name, every=every) if bundle else files_of({**SETS, **MIXES}[name], every=every).items()
        folder = (arguments.write or arguments.check) / name / "graphs"
        if arguments.write:
            folder.mkdir(parents=True, exist_ok=True)
            for file, data in made:
                files.replace(folder / file, data, field="--write")
        else:
            bad += len(_differing(folder, dict(made), whole=not bundle))
    return 1 if bad else 0


def _differing(folder: Path, made: dict[str, bytes | None], *, whole: bool) -> list[str]:
    """Names of files whose content is another, and of those that are too many where `made` has all names of the set."""
    found = {path.name: path.read_bytes() for path in folder.glob("*.json*")}
    if not whole:
        found = {name: found[name] for name in made if name in found}
    unlooked = {name for name, data in made.items() if data is None and name in found}
    names = {*made, *found} - unlooked
    differing = sorted(name for name in names if _content(made.get(name)) != _content(found.get(name)))
    for name in differing:
        print(f"{folder / name}: is not what is extracted now: run --write", file=sys.stderr)
    return differing


def _content(data: bytes | None) -> bytes | None:
    """Without its packing, which need not be the same everywhere."""
    return lzma.decompress(data) if data is not None and data.startswith(XZ) else data


if __name__ == "__main__":
    sys.exit(main())
