"""`cotenant why`: the words of the condition that decides, where each pod is, and what could not be read."""

import json
from typing import Any

import pytest

from cli import kit
from cotenant_api import dljob, errors, names, packingpolicy, tables
from cotenant_cli.reading import cluster
from cotenant_cli.views import explanation_lines

OF_BERT = {names.DLJOB_LABEL: "bert"}
WORDS = "2 GPUs hold 3 jobs, 1 lacks 3.1 GiB; 4th in the queue"


def text(name: str, *, look: tables.Look | None = None, **objects: Any) -> str:
    return "\n".join(explanation_lines.lines(kit.why(name, **objects), look or tables.Look()))


def waiting(**changed: Any) -> dict[str, Any]:
    told = kit.packed("InsufficientShare", WORDS)
    return {
        "dljobs": [kit.dljob("bert", kit.condition(dljob.QUEUED, "InsufficientShare", WORDS))],
        "pods": [kit.pod("bert-0", labels=OF_BERT, conditions=[told], **changed)],
    }


def running(*more: kit.Object) -> dict[str, Any]:
    placed = kit.condition(dljob.QUEUED, "Placed", "1 of 1 replicas placed", status="False")
    return {
        "dljobs": [kit.dljob("bert", placed, phase="Running")],
        "pods": [kit.pod("bert-0", on="GPU-0", labels=OF_BERT, conditions=[kit.packed("Placed")]), *more],
    }


WAITS = """\
Name:       team/bert (DLJob)
Phase:      Queued
Why:        InsufficientShare: 2 GPUs hold 3 jobs, 1 lacks 3.1 GiB; 4th in the queue
Waiting:    1h4m
Asks for:   55 hundredths of a GPU; any GPU model
Predicted:  40 % of NVIDIA-A10, at most 55 %, and at most 4000 MiB; bound by Compute (Model)
Policy:     FirstFit, at most 3 pods on a GPU, tenancy SameNamespace, order DecreasingShare; generation 3

POD      REASON              NODE        GPU   MODEL    BOOKED%      SM%      MIB   BESIDE
bert-0   InsufficientShare   <none>   <none>   <none>    <none>   <none>   <none>   <none>"""

RUNS = """\
Name:       team/bert (DLJob)
Phase:      Running
Why:        Placed: 1 of 1 replicas placed
Asks for:   55 hundredths of a GPU; any GPU model
Predicted:  40 % of NVIDIA-A10, at most 55 %, and at most 4000 MiB; bound by Compute (Model)
Policy:     FirstFit, at most 3 pods on a GPU, tenancy SameNamespace, order DecreasingShare; generation 3
Chosen:     the first GPU that fits

POD      REASON   NODE   GPU   MODEL        BOOKED%   SM%    MIB   BESIDE
bert-0   Placed   n1       0   NVIDIA-A10        55    60   4000   other/far (?), team/near (30)"""


def test_a_waiting_job_says_the_words_of_its_condition() -> None:
    assert text("bert", **waiting()) == WAITS
    assert kit.why("bert", **waiting()).queue_position == 4


def test_a_placed_job_says_where_it_is_why_there_and_beside_whom() -> None:
    near = kit.pod("near", notes={names.PLACEMENT: kit.placement("near", "GPU-0", share=30)})
    told = kit.gpunode(kit.gpu(tenants=[kit.tenant("bert-0"), kit.tenant("far", namespace="other")]))
    assert text("bert", **running(near), gpunodes=[told]) == RUNS


@pytest.mark.parametrize("wide", [False, True])
def test_an_upper_bound_is_never_shown_below_itself(wide: bool) -> None:
    pod = kit.pod("bert-0", on="GPU-0", labels=OF_BERT, notes={names.PREDICTION: kit.prediction(upper=54.4)})
    said = text("bert", look=tables.Look(wide=wide), **running() | {"pods": [pod]})
    assert "40 % of NVIDIA-A10, at most 55 %" in said
    assert " 54 " not in said


def test_wide_adds_predictions_for_every_model_and_all_conditions() -> None:
    said = text("bert", look=tables.Look(wide=True), **running())
    assert "NVIDIA-L4            70       90   4000   Compute" in said
    assert "Queued      False    Placed" in said


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (kit.condition(dljob.FAILED, "BackoffLimitExceeded", "7 failures"), "BackoffLimitExceeded"),
        (kit.condition(dljob.COMPLETE, "Completed", "done"), "Completed"),
        (kit.condition(dljob.SUSPENDED, "Suspended", "spec.suspend is true"), "Suspended"),
    ],
)
def test_the_end_and_a_suspension_decide_before_the_queue(condition: kit.Object, reason: str) -> None:
    queued = kit.condition(dljob.QUEUED, "Other", "", status="False")
    assert kit.why("bert", dljobs=[kit.dljob("bert", queued, condition)]).reason == reason


def test_a_job_of_which_nobody_has_spoken_says_so() -> None:
    shown = kit.why("bert", dljobs=[kit.dljob("bert")])
    assert (shown.reason, shown.since) == ("", kit.BEFORE)
    assert "operator" in shown.message


def test_a_pod_says_what_the_extender_says_of_it() -> None:
    shown = kit.why("one", pods=[kit.pod("one", conditions=[kit.packed("TenantLimit", WORDS)])])
    assert (shown.kind, shown.reason, shown.message) == ("Pod", "TenantLimit", WORDS)


def test_a_job_of_others_speaks_by_the_pod_that_waits() -> None:
    of_job = {"batch.kubernetes.io/job-name": "theirs"}
    there = kit.pod("theirs-0", on="GPU-0", labels=of_job)
    waits = kit.pod("theirs-1", labels=of_job, conditions=[kit.packed("TenantLimit", WORDS)])
    shown = kit.why("theirs", pods=[there, waits])
    assert (shown.kind, shown.reason) == ("Job", "TenantLimit")
    assert [one.pod for one in shown.replicas] == ["theirs-0", "theirs-1"]


@pytest.mark.parametrize(
    ("pod", "reason", "words"),
    [
        (kit.pod("one", gates=["kueue.x-k8s.io/admission", names.PACKING_GATE]), "SchedulingGated", "kueue.x-k8s.io"),
        (kit.pod("one", share=150), "InvalidRequest", names.GPU_SHARE),
        (kit.pod("one", notes={names.PREDICTION: "{}"}), "InvalidRequest", names.PREDICTION),
        (kit.pod("one"), "", "extender"),
        (
            kit.pod("one", conditions=[{"type": "PodScheduled", "reason": "Unschedulable", "message": "no CPU"}]),
            "Unschedulable",
            "no CPU",
        ),
        (
            kit.pod(
                "one",
                on="GPU-0",
                conditions=[kit.packed("Placed")],
                status={
                    "containerStatuses": [
                        {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no image"}}}
                    ]
                },
            ),
            "ImagePullBackOff",
            "main: no image",
        ),
    ],
)
def test_what_holds_a_pod_up_is_named(pod: kit.Object, reason: str, words: str) -> None:
    shown = kit.why("one", pods=[pod])
    assert shown.reason == reason
    assert words in shown.message


def test_pods_of_earlier_attempts_are_left_out() -> None:
    objects = running(kit.pod("bert-old", labels=OF_BERT, status={"phase": "Failed"}))
    assert [one.pod for one in kit.why("bert", **objects).replicas] == ["bert-0"]


def test_who_has_ended_is_nobodys_neighbour() -> None:
    gone = kit.pod("gone", on="GPU-0", status={"phase": "Succeeded"})
    ((part,),) = (one.gpus for one in kit.why("bert", **running(gone)).replicas)
    assert part.neighbours == ()


def test_who_has_ended_has_no_neighbours_any_more() -> None:
    over = kit.pod("one", on="GPU-0", status={"phase": "Succeeded"})
    *_, row = text("one", pods=[over, kit.pod("near", on="GPU-0")]).splitlines()
    assert row.endswith("4000   <none>")


def test_a_placement_by_an_earlier_policy_is_not_explained_by_the_one_in_force() -> None:
    notes = {names.PLACEMENT: kit.placement("one", "GPU-0", generation=2)}
    assert "Chosen:     by the policy of generation 2;" in text("one", pods=[kit.pod("one", on="GPU-0", notes=notes)])


@pytest.mark.parametrize("placement", packingpolicy.Placement)
def test_every_placement_is_explained(placement: packingpolicy.Placement) -> None:
    assert "Chosen:" in text("one", pods=[kit.pod("one", on="GPU-0")], policies=[kit.policy(placement=placement)])


def test_what_may_not_be_read_is_told_and_the_rest_is_shown() -> None:
    shown = kit.why("bert", **running(), forbidden=[cluster.GPUNODES, cluster.POLICIES])
    assert [note.count("403") for note in shown.notes] == [1, 1]
    ((part,),) = (one.gpus for one in shown.replicas)
    assert (part.uuid, part.share, part.model) == ("GPU-0", 55, None)


def test_pods_that_may_not_be_read_are_an_error() -> None:
    with pytest.raises(errors.PermanentError, match="403"):
        kit.why("bert", forbidden=[cluster.pods_path(kit.TEAM)])


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ({"policies": []}, "no PackingPolicy"),
        ({"policies": [kit.policy(paused=True)]}, "spec.paused"),
        ({"policies": [kit.policy(placement="Nowhere")]}, "PackingPolicy.spec.placement"),
        ({"dljobs": [kit.dljob("one", generation=2)]}, "last change of its spec"),
        (
            {"gpunodes": [kit.gpunode(refused=[{"podUID": "uid-one", "reason": "no MPS"}])]},
            "refuses a pod of it: no MPS",
        ),
    ],
)
def test_what_keeps_it_waiting_beside_its_condition_is_a_note(objects: dict[str, Any], words: str) -> None:
    (note,) = kit.why("one", pods=[kit.pod("one", labels={names.DLJOB_LABEL: "one"})], **objects).notes
    assert words in note


def test_simulated_gpus_are_called_so() -> None:
    assert "are simulated" in text("bert", **running(), gpunodes=[kit.gpunode(kit.gpu(), simulated=True)])


def test_a_name_that_is_nobodys_is_refused_with_the_remedy() -> None:
    with pytest.raises(errors.NotFoundError, match=r"JOB: 'team/nobody'.*kubectl get dljobs,pods -n team"):
        kit.why("nobody", pods=[kit.pod("other")])


def test_a_pod_without_a_share_is_nobody() -> None:
    with pytest.raises(errors.NotFoundError, match=names.GPU_SHARE):
        kit.why("plain", pods=[kit.pod("plain", share=None)])


def test_no_word_of_others_reaches_a_terminal_as_more_than_text() -> None:
    bad = kit.condition(dljob.QUEUED, "InsufficientShare", kit.HOSTILE)
    pods = [kit.pod("bert-0", labels=OF_BERT, conditions=[kit.packed("TenantLimit", kit.HOSTILE)])]
    told = [kit.gpunode(refused=[{"podUID": "uid-bert-0", "reason": kit.HOSTILE}])]
    said = text("bert", look=tables.Look(wide=True), dljobs=[kit.dljob("bert", bad)], pods=pods, gpunodes=told)
    assert said.count("owned") == 4
    assert all(line.isprintable() for line in said.splitlines())
    assert "\nrm" not in said


def test_the_document_keeps_its_keys() -> None:
    document = kit.why("bert", **running()).to_object()
    assert document["v"] == 1
    assert " ".join(sorted(document)) == (
        "asked conditions expected kind message name namespace notes phase policy queuePosition reason "
        "replicas since taken v"
    )
    (replica,) = document["replicas"]
    assert " ".join(sorted(replica)) == "gpus index message node phase pod policyGeneration reason"
    (part,) = replica["gpus"]
    assert " ".join(sorted(part)) == ("activeThreadPercentage health index memoryMiB model neighbours share uuid")
    assert " ".join(sorted(document["policy"])) == "generation maxTenantsPerGPU mode order paused placement tenancy"
    assert json.loads(json.dumps(document)) == document
