"""Who wrote what of an object says its `managedFields`; and what others write there, too, stands."""

from typing import Final

from cluster import extraction
from cluster.workloads import SECONDS, Workspace, template
from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import waiting
from cotenant_e2e.client import Json

OURS: Final = "cotenant-operator"
RBAC: Final = "rbac.authorization.k8s.io"
OF_AN_EXTRACTION: Final = (("configmaps", ""), ("serviceaccounts", ""), ("roles", RBAC), ("rolebindings", RBAC))


def writers(value: Json) -> set[tuple[str, str, str]]:
    """Manager, operation and subresource of each who wrote to an object."""
    fields = value["metadata"]["managedFields"]
    return {(one["manager"], one["operation"], one.get("subresource", "")) for one in fields}


def of_dljobs(workspace: Workspace, plural: str, group: str = "") -> list[Json]:
    """The objects of a kind that belong to DLJobs."""
    path = clients.path_of(plural, group=group, namespace=workspace.namespace)
    found = workspace.client.items(path, labelSelector=names.DLJOB_LABEL)
    assert found, plural
    return found


def test_what_is_made_for_an_extraction_names_the_operator(workspace: Workspace) -> None:
    workspace.dljob("train", model={"entrypoint": {"callable": "models:build"}}, batchSize=32)
    waiting.wait_until(lambda: extraction.pods(workspace, "train"), "a pod that extracts", SECONDS)
    for plural, group in OF_AN_EXTRACTION:
        for value in of_dljobs(workspace, plural, group):
            assert writers(value) == {(OURS, "Update", "")}, value["metadata"]["name"]
    (job,) = of_dljobs(workspace, "jobs", "batch")
    assert (OURS, "Update", "") in writers(job)


def test_workloads_statuses_and_events_name_the_operator(workspace: Workspace) -> None:
    model = workspace.graph("graph")
    workspace.dljob("gang", model=model, replicas=2, template=template(run_for="2s"))
    workspace.dljob("serve", model=model, workloadType="Inference", template=template(run_for=""))
    workspace.wait_for_phase("serve", Phase.RUNNING)
    workspace.wait_for_phase("gang", Phase.SUCCEEDED)
    (job,), (deployment,) = of_dljobs(workspace, "jobs", "batch"), of_dljobs(workspace, "deployments", "apps")
    services = workspace.client.items(clients.path_of("services", namespace=workspace.namespace))
    assert {one for one in writers(job) if not one[2]} == {(OURS, "Update", "")}
    assert {one for one in writers(deployment) if one[0] == OURS} == {(OURS, "Update", "")}
    assert [writers(service) for service in services] == [{(OURS, "Update", "")}]
    for name in ("gang", "serve"):
        written = writers(workspace.client.get(workspace.dljobs(name)))
        assert {one for one in written if one[2]} == {(OURS, "Update", "status")}
    told = [event for event in workspace.events() if event["involvedObject"]["kind"] == "DLJob"]
    assert {one for event in told for one in writers(event)} == {(OURS, "Update", "")}


def test_a_rollout_removes_what_the_template_no_longer_has_and_takes_nothing_from_others(workspace: Workspace) -> None:
    pod = template(run_for="")
    pod["spec"]["containers"][0]["env"] = [{"name": "STAYS", "value": "1"}, {"name": "GOES", "value": "1"}]
    model = workspace.graph("graph")
    workspace.dljob("serve", model=model, workloadType="Inference", template=pod)
    workspace.wait_for_phase("serve", Phase.RUNNING)
    path = clients.path_of("deployments", group="apps", namespace=workspace.namespace, name="serve")
    workspace.client.patch(path, {"metadata": {"annotations": {"example.com/theirs": "1"}}})
    for environment in (["STAYS"], ["STAYS", "COMES"], []):
        pod["spec"]["containers"][0]["env"] = [{"name": name, "value": "1"} for name in environment]
        workspace.client.patch(workspace.dljobs("serve"), {"spec": {"template": pod}})
        wait_for_environment(workspace, path, environment)
    rolled = workspace.client.get(path)
    assert {one for one in writers(rolled) if one[0] == OURS} == {(OURS, "Apply", "")}
    assert rolled["metadata"]["annotations"]["example.com/theirs"] == "1"


def wait_for_environment(workspace: Workspace, path: str, wanted: list[str]) -> None:
    """Wait until a Deployment's template sets these variables, and none of the others."""

    def reached() -> bool:
        (container,) = workspace.client.get(path)["spec"]["template"]["spec"]["containers"]
        found = [each["name"] for each in container.get("env", ())]
        return [name for name in found if name in ("STAYS", "GOES", "COMES")] == wanted

    waiting.wait_until(reached, f"a template with {wanted}", SECONDS)


def test_the_policys_status_names_the_operator(workspace: Workspace) -> None:
    path = clients.path_of("packingpolicies", group=names.GROUP, version=names.VERSION, name="default")
    assert (OURS, "Update", "status") in writers(workspace.client.get(path))


def test_a_number_of_replicas_that_an_autoscaler_chose_stands_until_the_dljob_names_another(
    workspace: Workspace,
) -> None:
    workspace.dljob("serve", model=workspace.graph("graph"), workloadType="Inference", template=template(run_for=""))
    workspace.wait_for_phase("serve", Phase.RUNNING)
    path = clients.path_of("deployments", group="apps", namespace=workspace.namespace, name="serve")
    autoscalers = clients.path_of(
        "horizontalpodautoscalers", group="autoscaling", version="v2", namespace=workspace.namespace
    )
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "serve"}
    scaling = {"scaleTargetRef": target, "minReplicas": 3, "maxReplicas": 5}
    workspace.client.create(autoscalers, {"metadata": {"name": "serve"}, "spec": scaling})
    waiting.wait_until(lambda: workspace.client.get(path)["spec"]["replicas"] == 3, "three replicas", SECONDS)
    waiting.wait_until(lambda: len(workspace.status("serve")["replicas"]) == 3, "three placed", SECONDS)
    scaled = workspace.client.get(path)["metadata"]["generation"]
    # A roll keeps the number.
    workspace.client.patch(
        workspace.dljobs("serve"), {"spec": {"template": template(run_for="", terminationGracePeriodSeconds=1)}}
    )
    waiting.wait_until(lambda: workspace.client.get(path)["metadata"]["generation"] > scaled, "a roll", SECONDS)
    rolled = workspace.wait_for_condition("serve", "Ready", "True", "PodsReady")
    deployment = workspace.client.get(path)
    assert (deployment["spec"]["replicas"], deployment["metadata"]["generation"]) == (3, scaled + 1)
    assert rolled["message"] == "3 of 3 replicas ready"
    workspace.client.patch(workspace.dljobs("serve"), {"spec": {"replicas": 4}})
    waiting.wait_until(lambda: workspace.client.get(path)["spec"]["replicas"] == 4, "four replicas", SECONDS)


def test_an_autoscaler_scales_a_dljob_by_its_subresource_and_nothing_is_rolled(workspace: Workspace) -> None:
    workspace.dljob("serve", model=workspace.graph("graph"), workloadType="Inference", template=template(run_for=""))
    workspace.wait_for_phase("serve", Phase.RUNNING)
    pods = {pod["metadata"]["uid"] for pod in workspace.client.items(workspace.pods())}
    autoscalers = clients.path_of(
        "horizontalpodautoscalers", group="autoscaling", version="v2", namespace=workspace.namespace
    )
    target = {"apiVersion": names.API_VERSION, "kind": "DLJob", "name": "serve"}
    scaling = {"scaleTargetRef": target, "minReplicas": 3, "maxReplicas": 5}
    workspace.client.create(autoscalers, {"metadata": {"name": "serve"}, "spec": scaling})
    dljob = workspace.dljobs("serve")
    waiting.wait_until(lambda: workspace.client.get(dljob)["spec"]["replicas"] == 3, "three replicas", SECONDS)
    waiting.wait_until(lambda: workspace.status("serve")["scale"]["replicas"] == 3, "three pods", SECONDS)
    scale = workspace.client.get(f"{dljob}/scale")
    assert scale["status"]["replicas"] == 3
    found = workspace.client.items(workspace.pods(), labelSelector=scale["status"]["selector"])
    assert pods < {pod["metadata"]["uid"] for pod in found}
    cluster = workspace.installation.cluster
    cluster.kubectl("delete", "hpa/serve", "--namespace", workspace.namespace)
    cluster.kubectl("scale", "dlj/serve", "--replicas=1", "--namespace", workspace.namespace)
    waiting.wait_until(lambda: workspace.status("serve")["scale"]["replicas"] == 1, "one pod", SECONDS)


def test_a_template_that_somebody_changed_is_told_and_put_right_by_the_next_edit(workspace: Workspace) -> None:
    workspace.dljob("serve", model=workspace.graph("graph"), workloadType="Inference", template=template(run_for=""))
    workspace.wait_for_phase("serve", Phase.RUNNING)
    cluster, where = workspace.installation.cluster, ("--namespace", workspace.namespace)
    cluster.kubectl("rollout", "restart", "deployment/serve", *where)
    workspace.wait_for_condition("serve", "Ready", "True", "PodsReady")
    assert workspace.condition("serve", "Current") == {}
    cluster.kubectl("set", "image", "deployment/serve", "main=registry.example/other:1", *where)
    told = workspace.wait_for_condition("serve", "Current", "False", "Drifted")
    assert "was changed by kubectl-set" in told["message"]
    workspace.client.patch(workspace.dljobs("serve"), {"spec": {"gpuMemory": "2Gi"}})
    workspace.wait_for_condition("serve", "Current", "True", "SpecApplied")
    path = clients.path_of("deployments", group="apps", namespace=workspace.namespace, name="serve")
    (container,) = workspace.client.get(path)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/train:1"
