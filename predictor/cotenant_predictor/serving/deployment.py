"""A Deployment of a server that was sized: what is booked, and the command with what keeps it there. Pure."""

import re
from collections.abc import Collection, Sequence
from typing import Any, Final

from cotenant_api import errors, names, pod, rootless
from cotenant_predictor.serving import command
from cotenant_predictor.serving.command import SHELLS, Program, Server
from cotenant_predictor.serving.sizing import Size

_PORTS: Final = {Program.VLLM: 8000, Program.SGLANG: 30000}
"""On which each answers by default."""
_CONTAINER: Final = "main"
_USER: Final = 1000
_LONGEST_NAME: Final = 63
_WHOLE: Final = 100


def deployment(size: Size, server: Server, words: Sequence[str], *, image: str, name: str | None) -> dict[str, Any]:
    """Return the Deployment of a server.

    Args:
        size: what it needs of the GPU model that it is for.
        server: what its command line says.
        words: that command line.
        image: of its container.
        name: of the Deployment; None: made of the model's.

    Raises:
        InvalidInputError: it does not fit, has several GPUs, no share is known, or a shell is to start it.
    """
    model = size.device.name
    if not size.fits:
        raise errors.InvalidInputError("--gpu-model", model, "the server does not fit: see -o table")
    if size.share is None:
        raise errors.InvalidInputError("--requests-per-second", None, "is needed: without a rate no share is known")
    if server.tensor_parallel > 1:
        remedy = "a server of several GPUs has whole ones: no share is booked for it"
        raise errors.InvalidInputError("--tensor-parallel-size", server.tensor_parallel, remedy)
    if len(words) < 2 or words[0].rpartition("/")[2] in SHELLS:
        raise errors.InvalidInputError("COMMAND", " ".join(words), "must be words, not a text that a shell reads")
    called = _named(name, server.model)
    kept = without(words, size.options)
    options = [word for option, text in size.options.items() for word in (option, text)]
    started = {"args": [*kept, *options]} if command.are_arguments(words) else {"command": kept, "args": options}
    security = {**rootless.PROVEN, "runAsUser": _USER}
    container = {
        "name": _CONTAINER,
        "image": image,
        **started,
        # torch asks for the name of its user, which most images have none for.
        "env": [{"name": "HOME", "value": "/tmp"}, {"name": "USER", "value": "server"}],  # noqa: S108
        "ports": [{"containerPort": _PORTS[server.program]}],
        "resources": {"limits": {names.GPU_SHARE: min(size.share, _WHOLE)}},
        "securityContext": security,
    }
    annotations = {
        names.GPU_MEMORY: f"{size.booked_mib}Mi",
        names.GPU_MODELS: model,
        names.WORKLOAD_TYPE: pod.WorkloadType.INFERENCE.value,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": called, "labels": _labels(called)},
        "spec": {
            # A second server beside the old one would need as much again.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": _labels(called)},
            "template": {
                "metadata": {"labels": _labels(called), "annotations": annotations},
                "spec": {"containers": [container]},
            },
        },
    }


def without(words: Sequence[str], options: Collection[str]) -> list[str]:
    """Return a command line without these options and their values, however they are spelt."""
    kept: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        option, is_, _ = word.partition("=")
        if option.startswith("--") and option.replace("_", "-") in options:
            if not is_ and rest:
                rest.pop(0)
            continue
        kept.append(word)
    return kept


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name}


def _named(name: str | None, model: str) -> str:
    found = name if name is not None else re.sub(r"[^a-z0-9]+", "-", model.rpartition("/")[2].lower()).strip("-")
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", found) or len(found) > _LONGEST_NAME:
        remedy = f"must be lower case letters, digits and '-', at most {_LONGEST_NAME}: give another --name"
        raise errors.InvalidInputError("--name", found, remedy)
    return found
