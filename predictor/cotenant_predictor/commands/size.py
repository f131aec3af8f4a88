"""`cotenant size`: what a server of a language model needs of a GPU, before it runs."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant_api import errors, quantity, tables, terminal
from cotenant_predictor.commands import arguments as shared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cotenant_predictor.serving.command import Server
    from cotenant_predictor.serving.sizing import Size
    from cotenant_predictor.serving.speed import Load

SUMMARY = "say what GPU memory and share a vLLM or SGLang server needs, and the options that keep it within them"
EXAMPLES = """\
examples: cotenant size config.json --gpu-model NVIDIA-L40S -- vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 8192
          cotenant size config.json --requests-per-second 2 --prompt-tokens 500 --answer-tokens 200 -- \\
              python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct
          cotenant size config.json --gpu-model NVIDIA-L40S --requests-per-second 1 -o yaml \\
              --image vllm/vllm-openai:TAG -- vllm serve Qwen/Qwen2.5-7B-Instruct | kubectl apply -f -
"""
TAKES_REST = True

_TABLE = "table"
_JSON = "json"
_YAML = "yaml"
_LARGEST = 4 * 2**20
"""Bytes of a config.json."""
_MOST_SEQUENCES = 100_000
_QUANTIZED = "hf_quant_config.json"
"""Beside a config.json that says nothing of it."""
_COLUMNS = (
    tables.words("GPU-MODEL"),
    tables.number("GPU-MEMORY"),
    tables.number("WEIGHTS", spare=2),
    tables.number("KV-CACHE", spare=2),
    tables.number("ACTIVATIONS", spare=1),
    tables.number("OTHER", spare=1),
    tables.number("SHARE%"),
    tables.number("PART%"),
    tables.words("FITS"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("config", metavar="CONFIG", type=Path, help="the model's config.json, or its folder")
    parser.add_argument(
        "--gpu-model", action="append", default=[], metavar="MODEL", help="repeat for more; default: all"
    )
    shared.add_devices(parser)
    parser.add_argument("--sequences", type=int, metavar="N", help="in progress at once; default: by the rate")
    parser.add_argument("--requests-per-second", type=float, metavar="R", help="rate that the server must keep up with")
    parser.add_argument("--prompt-tokens", type=int, default=512, metavar="N", help="of a request (default: 512)")
    parser.add_argument("--answer-tokens", type=int, default=256, metavar="N", help="of its answer (default: 256)")
    parser.add_argument(
        "--milliseconds-per-token",
        type=float,
        default=50.0,
        metavar="MS",
        help="what a token of an answer may take (default: 50)",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=(_TABLE, _JSON, _YAML),
        help="yaml: a Deployment for the one --gpu-model; default: a table on a terminal, else JSON",
    )
    parser.add_argument("--image", help="with -o yaml: of the server")
    parser.add_argument("--name", help="with -o yaml: of the Deployment; default: made of the model's")
    parser.usage = "%(prog)s CONFIG [OPTION ...] -- COMMAND [ARGUMENT ...]"


def run(arguments: argparse.Namespace) -> int:
    """Write a table, or one document a GPU model."""
    from cotenant_predictor import devices
    from cotenant_predictor.serving import command, families, memory, sizing

    if not arguments.rest:
        raise errors.InvalidInputError("COMMAND", "", "say behind -- how the server is started: -- vllm serve MODEL ..")
    server = command.read(arguments.rest)
    model = families.read(_config(arguments.config), source=str(arguments.config))
    gpus = devices.select(arguments.gpu_model, devices.with_file(arguments.devices), field="--gpu-model")
    load = _load(arguments)
    if arguments.sequences is not None and not 1 <= arguments.sequences <= _MOST_SEQUENCES:
        raise errors.InvalidInputError("--sequences", arguments.sequences, f"must be from 1 to {_MOST_SEQUENCES}")
    _require_consistent(arguments)
    sizes = [sizing.size(model, server, gpu, load=load, sequences=arguments.sequences) for gpu in gpus]
    if arguments.output == _YAML:
        _print_deployment(arguments, sizes, server)
        return 0
    if (arguments.output or (_TABLE if sys.stdout.isatty() else _JSON)) == _JSON:
        for one in sizes:
            print(json.dumps(_document(one), sort_keys=True))
        return 0
    first = sizes[0]
    kv_kib = first.needed.kv_every / 1024
    print(
        f"model     {model.family}, {model.parameters / 1e9:.2f} billion parameters, {memory.dtype_of(model, server)}"
    )
    print(f"KV cache  {kv_kib:.1f} KiB a token; room for {first.sequences or 1} of {first.length:,} tokens")
    look = tables.Look(colours=terminal.in_colours(sys.stdout), width=terminal.width(sys.stdout))
    for line in tables.lines(_COLUMNS, [_row(one) for one in sizes], look):
        print(line)
    if len(sizes) == 1 and first.options:
        print("options   " + " ".join(f"{name} {text}" for name, text in first.options.items()))
    return 0


def _require_consistent(arguments: argparse.Namespace) -> None:
    if arguments.output == _YAML:
        if len(arguments.gpu_model) != 1:
            raise errors.InvalidInputError(
                "--gpu-model", arguments.gpu_model, "name the one that the Deployment is for"
            )
        if not arguments.image:
            raise errors.InvalidInputError("--image", arguments.image, "must be given with -o yaml")
        return
    for option, value in (("--image", arguments.image), ("--name", arguments.name)):
        if value is not None:
            raise errors.InvalidInputError(option, value, "needs -o yaml")


def _print_deployment(arguments: argparse.Namespace, sizes: "Sequence[Size]", server: "Server") -> None:
    from cotenant_api import written
    from cotenant_predictor.serving import deployment

    made = deployment.deployment(sizes[0], server, arguments.rest, image=arguments.image, name=arguments.name)
    print(written.text(made), end="")


def _config(path: Path) -> dict[str, Any]:
    file = path / "config.json" if path.is_dir() else path
    if (file.parent / _QUANTIZED).exists():
        raise errors.InvalidInputError("CONFIG", str(file.parent / _QUANTIZED), "says how weights are stored: not read")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise errors.InvalidInputError("CONFIG", str(file), f"cannot be read: {error.strerror}") from error
    try:
        found = json.loads(data) if len(data) <= _LARGEST else None
    except (ValueError, RecursionError) as error:
        raise errors.InvalidInputError("CONFIG", str(file), f"must be a config.json: {error}") from error
    if not isinstance(found, dict):
        raise errors.InvalidInputError("CONFIG", str(file), "must be the config.json of a model")
    return found


def _load(arguments: argparse.Namespace) -> "Load | None":
    from cotenant_predictor.serving import speed

    if arguments.requests_per_second is None:
        return None
    return speed.load_of(
        requests=arguments.requests_per_second,
        prompt=arguments.prompt_tokens,
        answer=arguments.answer_tokens,
        token_milliseconds=arguments.milliseconds_per_token,
    )


def _row(one: "Size") -> tuple[tables.Cell, ...]:
    mib = quantity.BYTES_PER_MIB
    other = (one.needed.libraries + one.needed.graphs) / mib + one.context_mib
    return (
        one.device.name,
        one.booked_mib,
        round(one.needed.weights / mib),
        round(one.kv_bytes / mib),
        round(one.needed.activations / mib),
        round(other),
        "-" if one.share is None else one.share,
        one.part_percent,
        "yes" if one.fits else "no",
    )


def _document(one: "Size") -> dict[str, Any]:
    return {
        "gpuModel": one.device.name,
        "fits": one.fits,
        "gpuMemoryMiB": one.booked_mib,
        "sharePercent": one.share,
        "partPercent": one.part_percent,
        "sequences": one.sequences,
        "contextTokens": one.context,
        "weightsBytes": one.needed.weights,
        "kvCacheBytes": one.kv_bytes,
        "activationBytes": one.needed.activations,
        "graphBytes": one.needed.graphs,
        "libraryBytes": one.needed.libraries,
        "contextMiB": one.context_mib,
        "options": dict(one.options),
    }
