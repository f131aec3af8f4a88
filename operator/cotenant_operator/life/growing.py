"""What a job that ran out of GPU memory gets next: more, then a GPU to itself, then a larger one. Pure.

The rule is the same for attempts of a training job and for the pods of a Deployment: the larger of measured peak and
booked memory x `oomPolicy.growthPercent`, at most `maxResubmissions` times or as much as a GPU can book.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final

from cotenant_api import dljob
from cotenant_api.names import GPUModel
from cotenant_operator.life import causes, granting
from cotenant_operator.state import carried, grants, views
from cotenant_operator.state.carried import Carried, Ended
from cotenant_operator.state.observed import Observed

SMALLER: Final = "no GPU that the job may use has more; make the job smaller (its batch size, say) or allow larger GPUs"


def ran_out(
    observed: Observed, finding: causes.Finding, pods: Iterable[views.Pod], grant: grants.Grant | None
) -> Ended:
    """Return what one pod's running out of GPU memory comes to.

    Args:
        observed: the DLJob.
        finding: what was found of the pod.
        pods: all that had as much: the one that used most counts.
        grant: what they asked for.
    """
    members = tuple(pods)
    peak, booked = causes.peak_mib(observed, members), causes.booked_mib(members)
    alone = causes.alone_on_mib(observed, finding.pod, grant)
    had = f"{booked} MiB were booked" if alone is None else f"it had a GPU of {alone} MiB to itself"
    used = f", {peak} MiB measured" if peak else ""
    message = cut(finding.message, f"; {had}{used}")
    return Ended(cause=finding.cause, memory_mib=max(peak, booked) or None, gpu_memory_mib=alone, message=message)


def more(
    observed: Observed, spec: dljob.Spec, *, after: Carried, ended: Ended, grant: grants.Grant | None
) -> Carried | None:
    """Return what is taken over from a run that ended so; None: no GPU that the job may use has more.

    Args:
        observed: the DLJob.
        spec: what it says.
        after: what is taken over in all other respects.
        ended: the run, out of GPU memory.
        grant: what its pods asked for.
    """
    policy, used = spec.oom_policy, after.out_of_memory
    usable = granting.allowed(spec, observed.gpu_memory_mib)
    if ended.gpu_memory_mib is not None:
        larger = [mib for mib in usable.values() if mib > ended.gpu_memory_mib]
        # Where the default scheduler places the pods, nobody would look at the GPU models that they may use.
        if not larger or (grant is not None and grant.observed_only):
            return None
        needs = {"memory_mib": ended.gpu_memory_mib + 1, "exclusive": True}
        return after.model_copy(update={"out_of_memory": used + 1, **needs})
    known = max(ended.memory_mib or 0, after.memory_mib or 0)
    wanted = math.ceil(known * policy.growth_percent / 100) if known else None
    largest = _largest_bookable_mib(observed, usable, grant)
    exclusive = wanted is None or used >= policy.max_resubmissions or (largest is not None and wanted > largest)
    return after.model_copy(update={"out_of_memory": used + 1, "memory_mib": wanted, "exclusive": exclusive})


def words(ended: Ended, after: Carried) -> str:
    """Return what follows."""
    if not after.exclusive:
        return f"{after.memory_mib} MiB of GPU memory"
    if ended.gpu_memory_mib is None:
        return "a GPU to itself"
    return f"a GPU of at least {after.memory_mib} MiB to itself"


def cut(text: str, end: str = "") -> str:
    """Words as an annotation can carry them; their end stays."""
    return f"{text[: carried.MAX_MESSAGE - len(end)]}{end}"


def _largest_bookable_mib(observed: Observed, usable: Mapping[GPUModel, int], grant: grants.Grant | None) -> int | None:
    """Of the GPU models that the prediction is for, where there is one."""
    document = None if grant is None else grant.document()
    shared = {model: mib for model, mib in usable.items() if document is None or model in document.by_gpu}
    return granting.largest_bookable_mib(shared, observed.policy)
