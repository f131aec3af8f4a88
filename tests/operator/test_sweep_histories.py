"""Random histories of a sweep: whatever happens in whatever order, each run ends once, and the sweep with them.

An edit of the sweep reaches each run that has had no GPU, and the sweep names the runs that go on without it.
"""

import asyncio
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from operator_kit import contenders, objects, steps

Json = dict[str, Any]

TOTAL, AT_ONCE = 4, 2
LIFE = ("create_pods", "place", "run_pods", "succeed", "fail", "stop_suspended", "reap", "evict", "run_out_of_memory")
NAMES = st.sampled_from(("sweep", *(f"sweep-{index}" for index in range(TOTAL))))
STEPS = st.one_of(
    st.sampled_from(LIFE).map(lambda name: ("program", name)),
    NAMES.map(lambda name: ("suspend", name)),
    NAMES.map(lambda name: ("resume", name)),
    NAMES.filter(lambda name: name != "sweep").map(lambda name: ("delete", name)),
    st.just(("go on", None)),
    st.just(("begin", None)),
    st.sampled_from(("first", "second", "third")).map(lambda image: ("edit", image)),
    steps.STEPS,
    steps.LATE,
)


class History(steps.Befallen):
    """One history.

    Attributes:
        ended: what each run came to first.
        unseen: whether a late request has arrived since the operator last saw everything.
        begun: UIDs of runs that have had GPUs, and are not stalled -> their image.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unseen = False
        self.ended: dict[str, str] = {}
        self.told: dict[str, str] = {}
        self.begun: dict[str, str] = {}

    async def begin(self) -> None:
        """The sweep and what it needs."""
        self.cluster.apply(objects.policy(), plural="packingpolicies")
        self.cluster.apply(objects.gpu_node(), plural="gpunodes")
        self.cluster.apply(objects.config_map(), plural="configmaps")
        self.cluster.apply(objects.dljob("sweep", completions=TOTAL, parallelism=AT_ONCE, backoffLimit=0))
        await self.cluster.start()

    async def step(self, kind: str, value: Any) -> None:
        """One thing that happens."""
        if kind == "program":
            getattr(self.cluster, value)()
        elif kind in ("go on", "begin"):
            await self.cluster.run("create_pods", "place", "run_pods", *(["succeed"] if kind == "go on" else []))
        elif kind == "delete":
            self.cluster.server.delete("dljobs", value)
        elif kind == "edit":
            template = objects.template(image=value)
            self.cluster.server.change("dljobs", "sweep", lambda found: found["spec"].update(template=template))
        elif kind in ("suspend", "resume"):
            self.suspend(value, wanted=kind == "suspend")
        else:
            await self.befall(kind, value)
            self.unseen = kind == "arrive" or (self.unseen and (kind != "settle" or self.lost))

    def suspend(self, name: str, *, wanted: bool) -> None:
        """A user suspends or resumes the sweep, or a run of it."""
        if self.cluster.server.find("dljobs", name) is not None:
            self.cluster.server.change(
                "dljobs", name, lambda value: value.update(spec={**value["spec"], "suspend": wanted})
            )

    def runs(self) -> dict[str, str]:
        """The phases of the runs that are there."""
        found = (one for one in self.cluster.server.all("dljobs") if one["metadata"]["name"] != "sweep")
        return {one["metadata"]["name"]: one.get("status", {}).get("phase", "") for one in found}

    def check_promises(self) -> None:
        """No more runs than may be under way, and what a run came to stays."""
        status = self.cluster.dljob("sweep").get("status", {})
        runs = self.runs()
        under_way = [name for name, phase in runs.items() if phase not in ("Succeeded", "Failed")]
        assert self.unseen or len(under_way) <= AT_ONCE, under_way
        for field in ("completedIndexes", "failedIndexes"):
            before, now = expanded(self.told.get(field, "")), expanded(status.get(field, self.told.get(field, "")))
            assert before <= now
            self.told[field] = status.get(field, self.told.get(field, ""))
        assert not expanded(self.told["completedIndexes"]) & expanded(self.told["failedIndexes"])
        assert contenders.fights(self.cluster.server) == {}
        self.check_what_has_begun()

    def check_what_has_begun(self) -> None:
        """A run that has had GPUs goes on as it began."""
        runs = self.of_the_sweep()
        for run in runs:
            uid = run["metadata"]["uid"]
            assert self.begun.get(uid, image(run)) == image(run), run["metadata"]["name"]
        started = (run for run in runs if "startTime" in run.get("status", {}) and not holds(run, "Stalled"))
        self.begun = {run["metadata"]["uid"]: image(run) for run in started}

    def of_the_sweep(self) -> list[Json]:
        """The runs that are there."""
        return [one for one in self.cluster.server.all("dljobs") if one["metadata"]["name"] != "sweep"]

    def check_edits(self) -> None:
        """Every run under way is as the sweep says, or is named by its condition Current, and has had a GPU."""
        wanted, current = image(self.cluster.dljob("sweep")), self.cluster.condition("Current", name="sweep")
        lists = re.findall(r"\d+ runs? [a-zA-Z, ]+: ([0-9,-]+)", current.get("message", ""))
        named = set().union(*map(expanded, lists)) if current.get("status") == "False" else set()
        jobs = {job["metadata"]["name"]: image(job) for job in self.cluster.attempts()}
        for run in self.of_the_sweep():
            name, phase = run["metadata"]["name"], run.get("status", {}).get("phase")
            attempt = f"{name}-{run.get('status', {}).get('attempts', 1)}"
            if phase in ("Succeeded", "Failed") or {image(run), jobs.get(attempt, wanted)} == {wanted}:
                continue
            assert int(name.rpartition("-")[2]) in named, (name, current)
            assert image(run) == wanted or "startTime" in run["status"], name

    async def settle(self) -> None:
        """The faults end, everybody goes on, and what is under way ends."""
        await self.end_faults()
        await self.cluster.settle()
        self.unseen = False
        # A status of which words alone have changed is written later.
        await self.cluster.advance(40)
        self.check_edits()
        for _ in range(2 * TOTAL + 2):
            for name in ("sweep", *self.runs()):
                self.suspend(name, wanted=False)
            await self.cluster.advance(400)
            # What was made for a run that had been deleted by then.
            self.cluster.server.collect()
            await self.cluster.run("stop_suspended", "reap", "create_pods", "place", "run_pods", "succeed")
            self.check_promises()

    async def check_settled(self) -> None:
        """The sweep has ended, every run is counted once, and nothing is written any more."""
        status = self.cluster.dljob("sweep")["status"]
        assert status["phase"] in ("Succeeded", "Failed"), status
        counted = expanded(self.told["completedIndexes"]) | expanded(self.told["failedIndexes"])
        assert counted == set(range(TOTAL))
        assert status["phase"] == ("Failed" if expanded(self.told["failedIndexes"]) else "Succeeded")
        self.cluster.server.requests.clear()
        self.cluster.work.enqueue(self.cluster.store.keys())
        await self.cluster.advance(100)
        assert [request for request in self.cluster.server.requests if request.method != "GET"] == []


def image(value: Json) -> str:
    """The image of a DLJob, or of a Job."""
    return str(value["spec"]["template"]["spec"]["containers"][0]["image"])


def holds(value: Json, condition_type: str) -> bool:
    """Whether a condition is True."""
    found = value.get("status", {}).get("conditions", ())
    return any(one["type"] == condition_type and one["status"] == "True" for one in found)


def expanded(text: str) -> set[int]:
    """The indexes that a status names."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


async def play(story: list[steps.Step]) -> None:
    history = History()
    await history.begin()
    for kind, value in story:
        await history.step(kind, value)
        history.check_promises()
    await history.settle()
    await history.check_settled()


@given(st.lists(STEPS, max_size=30))
def test_every_history_of_a_sweep_keeps_its_promises_and_settles(story: list[steps.Step]) -> None:
    asyncio.run(play(story))
