"""First fit: the first GPU that takes the pod, nodes by name, GPUs by index.

With a queue in decreasing share this is first-fit decreasing.
"""

from collections.abc import Iterator

from cotenant_extender.packing import rules


def first_fit(options: Iterator[rules.Option]) -> rules.Option | None:
    """The first option; what comes after is not looked at."""
    return next(options, None)
