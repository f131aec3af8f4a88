"""Where a graph comes from: a document, or the predictor's extraction. The user's callable runs in this process."""

import argparse
import json
from pathlib import Path
from typing import Final

from cotenant_api import errors
from cotenant_api.graph import Graph
from cotenant_api.pod import WorkloadType

_BATCH_SIZE: Final = "--batch-size"
_MODES: Final = {WorkloadType.TRAINING: "Training", WorkloadType.INFERENCE: "Inference"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of an extraction."""
    from cotenant_predictor.commands import extract

    group = parser.add_argument_group("what a step of the model is; not for a graph document, which says it")
    group.add_argument(_BATCH_SIZE, type=int, metavar="N", help="samples of one step; needed unless MODEL is a graph")
    extract.configure_step(parser)


def read(arguments: argparse.Namespace) -> Graph:
    """The graph of MODEL.

    Args:
        arguments: `target`, `workload_type`, and those of `configure`.

    Raises:
        InvalidInputError: there is no such model, or it cannot be read or extracted.
        PermanentError: what its extraction needs is not installed.
    """
    from cotenant_predictor.commands import extract

    found = _document(arguments.target)
    if found is not None:
        if arguments.batch_size not in (None, found.batch_size):
            remedy = f"must be {found.batch_size}, as in the graph, or left out"
            raise errors.InvalidInputError(_BATCH_SIZE, arguments.batch_size, remedy)
        return _of_mode(found, arguments.workload_type)
    if arguments.batch_size is None or arguments.batch_size < 1:
        remedy = "must be 1 or more: the samples of one step"
        raise errors.InvalidInputError(_BATCH_SIZE, arguments.batch_size, remedy)
    asked = argparse.Namespace(**vars(arguments))
    asked.mode, asked.name = _MODES[arguments.workload_type], None
    return extract.extracted(asked)


def _document(target: str) -> Graph | None:
    """A graph document; None: MODEL is something else."""
    path = Path(target)
    if not target.endswith((".json", ".json.gz")) or path.is_dir():
        return None
    try:
        data = path.read_bytes()
    except OSError as error:
        raise errors.InvalidInputError("MODEL", target, f"cannot be read: {error.strerror}") from error
    if not target.endswith(".gz") and not _is_graph(data):
        return None  # a Hugging Face configuration
    return Graph.read(data, source=target)


def _is_graph(data: bytes) -> bool:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return True  # its reader says what is wrong with it
    return isinstance(found, dict) and "operators" in found


def _of_mode(found: Graph, workload_type: WorkloadType) -> Graph:
    if found.mode != _MODES[workload_type]:
        remedy = f"must be {found.mode}, as in the graph: it was extracted with that --mode"
        raise errors.InvalidInputError("--workload-type", workload_type.value, remedy)
    return found
