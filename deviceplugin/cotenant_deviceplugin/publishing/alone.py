"""How long each tenant had a GPU to itself, and what the GPU did in that time. Pure: samples in, sums out.

NVML tells the utilization of a GPU, never of a process: a tenant's is known only while nobody else is there. The
status that was published last is the memory over a restart; whole seconds and percent are kept there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from cotenant_api import gpunode
from cotenant_api.names import GPUUID, PodUID
from cotenant_deviceplugin.gpus import hardware
from cotenant_deviceplugin.publishing import tenants

SAMPLE_SECONDS = 5.0
LONGEST_SECONDS = 15.0
"""Between two samples: what lies further apart was not watched, and counts for nobody."""


@dataclass(frozen=True)
class Sole:
    """The only tenant of a GPU, while it has a process there, and the GPU's utilization (0 to 100)."""

    pod_uid: PodUID
    utilization_percent: int


@dataclass(frozen=True)
class Sample:
    """Which GPUs one tenant had to itself at one moment."""

    time: datetime
    sole: Mapping[GPUUID, Sole]


@dataclass(frozen=True)
class Sums:
    """What was measured until now: seconds and percent-seconds of each tenant on each GPU."""

    last: Sample | None = None
    totals: Mapping[GPUUID, Mapping[PodUID, tenants.Alone]] = field(default_factory=dict)


def candidates(status: gpunode.Status | None) -> frozenset[GPUUID]:
    """Return the GPUs with one tenant: on others nobody is alone, and nothing has to be asked."""
    return frozenset(gpu.uuid for gpu in (status.gpus if status else ()) if len(gpu.tenants) == 1)


def sole(
    gpus: Iterable[gpunode.GPU],
    usage: Mapping[GPUUID, hardware.Usage],
    owners: Mapping[int, PodUID],
    *,
    own: frozenset[int],
) -> dict[GPUUID, Sole]:
    """Who is alone where: one tenant is listed, it has a process there, and no other process is but the agent's own."""
    found = {}
    for gpu in gpus:
        seen = usage.get(gpu.uuid)
        if seen is None or len(gpu.tenants) != 1:
            continue
        uid = gpu.tenants[0].pod_uid
        there = any(owners.get(process.pid) == uid for process in seen.processes)
        if there and not tenants.foreign(seen, owners, uids={uid}, own=own):
            found[gpu.uuid] = Sole(uid, seen.utilization_percent)
    return found


def grown(before: Sums, sample: Sample, listed: gpunode.Status) -> Sums:
    """Return the sums with the time since the last sample, where the same tenant was alone at both of its ends.

    Args:
        before: the sums so far.
        sample: what is seen now.
        listed: the status that names the tenants; who is not in it is forgotten.
    """
    totals = {
        gpu.uuid: {each.pod_uid: _known(before, gpu.uuid, each) for each in gpu.tenants}
        for gpu in listed.gpus
        if gpu.tenants
    }
    seconds = 0.0 if before.last is None else (sample.time - before.last.time).total_seconds()
    if before.last is not None and 0 < seconds <= LONGEST_SECONDS:
        for uuid, now in sample.sole.items():
            was = before.last.sole.get(uuid)
            if was is not None and was.pod_uid == now.pod_uid and now.pod_uid in totals.get(uuid, {}):
                totals[uuid][now.pod_uid] = totals[uuid][now.pod_uid].plus(seconds, now.utilization_percent)
    return Sums(sample, totals)


def _known(before: Sums, gpu: GPUUID, tenant: gpunode.Tenant) -> tenants.Alone:
    return before.totals.get(gpu, {}).get(tenant.pod_uid) or tenants.Alone.published(tenant)
