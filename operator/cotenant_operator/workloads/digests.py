"""What a workload is made from, as digests: equal ones make equal workloads. Pure.

A digest is kept on the workload and compared with that of the spec as it stands, perhaps by another release of the
operator. So only what is rendered counts, and a field that has its default counts as if it was not there: a release
that brings a field with a default, which the API server writes into every DLJob, changes no digest.

Workloads carry the digests of release 0.1.0, too, by which that release finds them unchanged after a rollback. What
carries no others was made by 0.1.0, or by a build after it that wrote the present digests in their place.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

from cotenant_api import dljob
from cotenant_operator import labels
from cotenant_operator.state.origins import MadeFrom, Origin
from cotenant_operator.workloads import former_digests, hashing

_Digest: TypeAlias = Callable[[dljob.Spec], str]

_NOT_RENDERED: Final = {
    "suspend",
    "replicas",
    "backoff_limit",
    "active_deadline_seconds",
    "ttl_seconds_after_finished",
    "oom_policy",
    "slo",
    "container",
    "service",
}
"""Fields of the spec that take effect without a new workload, and those of which only a part is rendered."""
_OF_THE_SWEEP: Final = {"completions", "parallelism", "suspend", "ttl_seconds_after_finished"}
"""Fields of a sweep that its runs do not have."""
_WORK: Final = {"model", "batch_size", "precision", "input_shapes"}


def of_spec(spec: dljob.Spec) -> str:
    """Of all that a workload is made from."""
    found = _written(spec, spec.__class__.model_fields.keys() - _NOT_RENDERED)
    if spec.container not in (None, _first_container(spec)):
        found["container"] = spec.container
    return hashing.digest(_with_rate(spec, found))


def of_model(spec: dljob.Spec) -> str:
    """Of what a prediction is made from, but for the content of a ConfigMap."""
    return hashing.digest(_with_rate(spec, _written(spec, {*_WORK, "gpu_models"})))


def of_work(spec: dljob.Spec) -> str:
    """Of what says how much GPU memory a replica needs, wherever it is placed."""
    return hashing.digest(_written(spec, _WORK))


def of_queue(kueue: Mapping[str, str]) -> str:
    """Of the labels by which Kueue manages a workload."""
    return hashing.digest(dict(kueue))


def of_runs(spec: dljob.Spec, found: Mapping[str, str]) -> str:
    """Return the digest of all that a sweep says to its runs, whatever their index.

    Args:
        spec: what the sweep says.
        found: those of its labels that its runs, or their pods, get.
    """
    written = _written(spec, spec.__class__.model_fields.keys() - _OF_THE_SWEEP)
    if spec.container == _first_container(spec):
        written.pop("container", None)
    return hashing.digest({"spec": written, "labels": dict(found)})


def annotations(spec: dljob.Spec, kueue: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations of a workload that is made from this spec, with these labels of Kueue."""
    former = former_digests.of_spec(spec)
    made_from = MadeFrom(spec=of_spec(spec), model=of_model(spec), beside=former, queue=of_queue(kueue))
    return {
        labels.SPEC_DIGEST: former,
        labels.MODEL_DIGEST: former_digests.of_model(spec),
        labels.MADE_FROM: made_from.to_json(),
    }


def is_of_queue(origin: Origin, kueue: Mapping[str, str], there: Mapping[str, str]) -> bool:
    """Return whether a workload was made with these labels of Kueue, or has them.

    Args:
        origin: what it says that it was made from.
        kueue: the DLJob's labels that are Kueue's.
        there: the workload's own; Kueue may have added some.
    """
    queue = None if origin.own is None else origin.own.queue
    return kueue.items() <= there.items() if queue is None else queue == of_queue(kueue)


def is_of_spec(origin: Origin, spec: dljob.Spec) -> bool:
    """Return whether a workload was made from this spec, whichever release made it."""
    if origin.own is not None:
        return origin.own.spec == of_spec(spec)
    return _is_either(origin.spec, spec, of_spec, former_digests.of_spec)


def is_of_model(origin: Origin, spec: dljob.Spec) -> bool:
    """Return whether the prediction that a workload was made with is one for this spec."""
    if origin.own is not None:
        return origin.own.model == of_model(spec)
    return _is_either(origin.model, spec, of_model, former_digests.of_model)


def is_of_work(digest: str, spec: dljob.Spec) -> bool:
    """Return whether what was learned of the GPU memory of that work holds for this spec."""
    return _is_either(digest, spec, of_work, former_digests.of_work)


def renewed(origin: Origin, spec: dljob.Spec, kueue: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations to write on a workload of this spec whose own are another release's, or of an older edit.

    They belong to the workload alone, not to its pods: nothing is restarted.
    """
    wanted = annotations(spec, kueue)
    there = {
        labels.SPEC_DIGEST: origin.spec,
        labels.MODEL_DIGEST: origin.model,
        labels.MADE_FROM: None if origin.made_from is None else origin.made_from.to_json(),
    }
    return {} if there == wanted or not is_of_spec(origin, spec) else wanted


def _written(spec: dljob.Spec, fields: Collection[str]) -> dict[str, Any]:
    """Return these fields as JSON, as far as they are not what they are by default."""
    found = spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True, include=set(fields))
    # How long its pod may run is no part of the graph.
    (found.get("model", {}).get("entrypoint") or {}).pop("timeoutSeconds", None)
    return found


def _with_rate(spec: dljob.Spec, found: dict[str, Any]) -> dict[str, Any]:
    """With the one promise of an inference job that is acted on."""
    rate = None if spec.slo is None else spec.slo.requests_per_second
    return found if rate is None else {**found, "requestsPerSecond": rate}


def _first_container(spec: dljob.Spec) -> str | None:
    """Return the container that gets the GPU where none is named."""
    containers = (spec.template.get("spec") or {}).get("containers") or [{}]
    name: str | None = containers[0].get("name")
    return name


def _is_either(digest: str, spec: dljob.Spec, of: _Digest, former: _Digest) -> bool:
    """Return whether a digest is this release's of the spec, or 0.1.0's where that release knows all that it sets."""
    return digest == of(spec) or (former_digests.says_all(spec) and digest == former(spec))
