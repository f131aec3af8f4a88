"""Command lines of vLLM and SGLang, as people, charts and pods write them."""

import pytest

from cotenant_api import errors
from cotenant_predictor.serving import command
from cotenant_predictor.serving.command import Program


@pytest.mark.parametrize(
    "words",
    [
        ["vllm", "serve", "org/model"],
        ["/opt/venv/bin/vllm", "serve", "org/model", "--port", "8000"],
        ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "org/model"],
        ["vllm", "serve", "--model=org/model"],
        ["vllm serve org/model --port 8000"],
        ["vllm serve 'org/model' --port \"8000\""],
        ["sh", "-c", "export A=1; vllm serve org/model --port 8000"],
        ["bash", "-lc", "vllm serve org/model --max-num-seqs 4 & vllm serve other --dtype float32"],
        ["--model", "org/model", "--port", "8000"],
        ["org/model", "--max-model-len", "8192"],
    ],
)
def test_a_server_of_vllm_is_known_by_how_it_is_started(words: list[str]) -> None:
    server = command.read(words)
    assert (server.program, server.model) == (Program.VLLM, "org/model")


@pytest.mark.parametrize("start", [["python", "-m", "sglang.launch_server"], ["sglang", "serve"]])
def test_a_server_of_sglang_is_known_by_how_it_is_started(start: list[str]) -> None:
    server = command.read([*start, "--model-path", "org/model", "--mem-fraction-static", "0.4", "--tp", "2"])
    assert (server.program, server.model, server.tensor_parallel) == (Program.SGLANG, "org/model", 2)


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["--max-model-len", "8192"], "context", 8192),
        (["--max_model_len=8K"], "context", 8192),
        (["--max-model-len", "8k"], "context", 8000),
        (["--max-model-len", "1.5k"], "context", 1500),
        (["--kv-cache-memory-bytes", "4G"], "kv_bytes", 4 * 2**30),
        (["-tp", "4"], "tensor_parallel", 4),
        (["--enforce-eager"], "eager", True),
        (["--enforce-eager=False"], "eager", False),
        (["--tensor-parallel", "2"], "tensor_parallel", 2),
        (["--max-model", "8192"], "context", 8192),
        (["--max-model-len", "auto"], "context", None),
        (["--max-model-len", "-1"], "context", None),
        (["--kv-cache-memory", "8G"], "kv_bytes", 8 * 2**30),
        (["--override-generation-config", '{"max_new_tokens": 7}', "--max-num-seqs", "3"], "sequences", 3),
        (["--enable-prefix-caching", "--max-num-seqs", "16"], "sequences", 16),
        (["--kv-cache-dtype", "fp8"], "kv_dtype", "fp8"),
    ],
)
def test_an_option_is_read_as_the_server_reads_it(words: list[str], field: str, value: object) -> None:
    assert getattr(command.read(["vllm", "serve", "m", *words]), field) == value


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["python", "train.py"], "command: 'python train.py': must be the command that starts the server"),
        (["vllm", "serve", "m", "--enable-lora"], "--enable-lora: '': what a server takes with it is not computed"),
        (["vllm", "serve", "m", "--speculative-config={}"], "--speculative-config: '{}': what a server takes with it"),
        (["vllm", "serve", "m", "-pp", "2"], "--pipeline-parallel-size: '2': what a server takes with it"),
        (["sglang", "serve", "--dp", "2"], "--dp: '2': what a server takes with it"),
        (["vllm serve 'm"], 'command: "vllm serve \'m": cannot be read as a shell reads it'),
        (["vllm", "serve", "m", "--max-num-seqs", "999T"], "--max-num-seqs: '999T': is more than any server takes"),
        (["vllm", "serve", "m", "--max-model-len"], "--max-model-len: '': must be a whole number above 0"),
        (["vllm", "serve", "m", "--max-model-len", "8.5"], "--max-model-len: '8.5': must be a whole number"),
        (["vllm", "serve", "m", "--max-model-len", "-2"], "--max-model-len: '-2': must be a whole number"),
        (["vllm", "serve", "m", "-tp", "two"], "-tp: 'two': must be a whole number of at least 1"),
        (["vllm", "serve", "m", "--cpu-offload-gb", "-1"], "--cpu-offload-gb: '-1': must be at least 0"),
        (["vllm", "serve", "m", "--cpu-offload-gb", "nan"], "--cpu-offload-gb: 'nan': must be at least 0"),
        (["vllm", "serve", "m", "--dtype", "int8"], "--dtype: 'int8': is not known"),
        (["vllm", "serve", "m", "--quantization", "magic"], "--quantization: 'magic': is not known"),
        (["vllm", "serve", "m", "--kv-cache-dtype", "fp2"], "--kv-cache-dtype: 'fp2': is not known"),
        (["vllm", "serve", "m", "--dtype", "--port"], "--dtype: '--port': needs a value behind it"),
    ],
)
def test_what_cannot_be_used_is_told_by_its_option(words: list[str], says: str) -> None:
    with pytest.raises(errors.InvalidInputError) as caught:
        command.read(words)
    assert str(caught.value).startswith(says)
