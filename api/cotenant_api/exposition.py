"""Who may read metrics that name namespaces, pods or their UIDs: whoever shows the token of a file.

The token is good for nothing else, so it may travel where the metrics do. No API server is asked about it: metrics are
also read when that is away. For components that have prometheus_client.
"""

import enum
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import prometheus_client
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from cotenant_api import errors

NAMING: Final = frozenset({"namespace", "pod", "uid"})
"""Labels that name a tenant."""
MIN_TOKEN_BYTES: Final = 16
MAX_TOKEN_BYTES: Final = 4096
REFUSAL: Final = "the bearer token is not that of the metrics\n"


class Audience(enum.Enum):
    """Who reads metrics."""

    ANYBODY = enum.auto()
    """No token was shown: nothing is told that names a tenant."""
    HOLDER = enum.auto()
    """The token was shown: everything is told."""
    REFUSED = enum.auto()
    """Something else was shown."""


@dataclass(frozen=True, slots=True)
class Readers:
    """Tells holders of the token from others.

    Attributes:
        token_file: holds the token; read again every time, as Secrets are replaced. None: nobody holds one.
    """

    token_file: Path | None = None

    @classmethod
    def by(cls, token_file: Path | None, *, field: str) -> "Readers":
        """Return the readers by the token of a file.

        Raises:
            InvalidInputError: the file cannot be read, or holds no token. `field` is named.
        """
        readers = cls(token_file)
        if token_file is not None:
            try:
                readers.token()
            except (OSError, ValueError) as error:
                remedy = f"name a file with a token of {MIN_TOKEN_BYTES} to {MAX_TOKEN_BYTES} bytes ({error})"
                raise errors.InvalidInputError(field, str(token_file), remedy) from error
        return readers

    def token(self) -> bytes | None:
        """Return the token; None: there is none.

        Raises:
            OSError: the file cannot be read.
            ValueError: what it holds is too short or too long.
        """
        if self.token_file is None:
            return None
        with self.token_file.open("rb") as file:
            token = file.read(MAX_TOKEN_BYTES + 1).strip()
        if not MIN_TOKEN_BYTES <= len(token) <= MAX_TOKEN_BYTES:
            raise ValueError(f"it holds {len(token)} bytes")
        return token

    def audience(self, authorization: bytes | None) -> Audience:
        """Return who shows this Authorization header; None: there is none. A token that cannot be read is nobody's."""
        if authorization is None:
            return Audience.ANYBODY
        scheme, _, shown = authorization.partition(b" ")
        try:
            token = self.token()
        except (OSError, ValueError):
            return Audience.REFUSED
        known = token is not None and hmac.compare_digest(shown.strip(), token)
        return Audience.HOLDER if known and scheme.lower() == b"bearer" else Audience.REFUSED


NOBODY: Final = Readers()
"""No token lets read what names a tenant."""


class _Nameless(Collector):
    def __init__(self, registry: Collector) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        """Yield the families none of whose samples names a tenant."""
        for family in self._registry.collect():
            if not any(NAMING & sample.labels.keys() for sample in family.samples):
                yield family


def text(registry: Collector, audience: Audience) -> bytes:
    """Return the metrics of a registry in Prometheus' text format, as far as this audience may read them."""
    told = registry if audience is Audience.HOLDER else _Nameless(registry)
    return prometheus_client.generate_latest(told)
