"""The history of one run: lines with their time, and a digest by which two runs are compared."""

import hashlib
import sys
from typing import Any

from api_server import store
from cotenant_api import names

Object = dict[str, Any]


class History:
    """Lines.

    Args:
        echo: whether each is printed at once.
    """

    def __init__(self, *, echo: bool) -> None:
        self.lines: list[str] = []
        self._echo = echo

    def say(self, now: float, text: str) -> None:
        """Another line."""
        line = f"{now:9.3f} {text}"
        self.lines.append(line)
        if self._echo:
            sys.stdout.write(f"{line}\n")

    @property
    def digest(self) -> str:
        """Equal iff the histories are."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()


def told(change: store.Change) -> str:
    """A change in one line."""
    value = change.value
    kind = change.collection.rpartition("/")[2]
    head = f"#{change.version} {change.kind} {kind} {value['metadata']['name']}"
    match kind:
        case "pods":
            return f"{head} {_pod(value)}"
        case "leases":
            return f"{head} {value['spec'].get('holderIdentity')}"
        case "gpunodes":
            listed = (
                {gpu["uuid"]: [tenant["pod"] for tenant in gpu["tenants"]] for gpu in value["status"].get("gpus", ())}
                if "status" in value
                else {}
            )
            return f"{head} {listed}"
        case "events":
            return f"{head} {value.get('reason')} {value.get('message')}"
        case _:
            return head


def _pod(value: Object) -> str:
    metadata, spec = value["metadata"], value["spec"]
    status = value.get("status") or {}
    notes = metadata.get("annotations") or {}
    parts = [status.get("phase", "")]
    if spec.get("schedulingGates"):
        parts.append("gated")
    if spec.get("nodeName"):
        parts.append(f"on {spec['nodeName']}")
    if "deletionTimestamp" in metadata:
        parts.append("deleting")
    documents = (names.EARMARK, names.PLACEMENT)
    parts += [f"{name.rpartition('/')[2]}={notes[name]}" for name in documents if name in notes]
    parts += [f"{item['type']}={item['status']}:{item.get('reason')}" for item in status.get("conditions") or ()]
    return " ".join(parts)
