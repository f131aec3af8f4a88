"""Predictions of DLJobs: have the graph read, predict once per graph and namespace, choose the GPU models.

The only I/O here is reading a ConfigMap, by the function that is passed in. What a tenant wrote is passed on as bytes:
another process looks at them (`parsing`).
"""

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from cotenant_api import dljob, errors, graph, prediction, quantity
from cotenant_api.names import GPUModel
from cotenant_operator import reasons
from cotenant_operator.graphs import extraction, extraction_pod, sources
from cotenant_operator.parsing import process, remembering, tasks, turns
from cotenant_operator.state import outcomes, views

MAX_CACHED = 2048
MAX_READING = 2
"""ConfigMaps that are read at the same time."""

ReadConfigMap = Callable[[views.Key], Awaitable[Mapping[str, Any] | None]]
"""The ConfigMap of that namespace and name, or None where there is none."""

Aside = Callable[[str], contextlib.AbstractContextManager[object]]
"""Takes the namespace."""

_CacheKey = tuple[str, str]
"""Namespace, and digest of the question."""


class Predictor:
    """Predicts DLJobs.

    Args:
        read_config_map: reads one from the API server.
        parser: reads graphs and predicts, in a process of its own.
        aside: entered, with the namespace, while a ConfigMap or a graph is read, or others before it.
    """

    def __init__(
        self, read_config_map: ReadConfigMap, *, parser: process.Parser, aside: Aside = contextlib.nullcontext
    ) -> None:
        self._read_config_map, self._parser, self._aside = read_config_map, parser, aside
        self._reading = turns.Turns(at_once=MAX_READING)
        self._cache: remembering.Remembered[bytes] = remembering.Remembered(MAX_CACHED)
        self._running: dict[_CacheKey, asyncio.Future[tasks.Answer]] = {}

    async def outcome(
        self,
        key: views.Key,
        spec: dljob.Spec,
        *,
        present: Collection[GPUModel],
        result: dljob.ConfigMapRef | None = None,
        refused: dljob.RefusedGraph | None = None,
    ) -> outcomes.Outcome:
        """Return the prediction for the GPU models that the job may use, or why there is none.

        Args:
            key: the DLJob.
            spec: what it says.
            present: the GPU models in the cluster.
            result: where the graph is put that has to be extracted; None: it comes from elsewhere.
            refused: what was refused before, as the DLJob's status has it: the same is not read again.

        Raises:
            TemporaryError: the ConfigMap could not be asked for, or the graph not be read, for now.
        """
        missing = sources.unavailable(spec)
        if missing is not None:
            return missing
        models = considered(spec.gpu_models, present=present, known=self._parser.ready.devices)
        if isinstance(models, outcomes.Missing):
            return models
        data = await self._source(key, spec, result=result)
        if isinstance(data, outcomes.Missing):
            return data
        task = _task(tasks.Kind.PREDICTION, key, spec, result=result)
        digest = tasks.digest(self._parser.ready.version, task, data)
        if refused is not None and refused.digest == digest:
            return outcomes.Missing(
                reason=reasons.GRAPH_UNREADABLE, message=refused.message, may_come=task.onnx is None, refused=digest
            )
        answer = await self._answered(key.namespace, digest, task, data)
        if answer.prediction is None:
            return _refused(task, answer, digest)
        return chosen(answer.prediction, models)

    async def document(
        self, key: views.Key, spec: dljob.Spec, *, result: dljob.ConfigMapRef | None
    ) -> tasks.Answer | outcomes.Missing:
        """Return the graph document of a DLJob, packed, with the load that its spec declares; see `outcome`."""
        data = await self._source(key, spec, result=result)
        if isinstance(data, outcomes.Missing):
            return data
        task = _task(tasks.Kind.DOCUMENT, key, spec, result=result)
        answer = await self._parser.ask(key.namespace, task, data)
        return answer if answer.packed is not None else _refused(task, answer, None)

    async def _source(
        self, key: views.Key, spec: dljob.Spec, *, result: dljob.ConfigMapRef | None
    ) -> bytes | outcomes.Missing:
        """Return the document as it is stored, or was extracted."""
        ref = result or sources.config_map_of(spec)
        found = sources.inline_text(spec) if ref is None else await self._document(key, ref)
        if isinstance(found, bytes):
            found = sources.too_large(found, source=_name(ref)) or found
        if result is None or not isinstance(found, outcomes.Missing):
            return found
        missing = found.reason == reasons.CONFIG_MAP_NOT_FOUND
        return sources.awaited() if missing else sources.not_extracted(found.message)

    async def _document(self, key: views.Key, ref: dljob.ConfigMapRef) -> bytes | outcomes.Missing:
        # Before it is read: the question could not be asked.
        self._parser.check(key.namespace)
        with self._aside(key.namespace):
            # A ConfigMap of 1 MiB becomes many times that when its JSON is read.
            async with self._reading.turn(key.namespace):
                config_map = await self._read_config_map(views.Key(key.namespace, ref.name))
                return sources.from_config_map(ref, config_map)

    async def _answered(self, namespace: str, digest: str, task: tasks.Task, data: bytes) -> tasks.Answer:
        cache_key = (namespace, digest)
        found = self._cache.get(*cache_key)
        if found is not None:
            return tasks.Answer.model_validate_json(found)
        running = self._running.get(cache_key)
        if running is None:
            running = asyncio.ensure_future(self._parser.ask(namespace, task, data))
            self._running[cache_key] = running
            running.add_done_callback(functools.partial(self._keep, cache_key))
        # Whoever asks for the same meanwhile waits for the same; one that gives up ends it for nobody else.
        with self._aside(namespace):
            return await asyncio.shield(running)

    def _keep(self, cache_key: _CacheKey, done: asyncio.Future[tasks.Answer]) -> None:
        del self._running[cache_key]
        if done.cancelled() or done.exception() is not None or done.result().fault is not None:
            return
        # As text: the values of a prediction take ten times as much.
        self._cache.put(*cache_key, done.result().text())


def _task(kind: tasks.Kind, key: views.Key, spec: dljob.Spec, *, result: dljob.ConfigMapRef | None) -> tasks.Task:
    predicted = kind is tasks.Kind.PREDICTION
    onnx = None
    if result is not None and result.key == extraction.ONNX_KEY:
        onnx = tasks.ONNX(
            name=key.name,
            batch_size=spec.batch_size or 1,
            mode=extraction_pod.mode(spec).value,
            precision=(spec.precision or graph.Precision.FP32).value,
            shapes={shape.name: shape.dims for shape in spec.input_shapes},
        )
    return tasks.Task(
        kind=kind,
        source=_name(result or sources.config_map_of(spec)) if onnx is None else "spec.model.onnx",
        onnx=onnx,
        requests_per_second=sources.requests_per_second(spec),
        cpu_cores=cpu_cores(spec) if predicted else None,
    )


def _name(ref: dljob.ConfigMapRef | None) -> str:
    """Return what a document is called in messages."""
    return "spec.model.features" if ref is None else f"ConfigMap {ref.name}, key {ref.key}"


def _refused(task: tasks.Task, answer: tasks.Answer, digest: str | None) -> outcomes.Missing:
    if answer.problem is None:
        message = answer.fault or f"{task.source} has no prediction"
        return outcomes.Missing(reason=reasons.GRAPH_UNREADABLE, message=message, may_come=True)
    problem = answer.problem
    made = sources.unreadable(problem) if task.onnx is None else sources.not_extracted(problem)
    return replace(made, refused=digest)


def considered(
    wanted: Collection[GPUModel], *, present: Collection[GPUModel], known: Collection[GPUModel]
) -> tuple[GPUModel, ...] | outcomes.Missing:
    """Return the GPU models to predict for: the wanted ones, else the cluster's, else all known ones."""
    strange = [model for model in wanted if model not in known]
    if strange:
        message = f"spec.gpuModels: {', '.join(strange)} is not known; known are {', '.join(sorted(known))}"
        return outcomes.Missing(reason=reasons.UNKNOWN_GPU_MODEL, message=message)
    if wanted:
        return tuple(sorted(set(wanted)))
    usable = sorted(set(present) & set(known))
    if present and not usable:
        message = (
            f"none of the cluster's GPU models ({', '.join(sorted(present))}) is known; known are "
            f"{', '.join(sorted(known))}"
        )
        return outcomes.Missing(reason=reasons.UNKNOWN_GPU_MODEL, message=message, may_come=True)
    return tuple(usable or sorted(known))


def chosen(document: prediction.Prediction, models: Collection[GPUModel]) -> outcomes.Outcome:
    """Return the prediction for those of these models that it can be trusted on; missing where it is for none."""
    trusted = {model: document.by_gpu[model] for model in models if not document.by_gpu[model].out_of_domain}
    if not trusted:
        message = (
            f"the job is outside of what {document.model} can predict on {', '.join(models)}: it does not fit their "
            "memory, computes in a type that they lack, has operators that are not known, or is unlike what was "
            "measured: reserve a whole GPU (spec.sharing: Exclusive), or profile it first"
        )
        return outcomes.Missing(reason=reasons.OUT_OF_DOMAIN, message=message, graph=document.graph)
    return outcomes.Predicted(prediction=document.model_copy(update={"by_gpu": trusted}))


def cpu_cores(spec: dljob.Spec) -> float | None:
    """Return the CPU limit of the container that loads the job's input; None: no limit."""
    containers = spec.template["spec"].get("containers") or ()
    for position, container in enumerate(containers):
        if container.get("name") == spec.container or (spec.container is None and position == 0):
            limit = ((container.get("resources") or {}).get("limits") or {}).get("cpu")
            try:
                return None if limit is None else quantity.millis(limit, field="resources.limits.cpu") / 1000 or None
            except errors.InvalidInputError:
                # The API server will refuse the template and say why.
                return None
    return None
