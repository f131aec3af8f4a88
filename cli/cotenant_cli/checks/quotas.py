"""Which namespaces may have no share of a GPU, or have no more left, by a ResourceQuota. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant_api import errors, findings, names, quantity
from cotenant_cli.reading import kinds
from cotenant_cli.reading.installation import Installation

Object = Mapping[str, Any]
READS: Final = (kinds.QUOTAS,)
RESOURCE: Final = f"requests.{names.GPU_SHARE}"


def examine(seen: Installation) -> Iterator[findings.Finding]:
    """Yield a finding for each quota that forbids a share; of the others, how many there are."""
    open_quotas = 0
    for quota in seen.of(kinds.QUOTAS):
        status = quota.get("status") or {}
        hard = ((quota.get("spec") or {}).get("hard") or {}).get(RESOURCE)
        if hard is None:
            continue
        metadata = quota["metadata"]
        where = f"ResourceQuota/{metadata['namespace']}/{metadata['name']}"
        used = (status.get("used") or {}).get(RESOURCE, "0")
        remedy = (
            f"kubectl -n {metadata['namespace']} edit resourcequota {metadata['name']}: {RESOURCE} is in hundredths"
        )
        if _number(hard) == 0:
            yield findings.warning(where, f"forbids {names.GPU_SHARE} in the namespace", remedy)
        elif _number(used) >= _number(hard):
            yield findings.warning(where, f"{used} of {hard} hundredths are used: no further pod is made", remedy)
        else:
            open_quotas += 1
    if open_quotas:
        yield findings.ok("cluster", f"{open_quotas} quotas of {names.GPU_SHARE} have hundredths left")


def _number(text: str | int) -> float:
    try:
        return float(quantity.parse(text, field=RESOURCE))
    except errors.InvalidInputError:
        return 0.0
