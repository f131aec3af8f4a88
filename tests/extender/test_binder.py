"""bind: once, whatever happens to requests and replies."""

import asyncio
import copy
import json
from typing import Any

import pytest

from api_server.faults import Chooses, Fault
from cotenant_api import names
from cotenant_extender import fencing
from cotenant_extender.kube import pods, transport
from cotenant_extender.ledger import drift
from extender import builders, running, virtual
from extender.running import until

Object = dict[str, Any]


def unreachable(request: transport.Request) -> Fault | None:
    """Bindings are under way, and nothing else about the pod gets through."""
    if "/binding" in request.path:
        return Fault.LATE
    return Fault.NOT_SENT if request.path.endswith("/pods/a") else None


def faults(*planned: Fault | None) -> Chooses:
    """What happens to the first Bindings, one after another."""
    left = list(planned)

    def fault(request: transport.Request) -> Fault | None:
        return left.pop(0) if left and "/binding" in request.path else None

    return fault


def result(rig: running.Rig, name: str) -> float:
    found = rig.extender.metrics.registry.get_sample_value("cotenant_extender_binds_total", {"result": name})
    return found or 0.0


def booked(rig: running.Rig) -> dict[str, int]:
    nodes = rig.extender.ledger.seen().nodes
    return {gpu.uuid: gpu.share for node in nodes for gpu in node.gpus if gpu.share}


async def with_pod(rig: running.Rig, name: str = "a", share: int = 40) -> None:
    """The extender serves, and a pod is lifted."""
    await rig.serving()
    rig.server.put(pods.PODS, builders.pod(name, share))
    await until(lambda: "schedulingGates" not in rig.server.pod(name)["spec"], "lifted")


@virtual.time
async def test_a_bind_sends_one_binding_with_uid_and_placement() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await with_pod(rig)
        assert await rig.bound("a", "n0") == ""
        assert server.sent("POST", "/a/binding") == 1
        document = json.loads(server.pod("a")["metadata"]["annotations"][names.PLACEMENT])
        assert document == {
            "v": 1,
            "podUID": "uid-a",
            "node": "n0",
            "container": "main",
            "policyGeneration": 1,
            "backend": "MPS",
            "processesPerGPU": 1,
            "gpus": [
                {
                    "uuid": "GPU-n0-0",
                    "share": 40,
                    "activeThreadPercentage": 40,
                    "memoryMiB": 143771 * 95 // 100 * 40 // 100,
                    "clientPriority": 0,
                }
            ],
        }


@virtual.time
async def test_a_repeated_bind_succeeds_without_another_binding() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await with_pod(rig)
        assert [await rig.bound("a", "n0"), await rig.bound("a", "n0")] == ["", ""]
        assert server.sent("POST", "/binding") == 1


@virtual.time
async def test_what_was_placed_is_counted_beside_what_was_predicted() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        notes = {names.PREDICTION: builders.prediction(h200=(40.0, 1000, 40))}
        server.put(pods.PODS, builders.pod("a", 50, gates=(), annotations=notes))
        await until(lambda: "uid-a" in rig.extender.ledger.pods, "seen")
        await rig.serving()
        assert await rig.bound("a", "n0") == ""
        name, registry = "cotenant_extender_placed_share_hundredths_total", rig.extender.metrics.registry
        found = {figure: registry.get_sample_value(name, {"figure": figure}) for figure in ("predicted", "booked")}
        assert found == {"predicted": 20.0, "booked": 50.0}


@virtual.time
async def test_nothing_is_bound_while_the_policy_is_paused() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await with_pod(rig)
        server.put(pods.POLICIES, builders.policy(2, paused=True))
        ledger = rig.extender.ledger
        await until(lambda: ledger.policy is not None and not ledger.policy.places, "paused")
        assert await rig.bound("a", "n0") == "PackingPolicy default is paused: nothing is placed"
        assert server.sent("POST", "/binding") == 0


@virtual.time
async def test_binds_of_one_pod_at_the_same_time_send_one_binding() -> None:
    server = running.server(nodes=2)
    async with running.extender(server) as rig:
        await with_pod(rig)
        answers = await asyncio.gather(rig.bound("a", "n0"), rig.bound("a", "n0"), rig.bound("a", "n1"))
        assert list(answers) == ["", "", "the pod is bound to n0"]
        assert server.sent("POST", "/binding") == 1


@virtual.time
async def test_many_binds_at_the_same_time_fill_a_node_and_no_more() -> None:
    server = running.server(gpus=2)
    for number in range(9):
        server.put(pods.PODS, builders.pod(f"p{number}", 40, gates=()))
    async with running.extender(server) as rig:
        await rig.serving()
        answers = await asyncio.gather(*(rig.bound(f"p{number}", "n0") for number in range(9)))
        assert sum(answer == "" for answer in answers) == 4
        assert booked(rig) == {"GPU-n0-0": 80, "GPU-n0-1": 80}
        assert drift.differences(rig.extender.ledger) == []


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.BROKEN])
def test_a_binding_that_took_effect_although_its_reply_was_lost_is_success(fault: Fault) -> None:
    @virtual.time
    async def run() -> None:
        server = running.server()
        async with running.extender(server) as rig:
            await with_pod(rig)
            server.fault = faults(fault)
            assert await rig.bound("a", "n0") == ""
            assert server.sent("POST", "/binding") == 1
            assert booked(rig) == {"GPU-n0-0": 40}

    run()


@virtual.time
async def test_a_binding_that_was_never_sent_is_sent_again_once_the_pod_is_fenced() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await with_pod(rig)
        server.fault = faults(Fault.NOT_SENT)
        assert await rig.bound("a", "n0") == ""
        assert server.sent("POST", "/binding") == 2
        assert rig.extender.metrics.registry.get_sample_value("cotenant_extender_fences_total") == 1


@virtual.time
async def test_a_binding_that_arrives_after_its_gpu_was_given_to_another_pod_is_refused() -> None:
    server = running.server(nodes=2, gpus=1)
    async with running.extender(server) as rig:
        await with_pod(rig, "a", 90)
        server.fault = unreachable
        binding = asyncio.create_task(rig.bound("a", "n0"))
        await until(lambda: len(server.late) == 1, "under way")
        server.put(pods.GPUNODES, builders.gpunode("n0", gpus=1, gpu={"health": "Unhealthy"}))
        await until(lambda: bool(rig.extender.ledger.seen().nodes[0].gpus[0].closed), "closed")
        server.fault = lambda _: None
        assert await binding == "UnhealthyGPU: 1 GPU is not healthy"
        await until(lambda: "n1" in server.pod("a")["metadata"]["annotations"][names.EARMARK], "earmarked elsewhere")
        server.put(pods.GPUNODES, builders.gpunode("n0", gpus=1))
        await with_pod(rig, "b", 90)
        assert await rig.bound("b", "n0") == ""
        assert [answer.status for answer in server.arrive()] == [409]
        assert booked(rig) == {"GPU-n0-0": 90, "GPU-n1-0": 90}


@virtual.time
async def test_a_pod_that_changed_before_its_binding_came_is_decided_on_anew() -> None:
    server = running.server(nodes=2)
    async with running.extender(server) as rig:
        await with_pod(rig)
        changed = copy.deepcopy(server.pod("a"))
        changed["metadata"]["labels"] = {"seen": "not yet"}
        server.slip(pods.PODS, changed)
        assert await rig.bound("a", "n0") == ""
        assert server.sent("POST", "/binding") == 2


@virtual.time
async def test_a_pod_that_always_changes_is_left_to_kube_scheduler() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await with_pod(rig)

        def changes(request: transport.Request) -> None:
            if "/binding" in request.path:
                server.slip(pods.PODS, copy.deepcopy(server.pod("a")))

        server.fault = changes
        assert await rig.bound("a", "n0") == "the pod changed each time before its Binding came"
        assert rig.extender.ledger.reserved == {}


@virtual.time
async def test_while_a_binding_is_not_resolved_filter_leaves_no_other_node() -> None:
    server = running.server(nodes=2)
    async with running.extender(server) as rig:
        await with_pod(rig)
        server.fault = unreachable
        assert "not known yet" in await rig.bound("a", "n0")
        assert await rig.filtered("a", "n0", "n1") == ["n0"]
        assert await rig.filtered("a", "n1") == []


@virtual.time
async def test_a_reservation_outlives_an_api_server_that_cannot_be_reached_however_long() -> None:
    server = running.server(nodes=2)
    async with running.extender(server) as rig:
        await with_pod(rig)
        server.fault = unreachable
        assert "not known yet" in await rig.bound("a", "n0")
        await asyncio.sleep(600)
        assert booked(rig) == {"GPU-n0-0": 40}
        server.arrive()
        server.fault = lambda _: None
        await until(lambda: not rig.extender.ledger.reserved, "resolved")
        assert booked(rig) == {"GPU-n0-0": 40}
        assert await rig.bound("a", "n0") == ""
        assert server.sent("POST", "/binding") == 1


@virtual.time
async def test_a_binding_that_could_not_be_resolved_is_fenced_when_the_api_server_can_be_reached() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await with_pod(rig)
        server.fault = unreachable
        assert "not known yet" in await rig.bound("a", "n0")
        assert list(rig.extender.ledger.reserved) == ["uid-a"]
        server.fault = lambda _: None
        await until(lambda: not rig.extender.ledger.reserved, "resolved")
        assert [answer.status for answer in server.arrive()] == [409]
        assert await rig.bound("a", "n0") == ""


@virtual.time
async def test_a_binding_whose_pod_cannot_be_read_for_a_moment_is_waited_for() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await with_pod(rig)
        server.fault = unreachable
        binding = asyncio.create_task(rig.bound("a", "n0"))
        await until(lambda: len(server.late) == 1, "under way")
        await asyncio.sleep(fencing.REQUEST_SECONDS + 1.0)
        server.arrive()
        server.fault = lambda _: None
        assert await binding == ""


@virtual.time
async def test_a_binding_that_was_answered_and_is_gone_after_a_restore_is_made_again() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await with_pod(rig)
        server.fault = faults(Fault.ANSWERED)
        assert await rig.bound("a", "n0") == ""
        await until(lambda: not rig.extender.ledger.reserved, "given back")
        assert await rig.bound("a", "n0") == ""
        assert server.pod("a")["spec"]["nodeName"] == "n0"


@virtual.time
async def test_a_pod_that_the_ledger_holds_for_gone_is_not_bound() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await with_pod(rig)
        kept = copy.deepcopy(server.pod("a"))
        server.remove(pods.PODS, "a", "team")
        await until(lambda: "uid-a" not in rig.extender.ledger.pods, "gone")
        server.slip(pods.PODS, kept)
        assert await rig.bound("a", "n0") == "the pod is gone, as far as the ledger knows"
        assert server.sent("POST", "/binding") == 0


@virtual.time
async def test_a_pod_that_is_bound_elsewhere_is_an_error() -> None:
    server = running.server(nodes=2)
    async with running.extender(server) as rig:
        await with_pod(rig)
        server.slip(pods.PODS, builders.bound("a", 40, "n1", "GPU-n1-0"))
        assert await rig.bound("a", "n0") == "the pod is bound to n1"
        assert result(rig, "conflict") == 1


@virtual.time
async def test_a_pod_of_another_uid_is_not_bound() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await with_pod(rig)
        assert await rig.bound("a", "n0", uid="uid-old") == "there is no such pod"
        assert server.sent("POST", "/binding") == 0


@pytest.mark.parametrize("fault", [Fault.NOT_SENT, Fault.BROKEN, Fault.BUSY, Fault.REFUSED])
def test_a_pod_that_is_neither_known_nor_can_be_read_is_refused(fault: Fault) -> None:
    @virtual.time
    async def run() -> None:
        server = running.server()
        async with running.extender(server) as rig:
            await rig.serving()
            server.fault = lambda request: fault if request.path.endswith("/pods/a") else None
            assert (await rig.bound("a", "n0")).startswith("the pod cannot be read: ")
            assert server.sent("POST", "/binding") == 0
            assert rig.extender.ledger.reserved == {}
            assert result(rig, "refused") == 1

    run()


@virtual.time
async def test_a_pod_that_is_gone_is_an_error_and_counts_no_more() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await with_pod(rig)
        server.lose(pods.PODS, "a", "team")
        assert await rig.bound("a", "n0") == "the pod is gone"
        await until(lambda: booked(rig) == {}, "freed, after its GPUNode was read")


@virtual.time
async def test_a_binding_that_the_api_server_refuses_gives_its_gpus_back() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await with_pod(rig)
        server.fault = faults(Fault.REFUSED)
        assert await rig.bound("a", "n0") == "403: denied by a policy"
        assert rig.extender.ledger.reserved == {}


@virtual.time
async def test_a_binding_that_the_api_server_is_too_busy_for_is_left_to_kube_scheduler() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await with_pod(rig)
        server.fault = faults(Fault.BUSY)
        assert await rig.bound("a", "n0") == "429: too many requests"
        assert rig.extender.ledger.reserved == {}


@virtual.time
async def test_a_node_that_no_longer_fits_is_refused_with_the_reason() -> None:
    server = running.server(gpus=1)
    async with running.extender(server) as rig:
        await with_pod(rig)
        sick = builders.gpunode("n0", gpus=1, gpu={"health": "Unhealthy"})
        server.put(pods.GPUNODES, sick)
        await until(lambda: not len(rig.extender.ledger.earmarks), "closed")
        assert await rig.bound("a", "n0") == "UnhealthyGPU: 1 GPU is not healthy"


@virtual.time
async def test_the_gpu_is_chosen_again_on_fresh_state() -> None:
    server = running.server(gpus=2)
    async with running.extender(server) as rig:
        await with_pod(rig)
        value = builders.gpunode("n0", gpus=2)
        value["status"]["gpus"][0]["foreignProcesses"] = 1
        # The queue, which would earmark another GPU, does not come to it.
        vars(rig.extender.leader)["_work"] = lambda: 0.0
        server.put(pods.GPUNODES, value)
        await until(lambda: bool(rig.extender.ledger.seen().nodes[0].gpus[0].closed), "closed")
        assert await rig.bound("a", "n0") == ""
        document = json.loads(server.pod("a")["metadata"]["annotations"][names.PLACEMENT])
        assert document["gpus"][0]["uuid"] == "GPU-n0-1"


@virtual.time
async def test_without_enough_left_of_the_lease_no_binding_is_sent() -> None:
    server = running.server()
    async with running.extender(server) as rig:
        await with_pod(rig)
        rig.holder = ""
        await asyncio.sleep(running.LEASE_SECONDS - 1.2)
        assert rig.extender.serving()
        assert "does not lead" in await rig.bound("a", "n0")
        assert server.sent("POST", "/binding") == 0
        assert rig.extender.ledger.reserved == {}
