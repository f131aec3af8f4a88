"""What the page shows of a cluster: its parts, made of raw objects, and only those again that changed."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from cli import kit as raw
from cotenant_api import names
from cotenant_cli.reading import objects
from cotenant_cli.views import explanation_lines
from cotenant_dashboard.view import jobs, nodes
from dashboard import kit

WAITS = "2 GPUs hold 3 jobs, 1 lacks 3.1 GiB; 4th in the queue"


def waiting_pod(name: str, **more: Any) -> dict[str, Any]:
    said = [raw.packed("InsufficientShare", WAITS)]
    return raw.pod(name, conditions=said, gates=[names.PACKING_GATE], **more)


@pytest.fixture
def time() -> kit.Time:
    return kit.Time()


def test_a_node_is_shown_as_top_shows_its_gpus(time: kit.Time) -> None:
    page = kit.page(time)
    seen = raw.tenant("a", aloneSeconds=90, aloneUtilizationPercent=43)
    node = raw.gpunode(raw.gpu(tenants=[seen], utilizationPercent=50), simulated=True)
    kit.tell(page.store, gpunodes=[node], pods=[raw.pod("a", on="GPU-0")], policies=[raw.policy()])
    page.step()
    shown = kit.parts(page)["node/n1"]
    assert (shown["ready"], shown["simulated"]) == (True, True)
    (gpu,) = shown["gpus"]
    assert (gpu["bookedShare"], gpu["predictedPercent"], gpu["utilizationPercent"]) == (55, 40.0, 50)
    (tenant,) = gpu["tenants"]
    assert tenant["booked"]["share"] == 55
    assert tenant["predicted"]["utilizationPercent"] == 40.0
    assert tenant["observed"]["aloneUtilizationPercent"] == 43


def test_a_node_that_is_not_ready_says_why(time: kit.Time) -> None:
    page = kit.page(time)
    kit.tell(page.store, gpunodes=[raw.gpunode(raw.gpu(), ready="False")])
    page.step()
    assert kit.parts(page)["node/n1"]["reason"] == "NoCDI: told"


def test_a_waiting_dljob_is_shown_in_the_words_of_why(time: kit.Time) -> None:
    page = kit.page(time)
    job = raw.dljob("bert", raw.condition("Queued", "InsufficientShare", WAITS))
    kit.tell(page.store, dljobs=[job], pods=[waiting_pod("bert-0", labels={names.DLJOB_LABEL: "bert"})])
    page.step()
    row = kit.parts(page)["waiting/team/bert"]
    assert (row["reason"], row["message"], row["position"]) == ("InsufficientShare", WAITS, 4)
    assert (row["kind"], row["share"], row["pods"], row["since"]) == ("DLJob", 55, 1, raw.BEFORE)
    said = dict(fact[:2] for fact in explanation_lines.facts(page.explained("team", "bert")))
    assert said["Why"] == f"{row['reason']}: {row['message']}"


def test_a_waiting_pod_of_no_dljob_is_shown_too(time: kit.Time) -> None:
    page = kit.page(time)
    kit.tell(
        page.store, pods=[waiting_pod("alone"), waiting_pod("of-job-0", labels={"batch.kubernetes.io/job-name": "j"})]
    )
    page.step()
    assert {key for key in kit.parts(page) if key.startswith("waiting/")} == {"waiting/team/alone", "waiting/team/j"}


def test_pods_whose_dljob_is_gone_are_shown_by_their_own_names(time: kit.Time) -> None:
    page = kit.page(time)
    kit.tell(page.store, pods=[waiting_pod("bert-0", labels={names.DLJOB_LABEL: "bert"})])
    page.step()
    assert kit.parts(page)["waiting/team/bert"]["name"] == "bert-0"


def test_a_job_that_is_placed_leaves_the_queue(time: kit.Time) -> None:
    page = kit.page(time)
    kit.tell(page.store, gpunodes=[raw.gpunode(raw.gpu())], pods=[waiting_pod("a")])
    page.step()
    seen = page.revision
    kit.change_pod(page.store, raw.pod("a", on="GPU-0"))
    page.step()
    change = page.since(seen)
    assert change.gone == ("waiting/team/a",)
    assert json.loads(change.parts["node/n1"])["gpus"][0]["bookedShare"] == 55


def test_nothing_is_said_of_jobs_before_dljobs_and_pods_are_known(time: kit.Time) -> None:
    page = kit.page(time)
    page.store.pods().listed({})
    kit.change_pod(page.store, waiting_pod("bert-0", labels={names.DLJOB_LABEL: "bert"}))
    page.step()
    assert not [key for key in kit.parts(page) if key.startswith("waiting/")]
    kit.tell(page.store, pods=[waiting_pod("bert-0", labels={names.DLJOB_LABEL: "bert"})], dljobs=[raw.dljob("bert")])
    page.step()
    assert kit.parts(page)["waiting/team/bert"]["name"] == "bert"


def test_only_the_nodes_that_changed_are_news(time: kit.Time) -> None:
    page = kit.page(time)
    nodes = [raw.gpunode(raw.gpu(f"GPU-{name}"), name=name) for name in ("n1", "n2", "n3")]
    kit.tell(page.store, gpunodes=nodes, policies=[raw.policy()])
    page.step()
    seen = page.revision
    kit.tell(
        page.store,
        gpunodes=[*nodes[:2], raw.gpunode(raw.gpu("GPU-n3", utilizationPercent=9), name="n3")],
        policies=[raw.policy()],
    )
    page.step()
    assert list(page.since(seen).parts) == ["node/n3"]


def test_a_node_that_is_deleted_is_gone(time: kit.Time) -> None:
    page = kit.page(time)
    kit.tell(page.store, gpunodes=[raw.gpunode(raw.gpu())])
    page.step()
    page.store.nodes().gone("n1")
    page.step()
    assert "node/n1" not in kit.parts(page)


def test_the_policy_says_how_a_gpu_is_chosen(time: kit.Time) -> None:
    page = kit.page(time)
    kit.tell(page.store, policies=[raw.policy(placement="BestFit", paused=True)])
    page.step()
    policy = kit.parts(page)["policy"]
    assert policy["generation"] == 3
    assert policy["chosen"] == "the GPU that fits with least left over"
    assert policy["spec"]["paused"] is True


@pytest.mark.parametrize(
    ("policies", "problem"),
    [
        ([], "there is no PackingPolicy named default"),
        ([raw.policy(placement="Nowhere")], "PackingPolicy.spec.placement"),
    ],
)
def test_without_a_policy_the_page_says_why(time: kit.Time, policies: list[dict[str, Any]], problem: str) -> None:
    page = kit.page(time)
    kit.tell(page.store, policies=policies)
    page.step()
    policy = kit.parts(page)["policy"]
    assert policy["generation"] is None
    assert problem in policy["problem"]


def test_what_cannot_be_read_any_more_is_told_and_shown_on(time: kit.Time) -> None:
    page = kit.page(time)
    kit.tell(page.store, gpunodes=[raw.gpunode(raw.gpu())], pods=[raw.pod("a", on="GPU-0")])
    page.step()
    kit.fail(page.store, "GET /api/v1/pods: no answer")
    time.seconds += 1
    page.step()
    shown = kit.parts(page)
    assert shown["cluster"]["sources"]["pods"] == "GET /api/v1/pods: no answer"
    assert shown["node/n1"]["gpus"][0]["tenantCount"] == 1


def test_sums_are_of_all_nodes(time: kit.Time) -> None:
    page = kit.page(time)
    nodes = [
        raw.gpunode(raw.gpu("GPU-0", utilizationPercent=30), raw.gpu("GPU-1", index=1), simulated=True),
        raw.gpunode(raw.gpu("GPU-2", health="Suspect"), name="n2"),
    ]
    kit.tell(
        page.store,
        gpunodes=nodes,
        pods=[raw.pod("a", on="GPU-0"), raw.pod("b", on="GPU-0", share=20), waiting_pod("c")],
    )
    page.step()
    told = kit.parts(page)["cluster"]
    assert (told["gpus"], told["usableGPUs"], told["sharedGPUs"], told["freeGPUs"]) == (3, 2, 1, 2)
    assert (told["tenants"], told["bookedShare"], told["waiting"]) == (2, 110, 1)
    assert (told["observedPercent"], told["observedGPUs"], told["simulatedNodes"]) == (30, 1, 1)


def test_hostile_words_are_made_plain(time: kit.Time) -> None:
    page = kit.page(time)
    pod = raw.pod("a", conditions=[raw.packed("InsufficientShare", raw.HOSTILE)], gates=[names.PACKING_GATE])
    kit.tell(page.store, pods=[pod], gpunodes=[raw.gpunode(raw.gpu(reason=raw.HOSTILE))])
    page.step()
    text = "".join(page.since(None).parts.values())
    assert "\\u001b" not in text
    assert "\u202e" not in text


def test_share_hours_are_counted_while_the_cluster_is_read(time: kit.Time) -> None:
    page = kit.page(time)
    node = raw.gpunode(raw.gpu(tenants=[raw.tenant("a")], utilizationPercent=30))
    kit.tell(page.store, gpunodes=[node], pods=[raw.pod("a", on="GPU-0")], policies=[raw.policy()])
    time.seconds += 500  # before the first list nothing is known
    page.step()
    time.seconds += 1800
    page.step()
    (row,) = kit.parts(page)["namespaces"]["rows"]
    assert (row["bookedShare"], row["pods"], row["knownPercent"]) == (55, 1, 100)
    assert (row["allottedShareHours"], row["usedShareHours"]) == (27.5, 15.0)
    assert page.page.meter.seconds() == {"team": (30 * 1800, 55 * 1800)}
    kit.fail(page.store, "no answer")
    page.step()
    time.seconds += 3600  # what may be old is not counted
    page.step()
    assert kit.parts(page)["namespaces"]["rows"][0]["allottedShareHours"] == 27.5
    assert kit.parts(page)["namespaces"]["countedSeconds"] == 1800


@pytest.mark.parametrize(
    "seen",
    [
        {"tenants": [raw.tenant("a"), raw.tenant("x", namespace="other")]},
        {"foreignProcesses": 1},
        {"utilizationPercent": None},
    ],
)
def test_use_of_a_gpu_that_is_not_one_namespaces_own_is_nobodys(time: kit.Time, seen: dict[str, Any]) -> None:
    page = kit.page(time)
    told: dict[str, Any] = {"tenants": [raw.tenant("a")], "utilizationPercent": 30} | seen
    kit.tell(
        page.store, gpunodes=[raw.gpunode(raw.gpu(**told))], pods=[raw.pod("a", on="GPU-0")], policies=[raw.policy()]
    )
    page.step()
    time.seconds += 3600
    page.step()
    row = next(one for one in kit.parts(page)["namespaces"]["rows"] if one["namespace"] == "team")
    assert (row["allottedShareHours"], row["usedShareHours"], row["knownPercent"]) == (55.0, None, 0)


def test_predictions_are_held_against_what_was_observed_alone(time: kit.Time) -> None:
    page = kit.page(time)
    live = raw.tenant("a", aloneSeconds=90, aloneUtilizationPercent=60)
    short = raw.tenant("b", aloneSeconds=5, aloneUtilizationPercent=10)
    ended: dict[str, Any] = {
        "prediction": {"gpuModel": raw.MODEL, "utilizationPercent": 50, "upperPercent": 60, "source": "Model"},
        "observed": {"gpuUtilizationPercent": 46, "aloneSeconds": 600},
    }
    kit.tell(
        page.store,
        gpunodes=[raw.gpunode(raw.gpu(tenants=[live]), raw.gpu("GPU-1", index=1, tenants=[short]))],
        pods=[raw.pod("a", on="GPU-0"), raw.pod("b", on="GPU-1")],
        dljobs=[raw.dljob("over", phase="Succeeded", **ended)],
    )
    page.step()
    told = kit.parts(page)["accuracy"]
    assert told["summary"] == {"jobs": 2, "medianAbsolutePoints": 12.0, "meanPoints": -8.0, "withinUpper": 1}
    assert [(row["job"], row["enough"]) for row in told["rows"]] == [("a", True), ("over", True), ("b", False)]


def test_without_an_observation_there_is_no_error_to_tell(time: kit.Time) -> None:
    page = kit.page(time)
    kit.tell(page.store, gpunodes=[raw.gpunode(raw.gpu(tenants=[raw.tenant("a")]))], pods=[raw.pod("a", on="GPU-0")])
    page.step()
    assert (kit.parts(page)["accuracy"]["summary"], kit.parts(page)["accuracy"]["rows"]) == (None, [])


def test_a_prediction_of_more_than_a_whole_gpu_is_none(time: kit.Time) -> None:
    page = kit.page(time)
    huge = {names.PREDICTION: raw.prediction(1.7e308, upper=10.0)}
    pods = [raw.pod(name, on=f"GPU-{name}", notes=huge) for name in ("a", "b")]
    kit.tell(page.store, gpunodes=[raw.gpunode(raw.gpu("GPU-a"), raw.gpu("GPU-b", index=1))], pods=pods)
    page.step()
    cluster = kit.parts(page)["cluster"]
    assert (cluster["predictedPercent"], cluster["tenants"]) == (0, 2)
    assert "team/a: " in cluster["notes"][0]


def fails(function: Callable[..., Any], *, for_name: str) -> Callable[..., Any]:
    """The same function, but for one of its objects."""

    def called(one: Any, *more: Any, **named: Any) -> Any:
        if one.name == for_name:
            raise OverflowError("out of range")
        return function(one, *more, **named)

    return called


def test_a_node_that_cannot_be_shown_is_noted_and_ends_no_other(
    time: kit.Time, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(nodes, "view", fails(nodes.view, for_name="n1"))
    page = kit.page(time)
    both = [raw.gpunode(raw.gpu(f"GPU-{name}"), name=name) for name in ("n1", "n2")]
    kit.tell(page.store, gpunodes=both)
    page.step()
    kit.tell(page.store, gpunodes=[raw.gpunode(raw.gpu("GPU-n1", index=1)), both[1]])
    time.seconds += 1
    page.step()
    shown = kit.parts(page)
    assert [key for key in shown if key.startswith("node/")] == ["node/n2"]
    assert (shown["cluster"]["nodes"], len(shown["cluster"]["notes"])) == (1, 1)
    assert "node/n1 cannot be shown" in shown["cluster"]["notes"][0]
    assert len(caplog.records) == 1  # the same problem again is not


def test_a_job_that_cannot_be_shown_is_noted_and_ends_no_other(time: kit.Time, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "view", fails(jobs.view, for_name="a"))
    page = kit.page(time)
    kit.tell(page.store, pods=[waiting_pod("a"), waiting_pod("b")])
    page.step()
    shown = kit.parts(page)
    assert [key for key in shown if key.startswith("waiting/")] == ["waiting/team/b"]
    assert "waiting/team/a cannot be shown" in shown["cluster"]["notes"][0]


def test_what_can_be_shown_again_is_noted_no_more(time: kit.Time, monkeypatch: pytest.MonkeyPatch) -> None:
    page = kit.page(time)
    with monkeypatch.context() as failing:
        failing.setattr(nodes, "view", fails(nodes.view, for_name="n1"))
        kit.tell(page.store, gpunodes=[raw.gpunode(raw.gpu())])
        page.step()
    kit.tell(page.store, gpunodes=[raw.gpunode(raw.gpu(health="Suspect"))])
    time.seconds += 1
    page.step()
    assert kit.parts(page)["cluster"]["notes"] == []
    assert kit.parts(page)["node/n1"]["gpus"][0]["health"] == "Suspect"


def test_sums_are_made_again_twice_a_second_at_most(time: kit.Time) -> None:
    page = kit.page(time)
    kit.tell(page.store, gpunodes=[raw.gpunode(raw.gpu())])
    page.step()
    for name in ("n2", "n3"):
        page.store.nodes().changed(name, objects.node_of(raw.gpunode(raw.gpu(f"GPU-{name}"), name=name)))
        time.seconds += 0.1
        page.step()
    assert kit.parts(page)["cluster"]["gpus"] == 1
    time.seconds += 0.5
    page.step()
    assert kit.parts(page)["cluster"]["gpus"] == 3
