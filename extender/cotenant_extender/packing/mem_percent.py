"""MemPercent: beside the tenants that keep the GPU's memory busy for the least of the time.

The rule MEM% of KACE: the partner with the lowest memory busy rate as nvidia-smi shows it; where a prediction does not
know that, the part of the bandwidth that it uses. A tenant without prediction counts for the threads that it may use.
See `partners`.
"""

from cotenant_extender.packing import jobs, knowledge, partners, rules


def score(offers: rules.Offers, known: knowledge.Knowledge) -> rules.Array:
    """Return the less busy, the higher."""
    return partners.score(offers, known, _busy, sign=-1.0)


def _busy(job: jobs.Job) -> float:
    if job.predicted is None:
        return job.threads
    return (job.predicted.memory_utilization or job.predicted.dram_activity).q50
