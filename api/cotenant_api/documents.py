"""How documents are written and read: JSON in annotations, files and lines.

Compact, keys sorted, `"v"` the major version: a reader refuses a higher one and ignores unknown keys.
"""

import json
import re
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from cotenant_api import errors
from cotenant_api.names import GPUModel

GPUModelName = Annotated[
    GPUModel, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")
]
"""A GPU model as somebody names it: the value of the node label `nvidia.com/gpu.product`."""
M = TypeVar("M", bound=BaseModel)
D = TypeVar("D", bound="Document")

_SURROGATE = re.compile(r"[\ud800-\udfff]|\\u[dD][89a-fA-F]")


class Model(BaseModel):
    """A value with camelCase keys in JSON and snake_case names in Python. Immutable."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object; keys that are not set are absent."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class Document(Model):
    """A versioned document; the JSON key `v` is its major version."""

    MAJOR: ClassVar[int] = 1

    v: int = Field(default=1, ge=1)

    def to_object(self) -> dict[str, Any]:
        """Return the JSON object; what is unknown is null, so that its digest is the same for every writer."""
        return self.model_dump(mode="json", by_alias=True)

    def to_json(self) -> str:
        """Return the canonical text: compact, keys sorted."""
        return canonical(self.to_object())

    @classmethod
    def from_json(cls, text: str | bytes, *, source: str) -> Self:
        """Read a document.

        Args:
            text: the JSON text.
            source: where it came from, for the message of an error.

        Raises:
            UnsupportedVersionError: the document is of a higher major version.
            InvalidInputError: it is no JSON object or a field is wrong; the first wrong field is named.
        """
        try:
            value = json.loads(text)
            if _may_be_cut(text):
                canonical(value).encode()  # halves of characters cannot be written again
        except (ValueError, RecursionError) as error:
            raise errors.InvalidInputError(source, text[:64], f"must be JSON: {error}") from error
        return cls.from_object(value, source=source)

    @classmethod
    def from_object(cls, value: object, *, source: str) -> Self:
        """As `from_json`, from a decoded value."""
        if not isinstance(value, dict):
            raise errors.InvalidInputError(source, value, "must be a JSON object")
        major = value.get("v", 1)
        if not isinstance(major, int) or isinstance(major, bool):
            raise errors.InvalidInputError(f"{source}.v", major, "must be an integer")
        if major > cls.MAJOR:
            remedy = f"this release reads version {cls.MAJOR}: upgrade it, or write the document with its version"
            raise errors.UnsupportedVersionError(f"{source}.v", major, remedy)
        return validated(cls, value, source=source)


def _may_be_cut(text: str | bytes) -> bool:
    """Return whether there may be halves of characters in it; the search takes longer than all of the reading."""
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text))
    return (not text.isascii() or "\\u" in text) and _SURROGATE.search(text) is not None


def validated(model: type[M], value: object, *, source: str) -> M:
    """Return the value as `model`; the first wrong field becomes an InvalidInputError."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise errors.InvalidInputError(f"{source}{path}", first.get("input"), first["msg"]) from error


def without(written: dict[str, Any], **absent: Any) -> dict[str, Any]:
    """Leave out of a JSON object the keys that are named here, where they have these values: absence says as much."""
    return {key: value for key, value in written.items() if key not in absent or value != absent[key]}


def canonical(value: object) -> str:
    """Compact JSON with sorted keys. NaN and infinities are refused (ValueError)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
