"""SMPercent: beside the tenants that keep the GPU busy for most of the time.

The rule SM% of KACE: the partner with the highest SM busy rate as nvidia-smi shows it, which is the share of time in
which a kernel runs. A tenant without prediction counts for the threads that it may use. See `partners`.
"""

from cotenant_extender.packing import jobs, knowledge, partners, rules


def score(offers: rules.Offers, known: knowledge.Knowledge) -> rules.Array:
    """Return the busier, the higher."""
    return partners.score(offers, known, _busy, sign=1.0)


def _busy(job: jobs.Job) -> float:
    return job.threads if job.predicted is None else job.predicted.utilization.q50
