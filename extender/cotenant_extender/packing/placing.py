"""Place a pod: the policy's placement chooses among the options, and the choice becomes the placement document."""

from cotenant_api import placement
from cotenant_api.names import HUNDREDTHS
from cotenant_extender.packing import causes, needs, policies, registry, rules, view


def place(
    nodes: view.View, request: view.Request, policy: policies.InForce, *, check_host: bool = True
) -> placement.Placement | causes.Rejection:
    """The placement of a pod, or why there is none. The nodes are without what the pod itself has been given there.

    With `check_host` also what kube-scheduler judges must hold (see `rules.options`).
    """
    found = choose(nodes, request, policy, check_host=check_host)
    return found or rules.rejection(nodes, request, policy, check_host=check_host)


def choose(
    nodes: view.View, request: view.Request, policy: policies.InForce, *, check_host: bool = True
) -> placement.Placement | None:
    """As `place`, without the cost of saying why not."""
    options = rules.options(nodes, request, policy, check_host=check_host)
    option = registry.PLACEMENTS[policy.spec.placement](options)
    return None if option is None else document(option, request, policy)


def document(option: rules.Option, request: view.Request, policy: policies.InForce) -> placement.Placement:
    """The placement document of an option."""
    demand = request.demand
    whole = all(need.share >= HUNDREDTHS for need in option.needs)
    return placement.Placement(
        pod_uid=demand.uid,
        node=option.node.name,
        container=demand.container,
        policy_generation=policy.generation,
        backend=placement.Backend.WHOLE if whole else placement.Backend.MPS,
        processes_per_gpu=demand.processes_per_gpu,
        gpus=tuple(
            placement.GPUBooking(
                uuid=gpu.uuid,
                share=need.share,
                active_thread_percentage=needs.thread_percentage(demand, gpu, need.share, policy),
                memory_mib=need.memory_mib,
                client_priority=needs.client_priority(demand, gpu),
            )
            for gpu, need in zip(option.gpus, option.needs, strict=True)
        ),
    )
