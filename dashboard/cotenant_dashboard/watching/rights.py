"""The rights that an account needs to see the page. Light: the help of the command names them, too."""

from typing import Final, NamedTuple

from cotenant_api import names


class Right(NamedTuple):
    """A verb on all objects of a resource, in the whole cluster."""

    verb: str
    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.verb} {'.'.join(part for part in (self.resource, self.group) if part)}"


RIGHTS: Final = (
    Right("get", names.GROUP, "gpunodes"),
    Right("get", names.GROUP, "packingpolicies"),
    Right("list", "", "pods"),
    Right("list", names.GROUP, "dljobs"),
)
"""What the page shows."""
WORDS: Final = f"{', '.join(map(str, RIGHTS[:-1]))} and {RIGHTS[-1]}, in all namespaces"
"""The same for people."""
