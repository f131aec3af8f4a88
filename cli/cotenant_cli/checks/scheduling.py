"""Whether a scheduler named as ours answers, with the extender in it. Pure.

There is no object that says it; what shows it is a configuration with that profile, or a pod that it has bound, and
what speaks against it is a pod that waits for it and hears nothing.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import yaml

from cotenant_api import findings, names
from cotenant_cli.reading import kinds
from cotenant_cli.reading.installation import Installation

Object = Mapping[str, Any]
READS: Final = (kinds.PODS, kinds.SCHEDULER_CONFIGURATION, kinds.POLICY)
PATIENCE_SECONDS: Final = 60.0
_CONFIGURATION: Final = "kube-scheduler.yaml"
_ALL_NODES: Final = 100


def examine(seen: Installation) -> Iterator[findings.Finding]:
    """Its configuration, and pods that ask for shares and are no longer held by a gate."""
    where = f"{seen.namespace}/{names.SCHEDULER_ACCOUNT}"
    yield from _configured(seen, where)
    ungated = [one for one in seen.of(kinds.PODS) if _ours(one) and not one["spec"].get("schedulingGates")]
    unheard = [one for one in ungated if _unheard(one, seen.now)]
    for one in unheard[:3]:
        scheduler = one["spec"].get("schedulerName")
        what = f"waits for a scheduler named {scheduler}, and none has looked at it"
        remedy = f"start kube-scheduler with a profile of that name; is {where} running?"
        yield findings.error(_where(one), what, remedy)
    astray = [one for one in ungated if one["spec"].get("schedulerName") != names.SCHEDULER_NAME]
    for one in [] if kinds.observes(seen.of(kinds.POLICY)) else astray[:3]:
        scheduler = one["spec"].get("schedulerName")
        what = f"asks for {names.GPU_SHARE}, and is left to the scheduler {scheduler}, which gives none"
        remedy = f"delete it: the admission policy cotenant-pods puts {names.SCHEDULER_NAME} into a new one"
        yield findings.warning(_where(one), what, remedy)
    bound = sum(names.PLACEMENT in (one["metadata"].get("annotations") or {}) for one in ungated)
    if bound:
        yield findings.ok(where, f"{bound} pods that it has bound are there")


def _configured(seen: Installation, where: str) -> Iterator[findings.Finding]:
    there = seen.of(kinds.SCHEDULER_CONFIGURATION)
    if not there:
        return
    text = str((there[0].get("data") or {}).get(_CONFIGURATION) or "")
    fault = _fault(text)
    if fault is not None:
        yield findings.error(where, f"ConfigMap {names.SCHEDULER_ACCOUNT}: {fault}", "helm upgrade cotenant CHART")
        return
    yield findings.ok(where, f"has the profile {names.SCHEDULER_NAME}, and asks the extender for {names.GPU_SHARE}")
    for what, remedy in _unnamed_nodes(yaml.safe_load(text)):
        yield findings.warning(where, f"ConfigMap {names.SCHEDULER_ACCOUNT}: {what}", remedy)


def _fault(text: str) -> str | None:
    """Return what is wrong with a KubeSchedulerConfiguration."""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        return f"{_CONFIGURATION} is no YAML"
    if not isinstance(found, dict):
        return f"it has no {_CONFIGURATION}"
    if names.SCHEDULER_NAME not in [one.get("schedulerName") for one in found.get("profiles") or ()]:
        return f"it has no profile named {names.SCHEDULER_NAME}"
    for one in found.get("extenders") or ():
        managed = [resource.get("name") for resource in one.get("managedResources") or ()]
        if names.GPU_SHARE in managed:
            lacking = [key for key in ("filterVerb", "bindVerb") if not one.get(key)]
            if lacking:
                return f"its extender lacks {', '.join(lacking)}"
            return "its extender is ignorable: pods would be bound without a GPU" if one.get("ignorable") else None
    return f"it has no extender that manages {names.GPU_SHARE}"


def _unnamed_nodes(configuration: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Why kube-scheduler does not tell the extender of every node that its plugins accept, and the remedy."""
    profile = next(one for one in configuration["profiles"] if one.get("schedulerName") == names.SCHEDULER_NAME)
    share = profile.get("percentageOfNodesToScore", configuration.get("percentageOfNodesToScore"))
    if share != _ALL_NODES:
        what = f"percentageOfNodesToScore is {share}: nodes beyond that sample look refused to the queue"
        yield what, f"set percentageOfNodesToScore: {_ALL_NODES}, or helm upgrade cotenant CHART"
    managed = [one for extender in configuration["extenders"] for one in extender.get("managedResources") or ()]
    if not any(one.get("name") == names.GPU_SHARE and one.get("ignoredByScheduler") for one in managed):
        what = f"ignoredByScheduler is not true for {names.GPU_SHARE}: kube-scheduler never names nodes that are full"
        yield what, f"set ignoredByScheduler: true for {names.GPU_SHARE}, or helm upgrade cotenant CHART"


def _ours(pod: Object) -> bool:
    """Return whether a pod asks for a share; kept pods that do not are our components'."""
    labels = pod["metadata"].get("labels") or {}
    ended = pod["status"].get("phase") in ("Succeeded", "Failed")
    return labels.get(kinds.COMPONENT) not in kinds.COMPONENTS and not ended


def _unheard(pod: Object, now: datetime) -> bool:
    """Return whether nobody has tried to schedule it: kube-scheduler would have left a condition."""
    said = [one.get("type") for one in pod["status"].get("conditions") or () if one.get("reason") != "SchedulingGated"]
    created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    old = (now - created).total_seconds() > PATIENCE_SECONDS
    return old and not pod["spec"].get("nodeName") and "PodScheduled" not in said


def _where(pod: Object) -> str:
    return f"Pod/{pod['metadata']['namespace']}/{pod['metadata']['name']}"
