"""`python -m cotenant_runtime create PATH` and `show PATH`: make a segment, and say what its tenants publish."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cotenant_runtime import demand, layout
from cotenant_runtime import segment as segments


def main(words: Sequence[str] | None = None) -> int:
    """Run one command. 1: what is wrong was printed as one line."""
    parser = argparse.ArgumentParser(prog="cotenant_runtime", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    create = commands.add_parser("create", help="make an empty segment")
    create.add_argument("path", type=Path)
    create.add_argument("--group", type=int, metavar="GID", help="group whose members may use it")
    show = commands.add_parser("show", help="print a line of JSON for each tenant")
    show.add_argument("path", type=Path)
    arguments = parser.parse_args(words)
    try:
        if arguments.command == "create":
            segments.create(arguments.path, group=arguments.group)
        else:
            for line in tenants(segments.Segment(arguments.path), now_ns=time.monotonic_ns()):
                print(json.dumps(line))
    except (OSError, segments.SegmentError) as error:
        print(f"cotenant_runtime: {arguments.command}: {error}", file=sys.stderr)
        return 1
    return 0


def tenants(segment: segments.Segment, *, now_ns: int) -> list[dict[str, Any]]:
    """Return what each slot says, with attainment and the slowdown of training as they were measured."""
    found: list[dict[str, Any]] = []
    for index, slot in segment.slots():
        state = slot.state
        line: dict[str, Any] = {
            "slot": index,
            "role": type(state).__name__,
            "pid": slot.pid,
            "alive": demand.is_alive(slot, now_ns),
            **asdict(state),
            "phase": state.phase.name.capitalize(),
        }
        if isinstance(state, layout.Inference):
            line["attainment"] = state.met / state.requests if state.requests else None
        else:
            line["slowdown"] = state.step_ns / state.alone_step_ns if state.step_ns and state.alone_step_ns else None
        found.append(line)
    return found


if __name__ == "__main__":
    sys.exit(main())
