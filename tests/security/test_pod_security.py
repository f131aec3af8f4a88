"""What a tenant cannot give the containers of a pod that asks for a share, on every way in; what Pod Security adds."""

from collections.abc import Callable
from typing import Any

import pytest

from cluster.levels import enforce_baseline
from cluster.tenants import Tenant
from cluster.workloads import CONTAINER, Workspace, pod_object
from cotenant_api import names
from cotenant_e2e import client as clients
from cotenant_e2e.client import Json

Refused = Callable[[Callable[[], Any]], str]

OWN_USERS: Json = {"hostUsers": False}
"""Its containers may be root, so that no other rule refuses what they are given."""
HELD: Json = {"schedulingGates": [{"name": "example.org/hold"}], **OWN_USERS}
STRATEGIC = "application/strategic-merge-patch+json"


def capable(*capabilities: str) -> Json:
    return {"securityContext": {"capabilities": {"add": list(capabilities)}}}


def secured(**settings: Any) -> Json:
    return {"securityContext": settings}


def env(value: str) -> Json:
    return {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]}


def host_path(path: str) -> Json:
    return {"volumes": [{"name": "host", "hostPath": {"path": path}}]}


BEYOND_BASELINE = (
    *("AUDIT_CONTROL", "AUDIT_READ", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE", "DAC_READ_SEARCH", "IPC_LOCK"),
    *("IPC_OWNER", "LEASE", "LINUX_IMMUTABLE", "MAC_ADMIN", "MAC_OVERRIDE", "NET_ADMIN", "NET_BROADCAST", "NET_RAW"),
    *("PERFMON", "SYSLOG", "SYS_BOOT", "SYS_MODULE", "SYS_NICE", "SYS_PACCT", "SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME"),
    *("SYS_TTY_CONFIG", "WAKE_ALARM"),
)
"""All that Linux has beside those that the level allows and those below."""
OF_A_CONTAINER: dict[str, tuple[Json, str]] = {
    "privileged": ({"securityContext": {"privileged": True}}, "remove securityContext.privileged"),
    "SYS_ADMIN": (capable("SYS_ADMIN"), "capabilities.add: SYS_ADMIN: "),
    "SYS_PTRACE": (capable("CHOWN", "SYS_PTRACE"), "capabilities.add: CHOWN, SYS_PTRACE: "),
    "MKNOD": (capable("MKNOD"), "capabilities.add: MKNOD: "),
    "ALL": (capable("ALL"), "capabilities.add: ALL: "),
    **{name: (capable(name), f"capabilities.add: {name}: ") for name in BEYOND_BASELINE},
    "every GPU": (env("all"), "env[NVIDIA_VISIBLE_DEVICES]: all: "),
    "a GPU by number": (env("0"), "env[NVIDIA_VISIBLE_DEVICES]: 0: "),
    "to configure MIG": (
        {"env": [{"name": "NVIDIA_MIG_CONFIG_DEVICES", "value": "all"}]},
        "env[NVIDIA_MIG_CONFIG_DEVICES]: all: ",
    ),
    "channels between nodes": (
        {"env": [{"name": "NVIDIA_IMEX_CHANNELS", "value": "0"}]},
        "env[NVIDIA_IMEX_CHANNELS]: 0: ",
    ),
    "no seccomp": (secured(seccompProfile={"type": "Unconfined"}), "securityContext: "),
    "no AppArmor": (secured(appArmorProfile={"type": "Unconfined"}), "securityContext: "),
    "an SELinux type": (secured(seLinuxOptions={"type": "spc_t"}), "securityContext: "),
}
"""What a container may not have, and what the refusal says of it."""
OF_A_POD: dict[str, tuple[Json, str]] = {
    "hostPID": ({"hostPID": True}, "spec.hostPID: true: "),
    "hostIPC": ({"hostIPC": True}, "spec.hostIPC: true: "),
    "hostNetwork": ({"hostNetwork": True}, "spec.hostNetwork: true: "),
    "the folder of MPS": (host_path("/run/cotenant/mps"), "spec.volumes[host].hostPath.path: /run/cotenant/mps: "),
    "a pipe of MPS": (host_path("/run/cotenant/mps/GPU-0/pipe"), "hostPath.path: /run/cotenant/mps/GPU-0/pipe: "),
    "what the agent keeps": (
        host_path("/var/lib/cotenant/node-agent"),
        "hostPath.path: /var/lib/cotenant/node",
    ),
    "devices": (host_path("/dev"), "hostPath.path: /dev: "),
    "a device": (host_path("/dev/nvidia0"), "hostPath.path: /dev/nvidia0: "),
    "a path with doubled slashes": (host_path("//dev///nvidia0/"), "hostPath.path: /dev/nvidia0: "),
    "the folder around ours": (host_path("/var/lib"), "hostPath.path: /var/lib: "),
    "the whole host": (host_path("/"), "hostPath.path: /: "),
    "CDI specifications": (host_path("/var/run/cdi"), "hostPath.path: /var/run/cdi: "),
    "kubelet's sockets": (
        host_path("/var/lib/kubelet/device-plugins"),
        "hostPath.path: /var/lib/kubelet/device",
    ),
    "containerd's socket": (host_path("/run/containerd/containerd.sock"), "hostPath.path: /run/containerd"),
    "no seccomp": ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "spec.securityContext: "),
    "a sysctl": ({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, "spec.securityContext: "),
}
"""What a pod may not have."""


def shared(name: str = "p", *, more: Json | None = None, **spec: Any) -> Json:
    """A pod that asks for a share; `more` is of its container."""
    pod = pod_object(name, **spec)
    pod["spec"]["containers"][0] |= more or {}
    return pod


@pytest.fixture
def debugger(tenant: Tenant) -> Tenant:
    """A tenant who may add ephemeral containers as well, which the role `edit` does not let him."""
    tenant.grant("pods/ephemeralcontainers", "patch")
    return tenant


def attach(tenant: Tenant, name: str, settings: Json) -> Any:
    """Add an ephemeral container to a pod."""
    container = {"name": "debug", "image": "x"} | settings
    path = f"{tenant.workspace.pods(name)}/ephemeralcontainers"
    return tenant.client.patch(path, {"spec": {"ephemeralContainers": [container]}}, content_type=STRATEGIC)


@pytest.mark.parametrize(("settings", "says"), OF_A_CONTAINER.values(), ids=list(OF_A_CONTAINER))
@pytest.mark.parametrize("kind", ["container", "second container", "init container", "sidecar"])
def test_a_tenant_gives_no_container_of_a_share_more(
    tenant: Tenant, refused: Refused, kind: str, settings: Json, says: str
) -> None:
    pod = shared(more=settings if kind == "container" else {}, **OWN_USERS)
    another = {**CONTAINER, "name": "other", **settings}
    if kind == "second container":
        pod["spec"]["containers"].append(another)
    elif kind != "container":
        pod["spec"]["initContainers"] = [another | ({"restartPolicy": "Always"} if kind == "sidecar" else {})]
    message = refused(lambda: tenant.client.create(f"{tenant.workspace.pods()}?dryRun=All", pod))
    assert f"spec.containers[{'main' if kind == 'container' else 'other'}]." in message
    assert says in message
    assert "remove" in message


@pytest.mark.parametrize(("settings", "says"), OF_A_CONTAINER.values(), ids=list(OF_A_CONTAINER))
def test_no_ephemeral_container_has_more_before_the_placement(
    debugger: Tenant, refused: Refused, settings: Json, says: str
) -> None:
    debugger.client.create(debugger.workspace.pods(), shared(**HELD))
    message = refused(lambda: attach(debugger, "p", settings))
    assert "spec.containers[debug]." in message
    assert says in message
    attach(debugger, "p", {})


def test_an_ephemeral_container_that_is_there_already_keeps_no_other_from_coming(
    debugger: Tenant, refused: Refused
) -> None:
    debugger.client.create(debugger.workspace.pods(), shared(**HELD))
    attach(debugger, "p", {})
    attach(debugger, "p", {"name": "second"})
    assert "containers[third]" in refused(lambda: attach(debugger, "p", {"name": "third", **capable("SYS_ADMIN")}))


@pytest.mark.parametrize(("spec", "says"), OF_A_POD.values(), ids=list(OF_A_POD))
def test_a_tenants_pod_with_a_share_reaches_nothing_of_its_host(
    tenant: Tenant, refused: Refused, spec: Json, says: str
) -> None:
    message = refused(lambda: tenant.client.create(f"{tenant.workspace.pods()}?dryRun=All", shared(**spec)))
    assert says in message
    assert "remove " in message or "use a PersistentVolumeClaim" in message


OF_THE_NODE = [
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/crio/crio.sock",
    "/run/k3s/containerd/containerd.sock",
    "/var/lib/containerd",
    "/etc/kubernetes/manifests",
    "/etc/cron.d",
    "/etc",
    "/opt/cni/bin",
    "/usr",
    "/usr/bin",
    "/boot",
    "/root/.ssh",
    "/home/someone",
    "/lib/modules",
    "/tmp",  # noqa: S108 (refused)
    "/tmp/nvidia-mps",  # noqa: S108
    "/var",
    "/var/data",
    "/run/systemd",
    "/mnt",
    "/media",
    "/mnt/stateful_partition",
    "/mnt/stateful_partition/etc",
    "/database",
    "/Data/a",
    "run/cotenant",
]


@pytest.mark.parametrize("path", OF_THE_NODE)
def test_a_tenants_pod_with_a_share_mounts_no_folder_by_which_it_has_the_node(
    tenant: Tenant, refused: Refused, path: str
) -> None:
    pods = f"{tenant.workspace.pods()}?dryRun=All"
    message = refused(lambda: tenant.client.create(pods, shared(**host_path(path))))
    assert (
        f"spec.volumes[host].hostPath.path: /{path.strip('/')}: of a node's folders, who shares a GPU may use"
        in message
    )
    assert "and what is below /media and /mnt; use a PersistentVolumeClaim" in message


@pytest.mark.parametrize(
    "path", ["/data", "/data/imagenet", "/datasets", "/mnt/data", "/raid/a", "/scratch/", "/srv/a"]
)
def test_folders_of_data_may_be_mounted(tenant: Tenant, path: str) -> None:
    tenant.client.create(f"{tenant.workspace.pods()}?dryRun=All", shared(**host_path(path)))


def test_an_apparmor_annotation_is_refused(tenant: Tenant, refused: Refused) -> None:
    key = "container.apparmor.security.beta.kubernetes.io/main"
    pod = shared(annotations={key: "unconfined"})
    message = refused(lambda: tenant.client.create(f"{tenant.workspace.pods()}?dryRun=All", pod))
    assert "spec.containers[main].securityContext: procMount, seccompProfile, appArmorProfile" in message


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"])
@pytest.mark.parametrize("where", ["containers[main]", "containers[side]", "initContainers[sidecar]"])
def test_a_pod_with_a_share_has_no_gpu_besides(tenant: Tenant, refused: Refused, resource: str, where: str) -> None:
    pod, asks = shared(), {resource: "1"}
    more = {**CONTAINER, "resources": {"limits": asks}}
    if where == "containers[main]":
        pod["spec"]["containers"][0]["resources"]["limits"] |= asks
    elif where == "containers[side]":
        pod["spec"]["containers"].append(more | {"name": "side"})
    else:
        pod["spec"]["initContainers"] = [more | {"name": "sidecar", "restartPolicy": "Always"}]
    message = refused(lambda: tenant.client.create(f"{tenant.workspace.pods()}?dryRun=All", pod))
    assert f"spec.{where}.resources.limits[{resource}]: " in message
    assert "remove one of the two" in message


@pytest.mark.parametrize(
    "pod",
    [
        shared(more=env("void")),
        shared(more=env("none")),
        shared(more=capable("NET_BIND_SERVICE", "CHOWN"), **OWN_USERS),
        shared(**host_path("/mnt/data")),
        shared(more={"resources": {"limits": {names.GPU_SHARE: "40", "nvidia.com/rdma_shared_device": "1"}}}),
        shared(more={"ports": [{"containerPort": 80, "hostPort": 80}]}),
        shared(more={"env": [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}]}),
        shared(more={"envFrom": [{"configMapRef": {"name": "settings"}}]}),
    ],
    ids=["void", "none", "capabilities of baseline", "data", "a network device", "a host's port", "driver", "envFrom"],
)
def test_what_harms_nobody_is_accepted(tenant: Tenant, pod: Json) -> None:
    tenant.client.create(f"{tenant.workspace.pods()}?dryRun=All", pod)


def test_a_variable_from_elsewhere_is_refused_as_well(tenant: Tenant, refused: Refused) -> None:
    source = {"configMapKeyRef": {"name": "settings", "key": "gpus"}}
    pod = shared(more={"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": source}]})
    message = refused(lambda: tenant.client.create(f"{tenant.workspace.pods()}?dryRun=All", pod))
    assert "env[NVIDIA_VISIBLE_DEVICES]: from elsewhere: " in message


def test_pods_that_ask_for_no_share_are_not_judged(tenant: Tenant) -> None:
    for more, _ in OF_A_CONTAINER.values():
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{**CONTAINER, **more}]}}
        tenant.client.create(f"{tenant.workspace.pods()}?dryRun=All", pod)
    for spec, _ in OF_A_POD.values():
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [CONTAINER], **spec}}
        tenant.client.create(f"{tenant.workspace.pods()}?dryRun=All", pod)


LET_THROUGH: dict[str, Json] = {
    "a folder of the host": shared(**host_path("/mnt/data")),
    "privileged, no share": {
        "metadata": {"name": "p"},
        "spec": {"containers": [{**CONTAINER, "securityContext": {"privileged": True}}]},
    },
}


@pytest.mark.parametrize("pod", LET_THROUGH.values(), ids=list(LET_THROUGH))
def test_the_level_baseline_refuses_what_our_admission_lets_through(workspace: Workspace, pod: Json) -> None:
    path = f"{workspace.pods()}?dryRun=All"
    workspace.client.create(path, pod)
    enforce_baseline(workspace)
    with pytest.raises(clients.APIError, match="violates PodSecurity"):
        workspace.client.create(path, pod)


def test_a_pod_that_asks_for_a_share_carries_the_label_by_which_policies_select_it(workspace: Workspace) -> None:
    created = workspace.client.create(f"{workspace.pods()}?dryRun=All", shared())
    assert created["metadata"]["labels"] == {names.ASKS_LABEL: "gpu-share"}
