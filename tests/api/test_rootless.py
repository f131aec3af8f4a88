"""What a pod must say so that none of its containers is root of the node."""

from typing import Any

import pytest

from cotenant_api import rootless

PROVEN = rootless.PROVEN
UNCHECKED: tuple[Any, ...] = ({"drop": 5}, {"drop": "ALL"}, {"drop": [{}, None]}, {"add": 5}, {"add": [{}]}, "ALL")
BOUND = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def spec(container: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "train", "securityContext": container}], **fields}


@pytest.mark.parametrize(
    "proven",
    [
        spec(PROVEN),
        spec({"runAsUser": 1000, **BOUND}),
        spec({"runAsUser": 1000, "runAsNonRoot": False, **BOUND}),
        spec(BOUND, securityContext={"runAsNonRoot": True}),
        spec(BOUND, securityContext={"runAsUser": 1000}),
        spec({"runAsUser": 1000, **BOUND}, securityContext={"runAsUser": 0}),
        spec(PROVEN, securityContext={"runAsNonRoot": False}),
        spec(PROVEN | {"capabilities": {"drop": ["NET_RAW", "SETUID"]}}),
        spec(PROVEN | {"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}),
        spec(hostUsers=False),
        spec({"runAsUser": 0}, hostUsers=False),
        spec(PROVEN, initContainers=[{"name": "prepare", "securityContext": {"runAsUser": 0}}]),
    ],
)
def test_a_pod_whose_containers_cannot_be_root_is_proven(proven: dict[str, Any]) -> None:
    assert rootless.fault(proven) is None


@pytest.mark.parametrize(
    ("unproven", "where", "line"),
    [
        (spec(), "spec.containers[train]", "add runAsNonRoot: true"),
        (spec({}), "spec.containers[train]", "add allowPrivilegeEscalation: false"),
        (spec(hostUsers=True), "spec.containers[train]", "set spec.hostUsers: false"),
        (spec({"runAsNonRoot": True}), "spec.containers[train]", "NonRoot; add allowPrivilegeEscalation: false"),
        (spec(PROVEN | {"runAsUser": 0}), "spec.containers[train]", "NonRoot; set runAsUser to another user than 0"),
        (spec(PROVEN | {"runAsNonRoot": False}), "spec.containers[train]", "NonRoot; add runAsNonRoot: true"),
        (spec(PROVEN, securityContext={"runAsUser": 0}), "spec.containers[train]", "set runAsUser to another user"),
        (
            spec({"runAsNonRoot": False, **BOUND}, securityContext={"runAsNonRoot": True}),
            "spec.containers[train]",
            "add runAsNonRoot: true",
        ),
        # A program with file capabilities takes root by this one, in spite of allowPrivilegeEscalation.
        (
            spec({"runAsUser": 1000, "allowPrivilegeEscalation": False}),
            "spec.containers[train]",
            "NonRoot; add capabilities: {drop: [ALL]}",
        ),
        (spec(PROVEN | {"capabilities": {}}), "spec.containers[train]", "add capabilities: {drop: [ALL]}"),
        (spec(PROVEN | {"capabilities": {"drop": ["NET_RAW"]}}), "spec.containers[train]", "drop: [ALL]"),
        # A template may hold what the API server has yet to refuse.
        *(
            (spec(PROVEN | {"capabilities": found}), "spec.containers[train]", "add capabilities: {drop: [ALL]}")
            for found in UNCHECKED
        ),
        *(
            (
                spec(PROVEN | {"capabilities": {"drop": ["ALL"], "add": [name]}}),
                "spec.containers[train]",
                "NonRoot; remove SETUID from capabilities.add",
            )
            for name in ("SETUID", "CAP_SETUID", "setuid", "ALL", "cap_all")
        ),
        # It runs beside the one with the share, which can hand it the socket.
        (
            spec(PROVEN, initContainers=[{"name": "proxy", "restartPolicy": "Always"}]),
            "spec.initContainers[proxy]",
            "add runAsNonRoot: true",
        ),
        (
            spec(PROVEN, ephemeralContainers=[{"name": "shell"}]),
            "spec.ephemeralContainers[shell]",
            "add runAsNonRoot: true",
        ),
    ],
)
def test_what_may_be_root_is_told_with_the_container_and_the_line_to_add(
    unproven: dict[str, Any], where: str, line: str
) -> None:
    told = rootless.fault(unproven)
    assert told is not None
    assert told.startswith(f"{where}.securityContext: may run as root")
    assert line in told


def test_a_template_is_told_with_the_path_where_it_stands() -> None:
    told = rootless.fault(spec(), path="spec.template.spec")
    assert told is not None
    assert told.startswith("spec.template.spec.containers[train].securityContext: ")
    assert told.endswith("or set spec.template.spec.hostUsers: false")


@pytest.mark.parametrize("value", [None, "root", 7, []])
def test_what_is_no_security_context_proves_nothing(value: object) -> None:
    assert rootless.fault({"containers": [{"name": "c", "securityContext": value}], "securityContext": value})
