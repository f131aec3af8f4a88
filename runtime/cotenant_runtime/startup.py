"""Switch the runtime on in a process, by its environment. User code stays as it is.

`autostart/` holds a `sitecustomize` that calls `start`: the container's PYTHONPATH names that folder. Nothing happens
until the process imports torch, so other programs of the image take no slot.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from cotenant_runtime import hooks, serving, settings

_LOG: Final = logging.getLogger(__name__)


def start(environment: Mapping[str, str]) -> None:
    """Attach to torch when it is imported, or now where it is there. Do nothing where nothing is asked for."""
    try:
        wanted = settings.read(environment)
    except settings.SettingsError as error:
        _LOG.warning("space-time sharing is off, the job runs as before: %s", error)
        return
    if wanted is not None:
        after_import("torch", lambda torch: attach(torch, wanted))


def attach(torch: Any, wanted: settings.Settings) -> hooks.Hooks | None:
    """Attach this process: a training job by hooks, an inference job by its slot."""
    if wanted.role is settings.Role.INFERENCE:
        serving.server()
        return None
    made = hooks.Hooks(torch, wanted)
    made.install()
    return made


def after_import(name: str, call: Callable[[ModuleType], object]) -> None:
    """Call a function with a module once it is imported, or now where it is there."""
    if name in sys.modules:
        call(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, call))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module as the other finders do, and has its loader call a function at the end."""

    def __init__(self, name: str, call: Callable[[ModuleType], object]) -> None:
        self._name = name
        self._call = call

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - a finder's signature
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return the spec of the module that is waited for."""
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._call)
        return spec


class _Loader(importlib.abc.Loader):
    """A loader that calls a function with the module that it has executed."""

    def __init__(self, loader: Any, call: Callable[[ModuleType], object]) -> None:
        self._loader = loader
        self._call = call

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module as its own loader does."""
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, give it its own loader back, and call the function."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._call(module)
