"""What cannot be read or served ends in a state that says what to do, and loses nothing."""

import http.client
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from cluster.workloads import CONTAINER, SECONDS, Workspace, placement_of, template
from cotenant_api import names
from cotenant_api.dljob import Phase
from cotenant_e2e import client as clients
from cotenant_e2e import waiting

POLICY = clients.path_of("packingpolicies", group=names.GROUP, version=names.VERSION, name="default")


def test_an_unreadable_graph_is_a_condition_an_event_and_a_whole_gpu(workspace: Workspace) -> None:
    model = workspace.graph("broken", data='{"v":1,')
    workspace.dljob("job", model=model, template=template(run_for="30s"))
    condition = workspace.wait_for_condition("job", "Predicted", "False", "GraphUnreadable")
    assert "cotenant extract" in condition["message"]
    status = workspace.wait_for_phase("job", Phase.RUNNING)
    placement = placement_of(workspace.client.get(workspace.pods(status["replicas"][0]["pod"])))
    assert (placement["backend"], placement["gpus"][0]["share"]) == ("Whole", 100)
    waiting.wait_until(
        lambda: any(event.get("reason") == "GraphUnreadable" for event in workspace.events()), "event", SECONDS
    )


def test_a_graph_of_a_later_version_is_refused_with_the_remedy(workspace: Workspace) -> None:
    workspace.dljob("job", model=workspace.graph("later", data='{"v":2}'))
    condition = workspace.wait_for_condition("job", "Predicted", "False", "GraphUnreadable")
    assert "this release reads version 1" in condition["message"]


def test_a_precision_that_is_not_extracted_says_what_to_use(workspace: Workspace) -> None:
    workspace.dljob("job", model={"entrypoint": {"callable": "train:model"}}, batchSize=8, precision="fp8")
    condition = workspace.wait_for_condition("job", "Predicted", "False", "ModelSourceNotSupported")
    assert "configMapRef" in condition["message"]


@pytest.fixture
def hold(workspace: Workspace) -> Iterator[None]:
    """Jobs without prediction are held."""
    workspace.client.patch(POLICY, {"spec": {"queue": {"onMissingPrediction": "Hold"}}})
    yield
    workspace.client.patch(POLICY, {"spec": {"queue": {"onMissingPrediction": "Exclusive"}}})


@pytest.mark.usefixtures("hold")
def test_a_held_job_starts_when_its_graph_comes(workspace: Workspace) -> None:
    workspace.dljob("job", model={"configMapRef": {"name": "late", "key": "graph.json"}})
    condition = workspace.wait_for_condition("job", "Predicted", "False", "ConfigMapNotFound")
    assert "late" in condition["message"]
    assert workspace.client.items(workspace.jobs()) == []
    workspace.graph("late")
    workspace.wait_for_phase("job", Phase.SUCCEEDED)


@pytest.fixture
def observe(workspace: Workspace) -> Iterator[None]:
    """Nothing is shared."""
    workspace.client.patch(POLICY, {"spec": {"mode": "Observe"}})
    yield
    workspace.client.patch(POLICY, {"spec": {"mode": "Pack"}})


@pytest.mark.usefixtures("observe")
def test_in_mode_observe_a_share_is_refused_with_the_remedy(workspace: Workspace) -> None:
    def refused() -> str:
        try:
            workspace.client.create(f"{workspace.pods()}?dryRun=All", _pod())
        except clients.APIError as error:
            return error.message
        return ""

    # Admission reads the policy through a cache.
    waiting.wait_until(lambda: "ask for nvidia.com/gpu instead" in refused(), "refusal", SECONDS)


def _pod() -> dict[str, Any]:
    container = {**CONTAINER, "resources": {"limits": {names.GPU_SHARE: "10"}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}


def test_a_template_that_kubernetes_refuses_says_so(workspace: Workspace) -> None:
    container = {**CONTAINER, "ports": [{"containerPort": 0}]}
    workspace.dljob("job", model=workspace.graph("graph"), template=template(containers=[container]))
    condition = workspace.wait_for_condition("job", "Queued", "False", "InvalidTemplate")
    assert "containerPort" in condition["message"]


def test_a_job_for_a_gpu_that_is_not_there_waits_and_says_why(workspace: Workspace) -> None:
    workspace.dljob("job", model=workspace.graph("graph"), gpuModels=["Tesla-P4"])
    condition = workspace.wait_for_condition("job", "Queued", "True", "GPUModelMismatch")
    assert "no node has a GPU of model Tesla-P4: did you mean Tesla-T4?" in condition["message"]


def test_a_pod_that_fits_no_gpu_waits_with_the_remedy_and_its_place_in_the_queue(workspace: Workspace) -> None:
    workspace.pod("big", 10, annotations={names.GPU_MEMORY: "900Gi"})
    waiting.wait_until(lambda: workspace.packed("big").get("reason") == "NeverFits", "condition", SECONDS)
    message = workspace.packed("big")["message"]
    assert "ask for less" in message
    assert "in the queue" in message
    assert workspace.client.get(workspace.pods("big"))["spec"]["schedulingGates"]


def test_an_unreadable_prediction_is_never_lifted(workspace: Workspace) -> None:
    workspace.pod("garbled", 10, annotations={names.PREDICTION: "{"})
    waiting.wait_until(lambda: workspace.packed("garbled").get("status") == "False", "condition", SECONDS)
    assert names.PREDICTION in workspace.packed("garbled")["message"]
    assert workspace.client.get(workspace.pods("garbled"))["spec"]["schedulingGates"]


@pytest.mark.parametrize("verb", ["filter", "bind", "prioritize"])
@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"Pod": 1}', b'{"Pod": {"spec": []}, "NodeNames": 3}']
)
def test_a_malformed_request_gets_a_clear_error_and_never_a_500(workspace: Workspace, verb: str, body: bytes) -> None:
    code, text = post(workspace.installation.extender_url(f"scheduler/{verb}"), body)
    assert code in {200, 400, 413, 422}
    assert code != 200 or b"rror" in text or text == b"[]"


def test_an_oversized_request_is_refused(workspace: Workspace) -> None:
    code, _ = post(workspace.installation.extender_url("scheduler/filter"), b" " * (9 * 1024 * 1024))
    assert code in {200, 413}
    assert clients.answers(workspace.installation.extender_url("readyz"))


def post(url: str, body: bytes) -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=10)
    try:
        connection.request("POST", parts.path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_dljob_with_a_volume_of_such_a_size_is_refused(workspace: Workspace) -> None:
    volume = {"name": "v", "emptyDir": {"sizeLimit": "1e999999999"}}
    with pytest.raises(clients.APIError, match=r"volumes\[0\]\.emptyDir\.sizeLimit"):
        workspace.dljob("huge", template=template(volumes=[volume]))


def test_a_dljob_with_such_an_amount_in_an_unknown_field_is_told_so_and_no_job_is_made(workspace: Workspace) -> None:
    volume = {"name": "v", "newer": {"sizeLimit": "1e999999999"}}
    workspace.dljob("huge", template=template(volumes=[volume]))
    told = workspace.wait_for_condition("huge", "Queued", "False", "InvalidSpec")
    assert "spec.template.spec.volumes[0].newer.sizeLimit: '1e999999999'" in told["message"]
    assert "with an exponent of two digits at most" in told["message"]
    assert workspace.client.items(workspace.jobs()) == []
