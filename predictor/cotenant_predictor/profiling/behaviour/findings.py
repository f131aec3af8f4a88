"""What an experiment has found: a value or a reason for each question, and records of what was said, word for word."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from cotenant_predictor.profiling.mps import MpsUnavailableError
from cotenant_predictor.profiling.seats import TenantError

_MAX_REASON = 400


class UnansweredError(Exception):
    """A question cannot be answered here; the message says why."""


class Findings:
    """Values and reasons by the key of a question."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.reasons: dict[str, str] = {}
        self.records: list[dict[str, Any]] = []
        self.without_mps: str | None = None
        """Why a daemon did not start or answer."""

    @contextlib.contextmanager
    def asking(self, *keys: str) -> Iterator[None]:
        """Yield a part of an experiment; if it breaks off, its questions have a reason, and the next part is done."""
        try:
            yield
        except MpsUnavailableError as error:
            self.without_mps = str(error)
            self._give_reason(keys, str(error))
        except (UnansweredError, TenantError) as error:
            self._give_reason(keys, str(error))
        except Exception as error:  # noqa: BLE001  # a GPU is scarce: what broke is told, and the rest is done
            self._give_reason(keys, f"the experiment broke off: {type(error).__name__}: {error}")

    def _give_reason(self, keys: Sequence[str], reason: str) -> None:
        missing = [key for key in keys if key not in self.values]
        self.reasons.update(dict.fromkeys(missing, reason[:_MAX_REASON]))

    def record(self, what: str, content: Any) -> None:
        """Keep what was said."""
        self.records.append({"what": what, "content": content})

    def to_object(self, keys: Sequence[str]) -> dict[str, Any]:
        """As JSON; every question is answered or has a reason."""
        reasons = {key: self.reasons.get(key, "not reached") for key in keys if key not in self.values}
        return {
            "answers": {key: self.values[key] for key in keys if key in self.values},
            "reasons": reasons,
            "records": self.records,
        }
