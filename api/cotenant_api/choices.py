"""Enumerations that command lines offer: without pydantic, so that `--help` is quick."""

import enum
from typing import Final


class WorkloadType(enum.StrEnum):
    """Training waits and works through; inference answers."""

    TRAINING = "Training"
    INFERENCE = "Inference"


class Sharing(enum.StrEnum):
    """Whether a job may have co-tenants."""

    SHARED = "Shared"
    EXCLUSIVE = "Exclusive"


class Placement(enum.StrEnum):
    """How a GPU is chosen among those that fit."""

    FIRST_FIT = "FirstFit"
    BEST_FIT = "BestFit"
    SPREAD = "Spread"
    FGD = "FGD"
    """Where least idle GPU becomes useless for the recent mix of demands."""
    DUAL_PRICE = "DualPrice"
    """Where the node loses least of its worth at dual prices of the recent mix of demands."""
    INTERFERENCE = "Interference"
    """Where it adds most to the predicted speeds of all jobs on the GPU."""
    EXCLUSIVE = "Exclusive"
    """A whole GPU for every pod, as without sharing; the first that is empty."""
    REACTIVE = "Reactive"
    """A whole GPU until a DLJob has been measured alone for a minute, then the first that fits what was measured."""
    MEMORY_ONLY = "MemoryOnly"
    """The GPU with the least free memory; what a prediction says of a GPU's time counts for nothing."""
    SM_PERCENT = "SMPercent"
    """Beside those who are predicted to keep the GPU busiest."""
    MEM_PERCENT = "MemPercent"
    """Beside those who are predicted to keep its memory least busy."""
    RANDOM = "Random"
    """Any, by a hash of the pod's UID and the GPU's place: the same pod finds the same place again."""


DEFAULT_PLACEMENT: Final = Placement.FIRST_FIT
