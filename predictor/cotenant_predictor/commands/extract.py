"""`cotenant extract`: a model in, a graph document out. Loads no weights and uses no GPU.

A PyTorch `module:callable` and a Hugging Face configuration need torch, an ONNX file needs onnx: imported when needed.
What a callable may return is said in `extraction/extractor.py` and in the help text.
"""

import argparse
import ast
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cotenant_api import errors, files, terminal

if TYPE_CHECKING:
    from cotenant_api.graph import Graph

SUMMARY = "list what one step of a model computes, without weights and without a GPU"

_OF_CALLABLES = ("--arg", "--example")
_OF_CONFIGURATIONS = ("--sequence-length", "--target-length", "--architecture")

_CONTRACT = """\
MODEL is one of
  MODULE:CALLABLE         PyTorch; the current folder is importable
  FOLDER or FILE.json     a Hugging Face configuration; the model is the first of its architectures
  FILE.onnx               an ONNX file

CALLABLE is called on the meta device and returns one of
  (model, inputs)         inputs: a tensor, a tuple (by position) or a dict (by name)
  (model, inputs, loss)   loss(output) is a scalar tensor; without it: output.loss, or the sum of the output
  {"modules": [..], "inputs": .., "step": function}
                          step(*inputs) does forward, backward and optimizer steps itself
It may take batch_size, and what --arg gives it (a Python literal, else text).

--compile models the kernels that torch.compile would fuse. --example answers where the step asks what a tensor holds: a
value, or how many rows a mask selects, by function name or file.py:line, as in the refusal that asks for it.

examples: cotenant extract my_models:resnet --arg depth=50 --batch-size 64 --output graph.json.gz
          cotenant extract bert-base-uncased/ --batch-size 16 --sequence-length 256 --precision bf16 --compile
          cotenant extract model.onnx --batch-size 8 --mode Inference --output graph.json.gz
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _CONTRACT
    parser.add_argument("target", metavar="MODEL", help="MODULE:CALLABLE, FOLDER, FILE.json or FILE.onnx; see below")
    parser.add_argument("--batch-size", type=_positive, required=True, metavar="N", help="samples of one step")
    parser.add_argument("--mode", choices=("Training", "Inference"), default="Training", help="default: Training")
    parser.add_argument("--name", help="name of the graph; default: the callable's, the folder's, or the file's")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="graph.json or graph.json.gz; default: standard output"
    )
    configure_step(parser, inference="--mode Inference")


def configure_step(parser: argparse.ArgumentParser, *, inference: str) -> None:
    """Add what says more of a step than model, batch size and mode: any command that extracts has it.

    Args:
        parser: of the command.
        inference: what a user of the command adds for an inference job.
    """
    parser.add_argument(
        "--precision",
        choices=("fp32", "tf32", "fp16", "bf16"),
        default="fp32",
        help="default: fp32; 16 bits: as autocast",
    )
    parser.add_argument("--optimizer", metavar="NAME", help="of torch.optim, as sgd:momentum=0.9; default: adamw")
    parser.add_argument("--compile", action="store_true", help="fuse kernels as torch.compile would")
    _configure_inputs(parser)
    host = parser.add_argument_group("what feeds the GPU, if known")
    host.add_argument("--loader-workers", type=int, default=0, metavar="N", help="of the DataLoader; default: 0")
    host.add_argument(
        "--samples-per-second", type=float, metavar="RATE", help="what the input pipeline delivers at most"
    )
    host.add_argument("--data-on-gpu", action="store_true", help="the data set lies in GPU memory")
    load = parser.add_argument_group("what an inference job is asked for, if known")
    load.add_argument("--requests-per-second", type=float, metavar="RATE", help=f"with {inference}")
    load.add_argument("--samples-per-request", type=_positive, default=1, metavar="N", help="default: 1")
    parser.set_defaults(inference_option=inference)


def _configure_inputs(parser: argparse.ArgumentParser) -> None:
    model = parser.add_argument_group("what the model is given")
    model.add_argument("--arg", action="append", default=[], metavar="KEY=VALUE", help="an argument of the callable")
    model.add_argument(
        "--example", action="append", default=[], metavar="PLACE=VALUE", help="what a tensor would hold there"
    )
    model.add_argument(
        "--input-shape", action="append", default=[], metavar="NAME=8,3,224,224", help="of a configuration or ONNX file"
    )
    model.add_argument("--sequence-length", type=_positive, metavar="N", help="tokens of a text; default: 128")
    model.add_argument("--target-length", type=_positive, metavar="N", help="tokens that a decoder reads")
    model.add_argument("--architecture", metavar="CLASS", help="of transformers, instead of the configuration's first")


def run(arguments: argparse.Namespace) -> int:
    """Extract, check, write."""
    document = extracted(arguments)
    if arguments.output is None:
        terminal.write(f"{document.to_json()}\n")
    else:
        data = document.packed() if arguments.output.suffix == ".gz" else document.to_json().encode() + b"\n"
        files.replace(arguments.output, data, field="--output")
    for name, count in document.coverage.unknown.items():
        print(f"cotenant: extract: {name} is unknown, {count} times: counted by its bytes only", file=sys.stderr)
    return 0


def build_function(target: str, values: list[str], *, batch_size: int) -> Callable[[], Any]:
    """Return the callable with its arguments.

    Raises:
        InvalidInputError: there is no such module or callable, or it does not take these arguments.
    """
    function = _imported(target)
    given = dict(_pair(text) for text in values)
    takes = inspect.signature(function).parameters
    if "batch_size" in takes or any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes.values()):
        given.setdefault("batch_size", batch_size)
    try:
        inspect.signature(function).bind(**given)
    except TypeError as error:
        raise errors.InvalidInputError("--arg", values, f"{target} takes {inspect.signature(function)}") from error
    return functools.partial(function, **given)


def extracted(arguments: argparse.Namespace) -> "Graph":
    """Return the graph of `target` in one step of `batch_size` samples in `mode`, with its digest.

    Args:
        arguments: also `name` (None: the target's own), and those of `configure_step`.

    Raises:
        InvalidInputError: an argument is wrong, or the step cannot be extracted.
        PermanentError: what it needs is not installed.
    """
    from cotenant_api.graph import Graph

    if arguments.requests_per_second is not None and arguments.mode == "Training":
        remedy = f"needs {arguments.inference_option}"
        raise errors.InvalidInputError("--requests-per-second", arguments.requests_per_second, remedy)
    found = _from_onnx(arguments) if arguments.target.endswith(".onnx") else _from_torch(arguments)
    return Graph.from_object(found, source=arguments.target).sealed()


def _from_onnx(arguments: argparse.Namespace) -> dict[str, Any]:
    reader = _needing("cotenant_predictor.extraction.onnx_reader.document", extra="onnx")
    _refuse(arguments, {"--compile", *_OF_CALLABLES, *_OF_CONFIGURATIONS}, "an ONNX file is run as it is")
    options = reader.Options(
        name=arguments.name or Path(arguments.target).stem,
        batch_size=arguments.batch_size,
        mode=arguments.mode,
        precision=arguments.precision,
        optimizer=arguments.optimizer,
        shapes=_shapes(arguments.input_shape),
        host=_host(arguments),
        inference=_inference(arguments),
    )
    found: dict[str, Any] = reader.extract(reader.read(Path(arguments.target)), options, source=arguments.target)
    return found


def _from_torch(arguments: argparse.Namespace) -> dict[str, Any]:
    extractor = _needing("cotenant_predictor.extraction.extractor", extra="torch")
    examples = dict(_pair(text, option="--example") for text in arguments.example)
    job = _from_configuration if _is_configuration(arguments.target) else _from_callable
    name, build, known = job(arguments)
    options = {
        "name": arguments.name or name,
        "batchSize": arguments.batch_size,
        "mode": arguments.mode,
        "precision": arguments.precision,
        "optimizer": arguments.optimizer,
        "compiled": arguments.compile,
        "examples": {**known, **examples},
        "host": _host(arguments),
        "inference": _inference(arguments),
    }
    try:
        found: dict[str, Any] = extractor.extract(build, options)
    except extractor.ExtractionError as error:
        raise errors.InvalidInputError(f"{arguments.target} ({error.place})", error.operator, error.advice) from error
    return found


def _refuse(arguments: argparse.Namespace, options: Iterable[str], reason: str) -> None:
    """Refuse what would have no effect on this kind of MODEL."""
    for option in sorted(options):
        value = getattr(arguments, option.removeprefix("--").replace("-", "_"))
        if value:
            raise errors.InvalidInputError(option, value, f"is not for {arguments.target}: {reason}")


_Job = tuple[str, Callable[[], Any], dict[str, Any]]
"""The job's name, what builds it, and examples of what it asks for."""


def _from_callable(arguments: argparse.Namespace) -> _Job:
    _refuse(arguments, {"--input-shape", *_OF_CONFIGURATIONS}, "a callable decides this itself: see --arg")
    build = build_function(arguments.target, arguments.arg, batch_size=arguments.batch_size)
    return arguments.target.rpartition(":")[2], build, {}


def _from_configuration(arguments: argparse.Namespace) -> _Job:
    huggingface = _needing("cotenant_predictor.extraction.huggingface", extra="huggingface")
    _refuse(arguments, {"--arg"}, "a configuration has no arguments: change its file")
    path = Path(arguments.target)
    options = huggingface.Options(
        batch_size=arguments.batch_size,
        training=arguments.mode == "Training",
        tokens=arguments.sequence_length,
        target_tokens=arguments.target_length,
        architecture=arguments.architecture,
        shapes=_shapes(arguments.input_shape),
    )
    config = huggingface.read(path)
    folder = path if path.is_dir() else path.parent if path.name == "config.json" else path.with_suffix("")
    return folder.resolve().name, huggingface.job(config, options), huggingface.EXAMPLES


def _is_configuration(target: str) -> bool:
    return target.endswith(".json") or Path(target).is_dir()


def _shapes(texts: list[str]) -> dict[str, tuple[int, ...]]:
    return dict(map(_shape, texts))


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, sizes = text.rpartition("=")
    try:
        shape = tuple(int(size) for size in sizes.split(","))
    except ValueError:
        shape = ()
    if not name or not shape or min(shape) < 1:
        raise errors.InvalidInputError("--input-shape", text, "must be NAME=8,3,224,224, every size 1 or more")
    return name, shape


def _host(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "loaderWorkers": arguments.loader_workers,
        "samplesPerSecond": arguments.samples_per_second,
        "dataOnGPU": arguments.data_on_gpu,
    }


def _needing(module: str, *, extra: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "transformers", "onnx"):
            raise
        remedy = f"pip install '.[{extra}]' in a clone of the repository"
        raise errors.PermanentError(f"{error.name} is not installed: {remedy}") from error


def _inference(arguments: argparse.Namespace) -> dict[str, Any] | None:
    if arguments.requests_per_second is None:
        return None
    return {"requestsPerSecond": arguments.requests_per_second, "samplesPerRequest": arguments.samples_per_request}


def _imported(target: str) -> Callable[..., Any]:
    name, _, attribute = target.partition(":")
    remedy = (
        "must be MODULE:CALLABLE, importable from the current folder or PYTHONPATH, or a FOLDER or file that exists"
    )
    if not name or not attribute:
        raise errors.InvalidInputError("MODULE:CALLABLE", target, remedy)
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = functools.reduce(getattr, attribute.split("."), importlib.import_module(name))
    except (ImportError, AttributeError) as error:
        raise errors.InvalidInputError("MODULE:CALLABLE", target, f"{remedy}: {error}") from error
    if not callable(found):
        raise errors.InvalidInputError(
            "MODULE:CALLABLE", target, f"{attribute} is a {type(found).__name__}, not callable"
        )
    result: Callable[..., Any] = found
    return result


def _pair(text: str, *, option: str = "--arg") -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not (key.isidentifier() or option == "--example"):
        raise errors.InvalidInputError(option, text, "must be a name, =, and a Python literal or text")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not 1 or more")
    return value
