"""What may not start does not: a placement for another pod, a GPU that is lost, a runtime that ignores CDI."""

import json

from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import installation, waiting
from cotenant_e2e.node import real
from cotenant_e2e.node.agents import GPUs
from node import tenants as kit
from node.tenants import Tenants

SHARES = 400


def bind_by_hand(tenants: Tenants, name: str, placement: dict[str, object]) -> None:
    """As the extender would, with its account: nobody else may."""
    token = tenants.cluster.token(names.RELEASE_NAMESPACE, names.SCHEDULER_ACCOUNT)
    extender = tenants.cluster.client_for_token(token)
    pod = tenants.pod(name)
    extender.patch(tenants.pods(name), {"spec": {"schedulingGates": []}})
    target = {"apiVersion": "v1", "kind": "Node", "name": tenants.gpus.node.name}
    metadata = {"name": name, "uid": pod["metadata"]["uid"], "annotations": {names.PLACEMENT: json.dumps(placement)}}
    extender.create(
        f"{tenants.pods(name)}/binding",
        {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target},
    )


def placement_for(tenants: Tenants, uid: str) -> dict[str, object]:
    gpu = {"uuid": tenants.gpus.state.gpu(0).uuid, "share": 30, "activeThreadPercentage": 30, "memoryMiB": 1024}
    return {
        "v": 1,
        "podUID": uid,
        "node": tenants.gpus.node.name,
        "container": "main",
        "policyGeneration": 1,
        "backend": "MPS",
        "gpus": [gpu],
    }


def test_a_placement_for_another_pod_is_refused_for_good_and_the_user_is_told(tenants: Tenants) -> None:
    with tenants.cluster.paused(installation.EXTENDER):
        tenants.create("other")
        bind_by_hand(tenants, "other", placement_for(tenants, "00000000-0000-0000-0000-000000000000"))
        pod = tenants.wait("other", "refused", tenants.refusal)
        assert tenants.logs(pod) == []
        what = "the refusal in the pod's events"
        waiting.wait_until(lambda: any("PreStart" in each for each in tenants.events("other")), what, kit.SECONDS)


def test_a_lost_gpu_takes_no_new_tenant_and_the_others_do(tenants: Tenants) -> None:
    gpus = tenants.gpus
    tenants.create("holds")
    uuid = held_by(tenants, "holds")
    lost = gpus.state.by_uuid(uuid)
    lost.lose()
    try:
        what = "the GPU is closed"
        waiting.wait_until(lambda: gpus.gpu(lost.index)["health"] != "Healthy", what, kit.SECONDS)
        waiting.wait_until(lambda: gpus.node.allocatable(names.GPU_SHARE) == SHARES - 70, "tokens", kit.SECONDS)
        tenants.create("next")
        assert held_by(tenants, "next") != uuid
        tenants.delete("holds")
        waiting.wait_until(lambda: gpus.node.allocatable(names.GPU_SHARE) == SHARES - 100, "tokens", kit.SECONDS)
    finally:
        lost.restore()
        gpus.forget_health()
    gpus.wait_until_offered(SHARES)


def held_by(tenants: Tenants, name: str) -> str:
    booked = kit.placement_of(tenants.running(name))
    assert booked
    return str(booked.gpus[0].uuid)


def test_a_runtime_that_ignores_cdi_gets_no_shares(tenants: Tenants) -> None:
    gpus = tenants.gpus
    gpus.shut_down()
    old = GPUs(gpus.node.with_runtime(real.debian_containerd()), gpus.metrics_port)
    try:
        old.boot()
        waiting.wait_until(lambda: old.ready() == ("False", "NoCDI"), "NoCDI", kit.SECONDS)
        waiting.wait_until(lambda: old.node.allocatable(names.GPU_SHARE) == 0, "no shares", kit.SECONDS)
        tenants.create("waits")
        packed = tenants.wait("waits", "told why", lambda pod: clients.is_false(pod, names.PACKED))
        assert "nodeName" not in packed["spec"]
    finally:
        old.shut_down()
        gpus.node.with_runtime()
        gpus.boot()
        gpus.wait_until_offered(SHARES)
