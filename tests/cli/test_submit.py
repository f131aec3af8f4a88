"""`cotenant submit`: objects of a model, what it will need and cost, and arguments that contradict each other."""

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
import yaml

from cli import kit
from cotenant_api import cli, dljob, errors, graph, pod, rootless
from cotenant_cli.submitting import objects

GRAPH = graph.Graph.from_object(
    {
        "name": "small",
        "mode": "Training",
        "batchSize": 32,
        "parameters": 10**7,
        "parameterBytes": 4 * 10**7,
        "operators": [
            {
                "class": "matmul",
                "name": "aten::mm",
                "phase": "Forward",
                "repeat": 100,
                "flops": 10**9,
                "bytesRead": 10**6,
                "bytesWritten": 10**6,
                "outputElements": 10**6,
                "dims": {"m": 1024, "n": 1024, "k": 512},
            }
        ],
    },
    source="test",
).sealed()
OPTIONS = objects.Options(image="registry.example/train:1", command=["python", "train.py"])
PLACE = {"namespace": "team", "name": "small"}
ROOT = Path(__file__).parents[2]
OFFLINE = ["--dry-run=client", "--gpu-model", "NVIDIA-H200"]


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A graph document in a file."""
    path = tmp_path / "small.json"
    path.write_text(GRAPH.to_json())
    return str(path)


def submit(*words: str) -> int:
    return cli.main(["submit", *words])


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("my_models:resnet", "resnet"),
        ("pkg.models:Net.tiny_v2", "net-tiny-v2"),
        ("graphs/resnet50-64.json.gz", "resnet50-64"),
        ("BERT_base.onnx", "bert-base"),
        ("bert-base-uncased/", "bert-base-uncased"),
        ("m:" + "x" * 80, "x" * dljob.MAX_NAME),
    ],
)
def test_a_job_is_named_as_its_model_unless_it_is_named(target: str, name: str) -> None:
    assert objects.name_of(None, target) == name
    assert objects.name_of("mine", target) == "mine"


@pytest.mark.parametrize("wanted", ["", "Bert", "a_b", "x" * 53, "-a"])
def test_a_name_that_a_dljob_may_not_have_is_refused(wanted: str) -> None:
    with pytest.raises(errors.InvalidInputError, match="--name"):
        objects.name_of(wanted, "m:f")


def test_the_config_map_holds_the_graph_and_the_dljob_names_it() -> None:
    made = objects.config_map(GRAPH, **PLACE)
    job = objects.job(OPTIONS, **PLACE)
    reference = job["spec"]["model"]["configMapRef"]
    assert reference["name"] == made["metadata"]["name"]
    assert list(made["binaryData"]) == [reference["key"]]
    assert graph.Graph.read(objects.graph_of(made), source="test") == GRAPH
    assert job["spec"]["template"]["spec"]["containers"] == [
        {
            "name": "main",
            "image": "registry.example/train:1",
            "securityContext": rootless.PROVEN,
            "command": ["python", "train.py"],
        }
    ]


def test_the_container_may_share_a_gpu_whatever_user_is_named() -> None:
    made = objects.job(replace(OPTIONS, user=1000), **PLACE)["spec"]["template"]["spec"]
    assert made["containers"][0]["securityContext"] == {**rootless.PROVEN, "runAsUser": 1000}
    assert rootless.fault(made) is None


@pytest.mark.parametrize("whole", [{"gpus_per_replica": 2}, {"sharing": dljob.Sharing.EXCLUSIVE}])
def test_a_container_with_whole_gpus_runs_as_its_image_says(whole: dict[str, Any]) -> None:
    made = objects.job(replace(OPTIONS, **whole), **PLACE)["spec"]["template"]["spec"]
    assert "securityContext" not in made["containers"][0]


@pytest.mark.parametrize("user", ["0", "-1", "root", "1.5", str(2**31)])
def test_a_user_that_may_share_no_gpu_is_refused(model: str, user: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        submit(model, "--image", "i", f"--user={user}", *OFFLINE)
    assert "who shares a GPU is not root" in capsys.readouterr().err


def test_the_graph_goes_with_its_dljob() -> None:
    made = objects.owned(objects.config_map(GRAPH, **PLACE), {"metadata": {"name": "small", "uid": "u"}})
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("DLJob", "small", "u")


def test_a_graph_that_the_operator_would_refuse_is_refused_here() -> None:
    names = (hashlib.shake_256(str(number).encode()).hexdigest(128) for number in range(5_000))
    operators = tuple(GRAPH.operators[0].model_copy(update={"name": name}) for name in names)
    large = GRAPH.model_copy(update={"operators": operators})
    with pytest.raises(errors.InvalidInputError, match=f"at most {graph.MAX_COMPRESSED_BYTES} bytes"):
        objects.config_map(large, **PLACE)


def test_what_is_asked_for_stands_in_the_spec_and_nothing_else() -> None:
    asked = objects.Options(
        image="i",
        environment={"A": "1"},
        workload_type=pod.WorkloadType.INFERENCE,
        replicas=2,
        gpu_models=["NVIDIA-L4"],
        gpu_memory="10Gi",
        sharing=dljob.Sharing.EXCLUSIVE,
    )
    spec = objects.job(asked, **PLACE)["spec"]
    assert spec.pop("template")["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]
    del spec["model"]
    assert spec == {
        "workloadType": "Inference",
        "replicas": 2,
        "gpuModels": ["NVIDIA-L4"],
        "gpuMemory": "10Gi",
        "sharing": "Exclusive",
    }


def dljob_file(**changed: Any) -> str:
    spec = {"template": {"spec": {"containers": [{"name": "main", "image": "i"}]}}} | changed.pop("spec", {})
    base = {"apiVersion": "cotenant.dev/v1alpha1", "kind": "DLJob", "metadata": {"name": "mine"}, "spec": spec}
    return yaml.safe_dump(base | changed)


def read_file(text: str, *, namespace: str | None = None) -> dict[str, Any]:
    return objects.from_file(text, source="job.yaml", namespace=namespace, default="here")


def test_a_file_keeps_what_it_says_and_gets_the_graph() -> None:
    found = read_file(dljob_file(spec={"replicas": 3}))
    assert found["spec"]["replicas"] == 3
    assert found["spec"]["model"] == {"configMapRef": {"name": "mine-graph", "key": objects.KEY}}
    assert found["metadata"]["namespace"] == "here"
    assert read_file(dljob_file(), namespace="team")["metadata"]["namespace"] == "team"


@pytest.mark.parametrize(
    ("text", "namespace", "field"),
    [
        ("a: [", None, "--filename"),
        ("kind: Pod", None, "--filename"),
        (dljob_file() + "---\n" + dljob_file(), None, "--filename"),
        (dljob_file(apiVersion="cotenant.dev/v9"), None, "job.yaml: apiVersion"),
        (dljob_file(spec={"model": {"configMapRef": {"name": "x"}}}), None, "job.yaml: spec.model"),
        (dljob_file(metadata={"name": "mine", "namespace": "there"}), "team", "--namespace"),
        (dljob_file() + "kind: DLJob\n", None, "--filename"),
        (dljob_file(metadata={}), None, "job.yaml: metadata.name"),
        (dljob_file(metadata={"name": 5}), None, "job.yaml: metadata.name"),
        (dljob_file(metadata="foo"), None, "job.yaml: metadata"),
        (dljob_file(metadata={"name": "mine", "namespace": "../../x"}), None, "job.yaml: metadata.namespace"),
        (dljob_file(metadata={"name": "mine", "namespace": 5}), None, "job.yaml: metadata.namespace"),
        (dljob_file().partition("spec:")[0] + "spec: foo", None, "job.yaml: spec"),
        (dljob_file(spec={"replicas": -1}), None, "spec.replicas"),
    ],
)
def test_a_file_that_is_no_dljob_for_a_graph_is_refused(text: str, namespace: str | None, field: str) -> None:
    with pytest.raises(errors.InvalidInputError) as caught:
        read_file(text, namespace=namespace)
    assert caught.value.field == field


@pytest.mark.parametrize("text", ["12:30:00", "2024-01-01", "2024-13-01"])
def test_a_file_keeps_the_strings_that_kubectl_reads(text: str) -> None:
    written = dljob_file(metadata={"name": "mine", "labels": {"at": "TEXT"}}).replace("TEXT", text)
    assert read_file(written)["metadata"]["labels"] == {"at": text}


@pytest.mark.parametrize(
    ("template", "field"),
    [
        ({"spec": "foo"}, "spec.template.spec"),
        ({"spec": {"containers": "foo"}}, "spec.template.spec.containers"),
        ({"spec": {"containers": ["foo"]}}, "spec.template.spec.containers[0]"),
        ({"spec": {"containers": [{"resources": "foo"}]}}, "spec.template.spec.containers[0].resources"),
        ({"spec": {"containers": [{"resources": {"limits": 1}}]}}, "spec.template.spec.containers[0].resources.limits"),
    ],
)
def test_a_pod_template_that_cannot_be_read_is_refused(
    model: str, tmp_path: Path, template: dict[str, Any], field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(dljob_file(spec={"template": template}))
    assert submit(model, "-f", str(path), *OFFLINE) == 2
    assert capsys.readouterr().err.startswith(f"cotenant: submit: {field}: ")


def test_the_namespace_of_a_context_has_to_be_a_name(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    context = {"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "../../x"}}
    named = [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}]
    config = {"current-context": "c", "contexts": [context], "clusters": named, "users": [{"name": "u", "user": {}}]}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    assert submit(model, "--image", "i", "--kubeconfig", str(path)) == 2
    assert capsys.readouterr().err.startswith("cotenant: submit: namespace: '../../x': must be a name")


def test_a_trial_without_a_cluster_says_share_memory_time_and_cost(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("NVIDIA-H200: 4\n")
    assert submit(model, "--image", "i", *OFFLINE, "--steps", "1000000", "--prices", str(prices)) == 0
    out = capsys.readouterr().out
    titles, row = (line.split() for line in out.splitlines()[2:4])
    shown = dict(zip(titles, row, strict=False))
    assert out.startswith("DLJob default/small, predicted by ")
    assert "no cluster was asked" in out
    hours = 1_000_000 * float(shown["STEP-MS"]) / 3.6e6
    hourly = 4 * int(shown["BOOKED%"]) / 100
    assert float(shown["COST/H"]) == pytest.approx(hourly, abs=0.006)
    assert float(shown["COST"]) == pytest.approx(hours * hourly, rel=0.02, abs=0.01)


def test_a_trial_of_a_cluster_that_does_not_answer_goes_on_without_it(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    context = {"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "team"}}
    named = [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}]
    config = {"current-context": "c", "contexts": [context], "clusters": named, "users": [{"name": "u", "user": {}}]}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    assert submit(model, "--image", "i", "--dry-run", "--gpu-models", "NVIDIA-L4", "--kubeconfig", str(path)) == 0
    out = capsys.readouterr().out
    assert out.startswith("DLJob team/small")
    assert "no answer" in out
    assert [line.split()[0] for line in out.splitlines()[3:4]] == ["NVIDIA-L4"]


def test_a_trial_as_json_is_the_objects_as_kubectl_shows_them(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--image", "i", *OFFLINE, "--command", "python", "train.py", "-o", "json", "--", "--epochs", "3"]
    assert submit(model, *words) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["kind"] for one in found["items"]] == ["ConfigMap", "DLJob"]
    container = found["items"][1]["spec"]["template"]["spec"]["containers"][0]
    assert (container["command"], container["args"]) == (["python", "train.py"], ["--epochs", "3"])


def test_words_behind_two_hyphens_are_the_command_where_none_is_named(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit(model, "--image", "i", *OFFLINE, "-o", "json", "--", "python", "-m", "train", "--", "x") == 0
    container = json.loads(capsys.readouterr().out)["items"][1]["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["python", "-m", "train", "--", "x"]
    assert "args" not in container


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--image: None: must be given"),
        (["--image", "i", "--steps", "5"], "--steps: 5: needs --dry-run"),
        (["--image", "i", *OFFLINE, "--steps", "0"], "--steps: 0: must be 1 to 1000000000000000"),
        (["--image", "i", *OFFLINE, "--steps", "1" * 401], "--steps: 1111"),
        (["--image", "i", *OFFLINE, "--steps", "5", "-o", "json"], "--steps: 5: is not for -o json"),
        (["--image", "i", *OFFLINE, "--prices", "p", "-o", "yaml"], "--prices: 'p': is not for -o yaml"),
        (
            ["--image", "i", *OFFLINE, "--gpu-models", "NVIDIA-L4,NVIDIA-A10"],
            "--gpu-model: 'NVIDIA-H200': is not among the job's gpuModels (NVIDIA-L4, NVIDIA-A10)",
        ),
        (["--image", "i", *OFFLINE, "--env", "A"], "--env: 'A': must be KEY=VALUE"),
        (["--image", "i", *OFFLINE, "--batch-size", "8"], "--batch-size: 8: must be 32, as in the graph"),
        (["--image", "i", *OFFLINE, "--workload-type", "Inference"], "--workload-type: 'Inference': must be Training"),
        (["--image", "i", *OFFLINE, "--prices", "/nowhere"], "--prices: '/nowhere': cannot be read"),
        (["-f", "/nowhere", *OFFLINE], "--filename: '/nowhere': cannot be read"),
        (["-f", "job.yaml", "--image", "i", *OFFLINE], "--image: 'i': is not for --filename: write it into job.yaml"),
        (["--image", "i", *OFFLINE, "--gpu-memory", "much"], "spec.gpuMemory: 'much': must be a quantity"),
        (["--image", "i", "--dry-run", "--gpu-model", "Ours"], "gpuModels: 'Ours': is not known; known are"),
        (["--image", "i", "--kubeconfig", "/nowhere"], "--kubeconfig: '/nowhere'"),
    ],
)
def test_bad_input_is_one_line_with_the_remedy(
    model: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit(model, *words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"cotenant: submit: {said}")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["--precision", "fp32"],
        ["--optimizer", "sgd"],
        ["--compile"],
        ["--arg", "depth=50"],
        ["--example", "item=1"],
        ["--input-shape", "x=1,2"],
        ["--sequence-length", "9"],
        ["--target-length", "9"],
        ["--architecture", "Bert"],
        ["--loader-workers", "0"],
        ["--samples-per-second", "9"],
        ["--data-on-gpu"],
        ["--requests-per-second", "9"],
        ["--samples-per-request", "1"],
    ],
)
def test_what_a_graph_says_is_not_said_again(model: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert submit(model, "--image", "i", *OFFLINE, *words) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"cotenant: submit: {words[0]}: ")
    assert f"is not for {model}, a graph that says it" in said


def test_one_of_the_gpu_models_of_the_job_may_be_asked_about(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert submit(model, "--image", "i", *OFFLINE, "--gpu-models", "NVIDIA-L4,NVIDIA-H200") == 0
    shown = capsys.readouterr().out
    assert "NVIDIA-H200" in shown
    assert "NVIDIA-L4" not in shown


def test_a_gpu_model_without_a_price_is_told_of(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("NVIDIA-H20: 3.5\n")
    assert submit(model, "--image", "i", *OFFLINE, "--prices", str(prices)) == 0
    told = "Note: NVIDIA-H200: --prices names no price of it; did you mean NVIDIA-H20?"
    assert told in capsys.readouterr().out.splitlines()


def test_an_onnx_file_is_extracted_and_submitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs = [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4, 16])]
    outputs = [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4, 8])]
    weights = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [16, 8], bytes(16 * 8 * 4), raw=True)
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])]
    made = onnx.helper.make_graph(nodes, "g", inputs, outputs, [weights])
    path = tmp_path / "Tiny_model.onnx"
    onnx.save(onnx.helper.make_model(made), path)
    words = ["--workload-type", "Inference", "--batch-size", "4", "--image", "i", *OFFLINE, "-o", "json"]
    assert submit(str(path), *words) == 0
    config_map, job = json.loads(capsys.readouterr().out)["items"]
    assert job["metadata"]["name"] == "tiny-model"
    found = graph.Graph.read(objects.graph_of(config_map), source="test")
    assert (found.mode, found.parameters) == (graph.Mode.INFERENCE, 16 * 8)


@pytest.mark.parametrize("target", ["nothing.onnx", "nothing.json", "nothing.json.gz"])
def test_a_model_that_is_not_there_is_refused(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert submit(target, "--image", "i", "--name", "x", "--batch-size", "1", *OFFLINE) == 2
    assert target in capsys.readouterr().err


def test_a_model_needs_its_batch_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert submit("m:f", "--image", "i", *OFFLINE) == 2
    assert capsys.readouterr().err.startswith("cotenant: submit: --batch-size: None: must be 1 or more")


def test_no_word_of_the_cluster_reaches_a_terminal_as_more_than_text(model: str) -> None:
    from cotenant_api import tables
    from cotenant_cli.submitting import costs, estimate_lines, estimates

    lists = kit.lists(
        gpunodes=[kit.gpunode(kit.gpu(model="NVIDIA-H200"), kit.gpu("GPU-1", index=1, model=kit.HOSTILE))],
        policies=[kit.policy()],
    )
    job = objects.job(OPTIONS, **PLACE)
    found = estimates.estimate(GRAPH, job, lists, estimates.Trial(prices={}))
    said = list(estimate_lines.lines(found, tables.Look()))
    assert all(line.isprintable() for line in said)
    assert any("nothing is known of this GPU model" in line for line in said)
    assert isinstance(found, costs.Estimate)


def test_the_readme_shows_what_a_trial_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "cli" / "README.md").read_text()
    (block,) = [block for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL) if "cotenant submit" in block]
    _, file, command = block.split("$ ")
    prices = tmp_path / "prices.yaml"
    prices.write_text(file.partition("\n")[2])
    line, _, shown = command.partition("\n")
    places = {"manifests/": f"{ROOT}/manifests/", "prices.yaml": str(prices)}
    for name, path in places.items():
        line = line.replace(name, path)
    assert cli.main(line.split()[1:]) == 0
    assert capsys.readouterr().out == shown
