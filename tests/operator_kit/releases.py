"""A later release of the operator: its DLJob has more fields, all with defaults, and it renders pods differently."""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from pydantic import Field

from cotenant_api import dljob, documents
from cotenant_operator.state import views
from cotenant_operator.workloads import template


class ConfigMapRef(dljob.ConfigMapRef):
    """With a field more."""

    optional: bool = False
    """Whether it may be absent."""


class ModelSource(dljob.ModelSource):
    """With a field more, and one deeper."""

    config_map_ref: ConfigMapRef | None = None
    """As before."""
    flavours: dict[str, str] = Field(default_factory=dict)
    """Of the graph."""


class Placing(documents.Model):
    """What this release has not."""

    pack: bool = True
    """Whether to."""


class Spec(dljob.Spec):
    """With fields more."""

    model: ModelSource | None = None
    """As before."""
    urgency: str = "Normal"
    """Of a value of its own."""
    placing: Placing = Placing()
    """Of fields of its own."""


_ANNOTATIONS = template.annotations


def _annotations(*args: Any, **kwargs: Any) -> dict[str, str]:
    return {**_ANNOTATIONS(*args, **kwargs), "cotenant.dev/of-a-later-release": "true"}


@contextlib.contextmanager
def later() -> Iterator[None]:
    """What is read and rendered within is so by the later release."""
    views._spec.cache_clear()
    with mock.patch.object(dljob, "Spec", Spec), mock.patch.object(template, "annotations", _annotations):
        yield
    views._spec.cache_clear()
