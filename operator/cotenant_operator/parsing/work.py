"""Answers a task: reads graph documents, ONNX files and measurements, and predicts. Pure; heavy to import.

In the operator this runs in the confined process alone (`child`).
"""

import base64
from collections.abc import Mapping
from typing import Final

from cotenant_api import errors, graph, measurement
from cotenant_api.names import GPUModel
from cotenant_operator.parsing import onnx_files, tasks
from cotenant_predictor.devices import Device
from cotenant_predictor.jobs import prediction as jobs

MAX_LINES: Final = 4096
"""Lines of measurements in one text, those that cannot be read among them."""
_NOT_OURS: Final = (ImportError, OSError)
"""Of a process that may open nothing: something was not loaded before; no fault of the bytes."""


class Reader:
    """Answers tasks.

    Args:
        devices: the GPU models that are known.
        knowledge: what predictions rest on.
    """

    def __init__(self, *, devices: Mapping[GPUModel, Device], knowledge: jobs.Knowledge) -> None:
        self._devices, self._knowledge = devices, knowledge

    def answer(self, task: tasks.Task, data: bytes) -> tasks.Answer:
        """Return what came of it; MemoryError alone is raised."""
        try:
            if task.kind is tasks.Kind.LINES:
                return _lines(data, source=task.source)
            found = graph_of(task, data)
            if task.kind is tasks.Kind.DIGEST:
                return tasks.Answer(graph=found.digest)
            if task.kind is tasks.Kind.DOCUMENT:
                return tasks.Answer(graph=found.digest, packed=base64.b64encode(found.packed()).decode())
            predicted = jobs.predict(found, self._devices.values(), cpu_cores=task.cpu_cores, knowledge=self._knowledge)
            return tasks.Answer(prediction=predicted, graph=found.digest)
        except errors.InvalidInputError as error:
            return tasks.refused(str(error))
        except _NOT_OURS as error:
            return tasks.failed(f"{type(error).__name__}: {error}")


def graph_of(task: tasks.Task, data: bytes) -> graph.Graph:
    """Return the graph in the bytes, with the load that is declared for it where it is of inference and says none.

    Raises:
        InvalidInputError: there is none.
    """
    if task.onnx is not None:
        found = onnx_files.graph_of(data, task.onnx, source=task.source)
    else:
        found = graph.Graph.read(data, source=task.source)
    rate = task.requests_per_second
    if rate is None or found.mode is not graph.Mode.INFERENCE or found.inference is not None:
        return found
    declared = graph.Inference(requests_per_second=rate)
    return found.model_copy(update={"inference": declared}).sealed()


def _lines(data: bytes, *, source: str) -> tasks.Answer:
    """Return the measurements in a text; what cannot be read was written by somebody else, and is counted."""
    found, skipped = [], 0
    lines = data.splitlines()
    for line in lines[-MAX_LINES:]:
        try:
            found.append(measurement.Measurement.from_json(line, source=source))
        except errors.InvalidInputError:
            skipped += 1
    return tasks.Answer(lines=tuple(found), skipped=skipped + max(len(lines) - MAX_LINES, 0))
