"""The Service of an inference job: made, changed, put right and taken away. Against a cluster in memory."""

from typing import Any

import pytest

from cotenant_api import dljob, names
from cotenant_operator import labels
from cotenant_operator.kube import api
from operator_kit import objects
from operator_kit.cluster import Cluster
from operator_kit.server import Fault

Json = dict[str, Any]

HTTP: Json = {"port": 80, "targetPort": 8000}
STRANGER: Json = {"metadata": {"name": "serve"}, "spec": {"selector": {"app": "theirs"}, "ports": [{"port": 1}]}}


def service(cluster: Cluster, name: str = "serve") -> Json:
    return cluster.server.find("services", name) or {}


def ports(cluster: Cluster, name: str = "serve") -> list[Json]:
    return list(service(cluster, name)["spec"]["ports"])


def set_spec(cluster: Cluster, **fields: Any) -> None:
    cluster.server.change("dljobs", "serve", lambda value: value.update(spec={**value["spec"], **fields}))


def asking(**service: Any) -> Json:
    return objects.dljob("serve", workloadType="Inference", service={"ports": [HTTP], **service})


def set_address(value: Json) -> None:
    """What the API server and other controllers write into a Service."""
    value["spec"] |= {"clusterIP": "10.0.0.7", "type": "LoadBalancer", "sessionAffinity": "ClientIP"}
    value["spec"]["ports"] = [{"protocol": "TCP", "nodePort": 30007, **port} for port in value["spec"]["ports"]]
    value["metadata"]["annotations"] = {"example.com/theirs": "1"}


@pytest.fixture
async def serving(cluster: Cluster) -> Cluster:
    """An inference job with a Service, running."""
    cluster.apply(asking())
    await cluster.run("create_pods", "place", "run_pods")
    return cluster


async def test_a_service_selects_the_pods_that_serve_and_goes_with_the_dljob(serving: Cluster) -> None:
    found = service(serving)
    (pod,) = serving.server.all("pods")
    assert found["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert found["spec"]["selector"][names.DLJOB_UID_LABEL] == serving.dljob("serve")["metadata"]["uid"]
    assert found["spec"]["type"] == "ClusterIP"
    assert ports(serving) == [{"port": 80, "targetPort": 8000, "protocol": "TCP"}]
    assert "annotations" not in found["metadata"]
    assert serving.condition(dljob.READY, name="serve")["status"] == "True"
    serving.server.delete("dljobs", "serve")
    assert service(serving) == {}


async def test_a_dljob_that_asks_for_none_has_none(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference"))
    await cluster.run("create_pods", "place", "run_pods")
    assert cluster.server.all("services") == []


async def test_a_service_is_there_before_the_pods_and_while_the_job_is_suspended(cluster: Cluster) -> None:
    cluster.apply(objects.dljob("serve", workloadType="Inference", service={"ports": [HTTP]}, suspend=True))
    await cluster.settle()
    assert service(cluster)


async def test_a_name_is_taken_from_the_spec_and_a_new_one_replaces_the_former(serving: Cluster) -> None:
    set_spec(serving, service={"name": "chat", "ports": [HTTP]})
    await serving.settle()
    assert [one["metadata"]["name"] for one in serving.server.all("services")] == ["chat"]


async def test_changed_ports_change_the_service_and_restart_nothing(serving: Cluster) -> None:
    serving.server.change("services", "serve", set_address)
    before = serving.server.find("deployments", "serve")
    set_spec(serving, service={"ports": [{**HTTP, "name": "http"}, {"name": "metrics", "port": 9090}]})
    await serving.settle()
    assert [(port.get("name"), port["port"]) for port in ports(serving)] == [("http", 80), ("metrics", 9090)]
    assert service(serving)["spec"]["clusterIP"] == "10.0.0.7"
    after = serving.server.find("deployments", "serve")
    assert before is not None
    assert after is not None
    assert after["spec"] == before["spec"]
    assert serving.condition(dljob.CURRENT, name="serve") == {}


async def test_what_others_write_stays_and_costs_no_write(serving: Cluster) -> None:
    serving.server.change("services", "serve", set_address)
    before = service(serving)
    serving.server.requests.clear()
    await serving.settle()
    serving.work.enqueue(serving.store.keys())
    await serving.settle()
    assert service(serving) == before
    assert [one for one in serving.server.requests if one.method != "GET"] == []


@pytest.mark.parametrize(
    "edit",
    [
        lambda value: value["spec"].update(ports=[{"port": 81}]),
        lambda value: value["spec"]["ports"].append({"port": 81}),
        lambda value: value["spec"]["selector"].update(app="theirs"),
        lambda value: value["spec"].update(selector={"app": "theirs"}),
    ],
    ids=["ports", "a port more", "a label more", "another selector"],
)
async def test_ports_and_selector_are_put_right(serving: Cluster, edit: Any) -> None:
    before = service(serving)["spec"]
    serving.server.change("services", "serve", edit)
    await serving.settle()
    assert service(serving)["spec"] == before


async def test_one_that_was_deleted_is_made_again(serving: Cluster) -> None:
    serving.server.delete("services", "serve")
    await serving.settle()
    assert service(serving)["spec"]["ports"]


async def test_one_whose_label_was_taken_away_has_it_again(serving: Cluster) -> None:
    serving.server.change("services", "serve", lambda value: value["metadata"]["labels"].pop(names.DLJOB_LABEL))
    await serving.settle()
    await serving.advance(30)
    assert service(serving)["metadata"]["labels"][names.DLJOB_LABEL] == "serve"


async def test_it_goes_when_nobody_asks_for_it_any_more(serving: Cluster) -> None:
    serving.server.change("dljobs", "serve", lambda value: value["spec"].pop("service"))
    await serving.settle()
    assert serving.server.all("services") == []
    assert serving.dljob("serve")["status"]["phase"] == "Running"


async def test_a_service_of_a_user_that_goes_with_the_dljob_is_not_deleted(serving: Cluster) -> None:
    owner = service(serving)["metadata"]["ownerReferences"]
    metadata = {"name": "theirs", "labels": {names.DLJOB_LABEL: "serve"}, "ownerReferences": owner}
    serving.apply({"metadata": metadata, "spec": {"ports": [{"port": 1}]}}, plural="services")
    await serving.settle()
    assert service(serving, "theirs")


async def test_a_name_that_is_taken_is_told_with_the_remedy_and_the_pods_serve_all_the_same(cluster: Cluster) -> None:
    cluster.apply(STRANGER, plural="services")
    cluster.apply(asking())
    await cluster.run("create_pods", "place", "run_pods")
    assert cluster.dljob("serve")["status"]["phase"] == "Running"
    ready, stalled = (cluster.condition(kind, name="serve") for kind in (dljob.READY, dljob.STALLED))
    assert (ready["status"], ready["reason"]) == ("False", "NameTaken")
    assert (stalled["status"], stalled["reason"]) == ("True", "NameTaken")
    assert ready["message"] == (
        "Service serve exists and belongs to another owner: delete it, or set another spec.service.name"
    )
    assert service(cluster)["spec"] == STRANGER["spec"]
    assert cluster.events() == ["Created", "NameTaken"]
    cluster.server.delete("services", "serve")
    await cluster.advance(30)
    assert service(cluster)["spec"]["ports"][0]["port"] == 80
    assert cluster.condition(dljob.READY, name="serve")["status"] == "True"
    assert cluster.condition(dljob.STALLED, name="serve")["status"] == "False"


async def test_the_former_service_stays_while_the_name_of_the_next_one_is_taken(serving: Cluster) -> None:
    serving.apply({**STRANGER, "metadata": {"name": "chat"}}, plural="services")
    set_spec(serving, service={"name": "chat", "ports": [HTTP]})
    await serving.settle()
    assert service(serving)["spec"]["selector"] != STRANGER["spec"]["selector"]
    assert serving.condition(dljob.READY, name="serve")["reason"] == "NameTaken"


async def test_a_refused_service_is_asked_for_rarely_and_holds_up_no_other_refusal(cluster: Cluster) -> None:
    """Both the Deployment and the Service are refused: each is tried again in its own time."""
    cluster.server.fault = lambda request: (
        Fault(effect=False, status=403, message="exceeded quota: things")
        if request.method == "POST" and request.path.rpartition("/")[2] in ("deployments", "services")
        else None
    )
    cluster.apply(asking())
    await cluster.settle()
    posted = [one.path for one in cluster.server.requests if one.method == "POST"]
    assert sum(path.endswith("/services") for path in posted) == 1
    assert sum(path.endswith("/deployments") for path in posted) == 1
    cluster.server.fault = lambda _: None
    await cluster.advance(31)
    assert service(cluster)
    assert cluster.server.find("deployments", "serve")


async def test_a_late_creation_of_a_service_that_nobody_asks_for_is_undone(serving: Cluster) -> None:
    found = service(serving)
    serving.server.change("dljobs", "serve", lambda value: value["spec"].pop("service"))
    await serving.settle()
    late = {key: found["metadata"][key] for key in ("name", "labels", "ownerReferences")}
    serving.apply({"metadata": late, "spec": found["spec"]}, plural="services")
    await serving.settle()
    assert serving.server.all("services") == []


async def test_the_service_of_a_former_dljob_of_the_name_is_waited_for(cluster: Cluster) -> None:
    former = {"apiVersion": names.API_VERSION, "kind": "DLJob", "name": "serve", "uid": "former", "controller": True}
    metadata = {"name": "serve", "labels": {labels.MANAGED_BY: labels.FIELD_MANAGER}, "ownerReferences": [former]}
    cluster.apply({"metadata": metadata, "spec": STRANGER["spec"]}, plural="services")
    cluster.apply(asking())
    await cluster.settle()
    cluster.server.collect()
    await cluster.advance(2)
    assert ports(cluster)[0]["port"] == 80
    assert "NameTaken" not in cluster.events()


def refuse_services(status: int, *methods: str) -> Any:
    """Refuse these writes of Services."""

    def decide(request: api.Request) -> Fault | None:
        wrote = request.method in methods and "/services" in request.path
        return Fault(effect=False, status=status, message="a webhook is down") if wrote else None

    return decide


@pytest.mark.parametrize("status", [0, 400, 403, 422, 500])
async def test_a_service_that_cannot_be_made_keeps_no_status_waiting(cluster: Cluster, status: int) -> None:
    cluster.server.fault = refuse_services(status, "POST")
    cluster.apply(asking())
    await cluster.settle()
    for _ in range(6):
        await cluster.advance(2)
    await cluster.run("create_pods", "place", "run_pods")
    for _ in range(6):
        await cluster.advance(5)
    assert cluster.dljob("serve")["status"]["phase"] == "Running"
    assert cluster.dljob("serve")["status"]["scale"]["replicas"] == 1
    assert cluster.condition(dljob.READY, name="serve")["status"] == "False"
    cluster.server.fault = lambda _: None
    await cluster.advance(301)
    assert service(cluster)
    assert cluster.condition(dljob.READY, name="serve")["status"] == "True"


@pytest.mark.parametrize("status", [400, 403, 422, 500])
@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_a_service_that_cannot_be_changed_keeps_no_status_waiting(
    serving: Cluster, method: str, status: int
) -> None:
    serving.server.fault = refuse_services(status, method)
    former = {"name": "chat"} if method == "DELETE" else {}
    set_spec(serving, replicas=2, service={"ports": [{"port": 81}], **former})
    await serving.settle()
    for _ in range(6):
        await serving.advance(2)
    await serving.run("create_pods", "place", "run_pods")
    status_now = serving.dljob("serve")["status"]
    assert status_now["observedGeneration"] == serving.dljob("serve")["metadata"]["generation"]
    assert status_now["scale"]["replicas"] == 2
    assert serving.condition(dljob.READY, name="serve")["status"] == "False"
    serving.server.fault = lambda _: None
    await serving.advance(301)
    assert [one["spec"]["ports"][0]["port"] for one in serving.server.all("services")] == [81]
    assert serving.condition(dljob.READY, name="serve")["status"] == "True"


async def test_a_job_is_not_ready_while_somebody_deletes_its_service_again_and_again(serving: Cluster) -> None:
    for _ in range(5):
        if service(serving):
            serving.server.delete("services", "serve")
        await serving.settle()
        serving.time.seconds += 1
    ready = serving.condition(dljob.READY, name="serve")
    assert service(serving) == {}
    assert (ready["status"], ready["reason"]) == ("False", "Contested")
    await serving.advance(10)
    assert service(serving)
    assert serving.condition(dljob.READY, name="serve")["status"] == "True"


async def test_a_job_is_not_ready_while_its_service_is_being_deleted(serving: Cluster) -> None:
    held = {"finalizers": ["example.com/address"], "deletionTimestamp": serving.time.text()}
    serving.server.change("services", "serve", lambda value: value["metadata"].update(held))
    await serving.settle()
    ready = serving.condition(dljob.READY, name="serve")
    assert (ready["status"], ready["reason"]) == ("False", "ServiceFailed")


async def test_a_service_that_others_make_again_each_time_is_deleted_more_and_more_rarely(serving: Cluster) -> None:
    made = service(serving)
    serving.server.change("dljobs", "serve", lambda value: value["spec"].pop("service"))
    await serving.settle()
    for _ in range(60):
        if not service(serving):
            serving.server.put("services", made)
        await serving.advance(1)
    deletions = [one for one in serving.server.requests if one.method == "DELETE" and "/services/" in one.path]
    assert len(deletions) < 7
    told = [event["message"] for event in serving.server.all("events") if event["reason"] == "Contested"]
    assert len(told) == 1
    assert "Service serve was deleted 3 times within a minute and is there again: find out who makes it" in told[0]
    assert serving.condition(dljob.READY, name="serve")["status"] == "True"
