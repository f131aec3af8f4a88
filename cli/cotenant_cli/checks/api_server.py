"""Whether Kubernetes is new enough: admission policies, gates and CRDs are used as 1.36 has them. Pure."""

import re
from collections.abc import Iterator
from typing import Final

from cotenant_api import findings
from cotenant_cli.reading.installation import Installation, Source

READS: Final[tuple[Source, ...]] = ()
LEAST: Final = (1, 36)
"""MutatingAdmissionPolicy is generally available since then, and so on by default."""
_DIGITS: Final = re.compile(r"\d+")


def examine(seen: Installation) -> Iterator[findings.Finding]:
    """Yield the API server's version; some clouds add to the minor number ("36+")."""
    told = str(seen.version.get("gitVersion") or "of no known version")
    numbers = [_DIGITS.match(str(seen.version.get(key) or "")) for key in ("major", "minor")]
    version = tuple(int(one[0]) for one in numbers if one)
    least = ".".join(map(str, LEAST))
    if version >= LEAST:
        yield findings.ok("cluster", f"Kubernetes {told}")
    else:
        yield findings.error("cluster", f"Kubernetes {told} is older than {least}", f"upgrade the cluster to {least}")
