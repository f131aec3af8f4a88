"""What kube-scheduler alone judges on a real control plane: where a volume is, anti-affinity, and host ports.

Two nodes with two GPUs of one model each: l4-0 in zone a, which has room, and l4-1 in zone b, which is full.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from cluster.workloads import CONTAINER, SECONDS, Workspace, pod_object
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e import installation, waiting
from cotenant_e2e.client import Json
from cotenant_e2e.cluster import Cluster
from cotenant_extender import podreports

HIGH = "test-judged-high"
ZONE = "topology.kubernetes.io/zone"
ZONES = {"l4-0": "zone-a", "l4-1": "zone-b"}
L4 = {names.GPU_MODELS: "NVIDIA-L4"}
LONG = L4 | {"demo.cotenant.dev/run-for": "3600s"}
ON_L4 = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": sorted(ZONES)}]}
        ]
    }
}
CLASSES = clients.path_of("priorityclasses", group="scheduling.k8s.io")
VOLUMES = clients.path_of("persistentvolumes")
STORAGE_CLASSES = clients.path_of("storageclasses", group="storage.k8s.io")


@pytest.fixture
def high(workspace: Workspace) -> Iterator[str]:
    """A PriorityClass above the others."""
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": HIGH}, "value": 1000}
    workspace.client.create(CLASSES, body)
    yield HIGH
    workspace.client.delete(clients.path_of("priorityclasses", group="scheduling.k8s.io", name=HIGH))


@pytest.fixture
def zones(workspace: Workspace) -> Iterator[None]:
    """Each of the two nodes is in a zone of its own."""
    for node, zone in ZONES.items():
        workspace.client.patch(clients.path_of("nodes", name=node), {"metadata": {"labels": {ZONE: zone}}})
    yield
    for node in ZONES:
        workspace.client.patch(clients.path_of("nodes", name=node), {"metadata": {"labels": {ZONE: None}}})


def low(workspace: Workspace, name: str, node: str, share: int = 100, **spec: Any) -> None:
    """A pod of priority 0 that runs on a node."""
    selector = {"kubernetes.io/hostname": node}
    raw = pod_object(name, share, nodeSelector=selector, annotations=LONG, **spec)
    raw["metadata"]["labels"] = {"app": name}
    workspace.client.create(workspace.pods(), raw)
    workspace.bound_pod(name)


def fill(workspace: Workspace, node: str) -> list[str]:
    """Pods of priority 0 on both GPUs of a node."""
    made = [f"low-{node}-{number}" for number in range(2)]
    for name in made:
        low(workspace, name, node)
    return made


def with_port(share: int) -> Json:
    """The spec of a container with a host port."""
    ports = [{"containerPort": 80, "hostPort": 31999}]
    return {"containers": [CONTAINER | {"ports": ports, "resources": {"limits": {names.GPU_SHARE: str(share)}}}]}


def staying(workspace: Workspace, among: list[str]) -> list[str]:
    """Which of these pods have not been asked to leave."""
    pods = workspace.client.items(workspace.pods())
    return [one["metadata"]["name"] for one in pods if "deletionTimestamp" not in one["metadata"] and _in(one, among)]


def _in(pod: Json, among: list[str]) -> bool:
    return pod["metadata"]["name"] in among


def elsewhere(workspace: Workspace, name: str, node: str, labels: Json | None = None, **spec: Any) -> None:
    """A pod without a share that is on a node."""
    metadata = {"name": name, "labels": labels or {}}
    body = {"nodeName": node, "containers": [CONTAINER], **spec}
    workspace.client.create(workspace.pods(), {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body})


def apart_from(app: str) -> Json:
    """A required anti-affinity against pods with this label."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def beside_nobody() -> Json:
    """A pod that must be beside one that there is not."""
    term = {"labelSelector": {"matchLabels": {"app": "nobody"}}, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def with_huge_pages() -> Json:
    """A pod that asks for what no node has."""
    amounts = {"hugepages-2Mi": "64Mi", "memory": "64Mi", "cpu": "100m"}
    return {"resources": {"requests": amounts, "limits": amounts}}


@pytest.mark.parametrize("spec", [beside_nobody(), with_huge_pages(), {}], ids=["affinity", "huge pages", "others"])
def test_a_job_that_no_node_can_take_evicts_nobody(
    workspace: Workspace, cluster: Cluster, high: str, spec: Json
) -> None:
    cluster.restart(installation.EXTENDER)
    full = fill(workspace, "l4-0") + fill(workspace, "l4-1")
    for node in ZONES if not spec else ():
        elsewhere(workspace, f"shy-{node}", node, affinity=apart_from("never"))
    raw = pod_object("never", 100, annotations=L4, priorityClassName=high, **spec)
    raw["metadata"]["labels"] = {"app": "never"}
    workspace.client.create(workspace.pods(), raw)

    def is_told() -> bool:
        return "kube-scheduler refused" in workspace.packed("never").get("message", "")

    waiting.wait_until(is_told, "word that no node is accepted", SECONDS)
    assert len(staying(workspace, full)) == len(full)
    # Passes go on meanwhile, and evict for others.
    workspace.pod("high", 100, annotations=L4, priorityClassName=high)
    workspace.bound_pod("high")
    assert len(staying(workspace, full)) == len(full) - 1


def test_a_job_that_kube_scheduler_refused_before_the_extender_restarted_takes_the_place_of_others(
    workspace: Workspace, cluster: Cluster, high: str
) -> None:
    for node in ZONES:
        selector = {"kubernetes.io/hostname": node}
        notes = LONG | {"cotenant.dev/minimum-run-seconds": "30"}
        workspace.pod(f"holder-{node}", 100, nodeSelector=selector, annotations=notes, **with_port(100))
        workspace.bound_pod(f"holder-{node}")
        low(workspace, f"low-{node}", node)
    # When it goes kube-scheduler tries again whom its port kept away; else it does within minutes.
    ports = [{"containerPort": 80, "hostPort": 31999}]
    elsewhere(workspace, "another", "a100-0", containers=[CONTAINER | {"ports": ports}])
    affinity = {"nodeAffinity": ON_L4}
    workspace.pod("high", annotations=L4, priorityClassName=high, affinity=affinity, **with_port(100))

    def says(words: str) -> bool:
        return words in str(workspace.client.get(workspace.pods("high"))["status"])

    waiting.wait_until(lambda: says("free ports"), "kube-scheduler's report", SECONDS)
    cluster.restart(installation.EXTENDER)
    waiting.wait_until(lambda: says(podreports.TAKEN_BACK), "that the report is taken back", SECONDS)
    workspace.client.delete(workspace.pods("another"))
    workspace.bound_pod("high")


@pytest.fixture
def claim(workspace: Workspace, zones: None) -> Iterator[str]:
    """A claim that is bound to a volume of zone b."""
    name = f"{workspace.namespace}-data"
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone-b"]}]}
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": common
        | {
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": "csi.example", "volumeHandle": name},
            "claimRef": {"namespace": workspace.namespace, "name": "data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
    }
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": common | {"volumeName": name, "resources": {"requests": {"storage": "1Gi"}}},
    }
    claims = clients.path_of("persistentvolumeclaims", namespace=workspace.namespace)
    workspace.client.create(VOLUMES, volume)
    workspace.client.create(claims, body)
    yield "data"
    workspace.client.delete(claims)
    workspace.client.delete(clients.path_of("persistentvolumes", name=name))


def test_a_job_whose_volume_is_in_a_full_zone_gets_a_gpu_there(workspace: Workspace, high: str, claim: str) -> None:
    full = fill(workspace, "l4-1")
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    workspace.pod("high", 100, annotations=L4, priorityClassName=high, volumes=volumes)
    assert workspace.bound_pod("high")["spec"]["nodeName"] == "l4-1"
    assert len(staying(workspace, full)) == len(full) - 1


def test_a_claim_that_waits_for_its_first_pod_gets_a_volume_with_it(workspace: Workspace, zones: None) -> None:
    """kube-scheduler writes the claim into the volume, under the account that our admission narrows."""
    client, name = workspace.client, f"{workspace.namespace}-waiting"
    kind = {"metadata": {"name": name}, "provisioner": "kubernetes.io/no-provisioner"}
    client.create(STORAGE_CLASSES, kind | {"volumeBindingMode": "WaitForFirstConsumer"})
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone-b"]}]}
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": name}
    source: Json = {"capacity": {"storage": "1Gi"}, "csi": {"driver": "csi.example", "volumeHandle": name}}
    source["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    client.create(VOLUMES, {"metadata": {"name": name}, "spec": common | source})
    claims = clients.path_of("persistentvolumeclaims", namespace=workspace.namespace)
    request = {"resources": {"requests": {"storage": "1Gi"}}}
    client.create(claims, {"metadata": {"name": "waits"}, "spec": common | request})
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "waits"}}]
    workspace.pod("first", 10, annotations=L4, volumes=volumes)
    assert workspace.bound_pod("first")["spec"]["nodeName"] == "l4-1"
    assert client.get(f"{VOLUMES}/{name}")["spec"]["claimRef"]["name"] == "waits"
    for path in (claims, f"{VOLUMES}/{name}", f"{STORAGE_CLASSES}/{name}"):
        client.delete(path)


def test_a_job_that_may_not_be_beside_another_gets_a_gpu_where_that_is_not(workspace: Workspace, high: str) -> None:
    low(workspace, "noisy", "l4-0", 10)
    elsewhere = ["low-l4-0"]
    low(workspace, elsewhere[0], "l4-0")
    full = fill(workspace, "l4-1")
    term = {"labelSelector": {"matchLabels": {"app": "noisy"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    workspace.pod("high", 90, annotations=L4, priorityClassName=high, affinity=affinity)
    assert workspace.bound_pod("high")["spec"]["nodeName"] == "l4-1"
    assert len(staying(workspace, full)) == len(full) - 1
    assert staying(workspace, [*elsewhere, "noisy"]) == [*elsewhere, "noisy"]


def test_a_job_with_a_host_port_that_is_taken_gets_a_gpu_where_it_is_free(workspace: Workspace, high: str) -> None:
    low(workspace, "server", "l4-0", **with_port(10))
    full = fill(workspace, "l4-1")
    workspace.pod("high", annotations=L4, priorityClassName=high, **with_port(100))
    assert workspace.bound_pod("high")["spec"]["nodeName"] == "l4-1"
    assert len(staying(workspace, full)) == len(full) - 1
    assert staying(workspace, ["server"]) == ["server"]


def test_a_job_takes_the_place_of_one_of_lower_priority_that_has_its_host_port(workspace: Workspace, high: str) -> None:
    others = ["low-0", "low-1"]
    for node, name in zip(ZONES, others, strict=True):
        low(workspace, f"server-{node}", node, **with_port(100))
        low(workspace, name, node)
    workspace.pod("high", annotations=L4, priorityClassName=high, **with_port(100))
    node = workspace.bound_pod("high")["spec"]["nodeName"]
    assert staying(workspace, [f"server-{node}" for node in ZONES]) == [f"server-{one}" for one in ZONES if one != node]
    assert staying(workspace, others) == others


def test_pods_that_must_be_spread_get_gpus_of_both_nodes(workspace: Workspace, high: str) -> None:
    full = fill(workspace, "l4-1")
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
        "nodeTaintsPolicy": "Honor",
    }
    for name in ("one", "two"):
        raw = pod_object(name, 100, annotations=LONG, priorityClassName=high, topologySpreadConstraints=[spread])
        raw["metadata"]["labels"] = {"app": "spread"}
        raw["spec"]["affinity"] = {"nodeAffinity": ON_L4}
        workspace.client.create(workspace.pods(), raw)
    assert {workspace.bound_pod(name)["spec"]["nodeName"] for name in ("one", "two")} == set(ZONES)
    assert len(staying(workspace, full)) == len(full) - 1


def test_a_node_that_a_later_try_refuses_is_refused_although_the_try_before_it_was_not_reported(
    workspace: Workspace, high: str
) -> None:
    full = fill(workspace, "l4-0")
    budgets = clients.path_of("poddisruptionbudgets", group="policy", namespace=workspace.namespace)
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": full}]}
    workspace.client.create(budgets, {"metadata": {"name": "all"}, "spec": {"minAvailable": 2, "selector": selector}})
    there = {"nodeSelector": {"kubernetes.io/hostname": "l4-0"}, "affinity": apart_from("web")}
    workspace.pod("high", 100, annotations=L4, priorityClassName=high, **there)

    def message() -> str:
        return str(workspace.packed("high").get("message", ""))

    waiting.wait_until(lambda: "kept by PodDisruptionBudget" in message(), "kept by the budget", SECONDS)
    # What came to a node makes kube-scheduler try again: its report is the same, and is not written.
    elsewhere(workspace, "noise", "a100-0")
    workspace.bound_pod("noise")
    elsewhere(workspace, "web", "l4-0", labels={"app": "web"})
    waiting.wait_until(lambda: "kube-scheduler refused for the pod" in message(), "refused by anti-affinity", SECONDS)
