"""The Deployment of a sized server: booked as it was sized, started with its options, and taken by the pod contract."""

from typing import Any

import pytest

from cotenant_api import errors, names, pod, rootless
from cotenant_api.names import GPUModel
from cotenant_predictor import devices
from cotenant_predictor.serving import command, deployment, families, sizing, speed
from predictor.serving_logs import LLAMA_8B

VLLM = ["vllm", "serve", "org/m-8B", "--max-model-len", "8192"]
SGLANG = ["python", "-m", "sglang.launch_server", "--model-path", "org/m-8B", "--context_length=4096"]
LOAD = speed.load_of(requests=1, prompt=500, answer=200, token_milliseconds=60)


def made(words: list[str], *, gpu: str = "NVIDIA-L40S", load: Any = LOAD, name: str | None = None) -> dict[str, Any]:
    server = command.read(words)
    model = families.read(LLAMA_8B, source="config.json")
    size = sizing.size(model, server, devices.load()[GPUModel(gpu)], load=load)
    return deployment.deployment(size, server, words, image="registry.example/server:1", name=name)


def container(found: dict[str, Any]) -> dict[str, Any]:
    (one,) = found["spec"]["template"]["spec"]["containers"]
    return dict(one)


@pytest.mark.parametrize(
    ("words", "port", "kept"),
    [(VLLM, 8000, ["vllm", "serve", "org/m-8B"]), (SGLANG, 30000, SGLANG[:5])],
    ids=["vllm", "sglang"],
)
def test_it_starts_the_server_with_the_options_alone_that_keep_it_within_its_booking(
    words: list[str], port: int, kept: list[str]
) -> None:
    found = container(made(words))
    assert found["command"] == kept
    context = "--max-model-len" if words is VLLM else "--context-length"
    assert found["args"][found["args"].index(context) + 1] in {"8192", "4096"}
    assert found["ports"] == [{"containerPort": port}]
    assert command.read([*found["command"], *found["args"]]).model == "org/m-8B"


def test_arguments_of_an_image_stay_arguments() -> None:
    found = container(made(["--model", "org/m-8B", "--max-model-len", "8192"]))
    assert "command" not in found
    assert found["args"][:2] == ["--model", "org/m-8B"]


def test_its_pods_ask_for_what_was_sized_and_are_not_root() -> None:
    found = made(VLLM)
    template = found["spec"]["template"]
    raw = {
        "metadata": {**template["metadata"], "name": "p", "namespace": "team", "uid": "u"},
        "spec": {**template["spec"], "schedulerName": names.SCHEDULER_NAME},
    }
    demand = pod.demand(raw)
    assert demand.gpu_models == frozenset({GPUModel("NVIDIA-L40S")})
    assert demand.workload_type is pod.WorkloadType.INFERENCE
    assert demand.memory_mib is not None
    assert 16_000 < demand.memory_mib < 24_000
    assert 0 < demand.share <= 100
    assert rootless.fault(template["spec"]) is None
    assert found["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


def test_it_is_called_after_its_model_unless_it_has_a_name() -> None:
    assert made(VLLM)["metadata"]["name"] == "m-8b"
    assert made(VLLM, name="chat")["metadata"]["name"] == "chat"
    with pytest.raises(errors.InvalidInputError, match="--name: 'Chat': must be lower case"):
        made(VLLM, name="Chat")


@pytest.mark.parametrize(
    ("words", "changes", "says"),
    [
        (VLLM, {"load": None}, "--requests-per-second: None: is needed"),
        (VLLM, {"gpu": "Tesla-T4"}, "--gpu-model: 'Tesla-T4': the server does not fit"),
        ([*VLLM, "-tp", "2"], {}, "--tensor-parallel-size: 2: a server of several GPUs"),
        ([" ".join(VLLM)], {}, "must be words, not a text"),
        (["bash", "-c", " ".join(VLLM)], {}, "must be words, not a text"),
    ],
)
def test_what_cannot_be_written_is_named(words: list[str], changes: dict[str, Any], says: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=says):
        made(words, **changes)


@pytest.mark.parametrize("spelt", [["--a-b", "1"], ["--a-b=1"], ["--a_b", "1"], ["--a_b=1"]])
def test_an_option_is_taken_out_however_it_is_spelt(spelt: list[str]) -> None:
    assert deployment.without(["x", *spelt, "--c", "2"], ["--a-b"]) == ["x", "--c", "2"]
