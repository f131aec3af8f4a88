"""What a namespace whose writes hang, as behind a webhook that answers nothing, costs the others: next to nothing."""

import asyncio
from typing import Any

from api_server.faults import Fault
from api_server.server import Server
from cotenant_api import names
from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_extender import binder
from cotenant_extender.kube import pods, transport
from cotenant_extender.ledger import earmarks
from cotenant_extender.queue import reporting
from extender import builders, running, virtual
from extender.running import until

SLOW = "slow"
CROWD = 500
NAMES = [f"s{number:03}" for number in range(CROWD)]


def hang(request: transport.Request) -> Fault | None:
    """Whatever is written to a pod of the namespace hangs."""
    return Fault.HANGS if request.method in {"PATCH", "POST"} and f"/namespaces/{SLOW}/" in request.path else None


def lifted(server: Server, name: str) -> bool:
    return "schedulingGates" not in server.pod(name, SLOW if name in NAMES else "team")["spec"]


def reason(server: Server, name: str, namespace: str = "team") -> str:
    """Of the condition that says where a pod is, or why it waits."""
    found = server.pod(name, namespace)["status"].get("conditions", ())
    return next((str(each["reason"]) for each in found if each["type"] == "cotenant.dev/Packed"), "")


def crowd(server: Server, *, share: int, size: int = CROWD, **changes: Any) -> None:
    for number in range(size):
        server.put(pods.PODS, builders.pod(f"s{number:03}", share, namespace=SLOW, **changes))


def promised_by_another() -> dict[str, str]:
    """Annotations of a pod to which a former leader promised a GPU."""
    note = earmarks.Note(node=NodeName("n0"), gpus=(GPUUID("GPU-n0-0"),), leader="former")
    return {names.EARMARK: note.to_json()}


@virtual.time
async def test_who_fits_is_lifted_at_once_while_conditions_of_another_namespace_hang() -> None:
    server = running.server()
    for gpu in ("0", "1"):
        server.put(pods.PODS, builders.bound(f"big{gpu}", 60, "n0", f"GPU-n0-{gpu}", packed="Placed"))
    server.fault = hang
    async with running.extender(server) as rig:
        await rig.serving()
        crowd(server, share=80)
        await asyncio.sleep(20)
        for number in range(2):
            server.put(pods.PODS, builders.pod(f"b{number}", 40))
            await until(lambda name=f"b{number}": lifted(server, name), "lifted", seconds=5)  # type: ignore[misc]
            await asyncio.sleep(60)


@virtual.time
async def test_who_waits_is_told_soon_while_conditions_of_another_namespace_hang() -> None:
    server = running.server(gpus=1)
    server.put(pods.PODS, builders.bound("big", 60, "n0", "GPU-n0-0", packed="Placed"))
    server.fault = hang
    async with running.extender(server) as rig:
        await rig.serving()
        crowd(server, share=80)
        await asyncio.sleep(20)
        server.put(pods.PODS, builders.pod("b", 50))
        await until(lambda: reason(server, "b") != "", "told", seconds=5)


@virtual.time
async def test_lifts_that_hang_leave_room_for_those_of_others_and_end_in_the_end() -> None:
    server = running.server(nodes=26, gpus=8)
    server.fault = hang
    async with running.extender(server) as rig:
        await rig.serving()
        crowd(server, share=60, size=200)
        await asyncio.sleep(2)
        server.put(pods.PODS, builders.pod("b"))
        await until(lambda: lifted(server, "b"), "lifted", seconds=5)
        await asyncio.sleep(600)
        assert rig.extender.ledger.earmarks.untried <= {"uid-b"}, "nobody plays kube-scheduler here"
        server.fault = lambda _: None
        await until(lambda: all(not pod["spec"].get("schedulingGates") for pod in server.all(pods.PODS)), "lifted")


@virtual.time
async def test_a_namespace_whose_conditions_hang_has_few_reports_under_way() -> None:
    server = running.server(nodes=16, gpus=8)
    server.fault = hang
    for number in range(CROWD):
        where, gpu = f"n{number % 16}", f"GPU-n{number % 16}-{number // 16 % 8}"
        server.put(pods.PODS, builders.bound(f"s{number:03}", 10, where, gpu, namespace=SLOW))
    before = len(asyncio.all_tasks())
    async with running.extender(server) as rig:
        await rig.serving()
        await asyncio.sleep(300)
        assert len(asyncio.all_tasks()) - before < CROWD / 2
        server.put(pods.PODS, builders.bound("b", 10, "n0", "GPU-n0-7"))
        await until(lambda: reason(server, "b") == "Placed", "told", seconds=2)


@virtual.time
async def test_a_placed_pod_whose_condition_is_refused_is_told_again_after_a_pause() -> None:
    server = running.server()
    server.put(pods.PODS, builders.bound("a", 40, "n0", "GPU-n0-0"))
    server.fault = lambda request: Fault.REFUSED if request.path.endswith("/pods/a/status") else None
    async with running.extender(server) as rig:
        await rig.serving()
        await asyncio.sleep(60)
        tries = server.sent("PATCH", "/pods/a/status")
        assert 60 / reporting.INTERVAL_SECONDS <= tries <= 60 / reporting.RECHECK_SECONDS + 1


@virtual.time
async def test_who_was_bound_before_its_report_came_to_its_turn_is_not_told_that_it_waits() -> None:
    server = running.server(gpus=1)
    server.put(pods.PODS, builders.bound("big", 60, "n0", "GPU-n0-0", packed="Placed"))
    server.fault = hang
    async with running.extender(server) as rig:
        await rig.serving()
        crowd(server, share=80, size=100)
        await asyncio.sleep(5)
        begun = {path for method, path in server.requests if method == "PATCH" and f"/{SLOW}/" in path}
        for number in range(100):
            server.put(pods.PODS, builders.bound(f"s{number:03}", 1, "n0", "GPU-n0-0", namespace=SLOW))
        late: set[str] = set()

        def note(request: transport.Request) -> None:
            if request.method == "PATCH" and b'"status":"False"' in (request.body or b""):
                late.add(request.path)

        server.fault = note
        names = [f"s{number:03}" for number in range(100)]
        await until(lambda: all(reason(server, name, SLOW) == "Placed" for name in names), "told")
        assert late <= begun


@virtual.time
async def test_a_take_over_waits_seconds_for_a_namespace_whose_writes_hang_however_many_pods_it_has() -> None:
    server = running.server()
    crowd(server, share=10, gates=())
    server.put(pods.PODS, builders.pod("b", gates=()))
    server.fault = hang
    async with running.extender(server) as rig:
        began = running.clock()
        await rig.serving()
        assert running.clock() - began < 8
        unmarked = rig.extender.ledger.earmarks.unmarked
        assert len(unmarked) == CROWD
        assert PodUID("uid-b") not in unmarked


@virtual.time
async def test_a_take_over_waits_seconds_for_many_namespaces_whose_writes_hang() -> None:
    server = running.server()
    for number in range(CROWD):
        server.put(pods.PODS, builders.pod(f"s{number:03}", gates=(), namespace=f"{SLOW}-{number % 20}"))
    server.fault = lambda request: Fault.HANGS if request.method == "PATCH" and f"/{SLOW}-" in request.path else None
    async with running.extender(server) as rig:
        began = running.clock()
        await rig.serving()
        assert running.clock() - began < 20


@virtual.time
async def test_a_take_over_marks_all_pods_of_a_namespace_whose_writes_hung_for_a_moment() -> None:
    server = running.server()
    crowd(server, share=10, gates=())
    server.fault = lambda request: hang(request) if running.clock() < builders.NOW + 1 else None
    async with running.extender(server) as rig:
        await rig.serving()
        assert not rig.extender.ledger.earmarks.unmarked


def odd(request: transport.Request) -> bool:
    """Whether it is of every other pod of the namespace."""
    return bool(hang(request)) and int(request.path.rpartition("s")[2]) % 2 == 1


@virtual.time
async def test_a_take_over_waits_seconds_for_a_namespace_of_which_some_writes_hang() -> None:
    server = running.server()
    crowd(server, share=10, gates=())
    server.fault = lambda request: Fault.HANGS if odd(request) else None
    async with running.extender(server) as rig:
        began = running.clock()
        await rig.serving()
        assert running.clock() - began < 8


@virtual.time
async def test_a_take_over_waits_seconds_for_a_namespace_whose_writes_are_slow() -> None:
    server = running.server()
    crowd(server, share=10, gates=())
    server.fault = lambda request: Fault.SLOW if hang(request) else None
    async with running.extender(server) as rig:
        began = running.clock()
        await rig.serving()
        assert running.clock() - began < 8


@virtual.time
async def test_what_became_of_a_binding_is_found_out_while_pods_of_another_namespace_cannot_be_marked() -> None:
    server = running.server(nodes=16, gpus=8)
    for number in range(100):
        note = earmarks.Note(
            node=NodeName(f"n{number % 16}"), gpus=(GPUUID(f"GPU-n{number % 16}-{number // 16}"),), leader="former"
        )
        raw = builders.pod(f"s{number:03}", gates=(), namespace=SLOW, annotations={names.EARMARK: note.to_json()})
        server.put(pods.PODS, raw)
    server.fault = hang
    async with running.extender(server) as rig:
        await rig.serving()
        assert len(rig.extender.ledger.reserved) == 100
        server.put(pods.PODS, builders.pod("b", gates=()))
        # Unbound, and its Binding may still arrive: it cannot be told before the pod was fenced.
        await until(lambda: PodUID("uid-b") in rig.extender.ledger.pods, "known")
        rig.extender.binder.doubt([PodUID("uid-b")])
        placed = next(iter(rig.extender.ledger.reserved.values()))
        rig.extender.ledger.reserve(PodUID("uid-b"), placed)
        await until(lambda: PodUID("uid-b") not in rig.extender.ledger.reserved, "known", seconds=15)


@virtual.time
async def test_bindings_that_hang_keep_nobody_else_waiting_for_filter_or_for_a_binding() -> None:
    server = running.server(nodes=51, gpus=8)
    server.fault = lambda request: Fault.HANGS if request.path.endswith("/binding") and hang(request) else None
    async with running.extender(server) as rig:
        await rig.serving()
        crowd(server, share=60, size=400)
        promised = rig.extender.ledger.earmarks
        await until(lambda: len(promised) == 400 and all(lifted(server, pod) for pod in NAMES[:400]), "lifted")
        server.put(pods.PODS, builders.pod("b", 60))
        await until(lambda: lifted(server, "b"), "lifted")
        places = {uid: earmark.placed.node for uid, earmark in promised.items()}
        hung = [
            asyncio.ensure_future(rig.bound(name, places[PodUID(f"uid-{name}")], namespace=SLOW))
            for name in NAMES[:400]
        ]
        await asyncio.sleep(1)
        began = running.clock()
        assert await rig.filtered("b", places[PodUID("uid-b")]) == [places[PodUID("uid-b")]]
        assert await rig.bound("b", places[PodUID("uid-b")]) == ""
        assert running.clock() - began < 5
        await asyncio.sleep(5)
        # kube-scheduler comes again with those that were refused.
        hung += [
            asyncio.ensure_future(rig.bound(name, places[PodUID(f"uid-{name}")], namespace=SLOW))
            for name in NAMES[128:400]
        ]
        await asyncio.sleep(0.1)
        began = running.clock()
        assert await rig.filtered("b", places[PodUID("uid-b")]) != []
        assert running.clock() - began < 1
        for task in hung:
            task.cancel()


@virtual.time
async def test_pods_that_cannot_be_marked_have_few_writes_under_way_however_many_are_to_be_bound() -> None:
    server = running.server(nodes=16, gpus=8)
    crowd(server, share=10, size=200, gates=(), annotations=promised_by_another())
    server.fault = hang
    async with running.extender(server) as rig:
        await rig.serving()
        before = server.sent("PATCH", f"/{SLOW}/")
        asked = [asyncio.ensure_future(rig.bound(name, "n0", namespace=SLOW)) for name in NAMES[:200]]
        await asyncio.sleep(0.5)
        assert server.sent("PATCH", f"/{SLOW}/") - before <= binder.FENCES // 2
        assert sum(1 for task in asked if task.done()) >= 100
        assert all("take long" in task.result() for task in asked if task.done())
        for task in asked:
            task.cancel()


@virtual.time
async def test_a_lift_that_fails_in_a_way_that_nobody_thought_of_is_tried_again() -> None:
    server, broken = running.server(), ["once"]

    def breaks(request: transport.Request) -> None:
        if request.method == "PATCH" and request.path.endswith("/pods/b") and broken:
            raise RuntimeError(broken.pop())

    server.fault = breaks
    async with running.extender(server) as rig:
        await rig.serving()
        server.put(pods.PODS, builders.pod("b"))
        await until(lambda: lifted(server, "b"), "lifted", seconds=10)
        assert not broken
