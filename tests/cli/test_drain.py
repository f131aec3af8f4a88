"""`cotenant node drain`: who goes when, what is tried again, and when it is over; with a clock of the test's own."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from cli import kit
from cotenant_api import cli, errors, names
from cotenant_cli.draining import loop, order
from cotenant_cli.reading import cluster, objects
from cotenant_cli.sending import kube as sending

Answer = Callable[[objects.Pod, bool], Exception | None]
GANG = {names.GANG: '{"v":1,"name":"g","size":2}'}
LIMITS = loop.Limits(end=10, force=False)


def owned(name: str, *, gang: bool = False, owner: str = "Job") -> kit.Object:
    return kit.pod(name, on="GPU-0", owner=owner, notes=GANG if gang else None)


class Node:
    """A node whose pods end two rounds after they were evicted; `answer` may refuse."""

    def __init__(self, *pods: kit.Object, answer: Answer = lambda *_: None, lingers: int = 0) -> None:
        self.pods = {pod["metadata"]["uid"]: pod for pod in pods}
        self.tenants = {uid: pod["metadata"]["name"] for uid, pod in self.pods.items()}
        self.cordoned, self.clock, self.asked = False, 0.0, list[tuple[str, bool]]()
        self._answer, self._ending, self._lingers = answer, dict[str, float](), lingers
        self.faults: list[Exception] = []

    def seen(self) -> cluster.Seen:
        """What is there still."""
        if self.cordoned and self.faults:
            raise self.faults.pop()
        for uid, when in self._ending.items():
            if self.clock >= when:
                self.pods.pop(uid, None)
            if self.clock >= when + self._lingers:
                self.tenants.pop(uid, None)
        tenants = [kit.tenant(name) for name in self.tenants.values()]
        gpunode = kit.gpunode(kit.gpu(tenants=tenants, foreignProcesses=1))
        return cluster.of_node(kit.lists(pods=self.pods.values(), nodes=[kit.node()], gpunodes=[gpunode]), name="n1")

    def cordon(self) -> None:
        """No new pods."""
        self.cordoned = True

    def evict(self, pod: objects.Pod, *, dry_run: bool) -> None:
        """As the API server."""
        self.asked.append((pod.name, dry_run))
        refusal = self._answer(pod, dry_run)
        if refusal is not None:
            raise refusal
        if not dry_run:
            self._ending[pod.uid] = self.clock + 2

    def now(self) -> float:
        """The test's clock."""
        return self.clock

    def sleep(self) -> None:
        """A round."""
        self.clock += 1


def drained(node: Node, limits: loop.Limits = LIMITS) -> tuple[loop.Drained, list[str]]:
    told: list[str] = []
    return loop.drain("n1", node, limits, tell=told.append), told


def too_many() -> Exception:
    return sending.TooManyError("POST: 429", said="the budget needs 1 healthy pod")


def test_the_node_is_closed_first_and_done_when_no_pod_and_no_tenant_is_left() -> None:
    node = Node(owned("a"), lingers=3)
    found, told = drained(node)
    assert (found.drained, found.evicted, found.remaining, found.tenants) == (True, ("team/a",), (), 0)
    assert told == [
        "node/n1 cordoned",
        "pod/team/a evicted",
        "node/n1 waits for 1 pods to end",
        "node/n1 waits for 1 tenants to leave the GPUs",
    ]
    assert found.notes[1] == "GPU 0 has 1 processes of no pod: look with nvidia-smi on the node"


def test_pods_of_their_own_go_before_gangs_and_daemon_sets_stay() -> None:
    pods = [owned("m2", gang=True), owned("z"), owned("d", owner="DaemonSet"), owned("m1", gang=True), owned("a")]
    found = order.batches(pod for raw in pods if (pod := objects.pod_of(raw)) is not None)
    assert [[pod.name for pod in batch.pods] for batch in found] == [["a"], ["z"], ["m1", "m2"]]


def test_gangs_of_two_controllers_with_one_name_go_apart() -> None:
    pods = [owned(name, gang=True) for name in ("a1", "b1", "a2")]
    for raw in pods:
        raw["metadata"]["ownerReferences"][0]["uid"] = f"job-{raw['metadata']['name'][0]}"
    found = order.batches(pod for raw in pods if (pod := objects.pod_of(raw)) is not None)
    assert [[pod.name for pod in batch.pods] for batch in found] == [["b1"], ["a1", "a2"]]


def test_a_gang_goes_whole_or_not_yet() -> None:
    def protects_one_member(pod: objects.Pod, dry_run: bool) -> Exception | None:
        return too_many() if pod.name == "m2" and node.clock < 3 else None

    node = Node(owned("m1", gang=True), owned("m2", gang=True), answer=protects_one_member)
    found, told = drained(node)
    assert found.drained
    assert node.asked == [("m1", True), ("m2", True)] * 4 + [("m1", False), ("m2", False)]
    assert told[1] == "pod/team/m2 is not evicted yet: the budget needs 1 healthy pod (its gang g stays with it)"
    assert sum("not evicted yet" in line for line in told) == 1, "nothing is said twice"


def test_what_a_budget_refuses_is_tried_until_time_is_up() -> None:
    node = Node(owned("a"), answer=lambda *_: too_many())
    found, _ = drained(node)
    assert (found.drained, found.evicted, found.remaining) == (False, (), ("team/a",))
    assert len(node.asked) == 10
    assert node.cordoned


@pytest.mark.parametrize("gone", [sending.GoneError("404", said=""), sending.ConflictError("409", said="")])
def test_a_pod_that_has_gone_meanwhile_is_done(gone: Exception) -> None:
    node = Node(owned("a"), answer=lambda *_: gone)
    node.tenants.clear()
    found, told = drained(node)
    assert told[1] == "pod/team/a is gone"
    assert len(node.asked) == 1
    assert found.evicted == ("team/a",)


def test_a_refusal_for_good_ends_it() -> None:
    refused = sending.RefusedError("POST: 403", said="")
    with pytest.raises(sending.RefusedError):
        drained(Node(owned("a"), answer=lambda *_: refused))


def test_a_server_that_does_not_answer_is_asked_again() -> None:
    node = Node(owned("a"))
    node.faults = [errors.TemporaryError("no answer", delay_seconds=1)] * 3
    found, told = drained(node)
    assert found.drained
    assert told[1] == "API server: no answer"


def test_evictions_that_are_not_answered_end_when_time_is_up() -> None:
    def is_silent(*_: object) -> Exception:
        node.clock += 4
        return errors.TemporaryError("no answer", delay_seconds=1)

    node = Node(*(owned(f"p{index}") for index in range(9)), answer=is_silent)
    found, _ = drained(node)
    assert not found.drained
    assert len(node.asked) == 3


@pytest.mark.parametrize(("now", "seconds"), [(0, 60), (940, 60), (995, 5), (999.9, 1), (1002, 1)])
def test_no_request_waits_for_much_longer_than_the_drain_may(now: float, seconds: float) -> None:
    assert loop.Limits(end=1000, force=False).patience(now) == pytest.approx(seconds)


def test_pods_that_nobody_makes_again_are_left_before_anything_has_changed() -> None:
    node = Node(kit.pod("alone", on="GPU-0"))
    with pytest.raises(errors.InvalidInputError, match=r"--force: False: nobody makes team/alone again"):
        drained(node)
    assert not node.cordoned
    found, _ = drained(node, loop.Limits(end=10, force=True))
    assert found.drained


def test_without_an_agent_nobody_tells_of_tenants() -> None:
    class Silent(Node):
        def seen(self) -> cluster.Seen:
            return cluster.of_node(kit.lists(nodes=[kit.node()]), name="n1")

    found, _ = drained(Silent())
    assert (found.drained, found.tenants) == (True, None)
    assert "nvidia-smi" in found.notes[1]


@pytest.mark.parametrize("words", [["--timeout", "0"], ["--timeout", "nan"]])
def test_a_timeout_that_is_none_is_refused(words: Iterable[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["node", "drain", "n1", *words]) == 2
    assert capsys.readouterr().err.startswith("cotenant: node: --timeout: ")
