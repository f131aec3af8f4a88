"""What can happen to one request on its way to the API server and back."""

import enum
from collections.abc import Callable

from cotenant_extender.kube import transport


class Fault(enum.Enum):
    """What happens to one request."""

    NOT_SENT = "the connection breaks before it is read"
    REPLY_LOST = "it is carried out, and the answer is lost"
    BUSY = "429, not carried out"
    BROKEN = "500 after it was carried out"
    REFUSED = "403, not carried out"
    FAILED = "500, not carried out: a webhook of its namespace is down"
    ANSWERED = "it is answered as if it was carried out, and is not there: etcd was restored from before"
    HANGS = "it is not carried out, and nothing is heard of it until its sender's timeout: a webhook hangs"
    SLOW = "it is carried out, after most of the time for which its sender waits"
    LATE = "its sender gives up, and it arrives when the test says so"


Chooses = Callable[[transport.Request], Fault | None]


def nothing(_: transport.Request) -> Fault | None:
    """No fault."""
    return None
