"""What the container's environment asks of the runtime. Pure: a mapping in, settings out."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cotenant_runtime.gate import Limits

ROLE: Final = "COTENANT_SPACE_TIME"
SEGMENT: Final = "COTENANT_SPACE_TIME_SEGMENT"
SLOT: Final = "COTENANT_SPACE_TIME_SLOT"
DELAY: Final = "COTENANT_SPACE_TIME_DELAY_MILLISECONDS"
LONGEST_WAIT: Final = "COTENANT_SPACE_TIME_LONGEST_WAIT_MILLISECONDS"
LEAST: Final = "COTENANT_SPACE_TIME_LEAST_PERCENT"
GRAPH: Final = "COTENANT_SPACE_TIME_GRAPH"
CACHE: Final = "COTENANT_SPACE_TIME_CACHE"


class Role(enum.StrEnum):
    """What the job in this container is."""

    TRAINING = "Training"
    INFERENCE = "Inference"


class SettingsError(Exception):
    """A variable cannot be used. The message names variable, value and remedy."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a container's runtime works by."""

    role: Role
    segment: Path
    slot: int | None = None
    """The slot that the node agent has given to the container; None: any that is free."""
    limits: Limits = field(default_factory=Limits)
    graph: Path | None = None
    """The job's graph document."""
    cache: Path | None = None
    """Folder for what is learned of models."""


def read(environment: Mapping[str, str]) -> Settings | None:
    """Return the settings, or None where the job does not share in space and time.

    Raises:
        SettingsError: a variable is missing, or its value cannot be used.
    """
    role = environment.get(ROLE, "")
    if not role:
        return None
    if role not in list(Role):
        raise SettingsError(f"{ROLE}={role}: must be {' or '.join(Role)}")
    segment = environment.get(SEGMENT, "")
    if not segment:
        raise SettingsError(f"{SEGMENT}: must name the segment of the GPU when {ROLE} is set")
    plain = Limits()
    limits = Limits(
        delay_ns=1_000_000 * _number(environment, DELAY, plain.delay_ns // 1_000_000, most=10_000),
        longest_wait_ns=1_000_000 * _number(environment, LONGEST_WAIT, plain.longest_wait_ns // 1_000_000, most=60_000),
        least_fraction=_number(environment, LEAST, round(100 * plain.least_fraction), most=100) / 100,
    )
    slot = _number(environment, SLOT, -1, least=0, most=1_000)
    return Settings(
        role=Role(role),
        segment=Path(segment),
        slot=None if slot < 0 else slot,
        limits=limits,
        graph=_path(environment, GRAPH),
        cache=_path(environment, CACHE),
    )


def _path(environment: Mapping[str, str], name: str) -> Path | None:
    value = environment.get(name, "")
    return Path(value) if value else None


def _number(environment: Mapping[str, str], name: str, default: int, *, least: int = 1, most: int) -> int:
    text = environment.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
        raise SettingsError(f"{name}={text[:32]}: must be a whole number from {least} to {most}")
    return int(text)
