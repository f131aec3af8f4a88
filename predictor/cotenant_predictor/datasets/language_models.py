"""Measured latencies of whole language models: NeuSight's, each with the graph of what ran. Never learned from."""

import csv
import dataclasses
import functools
import importlib.resources
import io
import json
import re
from collections.abc import Mapping
from typing import Final

import yaml

from cotenant_api.graph import Graph
from cotenant_api.names import GPUModel
from cotenant_predictor import devices
from cotenant_predictor.devices import Device

FOLDER: Final = "neusight"
FILE: Final = "e2e_latency.csv"
DEVICES: Final = "devices.yaml"
LINKS: Final = "links.yaml"

_SPREAD: Final = re.compile(r"(dp|tp|pp)(\d+)(?:_(\d+))?")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spread:
    """How a job is spread over GPUs: `dp` whole samples, `tp` parts of each layer, `pp` layers after one another."""

    strategy: str
    gpus: int
    micro_batches: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One measured run."""

    model: str
    device: Device
    mode: str
    """`inf` or `train`."""
    length: int
    batch: int
    """Samples of all GPUs together."""
    compiled: bool
    spread: Spread | None
    graph: Graph
    """Of the samples that one GPU has; of the eager model where there is none of the compiled one."""
    milliseconds: float
    unseen: bool
    """Whether NeuSight was not trained on the model or the GPU."""
    published: Mapping[str, float]
    """What `neusight`, `roofline` and `habitat` said, where they said anything."""


@functools.cache
def load() -> tuple[Run, ...]:
    """All runs, in the order of the file."""
    folder = importlib.resources.files(__package__).joinpath(FOLDER)
    known = {**devices.load(), **devices.parse(folder.joinpath(DEVICES).read_text("utf-8"), source=DEVICES)}
    manifest = json.loads(folder.joinpath("graphs", "manifest.json").read_text("utf-8"))

    @functools.cache
    def graph(key: str) -> Graph:
        name = manifest[key]
        return Graph.read(folder.joinpath("graphs", name).read_bytes(), source=name)

    def run(row: Mapping[str, str]) -> Run:
        spread = _spread(row["option"])
        batch = int(row["batch"])
        samples = batch // spread.gpus if spread is not None and spread.strategy == "dp" else batch
        compiled = row["option"] == "fusion"
        key = f"{row['model_name']},{row['seqlen']},{samples},{row['mode']}"
        if compiled and f"{key}-fusion" in manifest:
            key = f"{key}-fusion"
        return Run(
            model=row["model_name"],
            device=known[GPUModel(row["device"].replace("_", "-"))],
            mode=row["mode"],
            length=int(row["seqlen"]),
            batch=batch,
            compiled=compiled,
            spread=spread,
            graph=graph(key),
            milliseconds=float(row["label_all_e2e_latency"]),
            unseen=row["OOD"] == "True",
            published=_published(row),
        )

    text = folder.joinpath(FILE).read_text("utf-8")
    return tuple(run(row) for row in csv.DictReader(io.StringIO(text)))


@functools.cache
def links() -> Mapping[str, float]:
    """GB/s in one direction between GPUs of one machine, by GPU model."""
    text = importlib.resources.files(__package__).joinpath(FOLDER, LINKS).read_text("utf-8")
    return {str(name): float(rate) for name, rate in yaml.safe_load(text).items()}


def _spread(option: str) -> Spread | None:
    match = _SPREAD.fullmatch(option)
    if match is None:
        return None
    return Spread(strategy=match[1], gpus=int(match[2]), micro_batches=int(match[3] or 1))


def _published(row: Mapping[str, str]) -> Mapping[str, float]:
    found = {name: row[f"{name}_all_e2e_latency"] for name in ("neusight", "roofline", "habitat")}
    return {name: float(value) for name, value in found.items() if value}
