"""Digests as release 0.1.0 computes them, byte by byte. Pure. Never change them: running workloads carry them.

Release 0.1.0 counts a default as if it had been written, so a release with one more field would find every digest
changed. So the fields that 0.1.0 knows are named here, and fields that came later count for nothing.
"""

from typing import Any, Final

from cotenant_api import dljob
from cotenant_operator.workloads import hashing

_MODEL: Final[dict[str, Any]] = {
    "features": True,
    "config_map_ref": {"name", "key"},
    "onnx": {"path", "claim_name"},
    "entrypoint": {"callable", "args", "timeout_seconds"},
}
_WORK: Final[dict[str, Any]] = {
    "model": _MODEL,
    "batch_size": True,
    "precision": True,
    "input_shapes": {"__all__": {"name", "dims", "dtype"}},
}
_RENDERED: Final[dict[str, Any]] = {
    **_WORK,
    "workload_type": True,
    "gpus_per_replica": True,
    "processes_per_gpu": True,
    "gpu_memory": True,
    "gpu_models": True,
    "sharing": True,
    "container": True,
    "slo": {"latency_milliseconds", "percentile", "requests_per_second"},
    "minimum_run_seconds": True,
    "managed_by": True,
    "template": True,
}
_KNOWN: Final[dict[str, Any]] = {
    **_RENDERED,
    "replicas": True,
    "oom_policy": {"max_resubmissions", "growth_percent"},
    "suspend": True,
    "backoff_limit": True,
    "active_deadline_seconds": True,
    "ttl_seconds_after_finished": True,
}

_BESIDE: Final = {"service"}
"""Fields that came later, and from which no workload is made: to set one is no change of what 0.1.0 made."""


def of_spec(spec: dljob.Spec) -> str:
    """Return the digest of what a workload is made from."""
    return hashing.digest(_dumped(spec, _RENDERED))


def of_model(spec: dljob.Spec) -> str:
    """Return the digest of what a prediction is made from, but for the content of a ConfigMap."""
    found = _dumped(spec, {**_WORK, "gpu_models": True})
    rate = None if spec.slo is None else spec.slo.requests_per_second
    return hashing.digest(found if rate is None else {**found, "requestsPerSecond": rate})


def of_work(spec: dljob.Spec) -> str:
    """Return the digest of what says how much GPU memory a replica needs."""
    return hashing.digest(_dumped(spec, _WORK))


def says_all(spec: dljob.Spec) -> bool:
    """Return whether a workload is made from nothing that release 0.1.0 does not know."""
    whole = spec.model_dump(mode="json", exclude_defaults=True, exclude=_BESIDE)
    return whole == spec.model_dump(mode="json", exclude_defaults=True, include=_KNOWN)


def _dumped(spec: dljob.Spec, fields: dict[str, Any]) -> dict[str, Any]:
    return spec.model_dump(mode="json", by_alias=True, exclude_none=True, include=fields)
