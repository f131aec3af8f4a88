"""Which GPUs take a pod, and what the others say."""

from typing import Any

import pytest

from cotenant_api import names, placement
from cotenant_api.names import GPUUID, NodeName, PodUID
from cotenant_api.pod import PackedReason
from cotenant_extender import records
from cotenant_extender.ledger import ledger
from cotenant_extender.packing import causes, placing, view
from extender import builders
from extender.builders import H200, NOW, T4

Object = dict[str, Any]


def placed(source: ledger.Ledger, raw: Object, *, check_host: bool = True) -> placement.Placement | causes.Rejection:
    request = records.pod_record(raw).request
    assert request is not None
    return placing.place(source.seen(), request, source.known, check_host=check_host)


def where(source: ledger.Ledger, raw: Object) -> list[str]:
    found = placed(source, raw)
    assert isinstance(found, placement.Placement), found
    return [gpu.uuid for gpu in found.gpus]


def refused(source: ledger.Ledger, raw: Object) -> tuple[PackedReason, str]:
    found = placed(source, raw)
    assert isinstance(found, causes.Rejection), found
    return found.reason, found.message


def memory(text: str) -> Object:
    return {names.GPU_MEMORY: text}


def test_an_empty_cluster_takes_a_pod_on_its_first_gpu_of_its_first_node() -> None:
    assert where(builders.cluster(nodes=3), builders.pod("a")) == ["GPU-n0-0"]


def test_nodes_are_tried_by_name_and_gpus_by_index() -> None:
    source = builders.cluster(nodes=0)
    for name in ("b", "c", "a"):
        builders.add_node(source, name)
    order = [(node.name, gpu.index) for node in source.seen().nodes for gpu in node.gpus]
    assert order == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("c", 0), ("c", 1)]


def test_a_gpu_is_filled_up_to_a_hundred_hundredths_and_no_further() -> None:
    source = builders.cluster(gpus=1)
    builders.put(source, builders.bound("a", 60, "n0", "GPU-n0-0"))
    assert where(source, builders.pod("b", 40)) == ["GPU-n0-0"]
    assert refused(source, builders.pod("c", 41)) == (PackedReason.INSUFFICIENT_SHARE, "1 GPU lacks 1 hundredth")


def test_memory_of_a_pod_without_prediction_is_its_annotation() -> None:
    source = builders.cluster(gpus=1)
    builders.put(source, builders.bound("a", 10, "n0", "GPU-n0-0", memory_mib=130_000))
    assert refused(source, builders.pod("b", 10, annotations=memory("8Gi"))) == (
        PackedReason.INSUFFICIENT_MEMORY,
        "1 GPU lacks 1.6 GiB",
    )


def test_memory_of_a_pod_without_prediction_or_annotation_is_its_share_of_what_may_be_booked() -> None:
    found = placed(builders.cluster(gpus=1), builders.pod("a", 50))
    assert isinstance(found, placement.Placement)
    assert found.gpus[0].memory_mib == 143771 * 95 // 100 // 2


def test_a_prediction_books_the_upper_bound_on_the_gpu_that_was_chosen() -> None:
    notes = {names.PREDICTION: builders.prediction(h200=(55.0, 9216, 60), t4=(90.0, 10000, 80))}
    on_h200 = placed(builders.cluster(gpus=1), builders.pod("a", 55, annotations=notes))
    on_t4 = placed(builders.cluster(gpus=1, model=T4), builders.pod("a", 55, annotations=notes))
    assert isinstance(on_h200, placement.Placement)
    assert isinstance(on_t4, placement.Placement)
    assert (on_h200.gpus[0].share, on_h200.gpus[0].memory_mib) == (55, 9216)
    assert (on_t4.gpus[0].share, on_t4.gpus[0].memory_mib) == (90, 10000)


def test_annotated_memory_counts_instead_of_the_predicted() -> None:
    notes = {names.PREDICTION: builders.prediction(h200=(55.0, 9216, 60))} | memory("20Gi")
    found = placed(builders.cluster(gpus=1), builders.pod("a", 55, annotations=notes))
    assert isinstance(found, placement.Placement)
    assert found.gpus[0].memory_mib == 20480


def test_a_gpu_model_that_was_not_predicted_is_refused() -> None:
    notes = {names.PREDICTION: builders.prediction(h200=(55.0, 9216, 60))}
    source = builders.cluster(gpus=2, model=T4)
    assert refused(source, builders.pod("a", 55, annotations=notes)) == (
        PackedReason.GPU_MODEL_MISMATCH,
        "2 GPUs are models without prediction",
    )


def test_only_annotated_gpu_models_are_used() -> None:
    source = builders.cluster(nodes=1, gpus=1)
    builders.add_node(source, "n1", gpus=1, model=T4)
    assert where(source, builders.pod("a", annotations={names.GPU_MODELS: "Tesla-T4, NVIDIA-L4"})) == ["GPU-n1-0"]


def test_a_fourth_tenant_is_refused() -> None:
    source = builders.cluster(gpus=1)
    builders.put(source, *(builders.bound(name, 10, "n0", "GPU-n0-0") for name in "abc"))
    assert refused(source, builders.pod("d", 10)) == (PackedReason.TENANT_LIMIT, "1 GPU holds 3 jobs")


def test_an_override_changes_the_limit_for_its_models_alone() -> None:
    source = builders.cluster(gpus=1, model=T4, overrides=[{"gpuModels": [T4], "maxTenantsPerGPU": 1}])
    builders.add_node(source, "n1", gpus=1)
    builders.put(source, builders.bound("a", 10, "n0", "GPU-n0-0"), builders.bound("b", 10, "n1", "GPU-n1-0"))
    assert where(source, builders.pod("c", 10)) == ["GPU-n1-0"]


def test_namespaces_do_not_share_a_gpu() -> None:
    source = builders.cluster(gpus=1)
    builders.put(source, builders.bound("a", 10, "n0", "GPU-n0-0"))
    reason, message = refused(source, builders.pod("b", 10, namespace="others"))
    assert (reason, message) == (PackedReason.TENANCY_CONFLICT, "1 GPU serves another tenancy")


def test_with_tenancy_any_namespaces_share_a_gpu() -> None:
    source = builders.cluster(gpus=1, tenancy="Any")
    builders.put(source, builders.bound("a", 10, "n0", "GPU-n0-0"))
    assert where(source, builders.pod("b", 10, namespace="others")) == ["GPU-n0-0"]


@pytest.mark.parametrize(
    ("mine", "theirs", "namespace", "fits"),
    [
        ({"team": "x"}, {"team": "x"}, "others", True),
        ({"team": "x"}, {"team": "y"}, "team", False),
        ({"team": "x"}, {}, "team", False),
        ({}, {}, "team", True),
        ({}, {}, "others", False),
    ],
)
def test_with_tenancy_label_equal_labels_share_and_unlabelled_pods_share_in_their_namespace(
    mine: Object, theirs: Object, namespace: str, fits: bool
) -> None:
    source = builders.cluster(gpus=1, tenancy="Label", tenancyLabel="team")
    builders.put(source, builders.bound("a", 10, "n0", "GPU-n0-0", labels=theirs))
    found = placed(source, builders.pod("b", 10, labels=mine, namespace=namespace))
    assert isinstance(found, placement.Placement) is fits


def test_a_hundred_hundredths_need_an_empty_gpu_and_leave_nothing() -> None:
    source = builders.cluster(gpus=2)
    builders.put(source, builders.bound("a", 1, "n0", "GPU-n0-0"))
    found = placed(source, builders.pod("b", 100))
    assert isinstance(found, placement.Placement)
    assert (found.gpus[0].uuid, found.backend, found.gpus[0].active_thread_percentage) == ("GPU-n0-1", "Whole", 100)
    builders.put(source, builders.bound("b", 100, "n0", "GPU-n0-1"))
    assert refused(source, builders.pod("c", 100))[0] is PackedReason.INSUFFICIENT_SHARE


def test_a_whole_multi_gpu_job_goes_to_one_node() -> None:
    source = builders.cluster(nodes=2, gpus=2)
    builders.put(source, builders.bound("a", 1, "n0", "GPU-n0-0"))
    assert where(source, builders.pod("b", 200)) == ["GPU-n1-0", "GPU-n1-1"]
    builders.put(source, builders.bound("c", 1, "n1", "GPU-n1-0"))
    assert refused(source, builders.pod("b", 200)) == (
        PackedReason.INSUFFICIENT_SHARE,
        "2 GPUs lack 1 hundredth, 2 are on nodes that offer too little cotenant.dev/gpu-share",
    )


def test_free_gpus_that_are_too_few_on_their_node_say_so() -> None:
    source = builders.cluster(nodes=2, gpus=1)
    builders.put(source, builders.pod("host", 0, node="n9"))
    for name in ("n0", "n1"):
        source.node(records.node_record(builders.node(name, gpus=4)))
    assert refused(source, builders.pod("a", 200)) == (
        PackedReason.INSUFFICIENT_SHARE,
        "2 GPUs are on nodes with too few free GPUs",
    )


def test_memory_is_not_checked_for_several_whole_gpus_or_an_unpredicted_whole_one() -> None:
    source = builders.cluster(gpus=2, model=T4)
    assert len(where(source, builders.pod("a", 200, annotations=memory("500Gi")))) == 2
    assert len(where(source, builders.pod("b", 100))) == 1


def test_memory_of_a_whole_gpu_is_checked_where_it_is_annotated() -> None:
    source = builders.cluster(gpus=1, model=T4)
    reason, message = refused(source, builders.pod("a", 100, annotations=memory("15Gi")))
    assert (reason, message) == (PackedReason.INSUFFICIENT_MEMORY, "1 GPU lacks 768 MiB")


def test_a_lowered_limit_leaves_tenants_where_they_are_and_takes_no_more() -> None:
    source = builders.cluster(gpus=1, maxUtilizationPercent=200)
    notes = {names.PREDICTION: builders.prediction(h200=(100.0, 1000, 60))}
    builders.put(source, builders.bound("a", 50, "n0", "GPU-n0-0", annotations=notes))
    assert where(source, builders.pod("b", 10)) == ["GPU-n0-0"]
    source.policy_changed(builders.in_force(generation=2, maxUtilizationPercent=100))
    assert refused(source, builders.pod("b", 10)) == (PackedReason.INSUFFICIENT_SHARE, "1 GPU lacks 10 hundredths")


@pytest.mark.parametrize("allocatable", [{"cpu": "100m"}, {"memory": "64Mi"}, {"pods": "1"}])
def test_what_a_node_offers_is_used_to_the_last(allocatable: Object) -> None:
    source = builders.cluster(gpus=1)
    source.node(records.node_record(builders.node("n0", gpus=1, allocatable=allocatable)))
    assert where(source, builders.pod("a")) == ["GPU-n0-0"]


@pytest.mark.parametrize("namespace", ["team", "others", "third"])
def test_nobody_joins_tenants_that_do_not_belong_together_under_a_new_policy(namespace: str) -> None:
    source = builders.cluster(gpus=1, tenancy="Any")
    for name in ("team", "others"):
        builders.put(source, builders.bound(name, 20, "n0", "GPU-n0-0", namespace=name))
    source.policy_changed(builders.in_force(generation=2))
    assert refused(source, builders.pod("a", 10, namespace=namespace))[0] is PackedReason.TENANCY_CONFLICT


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        ({"health": "Unhealthy"}, PackedReason.UNHEALTHY_GPU, "are not healthy"),
        ({"health": "Probation"}, PackedReason.UNHEALTHY_GPU, "are not healthy"),
        ({"mode": "MIG"}, PackedReason.UNHEALTHY_GPU, "are in MIG mode"),
        ({"mode": "Excluded"}, PackedReason.UNHEALTHY_GPU, "are excluded by their GPUNode"),
        ({"foreignProcesses": 1}, PackedReason.FOREIGN_USE, "are used by foreign processes"),
        (
            {"tenants": [{"podUID": "who", "namespace": "x", "pod": "y"}]},
            PackedReason.FOREIGN_USE,
            "have tenants that no pod explains",
        ),
    ],
)
def test_a_gpu_that_is_not_fit_for_use_takes_none(change: Object, reason: PackedReason, words: str) -> None:
    source = builders.cluster()
    source.gpunode(records.gpunode_record(builders.gpunode("n0", gpu=change)), now=NOW)
    assert refused(source, builders.pod("a")) == (reason, f"2 GPUs {words}")


def test_the_reason_is_that_of_the_gpus_that_come_nearest_and_not_of_those_that_never_fit() -> None:
    source = builders.cluster(nodes=1, gpus=1)
    for number in range(1, 4):
        builders.add_node(source, f"n{number}", model=T4)
    source.gpunode(records.gpunode_record(builders.gpunode("n0", gpu={"health": "Suspect"})), now=NOW)
    reason, message = refused(source, builders.pod("a", annotations={names.GPU_MODELS: H200}))
    assert reason is PackedReason.UNHEALTHY_GPU
    assert message.endswith("are another model")


def test_an_excluded_gpu_takes_none_before_its_agent_has_said_so() -> None:
    source = builders.cluster()
    raw = builders.gpunode("n0", spec={"excludedGPUs": ["GPU-n0-0"]})
    source.gpunode(records.gpunode_record(raw), now=NOW)
    assert where(source, builders.pod("a")) == ["GPU-n0-1"]


def test_an_agent_that_is_not_ready_closes_its_node() -> None:
    source = builders.cluster()
    source.gpunode(records.gpunode_record(builders.gpunode("n0", ready="False")), now=NOW)
    assert refused(source, builders.pod("a")) == (PackedReason.UNHEALTHY_GPU, "2 GPUs have node agents not ready")


def test_an_agent_whose_lease_has_expired_closes_its_node() -> None:
    source = builders.cluster()
    source.tick(now=NOW + 39)
    assert where(source, builders.pod("a"))
    source.tick(now=NOW + 40)
    assert refused(source, builders.pod("a")) == (PackedReason.UNHEALTHY_GPU, "2 GPUs have silent node agents")


def test_a_lease_from_a_clock_that_runs_ahead_lasts_no_longer() -> None:
    source = builders.cluster()
    source.lease(NodeName("n0"), NOW + 3600, now=NOW)
    source.tick(now=NOW + 41)
    assert refused(source, builders.pod("a"))[0] is PackedReason.UNHEALTHY_GPU


def test_a_running_pod_without_readable_placement_closes_its_node() -> None:
    source = builders.cluster()
    builders.put(source, builders.pod("a", 10, node="n0", phase="Running"))
    assert refused(source, builders.pod("b")) == (
        PackedReason.FOREIGN_USE,
        "2 GPUs are on nodes that run a pod without readable placement",
    )


def test_a_bound_pod_without_placement_that_has_not_started_counts_against_the_nodes_total_alone() -> None:
    source = builders.cluster(gpus=1)
    builders.put(source, builders.pod("a", 70, node="n0"))
    assert where(source, builders.pod("b", 30)) == ["GPU-n0-0"]
    assert refused(source, builders.pod("b", 31)) == (
        PackedReason.INSUFFICIENT_HOST_RESOURCES,
        "1 GPU is on a node that offers too little cotenant.dev/gpu-share",
    )


def test_a_placement_that_covers_less_than_the_request_is_none() -> None:
    raw = builders.pod("a", 50, node="n0", annotations=builders.placement("a", "n0", {"GPU-n0-0": 40}))
    assert records.pod_record(raw).placement is None


def test_requests_of_all_pods_count_against_the_node() -> None:
    source = builders.cluster()
    container = {"name": "x", "resources": {"requests": {"cpu": "63950m"}}}
    builders.put(source, builders.pod("cpu", 0, node="n0", containers=[container]))
    assert refused(source, builders.pod("a")) == (
        PackedReason.INSUFFICIENT_HOST_RESOURCES,
        "2 GPUs are on nodes short of cpu",
    )


def test_filter_leaves_to_kube_scheduler_what_it_judges() -> None:
    source = builders.cluster()
    source.node(records.node_record(builders.node("n0", unschedulable=True)))
    assert refused(source, builders.pod("a"))[0] is PackedReason.INSUFFICIENT_HOST_RESOURCES
    assert isinstance(placed(source, builders.pod("a"), check_host=False), placement.Placement)


def test_a_held_gpu_takes_its_holder_a_higher_priority_and_older_pods_alone() -> None:
    source = builders.cluster(gpus=1)
    hold = view.Hold(holders=frozenset({PodUID("uid-old")}), priority=5, since=NOW - 100)
    source.set_hold(hold, {NodeName("n0"): [GPUUID("GPU-n0-0")]})
    assert refused(source, builders.pod("new", priority=5)) == (
        PackedReason.WAITING_FOR_TURN,
        "1 GPU is held for a job that waits longer",
    )
    assert refused(source, builders.pod("low", priority=4, created=NOW - 500))
    assert where(source, builders.pod("old", priority=5, created=NOW - 100))
    assert where(source, builders.pod("older", priority=5, created=NOW - 101))
    assert where(source, builders.pod("urgent", priority=6))


def test_the_tally_says_what_other_jobs_ends_can_change_first() -> None:
    source = builders.cluster(nodes=2, gpus=2)
    builders.add_node(source, "t", gpus=4, model=T4)
    builders.put(source, *(builders.bound(f"a{i}", 10, "n0", "GPU-n0-0") for i in range(3)))
    builders.put(source, *(builders.bound(f"b{i}", 10, "n0", "GPU-n0-1") for i in range(3)))
    builders.put(source, builders.bound("c", 10, "n1", "GPU-n1-0", memory_mib=136_000))
    builders.put(source, builders.bound("d", 95, "n1", "GPU-n1-1"))
    notes = {names.GPU_MODELS: H200} | memory("4Gi")
    assert refused(source, builders.pod("e", 10, annotations=notes)) == (
        PackedReason.TENANT_LIMIT,
        "2 GPUs hold 3 jobs, 1 lacks 5 hundredths, 1 lacks 3.5 GiB, 4 are another model",
    )


def test_without_any_gpu_the_message_says_so() -> None:
    assert refused(builders.cluster(nodes=0), builders.pod("a")) == (
        PackedReason.INSUFFICIENT_SHARE,
        "no node offers a GPU",
    )


@pytest.mark.parametrize(
    ("mine", "theirs", "priority"),
    [("Training", "Inference", 1), ("Training", "Training", 0), ("Inference", "Training", 0)],
)
def test_training_that_joins_inference_gets_the_lower_client_priority(mine: str, theirs: str, priority: int) -> None:
    source = builders.cluster()
    other = builders.bound("a", 10, "n0", "GPU-n0-0", annotations={names.WORKLOAD_TYPE: theirs})
    builders.put(source, other)
    found = placed(source, builders.pod("b", 10, annotations={names.WORKLOAD_TYPE: mine}))
    assert isinstance(found, placement.Placement)
    assert found.gpus[0].client_priority == priority
