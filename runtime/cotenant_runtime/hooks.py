"""Torch calls the trainer at the boundaries of modules, by torch's own hooks. One method of torch is replaced.

- An optimizer's step ends a step of the job: `register_optimizer_step_pre_hook` and `..._post_hook`.
- A module without children begins a group in the forward pass: `register_module_forward_pre_hook`.
- Its output's autograd node begins a group in the backward pass: `Node.register_prehook`. torch's full backward hooks
  would put a node of their own behind the output and refuse outputs that are changed in place (ReLU in VGG, ResNet).
- Where anything was compiled, modules have no boundaries: the gate is asked once a step. So it is for
  `torch.cuda.CUDAGraph.replay`, which has no hook: its method is wrapped.

Module hooks are there only while groups are timed or a job with an SLO is attached. An error in a hook ends the
runtime, with a warning, and never the job.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from cotenant_runtime import gate, graphs, groups, settings
from cotenant_runtime.devices import Device
from cotenant_runtime.devices.cpu import CPU
from cotenant_runtime.devices.cuda import CUDA
from cotenant_runtime.groups import Book, Key
from cotenant_runtime.heartbeat import Heartbeat
from cotenant_runtime.segment import Segment, SegmentError
from cotenant_runtime.trainer import Trainer

LEARNING_STEPS: Final = groups.SAMPLES + 1
MAX_ROOTS: Final = 256
"""Outermost modules that are planned; a job that keeps making new ones is gated at optimizer steps alone."""
OPTIMIZER: Final = Key("optimizer", "Optimizer")
STEP: Final = Key("step", "Forward")
_WHOLE: Final = ("MultiheadAttention",)
"""Modules that have children and do not call them."""
_LOG: Final = logging.getLogger(__name__)


class Boundary(NamedTuple):
    """What a module begins."""

    forward: Key
    backward: Key
    prehook: Callable[[Any], None]


class Hooks:
    """The hooks of one process."""

    def __init__(self, torch: Any, wanted: settings.Settings) -> None:
        self._torch = torch
        self._wanted = wanted
        self._trainer: Trainer | None = None
        self._heartbeat: Heartbeat | None = None
        self._handles: list[Any] = []
        self._always: list[Any] = []
        self._boundaries: weakref.WeakKeyDictionary[Any, Boundary | None] = weakref.WeakKeyDictionary()
        self._roots: list[str] = []
        self._steps = 0
        self._replays = False
        self._pid = os.getpid()

    def install(self) -> None:
        """Register what is there for the whole run: the hooks of optimizers."""
        optimizer = importlib.import_module("torch.optim.optimizer")  # torch.optim itself hides this name
        self._always = [
            optimizer.register_optimizer_step_pre_hook(self._before_optimizer),
            optimizer.register_optimizer_step_post_hook(self._after_optimizer),
        ]

    def remove(self) -> None:
        """Remove every hook, and end the claim on the slot."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        self._disable()
        for handle in self._always:
            handle.remove()
        self._always.clear()
        if self._trainer is not None:
            self._trainer.end()
            self._trainer = None

    @property
    def trainer(self) -> Trainer | None:
        """Return the trainer, from the first optimizer step on."""
        return self._trainer

    @property
    def enabled(self) -> bool:
        """Return whether modules are hooked now."""
        return bool(self._handles)

    def _before_optimizer(self, *_: Any) -> None:
        if self._trainer is not None and not self._idle():
            self._guarded(self._trainer.before, OPTIMIZER)

    def _after_optimizer(self, optimizer: Any, *_: Any) -> None:
        if self._trainer is None:
            self._pid = os.getpid()  # a child that was forked before the first step trains for itself
        if os.getpid() == self._pid:
            self._guarded(self._step, optimizer)

    def _step(self, optimizer: Any) -> None:
        self._steps += 1
        if self._trainer is None:
            self._start(optimizer)
            return
        self._trainer.step()
        if self._steps == LEARNING_STEPS + 1:
            self._keep_learned()
        self._toggle()
        if self._per_step() and not self._idle():
            self._trainer.before(STEP)

    def _start(self, optimizer: Any) -> None:
        """Claim a slot. The first step is over, so the device is in use and what is compiled is compiled."""
        device = self._device(optimizer)
        segment = Segment(self._wanted.segment)
        book = Book(priors=self._priors(device))
        book.add(OPTIMIZER, module="Optimizer")
        book.add(STEP, module="Linear")
        self._trainer = Trainer(segment.claim(self._wanted.slot), device=device, book=book, limits=self._wanted.limits)
        if isinstance(device, CUDA):
            self._hook_replays()
        self._heartbeat = Heartbeat(self._beat)
        self._heartbeat.start()
        self._toggle()

    def _device(self, optimizer: Any) -> Device:
        parameters = (one for group in optimizer.param_groups for one in group["params"])
        return CUDA(self._torch) if any(one.is_cuda for one in parameters) else CPU()

    def _priors(self, device: Device) -> dict[tuple[str, str], graphs.Estimate]:
        if self._wanted.graph is None:
            return {}
        try:
            return graphs.estimates(graphs.read(self._wanted.graph), device.rates)
        except (OSError, ValueError) as error:
            _LOG.warning("operators are known by timings alone: %s", error)
            return {}

    def _beat(self) -> None:
        self._guarded(self._refresh)

    def _refresh(self) -> None:
        if self._trainer is not None:
            self._trainer.refresh()
            self._toggle()

    def _idle(self) -> bool:
        return self._trainer is None or (self._steps > LEARNING_STEPS and not self._trainer.attached)

    def _toggle(self) -> None:
        """Hook modules while that is of use. A dictionary of hooks may change while torch runs: it copies it first."""
        if self._idle() or self._per_step():
            self._disable()
        elif not self._handles:
            module = self._torch.nn.modules.module
            self._handles = [
                module.register_module_forward_pre_hook(self._before_forward),
                module.register_module_forward_hook(self._after_forward),
            ]

    def _disable(self) -> None:
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()

    def _per_step(self) -> bool:
        """Return whether torch.compile or a CUDA graph has been used: modules then have no boundaries."""
        backends = getattr(sys.modules.get("torch._dynamo.eval_frame"), "cached_backends", {})
        # None stands for torch's own functions that are never compiled.
        return self._replays or any(backend is not None for backend in backends.values())

    def _before_forward(self, module: Any, inputs: Any) -> None:
        if self._torch.compiler.is_compiling() or os.getpid() != self._pid:
            return
        self._guarded(self._enter, module, inputs)

    def _enter(self, module: Any, inputs: Any) -> None:
        if self._trainer is None:
            return
        try:
            boundary = self._boundaries[module]
        except KeyError:
            boundary = self._plan(module, inputs)
        if boundary is not None:
            self._trainer.before(boundary.forward)

    def _after_forward(self, module: Any, _inputs: Any, output: Any) -> None:
        if self._torch.compiler.is_compiling() or os.getpid() != self._pid:
            return
        self._guarded(self._leave, module, output)

    def _leave(self, module: Any, output: Any) -> None:
        boundary = self._boundaries.get(module)
        if boundary is None or self._trainer is None:
            return
        book = self._trainer.book
        if not book.wants(boundary.backward) and book.group(boundary.backward).fill <= self._wanted.limits.light_fill:
            return
        node = next((one.grad_fn for one in _tensors(output) if getattr(one, "grad_fn", None) is not None), None)
        if node is not None:
            node.register_prehook(boundary.prehook)

    def _plan(self, root: Any, inputs: Any) -> Boundary | None:
        """Plan the boundaries in an outermost module that was not seen before, and return its own."""
        if len(self._roots) >= MAX_ROOTS or self._trainer is None:
            self._boundaries[root] = None
            return None
        book, shapes = self._trainer.book, [str(tuple(one.shape)) for one in _tensors(inputs)]
        name = groups.digest([self._torch.__version__, self._trainer.device.name, *shapes, *_description(root)])
        self._roots.append(name)
        book.restore(self._learned(name))
        whole: set[int] = set()
        for path, module in root.named_modules():
            if module in self._boundaries or id(module) in whole:
                continue
            kind = type(module).__name__
            if any(part in kind for part in _WHOLE):
                whole.update(id(child) for child in module.modules())
            elif next(module.children(), None) is not None:
                self._boundaries[module] = None
                continue
            self._boundaries[module] = self._boundary(f"{name}:{path}", kind)
        return self._boundaries.get(root)

    def _boundary(self, name: str, kind: str) -> Boundary:
        forward, backward = Key(name, "Forward"), Key(name, "Backward")
        if self._trainer is not None:
            self._trainer.book.add(forward, module=kind)
            self._trainer.book.add(backward, module=kind)

        def prehook(_gradients: Any) -> None:
            if self._trainer is not None and self._handles:
                self._guarded(self._trainer.before, backward)

        return Boundary(forward, backward, prehook)

    def _learned(self, name: str) -> dict[Key, gate.Group]:
        if self._wanted.cache is None:
            return {}
        try:
            return groups.from_json((self._wanted.cache / f"{name}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}

    def _keep_learned(self) -> None:
        if self._wanted.cache is None or self._trainer is None:
            return
        learned = self._trainer.book.settled()
        for name in self._roots:
            own = {key: group for key, group in learned.items() if key.module.startswith(f"{name}:")}
            _replace(self._wanted.cache / f"{name}.json", groups.to_json(own))

    def _hook_replays(self) -> None:
        """Ask the gate before a CUDA graph is replayed."""
        kind = self._torch.cuda.CUDAGraph
        replay = kind.replay

        @functools.wraps(replay)
        def gated(graph: Any) -> Any:
            self._replays = True
            if self._trainer is not None and not self._idle():
                self._guarded(self._trainer.before, STEP)
            return replay(graph)

        kind.replay = gated

    def _guarded(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function of the runtime. Whatever it raises, the job goes on, without the runtime."""
        try:
            function(*arguments)
        except Exception as error:  # noqa: BLE001 - a training job must not fail by its co-tenancy
            known = isinstance(error, SegmentError | OSError)
            _LOG.warning("space-time sharing is off, training goes on as before: %s", error, exc_info=not known)
            self.remove()


def _tensors(value: Any, depth: int = 3) -> Iterator[Any]:
    """Yield the tensors of a module's inputs or output, as far as sequences and mappings hold them."""
    if hasattr(value, "grad_fn"):
        yield value
    elif depth and isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each, depth - 1)
    elif depth and isinstance(value, tuple | list):
        for each in value:
            yield from _tensors(each, depth - 1)


def _description(root: Any) -> Iterator[str]:
    for path, module in root.named_modules():
        yield f"{path}:{type(module).__qualname__}"
    for path, parameter in root.named_parameters():
        yield f"{path}:{tuple(parameter.shape)}:{parameter.dtype}"


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all; what cannot be kept is learned again."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError:
        _LOG.info("timings are not kept in %s", path.parent)
