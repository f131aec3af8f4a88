"""The API server in memory does what the extender relies on."""

from typing import Any

import orjson
import pytest

from api_server import answers, handlers, pods, store
from cotenant_api import names
from cotenant_extender.kube import transport
from extender import builders

Object = dict[str, Any]

POD = "/api/v1/namespaces/team/pods/a"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/cotenant-system/leases"


class API:
    """Requests, and what was stored."""

    def __init__(self) -> None:
        self.store = store.Store()
        self.handlers = handlers.Handlers(self.store, lambda: builders.NOW)

    def __call__(self, method: str, path: str, body: Object | None = None, kind: str = transport.JSON) -> Any:
        """Status and body of an answer."""
        data = None if body is None else orjson.dumps(body)
        answer = self.handlers.answer(transport.Request(method, path, data, kind))
        return answer.status, orjson.loads(answer.body)

    def patch(self, path: str, body: Object) -> Any:
        """A merge patch."""
        return self("PATCH", path, body, transport.MERGE_PATCH)

    def pod(self) -> Object:
        """The pod as it is stored."""
        return self.store.find(pods.PODS, ("team", "a"))


def with_pod(**changes: Any) -> API:
    api = API()
    api("POST", "/api/v1/namespaces/team/pods", builders.pod("a", **changes))
    return api


def binding(node: str = "n0", uid: str = "uid-a") -> Object:
    return {"metadata": {"name": "a", "uid": uid, "annotations": {names.PLACEMENT: "{}"}}, "target": {"name": node}}


def eviction(uid: str = "uid-a", **preconditions: str) -> Object:
    return {"metadata": {"name": "a"}, "deleteOptions": {"preconditions": {"uid": uid, **preconditions}}}


def guard(api: API) -> None:
    """A budget that allows the only pod to be disrupted."""
    spec = {"minAvailable": 0, "selector": {"matchLabels": {"app": "x"}}}
    budget = {"metadata": {"name": "b", "namespace": "team"}, "spec": spec}
    api("POST", "/apis/policy/v1/namespaces/team/poddisruptionbudgets", budget)


def test_every_kind_has_the_same_resource_version() -> None:
    api = with_pod()
    _, lease = api("POST", LEASES, builders.lease("x", "holder"))
    assert int(lease["metadata"]["resourceVersion"]) == int(api.pod()["metadata"]["resourceVersion"]) + 1


def test_a_binding_merges_annotations_and_sets_the_node_at_once() -> None:
    api = with_pod(gates=(), annotations={"kept": "yes"})
    assert api("POST", f"{POD}/binding", binding())[0] == 201
    assert api.pod()["spec"]["nodeName"] == "n0"
    assert api.pod()["metadata"]["annotations"] == {"kept": "yes", names.PLACEMENT: "{}"}
    assert [item["type"] for item in api.pod()["status"]["conditions"]] == ["PodScheduled"]


@pytest.mark.parametrize(
    ("changes", "asked", "says"),
    [
        ({}, binding(), "schedulingGates"),
        ({"gates": (), "node": "n1"}, binding(), "already assigned"),
        ({"gates": (), "deleting": True}, binding(), "being deleted"),
        ({"gates": ()}, binding(uid="another"), "Precondition failed"),
    ],
)
def test_a_binding_that_must_not_be_is_a_conflict(changes: Object, asked: Object, says: str) -> None:
    api = with_pod(**changes)
    code, answer = api("POST", f"{POD}/binding", asked)
    assert code == 409
    assert says in answer["message"]


def test_gates_can_only_go() -> None:
    api = with_pod()
    gates = [{"name": names.PACKING_GATE}, {"name": "another"}]
    assert api.patch(POD, {"spec": {"schedulingGates": gates}})[0] == 422
    assert api.patch(POD, {"spec": {"schedulingGates": None}})[0] == 200
    assert api.patch(POD, {"spec": {"schedulingGates": gates[:1]}})[0] == 422


def test_nothing_else_of_a_spec_changes() -> None:
    assert with_pod().patch(POD, {"spec": {"nodeName": "n0"}})[0] == 422


def test_preconditions_are_kept() -> None:
    api = with_pod()
    assert api.patch(POD, {"metadata": {"uid": "another", "annotations": {"x": "y"}}})[0] == 409
    assert api.patch(POD, {"metadata": {"resourceVersion": "1", "annotations": {"x": "y"}}})[0] == 409
    assert api("DELETE", POD, {"preconditions": {"uid": "another"}})[0] == 409


def test_a_write_that_changes_nothing_is_no_event() -> None:
    api = with_pod(annotations={"x": "y"})
    before = api.store.version
    assert api.patch(POD, {"metadata": {"annotations": {"x": "y"}}})[0] == 200
    assert api.store.version == before


def test_a_status_patch_changes_one_condition_and_nothing_else() -> None:
    api = with_pod()
    for reason in ("First", "Second"):
        condition = {"type": names.PACKED, "status": "False", "reason": reason}
        change = {"metadata": {"uid": "uid-a", "labels": {"x": "y"}}, "status": {"conditions": [condition]}}
        api("PATCH", f"{POD}/status", change, transport.STRATEGIC_MERGE_PATCH)
    assert [item["reason"] for item in api.pod()["status"]["conditions"]] == ["Second"]
    assert api.pod()["metadata"]["labels"] == {}


def test_a_bound_pod_goes_when_its_kubelet_says_so() -> None:
    api = with_pod(gates=(), node="n0", phase="Running")
    api("DELETE", POD, {})
    assert "deletionTimestamp" in api.pod()["metadata"]
    api("DELETE", POD, {"gracePeriodSeconds": 0})
    assert api("GET", POD)[0] == 404


def test_an_unbound_pod_goes_at_once_unless_a_finalizer_keeps_it() -> None:
    api = with_pod()
    api("DELETE", POD, {})
    assert api("GET", POD)[0] == 404
    held = builders.pod("a")
    held["metadata"]["finalizers"] = ["held"]
    api("POST", "/api/v1/namespaces/team/pods", held)
    api("DELETE", POD, {})
    assert "deletionTimestamp" in api.pod()["metadata"]
    api.patch(POD, {"metadata": {"finalizers": None}})
    assert api("GET", POD)[0] == 404


def test_an_eviction_marks_the_pod_and_deletes_it_gracefully() -> None:
    api = with_pod(gates=(), node="n0", phase="Running")
    assert api("POST", f"{POD}/eviction", eviction())[0] == 201
    assert [item["type"] for item in api.pod()["status"]["conditions"]] == ["Ready", "DisruptionTarget"]
    assert "deletionTimestamp" in api.pod()["metadata"]


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_an_eviction_of_a_state_that_is_past_is_a_conflict_and_one_of_the_present_is_carried_out(phase: str) -> None:
    api = with_pod(gates=(), node="n0", phase=phase)
    before = api.pod()
    api.patch(POD, {"metadata": {"labels": {"x": "y"}}})
    code, answer = api("POST", f"{POD}/eviction", eviction(resourceVersion=before["metadata"]["resourceVersion"]))
    assert (code, "Precondition failed" in answer["message"]) == (409, True)
    assert "deletionTimestamp" not in api.pod()["metadata"]
    now = api.pod()["metadata"]["resourceVersion"]
    assert api("POST", f"{POD}/eviction", eviction(resourceVersion=now))[0] == 201
    assert "deletionTimestamp" in api.pod()["metadata"]


def test_a_pod_that_has_finished_is_deleted_at_once_by_an_eviction_unless_it_was_meant_as_it_ran() -> None:
    api = with_pod(gates=(), node="n0", phase="Running")
    ran = api.pod()["metadata"]["resourceVersion"]
    api("PATCH", f"{POD}/status", {"status": {"phase": "Succeeded"}}, transport.MERGE_PATCH)
    assert api("POST", f"{POD}/eviction", eviction(resourceVersion=ran))[0] == 409
    assert api("POST", f"{POD}/eviction", eviction())[0] == 201
    assert api("GET", POD)[0] == 404


def test_an_eviction_that_a_budget_allowed_and_a_precondition_refused_has_used_the_budget_up() -> None:
    api = with_pod(gates=(), node="n0", phase="Running", labels={"app": "x"})
    guard(api)
    assert api("POST", f"{POD}/eviction", eviction(resourceVersion="1"))[0] == 409
    now = api.pod()["metadata"]["resourceVersion"]
    assert api("POST", f"{POD}/eviction", eviction(resourceVersion=now))[0] == 429


def test_an_eviction_against_a_budget_is_refused_with_its_cause() -> None:
    api = with_pod(gates=(), node="n0", phase="Running", labels={"app": "x"})
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    budget = {"metadata": {"name": "b", "namespace": "team"}, "spec": spec}
    api("POST", "/apis/policy/v1/namespaces/team/poddisruptionbudgets", budget)
    code, answer = api("POST", f"{POD}/eviction", eviction())
    assert code == 429
    assert answer["details"]["causes"][0]["reason"] == "DisruptionBudget"
    assert "deletionTimestamp" not in api.pod()["metadata"]


def test_a_dry_run_of_an_eviction_asks_the_budget_and_changes_nothing() -> None:
    api = with_pod(gates=(), node="n0", phase="Running", labels={"app": "x"})
    guard(api)
    before = api.pod()
    body = eviction()
    body["deleteOptions"]["dryRun"] = ["All"]
    for _ in range(2):
        assert api("POST", f"{POD}/eviction", body)[0] == 201
    assert api.pod() == before
    budget = "/apis/policy/v1/namespaces/team/poddisruptionbudgets/b"
    assert api("GET", budget)[1]["status"]["disruptionsAllowed"] == 1
    api.patch(budget, {"spec": {"minAvailable": 1}})
    assert api("POST", f"{POD}/eviction", body)[0] == 429


def test_a_budget_is_not_asked_about_pods_that_do_not_run() -> None:
    api = with_pod(labels={"app": "x"})
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "x"}}}
    budget = {"metadata": {"name": "b", "namespace": "team"}, "spec": spec}
    api("POST", "/apis/policy/v1/namespaces/team/poddisruptionbudgets", budget)
    assert api("POST", f"{POD}/eviction", eviction())[0] == 201


def test_the_pages_of_a_list_are_as_of_one_version() -> None:
    api = API()
    for name in "abc":
        api("POST", "/api/v1/nodes", builders.node(name))
    _, first = api("GET", "/api/v1/nodes?limit=2")
    api("DELETE", "/api/v1/nodes/c", {})
    _, second = api("GET", f"/api/v1/nodes?limit=2&continue={first['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in (*first["items"], *second["items"])] == ["a", "b", "c"]
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


def test_after_a_compaction_old_versions_and_pages_are_gone() -> None:
    api = API()
    for name in "abc":
        api("POST", "/api/v1/nodes", builders.node(name))
    _, page = api("GET", "/api/v1/nodes?limit=1")
    api.store.compact()
    assert api("GET", f"/api/v1/nodes?limit=1&continue={page['metadata']['continue']}")[0] == 410
    with pytest.raises(answers.RefusedError, match="too old resource version"):
        api.store.since("/api/v1/nodes", int(page["metadata"]["resourceVersion"]))


def test_a_name_that_is_taken_is_a_conflict_and_one_that_is_generated_is_not() -> None:
    api = with_pod()
    assert api("POST", "/api/v1/namespaces/team/pods", builders.pod("a"))[0] == 409
    event = {"metadata": {"generateName": "a."}, "reason": "x"}
    created = {api("POST", "/api/v1/namespaces/team/events", event)[1]["metadata"]["name"] for _ in range(2)}
    assert len(created) == 2


def test_a_changed_spec_is_a_new_generation() -> None:
    api = API()
    path = f"/apis/{names.API_VERSION}/packingpolicies"
    api("POST", path, builders.policy(generation=1))
    api.patch(f"{path}/default", {"spec": {"paused": True}})
    api.patch(f"{path}/default/status", {"status": {"observedGeneration": 2}})
    assert api("GET", f"{path}/default")[1]["metadata"]["generation"] == 2


def test_a_restored_snapshot_has_its_objects_and_versions_and_watches_from_the_future_see_nothing() -> None:
    api = with_pod()
    saved = api.store.snapshot()
    api.patch(POD, {"metadata": {"labels": {"x": "y"}}})
    ahead = api.store.version
    api("DELETE", POD)
    api.store.restore(saved)
    assert (api.store.version, api.pod()["metadata"]["labels"]) == (saved.version, {})
    api.patch(POD, {"metadata": {"labels": {"x": "z"}}})
    assert api.store.since(pods.PODS, ahead) == []
    assert [change.kind for change in api.store.since(pods.PODS, saved.version)] == ["MODIFIED"]


def test_a_restore_with_a_bumped_version_forgets_the_history() -> None:
    api = with_pod()
    saved = api.store.snapshot()
    api.store.restore(saved, bump=1000)
    assert api.pod()["metadata"]["resourceVersion"] == str(saved.version)
    assert api.store.version == saved.version + 1000
    with pytest.raises(answers.RefusedError, match="too old resource version"):
        api.store.since(pods.PODS, saved.version)
