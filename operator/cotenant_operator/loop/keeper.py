"""Keeps what was measured: one ConfigMap a namespace, read once at the start and written lazily.

A measurement is known here at once, and written within KEEP_SECONDS; a process that is killed finds it again while
the pods and their GPUNode tell of it. Learning holds up no DLJob: what cannot be read or written is only not known.
"""

import asyncio
import logging
from collections import ChainMap
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cotenant_api import dljob, errors, measurement
from cotenant_api.names import GraphDigest
from cotenant_operator.graphs import sources
from cotenant_operator.kube import api
from cotenant_operator.learning import ledger, records
from cotenant_operator.loop import patience
from cotenant_operator.state import outcomes
from cotenant_operator.state.kinds import Kind
from cotenant_operator.state.measured import Learned
from cotenant_operator.state.observed import Observed
from cotenant_operator.state.views import Key

_LOGGER = logging.getLogger(__name__)

KEEP_SECONDS: Final = 30.0
"""Least time between two writes of a namespace's measurements, and the longest that one waits."""
LOOK_SECONDS: Final = 5.0
READ_RETRY_SECONDS: Final = 10.0
REMEMBERED: Final = 8192
"""Pods of a namespace that have had their line."""

Document = Callable[[Key, dljob.Spec], Awaitable[bytes | outcomes.Missing]]
"""The graph document of a DLJob."""
Observe = Callable[[Key], Observed | None]


@dataclass
class _Pending:
    """What of a namespace has still to be written.

    Attributes:
        since: the time of the first, in seconds.
        lines: by their ids.
        keys: the DLJobs that it is about: their agents may tell more of it until it is written.
        specs: a DLJob of each graph, by which the graph's document can be had.
    """

    since: float
    lines: dict[str, measurement.Measurement] = field(default_factory=dict)
    keys: set[tuple[Key, str]] = field(default_factory=set)
    specs: dict[GraphDigest, tuple[Key, dljob.Spec]] = field(default_factory=dict)


class Keeper:
    """What was measured in each namespace.

    Args:
        client: reads and writes the ConfigMaps; nobody else writes them.
        document: where the graphs are read that the lines name.
        observe: what is known of a DLJob now.
        monotonic: seconds that only grow.
    """

    def __init__(
        self, client: api.API, *, document: Document, observe: Observe, monotonic: Callable[[], float]
    ) -> None:
        self._client, self._document, self._observe, self._monotonic = client, document, observe, monotonic
        self._ledgers: dict[str, ledger.Ledger] = {}
        self._pending: dict[str, _Pending] = {}
        self._written: dict[str, dict[str, None]] = {}

    async def read_all(self) -> None:
        """Take in the ConfigMaps of all namespaces. Raises TemporaryError, APIError."""
        async for page in self._client.pages(Kind.CONFIG_MAP, name=ledger.NAME):
            for found in page:
                if ledger.is_ours(found):
                    self._know(found["metadata"]["namespace"], ledger.read(found))

    def learned(self, namespace: str, graph: GraphDigest | None) -> Learned:
        """What former jobs of a graph teach, written or not."""
        known, pending = self._ledgers.get(namespace, ledger.EMPTY), self._pending.get(namespace)
        lines = (*known.lines, *pending.lines.values()) if pending is not None else known.lines
        return ledger.Ledger(lines=lines).learned(graph)

    def look_at(self, observed: Observed) -> None:
        """Take in what a DLJob's pods were measured to do, once."""
        key = observed.job.meta.key
        pending = self._pending.get(key.namespace)
        waiting = {} if pending is None else pending.lines
        found = records.of(observed, known=ChainMap[str, Any](waiting, self._written.get(key.namespace, {})))
        if not found:
            return
        pending = self._pending.setdefault(key.namespace, _Pending(since=self._monotonic()))
        pending.lines.update({line.id: line for line in found})
        pending.keys.add((key, observed.job.meta.uid))
        if observed.job.spec is not None:
            pending.specs.update({line.graph: (key, observed.job.spec) for line in found})

    async def run(self, *, pause: patience.Pause = asyncio.sleep) -> None:
        """Read what is there, then write what is due, for ever."""
        what = "reading measurements"
        await patience.persist(self.read_all, what=what, retry_seconds=READ_RETRY_SECONDS, pause=pause)
        while True:
            await pause(LOOK_SECONDS)
            await self.write_due()

    async def write_due(self, *, all_of_it: bool = False) -> None:
        """Write the namespaces that have waited long enough; what fails for now is tried again later."""
        now = self._monotonic()
        for namespace, pending in list(self._pending.items()):
            if not all_of_it and now < pending.since + KEEP_SECONDS:
                continue
            del self._pending[namespace]
            try:
                await self._write(namespace, pending)
            except (api.ConflictError, errors.TemporaryError) as error:
                _LOGGER.info("measurements of %s are written later: %s", namespace, error)
                self._keep_for_later(namespace, pending)
            except api.APIError as error:
                # A namespace that is going, or an admission policy against it: nothing here helps.
                _LOGGER.warning("measurements of %s are not kept: %s", namespace, error)

    def _keep_for_later(self, namespace: str, pending: _Pending) -> None:
        newer = self._pending.get(namespace)
        pending.since = self._monotonic()
        if newer is not None:
            pending.lines.update(newer.lines)
            pending.keys |= newer.keys
            pending.specs.update(newer.specs)
        self._pending[namespace] = pending

    async def _write(self, namespace: str, pending: _Pending) -> None:
        self._look_again(pending)
        found = await self._client.config_map(Key(namespace, ledger.NAME))
        if found is not None and not ledger.is_ours(found):
            _LOGGER.warning("ConfigMap %s/%s is somebody else's: nothing is kept there", namespace, ledger.NAME)
            return
        lines = ledger.read(found).with_lines(pending.lines.values())
        documents = ledger.graphs(found)
        documents |= await self._documents(pending, documents)
        wanted = ledger.manifest(namespace, lines, documents)
        if found is None:
            await self._client.create(Kind.CONFIG_MAP, wanted)
        else:
            await self._client.merge(Kind.CONFIG_MAP, Key(namespace, ledger.NAME), ledger.patch(found, wanted))
        self._know(namespace, lines)
        self._remember(namespace, pending.lines)

    def _look_again(self, pending: _Pending) -> None:
        """With what the agents have told since: the last figures of a pod come after its end."""
        for key, uid in pending.keys:
            observed = self._observe(key)
            if observed is not None and observed.job.meta.uid == uid:
                found = {line.id: line for line in records.of(observed, known=frozenset())}
                pending.lines.update({name: line for name, line in found.items() if name in pending.lines})

    async def _documents(self, pending: _Pending, known: Mapping[GraphDigest, str]) -> dict[GraphDigest, str]:
        """The graphs that are not kept yet, packed; one that has changed since is left out."""
        found = {}
        for graph, (key, spec) in pending.specs.items():
            data = b"" if graph in known else await self._document(key, spec)
            document = None if isinstance(data, outcomes.Missing) or not data else sources.parse(data, source=str(key))
            if document is not None and not isinstance(document, outcomes.Missing) and document.digest == graph:
                found[graph] = ledger.packed(document)
        return found

    def _know(self, namespace: str, lines: ledger.Ledger) -> None:
        self._ledgers[namespace] = lines
        self._remember(namespace, lines.ids)

    def _remember(self, namespace: str, ids: Iterable[str]) -> None:
        """Also of lines that the bounds left out: their pods may be there for long, and are not written again."""
        written = self._written.setdefault(namespace, {})
        written.update(dict.fromkeys(ids))
        for old in list(written)[: max(len(written) - REMEMBERED, 0)]:
            del written[old]
