"""The two tables of `cotenant top`: GPUs, and who is on them. Pure."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from cotenant_api import gpunode, printable, tables
from cotenant_cli.views import usage

_GPUS: Final = (
    tables.words("NODE"),
    tables.number("GPU"),
    tables.words("MODEL"),
    tables.number("TENANTS", spare=3),
    tables.number("PREDICTED%", spare=4),
    tables.number("BOOKED%"),
    tables.number("UTIL%"),
    tables.number("MIB-BOOKED"),
    tables.number("MIB-USED", spare=2),
    tables.number("MIB", spare=1),
    tables.words("HEALTH"),
    tables.words("MODE", wide=True),
    tables.words("MPS", wide=True),
    tables.number("FOREIGN", wide=True),
    tables.words("UUID", wide=True),
    tables.words("REASON", wide=True),
)
_TENANTS: Final = (
    tables.words("NODE"),
    tables.number("GPU"),
    tables.words("NAMESPACE"),
    tables.words("POD"),
    tables.number("PREDICTED%", spare=1),
    tables.number("UPPER%", spare=3),
    tables.number("BOOKED%"),
    tables.number("ALONE%", spare=2),
    tables.number("MIB-PREDICTED", spare=4),
    tables.number("MIB-BOOKED"),
    tables.number("MIB-USED"),
    tables.number("SM%", wide=True),
    tables.number("MIB-PEAK", wide=True),
    tables.number("ALONE-SECONDS", wide=True),
    tables.words("SOURCE", wide=True),
    tables.words("DLJOB", wide=True),
    tables.words("UUID", wide=True),
)
NOT_READY: Final = "NotReady"


def lines(shown: usage.Usage, look: tables.Look) -> Iterator[str]:
    """Both tables, and the notes."""
    yield from gpus(shown.gpus, look)
    yield from notes(shown.notes, look)


def gpus(shown: Sequence[usage.GPU], look: tables.Look) -> Iterator[str]:
    """Both tables."""
    if shown:
        yield from tables.lines(_GPUS, [_gpu(gpu) for gpu in shown], look)
    else:
        told = "No GPU is told of: no node agent serves one here, or no pod of the namespace has a part of one."
        yield from tables.wrapped(told, look)
    rows = [_tenant(gpu, tenant) for gpu in shown for tenant in gpu.tenants]
    if rows:
        yield ""
        yield from tables.lines(_TENANTS, rows, look)


def notes(said: Sequence[str], look: tables.Look) -> Iterator[str]:
    """After a blank line, if there are any."""
    if said:
        yield ""
    for note in said:
        yield from tables.wrapped(f"Note: {printable.plain(note)}", look, indent="  ")


def _gpu(gpu: usage.GPU) -> tuple[tables.Cell, ...]:
    more = "+" if gpu.unknown_tenants else ""
    return (
        gpu.node,
        gpu.index,
        gpu.model,
        gpu.tenant_count,
        f"{gpu.predicted_percent:.0f}{'+' if gpu.unpredicted_tenants else ''}",
        f"{gpu.booked_share}{more}",
        gpu.utilization_percent,
        f"{gpu.booked_memory_mib}{more}",
        gpu.memory_used_mib,
        gpu.memory_mib,
        _health(gpu),
        gpu.mode,
        gpu.mps,
        gpu.foreign_processes,
        gpu.uuid,
        gpu.reason,
    )


def _health(gpu: usage.GPU) -> tables.Cell:
    if not gpu.ready:
        return tables.Toned(NOT_READY, tables.Tone.BAD)
    healthy = gpu.health is gpunode.Health.HEALTHY
    return tables.Toned(gpu.health, tables.Tone.GOOD if healthy else tables.Tone.BAD)


def _tenant(gpu: usage.GPU, tenant: usage.Tenant) -> tuple[tables.Cell, ...]:
    percent, upper, expected_mib, source = _predicted(tenant.predicted)
    share, booked_mib, threads = _booked(tenant.booked)
    alone, used_mib, peak_mib, seconds = _observed(tenant.observed)
    figures = (percent, upper, share, alone, expected_mib, booked_mib, used_mib)
    more = (threads, peak_mib, seconds, source, tenant.dljob, gpu.uuid)
    return (gpu.node, gpu.index, tenant.namespace, tenant.pod, *figures, *more)


def _predicted(known: usage.Predicted | None) -> tuple[tables.Cell, ...]:
    if known is None:
        return (None,) * 4
    return known.utilization_percent, math.ceil(known.upper_percent), known.memory_mib, known.source


def _booked(known: usage.Booked | None) -> tuple[tables.Cell, ...]:
    return (None,) * 3 if known is None else (known.share, known.memory_mib, known.active_thread_percentage)


def _observed(known: usage.Observed | None) -> tuple[tables.Cell, ...]:
    if known is None:
        return (None,) * 4
    return known.alone_utilization_percent, known.memory_used_mib, known.memory_peak_mib, known.alone_seconds
