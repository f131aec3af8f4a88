"""What kubelet's device-plugin calls need of the agent, as an interface. No implementation lives here, and no I/O."""

from collections.abc import AsyncIterator, Mapping
from typing import NewType, Protocol

Token = NewType("Token", str)
"""The ID of one hundredth of some GPU of the node, as kubelet hands it out. It names no GPU and no pod."""
Tokens = frozenset[Token]
CDIName = NewType("CDIName", str)
"""`vendor/class=name`, which the container runtime resolves when it creates a container."""


class Shares(Protocol):
    """The tokens of the node, and what becomes of them.

    Every method may be called at any time, by several at once, and cancelled at any await: by a kubelet that restarts
    or gives up, and by our own bounds.

    Both calls raise `errors.TemporaryError` or `errors.PermanentError`; the message goes to kubelet and from there into
    the pod's events.
    """

    def offers(self) -> AsyncIterator[Mapping[Token, bool]]:
        """All tokens, and whether each may be handed out: what stands now, then after each change."""

    async def allocate(self, tokens: Tokens) -> CDIName:
        """Kubelet gives these tokens to some container. An error here fails its pod for good."""

    async def pre_start(self, tokens: Tokens) -> None:
        """Prepare the start of the container that holds these tokens. kubelet tries again after any error."""
