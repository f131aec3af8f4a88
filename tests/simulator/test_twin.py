"""The leader in virtual time: the extender's own order and rules, without a cluster."""

from cotenant_api import names, pod
from cotenant_api.names import PodUID
from cotenant_simulator.twin import leader, sites
from simulator import jobs_kit


def made(*, gpus: int = 1, **changed: object) -> leader.Leader:
    nodes = sites.alike(1, gpus=gpus, model=jobs_kit.MODEL, memory_mib=jobs_kit.GPU_MIB)
    return leader.Leader(nodes, jobs_kit.policy(**changed))


def demand(name: str, share: int, *, memory_mib: int | None = 1000) -> pod.Demand:
    return pod.Demand(
        uid=PodUID(name),
        namespace=names.Namespace("a"),
        name=name,
        container="main",
        share=share,
        predicted=None,
        memory_mib=memory_mib,
        gpu_models=frozenset(),
        workload_type=pod.WorkloadType.TRAINING,
        processes_per_gpu=1,
        gang=None,
        queued_since=None,
        minimum_run_seconds=0,
    )


def submit(to: leader.Leader, *given: pod.Demand, now: float = 0.0, **changed: int) -> None:
    for one in given:
        to.submit(one, like=(one.share, one.memory_mib), since=now, now=now, **changed)


def placed(by: leader.Leader, *, now: float = 0.0) -> list[str]:
    return [found.pod_uid for found in by.step(now=now).promised]


def test_larger_shares_go_first() -> None:
    here = made()
    submit(here, demand("small", 20), demand("large", 70), demand("middle", 40))
    assert placed(here) == ["large", "small"]
    assert here.waiting == 1


def test_who_waits_is_placed_when_another_ends() -> None:
    here = made()
    submit(here, demand("first", 70), demand("second", 60))
    assert placed(here) == ["first"]
    here.end(PodUID("first"), now=1.0)
    assert placed(here, now=10) == ["second"]
    assert here.waiting == 0


def test_higher_priority_goes_first() -> None:
    here = made()
    submit(here, demand("large", 70))
    submit(here, demand("urgent", 40), priority=5)
    assert placed(here) == ["urgent"]


def test_names_of_nodes_sort_by_number() -> None:
    nodes = sites.alike(11, gpus=1, model=jobs_kit.MODEL, memory_mib=1)
    assert [node.name for node in nodes] == sorted(node.name for node in nodes)
