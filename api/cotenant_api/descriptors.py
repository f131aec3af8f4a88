"""How many files and connections a process may have open. Knows no listener and no program."""

import contextlib
from typing import Final

MOST: Final = 65536
"""As many as are asked for; what closes all of a child's goes through so many."""


def raise_limit() -> None:
    """Let this process have as many as it may, up to `MOST`, as Go programs do by themselves.

    systemd and containerd give 1,024 to programs that call select(), and more to those that ask.
    """
    with contextlib.suppress(ImportError):  # where there are no such limits
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
