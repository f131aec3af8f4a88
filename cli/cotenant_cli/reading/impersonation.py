"""The user whom a kubeconfig says to act as, as request headers: the Kubernetes library ignores those fields. Pure.

https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/
"""

import urllib.parse
from collections.abc import Mapping
from typing import Any, Final

from cotenant_api import errors

Headers = tuple[tuple[str, str], ...]

_USER: Final = "as"
_UID: Final = "as-uid"
_GROUPS: Final = "as-groups"
_EXTRA: Final = "as-user-extra"
_IN_A_HEADERS_NAME: Final = "!#$&'*+-.^_`|~"
"""Beside letters and digits; client-go escapes all other characters, and the API server unescapes them."""


def headers(user: Mapping[str, Any], *, source: str) -> Headers:
    """Return the headers that kubectl would send, in order; none where nobody is impersonated.

    Args:
        user: of the kubeconfig.
        source: where the user is written.

    Raises:
        InvalidInputError: what is written cannot be sent.
    """

    def text(field: str, value: Any) -> str:
        # The HTTP library sends the bytes of Latin-1, and UTF-8 is meant.
        if isinstance(value, str) and value.isprintable():
            return value.encode().decode("latin-1")
        raise errors.InvalidInputError(f"{source}: {field}", value, "must be a string of printable characters")

    def texts(field: str, values: Any) -> list[str]:
        if isinstance(values, list):
            return [text(field, value) for value in values]
        raise errors.InvalidInputError(f"{source}: {field}", values, "must be a list of strings")

    named, uid = text(_USER, user.get(_USER) or ""), text(_UID, user.get(_UID) or "")
    more = [("Impersonate-Uid", uid)] if uid else []
    more += [("Impersonate-Group", group) for group in texts(_GROUPS, user.get(_GROUPS) or [])]
    extra = user.get(_EXTRA) or {}
    if not isinstance(extra, dict):
        raise errors.InvalidInputError(f"{source}: {_EXTRA}", extra, "must have a list of strings for each key")
    for key, values in extra.items():
        name = urllib.parse.quote(str(key), safe=_IN_A_HEADERS_NAME)
        more += [(f"Impersonate-Extra-{name}", value) for value in texts(f"{_EXTRA}: {key}", values)]
    if more and not named:
        raise errors.InvalidInputError(f"{source}: {_USER}", "", f"must name a user beside {_UID}, {_GROUPS}, {_EXTRA}")
    return (("Impersonate-User", named), *more) if named else ()
