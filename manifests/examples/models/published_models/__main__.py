"""`python -m published_models`: write the graph documents of published measurements and job mixes, or check them."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from cotenant_api import files
from cotenant_api.graph import Graph
from cotenant_predictor.extraction import extractor

from . import carma, gavel, horus, neusight
from .jobs import Published

Manifests = Mapping[str, Callable[[], list[Published]]]
"""A set's manifests by file name, and the jobs that each names."""
SETS: Mapping[str, Manifests] = {
    "neusight": {"manifest.json": neusight.jobs},
    "gavel": {"manifest.json": gavel.jobs},
    "carma": {"manifest.json": carma.jobs},
}
MIXES: Mapping[str, Manifests] = {
    "horus": {"manifest.json": horus.jobs, "manifest-torchvision.json": horus.jobs_of_torchvision},
}
"""Jobs of which only a description is public; made where `--only` names them."""


def graph_of(job: Published) -> Graph:
    """The job's graph document, extracted again."""
    torch.backends.cudnn.allow_tf32 = job.tf32
    return Graph.from_object(extractor.extract(job.build, job.options()), source=job.name).sealed()


def files_of(manifests: Manifests) -> dict[str, bytes]:
    """File contents by name: a graph each, and the manifests, which find a job's graph by the job's key."""
    listed = {name: jobs() for name, jobs in manifests.items()}
    graphs = {f"{job.name}.json.gz": job for jobs in listed.values() for job in jobs}
    made = {file: graph_of(job).packed() for file, job in graphs.items()}
    for name, jobs in listed.items():
        manifest = {job.key: f"{job.name}.json.gz" for job in jobs}
        made[name] = (json.dumps(manifest, indent=1) + "\n").encode()
    return made


def main() -> int:
    """0: written, or equal; 1: a file is missing, differs or is left over."""
    parser = argparse.ArgumentParser(prog="published_models", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, metavar="DIR", help="write DIR/SET/graphs of every set")
    action.add_argument("--check", type=Path, metavar="DIR", help="compare with what DIR holds")
    parser.add_argument("--only", choices=sorted({**SETS, **MIXES}), help="one set")
    arguments = parser.parse_args()
    bad = 0
    for name in [arguments.only] if arguments.only else SETS:
        made = files_of({**SETS, **MIXES}[name])
        folder = (arguments.write or arguments.check) / name / "graphs"
        if arguments.write:
            folder.mkdir(parents=True, exist_ok=True)
            for file, data in made.items():
                files.replace(folder / file, data, field="--write")
        bad += 0 if arguments.write else len(_differing(folder, made))
    return 1 if bad else 0


def _differing(folder: Path, made: dict[str, bytes]) -> list[str]:
    found = {path.name: path.read_bytes() for path in folder.glob("*.json*")}
    differing = sorted(name for name in {*made, *found} if made.get(name) != found.get(name))
    for name in differing:
        print(f"{folder / name}: is not what is extracted now: run --write", file=sys.stderr)
    return differing


if __name__ == "__main__":
    sys.exit(main())
