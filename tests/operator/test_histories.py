"""Random histories: whatever happens in whatever order, the operator keeps its promises and settles.

Watch events come twice, late or not at all; requests fail before or after they took effect; the process dies at
any request; users, controllers and the clock do what they like. Checked after every step: never two attempts
alive, nothing starts again after the end, no field written more than five times in a minute. Checked at the end, when
the faults stop: everything has settled.
"""

import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cotenant_operator import labels
from operator_kit import contenders, faults, objects, quotas, releases, steps
from operator_kit.server import Fault

Json = dict[str, Any]

LIFE = ("create_pods", "place", "run_pods", "fail", "create_pods", "place", "run_pods", "succeed")
PODS = ("create_pods", "stop_suspended", "roll_out", "place", "run_pods", "succeed", "fail", "reap")
COUNTS = ("count_pods", "count_quota")
PROGRAMS = (*PODS, *COUNTS)
NEIGHBOURS = ("admit", "hold", "autoscale")
LABELS = ("take_labels", "put_labels", "surge", "retire")
ENDS = (
    "hinder",
    "crash",
    "never_start",
    "run_out_of_memory",
    "kill_for_host_memory",
    "fault",
    "fault_of_unknown_cause",
    "evict",
    "disrupt",
    "remove_pods",
    "finish_work",
    "leave",
    "drain_ended",
    "enforce_deadlines",
    "lead",
    "delete_others",
    "judge",
    "conclude",
)
START = {"startTimeoutSeconds": 300}
TRAINING = ("train", "gang", "led")
JOBS = (*TRAINING, "serve")
LED: Json = {"replicas": 2, "backoffLimit": 2, "successPolicy": {"rules": [{"succeededIndexes": "0"}]}}
"""A gang that has succeeded when its first member has."""
MEMORY = ("outgrow", "evict_servers", "use_more", "overuse")
STEPS = st.one_of(
    st.sampled_from(PROGRAMS).map(lambda name: ("program", name)),
    st.sampled_from(ENDS).map(lambda name: ("program", name)),
    st.sampled_from(MEMORY).map(lambda name: ("program", name)),
    st.sampled_from(LABELS).map(lambda name: ("program", name)),
    st.sampled_from(NEIGHBOURS).map(lambda name: ("program", name)),
    st.tuples(st.sampled_from(JOBS), st.sampled_from(("a", "b", None))).map(lambda part: ("queue", part)),
    st.sampled_from(JOBS).map(lambda name: ("suspend", name)),
    st.sampled_from(JOBS).map(lambda name: ("resume", name)),
    st.sampled_from(JOBS).map(lambda name: ("touch", name)),
    st.tuples(st.sampled_from(JOBS), st.sampled_from(("a", "b", "c"))).map(lambda part: ("edit", part)),
    st.sampled_from(("train-1", "gang-1", "gang-2", "led-1")).map(lambda name: ("delete job", name)),
    st.sampled_from(("Exclusive", "Hold", "Profile")).map(lambda choice: ("policy", choice)),
    st.booleans().map(lambda present: ("graph", present)),
    st.sampled_from(("0", "30", "100", "250")).map(lambda share: ("quota", share)),
    st.sampled_from(((80, "serve"), (81, "serve"), (80, "other"), None)).map(lambda asked: ("service", asked)),
    st.sampled_from(("serve", "other")).map(lambda name: ("spoil service", name)),
    st.just(("go on", None)),
    st.just(("upgrade", None)),
    st.just(("preempt", None)),
    st.tuples(st.sampled_from(sorted(contenders.WRITERS)), st.sampled_from((4, 15, 70))).map(
        lambda part: ("contend", part)
    ),
    steps.STEPS,
    steps.LATE,
)


class History(steps.Befallen):
    """One history: a cluster, the faults to come, and what must never change again.

    Attributes:
        unseen: whether a late request has arrived since the operator last saw everything.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unseen = False
        self.ended: dict[str, str] = {}
        self.outgrown = 0
        self.shortage: Json = {}

    async def begin(self) -> None:
        """Four DLJobs and what they need."""
        self.cluster.apply(objects.policy(memoryOveruse="Evict", queue=START), plural="packingpolicies")
        self.cluster.apply(objects.gpu_node(), plural="gpunodes")
        self.cluster.apply(objects.config_map(), plural="configmaps")
        self.cluster.apply(objects.dljob("train"))
        self.cluster.apply(objects.dljob("gang", replicas=2, backoffLimit=2))
        self.cluster.apply(objects.dljob("led", **LED))
        self.cluster.apply(objects.dljob("serve", workloadType="Inference"))
        await self.cluster.start()

    async def step(self, kind: str, value: Any) -> None:
        """One thing that happens."""
        cluster = self.cluster
        if kind == "program":
            getattr(cluster, value)()
            self.outgrown += value in ("outgrow", "evict_servers")
        elif kind == "go on":
            await cluster.run("create_pods", "place", "run_pods")
        elif kind in ("suspend", "resume", "touch", "edit"):
            self._edit(*self._edited(kind, value))
        elif kind == "service":
            self._ask_for_service(value)
        elif kind == "spoil service":
            self._spoil_service(value)
        elif kind == "delete job":
            cluster.server.delete("jobs", value)
        else:
            await self._around(kind, value)

    async def _around(self, kind: str, value: Any) -> None:
        """What befalls a DLJob from around it, or the operator."""
        if kind == "queue":
            self.cluster.name_queue(*value)
        elif kind == "policy":
            self._set_policy(value)
        elif kind == "quota":
            self._set_quota(value)
        elif kind == "graph":
            self._set_graph(present=value)
        elif kind == "upgrade":
            await self._upgrade()
        elif kind == "preempt":
            await self._preempt()
        elif kind == "contend":
            await contenders.contend(self.cluster, *value)
        else:
            await self.befall(kind, value)
            self.unseen = kind == "arrive" or (self.unseen and (kind != "settle" or self.lost))

    def _ask_for_service(self, asked: tuple[int, str] | None) -> None:
        """A user asks for a Service of this port and name, or for none."""
        wanted = {} if asked is None else {"service": {"name": asked[1], "ports": [{"port": asked[0]}]}}

        def edit(value: Json) -> None:
            value["spec"] = {**{key: one for key, one in value["spec"].items() if key != "service"}, **wanted}

        self.cluster.server.change("dljobs", "serve", edit)

    def _spoil_service(self, name: str) -> None:
        """Somebody changes the ports of a Service, or deletes one that was changed before."""
        found = self.cluster.server.find("services", name)
        if found is not None and found["spec"]["ports"][0]["port"] == 1:
            self.cluster.server.delete("services", name)
        elif found is not None:
            self.cluster.server.change("services", name, lambda value: value["spec"].update(ports=[{"port": 1}]))

    def check_service(self) -> None:
        """Once all has settled, there is the Service that the DLJob asks for, and no other."""
        wanted = self.cluster.dljob("serve")["spec"].get("service")
        found = [one for one in self.cluster.server.all("services") if "ports" in one["spec"]]
        there = {one["metadata"]["name"]: one["spec"]["ports"][0]["port"] for one in found}
        assert there == ({} if wanted is None else {wanted["name"]: wanted["ports"][0]["port"]})

    def _edited(self, kind: str, value: Any) -> tuple[str, Json]:
        """Which DLJob a user edits, and the fields."""
        if kind == "edit":
            name, image = value
            return name, {"template": objects.template(image=image)}
        if kind == "touch":
            return value, {"gpuMemory": f"{len(self.cluster.server.watched)}Mi"}
        return value, {"suspend": kind == "suspend"}

    def _edit(self, name: str, fields: Json) -> None:
        if self.cluster.dljob(name):
            self.cluster.server.change("dljobs", name, lambda value: value.update(spec={**value["spec"], **fields}))

    def _set_policy(self, on_missing_prediction: str) -> None:
        queue = {"onMissingPrediction": on_missing_prediction, **START}
        self.cluster.set_policy(queue=queue, memoryOveruse="Evict")

    def _set_quota(self, share: str) -> None:
        """A ResourceQuota of GPU shares: made, or changed."""
        if self.cluster.server.all("resourcequotas"):
            quotas.resize(self.cluster.server, gpu_share=share)
        else:
            self.cluster.apply(quotas.quota(gpu_share=share), plural="resourcequotas")
            self.cluster.count_quota()

    async def _preempt(self) -> None:
        """What runs is asked to end, the operator sees it, and it exits with 0: nothing of it is done."""
        self.cluster.put_labels()
        await self.end_faults()
        await self.cluster.advance(400)
        self.unseen = False
        self.check_promises()
        self.cluster.disrupt()
        await self.cluster.settle()
        over = dict(self.ended)
        await self.cluster.run("leave", "judge", "enforce_deadlines", "conclude")
        self.check_promises()
        assert {name: phase for name, phase in self.ended.items() if phase == "Succeeded"}.items() <= over.items()

    async def _upgrade(self) -> None:
        """Another release takes over when all has settled: it rolls nothing. Then it is rolled back."""
        self.cluster.put_labels()
        await self.end_faults()
        for _ in range(2):
            await self.cluster.advance(400)
        self.unseen = False
        self.check_edits()
        before = self._templates()
        with releases.later():
            self.cluster.restart()
            await self.cluster.start()
            await self.cluster.settle()
            assert self._templates() == before
        self.cluster.restart()
        await self.cluster.start()

    def check_edits(self) -> None:
        """Once the operator has seen everything, what runs is as the spec says, or the status says it is not."""
        for name in TRAINING:
            dljob = self.cluster.dljob(name)
            jobs = [job for job in self.cluster.attempts() if job["metadata"]["name"].startswith(name)]
            living = [job for job in jobs if not job.get("status", {}).get("conditions")]
            if not living or name in self.ended:
                continue
            image = dljob["spec"]["template"]["spec"]["containers"][0]["image"]
            made = living[0]["spec"]["template"]["spec"]["containers"][0]["image"]
            assert made == image or self.cluster.condition("Current", name=name).get("status") == "False", (made, image)

    def _templates(self) -> dict[str, Json]:
        """What pods are made from, by the UIDs of Jobs and Deployments."""
        there = [*self.cluster.server.all("jobs"), *self.cluster.server.all("deployments")]
        return {value["metadata"]["uid"]: value["spec"]["template"] for value in there}

    def _set_graph(self, *, present: bool) -> None:
        if not present:
            self.cluster.server.delete("configmaps", "toy")
        elif self.cluster.server.find("configmaps", "toy") is None:
            self.cluster.apply(objects.config_map(), plural="configmaps")

    def check_promises(self) -> None:
        """What holds at every moment."""
        # A late creation has its effect until the operator sees it.
        for name in () if self.unseen else TRAINING:
            jobs = [job for job in self.cluster.server.all("jobs") if job["metadata"]["name"].startswith(name)]
            alive = [job["metadata"]["name"] for job in jobs if not job.get("status", {}).get("conditions")]
            assert len(alive) <= 1, alive
            pods = [pod for pod in self.cluster.server.all("pods") if pod["metadata"]["name"].startswith(name)]
            living = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods if not over(pod)}
            assert len(living) <= 1, living
            phase = self.cluster.dljob(name).get("status", {}).get("phase", "")
            if name in self.ended:
                assert phase == self.ended[name]
                assert not alive
            elif phase in ("Succeeded", "Failed"):
                self.ended[name] = phase
        assert len(self.cluster.server.all("deployments")) <= 1
        assert contenders.fights(self.cluster.server) == {}
        self._check_shortage()

    def _check_shortage(self) -> None:
        """Each time that the pods ran out of GPU memory is answered once, and nothing of it is forgotten."""
        there = self.cluster.server.find("deployments", "serve")
        notes = {} if there is None else there["metadata"]["annotations"]
        before, self.shortage = self.shortage, json.loads(notes.get(labels.SHORTAGE, "{}"))
        assert self.shortage.get("outOfMemory", 0) <= self.outgrown
        for known in ("outOfMemory", "memoryMiB", "exclusive"):
            assert (self.shortage.get(known) or 0) >= (before.get(known) or 0)

    async def settle(self) -> None:
        """The faults end, a watch that lost events is found out, and the other programs go on."""
        self._set_graph(present=True)
        if self.cluster.server.all("resourcequotas"):
            self._set_quota("1000")
        self.cluster.put_labels()
        for name in JOBS:
            self._edit(name, {"suspend": False})
        await self.end_faults()
        await self.cluster.settle()
        self.unseen = False
        for _ in range(4):
            await self.cluster.advance(400)
            await self.cluster.run("stop_suspended", "judge", "enforce_deadlines", "roll_out", "reap", *COUNTS)
            await self.cluster.run("conclude")
            self.check_edits()
            await self.cluster.run("admit", "autoscale", "create_pods", "place", "run_pods", "succeed")
            self.check_promises()

    async def check_settled(self) -> None:
        """What holds in the end."""
        phases = {name: self.cluster.dljob(name)["status"]["phase"] for name in JOBS}
        assert phases["train"] in ("Succeeded", "Failed")
        assert phases["gang"] in ("Succeeded", "Failed")
        assert phases["led"] in ("Succeeded", "Failed")
        assert phases["serve"] == "Running"
        self.check_service()
        await self.cluster.advance(100)
        self.cluster.server.requests.clear()
        self.cluster.work.enqueue(self.cluster.store.keys())
        await self.cluster.advance(100)
        assert [request for request in self.cluster.server.requests if request.method != "GET"] == []


def over(pod: Json) -> bool:
    return pod["status"]["phase"] in ("Succeeded", "Failed")


async def play(before: int, story: list[steps.Step]) -> None:
    history = History()
    await history.begin()
    await history.cluster.run(*LIFE[:before])
    for kind, value in story:
        await history.step(kind, value)
        history.check_promises()
    await history.settle()
    await history.check_settled()


@given(st.integers(0, 4), st.lists(STEPS, max_size=30))
def test_every_history_keeps_the_promises_and_settles(before: int, story: list[steps.Step]) -> None:
    asyncio.run(play(before, story))


async def test_an_attempt_whose_creation_arrives_after_the_end_does_not_stay() -> None:
    late: list[steps.Step] = [("late", 0), ("late", 0), ("late", 0), ("work", 6)]
    life: list[steps.Step] = [("go on", None), ("settle", None), ("wait", 40)]
    end: list[steps.Step] = [("program", "succeed"), ("settle", None), ("delete job", "train-1"), ("settle", None)]
    arrivals: list[steps.Step] = [("arrive", 0)] * 3
    await play(0, [*late, *3 * life, *end, *arrivals, ("settle", None)])


async def test_running_out_of_memory_counts_once_for_a_service_that_is_suspended_then() -> None:
    await play(0, [("go on", None), ("program", "outgrow"), ("suspend", "serve"), ("go on", None)])


async def test_a_gang_that_starts_while_it_is_ended_and_is_evicted_then_is_not_done() -> None:
    await play(2, [("wait", 400), ("go on", None), ("preempt", None)])


async def test_a_leader_that_is_evicted_while_its_gang_is_suspended_is_no_success() -> None:
    await play(3, [("suspend", "led"), ("preempt", None)])


async def live(fault_at: int, fault: Fault) -> int:
    """A life with one fault at the n-th write; how many writes there were."""
    history = History()
    faulty = history.cluster.server.fault = faults.AtWrite(fault_at, fault)
    await history.begin()
    for program in LIFE:
        await history.cluster.advance(20)
        await history.cluster.run(program)
        history.check_promises()
    await history.settle()
    await history.check_settled()
    return faulty.writes


async def test_a_crash_at_any_write_loses_nothing() -> None:
    total = await live(0, Fault(effect=False, status=-1))
    assert total > 20
    for effect in (True, False):
        for at in range(1, total + 1):
            await live(at, Fault(effect=effect, status=-1))


async def test_a_lost_reply_at_any_write_creates_nothing_twice() -> None:
    total = await live(0, Fault(effect=True, status=0))
    for at in range(1, total + 1):
        await live(at, Fault(effect=True, status=0))
