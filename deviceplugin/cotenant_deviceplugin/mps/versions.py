"""Which drivers' MPS can hold tenants in containers. Pure."""

import re
from typing import Final

from cotenant_api import errors

LEAST_DRIVER: Final = 570
"""The MPS clients of older ones share memory under names in /dev/shm, of which every container has its own; and those
below 555 know no server for the users of all containers (`-multiuser-server`)."""
_MAJOR = re.compile(r"([0-9]{1,9})(?:[^0-9]|$)")


def unfit(driver_version: str) -> str | None:
    """Return why MPS of a driver cannot hold tenants; None: it can. A version without a number is not trusted."""
    major = _MAJOR.match(driver_version)
    if major is None:
        said = errors.shortened(driver_version)
        return f"driver version {said} begins with no number: it may be older than {LEAST_DRIVER}"
    if int(major[1]) < LEAST_DRIVER:
        return f"driver {driver_version} is older than {LEAST_DRIVER}: its MPS clients do not work in containers"
    return None
