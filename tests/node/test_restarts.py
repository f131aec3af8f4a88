"""kubelet, the agent and the whole node end and come back: what runs goes on, what starts has its own limits."""

from functools import partial

import pytest

from cotenant_api import names
from cotenant_e2e import components, processes, waiting
from cotenant_e2e.client import Json
from cotenant_e2e.node import agents
from node import tenants as kit
from node.tenants import Allocation, Tenants

SHARES = 400


def container_of(pod: dict[str, object]) -> object:
    status = pod["status"]
    assert isinstance(status, dict)
    (container,) = status["containerStatuses"]
    return container["containerID"], container["restartCount"]


def test_kubelet_restarted_disturbs_no_tenant_and_serves_the_next(tenants: Tenants) -> None:
    tenants.create("before")
    before = container_of(tenants.running("before"))
    tenants.gpus.node.restart_kubelet()
    tenants.gpus.wait_until_offered(SHARES)
    tenants.create("after")
    tenants.running("after")
    assert container_of(tenants.pod("before")) == before


def specified(allocation: Allocation) -> bool:
    return allocation.specification.exists()


@pytest.mark.parametrize("seen", ["allocated", "granted"])
def test_an_agent_killed_in_the_middle_of_a_start_ends_in_the_right_limits(tenants: Tenants, seen: str) -> None:
    """`allocated`: between Allocate and PreStartContainer; `granted`: between PreStartContainer and the start."""
    known = tenants.ledger()
    tenants.create("killed", annotations={names.GPU_MEMORY: "3Gi"})
    over = tenants.recorded if seen == "allocated" else specified
    allocation = tenants.next_allocation(known, over)
    tenants.cluster.kill(agents.AGENT)
    left = next(each for each in tenants.ledger() if each.nonce == allocation.nonce)
    assert (left.pod_uid is None) == (seen == "allocated")
    assert tenants.shown(tenants.pod("killed")) is None
    tenants.cluster.restart(agents.AGENT)
    shown = tenants.shown(tenants.running("killed"))
    assert shown
    assert shown.environment[kit.MEMORY] == "0=3072M"


def test_an_agent_killed_inside_allocate_costs_a_pod_and_no_token(tenants: Tenants) -> None:
    """The ledger is on disk, the answer was not sent: kubelet fails that pod for good, and its Job makes another."""
    # Else what hangs may be the end of an earlier test's pod, which is written down, too.
    waiting.wait_until(lambda: not any(each.pod_uid for each in tenants.ledger()), "no grants", kit.SECONDS)
    known = tenants.ledger()
    with tenants.gpus.disk_that_hangs():
        tenants.create_job("killed", script=kit.RUN, annotations={names.GPU_MEMORY: "3Gi"})
        allocation = tenants.next_allocation(known, lambda _: True)
        assert not tenants.recorded(allocation)
        tenants.cluster.kill(agents.AGENT)
    tenants.gpus.wait_until_offered(SHARES)
    what = "a second pod of the Job"
    first, second = waiting.wait_until(lambda: of_two(tenants.of_job("killed")), what, kit.SECONDS)
    assert (first["status"]["phase"], first["status"]["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert not allocation.specification.exists()
    shown = tenants.shown(tenants.succeeded(second["metadata"]["name"]))
    assert shown
    assert shown.environment[kit.MEMORY] == "0=3072M"
    assert tenants.logs(first) == []
    for number in range(SHARES // names.HUNDREDTHS):
        tenants.create(f"all-{number}", names.HUNDREDTHS)
    for number in range(SHARES // names.HUNDREDTHS):
        tenants.running(f"all-{number}")


def of_two(pods: list[Json]) -> list[Json]:
    """Both pods of a Job that has had two; nothing before."""
    return pods if len(pods) == 2 else []


def test_an_agent_upgraded_and_killed_is_noticed_by_no_client(tenants: Tenants) -> None:
    members = [f"client-{number}" for number in range(3)]
    for name in members:
        tenants.create(name)
    before = {name: container_of(tenants.running(name)) for name in members}
    clients = tenants.gpus.clients()
    assert len(clients) == len(members)
    for end in (processes.Process.stop, processes.Process.kill):
        end(tenants.cluster.process(agents.AGENT))
        tenants.cluster.restart(agents.AGENT)
        tenants.gpus.wait_until_offered(SHARES)
    assert tenants.gpus.clients() == clients
    assert {name: container_of(tenants.pod(name)) for name in members} == before
    listed = {each["podUID"] for gpu in tenants.gpus.status()["gpus"] for each in gpu["tenants"]}
    assert {tenants.pod(name)["metadata"]["uid"] for name in members} <= listed


def test_after_a_reboot_every_tenant_runs_with_its_own_limits_or_not_at_all(tenants: Tenants) -> None:
    for number in range(3):
        annotations = {names.GPU_MEMORY: f"{number + 1}Gi"}
        tenants.create(f"boot-{number}", annotations=annotations, restartPolicy="Always")
    before = {f"boot-{number}": container_of(tenants.running(f"boot-{number}")) for number in range(3)}
    tenants.gpus.shut_down()
    tenants.gpus.boot()
    tenants.gpus.wait_until_offered(SHARES)
    for number, (name, container) in enumerate(before.items()):
        pod = tenants.wait(name, "settled", partial(settled, tenants, old=container))
        if pod["status"]["phase"] == "Running":
            shown = tenants.shown(pod)
            assert shown
            assert shown.environment[kit.MEMORY] == f"0={(number + 1) * 1024}M"


def settled(tenants: Tenants, pod: dict[str, object], *, old: object) -> bool:
    """Whether a pod runs again, or never will."""
    status = pod["status"]
    assert isinstance(status, dict)
    if status["phase"] == "Failed":
        return True
    running = any("running" in container["state"] for container in status.get("containerStatuses") or ())
    return running and container_of(pod) != old and tenants.shown(pod) is not None


def test_without_the_api_server_no_container_starts_and_then_it_does(tenants: Tenants) -> None:
    known = tenants.ledger()
    tenants.create("unread", annotations={names.GPU_MEMORY: "3Gi"})
    allocation = tenants.next_allocation(known, lambda _: True)
    failures = tenants.gpus.calls("PreStartContainer", "UNAVAILABLE")
    with tenants.cluster.paused(components.API_SERVER):
        what = "PreStartContainer refused"
        waiting.wait_until(lambda: tenants.gpus.calls("PreStartContainer", "UNAVAILABLE") > failures, what, kit.SECONDS)
        assert not allocation.specification.exists()
    shown = tenants.shown(tenants.running("unread"))
    assert shown
    assert shown.environment[kit.MEMORY] == "0=3072M"
