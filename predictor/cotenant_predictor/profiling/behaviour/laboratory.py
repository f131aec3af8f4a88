"""Conducts one experiment: the campaign's own daemon and tenants are gone by then, so it has the GPU for itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from cotenant_predictor.profiling.mps import MpsUnavailableError

from . import endings, limits, management, product, questions, surroundings
from .bench import Bench
from .findings import Findings

CONDUCTS: Mapping[str, Callable[[Bench, Findings], None]] = MappingProxyType(
    {
        "threads": limits.threads,
        "memory-limit": limits.memory_limit,
        "context": limits.context,
        "two-processes": limits.two_processes,
        "environment": limits.environment,
        "priority": limits.priority,
        "kill": endings.kill,
        "kill-terminated": endings.kill_terminated,
        "fault": endings.fault,
        "shared-memory": surroundings.shared_memory,
        "users": surroundings.users,
        "no-daemon": surroundings.no_daemon,
        "nvml": management.nvml,
        "agent-nvml": management.agent_nvml,
        "agent-mps": management.agent_mps,
        "agent-tenant": product.agent_tenant,
    }
)
"""What is done for each experiment."""


def conduct(name: str, bench: Bench) -> dict[str, Any]:
    """Return the result of an experiment.

    What was asked, what is documented, what was seen, and what was not, with reasons.

    Raises:
        MpsUnavailableError: nothing could be answered, as there is no MPS: that is no result.
    """
    experiment, found = questions.named(name), Findings()
    try:
        CONDUCTS[name](bench, found)
    finally:
        bench.end_subjects()
    if found.without_mps is not None and not found.values:
        raise MpsUnavailableError(found.without_mps)
    keys = [question.key for question in experiment.questions]
    seen = found.to_object(keys)
    return {
        "outcome": "Ok" if not seen["reasons"] else "Partial",
        "experiment": {
            "name": name,
            "documented": {one.key: {"text": one.documented, "source": one.source} for one in experiment.questions},
            **seen,
        },
    }
