"""`GET /explain`: why pods wait and where they are, in the words of the condition."""

from typing import Any

import orjson

from cotenant_api import names
from cotenant_extender.kube import pods
from extender import builders, running, virtual
from extender.running import until

Object = dict[str, Any]


async def explained(rig: running.Rig, pod: str | None = None) -> list[Object]:
    answer = await rig.extender.explain(pod)
    assert answer is not None
    return list(orjson.loads(answer)["jobs"])


@virtual.time
async def test_it_lists_who_waits_in_order_and_says_what_the_conditions_say() -> None:
    server = running.server(gpus=1)
    server.put(pods.PODS, builders.bound("runs", 80, "n0", "GPU-n0-0"))
    for name, share in {"small": 30, "large": 60}.items():
        server.put(pods.PODS, builders.pod(name, share))
    async with running.extender(server) as rig:
        await rig.serving()
        await until(lambda: "Packed" in str(server.pod("small")["status"]), "told")
        found = await explained(rig)
        assert [(job["pod"], job["position"]) for job in found] == [("large", 1), ("small", 2)]
        told = next(item for item in server.pod("small")["status"]["conditions"] if item["type"] == names.PACKED)
        assert (found[1]["reason"], found[1]["message"]) == (told["reason"], told["message"])
        assert found[1]["message"] == "1 GPU lacks 10 hundredths; 2nd in the queue"


@virtual.time
async def test_one_pod_that_waits_is_told_whom_it_waits_for_and_what_is_held() -> None:
    server = running.server(gpus=1)
    server.put(pods.PODS, builders.bound("low", 80, "n0", "GPU-n0-0"))
    server.put(pods.PODS, builders.pod("high", 60, priority=5))
    async with running.extender(server, tries=True) as rig:
        await rig.serving()
        await until(lambda: "deletionTimestamp" in server.pod("low")["metadata"], "evicted")
        (job,) = await explained(rig, "team/high")
        assert (job["state"], job["victims"], job["heldGPUs"]) == ("Waiting", ["team/low"], ["GPU-n0-0"])


@virtual.time
async def test_one_pod_that_is_placed_says_where_and_beside_whom() -> None:
    server = running.server(gpus=1)
    for name in ("a", "b"):
        server.put(pods.PODS, builders.bound(name, 40, "n0", "GPU-n0-0"))
    server.put(pods.PODS, builders.pod("promised", 10))
    async with running.extender(server) as rig:
        await rig.serving()
        (job,) = await explained(rig, "team/a")
        assert (job["state"], job["reason"], job["placement"]["node"]) == ("Placed", "Placed", "n0")
        assert "team/b" in job["coTenants"]
        await until(lambda: "schedulingGates" not in server.pod("promised")["spec"], "lifted")
        (job,) = await explained(rig, "team/promised")
        assert (job["state"], job["placement"]["gpus"][0]["uuid"]) == ("Promised", "GPU-n0-0")


@virtual.time
async def test_a_pod_that_does_not_exist_is_not_explained() -> None:
    server = running.server(gpus=1)
    server.put(pods.PODS, builders.pod("other", 0, gates=()))
    async with running.extender(server) as rig:
        await rig.serving()
        assert await rig.extender.explain("team/none") is None
        assert await rig.extender.explain("none") is None
        assert await rig.extender.explain("team/other") is None


@virtual.time
async def test_an_unreadable_request_is_explained_without_a_position() -> None:
    server = running.server(gpus=1)
    server.put(pods.PODS, builders.pod("a", annotations={names.GPU_MEMORY: "much"}))
    async with running.extender(server) as rig:
        await rig.serving()
        (job,) = await explained(rig, "team/a")
        assert (job["reason"], job["position"]) == ("InvalidRequest", None)


@virtual.time
async def test_a_pod_of_a_gang_is_told_with_the_gangs_name() -> None:
    server = running.server()
    server.put(pods.PODS, builders.pod("a", annotations=builders.gang("together", 2)))
    async with running.extender(server) as rig:
        await rig.serving()
        await until(lambda: "uid-a" in rig.extender.ledger.pods, "seen")
        found = await explained(rig)
        assert [(job["namespace"], job["gang"]) for job in found] == [("team", "together")]
