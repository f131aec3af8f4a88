"""From what a user's callable returns to a graph document: the surface of the extractor."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from . import cuda
from .recorder import Recorder, Row, bytes_of, tensors_in

_LOWER = {"bf16": torch.bfloat16, "fp16": torch.float16}
_CONTRACT = "return (model, inputs), (model, inputs, loss) or {'modules': [..], 'inputs': .., 'step': function}"


class ExtractionError(Exception):
    """The step cannot be run without data, or there is none; says where in the user's code, and what to do."""

    def __init__(self, operator: str, place: str, *, reason: str, remedy: str) -> None:
        self.operator, self.place, self.advice = operator, place, f"{reason}: {remedy}"
        super().__init__(f"{operator} at {place}: {self.advice}")


def extract(build: Callable[[], Any], options: Row) -> Row:
    """One step of what `build` returns, as a graph document without digest.

    Args:
        build: called under `torch.device("meta")`; what it may return is said at `_Job`.
        options: `name`, `batchSize`, `mode` (Training, Inference), `precision`, `optimizer` (a class of torch.optim
            in any case, with options: `sgd:momentum=0.9`), `host`, `inference`.

    Raises:
        ExtractionError: the step needs values that meta tensors do not have, or `build` returns no job.
    """
    recorder = Recorder(tf32=options["precision"] == "tf32")
    casts = cuda.Casts(_LOWER.get(options["precision"]))
    with contextlib.ExitStack() as stack:
        stack.enter_context(_explained(recorder))
        stack.enter_context(cuda.swept_optimizers(recorder, casts))
        stack.enter_context(torch.device("meta"))
        job = _Job(build(), optimizer=options.get("optimizer") or "adamw", training=options["mode"] == "Training")
        recorder.do_not_count_as_saved([*job.parameters, *job.buffers, *job.inputs])
        stack.enter_context(cuda.caught(recorder, casts))
        stack.enter_context(torch.autograd.graph.saved_tensors_hooks(recorder.save, lambda tensor: tensor))
        stack.enter_context(recorder)
        job.step()
    return _document(job, recorder, options)


class _Job:
    """One step, of what a user's callable returned.

    `(model, inputs)` or `(model, inputs, loss)`: inputs is a tensor, a tuple (by position) or a dict (by name); `loss`
    maps the model's output to a scalar; else it is the output's `loss`, else the sum of its floating-point tensors.
    A model that cannot be built on the meta device may be built under `torch.device("cpu")`: it is moved.
    `{"modules", "inputs", "step"}`: the modules that have the parameters, and a function that takes the inputs and does
    all that a step does, backward passes and optimizers included.
    """

    def __init__(self, built: Any, *, optimizer: str, training: bool) -> None:
        if isinstance(built, dict) and {"modules", "inputs", "step"} <= set(built):
            self._modules, self._arguments, run = list(built["modules"]), built["inputs"], built["step"]
            _require_meta(self._modules)
        elif isinstance(built, tuple) and len(built) in (2, 3) and isinstance(built[0], torch.nn.Module):
            model, self._arguments, loss = (*built, _default_loss)[:3]
            self._modules = [model.to("meta").train(training)]
            run = _training(model, loss, _optimizer(optimizer, model)) if training else model
        else:
            raise ExtractionError("result", "the callable", reason=f"is {type(built).__name__}", remedy=_CONTRACT)
        self._run, self._training = run, training
        self._arguments = _on_meta(self._arguments)
        self.inputs = list(tensors_in([self._arguments]))
        self.buffers = [buffer for module in self._modules for buffer in module.buffers()]

    @property
    def parameters(self) -> list[torch.Tensor]:
        """Each once, however often it is shared."""
        return list({id(p): p for module in self._modules for p in module.parameters()}.values())

    def step(self) -> None:
        with torch.set_grad_enabled(self._training):
            if isinstance(self._arguments, dict):
                self._run(**self._arguments)
            elif isinstance(self._arguments, (tuple, list)):
                self._run(*self._arguments)
            else:
                self._run(self._arguments)


def _document(job: _Job, recorder: Recorder, options: Row) -> Row:
    return {
        "v": 1,
        "name": options["name"],
        "framework": "torch " + torch.__version__.split("+")[0],
        "mode": options["mode"],
        "batchSize": options["batchSize"],
        "precision": options["precision"],
        "optimizer": recorder.optimizer,
        "compiled": False,
        "parameters": sum(parameter.numel() for parameter in job.parameters),
        "parameterBytes": bytes_of(job.parameters),
        "savedActivationBytes": recorder.saved_peak_bytes,
        "inputBytesPerStep": bytes_of(job.inputs),
        "criticalPathOperators": recorder.longest,
        "host": options.get("host") or {},
        "inference": options.get("inference"),
        "operators": recorder.rows(),
        "coverage": recorder.coverage(),
    }


def _require_meta(modules: list[torch.nn.Module]) -> None:
    devices = {parameter.device.type for module in modules for parameter in module.parameters()} - {"meta"}
    if devices:
        remedy = "build them without naming a device: the meta device is the default here"
        raise ExtractionError("modules", "the callable", reason=f"are on {sorted(devices)}", remedy=remedy)


def _on_meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to("meta")
    if isinstance(value, (list, tuple)):
        return [_on_meta(item) for item in value]
    return {key: _on_meta(item) for key, item in value.items()} if isinstance(value, dict) else value


def _training(model: torch.nn.Module, loss: Callable[[Any], Any], optimizer: torch.optim.Optimizer) -> Any:
    def run(*args: Any, **kwargs: Any) -> None:
        loss(model(*args, **kwargs)).backward()
        optimizer.step()

    return run


def _default_loss(output: Any) -> Any:
    loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    if loss is not None:
        return loss
    return sum(tensor.float().sum() for tensor in tensors_in([output]) if tensor.is_floating_point())


def _optimizer(text: str, model: torch.nn.Module) -> torch.optim.Optimizer:
    name, _, options = text.partition(":")
    known = {key.lower(): value for key, value in vars(torch.optim).items() if isinstance(value, type)}
    remedy = "name a class of torch.optim with its options, as sgd:momentum=0.9"
    if name.lower() not in known:
        raise ExtractionError(text, "the optimizer", reason="torch.optim has none of this name", remedy=remedy)
    try:
        settings = {key: float(value) for key, value in (pair.split("=") for pair in options.split(",") if pair)}
        result: torch.optim.Optimizer = known[name.lower()](model.parameters(), **{"lr": 1e-3, **settings})
    except (ValueError, TypeError) as error:
        raise ExtractionError(text, "the optimizer", reason=repr(error), remedy=remedy) from error
    return result


@contextlib.contextmanager
def _explained(recorder: Recorder) -> Iterator[None]:
    """Whatever fails in the user's code is named with its place: the innermost frame outside of torch."""
    try:
        yield
    except ExtractionError:
        raise
    except Exception as error:
        skipped = (str(Path(torch.__file__).parent), str(Path(__file__).parent), "<frozen")
        frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(skipped)]
        place = f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else "the step"
        text = str(error)
        operator = "aten::_local_scalar_dense" if "item()" in text else recorder.last
        remedy = "let it run on the CPU first; what works there must work without data, too"
        if "meta" in text.lower() or "data-dependent" in text.lower():
            remedy = "tensors have no values here: decide by shapes or arguments, not by what a tensor holds"
            if not recorder.has_begun:
                remedy = "the model computes with tensors while it is built: build it under torch.device('cpu')"
        if "cuda" in text.lower() or "nvidia" in text.lower():
            remedy = "name no device: tensors are made on the meta device by default"
        reason = f"{type(error).__name__}: {text}".splitlines()[0][:256]
        raise ExtractionError(operator, place, reason=reason, remedy=remedy) from error
