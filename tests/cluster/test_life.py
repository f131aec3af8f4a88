"""The happy way: what is applied is predicted, packed, bound, run to its end and shown."""

from cluster.workloads import SECONDS, Workspace, graph_document, placement_of, pod_object, template
from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import waiting


def test_a_training_job_is_predicted_placed_and_succeeds(workspace: Workspace) -> None:
    workspace.dljob("train", model=workspace.graph("graph"), template=template(run_for=""))
    running = workspace.wait_for_phase("train", Phase.RUNNING)
    replica = running["replicas"][0]
    pod = workspace.client.get(workspace.pods(replica["pod"]))
    placement = placement_of(pod)
    assert replica["node"] == pod["spec"]["nodeName"] == placement["node"]
    assert placement["podUID"] == pod["metadata"]["uid"]
    assert placement["gpus"][0]["uuid"] == replica["gpus"][0]["uuid"]
    assert running["prediction"]["source"] == "Model"
    assert running["prediction"]["utilizationPercent"] <= running["prediction"]["upperPercent"]
    workspace.end_pods("train")
    finished = workspace.wait_for_phase("train", Phase.SUCCEEDED)
    assert finished["completionTime"]
    assert workspace.condition("train", "Complete")["status"] == "True"


def test_the_pod_asks_for_the_share_that_was_predicted(workspace: Workspace) -> None:
    workspace.dljob("train", model=workspace.graph("graph"), template=template(run_for="30s"))
    status = workspace.wait_for_phase("train", Phase.RUNNING)
    pod = workspace.client.get(workspace.pods(status["replicas"][0]["pod"]))
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert 1 <= int(limits[names.GPU_SHARE]) <= placement_of(pod)["gpus"][0]["share"] <= 100


def test_an_inference_job_serves_and_is_gone_when_deleted(workspace: Workspace) -> None:
    workspace.dljob(
        "serve", workloadType="Inference", replicas=2, model=workspace.graph("graph"), template=template(run_for="")
    )
    workspace.wait_for_phase("serve", Phase.RUNNING)
    workspace.wait_for_condition("serve", "Ready", "True")
    assert len(workspace.status("serve")["replicas"]) == 2
    workspace.client.delete(workspace.dljobs("serve"))
    waiting.wait_until(lambda: not workspace.client.items(workspace.pods()), "no pods", SECONDS)


def test_small_jobs_of_one_namespace_share_a_gpu_and_know_each_other(workspace: Workspace) -> None:
    model = workspace.graph("graph", graph_document(flops=10**6, repeat=10))
    for name in ("a", "b"):
        workspace.dljob(name, model=model, gpuModels=["Tesla-T4"], template=template(run_for="60s"))
    statuses = [workspace.wait_for_phase(name, Phase.RUNNING) for name in ("a", "b")]
    assert len({status["replicas"][0]["gpus"][0]["uuid"] for status in statuses}) == 1
    assert sum(status["replicas"][0]["gpus"][0]["share"] for status in statuses) <= 100
    for name, other in (("a", "b-"), ("b", "a-")):
        waiting.wait_until(lambda name=name, other=other: knows(workspace, name, other), f"{name} knows", SECONDS)  # type: ignore[misc]


def knows(workspace: Workspace, name: str, other: str) -> bool:
    tenants: list[str] = workspace.status(name)["replicas"][0].get("coTenants", [])
    return any(other in tenant for tenant in tenants)


def test_jobs_of_two_namespaces_never_share(workspace: Workspace) -> None:
    other = Workspace(workspace.installation, f"{workspace.namespace}-other")
    other.create()
    try:
        workspace.pod("mine", 10)
        other.pod("theirs", 10)
        mine, theirs = workspace.bound_pod("mine"), other.bound_pod("theirs")
        assert placement_of(mine)["gpus"][0]["uuid"] != placement_of(theirs)["gpus"][0]["uuid"]
    finally:
        other.remove()


def test_a_gang_starts_together(workspace: Workspace) -> None:
    workspace.dljob("gang", replicas=3, model=workspace.graph("graph"), template=template(run_for="2s"))
    workspace.wait_for_phase("gang", Phase.SUCCEEDED)


def test_several_whole_gpus_of_one_node(workspace: Workspace) -> None:
    workspace.dljob("wide", gpusPerReplica=2, template=template(run_for="10s"))
    status = workspace.wait_for_phase("wide", Phase.RUNNING)
    placement = placement_of(workspace.client.get(workspace.pods(status["replicas"][0]["pod"])))
    assert placement["backend"] == "Whole"
    assert [gpu["share"] for gpu in placement["gpus"]] == [100, 100]


def test_a_batch_job_that_only_asks_for_a_share_is_first_class(workspace: Workspace) -> None:
    spec = pod_object("x", 30)["spec"] | {"restartPolicy": "Never"}
    annotations = {"demo.cotenant.dev/run-for": "1s"}
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "plain"},
        "spec": {"template": {"metadata": {"annotations": annotations}, "spec": spec}},
    }
    workspace.client.create(workspace.jobs(), body)

    def succeeded() -> bool:
        job = workspace.client.items(workspace.jobs())[0]
        return bool(job.get("status", {}).get("succeeded"))

    waiting.wait_until(succeeded, "plain Job succeeded", SECONDS)
    placement = placement_of(workspace.client.items(workspace.pods())[0])
    assert placement["gpus"][0]["share"] == placement["gpus"][0]["activeThreadPercentage"] == 30


def test_a_deployment_that_only_asks_for_a_share_is_first_class(workspace: Workspace) -> None:
    labels = {"app": "plain"}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "plain"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_object("x", 30)["spec"]},
        },
    }
    workspace.client.create(workspace.deployments(), body)
    path = f"{workspace.deployments()}/plain"
    waiting.wait_until(
        lambda: workspace.client.get(path)["status"].get("availableReplicas") == 2, "plain Deployment", SECONDS
    )


def test_suspend_stops_the_pods_and_resume_starts_them(workspace: Workspace) -> None:
    workspace.dljob("train", model=workspace.graph("graph"), template=template(run_for="300s"))
    workspace.wait_for_phase("train", Phase.RUNNING)
    workspace.client.patch(workspace.dljobs("train"), {"spec": {"suspend": True}})
    workspace.wait_for_phase("train", Phase.SUSPENDED)
    waiting.wait_until(lambda: not workspace.client.items(workspace.pods()), "no pods", SECONDS)
    workspace.client.patch(workspace.dljobs("train"), {"spec": {"suspend": False}})
    workspace.wait_for_phase("train", Phase.RUNNING)


def test_a_job_whose_pod_fails_for_good_says_so(workspace: Workspace) -> None:
    failing = template(run_for="")
    failing["metadata"]["annotations"] = {"demo.cotenant.dev/fail-after": "500ms"}
    workspace.dljob("fails", model=workspace.graph("graph"), backoffLimit=0, template=failing)
    workspace.wait_for_phase("fails", Phase.FAILED)
    failed = workspace.condition("fails", "Failed")
    assert failed["status"] == "True"
    assert failed["message"]


def test_a_finished_jobs_gpu_is_free_again(workspace: Workspace) -> None:
    for attempt in range(2):
        for number in range(20):
            workspace.pod(f"whole-{attempt}-{number}", 100, annotations={"demo.cotenant.dev/run-for": "500ms"})

    def all_ran() -> bool:
        pods = workspace.client.items(workspace.pods())
        return len(pods) == 40 and all(pod["status"].get("phase") == "Succeeded" for pod in pods)

    waiting.wait_until(all_ran, "40 whole-GPU pods on 20 GPUs", SECONDS)


def test_kubectl_shows_phase_and_prediction(workspace: Workspace) -> None:
    workspace.dljob("train", model=workspace.graph("graph"), template=template(run_for="30s"))
    workspace.wait_for_phase("train", Phase.RUNNING)
    printed = workspace.installation.cluster.kubectl("get", "dlj", "--namespace", workspace.namespace)
    header, row = printed.splitlines()
    assert header.split()[:2] == ["NAME", "PHASE"]
    assert row.split()[:2] == ["train", "Running"]


def test_every_gpunode_says_that_it_is_simulated(workspace: Workspace) -> None:
    path = clients.path_of("gpunodes", group=names.GROUP, version=names.VERSION)
    assert {node["status"]["simulated"] for node in workspace.client.items(path)} == {True}
