"""The bytes of the shared segment: a header, then one slot for each tenant. Pure: no file, no clock.

A slot has one writer. It carries a sequence number and a checksum over all its bytes, so a reader needs no
lock: a slot that is read while it is written has a wrong checksum and is read again. Whoever may write the file
may write anything into it, so every field is checked against its range, and a slot out of range does not count.
"""

from __future__ import annotations

import enum
import struct
import zlib
from dataclasses import dataclass
from typing import Final

MAGIC: Final = b"COTENSTS"
VERSION: Final = 1
SLOTS: Final = 16

_HEADER: Final = struct.Struct("<8sHHHH44xI")
_SLOT: Final = struct.Struct("<QQBBHI10Q20xI")
HEADER_BYTES: Final = _HEADER.size
SLOT_BYTES: Final = _SLOT.size
SEGMENT_BYTES: Final = HEADER_BYTES + SLOTS * SLOT_BYTES

MAX_COUNT: Final = 2**53
MAX_TIME_NS: Final = 2**63
MAX_PENDING: Final = 2**20
MAX_SPAN_NS: Final = 600_000_000_000
"""The longest service time, step or deadline that is believed: ten minutes."""
FULL_FILL: Final = 1000
"""All SMs, or all cores: fill is counted in thousandths."""


class Role(enum.IntEnum):
    """What the writer of a slot is."""

    NONE = 0
    INFERENCE = 1
    TRAINING = 2


class Phase(enum.IntEnum):
    """What the writer of a slot is doing."""

    IDLE = 0
    QUEUED = 1
    HEAVY = 2
    LIGHT = 3
    FORWARD = 4
    BACKWARD = 5
    OPTIMIZER = 6
    WAITING = 7


_PHASES: Final = {
    int(role): {int(phase): phase for phase in phases}
    for role, phases in {
        Role.INFERENCE: (Phase.IDLE, Phase.QUEUED, Phase.HEAVY, Phase.LIGHT),
        Role.TRAINING: (Phase.IDLE, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.WAITING),
    }.items()
}
_EMPTY: Final = bytes(SLOT_BYTES)


@dataclass(frozen=True, slots=True)
class Inference:
    """What a job with an SLO publishes. Times are nanoseconds of the machine's monotonic clock; 0 is none."""

    phase: Phase = Phase.IDLE
    fill: int = 0
    """Thousandths of the SMs, or of the cores, that a request keeps busy; 0: not known."""
    arrival_ns: int = 0
    """Arrival of the oldest request that is not answered."""
    deadline_ns: int = 0
    """Earliest deadline of a request that is not answered."""
    latest_start_ns: int = 0
    """Time from which the job needs the device alone to meet every deadline."""
    pending: int = 0
    service_ns: int = 0
    """Time that one request takes alone, as measured; 0: not known."""
    requests: int = 0
    met: int = 0
    """Requests answered so far, and those of them that met their deadline."""


@dataclass(frozen=True, slots=True)
class Training:
    """What a training job publishes: its position, and what sharing has cost it so far."""

    phase: Phase = Phase.IDLE
    step: int = 0
    group: int = 0
    busy_until_ns: int = 0
    """Predicted end of the work that was launched."""
    waited_ns: int = 0
    """Time spent at the gate since the start."""
    ran_ns: int = 0
    """Time spent elsewhere while a job with an SLO was attached."""
    step_ns: int = 0
    alone_step_ns: int = 0
    """Recent time of a step, and its time without a job with an SLO; 0: not known."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot whose checksum and fields are right. Whether its writer still lives is for the reader to say."""

    sequence: int
    heartbeat_ns: int
    pid: int
    state: Inference | Training


def header() -> bytes:
    """Return the header of a segment."""
    body = _HEADER.pack(MAGIC, VERSION, HEADER_BYTES, SLOT_BYTES, SLOTS, 0)[:-4]
    return sealed(body)


def is_header(data: bytes) -> bool:
    """Return whether these bytes begin a segment of this version and geometry."""
    return data == header()


def offset(index: int) -> int:
    """Return the place of a slot in the file."""
    return HEADER_BYTES + index * SLOT_BYTES


def pack(slot: Slot) -> bytes:
    """Return the bytes of a slot. Values out of range are clamped, so that a writer never fails."""
    state = slot.state
    if isinstance(state, Inference):
        role, fill = Role.INFERENCE, state.fill
        numbers = (
            state.arrival_ns,
            state.deadline_ns,
            state.latest_start_ns,
            min(state.pending, MAX_PENDING),
            min(state.service_ns, MAX_SPAN_NS),
            state.requests,
            min(state.met, state.requests),
        )
    else:
        role, fill = Role.TRAINING, 0
        numbers = (
            state.step,
            state.group,
            state.busy_until_ns,
            state.waited_ns,
            state.ran_ns,
            min(state.step_ns, MAX_SPAN_NS),
            min(state.alone_step_ns, MAX_SPAN_NS),
        )
    clamped = [min(max(number, 0), MAX_TIME_NS) for number in numbers]
    body = _SLOT.pack(
        slot.sequence & (2**64 - 1),
        slot.heartbeat_ns,
        role,
        state.phase,
        min(max(fill, 0), FULL_FILL),
        slot.pid,
        *clamped,
        *[0] * (10 - len(clamped)),
        0,
    )[:-4]
    return sealed(body)


def sealed(body: bytes) -> bytes:
    """Return bytes with their checksum behind them."""
    return body + struct.pack("<I", zlib.crc32(body))


def parse(data: bytes) -> Slot | None:
    """Return the slot in these bytes, or None: empty, torn, of another version, or out of range."""
    if len(data) != SLOT_BYTES or data == _EMPTY:
        return None
    sequence, heartbeat, role, phase, fill, pid, *numbers, checksum = _SLOT.unpack(data)
    if checksum != zlib.crc32(data[:-4]) or fill > FULL_FILL or pid > 2**31 - 1 or heartbeat > MAX_TIME_NS:
        return None
    state = _state(role, phase, fill, numbers)
    return None if state is None else Slot(sequence, heartbeat, pid, state)


def _state(role: int, number: int, fill: int, numbers: list[int]) -> Inference | Training | None:
    phase = _PHASES.get(role, {}).get(number)
    if phase is None or max(numbers) > MAX_TIME_NS:
        return None
    first, second, third, fourth, fifth, sixth, seventh = numbers[:7]
    if role == Role.INFERENCE:
        if fourth > MAX_PENDING or fifth > MAX_SPAN_NS or not seventh <= sixth <= MAX_COUNT:
            return None
        return Inference(phase, fill, first, second, third, fourth, fifth, sixth, seventh)
    if max(first, second) > MAX_COUNT or max(sixth, seventh) > MAX_SPAN_NS:
        return None
    return Training(phase, first, second, third, fourth, fifth, sixth, seventh)
