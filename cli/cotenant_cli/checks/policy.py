"""Whether there is a PackingPolicy, that it can be read, and that it lets anything be placed. Pure."""

from collections.abc import Collection, Iterator
from typing import Final

from cotenant_api import conditions, errors, findings, packingpolicy, suggestions
from cotenant_cli.reading import kinds, objects
from cotenant_cli.reading.installation import Installation

READS: Final = (kinds.POLICY, kinds.GPUNODES)
_WHERE: Final = f"PackingPolicy/{packingpolicy.NAME}"
_EDIT: Final = f"kubectl edit packingpolicy {packingpolicy.NAME}"


def examine(seen: Installation) -> Iterator[findings.Finding]:
    """Yield the one that counts."""
    there = seen.of(kinds.POLICY)
    if not there:
        yield findings.error(_WHERE, "is missing: nothing is placed", "kubectl apply -f manifests/policy.yaml")
        return
    try:
        read = objects.policy_of(there[0])
    except errors.InvalidInputError as error:
        yield findings.error(_WHERE, f"cannot be read: {error}", f"{_EDIT}, and mend that field")
        return
    yield from _overrides(read.spec, {gpu.model for node in _nodes(seen) for gpu in node.status.gpus})
    status = there[0].get("status") or {}
    accepted = conditions.find(conditions.from_objects(status.get("conditions")), "Accepted")
    if accepted is not None and accepted.status is conditions.Status.FALSE:
        yield findings.error(_WHERE, f"is not accepted: {accepted.reason}: {accepted.message}", _EDIT)
    elif read.spec.paused:
        yield findings.warning(_WHERE, "is paused: nothing new is placed", f"{_EDIT}, and set spec.paused to false")
    elif read.spec.mode is packingpolicy.Mode.OBSERVE:
        yield findings.ok(_WHERE, "mode Observe: predictions and advice, no sharing")
    elif accepted is None or status.get("observedGeneration") not in (None, read.generation):
        what = f"generation {read.generation} has not been taken up yet by the extender"
        yield findings.warning(_WHERE, what, "see the findings of leader and components")
    else:
        yield findings.ok(_WHERE, f"{read.spec.placement}, tenancy {read.spec.tenancy}; generation {read.generation}")


def _nodes(seen: Installation) -> Iterator[objects.Node]:
    return (node for node in map(objects.node_of, seen.of(kinds.GPUNODES)) if node.unread is None)


def _overrides(spec: packingpolicy.Spec, there: Collection[str]) -> Iterator[findings.Finding]:
    """Yield a warning for each GPU model of an override that no node has: that override changes nothing."""
    for number, override in enumerate(spec.overrides):
        for model in override.gpu_models:
            if there and model not in there:
                what = f"spec.overrides[{number}].gpuModels: no node has a GPU of model {model}"
                advice = suggestions.advice(model, there, known_are="nodes have")
                yield findings.warning(_WHERE, what, f"{_EDIT}; {advice}")
