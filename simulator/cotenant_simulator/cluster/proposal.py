"""A PackingPolicy from a file, as strictly as the API server reads one: a field that is not known is refused. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel

from cotenant_api import errors, names, packingpolicy, written
from cotenant_api.packingpolicy import PackingPolicy

KIND: Final = "PackingPolicy"


def read(text: str, *, source: str) -> PackingPolicy:
    """Return the policy.

    Args:
        text: one YAML document.
        source: the file, for messages.

    Raises:
        InvalidInputError: it is no PackingPolicy, or a field is unknown or wrong; the file and the path are named.
    """
    value = written.one(text, field="--policy", source=source)
    if not isinstance(value, dict):
        raise errors.InvalidInputError(source, value, f"must be an object of kind {KIND}")
    for field, wanted in (("apiVersion", names.API_VERSION), ("kind", KIND)):
        if value.get(field) != wanted:
            raise errors.InvalidInputError(f"{source}: {field}", value.get(field), f"must be {wanted}")
    metadata = value.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise errors.InvalidInputError(f"{source}: metadata", metadata, "must be an object")
    if metadata.get("name", packingpolicy.NAME) != packingpolicy.NAME:
        remedy = f"must be {packingpolicy.NAME}: there is one PackingPolicy"
        raise errors.InvalidInputError(f"{source}: metadata.name", metadata["name"], remedy)
    spec = value.get("spec") or {}
    _require_known(packingpolicy.Spec, spec, path=f"{source}: spec")
    try:
        return PackingPolicy.from_object(value)
    except errors.InvalidInputError as error:
        raise errors.InvalidInputError(f"{source}: {error.field}", error.value, error.remedy) from error


def require_simulated(policy: PackingPolicy, *, field: str) -> PackingPolicy:
    """Return the policy, unless it places nothing.

    Raises:
        InvalidInputError: it is paused.
    """
    if policy.spec.paused:
        raise errors.InvalidInputError(f"{field}: spec.paused", True, "must be false: a paused policy places nothing")
    return policy


def changes(before: PackingPolicy, after: PackingPolicy) -> Sequence[tuple[str, str, str]]:
    """Path, value before and value after of each field that differs."""
    old, new = _flat(before.spec.to_object()), _flat(after.spec.to_object())
    return [
        (path, old.get(path, ""), new.get(path, ""))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    ]


def _flat(value: Any, path: str = "spec") -> dict[str, str]:
    if isinstance(value, dict) and value:
        return {key: text for name, one in value.items() for key, text in _flat(one, f"{path}.{name}").items()}
    if isinstance(value, list):
        return {key: text for at, one in enumerate(value) for key, text in _flat(one, f"{path}[{at}]").items()}
    return {path: str(value).lower() if isinstance(value, bool) else str(value)}


def _require_known(model: type[BaseModel], value: Any, *, path: str) -> None:
    if not isinstance(value, Mapping):
        raise errors.InvalidInputError(path, value, "must be an object")
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    for key, one in value.items():
        if key not in fields:
            remedy = f"is no field of a PackingPolicy; fields here are {', '.join(sorted(fields))}"
            raise errors.InvalidInputError(f"{path}.{key}", one, remedy)
        inner = _model_of(fields[key].annotation)
        if inner is None:
            continue
        if isinstance(one, list):
            for at, item in enumerate(one):
                _require_known(inner, item, path=f"{path}.{key}[{at}]")
        else:
            _require_known(inner, one, path=f"{path}.{key}")


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """Return the model that a field holds, alone or in a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _model_of(one)) is not None), None)
