"""The Service of an inference job on a real control plane: its endpoints, its changes, and names that are taken."""

from collections.abc import Callable
from typing import Any

import pytest

from cluster.workloads import SECONDS, Workspace, template
from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json

Refused = Callable[[Callable[[], Any]], str]

INFERENCE: Json = {"workloadType": "Inference"}
HTTP: Json = {"name": "http", "port": 80, "targetPort": 8000, "appProtocol": "http"}
METRICS: Json = {"name": "metrics", "port": 9090, "targetPort": "metrics", "protocol": "TCP"}


def path_of(workspace: Workspace, name: str = "") -> str:
    return clients.path_of("services", namespace=workspace.namespace, name=name)


def addresses(workspace: Workspace, name: str) -> set[str]:
    """Addresses of the pods that are ready, as the EndpointSlices of a Service list them."""
    path = clients.path_of("endpointslices", group="discovery.k8s.io", namespace=workspace.namespace)
    slices = workspace.client.items(path, labelSelector=f"kubernetes.io/service-name={name}")
    ends = [end for one in slices for end in one.get("endpoints") or ()]
    return {end["addresses"][0] for end in ends if end["conditions"]["ready"]}


def is_ready(pod: Json) -> bool:
    return any(item["type"] == "Ready" and item["status"] == "True" for item in pod["status"].get("conditions", ()))


def give_addresses(workspace: Workspace) -> set[str]:
    """Give each pod an address, as a kubelet does: the simulated ones have none. Those of the pods that are ready."""
    ready = set()
    for number, pod in enumerate(workspace.client.items(workspace.pods()), start=1):
        address = f"10.244.7.{number}"
        status = {"podIP": address, "podIPs": [{"ip": address}]}
        workspace.client.patch(f"{workspace.pods(pod['metadata']['name'])}/status", {"status": status})
        ready |= {address} if is_ready(pod) else set()
    return ready


def ports(workspace: Workspace, name: str) -> list[Json]:
    found: list[Json] = workspace.client.get(path_of(workspace, name))["spec"]["ports"]
    return found


def wait_for_ports(workspace: Workspace, name: str, *numbers: int) -> None:
    waiting.wait_until(lambda: [one["port"] for one in ports(workspace, name)] == [*numbers], f"{numbers}", SECONDS)


def serve(workspace: Workspace, **fields: Any) -> None:
    workspace.dljob("serve", **INFERENCE, model=workspace.graph("graph"), template=template(run_for=""), **fields)


def set_service(workspace: Workspace, service: Json | None) -> None:
    workspace.client.patch(workspace.dljobs("serve"), {"spec": {"service": service}})


def test_a_service_sends_requests_to_the_replicas_that_are_ready_and_goes_when_nobody_asks_for_it(
    workspace: Workspace,
) -> None:
    serve(workspace, replicas=2, service={"ports": [HTTP]})
    workspace.wait_for_phase("serve", Phase.RUNNING)
    workspace.wait_for_condition("serve", "Ready", "True")
    given = give_addresses(workspace)
    assert len(given) == 2
    waiting.wait_until(lambda: addresses(workspace, "serve") == given, "their endpoints", SECONDS)
    name = workspace.client.items(workspace.pods())[0]["metadata"]["name"]
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    workspace.client.patch(f"{workspace.pods(name)}/status", unready)
    waiting.wait_until(lambda: len(addresses(workspace, "serve")) < 2, "one endpoint less", SECONDS)
    found = workspace.client.get(path_of(workspace, "serve"))
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == (
        "DLJob",
        workspace.client.get(workspace.dljobs("serve"))["metadata"]["uid"],
    )
    assert found["spec"]["clusterIP"] != "None"
    set_service(workspace, None)
    waiting.wait_until(lambda: workspace.client.find(path_of(workspace, "serve")) is None, "no Service", SECONDS)
    assert workspace.phase("serve") == Phase.RUNNING


def test_a_service_follows_its_dljob_and_keeps_what_others_write(workspace: Workspace) -> None:
    serve(workspace, service={"ports": [HTTP]})
    workspace.wait_for_phase("serve", Phase.RUNNING)
    waiting.wait_until(lambda: workspace.client.find(path_of(workspace, "serve")), "a Service", SECONDS)
    deployment = clients.path_of("deployments", group="apps", namespace=workspace.namespace, name="serve")
    template_before = workspace.client.get(deployment)["spec"]["template"]
    theirs = {"metadata": {"annotations": {"example.com/theirs": "1"}}, "spec": {"type": "NodePort"}}
    before = workspace.client.patch(path_of(workspace, "serve"), theirs)
    set_service(workspace, {"ports": [HTTP, METRICS]})
    wait_for_ports(workspace, "serve", 80, 9090)
    after = workspace.client.get(path_of(workspace, "serve"))
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["annotations"]["example.com/theirs"] == "1"
    assert (after["spec"]["type"], after["spec"]["clusterIP"]) == ("NodePort", before["spec"]["clusterIP"])
    assert after["spec"]["ports"][0]["nodePort"] == before["spec"]["ports"][0]["nodePort"]
    # Who changes what is the DLJob's has it put right.
    selector = {"spec": {"selector": {"app": "theirs"}, "ports": [{"port": 81}]}}
    workspace.client.patch(path_of(workspace, "serve"), selector)
    wait_for_ports(workspace, "serve", 80, 9090)
    assert workspace.client.get(path_of(workspace, "serve"))["spec"]["selector"] == before["spec"]["selector"]
    workspace.client.delete(path_of(workspace, "serve"))
    waiting.wait_until(lambda: workspace.client.find(path_of(workspace, "serve")), "the Service again", SECONDS)
    set_service(workspace, {"name": "chat", "ports": [HTTP]})
    waiting.wait_until(lambda: workspace.client.find(path_of(workspace, "serve")) is None, "no former one", SECONDS)
    wait_for_ports(workspace, "chat", 80)
    assert workspace.client.get(deployment)["spec"]["template"] == template_before


def test_a_name_that_is_taken_is_told_and_left_alone(workspace: Workspace) -> None:
    theirs = {"metadata": {"name": "serve"}, "spec": {"selector": {"app": "theirs"}, "ports": [{"port": 1}]}}
    workspace.client.create(path_of(workspace), theirs)
    serve(workspace, service={"ports": [HTTP]})
    workspace.wait_for_phase("serve", Phase.RUNNING)
    workspace.wait_for_condition("serve", "Stalled", "True", "NameTaken")
    workspace.wait_for_condition("serve", "Ready", "False", "NameTaken")
    workspace.wait_for_message("serve", "Ready", "delete it, or set another spec.service.name")
    assert workspace.client.get(path_of(workspace, "serve"))["spec"]["selector"] == {"app": "theirs"}
    set_service(workspace, {"name": "mine", "ports": [HTTP]})
    workspace.wait_for_condition("serve", "Ready", "True")
    wait_for_ports(workspace, "mine", 80)


def of(*given: Json, **fields: Any) -> Json:
    return INFERENCE | {"service": {"ports": list(given), **fields}}


REFUSED: dict[str, tuple[Json, str, str]] = {
    "training": ({"service": {"ports": [HTTP]}}, "spec.service", "set workloadType: Inference"),
    "no ports": (INFERENCE | {"service": {}}, "spec.service.ports", "Required value"),
    "none": (of(), "spec.service.ports", "at least 1"),
    "a name of a host": (of(HTTP, name="a.b"), "spec.service.name", "with a letter first"),
    "port 0": (of({"port": 0}), "spec.service.ports[0].port", "greater than or equal to 1"),
    "ports without names": (of(HTTP, {"port": 81}), "spec.service.ports", "must each have a name"),
    "two of a name": (of(HTTP, {**HTTP, "port": 81}), "spec.service.ports", "rename one of them"),
    "twice": (of(HTTP, {**HTTP, "name": "b"}), "spec.service.ports[1]", "Duplicate value"),
    "a name of a port": (of({"port": 1, "name": "A"}), "spec.service.ports[0].name", "lower case letters"),
    "target 0": (of({"port": 1, "targetPort": 0}), "spec.service.ports[0].targetPort", "1 to 65535"),
    "target as text": (of({"port": 1, "targetPort": "80"}), "spec.service.ports[0].targetPort", "a letter among them"),
    "a long target": (of({"port": 1, "targetPort": "a" * 16}), "spec.service.ports[0].targetPort", "at most 15"),
    "protocol": (of({"port": 1, "protocol": "HTTP"}), "spec.service.ports[0].protocol", '"TCP", "UDP", "SCTP"'),
    "application": (of({"port": 1, "appProtocol": "a b"}), "spec.service.ports[0].appProtocol", "kubernetes.io/h2c"),
}


@pytest.mark.parametrize(("spec", "path", "remedy"), REFUSED.values(), ids=list(REFUSED))
def test_what_the_api_server_would_refuse_of_the_service_is_refused_of_the_dljob(
    workspace: Workspace, refused: Refused, spec: Json, path: str, remedy: str
) -> None:
    message = refused(lambda: workspace.dljob("bad", **spec))
    assert f"{path}: " in message
    assert remedy in message


@pytest.mark.parametrize("name", ["7b", "chat.v2"])
def test_a_dljob_whose_name_no_service_can_have_names_one(workspace: Workspace, refused: Refused, name: str) -> None:
    message = refused(lambda: workspace.dljob(name, **of(HTTP)))
    assert "write another name into spec.service.name" in message
    workspace.dljob(name, **of(HTTP, name="chat"), suspend=True)
    wait_for_ports_of_new(workspace)


def wait_for_ports_of_new(workspace: Workspace) -> None:
    waiting.wait_until(lambda: workspace.client.find(path_of(workspace, "chat")), "a Service", SECONDS)
    assert ports(workspace, "chat")[0]["targetPort"] == 8000


EVERYTHING: Json = {
    "ports": [
        {"name": "a", "port": 53, "protocol": "UDP", "targetPort": "dns-udp"},
        {"name": "b", "port": 53, "protocol": "TCP", "targetPort": 5353},
        {"name": "c", "port": 65535, "protocol": "SCTP"},
        {"name": "1", "port": 2, "appProtocol": "kubernetes.io/h2c"},
        {"name": "e", "port": 3, "appProtocol": "example.com/My_Own.Protocol"},
    ]
}


def test_what_admission_takes_the_api_server_takes_of_the_service(workspace: Workspace) -> None:
    workspace.dljob("every", **INFERENCE, service=EVERYTHING, suspend=True)
    waiting.wait_until(lambda: workspace.client.find(path_of(workspace, "every")), "a Service", SECONDS)
    assert [one["name"] for one in ports(workspace, "every")] == [one["name"] for one in EVERYTHING["ports"]]
    labels = workspace.client.get(path_of(workspace, "every"))["metadata"]["labels"]
    assert labels[names.DLJOB_LABEL] == "every"
