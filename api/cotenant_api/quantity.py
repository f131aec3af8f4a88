"""Kubernetes quantities: `10Gi`, `500m`, `4e9`."""

import math
import re
from decimal import Decimal, InvalidOperation

from cotenant_api import errors

BYTES_PER_MIB = 1024 * 1024
MAX = 2**63 - 1
"""As in Kubernetes: what fits into 64 bits."""
PATTERN = r"^[+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$"
"""With an exponent of two digits at most: the API server works for as many steps as the exponent says."""

_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
_SHAPE = re.compile(PATTERN)
_LONG_EXPONENT = re.compile(r"[eE]([+-]?)0*[1-9][0-9]{2,}$")


def parse(text: str | int, *, field: str) -> Decimal:
    """Return the number that a quantity stands for.

    Raises:
        InvalidInputError: the text is no quantity, negative, or more than 64 bits hold.
    """
    value = _number(text, field=field)
    if value > MAX:
        raise errors.InvalidInputError(field, text, f"must be at most {MAX}")
    return value


def counted(text: str | int, *, field: str) -> Decimal:
    """Return the number that a quantity stands for, at most `MAX`: so Kubernetes counts whatever it has let in.

    Raises:
        InvalidInputError: the text is no quantity, or negative.
    """
    exponent = _LONG_EXPONENT.search(str(text))
    if exponent is not None:
        # Whatever stands before such an exponent, it is far out of reach, or nothing.
        is_nothing = exponent[1] == "-" or not re.search("[1-9]", str(text)[: exponent.start()])
        text = f"{str(text)[: exponent.start()]}{'e-99' if is_nothing else 'e99'}"
    return min(_number(text, field=field), Decimal(MAX))


def _number(text: str | int, *, field: str) -> Decimal:
    found = _SHAPE.match(str(text))
    if not found:
        raise errors.InvalidInputError(field, text, 'must be a quantity such as "8Gi", "512Mi" or "100"')
    number, _, suffix = found.groups()
    try:
        scale = _SUFFIXES.get(suffix or "")
        return Decimal(number + suffix) if scale is None else Decimal(number) * scale
    except InvalidOperation as error:
        raise errors.InvalidInputError(field, text, "is out of range") from error


def mebibytes(text: str | int, *, field: str) -> int:
    """Return a quantity of bytes as MiB, rounded up."""
    return math.ceil(parse(text, field=field) / BYTES_PER_MIB)


def integer(text: str | int, *, field: str) -> int:
    """Return a quantity that must be whole, such as a count of extended resources."""
    value = parse(text, field=field)
    if value != value.to_integral_value():
        raise errors.InvalidInputError(field, text, "must be a whole number")
    return int(value)


def millis(text: str | int, *, field: str) -> int:
    """Return a quantity of CPU in thousandths, rounded up."""
    return math.ceil(parse(text, field=field) * 1000)
