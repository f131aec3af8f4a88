"""What a workload is made from, as digests: equal ones make equal workloads. Pure.

A digest is kept on the workload and compared with that of the spec as it stands, perhaps by another release of the
operator. So only what is rendered counts, and a field that has its default counts as if it was not there: a release
that brings a field with a default, which the API server writes into every DLJob, changes no digest.
"""

import hashlib
from collections.abc import Collection
from typing import Any, Final

from cotenant_api import dljob, documents

_NOT_RENDERED: Final = {
    "suspend",
    "replicas",
    "backoff_limit",
    "active_deadline_seconds",
    "ttl_seconds_after_finished",
    "oom_policy",
    "slo",
    "container",
}
"""Fields of the spec that take effect without a new workload, and those of which only a part is rendered."""
_WORK: Final = {"model", "batch_size", "precision", "input_shapes"}


def of_spec(spec: dljob.Spec) -> str:
    """Of all that a workload is made from."""
    found = _written(spec, spec.__class__.model_fields.keys() - _NOT_RENDERED)
    if spec.container not in (None, _first_container(spec)):
        found["container"] = spec.container
    return _digest(_with_rate(spec, found))


def of_model(spec: dljob.Spec) -> str:
    """Of what a prediction is made from, but for the content of a ConfigMap."""
    return _digest(_with_rate(spec, _written(spec, {*_WORK, "gpu_models"})))


def of_work(spec: dljob.Spec) -> str:
    """Of what says how much GPU memory a replica needs, wherever it is placed."""
    return _digest(_written(spec, _WORK))


def _written(spec: dljob.Spec, fields: Collection[str]) -> dict[str, Any]:
    """These fields as JSON, as far as they are not what they are by default."""
    found = spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True, include=set(fields))
    # How long its pod may run is no part of the graph.
    (found.get("model", {}).get("entrypoint") or {}).pop("timeoutSeconds", None)
    return found


def _with_rate(spec: dljob.Spec, found: dict[str, Any]) -> dict[str, Any]:
    """With the one promise of an inference job that is acted on."""
    rate = None if spec.slo is None else spec.slo.requests_per_second
    return found if rate is None else {**found, "requestsPerSecond": rate}


def _first_container(spec: dljob.Spec) -> str | None:
    """The container that gets the GPU where none is named."""
    containers = (spec.template.get("spec") or {}).get("containers") or [{}]
    name: str | None = containers[0].get("name")
    return name


def _digest(content: object) -> str:
    return hashlib.sha256(documents.canonical(content).encode()).hexdigest()[:32]
