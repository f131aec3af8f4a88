"""Enumerations that command lines offer: without pydantic, so that `--help` is quick."""

import enum
from typing import Final, Self


class WorkloadType(enum.StrEnum):
    """Training waits and works through; inference answers."""

    TRAINING = "Training"
    INFERENCE = "Inference"


class Sharing(enum.StrEnum):
    """Whether a job may have co-tenants."""

    SHARED = "Shared"
    EXCLUSIVE = "Exclusive"


class Placement(enum.StrEnum):
    """How a GPU is chosen among those that fit.

    Attributes:
        words: the same for people, as `cotenant why` and the dashboard say it.
    """

    words: str

    def __new__(cls, name: str, words: str = "") -> Self:
        """Make a member of its name in a PackingPolicy and its words."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.words = words
        return member

    FIRST_FIT = "FirstFit", "the first GPU that fits"
    BEST_FIT = "BestFit", "the GPU that fits with least left over"
    SPREAD = "Spread", "the emptiest GPU"
    FGD = "FGD", "where least idle GPU becomes useless for the recent mix of jobs"
    DUAL_PRICE = "DualPrice", "where the node loses least of its worth for the recent mix of jobs"
    INTERFERENCE = "Interference", "where it adds most to the predicted speeds of all jobs on the GPU"
    EXCLUSIVE = "Exclusive", "the first empty GPU: each pod has a whole one"
    REACTIVE = "Reactive", "a whole GPU until it has been measured alone, then the first that fits"
    MEMORY_ONLY = "MemoryOnly", "the GPU with the least free memory that fits"
    SM_PERCENT = "SMPercent", "beside those who are predicted to keep the GPU busiest"
    MEM_PERCENT = "MemPercent", "beside those who are predicted to keep its memory least busy"
    RANDOM = "Random", "any GPU that fits"


DEFAULT_PLACEMENT: Final = Placement.FIRST_FIT
