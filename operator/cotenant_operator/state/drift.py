"""Who else has written into the pod template of what we made, by its `managedFields`. Pure."""

from typing import Final

from cotenant_operator import labels
from cotenant_operator.state import views

_MAX_NAME: Final = 128


def writer(value: views.Object) -> str | None:
    """Return the field manager that has written into the template's spec, and whose writing stands; None: nobody.

    What `kubectl rollout restart` writes is in the template's metadata, and is meant.
    """
    for entry in value["metadata"].get("managedFields") or ():
        name = entry.get("manager") or "somebody"
        fields = ((entry.get("fieldsV1") or {}).get("f:spec") or {}).get("f:template") or {}
        if name != labels.FIELD_MANAGER and not entry.get("subresource") and fields.get("f:spec"):
            return str(name)[:_MAX_NAME]
    return None
