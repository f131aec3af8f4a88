"""The configuration of `cotenant simulated-agents`: which nodes, which GPUs. Reads one file."""

from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field

from cotenant_api import documents, errors, names, written
from cotenant_api.names import GPUModel, Namespace, NodeName
from cotenant_deviceplugin.simulated import models

MAX_GPUS = 16


class _Strict(documents.Model):
    model_config = ConfigDict(extra="forbid")


class SimulatedAgent(_Strict):
    """One node: so many GPUs of one model. `kubeconfig`: relative to the configuration's folder."""

    node: NodeName = Field(min_length=1, max_length=253)
    gpu_model: GPUModel
    gpus: Annotated[int, Field(ge=1, le=MAX_GPUS, strict=True)]
    kubeconfig: Path


class Configuration(_Strict):
    """All agents of one process. `namespace`: where their Leases are."""

    agents: Annotated[tuple[SimulatedAgent, ...], Field(min_length=1)]
    namespace: Annotated[Namespace, Field(min_length=1, max_length=63)] = Namespace(names.RELEASE_NAMESPACE)


def load(path: Path) -> Configuration:
    """Read and check a file.

    Raises:
        InvalidInputError: the file or a value in it cannot be used; it names the field.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise errors.InvalidInputError("--config", str(path), f"must be a file: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise errors.InvalidInputError("--config", str(path), f"must be YAML: {error}") from error
    value = written.one(text, field="--config", source=str(path))
    read = documents.validated(Configuration, value, source=path.name)
    seen: set[NodeName] = set()
    checked = [_checked(agent, index, path, seen) for index, agent in enumerate(read.agents)]
    return read.model_copy(update={"agents": tuple(checked)})


def _checked(agent: SimulatedAgent, index: int, path: Path, seen: set[NodeName]) -> SimulatedAgent:
    field = f"{path.name}.agents[{index}]"
    if agent.gpu_model not in models.MODELS:
        remedy = f"must be one of {', '.join(sorted(models.MODELS))}"
        raise errors.InvalidInputError(f"{field}.gpuModel", agent.gpu_model, remedy)
    if agent.node in seen:
        raise errors.InvalidInputError(f"{field}.node", agent.node, "must be named once: a node has one agent")
    seen.add(agent.node)
    kubeconfig = path.parent / agent.kubeconfig
    if not kubeconfig.is_file():
        raise errors.InvalidInputError(f"{field}.kubeconfig", str(kubeconfig), "must be the path of a kubeconfig")
    return agent.model_copy(update={"kubeconfig": kubeconfig})
