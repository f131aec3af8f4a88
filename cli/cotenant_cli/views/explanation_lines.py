"""What `cotenant why` says to people: a few lines, then where each pod is. Pure."""

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from cotenant_api import dljob, printable, tables
from cotenant_api.pod import PackedReason
from cotenant_cli.views import explanation, usage_tables

_TITLE: Final = 12
_TONES: Final = {
    dljob.Phase.STARTING: tables.Tone.BAD,
    dljob.Phase.RUNNING: tables.Tone.GOOD,
    dljob.Phase.SUCCEEDED: tables.Tone.GOOD,
    dljob.Phase.FAILED: tables.Tone.BAD,
}
_REPLICAS: Final = (
    tables.words("POD"),
    tables.words("REASON"),
    tables.words("NODE"),
    tables.number("GPU"),
    tables.words("MODEL", spare=2),
    tables.number("BOOKED%"),
    tables.number("SM%", spare=3),
    tables.number("MIB", spare=1),
    tables.words("BESIDE"),
    tables.words("PHASE", wide=True),
    tables.words("HEALTH", wide=True),
    tables.words("UUID", wide=True),
    tables.words("MESSAGE", wide=True),
)
_EXPECTED: Final = (
    tables.words("GPU-MODEL"),
    tables.number("PREDICTED%"),
    tables.number("UPPER%"),
    tables.number("MIB"),
    tables.words("BOUND-BY"),
    tables.words("SOURCE"),
    tables.words("PREDICTOR"),
)
_CONDITIONS: Final = (
    tables.words("CONDITION"),
    tables.words("STATUS"),
    tables.words("REASON"),
    tables.words("SINCE"),
    tables.words("MESSAGE"),
)
_OVER: Final = (dljob.Phase.SUCCEEDED, dljob.Phase.FAILED)
"""As a pod's phase is worded, too."""
_UNITS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def lines(shown: explanation.Explanation, look: tables.Look) -> Iterator[str]:
    """All of it; `wide` adds the predictions for every GPU model and all conditions."""
    for title, said, tone in facts(shown):
        text = printable.plain(said)
        yield from fact(title, text if tone is None else tables.Toned(text, tone), look)
    if shown.replicas:
        yield ""
        yield from tables.lines(_REPLICAS, [row for one in shown.replicas for row in _replica(one)], look)
    if look.wide and shown.expected:
        yield ""
        yield from tables.lines(_EXPECTED, [_expected(one) for one in shown.expected], look)
    if look.wide and shown.conditions:
        yield ""
        rows = [(one.type, one.status, one.reason, one.last_transition_time, one.message) for one in shown.conditions]
        yield from tables.lines(_CONDITIONS, rows, look)
    yield from usage_tables.notes(shown.notes, look)


def fact(title: str, said: tables.Cell, look: tables.Look) -> Iterator[str]:
    """Words beside their title, in lines that keep to the width."""
    text = said.words if isinstance(said, tables.Toned) else str(said)
    for line in tables.wrapped(f"{title + ':':<{_TITLE}}{text}", look, indent=" " * _TITLE):
        yield f"{line[:_TITLE]}{tables.toned(line[_TITLE:], said, look)}"


def facts(shown: explanation.Explanation) -> Iterator[tuple[str, str, tables.Tone | None]]:
    """Titles, words as they came, and their tones."""
    yield "Name", f"{shown.namespace}/{shown.name} ({shown.kind})", None
    yield "Phase", shown.phase, _TONES.get(dljob.Phase(shown.phase)) if shown.phase in set(dljob.Phase) else None
    placed = shown.reason == PackedReason.PLACED
    said = ": ".join(word for word in (shown.reason, shown.message) if word)
    yield "Why", said, None if placed else tables.Tone.WAITING
    waited = _age(shown.since, shown.taken)
    if waited and not all(one.node for one in shown.replicas):
        yield "Waiting", waited, None
    if shown.asked is not None:
        yield "Asks for", _asked(shown.asked), None
    yield from (("Predicted", words, None) for words in _predicted(shown))
    if shown.policy is not None:
        yield "Policy", _policy(shown.policy), None
        chosen = _chosen(shown.policy, shown.replicas)
        yield from [("Chosen", chosen, None)] if chosen else []


def _asked(asked: explanation.Asked) -> str:
    memory = "" if asked.memory_mib is None else f" and {asked.memory_mib} MiB"
    models = ", ".join(asked.gpu_models) or "any GPU model"
    gang = "" if asked.gang_size is None else f"; {asked.gang_size} pods that start together"
    return f"{asked.share} hundredths of a GPU{memory}; {models}{gang}"


def _predicted(shown: explanation.Explanation) -> Iterator[str]:
    """For the GPU models that it is on, else for the one that it would keep least busy."""
    models = {part.model for one in shown.replicas for part in one.gpus}
    there = [one for one in shown.expected if one.gpu_model in models]
    least = sorted(shown.expected, key=lambda one: (one.upper_percent, one.gpu_model))[:1]
    for one in there or least:
        beyond = "; outside of what the model knows well" if one.out_of_domain else ""
        busy = f"{one.utilization_percent:.0f} % of {one.gpu_model}, at most {math.ceil(one.upper_percent)} %"
        yield f"{busy}, and at most {one.memory_mib} MiB; bound by {one.regime} ({one.source}){beyond}"


def _policy(policy: explanation.Policy) -> str:
    tenants = f"at most {policy.max_tenants_per_gpu} pods on a GPU, tenancy {policy.tenancy}"
    return f"{policy.placement}, {tenants}, order {policy.order}; generation {policy.generation}"


def _chosen(policy: explanation.Policy, replicas: Sequence[explanation.Replica]) -> str:
    """Why there; empty where nothing is placed. A policy that is no longer in force is not known."""
    by = sorted({one.policy_generation for one in replicas if one.policy_generation is not None})
    if not by or by == [policy.generation]:
        return policy.placement.words if by else ""
    return f"by the policy of generation {', '.join(map(str, by))}; another is in force now"


def _replica(one: explanation.Replica) -> Iterator[tuple[tables.Cell, ...]]:
    for part in one.gpus:
        placed = (part.index, part.model, part.share, part.active_thread_percentage, part.memory_mib)
        beside = None if one.phase in _OVER else ", ".join(map(_neighbour, part.neighbours)) or "nobody"
        yield (one.pod, one.reason, one.node, *placed, beside, one.phase, part.health, part.uuid, one.message)
    if not one.gpus:
        yield (one.pod, one.reason, one.node, *(None,) * 6, one.phase, None, None, one.message)


def _neighbour(other: explanation.Neighbour) -> str:
    share = "?" if other.share is None else str(other.share)
    return f"{other.namespace}/{other.pod} ({share})"


def _expected(one: explanation.Expected) -> tuple[tables.Cell, ...]:
    return (
        one.gpu_model,
        one.utilization_percent,
        math.ceil(one.upper_percent),
        one.memory_mib,
        one.regime,
        one.source,
        one.model,
    )


def _age(since: str, taken: str) -> str:
    """As kubectl says it: the two largest units; empty where it is not known."""
    try:
        seconds = int((datetime.fromisoformat(taken) - datetime.fromisoformat(since)).total_seconds())
    except (ValueError, TypeError):
        return ""
    parts, left = [], max(seconds, 0)
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"
