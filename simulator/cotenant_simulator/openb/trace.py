"""Reads the trace: nodes and pods from CSV files as they were published.

    openb_node_list_gpu_node.csv: sn, cpu_milli, memory_mib, gpu, model
    openb_pod_list_NAME.csv:      name, cpu_milli, memory_mib, num_gpu, gpu_milli, and where it has it gpu_spec

Other columns are not read. `gpu_spec` names the GPU models that a pod may use, separated by "|"; empty: any.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, TypeVar

from cotenant_api import errors
from cotenant_simulator.openb import csvfile

NODES_FILE: Final = "openb_node_list_gpu_node.csv"
PODS_PREFIX: Final = "openb_pod_list_"
WHOLE_MILLI: Final = 1000
"""Thousandths that a GPU has."""

MILLI_PER_HUNDREDTH: Final = 10

_NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")

Named = TypeVar("Named", "Node", "Pod")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node, empty.

    Attributes:
        gpus: how many, all of one model.
    """

    name: str
    cpu_millis: int
    memory_mib: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """What a pod asks for.

    Attributes:
        gpus: how many GPUs; 0: it needs none.
        milli: thousandths of each of them, a multiple of 10; 0 without GPU.
        models: GPU models that it may use; empty: any.
    """

    name: str
    cpu_millis: int
    memory_mib: int
    gpus: int
    milli: int
    models: frozenset[str]

    @property
    def demand_milli(self) -> int:
        """Thousandths of a GPU in all."""
        return self.gpus * self.milli


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A cluster and the pods that arrive there, both in the order of their names."""

    name: str
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]

    @cached_property
    def capacity_milli(self) -> int:
        """Thousandths of a GPU that the cluster has."""
        return sum(node.gpus for node in self.nodes) * WHOLE_MILLI


def names_in(folder: Path) -> tuple[str, ...]:
    """Names of the traces in a folder, sorted."""
    return tuple(sorted(file.stem.removeprefix(PODS_PREFIX) for file in folder.glob(f"{PODS_PREFIX}*.csv")))


def read(folder: Path, name: str) -> Trace:
    """Return the trace of that name.

    Raises:
        InvalidInputError: a file is missing, or a cell cannot be used; it names file, line and column.
    """
    if not folder.is_dir():
        raise errors.InvalidInputError("--trace-dir", str(folder), f"must be a folder that holds {NODES_FILE}")
    nodes = _unique(csvfile.rows(folder / NODES_FILE, _NODE_COLUMNS, _node), folder / NODES_FILE)
    file = folder / f"{PODS_PREFIX}{name}.csv"
    if not file.is_file():
        found = ", ".join(names_in(folder)) or "none"
        raise errors.InvalidInputError("--trace", name, f"{file} is missing; traces in that folder: {found}")
    pods = _unique(csvfile.rows(file, _POD_COLUMNS, _pod), file)
    if not any(pod.demand_milli for pod in pods):
        raise errors.InvalidInputError(str(file), "gpu_milli", "at least one pod must ask for a GPU")
    return Trace(name=name, nodes=nodes, pods=pods)


def _node(row: csvfile.Row) -> Node:
    return Node(
        name=_name(row, "sn"),
        cpu_millis=row.number("cpu_milli"),
        memory_mib=row.number("memory_mib"),
        gpus=row.number("gpu", least=1),
        model=_name(row, "model"),
    )


def _pod(row: csvfile.Row) -> Pod:
    gpus = row.number("num_gpu")
    return Pod(
        name=_name(row, "name"),
        cpu_millis=row.number("cpu_milli"),
        memory_mib=row.number("memory_mib"),
        gpus=gpus,
        milli=_milli(row, gpus),
        models=frozenset(model.strip() for model in row.text("gpu_spec").split("|") if model.strip()),
    )


def _name(row: csvfile.Row, column: str) -> str:
    text = row.text(column)
    if not text:
        raise row.error(column, "must not be empty")
    return text


def _milli(row: csvfile.Row, gpus: int) -> int:
    """Thousandths of each GPU."""
    milli = row.number("gpu_milli")
    if gpus == 0:
        return 0
    if gpus > 1 and milli != WHOLE_MILLI:
        raise row.error("gpu_milli", f"must be {WHOLE_MILLI}: a pod has several GPUs whole, or a part of one")
    if not 0 < milli <= WHOLE_MILLI or milli % MILLI_PER_HUNDREDTH:
        remedy = f"must be 10 to {WHOLE_MILLI} in steps of 10: shares are hundredths of a GPU; round it up"
        raise row.error("gpu_milli", remedy)
    return milli


def _unique(values: Iterable[Named], file: Path) -> tuple[Named, ...]:
    """By name; each name once."""
    ordered = tuple(sorted(values, key=lambda value: value.name))
    for one, other in itertools.pairwise(ordered):
        if one.name == other.name:
            raise errors.InvalidInputError(str(file), one.name, "must be there once")
    if not ordered:
        raise errors.InvalidInputError(str(file), file.name, "must hold at least one line below the first")
    return ordered
