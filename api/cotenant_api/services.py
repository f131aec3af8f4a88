"""The Service of a DLJob that serves: `spec.service`, in the words of core/v1."""

import enum
from typing import Annotated

from pydantic import Field

from cotenant_api import documents


class Protocol(enum.StrEnum):
    """Protocol of a Service's port."""

    TCP = "TCP"
    UDP = "UDP"
    SCTP = "SCTP"


PortNumber = Annotated[int, Field(ge=1, le=65535)]


class ServicePort(documents.Model):
    """One port of `service`, as of core/v1."""

    name: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Name of the port. Required where there is more than one."""
    port: PortNumber
    """Number at which the Service takes requests."""
    target_port: Annotated[int | str, Field(json_schema_extra={"x-cotenant-int-or-string": True})] | None = None
    """Number or name of the container's port that gets the requests; default: `port`."""
    protocol: Protocol = Protocol.TCP
    """Protocol of the port."""
    app_protocol: Annotated[str, Field(min_length=1, max_length=317)] | None = None
    """Protocol that the application speaks, such as `http`, `https` or `kubernetes.io/h2c`."""


class Service(documents.Model):
    """A ClusterIP Service in front of the ready replicas of an inference job."""

    name: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Name of the Service; default: the name of the DLJob."""
    ports: Annotated[tuple[ServicePort, ...], Field(min_length=1, max_length=16)]
    """Ports of the Service, as of core/v1."""
