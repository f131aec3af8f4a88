"""What Prometheus is told of the operator, as text. Pure. It names nobody, so whoever may connect may read it."""

from typing import Final

UNREAD: Final = "cotenant_operator_unread_objects"
_HELP: Final = "Objects of DLJobs that cannot be read or kept, so that their DLJobs are held"
CONTENT_TYPE: Final = "text/plain; version=0.0.4"


def text(unread: int) -> str:
    """The exposition."""
    return f"# HELP {UNREAD} {_HELP}\n# TYPE {UNREAD} gauge\n{UNREAD} {unread}\n"
