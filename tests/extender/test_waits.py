"""Since when pods count as waiting: from when they could be placed as they are."""

from typing import Any

import pytest

from cotenant_api import names
from cotenant_api.names import PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import records
from cotenant_extender.kube import pods
from cotenant_extender.ledger import ledger
from cotenant_extender.queue import reporting
from extender import builders
from extender.builders import NOW

HOLD = "example.org/hold"
OTHER_IMAGE = {**builders.pod("a")["spec"]["containers"][0], "image": "another:1"}
SERVE = {names.DLJOB_LABEL: "serve", names.DLJOB_UID_LABEL: "uid-of-serve"}


def take(source: ledger.Ledger, raw: dict[str, Any], *, at: float) -> records.Pod:
    record = records.pod_record(raw)
    source.pod(record, now=at)
    return source.pods[record.uid]


def since(source: ledger.Ledger, name: str) -> float:
    record = source.pods[PodUID(f"uid-{name}")]
    assert record.request is None or record.request.since == record.since
    assert source.index.pending.get(record.uid, record) is record
    return record.since


def held(record: records.Pod) -> dict[str, Any]:
    """The condition as the extender writes it."""
    report = reporting.Report(record=record, reason=PackedReason.INSUFFICIENT_SHARE, message="m")
    condition: dict[str, Any] = pods.condition(report, now=builders.timestamp(NOW + 9999))["status"]["conditions"][0]
    return condition


def test_a_pod_waits_from_when_the_last_gate_of_its_author_went() -> None:
    source = ledger.Ledger()
    take(source, builders.pod("a", gates=(names.PACKING_GATE, HOLD)), at=NOW)
    take(source, builders.pod("a", version=2), at=NOW + 600)
    assert since(source, "a") == NOW + 600
    take(source, builders.pod("a", version=3), at=NOW + 700)
    assert since(source, "a") == NOW + 600


def test_another_process_goes_on_from_the_condition() -> None:
    source, raw = ledger.Ledger(), builders.pod("a", version=3)
    take(source, builders.pod("a", gates=(names.PACKING_GATE, HOLD)), at=NOW)
    record = take(source, builders.pod("a", version=2), at=NOW + 600)
    raw["status"]["conditions"] = [held(record)]
    assert take(ledger.Ledger(), raw, at=NOW + 9999).since == NOW + 600


def test_the_condition_of_a_pod_that_always_could_be_placed_says_its_creation() -> None:
    source = ledger.Ledger()
    record = take(source, builders.pod("a"), at=NOW + 60)
    assert held(record)["lastTransitionTime"] == builders.timestamp(NOW)


def test_a_pod_that_asks_for_something_else_waits_from_then() -> None:
    for change in (
        {"annotations": {names.GPU_MODELS: "H200"}},
        {"annotations": {names.GPU_MEMORY: "1Gi"}},
        {"annotations": builders.gang("g", 2)},
        {"tolerations": [{"key": "k", "operator": "Exists"}]},
        {"containers": [OTHER_IMAGE]},
    ):
        source = ledger.Ledger()
        take(source, builders.pod("a"), at=NOW)
        take(source, builders.pod("a", version=2, **change), at=NOW + 600)
        assert since(source, "a") == NOW + 600, change


def test_a_change_of_what_it_says_of_itself_leaves_its_place() -> None:
    source = ledger.Ledger()
    take(source, builders.pod("a"), at=NOW)
    take(source, builders.pod("a", version=2, annotations={"note": "1"}, unschedulable="0/1 nodes"), at=NOW + 600)
    assert since(source, "a") == NOW


def serving(name: str, share: int = 40, *, owner: str = "ReplicaSet", **changes: Any) -> dict[str, Any]:
    raw = builders.pod(name, share, **{"labels": SERVE} | changes)
    if owner:
        raw["metadata"]["ownerReferences"] = [{"kind": owner, "name": "serve-1", "controller": True}]
    return raw


def placed(name: str, share: int = 40, *, annotations: dict[str, str] | None = None, **changes: Any) -> dict[str, Any]:
    notes = builders.placement(name, "n0", {"GPU-n0-0": share}) | (annotations or {})
    return serving(name, share, node="n0", annotations=notes, phase="Running", **changes)


def test_a_pod_of_a_service_that_waits_takes_the_place_of_one_that_leaves() -> None:
    source = ledger.Ledger()
    take(source, placed("old"), at=NOW)
    take(source, serving("new", created=NOW + 600), at=NOW + 600)
    take(source, serving("more", created=NOW + 601), at=NOW + 601)
    take(source, placed("old", version=2, deleting=True), at=NOW + 700)
    take(source, placed("old", version=3, deleting=True), at=NOW + 701)
    source.pod_gone(PodUID("uid-old"))
    assert (since(source, "new"), since(source, "more")) == (NOW, NOW + 601)


def test_a_pod_that_is_made_soon_after_takes_its_place_too_and_only_one_does() -> None:
    source = ledger.Ledger()
    take(source, placed("old"), at=NOW)
    source.pod_gone(PodUID("uid-old"))
    take(source, serving("new", created=NOW + 5), at=NOW + 5)
    take(source, serving("more", created=NOW + 6), at=NOW + 6)
    assert (since(source, "new"), since(source, "more")) == (NOW, NOW + 6)


def test_a_place_is_not_kept_for_long() -> None:
    source = ledger.Ledger()
    take(source, placed("old"), at=NOW)
    source.pod_gone(PodUID("uid-old"))
    take(source, serving("new", created=NOW + 301), at=NOW + 301)
    assert since(source, "new") == NOW + 301


def after(old: dict[str, Any], new: dict[str, Any]) -> float:
    """Since when a pod waits that is made when another is gone; the other since `NOW`."""
    source = ledger.Ledger()
    take(source, old, at=NOW)
    source.pod_gone(PodUID("uid-old"))
    take(source, new, at=NOW + 5)
    return since(source, "new")


@pytest.mark.parametrize(
    "new",
    [
        serving("new", 50, created=NOW + 5),
        serving("new", created=NOW + 5, annotations={names.GPU_MODELS: "H200"}),
        serving("new", created=NOW + 5, annotations={names.GPU_MEMORY: "1Gi"}),
        serving("new", created=NOW + 5, nodeSelector={"zone": "b"}),
        serving("new", created=NOW + 5, tolerations=[{"key": "k", "operator": "Exists"}]),
        serving("new", created=NOW + 5, owner=""),
        serving("new", created=NOW + 5, owner="DaemonSet"),
        serving("new", created=NOW + 5, labels=SERVE | {names.DLJOB_UID_LABEL: "uid-of-another"}),
        serving("new", created=NOW + 5, labels={names.DLJOB_LABEL: "serve"}),
        serving("new", created=NOW + 5, priority=1),
        builders.pod("new", created=NOW + 5),
    ],
    ids=[
        "a larger share",
        "another model",
        "memory",
        "another node",
        "tainted nodes",
        "nobody's",
        "another controller's",
        "another DLJob's",
        "a DLJob's by name alone",
        "another priority",
        "none of a DLJob",
    ],
)
def test_nobody_takes_the_place_of_one_that_asked_for_less_or_for_something_else(new: dict[str, Any]) -> None:
    assert after(placed("old"), new) == NOW + 5


def test_a_pod_that_asks_for_less_takes_the_place_of_one_that_leaves() -> None:
    assert after(placed("old", annotations={names.GPU_MEMORY: "4Gi"}), little(memory="2Gi")) == NOW
    assert after(placed("old", annotations={names.GPU_MEMORY: "4Gi"}), little(memory="5Gi")) == NOW + 5
    assert after(placed("old", 40), serving("new", 30, created=NOW + 5)) == NOW


def little(**notes: str) -> dict[str, Any]:
    return serving("new", created=NOW + 5, annotations={names.GPU_MEMORY: notes["memory"]})


@pytest.mark.parametrize(
    ("h200", "t4", "takes"),
    [
        ((30, 1000, 30), (60, 1000, 60), True),
        ((29, 900, 30), (60, 1000, 60), True),
        ((31, 1000, 30), (50, 1000, 60), False),
        ((30, 1000, 30), (60, 1001, 60), False),
    ],
    ids=["the same", "less", "more of one model", "more memory"],
)
def test_with_another_prediction_a_pod_takes_the_place_where_nothing_of_it_is_more(
    h200: tuple[float, int, int], t4: tuple[float, int, int], takes: bool
) -> None:
    before = builders.prediction(h200=(30, 1000, 30), t4=(60, 1000, 60))
    old = placed("old", 60, annotations={names.PREDICTION: before})
    new = serving("new", 60, created=NOW + 5, annotations={names.PREDICTION: builders.prediction(h200=h200, t4=t4)})
    assert after(old, new) == (NOW if takes else NOW + 5)


def test_a_pod_that_waits_only_leaves_no_place() -> None:
    source = ledger.Ledger()
    take(source, serving("old"), at=NOW)
    source.pod_gone(PodUID("uid-old"))
    take(source, serving("new", created=NOW + 5), at=NOW + 5)
    assert since(source, "new") == NOW + 5


def test_a_place_that_was_taken_over_is_handed_on() -> None:
    source = ledger.Ledger()
    take(source, placed("first"), at=NOW)
    source.pod_gone(PodUID("uid-first"))
    take(source, serving("second", created=NOW + 5), at=NOW + 5)
    take(source, placed("second", created=NOW + 5, version=2), at=NOW + 50)
    source.pod_gone(PodUID("uid-second"))
    take(source, serving("third", created=NOW + 60), at=NOW + 60)
    assert since(source, "third") == NOW
