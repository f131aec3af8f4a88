"""CPU and memory requests of a pod, held against the rules of Kubernetes written down a second time."""

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from cotenant_extender import podrequests, records
from extender import builders

Object = dict[str, Any]
Resources = dict[str, int]

MIB = 1024 * 1024
CPU_AND_MEMORY = ("cpu", "memory")


# --- the reference: k8s.io/component-helpers v0.36, resource/helpers.go, on maps of whole numbers


def add(to: Resources, more: Resources) -> None:
    for name, amount in more.items():
        to[name] = to.get(name, 0) + amount


def raise_to(floor: Resources, to: Resources) -> None:
    for name, amount in floor.items():
        to[name] = max(to.get(name, amount), amount)


def effective(infeasible: bool, spec: Resources, actuated: Resources, allocated: Resources) -> Resources:
    found: Resources = {}
    for known in (actuated, allocated) if infeasible else (spec, actuated, allocated):
        raise_to(known, found)
    return found


def of_container(pod: Object, container: Object) -> Resources:
    report = pod["reports"].get(container["name"])
    if report is None:
        return dict(container["requests"])
    return effective(pod["infeasible"], container["requests"], report["actuated"], report["allocated"])


def reference(pod: Object) -> Resources:
    """Return the requests of a pod as the fields of `pods()` describe it."""
    total: Resources = {}
    for container in pod["containers"]:
        add(total, of_container(pod, container))
    sidecars: Resources = {}
    largest: Resources = {}
    for container in pod["init"]:
        if container["sidecar"]:
            requests = of_container(pod, container)
            add(total, requests)
            add(sidecars, requests)
            raise_to(sidecars, largest)
        else:
            step = dict(container["requests"])
            add(step, sidecars)
            raise_to(step, largest)
    raise_to(largest, total)
    if pod["own"]:
        own = pod["own"]
        if pod["own_report"] is not None:
            report = pod["own_report"]
            known = effective(pod["infeasible"], own, report["actuated"], report["allocated"])
            total.update({name: known.get(name, 0) for name in own})
        else:
            total.update(own)
    add(total, pod["overhead"])
    return total


# --- pods, and how the API server writes them

amounts = st.integers(0, 4)
resources = st.dictionaries(st.sampled_from(CPU_AND_MEMORY), amounts)
reports = st.fixed_dictionaries({"actuated": resources, "allocated": resources})


@st.composite
def pods(draw: st.DrawFn) -> Object:
    """Draw a pod with up to three containers and three init containers."""
    main: list[Object] = [
        {"name": f"c{place}", "requests": draw(resources)} for place in range(draw(st.integers(1, 3)))
    ]
    init: list[Object] = [
        {"name": f"i{place}", "requests": draw(resources), "sidecar": draw(st.booleans())}
        for place in range(draw(st.integers(0, 3)))
    ]
    named = [str(container["name"]) for container in (*main, *init)]
    return {
        "containers": main,
        "init": init,
        "own": draw(resources),
        "own_report": draw(st.none() | reports),
        "overhead": draw(resources),
        "infeasible": draw(st.booleans()),
        "reports": draw(st.dictionaries(st.sampled_from(named), reports)),
    }


def quantities(found: Resources) -> Object:
    return {name: f"{amount * 250}m" if name == "cpu" else f"{amount}Mi" for name, amount in found.items()}


def raw(pod: Object) -> Object:
    """Write a pod as the API server gives it."""

    def container(one: Object) -> Object:
        sidecar = {"restartPolicy": "Always"} if one.get("sidecar") else {}
        return {"name": one["name"], "resources": {"requests": quantities(one["requests"])}, **sidecar}

    def report(name: str, known: Object) -> Object:
        return {
            "name": name,
            "resources": {"requests": quantities(known["actuated"])},
            "allocatedResources": quantities(known["allocated"]),
        }

    told = {name: report(name, known) for name, known in pod["reports"].items()}
    status: Object = {
        "phase": "Running",
        "containerStatuses": [said for name, said in told.items() if name.startswith("c")],
        "initContainerStatuses": [said for name, said in told.items() if name.startswith("i")],
        "conditions": [{"type": "PodResizePending", "reason": "Infeasible" if pod["infeasible"] else "Deferred"}],
    }
    if pod["own_report"] is not None:
        own = report("", pod["own_report"])
        status |= {"resources": own["resources"], "allocatedResources": own["allocatedResources"]}
    spec = {
        "containers": [container(one) for one in pod["containers"]],
        "initContainers": [container(one) for one in pod["init"]],
        "resources": {"requests": quantities(pod["own"])},
        "overhead": quantities(pod["overhead"]),
    }
    return {"spec": spec, "status": status}


@hypothesis.settings(max_examples=400, deadline=None)
@hypothesis.given(pod=pods())
def test_a_pods_requests_are_those_that_kube_scheduler_counts(pod: Object) -> None:
    written, expected = raw(pod), reference(pod)
    found = podrequests.host_need(written["spec"], written["status"])
    assert found.cpu_millis == 250 * expected.get("cpu", 0)
    assert found.memory_bytes == MIB * expected.get("memory", 0)


def host(raw: Object) -> tuple[int, int]:
    found = records.pod_record(raw).host
    return found.cpu_millis, found.memory_bytes // MIB


def test_overhead_is_added_to_requests_of_the_pod_itself() -> None:
    raw = builders.pod("a", node="n1", resources={"requests": {"cpu": "2"}}, overhead={"cpu": "250m", "memory": "8Mi"})
    assert host(raw) == (2250, 72)


def resized(**status: Any) -> Object:
    """Return a bound pod whose container asks for 100m after a resize, and was allocated 300m before it."""
    raw = builders.pod("a", node="n1")
    report = {"name": "main", "resources": {"requests": {"cpu": "200m"}}, "allocatedResources": {"cpu": "300m"}}
    raw["status"] |= {"containerStatuses": [report], **status}
    return raw


def test_a_container_that_is_being_made_smaller_counts_as_large_as_it_is() -> None:
    assert host(resized())[0] == 300


@pytest.mark.parametrize(("reason", "millis"), [("Deferred", 500), ("Infeasible", 300)])
def test_a_container_that_is_to_grow_counts_larger_unless_its_node_cannot_ever_give_that(
    reason: str, millis: int
) -> None:
    raw = resized(conditions=[{"type": "PodResizePending", "reason": reason}])
    raw["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "500m"
    assert host(raw)[0] == millis
