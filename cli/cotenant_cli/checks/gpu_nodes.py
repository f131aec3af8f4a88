"""Whether each labelled node has an agent that is ready, and GPUs that take placements. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant_api import findings, gpunode, names
from cotenant_cli.reading import kinds, objects
from cotenant_cli.reading.installation import Installation

Object = Mapping[str, Any]
READS: Final = (kinds.NODES, kinds.GPUNODES)
_LABEL: Final = f"{names.GPU_NODE_LABEL}=true"
_LOCAL: Final = "run `cotenant node-doctor` in the node's cotenant-node-agent pod"
_REMEDIES: Final = {
    "DriverMissing": f"install NVIDIA's driver, 570 or newer, on the node, or start it again; then {_LOCAL}",
    "DriverTooOld": "install NVIDIA's driver, 570 or newer, on the node: MPS clients of an older one do not work in "
    "containers",
    "ForeignDevicePlugin": "see the finding of device-plugins",
    "NoCDI": f"the container runtime must resolve CDI names, and NVIDIA's toolkit write its specification "
    f"(nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml); {_LOCAL}",
    "KubeletUnreachable": "systemctl status kubelet on the node; the agent needs /var/lib/kubelet/device-plugins",
}


def examine(seen: Installation) -> Iterator[findings.Finding]:
    """Yield a finding for each node that is not well, and one for all that are."""
    agents = {node.name: node for node in map(objects.node_of, seen.of(kinds.GPUNODES))}
    labelled = {node["metadata"]["name"]: node for node in seen.of(kinds.NODES) if kinds.is_labelled(node)}
    if not labelled:
        remedy = f"kubectl label node NODE {_LABEL}, for each node whose GPUs are to be shared"
        yield findings.warning("cluster", f"no node is labelled {_LABEL}", remedy)
    well = []
    for name, node in sorted(labelled.items()):
        ill = list(_of_node(node, agents.get(name), seen.namespace))
        yield from ill
        if not ill:
            well.append(name)
    for name in sorted(agents.keys() - {node["metadata"]["name"] for node in seen.of(kinds.NODES)}):
        yield findings.warning(f"GPUNode/{name}", "there is no such node any more", f"kubectl delete gpunode {name}")
    if well:
        yield findings.ok("cluster", f"{len(well)} of {len(labelled)} GPU nodes are ready")


def _of_node(node: Object, agent: objects.Node | None, namespace: str) -> Iterator[findings.Finding]:
    where = f"Node/{node['metadata']['name']}"
    if agent is None:
        remedy = f"kubectl -n {namespace} get pods -l {kinds.COMPONENT}={names.NODE_AGENT_ACCOUNT} -o wide"
        yield findings.error(where, "is labelled, and no agent tells of its GPUs", remedy)
        return
    if agent.unread is not None:
        yield findings.error(where, f"its GPUNode cannot be read: {agent.unread}", "see the finding of crds")
        return
    ready = agent.ready
    if ready is None or ready.status != "True":
        reason, message = (
            ("NoCondition", "its agent has said nothing") if ready is None else (ready.reason, ready.message)
        )
        yield findings.error(where, f"{reason}: {message}", _REMEDIES.get(reason, _LOCAL))
    elif any(one.get("key") == names.STARTUP_TAINT for one in (node.get("spec") or {}).get("taints") or ()):
        remedy = f"kubectl taint node {node['metadata']['name']} {names.STARTUP_TAINT}-"
        yield findings.warning(where, f"its agent is ready, and the taint {names.STARTUP_TAINT} is still there", remedy)
    for gpu in agent.status.gpus:
        if gpu.mode is gpunode.Mode.SHARED and gpu.health in (gpunode.Health.UNHEALTHY, gpunode.Health.SUSPECT):
            level = findings.error if gpu.health is gpunode.Health.UNHEALTHY else findings.warning
            remedy = f"cotenant node show {agent.name}; {_LOCAL}"
            yield level(f"{where}/GPU-{gpu.index}", f"is {gpu.health}: {gpu.reason or 'no reason'}", remedy)
    if agent.status.gpus == () and ready is not None and ready.status == "True":
        yield findings.error(where, "its agent lists no GPU", _LOCAL)
