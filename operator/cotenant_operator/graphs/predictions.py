"""Predictions of DLJobs: read the graph, predict once per graph and namespace, choose the GPU models.

The only I/O is reading a ConfigMap, by the function that is passed in. Predicting runs in a thread: a large
graph must not hold up the watches.
"""

import asyncio
import functools
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from cotenant_api import dljob, documents, errors, prediction, quantity
from cotenant_api.names import GPUModel
from cotenant_operator import reasons
from cotenant_operator.graphs import extraction, onnx_files, sources
from cotenant_operator.state import outcomes, views
from cotenant_predictor.devices import Device
from cotenant_predictor.jobs import prediction as jobs

MAX_CACHED = 2048
MAX_READ = 16
"""Documents made of others, such as ONNX files: a DLJob is looked at several times before its workload is there."""
_READ_WITH = {"workload_type", "batch_size", "precision", "input_shapes"}
"""What of a spec such a document depends on."""

ReadConfigMap = Callable[[views.Key], Awaitable[Mapping[str, Any] | None]]
"""The ConfigMap of that namespace and name, or None where there is none."""

_CacheKey = tuple[str, bytes, float | None]
_Cached = prediction.Prediction | outcomes.Missing


class Predictor:
    """Predicts DLJobs.

    Args:
        read_config_map: reads one from the API server.
        devices: the GPU models that are known.
        knowledge: what predictions rest on.
    """

    def __init__(
        self, read_config_map: ReadConfigMap, *, devices: Mapping[GPUModel, Device], knowledge: jobs.Knowledge
    ) -> None:
        self._read_config_map = read_config_map
        self._devices, self._knowledge = devices, knowledge
        self._cache: OrderedDict[_CacheKey, _Cached] = OrderedDict()
        self._running: dict[_CacheKey, asyncio.Future[_Cached]] = {}
        self._read: OrderedDict[tuple[str, bytes], bytes | outcomes.Missing] = OrderedDict()

    async def outcome(
        self,
        key: views.Key,
        spec: dljob.Spec,
        *,
        present: Collection[GPUModel],
        result: dljob.ConfigMapRef | None = None,
    ) -> outcomes.Outcome:
        """The prediction for the GPU models that the job may use, or why there is none.

        Args:
            key: the DLJob.
            spec: what it says.
            present: the GPU models in the cluster.
            result: where the graph is put that has to be extracted; None: it comes from elsewhere.

        Raises:
            TemporaryError: the ConfigMap could not be asked for.
        """
        missing = sources.unavailable(spec)
        if missing is not None:
            return missing
        models = considered(spec.gpu_models, present=present, known=self._devices)
        if isinstance(models, outcomes.Missing):
            return models
        data = await self.document(key, spec, result=result)
        if isinstance(data, outcomes.Missing):
            return data
        ref = result or sources.config_map_of(spec)
        source = "spec.model.features" if ref is None else f"ConfigMap {ref.name}, key {ref.key}"
        found = await self._predicted(key.namespace, data, source=source, cpu_cores=cpu_cores(spec))
        return found if isinstance(found, outcomes.Missing) else chosen(found, models)

    async def document(
        self, key: views.Key, spec: dljob.Spec, *, result: dljob.ConfigMapRef | None
    ) -> bytes | outcomes.Missing:
        """The graph document of a DLJob, with the load that its spec declares; arguments and errors as of `outcome`."""
        found = await self._source(key, spec, result=result)
        rate = sources.requests_per_second(spec)
        if rate is None or isinstance(found, outcomes.Missing):
            return found
        make = functools.partial(sources.with_requests, found, rate, source=str(key))
        return await self._made(key.namespace, found + f" requests {rate}".encode(), make)

    async def _source(
        self, key: views.Key, spec: dljob.Spec, *, result: dljob.ConfigMapRef | None
    ) -> bytes | outcomes.Missing:
        """The document as it is stored, or was extracted."""
        if result is not None:
            return await self._extracted(key, spec, result)
        ref = sources.config_map_of(spec)
        return sources.inline_text(spec) if ref is None else await self._document(key, ref)

    async def _document(self, key: views.Key, ref: dljob.ConfigMapRef) -> bytes | outcomes.Missing:
        config_map = await self._read_config_map(views.Key(key.namespace, ref.name))
        return sources.from_config_map(ref, config_map)

    async def _extracted(
        self, key: views.Key, spec: dljob.Spec, result: dljob.ConfigMapRef
    ) -> bytes | outcomes.Missing:
        """The document that an extraction has left; awaited where it has left none."""
        found = await self._document(key, result)
        if isinstance(found, outcomes.Missing):
            missing = found.reason == reasons.CONFIG_MAP_NOT_FOUND
            return sources.awaited() if missing else sources.not_extracted(found.message)
        if result.key != extraction.ONNX_KEY:
            return found
        shapes = documents.canonical(spec.model_dump(mode="json", include=_READ_WITH)).encode()
        make = functools.partial(onnx_files.document, found, spec, name=key.name)
        return await self._made(key.namespace, found + shapes, make)

    async def _made(
        self, namespace: str, content: bytes, make: Callable[[], bytes | outcomes.Missing]
    ) -> bytes | outcomes.Missing:
        """A document that is made, in a thread; of the same content it is the same."""
        cache_key = (namespace, hashlib.sha256(content).digest())
        made = self._read.get(cache_key)
        if made is None:
            made = await asyncio.to_thread(make)
            self._read[cache_key] = made
            if len(self._read) > MAX_READ:
                self._read.popitem(last=False)
        return made

    async def _predicted(self, namespace: str, data: bytes, *, source: str, cpu_cores: float | None) -> _Cached:
        cache_key = (namespace, hashlib.sha256(data).digest(), cpu_cores)
        found = self._cache.get(cache_key)
        if found is not None:
            return found
        running = self._running.get(cache_key)
        if running is None:
            running = asyncio.ensure_future(asyncio.to_thread(self._predict, data, source, cpu_cores))
            self._running[cache_key] = running
            running.add_done_callback(functools.partial(self._keep, cache_key))
        # Whoever asks for the same meanwhile waits for the same; one that gives up ends it for nobody else.
        return await asyncio.shield(running)

    def _keep(self, cache_key: _CacheKey, done: asyncio.Future[_Cached]) -> None:
        del self._running[cache_key]
        if done.cancelled() or done.exception() is not None:
            return
        self._cache[cache_key] = done.result()
        if len(self._cache) > MAX_CACHED:
            self._cache.popitem(last=False)

    def _predict(self, data: bytes, source: str, cpu_cores: float | None) -> _Cached:
        graph = sources.parse(data, source=source)
        if isinstance(graph, outcomes.Missing):
            return graph
        try:
            return jobs.predict(graph, self._devices.values(), cpu_cores=cpu_cores, knowledge=self._knowledge)
        except errors.InvalidInputError as error:
            return sources.unreadable(str(error))


def considered(
    wanted: Collection[GPUModel], *, present: Collection[GPUModel], known: Collection[GPUModel]
) -> tuple[GPUModel, ...] | outcomes.Missing:
    """The GPU models to predict for: the wanted ones, else the cluster's, else all known ones."""
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
    """The prediction for those of these models that it can be trusted on; missing where it is for none."""
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
    """The CPU limit of the container that loads the job's input; None: no limit."""
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
