"""Who may look, as the API server says: a bearer token by TokenReview, the right by SubjectAccessReview. Fails closed.

The only requests of the dashboard that are no GET; they change nothing.
"""

import enum
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import urllib3.exceptions

from cotenant_api import errors
from cotenant_dashboard.watching import rates, rights
from cotenant_dashboard.watching.rates import Rate
from kubernetes import client

KNOWN_SECONDS: Final = 60.0
"""A right that is taken away ends so much later."""
KNOWN_LIMIT: Final = 1024
"""Of tokens that are allowed, and as many of others: a flood of the latter pushes out none of the former."""
SOURCE_RATE: Final = Rate(burst=10, per_second=0.5)
"""Of reviews of tokens that were not allowed before, by source."""
WHOLE_RATE: Final = Rate(burst=60, per_second=5)
"""Likewise, of all sources."""
SOURCES: Final = 4096
MAX_TOKEN_BYTES: Final = 16 * 1024
TIMEOUT_SECONDS: Final = 10.0


class Verdict(enum.Enum):
    """Whether somebody may look."""

    ALLOWED = enum.auto()
    UNKNOWN = enum.auto()
    """The token is none of this cluster, or no more."""
    FORBIDDEN = enum.auto()
    """The account may not read what the page shows."""
    LIMITED = enum.auto()
    """Nobody was asked: too many tokens that are none came from there, or from everywhere."""


class _Verdicts(OrderedDict[bytes, tuple[float, Verdict]]):
    """When a token was judged, and how, by the token's digest."""

    def keep(self, digest: bytes, judged: tuple[float, Verdict]) -> None:
        """Remember one; the oldest of too many is forgotten."""
        self[digest] = judged
        while len(self) > KNOWN_LIMIT:
            self.popitem(last=False)


class Reviews:
    """Asks, and remembers for a while.

    Args:
        clock: that never goes back, in seconds.
    """

    def __init__(self, api: client.ApiClient, *, clock: Callable[[], float]) -> None:
        self._tokens, self._rights = client.AuthenticationV1Api(api), client.AuthorizationV1Api(api)
        self._clock, self._lock = clock, threading.Lock()
        self._allowed, self._others = _Verdicts(), _Verdicts()
        self._by_source = rates.Buckets(SOURCE_RATE, sources=SOURCES)
        self._whole = rates.Buckets(WHOLE_RATE, sources=1)

    def verdict(self, token: str, source: str) -> Verdict:
        """Of a bearer token that came from an address.

        Raises:
            TemporaryError: the API server does not say.
        """
        if not token or len(token) > MAX_TOKEN_BYTES or not token.isascii():
            return Verdict.UNKNOWN
        digest = hashlib.sha256(token.encode()).digest()
        now = self._clock()
        with self._lock:
            when, verdict = self._allowed.get(digest) or self._others.get(digest) or (float("-inf"), Verdict.UNKNOWN)
            if now - when < KNOWN_SECONDS:
                return verdict
            # Whoever was allowed before is not kept out by others who try tokens.
            if verdict is not Verdict.ALLOWED and not self._may_ask(source, now):
                return Verdict.LIMITED
        try:
            verdict = self._asked(token)
        except (client.ApiException, urllib3.exceptions.HTTPError, OSError) as error:
            raise errors.TemporaryError(f"no answer about a token: {error}", delay_seconds=1) from error
        with self._lock:
            self._allowed.pop(digest, None)
            self._others.pop(digest, None)
            (self._allowed if verdict is Verdict.ALLOWED else self._others).keep(digest, (self._clock(), verdict))
        return verdict

    def _may_ask(self, source: str, now: float) -> bool:
        return self._by_source.take(source, now) and self._whole.take(None, now)

    def _asked(self, token: str) -> Verdict:
        review = client.V1TokenReview(spec=client.V1TokenReviewSpec(token=token))
        status = self._tokens.create_token_review(review, _request_timeout=TIMEOUT_SECONDS).status
        if status is None or not status.authenticated or status.user is None:
            return Verdict.UNKNOWN
        return Verdict.ALLOWED if all(self._may(status.user, right) for right in rights.RIGHTS) else Verdict.FORBIDDEN

    def _may(self, user: Any, right: rights.Right) -> bool:
        spec = client.V1SubjectAccessReviewSpec(
            user=user.username,
            uid=user.uid,
            groups=user.groups,
            extra=user.extra,
            resource_attributes=client.V1ResourceAttributes(**right._asdict()),
        )
        review = client.V1SubjectAccessReview(spec=spec)
        status = self._rights.create_subject_access_review(review, _request_timeout=TIMEOUT_SECONDS).status
        return bool(status is not None and status.allowed and not status.denied)
