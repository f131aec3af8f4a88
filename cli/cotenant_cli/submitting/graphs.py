"""Where a graph comes from: a document, or the predictor's extraction. The user's callable runs in this process."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cotenant_api import errors
from cotenant_api.choices import WorkloadType

if TYPE_CHECKING:
    from cotenant_api import graph

_BATCH_SIZE: Final = "--batch-size"
_CONFIGURES: Final = {"model_type", "architectures"}
"""One of them stands in each configuration of a Hugging Face model."""
_INFERENCE: Final = "--workload-type Inference"
"""The option by which this command takes an inference job."""
_MODES: Final = {WorkloadType.TRAINING: "Training", WorkloadType.INFERENCE: "Inference"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of an extraction."""
    from cotenant_predictor.commands import extract

    group = parser.add_argument_group("what a step of the model is; not for a graph document, which says it")
    group.add_argument(_BATCH_SIZE, type=int, metavar="N", help="samples of one step; needed unless MODEL is a graph")
    extract.configure_step(parser, inference=_INFERENCE)
    # Else nobody could tell `--precision fp32` from no --precision.
    parser.set_defaults(**dict.fromkeys(_step_defaults()))


def step_options(arguments: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Yield the options of an extraction that are given, except for the batch size, with their values."""
    for field in _step_defaults():
        value = getattr(arguments, field)
        if value is not None:
            yield f"--{field.replace('_', '-')}", value


def read(arguments: argparse.Namespace) -> "graph.Graph":
    """Return the graph of MODEL.

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
        for option, value in step_options(arguments):
            remedy = f"is not for {arguments.target}, a graph that says it: leave it out, or extract the graph anew"
            raise errors.InvalidInputError(option, value, remedy)
        return _of_mode(found, arguments.workload_type)
    if arguments.batch_size is None or arguments.batch_size < 1:
        remedy = "must be 1 or more: the samples of one step"
        raise errors.InvalidInputError(_BATCH_SIZE, arguments.batch_size, remedy)
    unsaid = {field: value for field, value in _step_defaults().items() if getattr(arguments, field) is None}
    asked = argparse.Namespace(**vars(arguments) | unsaid)
    asked.mode, asked.name = _MODES[arguments.workload_type], None
    return extract.extracted(asked)


def _step_defaults() -> dict[str, Any]:
    """Return the defaults of an extraction's options, by the names of their fields."""
    from cotenant_predictor.commands import extract

    parser = argparse.ArgumentParser(add_help=False)
    extract.configure_step(parser, inference=_INFERENCE)
    return vars(parser.parse_args([]))


def _document(target: str) -> "graph.Graph | None":
    """Return a graph document; None: MODEL is something else."""
    from cotenant_api import graph

    path = Path(target)
    if not target.endswith((".json", ".json.gz")) or path.is_dir():
        return None
    try:
        data = path.read_bytes()
    except OSError as error:
        raise errors.InvalidInputError("MODEL", target, f"cannot be read: {error.strerror}") from error
    keys = _keys(graph.unpacked(data, source=target))
    if not keys or keys & {"v", "operators"}:
        return graph.Graph.read(data, source=target)
    if keys & _CONFIGURES:
        return None
    remedy = "is neither a graph document nor a model's configuration: give what `cotenant extract` wrote"
    raise errors.InvalidInputError("MODEL", target, remedy)


def _keys(data: bytes) -> set[str]:
    """Return the keys of a JSON object; of anything else, none: the reader of graphs says what is wrong with it."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return set()
    return set(found) if isinstance(found, dict) else set()


def _of_mode(found: "graph.Graph", workload_type: WorkloadType) -> "graph.Graph":
    if found.mode != _MODES[workload_type]:
        remedy = f"must be {found.mode}, as in the graph: it was extracted with that --mode"
        raise errors.InvalidInputError("--workload-type", workload_type.value, remedy)
    return found
