"""What `cotenant node` says to people. Pure."""

from collections.abc import Iterator
from typing import Final

from cotenant_api import printable, tables
from cotenant_cli.views import explanation_lines, node, usage_tables

_REFUSED: Final = (tables.words("REFUSED-POD-UID"), tables.words("REASON"))
_FAULTS: Final = (
    tables.number("GPU"),
    tables.words("LAST-FAULT"),
    tables.number("XID"),
    tables.words("CULPRIT-POD-UID"),
    tables.number("VICTIMS"),
)
_LEAVING: Final = (
    tables.words("NAMESPACE"),
    tables.words("POD"),
    tables.words("DLJOB", spare=1),
    tables.words("GPUS"),
    tables.number("BOOKED%"),
    tables.words("AFTER"),
)


def shown(found: node.Node, look: tables.Look) -> Iterator[str]:
    """Yield how it stands, its GPUs and who is on them, what was refused, and faults."""
    tone = tables.Tone.GOOD if found.ready else tables.Tone.BAD
    for title, said in _facts(found):
        text = printable.plain(said)
        yield from explanation_lines.fact(title, tables.Toned(text, tone) if title == "Agent" else text, look)
    yield ""
    yield from usage_tables.gpus(found.gpus, look)
    if found.refused:
        yield ""
        yield from tables.lines(_REFUSED, [(one.pod_uid, one.reason) for one in found.refused], look)
    if found.faults:
        yield ""
        yield from tables.lines(_FAULTS, [_fault(one) for one in found.faults], look)
    yield from usage_tables.notes(found.notes, look)


def drain(found: node.Drain, look: tables.Look) -> Iterator[str]:
    """Who would have to go, and what does it."""
    if found.pods:
        yield from tables.lines(_LEAVING, [_leaving(one) for one in found.pods], look)
    else:
        yield f"No pod on {printable.plain(found.name)} has a share of a GPU."
    yield from ("", "Nothing was changed. These commands drain it, and open it again:")
    yield from (f"  {command}" for command in found.commands)
    yield from usage_tables.notes(found.notes, look)


def _facts(found: node.Node) -> Iterator[tuple[str, str]]:
    yield "Name", found.name
    yield "Agent", ": ".join(word for word in (found.reason, found.message) if word)
    yield "Shares", f"{found.booked_shares} of {found.shares} hundredths of a GPU are booked"
    yield "Cordoned", "yes: it takes no pods" if found.cordoned else "no"
    yield "Taints", ", ".join(found.taints) or tables.NONE
    versions = {
        "agent": found.agent_version,
        "driver": found.driver_version,
        "CUDA": found.cuda_version,
        "runtime": found.container_runtime,
    }
    yield "Versions", ", ".join(f"{what} {version}" for what, version in versions.items() if version) or tables.NONE


def _fault(one: node.Fault) -> tuple[tables.Cell, ...]:
    return one.index, one.time, one.xid, one.culprit_pod_uid, len(one.victim_pod_uids)


def _leaving(one: node.Leaving) -> tuple[tables.Cell, ...]:
    gpus = ",".join(map(str, one.gpus))
    return one.namespace, one.pod, one.dljob, gpus, one.share, one.after
