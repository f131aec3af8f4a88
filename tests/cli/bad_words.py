"""Command lines and files that cannot be used: what is told, and the exit code. None of them needs a cluster."""

import gzip
from typing import Final

from bad_input import Words

GRAPH: Final = (
    b'{"v":1,"name":"x","mode":"Training","batchSize":3,"parameters":10,"parameterBytes":40,"savedActivationBytes":1,'
    b'"inputBytesPerStep":1,"criticalPathOperators":1,"operators":[{"class":"matmul","name":"aten::mm","phase":"Forward",'
    b'"flops":1000000000,"bytesRead":1000,"bytesWritten":1000,"outputElements":100}]}'
)
CONTEXT: Final = (
    '{{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{{"name":"c","cluster":{{"server":"{}"}}}}],'
    '"contexts":[{{"name":"c","context":{{"cluster":"c","user":"u"}}}}],"users":[{{"name":"u","user":{{}}}}]}}'
)
POLICY: Final = b"apiVersion: cotenant.dev/v1alpha1\nkind: PackingPolicy\nmetadata: {name: default}\nspec: {}\n"
FILES: Final = {
    "graph.json": GRAPH,
    "a.json": b'{"a":1}',
    "a.json.gz": gzip.compress(b'{"a":1}'),
    "negative.json": GRAPH.replace(b'"batchSize":3', b'"batchSize":-3'),
    "nan.json": GRAPH.replace(b'"batchSize":3', b'"batchSize":NaN'),
    "later.json": b'{"v":99}',
    "null.json": b"null",
    "empty.json": b"",
    "llama.json": b'{"model_type":"llama","hidden_size":"4096"}',
    "lama.json": b'{"model_type":"lama"}',
    "deep.json": b"[" * 100_000,
    "binary.json": b"\xff\xfe\x00",
    "text.txt": b"x\n",
    "open.yaml": b"not: [closed",
    "list.yaml": b"- 1\n",
    "policy.yaml": POLICY,
    "odd.yaml": POLICY.replace(b"spec: {}", b"spec: {placement: BestFitt}"),
    "broken.onnx": b"\x80\x02",
    "none.onnx": b"",
    "word.conf": b"hello",
    "types.conf": b'{"clusters":3,"contexts":"x"}',
    "empty.conf": b"",
    "dead.conf": CONTEXT.format("https://127.0.0.1:1").encode(),
    "token.conf": CONTEXT.format("https://127.0.0.1:1").replace('"user":{}', '"user":{"token":"t0\\nken"}').encode(),
    "nowhere.conf": CONTEXT.format("").encode(),
    "name.conf": CONTEXT.format("not a host").encode(),
}
"""By name; `{DIR}` in a command line is their folder."""

REMEDY: Final = "name a readable kubeconfig and one of its contexts (kubectl config get-contexts)"
EXTRACTED: Final = "give what `cotenant extract` wrote"
OFFLINE: Final = "--image i --dry-run --gpu-model NVIDIA-H200"


def wrong(line: str, *said: str, code: int = 2) -> Words:
    """A command line with its answer; named by itself."""
    return Words(name=line, line=line, said=said, code=code)


CLUSTER: Final = (
    wrong("top --kubeconfig {DIR}/open.yaml", "--kubeconfig", "open.yaml", REMEDY),
    wrong("why x --kubeconfig {DIR}/word.conf", "--kubeconfig", "word.conf", REMEDY),
    wrong("node show n1 --kubeconfig {DIR}/types.conf", "--kubeconfig", "types.conf", REMEDY),
    wrong("doctor --kubeconfig {DIR}/empty.conf", "--kubeconfig", "empty.conf", REMEDY),
    wrong("snapshot --kubeconfig {DIR}/binary.json", "--kubeconfig", "binary.json", REMEDY),
    wrong("dashboard --kubeconfig {DIR}/word.conf", "--kubeconfig", "word.conf", REMEDY),
    wrong("submit {DIR}/graph.json --image i --kubeconfig {DIR}/word.conf", "--kubeconfig", "word.conf", REMEDY),
    wrong("top --kubeconfig {DIR}", "--kubeconfig", REMEDY),
    wrong("top --kubeconfig {DIR}/missing.conf", "--kubeconfig", "missing.conf", REMEDY),
    wrong("top --kubeconfig {DIR}/nowhere.conf", "--kubeconfig", "no server that is a URL", REMEDY),
    wrong("top --kubeconfig {DIR}/name.conf", "--kubeconfig", "not a host", REMEDY),
    wrong("top --kubeconfig {DIR}/token.conf", "--kubeconfig", "must be one line of ASCII", REMEDY),
    wrong("submit {DIR}/graph.json --image i --kubeconfig {DIR}/token.conf", "must be one line of ASCII", REMEDY),
    wrong("dashboard --kubeconfig {DIR}/token.conf", "must be one line of ASCII", REMEDY),
    wrong("top --kubeconfig {DIR}/dead.conf --context other", "--context", "'other'", REMEDY),
    wrong("top", "no cluster is known", REMEDY, code=1),
    wrong("why x", "no cluster is known", REMEDY, code=1),
    wrong("doctor", "no cluster is known", REMEDY, code=1),
    wrong("top --kubeconfig {DIR}/dead.conf", "no answer", "Connection refused", "whether the cluster is up", code=1),
    wrong("why x --kubeconfig {DIR}/dead.conf", "no answer", "whether the cluster is up", code=1),
    wrong("doctor --kubeconfig {DIR}/dead.conf", "no answer", "whether the cluster is up", code=1),
    wrong("node drain n1 --kubeconfig {DIR}/dead.conf", "no answer", "whether the cluster is up", code=1),
    wrong(
        "submit {DIR}/graph.json --image i --kubeconfig {DIR}/dead.conf",
        "no answer",
        "whether the cluster is up",
        code=1,
    ),
    wrong("top --interval -1", "--interval", "-1", "must be at least 1"),
    wrong("top --interval nan", "--interval", "nan", "must be at least 1"),
    wrong("top --interval inf", "--interval", "inf", "at most 86400"),
    wrong("top --watch --interval 1e10", "--interval", "10000000000.0", "at most 86400"),
    wrong("top --interval soon", "--interval", "'soon'"),
    wrong("top -n Bad_NS", "--namespace", "'Bad_NS'", "lower case letters"),
    wrong("top -o xml", "--output", "'xml'", "'json'"),
    wrong("why a/b/c", "--namespace", "'a/b'", "lower case letters"),
    wrong("why 'a b'", "JOB", "'a b'", "lower case letters"),
    wrong("why a/b -n c", "--namespace", "'c'", "or left out"),
    wrong("node show 'n 1'", "NODE", "'n 1'", "lower case letters"),
    wrong("node drain n1 --timeout -1", "--timeout", "-1", "must be more than 0"),
    wrong("node drain n1 --timeout nan", "--timeout", "nan", "must be more than 0"),
    wrong("doctor -n 'a b'", "--namespace", "'a b'", "lower case letters"),
    wrong("conquer", "'conquer'", "'submit'"),
    wrong("completion tcsh", "'tcsh'", "'bash'"),
)
SUBMIT: Final = (
    wrong("submit {DIR}/a.json " + OFFLINE, "MODEL", "a.json", "neither a graph", EXTRACTED),
    wrong("submit {DIR}/missing.json " + OFFLINE, "MODEL", "missing.json", "cannot be read"),
    wrong("submit {DIR}/negative.json " + OFFLINE, "batchSize", "-3", "greater than or equal to 1"),
    wrong("submit {DIR}/graph.json --dry-run", "--image", "must be given"),
    wrong("submit m:f --batch-size 2 --requests-per-second 5 " + OFFLINE, "5.0", "needs --workload-type Inference"),
    wrong(
        "submit {DIR}/graph.json --gpu-memory 10 " + OFFLINE, "spec.gpuMemory", "'10'", "at least 64Mi", "counts bytes"
    ),
    wrong("submit {DIR}/graph.json --gpu-memory lots " + OFFLINE, "spec.gpuMemory", "'lots'", '"8Gi"'),
    wrong("submit {DIR}/graph.json --replicas 0 " + OFFLINE, "spec.replicas", "0", "must be 1 or more"),
    wrong("submit {DIR}/graph.json --replicas -1 " + OFFLINE, "spec.replicas", "-1"),
    wrong("submit {DIR}/graph.json --name Bad_Name " + OFFLINE, "--name", "'Bad_Name'", "lower case letters"),
    wrong("submit {DIR}/graph.json --env A " + OFFLINE, "--env", "'A'", "KEY=VALUE"),
    wrong("submit {DIR}/graph.json --user 0 " + OFFLINE, "--user", "0", "above 0"),
    wrong("submit {DIR}/graph.json --batch-size 5 " + OFFLINE, "--batch-size", "5", "must be 3"),
    wrong("submit {DIR}/graph.json --steps 0 " + OFFLINE, "--steps", "0", "must be 1 to"),
    wrong("submit {DIR}/graph.json --steps 5 --image i", "--steps", "5", "needs --dry-run"),
    wrong("submit {DIR}/graph.json --prices {DIR}/open.yaml " + OFFLINE, "--prices", "open.yaml", "must be YAML"),
    wrong("submit {DIR}/graph.json --prices {DIR}/list.yaml " + OFFLINE, "--prices", "list.yaml", "NVIDIA-H200: 3.5"),
    wrong(
        "submit {DIR}/graph.json --image i --dry-run --gpu-model H100", "'H100'", "did you mean NVIDIA-H100-80GB-HBM3"
    ),
    wrong("submit {DIR}/graph.json -f {DIR}/open.yaml --dry-run", "--filename", "open.yaml", "must be YAML"),
    wrong("submit {DIR}/graph.json -f {DIR}/policy.yaml --dry-run", "--filename", "policy.yaml", "one DLJob"),
)
PREDICT: Final = (
    wrong("size {DIR}/llama.json", "COMMAND", "say behind -- how the server is started"),
    wrong("size {DIR}/llama.json -- python train.py", "command", "python train.py", "vllm serve MODEL"),
    wrong("size {DIR}/llama.json -- vllm serve m", "num_attention_heads", "None", "must be there"),
    wrong("size {DIR}/lama.json -- vllm serve m", "model_type", "lama", "did you mean llama?"),
    wrong("size {DIR}/empty.json -- vllm serve m", "CONFIG", "empty.json", "must be a config.json"),
    wrong("size {DIR}/deep.json -- vllm serve m", "CONFIG", "deep.json", "must be a config.json"),
    wrong("size {DIR}/none.json -- vllm serve m", "CONFIG", "none.json", "cannot be read"),
    wrong("size {DIR}/llama.json -- vllm serve m -tp two", "-tp", "two", "must be a whole number"),
    wrong("predict {DIR}/a.json", "GRAPH", "a.json", "is not a graph document", EXTRACTED),
    wrong("predict {DIR}/a.json.gz", "a.json.gz", "is not a graph document", EXTRACTED),
    wrong("predict {DIR}/text.txt", "text.txt", "must be JSON"),
    wrong("predict {DIR}/binary.json", "binary.json", "must be JSON"),
    wrong("predict {DIR}/empty.json", "empty.json", "must be JSON"),
    wrong("predict {DIR}/null.json", "null.json", "None", "must be a JSON object"),
    wrong("predict {DIR}/deep.json", "deep.json", "must be JSON"),
    wrong("predict {DIR}/later.json", "later.json.v", "99", "reads version 1"),
    wrong("predict {DIR}/negative.json", "batchSize", "-3", "greater than or equal to 1"),
    wrong("predict {DIR}/nan.json", "batchSize", "nan", "finite number"),
    wrong("predict {DIR}", "GRAPH", "Is a directory"),
    wrong("predict {DIR}/missing.json", "GRAPH", "missing.json", "No such file"),
    wrong("predict {DIR}/graph.json --gpu-model H100", "--gpu-model", "'H100'", "did you mean NVIDIA-H100-80GB-HBM3"),
    wrong("predict {DIR}/graph.json --cpu-cores -1", "cpuCores", "-1", "must be above 0"),
    wrong("predict {DIR}/graph.json --devices {DIR}/list.yaml", "list.yaml[0]", "1"),
    wrong("predict {DIR}/graph.json --devices {DIR}/open.yaml", "open.yaml", "must be YAML"),
    wrong("predict {DIR}/graph.json --model {DIR}", "--model", "cotenant train --out"),
    wrong("extract m:f --batch-size 0", "--batch-size", "0 is not 1 or more"),
    wrong("extract m:f", "--batch-size"),
    wrong("extract m:f --batch-size 1 --precision fp9", "--precision", "'fp9'", "'bf16'"),
    wrong("extract {DIR}/broken.onnx --batch-size 1", "broken.onnx", "export it again"),
    wrong("extract {DIR}/none.onnx --batch-size 1", "none.onnx", "export it again"),
    wrong("extract {DIR}/missing.onnx --batch-size 1", "MODEL", "missing.onnx", "No such file"),
    wrong("train {DIR}/text.txt --out {DIR}/o", "DATA", "text.txt", ".jsonl"),
    wrong("train missing --out {DIR}/o", "DATA", "'missing'", "no shipped set"),
    wrong("train {DIR}/graph.json --out {DIR}/o", "DATA", "graph.json", "measurement lines"),
    wrong("evaluate {DIR}/a.json", "a.json", "operators"),
)
OTHERS: Final = (
    wrong("simulate cluster --snapshot {DIR}/a.json --policy {DIR}/policy.yaml", "a.json.taken", "required"),
    wrong("simulate cluster --snapshot {DIR}/missing --policy {DIR}/policy.yaml", "--snapshot", "cannot be read"),
    wrong("simulate cluster --snapshot {DIR}/a.json --policy {DIR}/list.yaml", "list.yaml", "of kind PackingPolicy"),
    wrong(
        "simulate cluster --snapshot {DIR}/a.json --policy {DIR}/odd.yaml", "spec.placement", "'BestFitt'", "'BestFit'"
    ),
    wrong(
        "snapshot --kubeconfig {DIR}/dead.conf --prometheus http://[::1", "--prometheus", "http://[::1", "must be a URL"
    ),
    wrong("snapshot --kubeconfig {DIR}/dead.conf --prometheus http://h:abc", "--prometheus", "h:abc", "must be a URL"),
    wrong("snapshot --kubeconfig {DIR}/dead.conf --prometheus 'http://a b/'", "--prometheus", "a b", "must be a URL"),
    wrong(
        "snapshot --kubeconfig {DIR}/dead.conf --prometheus http://h --prometheus-token-file {DIR}/binary.json",
        "--prometheus-token-file",
        "binary.json",
        "cannot be read",
    ),
    wrong(
        "snapshot --kubeconfig {DIR}/dead.conf --prometheus http://h --prometheus-token-file {DIR}/open.yaml",
        "--prometheus-token-file",
        "open.yaml",
        "must hold one token",
    ),
    wrong("simulate waits --seeds x", "--seeds", "'x'", "42-51"),
    wrong("simulate philly --jobs 0", "--jobs", "0", "must be at least 2"),
    wrong("simulate openb --trace-dir {DIR} --trace default", "--trace-dir", "openb_node_list_gpu_node.csv"),
    wrong("simulated-agents --config {DIR}/list.yaml", "list.yaml", "[1]"),
    wrong("simulated-agents --config {DIR}/open.yaml", "--config", "must be YAML"),
    wrong("dashboard --address nope", "--address", "'nope'", "127.0.0.1"),
    wrong("dashboard --address 0.0.0.0", "--address", "'0.0.0.0'", "add --authenticate"),
    wrong("dashboard --tls-key k.pem", "--tls-key", "'k.pem'", "--tls-certificate"),
    wrong("operator --liveness-port 99999", "--liveness-port", "'99999'", "1 to 65535"),
    wrong("extender --filter Nope", "--filter", "'Nope'", "'All'"),
    wrong("node-agent", "--node"),
    wrong("node-doctor --output xml", "--output", "'xml'", "'json'"),
    wrong("release nope", "'nope'", "'prepare-uninstall'"),
    wrong("crds --write {DIR}/text.txt/x", "--write", "cannot be written"),
)
LINES: Final = (*CLUSTER, *SUBMIT, *PREDICT, *OTHERS)
