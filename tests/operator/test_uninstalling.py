"""The steps before an installation is taken away: in which order, what is waited for, what is said of the rest."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from cotenant_api import errors, names
from cotenant_operator.kube import api
from cotenant_operator.release import plan, uninstalling
from cotenant_operator.release.objects import Objects

Json = dict[str, Any]
SELECTOR = {"cotenant.dev/gpu": "true"}
GATING = "DELETE mutatingadmissionpolicybindings/cotenant-pods"
SCALE = "PATCH deployments/cotenant-operator/scale"
POLICY = "PATCH packingpolicies/default"
AS_READ = {"uid": "uid-1", "resourceVersion": "7"}


def gpu(**changes: Any) -> Json:
    return {"uuid": "GPU-0", "mode": "Shared", "mps": "Active", "tenants": [], **changes}


def gpu_node(name: str, *gpus: Json) -> Json:
    return {"metadata": {"name": name}, "status": {"gpus": list(gpus)}}


def node(name: str, *taints: str, **labels: str) -> Json:
    found = [{"key": key, "effect": "NoSchedule"} for key in taints]
    return {"metadata": {"name": name, "labels": labels, "resourceVersion": "1"}, "spec": {"taints": found}}


def pod(name: str, **metadata: Any) -> Json:
    return {"metadata": {"namespace": "team", "name": name, **metadata}, "spec": {}}


class Release:
    """An API server that has one release, and a clock. `passing`: is called whenever somebody waits for a second."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.writes: list[str] = []
        self.bodies: list[Json] = []
        self.lists: dict[str, list[Json]] = {"gpunodes": [], "nodes": [], "pods": [], "tenants": []}
        self.pods_of: dict[str, list[str]] = {}
        self.answers: dict[str, list[tuple[int, Json]]] = {}
        self.passing: Callable[[], None] = lambda: None

    async def __call__(self, request: api.Request) -> tuple[int, Any]:
        """Answer as told, else as what is there."""
        what = "/".join(part for part in request.path.split("/")[-3:] if part not in {"v1", "v1alpha1"})
        what = what.removeprefix("cotenant-system/").removeprefix("admissionregistration.k8s.io/")
        what = what.removeprefix("api/").removeprefix("cotenant.dev/")
        said = f"{request.method} {what}"
        if self.answers.get(said):
            return self.answers[said].pop(0)
        if request.method == "GET" and any(what == write.partition(" ")[2] for write in (GATING, SCALE, POLICY)):
            return 200, {"metadata": {"name": "there", **AS_READ}}
        if request.method == "GET":
            return 200, {"items": self._listed(request)}
        self.writes.append(said)
        self.bodies.append(dict(request.body or {}))
        if said.startswith("PATCH nodes/"):
            self._patch(said.rpartition("/")[2], dict(request.body or {}))
        return 200, {}

    def _listed(self, request: api.Request) -> list[Json]:
        selector = request.query.get("labelSelector")
        if selector is not None:
            return [{"spec": {"nodeName": name}} for name in self.pods_of.get(selector.partition("=")[2], [])]
        tenants = request.query.get("fieldSelector") == plan.RUNNING
        return copy.deepcopy(self.lists["tenants" if tenants else request.path.rpartition("/")[2]])

    def _patch(self, name: str, patch: Json) -> None:
        (found,) = (each for each in self.lists["nodes"] if each["metadata"]["name"] == name)
        for key in patch["metadata"]["labels"]:
            del found["metadata"]["labels"][key]
        found["spec"].update(patch.get("spec", {}))

    async def sleep(self, seconds: float) -> None:
        """Time passes at once."""
        self.seconds += seconds
        self.passing()

    async def ended(self, selector: dict[str, str] | None = None) -> plan.Outcome:
        """What prepare-uninstall does with it, in 10 s."""
        clock = uninstalling.Clock(lambda: self.seconds, self.sleep)
        ending = uninstalling.Uninstalling(Objects(api.API(self), "cotenant-system"), clock, wait_seconds=10)
        return await ending.run(SELECTOR if selector is None else selector)


@pytest.fixture
def release() -> Release:
    return Release()


async def test_admission_is_stopped_before_nodes_are_given_back_and_the_gates_policy_goes_last(
    release: Release,
) -> None:
    release.lists["nodes"] = [node("n1", **SELECTOR)]
    await release.ended()
    assert release.writes == [SCALE, POLICY, "PATCH nodes/n1", GATING]


async def test_every_write_names_what_was_read_so_that_a_late_one_does_nothing_to_a_later_installation(
    release: Release,
) -> None:
    release.lists["nodes"] = [node("n1", **SELECTOR)]
    await release.ended()
    bodies = dict(zip(release.writes, release.bodies, strict=True))
    assert bodies[SCALE] == {"metadata": AS_READ, "spec": {"replicas": 0}}
    assert bodies[POLICY] == {"metadata": AS_READ, "spec": {"mode": "Observe"}}
    assert bodies[GATING] == {"preconditions": AS_READ}
    assert bodies["PATCH nodes/n1"]["metadata"]["resourceVersion"] == "1"


async def test_nodes_that_changed_meanwhile_keep_no_other_from_being_given_back(release: Release) -> None:
    names_of = [f"n{number}" for number in range(2 * uninstalling.ATTEMPTS)]
    release.lists["nodes"] = [node(name, **SELECTOR) for name in names_of]
    for name in names_of:
        release.answers[f"PATCH nodes/{name}"] = [(409, {"message": "changed"})]
    assert set((await release.ended()).changed) == set(names_of)


async def test_sharing_goes_on_until_the_operator_has_ended(release: Release) -> None:
    release.pods_of["cotenant-operator"] = ["n1"]

    def pass_by() -> None:
        assert POLICY not in release.writes
        if release.seconds >= 3:
            release.pods_of.clear()

    release.passing = pass_by
    assert (await release.ended()).stopped


async def test_an_operator_that_does_not_end_is_told_of(release: Release) -> None:
    release.pods_of["cotenant-operator"] = ["n1"]
    outcome = await release.ended()
    assert "The operator has NOT ended yet: see its log." in plan.lines(outcome)
    assert POLICY in release.writes


async def test_nodes_are_waited_for_and_tenants_are_not(release: Release) -> None:
    release.pods_of["cotenant-node-agent"] = ["n1", "n2"]
    release.lists["tenants"] = [{**pod("train"), "spec": {"nodeName": "n1"}}]
    release.lists["gpunodes"] = [gpu_node("n1", gpu(), gpu(tenants=[{}])), gpu_node("n2", gpu(mode="MIG"))]

    def pass_by() -> None:
        if release.seconds >= 4:
            release.lists["gpunodes"][0]["status"]["gpus"][0]["mps"] = "NotUsed"

    release.passing = pass_by
    outcome = await release.ended()
    assert (outcome.unfinished, outcome.running) == ({}, ("team/train on n1",))
    assert release.seconds == 4


async def test_what_an_agent_that_has_left_said_last_is_not_waited_for(release: Release) -> None:
    release.lists["gpunodes"] = [gpu_node("n1", gpu())]
    assert (await release.ended()).unfinished == {}
    assert release.seconds == 0


async def test_a_node_that_is_not_given_back_in_time_is_named_with_the_reason(release: Release) -> None:
    release.pods_of["cotenant-node-agent"] = ["n1"]
    release.lists["gpunodes"] = [gpu_node("n1", gpu(mps="Stopped"))]
    outcome = await release.ended()
    assert outcome.unfinished == {"n1": "MPS of GPU-0 is Stopped"}
    assert "  n1: MPS of GPU-0 is Stopped" in plan.lines(outcome)


async def test_our_label_and_taint_are_taken_off_and_nothing_else(release: Release) -> None:
    release.lists["nodes"] = [
        node("n1", *names.STARTUP_TAINTS, "theirs", pool="gpu", **SELECTOR),
        node("n2", "theirs", pool="gpu"),
    ]
    outcome = await release.ended()
    assert outcome.changed == ("n1",)
    first, second = release.lists["nodes"]
    assert (first["metadata"]["labels"], [taint["key"] for taint in first["spec"]["taints"]]) == (
        {"pool": "gpu"},
        ["theirs"],
    )
    assert second["metadata"]["labels"] == {"pool": "gpu"}


async def test_a_label_of_somebody_else_stays_and_agents_are_left_to_helm(release: Release) -> None:
    release.lists["nodes"] = [node("n1", pool="gpu")]
    release.pods_of["cotenant-node-agent"] = ["n1"]
    outcome = await release.ended({"pool": "gpu"})
    assert (outcome.changed, outcome.unfinished, release.seconds) == ((), {}, 0)


async def test_an_agent_that_does_not_end_is_named(release: Release) -> None:
    release.lists["nodes"] = [node("n1", **SELECTOR)]
    release.pods_of["cotenant-node-agent"] = ["n1"]
    assert (await release.ended()).unfinished == {"n1": "its agent has not ended"}


async def test_a_node_that_changed_meanwhile_is_read_again(release: Release) -> None:
    release.lists["nodes"] = [node("n1", **SELECTOR), node("n2", **SELECTOR)]
    release.answers["PATCH nodes/n2"] = [(409, {"message": "changed"})]
    assert (await release.ended()).changed == ("n1", "n2")


async def test_what_is_gone_already_is_no_fault(release: Release) -> None:
    for what in (GATING, SCALE, POLICY):
        release.answers[f"GET {what.partition(' ')[2]}"] = [(404, {"message": "not found"})]
    release.answers["GET gpunodes"] = [(404, {"message": "not found"})]
    outcome = await release.ended()
    assert release.writes == []
    assert "No pod waits for a share." in plan.lines(outcome)


async def test_a_server_that_does_not_answer_is_asked_again(release: Release) -> None:
    release.answers[POLICY] = [(503, {"message": "later"})] * 2
    await release.ended()
    assert POLICY in release.writes


@pytest.mark.parametrize(
    ("answer", "said"), [((403, {"message": "no"}), "refuses: no"), ((503, {"message": "later"}), "does not take it")]
)
async def test_nothing_is_taken_away_while_admission_cannot_be_stopped(
    release: Release, answer: tuple[int, Json], said: str
) -> None:
    release.answers[POLICY] = [answer] * uninstalling.ATTEMPTS
    with pytest.raises(errors.PermanentError, match=said):
        await release.ended()
    assert release.writes == [SCALE]


async def test_pods_that_wait_are_listed_with_what_would_make_them_again(release: Release) -> None:
    owner = {"kind": "Job", "name": "plain", "controller": True}
    release.lists["pods"] = [
        pod("resnet-0-x", labels={"cotenant.dev/dljob": "resnet"}, ownerReferences=[owner]),
        pod("plain-x", ownerReferences=[owner]),
        pod("bare"),
    ]
    said = plan.lines(await release.ended())
    assert "These wait for a share, and nobody will place them (3):" in said
    assert {"  team/bare", "  team/plain-x (Job/plain)", "  team/resnet-0-x (DLJob/resnet)"} <= set(said)
    assert f"  delete:  {plan.DELETE}" in said


def test_a_long_list_is_cut() -> None:
    outcome = plan.Outcome(
        stopped=True, changed=(), unfinished={}, running=(), waiting=tuple(f"team/p{number:03}" for number in range(30))
    )
    said = plan.lines(outcome)
    assert ("  team/p019" in said, "  team/p020" in said, "  and 10 more" in said) == (True, False, True)
