"""What a doctor looks at: lists of objects, each read once, and what the caller may do. What cannot be read is told.

Reads through what it is given; judges nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from cotenant_api import errors
from cotenant_cli.reading import answers, cluster

Object = Mapping[str, Any]


def whole(raw: Object) -> Object:
    """All of an object."""
    return raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Objects of one path.

    Attributes:
        path: of the collection; `{namespace}` stands for the one that Cotenant is in.
        name: the only one that is wanted; empty: all.
        kept: what of an object is of interest; None: nothing.
    """

    path: str
    name: str = ""
    kept: Callable[[Object], Object | None] = whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """Something that one may be allowed to do; `namespace` empty: everywhere."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {kind}{f'/{self.subresource}' if self.subresource else ''}"


class Asked(Protocol):
    """What is asked of a cluster beside lists."""

    def version(self) -> Object:
        """Return what `GET /version` answers."""

    def may(self, right: Right) -> bool:
        """Return whether the caller may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What was read of a cluster.

    Attributes:
        namespace: in which Cotenant is.
        now: when.
        version: of the API server.
        unread: why a source could not be read.
        rights: what the caller may do, of what was asked.
        renewed: names of Leases that were seen to be renewed (see `renewals`).
    """

    namespace: str
    now: datetime
    version: Object = field(default_factory=dict)
    objects: Mapping[Source, Sequence[Object]] = field(default_factory=dict)
    unread: Mapping[Source, str] = field(default_factory=dict)
    rights: Mapping[Right, bool] = field(default_factory=dict)
    renewed: frozenset[str] = frozenset()

    def of(self, source: Source) -> Sequence[Object]:
        """Return the objects of a source; none where they were not read."""
        return self.objects.get(source, ())


def read(
    lists: cluster.Lists,
    asked: Asked,
    *,
    sources: Iterable[Source],
    rights: Iterable[Right],
    namespace: str,
) -> Installation:
    """Return all that is asked for, as far as the caller may read it and the server can answer.

    Raises:
        TemporaryError: the API server does not answer.
        PermanentError: it does not tell its version.
    """
    objects: dict[Source, Sequence[Object]] = {}
    unread: dict[Source, str] = {}
    version = asked.version()
    for source in dict.fromkeys(sources):
        try:
            objects[source] = lists(source.path.format(namespace=namespace), source.kept, name=source.name)
        except (errors.PermanentError, answers.NotNowError) as error:
            unread[source] = str(error)
    return Installation(
        namespace=namespace,
        now=datetime.now(UTC),
        version=version,
        objects=objects,
        unread=unread,
        rights={right: asked.may(right) for right in dict.fromkeys(rights)},
    )
