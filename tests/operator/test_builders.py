"""The manifests: whole ones once, then what each field of the spec changes."""

import json
from typing import Any

import pytest

from cotenant_api import dljob, names, pod, rootless
from cotenant_operator import labels
from cotenant_operator.state import carried, grants, reading, views
from cotenant_operator.workloads import builders, digests
from operator_kit import objects
from operator_kit.server import START

Json = dict[str, Any]

SHARED = grants.Grant(share=57, prediction='{"v":1}', gpu_models=None)
META = {"namespace": "team", "uid": "uid-1", "creationTimestamp": "2026-01-01T00:00:00Z"}
WHOLE = grants.Grant(share=200, prediction=None, gpu_models=None)
OBSERVED = grants.Grant(share=200, prediction=None, gpu_models=None, observed_only=True)


def owner(**spec: Any) -> views.DLJob:
    value = objects.dljob(**spec)
    metadata = {
        **value["metadata"],
        "namespace": "team",
        "uid": "uid-1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"kueue.x-k8s.io/queue-name": "q", "other": "x"} if spec.get("managedBy") else {},
    }
    return reading.dl_job({**value, "metadata": metadata})


def spec_of(job: views.DLJob) -> dljob.Spec:
    assert job.spec is not None
    return job.spec


def job_of(grant: grants.Grant = SHARED, attempt: int = 1, **spec: Any) -> Json:
    job = owner(**spec)
    return builders.queued(builders.job(job, spec_of(job), grant, attempt=attempt), since=job.meta.created)


def deployment_of(grant: grants.Grant = SHARED, **spec: Any) -> Json:
    job = owner(workloadType="Inference", **spec)
    return builders.deployment(job, spec_of(job), grant)


def container(manifest: Json, index: int = 0) -> Json:
    found: Json = manifest["spec"]["template"]["spec"]["containers"][index]
    return found


def notes(manifest: Json) -> Json:
    found: Json = manifest["spec"]["template"]["metadata"]["annotations"]
    return found


def test_the_job_of_a_plain_training_job_is_exactly_this() -> None:
    manifest = job_of()
    digests = manifest["metadata"].pop("annotations")
    assert digests.pop("cotenant.dev/suspend") == "false"
    assert set(digests) == {"cotenant.dev/made-from", "cotenant.dev/spec-digest", "cotenant.dev/model-digest"}
    labels = {
        "cotenant.dev/dljob": "train",
        "cotenant.dev/attempt": "1",
        "app.kubernetes.io/managed-by": "cotenant-operator",
    }
    assert manifest == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train-1",
            "namespace": "team",
            "labels": labels,
            "ownerReferences": [
                {
                    "apiVersion": "cotenant.dev/v1alpha1",
                    "kind": "DLJob",
                    "name": "train",
                    "uid": "uid-1",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "completionMode": "Indexed",
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": 6,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
            },
            "suspend": False,
            "template": {
                "metadata": {
                    "labels": {**labels, "cotenant.dev/dljob-uid": "uid-1"},
                    "annotations": {
                        "cotenant.dev/prediction": '{"v":1}',
                        "cotenant.dev/processes-per-gpu": "1",
                        "cotenant.dev/queued-since": "2026-01-01T00:00:00Z",
                        "cotenant.dev/workload-type": "Training",
                    },
                },
                "spec": {
                    "restartPolicy": "Never",
                    "schedulerName": "cotenant",
                    "schedulingGates": [{"name": "cotenant.dev/packing"}],
                    "containers": [
                        {
                            "name": "main",
                            "image": "busybox",
                            "securityContext": rootless.PROVEN,
                            "terminationMessagePolicy": "FallbackToLogsOnError",
                            "env": [
                                {"name": "COTENANT_ATTEMPT", "value": "1"},
                                {"name": "COTENANT_MAY_RESUME", "value": "false"},
                            ],
                            "resources": {
                                "requests": {"cotenant.dev/gpu-share": "57"},
                                "limits": {"cotenant.dev/gpu-share": "57"},
                            },
                        }
                    ],
                },
            },
        },
    }


def test_what_a_pod_says_is_what_the_pod_contract_reads() -> None:
    manifest = job_of(replicas=4, gpuMemory="8Gi", processesPerGPU=2, attempt=3)
    template = manifest["spec"]["template"]
    template["metadata"]["annotations"].pop(names.PREDICTION)
    read = pod.demand({**template, "metadata": {**template["metadata"], "uid": "u", "namespace": "team", "name": "p"}})
    assert (read.share, read.container, read.memory_mib, read.processes_per_gpu) == (57, "main", 8192, 2)
    assert read.gang == pod.Gang(name="train-3", size=4)
    assert read.queued_since == START


def test_a_gang_has_no_retries_of_its_own_and_knows_its_ranks() -> None:
    manifest = job_of(replicas=4, backoffLimit=3)
    assert manifest["spec"]["backoffLimit"] == 0
    assert manifest["spec"]["completions"] == manifest["spec"]["parallelism"] == 4
    environment = {item["name"]: item for item in container(manifest)["env"]}
    assert environment["WORLD_SIZE"]["value"] == environment["PET_NNODES"]["value"] == "4"
    assert "completion-index" in environment["RANK"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert environment["PET_NODE_RANK"]["valueFrom"] == environment["RANK"]["valueFrom"]
    assert environment["PET_NPROC_PER_NODE"]["value"] == "1"


def test_a_gang_finds_its_first_member_by_the_service_of_its_name() -> None:
    job = owner(replicas=4)
    service = builders.headless_service(job)
    manifest = job_of(replicas=4, attempt=2)
    environment = {item["name"]: item.get("value") for item in container(manifest)["env"]}
    labels = manifest["spec"]["template"]["metadata"]["labels"]
    assert service["metadata"]["name"] == manifest["spec"]["template"]["spec"]["subdomain"] == "gang-train"
    assert service["spec"]["selector"].items() <= labels.items()
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)
    assert (environment["MASTER_ADDR"], environment["MASTER_PORT"]) == ("train-2-0.gang-train", "29500")
    assert (environment["PET_MASTER_ADDR"], environment["PET_MASTER_PORT"]) == ("$(MASTER_ADDR)", "$(MASTER_PORT)")


def test_a_service_has_no_name_that_others_give_to_theirs() -> None:
    value = reading.dl_job({**objects.dljob("7b", replicas=2), "metadata": {**META, "name": "7b"}})
    assert builders.headless_service(value)["metadata"]["name"] == "gang-7b"


def test_a_subdomain_that_the_user_set_stands_and_needs_no_service_of_ours() -> None:
    template = {"spec": {"subdomain": "mine", "containers": [{"name": "main", "image": "x"}]}}
    manifest = job_of(replicas=2, template=template)
    environment = {item["name"]: item.get("value") for item in container(manifest)["env"]}
    assert manifest["spec"]["template"]["spec"]["subdomain"] == "mine"
    assert environment["MASTER_ADDR"] == "train-1-0.mine"
    assert not builders.needs_service(spec_of(owner(replicas=2, template=template)))


@pytest.mark.parametrize("empty", ["", None])
def test_an_empty_subdomain_is_none_and_the_gang_gets_a_service(empty: str | None) -> None:
    template = {"spec": {"subdomain": empty, "containers": [{"name": "main", "image": "x"}]}}
    manifest = job_of(replicas=2, template=template)
    assert builders.needs_service(spec_of(owner(replicas=2, template=template)))
    assert manifest["spec"]["template"]["spec"]["subdomain"] == "gang-train"
    assert {"name": "MASTER_ADDR", "value": "train-1-0.gang-train"} in container(manifest)["env"]


def test_a_second_attempt_may_resume_and_says_what_it_takes_over() -> None:
    taken_over = carried.Carried(failures=2, memory_mib=4096)
    job = owner(backoffLimit=3)
    manifest = builders.job(job, spec_of(job), SHARED, attempt=2, taken_over=taken_over)
    environment = {item["name"]: item["value"] for item in container(manifest)["env"]}
    assert environment == {"COTENANT_ATTEMPT": "2", "COTENANT_MAY_RESUME": "true"}
    assert manifest["spec"]["backoffLimit"] == 1
    assert carried.of_attempt(manifest["metadata"]["annotations"][labels.CARRIED], attempt=2) == taken_over


def test_several_gpus_of_a_pod_get_a_process_each() -> None:
    environment = {item["name"]: item["value"] for item in container(job_of(WHOLE, gpusPerReplica=2))["env"]}
    assert environment["PET_NPROC_PER_NODE"] == "2"


def test_a_termination_message_policy_of_the_user_stands() -> None:
    containers = [{"name": "main", "image": "x", "terminationMessagePolicy": "File"}]
    assert container(job_of(template={"spec": {"containers": containers}}))["terminationMessagePolicy"] == "File"


@pytest.mark.parametrize("empty", ["", None])
def test_an_empty_termination_message_policy_is_none(empty: str | None) -> None:
    containers = [{"name": "main", "image": "x", "terminationMessagePolicy": empty}]
    found = container(job_of(template={"spec": {"containers": containers}}))
    assert found["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_annotations_that_the_operator_alone_writes_are_not_taken_from_a_users_template() -> None:
    others = (names.GPU_MEMORY, names.GPU_MODELS, names.GANG, names.MINIMUM_RUN_SECONDS, labels.REVISION)
    forged = dict.fromkeys((*names.RESERVED_ANNOTATIONS, *others), "forged")
    containers = [{"name": "main", "image": "x"}]
    template = {"metadata": {"annotations": {**forged, "mine": "kept"}}, "spec": {"containers": containers}}
    found = notes(job_of(WHOLE, template=template))
    assert names.PREDICTION not in found
    assert found[names.QUEUED_SINCE] == "2026-01-01T00:00:00Z"
    assert names.QUEUED_SINCE not in notes(deployment_of(WHOLE, template=template))
    assert found["mine"] == "kept"
    assert "forged" not in found.values()


def test_a_users_template_does_not_call_its_pods_an_extractions() -> None:
    template = {
        "metadata": {"labels": {labels.EXTRACTION: "x", "mine": "kept"}},
        "spec": {"containers": [{"name": "main"}]},
    }
    found = job_of(WHOLE, template=template)["spec"]["template"]["metadata"]["labels"]
    assert labels.EXTRACTION not in found
    assert found["mine"] == "kept"


def test_minimum_run_time_goes_to_the_pods() -> None:
    assert notes(job_of(minimumRunSeconds=600))[names.MINIMUM_RUN_SECONDS] == "600"
    assert names.MINIMUM_RUN_SECONDS not in notes(job_of())


def test_memory_of_the_grant_comes_before_that_of_the_spec() -> None:
    grant = grants.Grant(share=57, prediction='{"v":1}', gpu_models=None, gpu_memory="9000Mi")
    assert notes(job_of(grant, gpuMemory="8Gi"))[names.GPU_MEMORY] == "9000Mi"


def test_environment_that_the_user_set_stands() -> None:
    containers = [{"name": "main", "image": "x", "env": [{"name": "WORLD_SIZE", "value": "32"}]}]
    manifest = job_of(replicas=4, template={"spec": {"containers": containers}})
    assert [item for item in container(manifest)["env"] if item["name"] == "WORLD_SIZE"] == containers[0]["env"]


def test_a_single_replica_is_no_gang() -> None:
    manifest = job_of(backoffLimit=2)
    assert names.GANG not in notes(manifest)
    assert [item["name"] for item in container(manifest)["env"]] == ["COTENANT_ATTEMPT", "COTENANT_MAY_RESUME"]
    assert "subdomain" not in manifest["spec"]["template"]["spec"]
    assert manifest["spec"]["backoffLimit"] == 2


def test_the_named_container_gets_the_share_and_no_other() -> None:
    containers = [{"name": "side", "image": "x"}, {"name": "gpu", "image": "y", "resources": {"limits": {"cpu": "2"}}}]
    manifest = job_of(container="gpu", template={"spec": {"containers": containers}})
    assert "resources" not in container(manifest, 0)
    assert container(manifest, 1)["resources"]["limits"] == {"cpu": "2", names.GPU_SHARE: "57"}


def test_labels_annotations_and_gates_of_the_user_stay() -> None:
    template = {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
        "spec": {"containers": [{"name": "main"}], "schedulingGates": [{"name": "example.com/wait"}]},
    }
    manifest = job_of(template=template)
    inner = manifest["spec"]["template"]
    assert inner["metadata"]["labels"]["team"] == "a"
    assert inner["metadata"]["annotations"]["note"] == "b"
    assert [gate["name"] for gate in inner["spec"]["schedulingGates"]] == ["example.com/wait", names.PACKING_GATE]


def test_the_users_template_itself_is_not_changed() -> None:
    job = owner()
    before = json.dumps(spec_of(job).template)
    builders.job(job, spec_of(job), SHARED, attempt=1)
    assert json.dumps(spec_of(job).template) == before


def test_whole_gpus_carry_no_prediction() -> None:
    manifest = job_of(WHOLE, gpusPerReplica=2)
    assert container(manifest)["resources"]["limits"][names.GPU_SHARE] == "200"
    assert names.PREDICTION not in notes(manifest)


def test_mode_observe_asks_the_default_scheduler_for_gpus() -> None:
    manifest = job_of(OBSERVED)
    assert container(manifest)["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    inner = manifest["spec"]["template"]["spec"]
    assert "schedulerName" not in inner
    assert "schedulingGates" not in inner


def test_kueue_gets_its_labels_and_a_suspended_job() -> None:
    manifest = job_of(managedBy="kueue.x-k8s.io/multikueue")
    assert manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "q"
    assert "other" not in manifest["metadata"]["labels"]
    assert manifest["spec"]["suspend"] is True
    assert manifest["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"


def test_deployment_selects_the_pods_of_this_very_dljob() -> None:
    manifest = deployment_of(replicas=3)
    selector = manifest["spec"]["selector"]["matchLabels"]
    assert selector == {"cotenant.dev/dljob": "train", "cotenant.dev/dljob-uid": "uid-1"}
    assert selector.items() <= manifest["spec"]["template"]["metadata"]["labels"].items()
    assert manifest["spec"]["replicas"] == 3
    assert manifest["spec"]["template"]["spec"]["restartPolicy"] == "Always"
    assert names.ATTEMPT_LABEL not in manifest["metadata"]["labels"]


def test_suspended_deployment_has_no_replicas() -> None:
    assert deployment_of(replicas=3, suspend=True)["spec"]["replicas"] == 0


@pytest.mark.parametrize(
    "change",
    [{"suspend": True}, {"backoffLimit": 1}, {"activeDeadlineSeconds": 5}, {"ttlSecondsAfterFinished": 5}],
)
def test_fields_that_act_without_a_new_workload_leave_the_digest(change: Json) -> None:
    assert digests.of_spec(spec_of(owner())) == digests.of_spec(spec_of(owner(**change)))


@pytest.mark.parametrize(
    "change", [{"gpuMemory": "1Gi"}, {"gpuModels": ["Tesla-T4"]}, {"sharing": "Exclusive"}, {"model": None}]
)
def test_fields_that_a_workload_is_made_from_change_the_digest(change: Json) -> None:
    assert digests.of_spec(spec_of(owner())) != digests.of_spec(spec_of(owner(**change)))


@pytest.mark.parametrize("grant", [SHARED, WHOLE, OBSERVED, grants.Grant(share=1, prediction="{}", gpu_models="a,b")])
def test_a_grant_is_read_back_from_the_workload(grant: grants.Grant) -> None:
    assert grants.read(job_of(grant)["spec"]["template"]) == grant
