"""Keeps what was measured: one ConfigMap a namespace, in the release's, read once at the start and written lazily.

A measurement is known here at once, and written within KEEP_SECONDS; a process that is killed finds it again while
the pods and their GPUNode tell of it. Learning holds up no DLJob: what cannot be read or written is only not known.
"""

import asyncio
import logging
import math
from collections import ChainMap
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from cotenant_api import dljob, errors, measurement
from cotenant_api.names import GraphDigest
from cotenant_operator.kube import api
from cotenant_operator.learning import ledger, records
from cotenant_operator.loop import patience
from cotenant_operator.parsing import process, tasks
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
AT_ONCE: Final = 8
"""Namespaces whose measurements are read or written at the same time: one that takes long holds up no other."""

Document = Callable[[Key, dljob.Spec], Awaitable[tasks.Answer | outcomes.Missing]]
"""The graph document of a DLJob, packed, and its digest."""
Observe = Callable[[Key], Observed | None]


@dataclass(frozen=True, kw_only=True)
class DLJobs:
    """What the keeper asks about DLJobs.

    Attributes:
        document: where the graphs are read that the lines name.
        observe: what is known of a DLJob now.
    """

    document: Document
    observe: Observe


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
        release: the namespace of the ConfigMaps, where tenants may write nothing.
        parser: reads what is in them.
        dljobs: tells about them.
        monotonic: seconds that only grow.
    """

    def __init__(
        self,
        client: api.API,
        *,
        release: str,
        parser: process.Parser,
        dljobs: DLJobs,
        monotonic: Callable[[], float],
    ) -> None:
        self._client, self._release, self._parser = client, release, parser
        self._dljobs, self._monotonic = dljobs, monotonic
        self._known: dict[str, tuple[ledger.Brief, ...]] = {}
        self._pending: dict[str, _Pending] = {}
        self._written: dict[str, dict[str, None]] = {}
        self._unread: dict[str, float] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._busy: dict[str, asyncio.Task[None]] = {}

    async def read_all(self) -> None:
        """Take in the ConfigMaps of all namespaces; one that cannot be read now is read later. Raises APIError."""
        async for page in self._client.pages(Kind.CONFIG_MAP, namespace=self._release, selector=ledger.LABEL):
            async with asyncio.TaskGroup() as group:
                for found in page:
                    namespace = ledger.namespace_of(found)
                    if namespace is not None:
                        group.create_task(self._take_in(namespace, found))

    async def _take_in(self, namespace: str, config_map: Mapping[str, Any] | None) -> None:
        async with self._slots:
            try:
                lines = await self._lines(namespace, config_map)
            except errors.TemporaryError as error:
                _LOGGER.warning("measurements of %s are read later: %s", namespace, error)
                self._unread[namespace] = self._monotonic() + max(error.delay_seconds, READ_RETRY_SECONDS)
                return
        self._unread.pop(namespace, None)
        # Of what is written meanwhile the newer lines are known already.
        if namespace not in self._known:
            self._know(namespace, lines)

    async def _lines(self, namespace: str, config_map: Mapping[str, Any] | None) -> ledger.Ledger:
        """Return the measurements in a ConfigMap. Raises TemporaryError."""
        text = ledger.text(config_map)
        if not text:
            return ledger.EMPTY
        task = tasks.Task(kind=tasks.Kind.LINES, source=f"ConfigMap {self._release}/{ledger.name_of(namespace)}")
        # Not among the graphs of the namespace, of which many may wait.
        answer = await self._parser.ask(f"{namespace}/{ledger.KEY}", task, text)
        if answer.fault is not None:
            raise errors.TemporaryError(answer.fault, delay_seconds=READ_RETRY_SECONDS)
        unread = answer.problem or (f"{answer.skipped} lines are skipped" if answer.skipped else None)
        if unread is not None:
            _LOGGER.warning("%s: %s", task.source, unread)
        return ledger.EMPTY.with_lines(answer.lines)

    def learned(self, namespace: str, graph: GraphDigest | None) -> Learned:
        """Return what former jobs of a graph teach, written or not."""
        known, pending = self._known.get(namespace, ()), self._pending.get(namespace)
        waiting = () if pending is None else map(ledger.brief, pending.lines.values())
        return ledger.learned((*known, *waiting), graph)

    def look_at(self, observed: Observed) -> None:
        """Take in what a DLJob's pods were measured to do, once."""
        key = observed.job.meta.key
        pending = self._pending.get(key.namespace)
        waiting = {} if pending is None else pending.lines
        found = _records(observed, known=ChainMap[str, Any](waiting, self._written.get(key.namespace, {})))
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
            self._begin()
            # One that takes long is not waited for: the others are looked at again.
            await self._ended(timeout=0.0)

    async def write_due(self, *, all_of_it: bool = False) -> None:
        """Write the namespaces that have waited long enough; what fails for now is tried again later."""
        was_busy = bool(self._busy)
        self._begin(all_of_it=all_of_it)
        await self._ended(timeout=None)
        if all_of_it and was_busy:
            self._begin(all_of_it=True)
            await self._ended(timeout=None)

    def _begin(self, *, all_of_it: bool = False) -> None:
        """Begin with every namespace of which something is due, but not with one that is being worked on."""
        now = self._monotonic()
        for namespace in [*self._unread, *self._pending]:
            if namespace in self._busy:
                continue
            pending = self._pending.get(namespace)
            if pending is not None and (all_of_it or now >= pending.since + KEEP_SECONDS):
                self._busy[namespace] = asyncio.create_task(self._keep(namespace))
            elif now >= self._unread.get(namespace, math.inf):
                self._busy[namespace] = asyncio.create_task(self._read_again(namespace))

    async def _ended(self, *, timeout: float | None) -> None:  # noqa: ASYNC109 - not to end what is waited for
        """Wait for what was begun, so many seconds at most; a fault of our own is logged."""
        if self._busy:
            await asyncio.wait(self._busy.values(), timeout=timeout)
        for namespace, task in list(self._busy.items()):
            if task.done():
                del self._busy[namespace]
                error = task.exception()
                if error is not None and not isinstance(error, Exception):
                    raise error
                if error is not None:
                    # Of one namespace: the others' are kept.
                    _LOGGER.error("measurements of %s: a fault of the operator: %r", namespace, error, exc_info=error)

    async def _read_again(self, namespace: str) -> None:
        try:
            found = await self._client.config_map(Key(self._release, ledger.name_of(namespace)))
        except (api.APIError, errors.TemporaryError) as error:
            _LOGGER.warning("measurements of %s are read later: %s", namespace, error)
            self._unread[namespace] = self._monotonic() + READ_RETRY_SECONDS
            return
        await self._take_in(namespace, found)

    async def _keep(self, namespace: str) -> None:
        pending = self._pending.pop(namespace)
        try:
            async with self._slots:
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
        key = Key(self._release, ledger.name_of(namespace))
        found = await self._client.config_map(key)
        if found is not None and ledger.namespace_of(found) is None:
            _LOGGER.warning("ConfigMap %s is somebody else's, without the label %s: rename it", key, ledger.LABEL)
            return
        lines = (await self._lines(namespace, found)).with_lines(pending.lines.values())
        documents = ledger.graphs(found)
        new, later = await self._documents(pending, documents, lines)
        documents |= new
        wanted = ledger.manifest(namespace, lines, documents, release=self._release)
        if found is None:
            await self._client.create(Kind.CONFIG_MAP, wanted)
        elif pending.lines or new:
            await self._client.merge(Kind.CONFIG_MAP, key, ledger.patch(found, wanted))
        self._know(namespace, lines)
        self._remember(namespace, pending.lines)
        if later:
            self._pending.setdefault(namespace, _Pending(since=self._monotonic())).specs.update(later)

    def _look_again(self, pending: _Pending) -> None:
        """With what the agents have told since: the last figures of a pod come after its end."""
        for key, uid in pending.keys:
            observed = self._dljobs.observe(key)
            if observed is not None and observed.job.meta.uid == uid:
                found = {line.id: line for line in _records(observed, known=frozenset())}
                pending.lines.update({name: line for name, line in found.items() if name in pending.lines})

    async def _documents(
        self, pending: _Pending, known: Mapping[GraphDigest, str], lines: ledger.Ledger
    ) -> tuple[dict[GraphDigest, str], dict[GraphDigest, tuple[Key, dljob.Spec]]]:
        """Return the graphs that are not kept yet, packed, and those that cannot be read now.

        Changed ones are left out.

        Those of the newest lines first, as many as there is room for.
        """
        wanted = dict.fromkeys(line.graph for line in reversed(lines.lines))
        asked = {graph: pending.specs[graph] for graph in wanted if graph in pending.specs and graph not in known}
        found: dict[GraphDigest, str] = {}
        room = ledger.MAX_GRAPHS_BYTES
        for graph, (key, spec) in list(asked.items()):
            if room <= 0:
                return found, {}
            try:
                document = await self._dljobs.document(key, spec)
            except errors.TemporaryError as error:
                _LOGGER.info("graphs of %s are kept later: %s", key.namespace, error)
                return found, asked
            del asked[graph]
            if isinstance(document, tasks.Answer) and document.graph == graph and document.packed is not None:
                found[graph] = document.packed
                room -= len(document.packed)
        return found, {}

    def _know(self, namespace: str, lines: ledger.Ledger) -> None:
        self._known[namespace] = lines.briefs()
        self._remember(namespace, lines.ids)

    def _remember(self, namespace: str, ids: Iterable[str]) -> None:
        """Also of lines that the bounds left out: their pods may be there for long, and are not written again."""
        written = self._written.setdefault(namespace, {})
        written.update(dict.fromkeys(ids))
        for old in list(written)[: max(len(written) - REMEMBERED, 0)]:
            del written[old]


def _records(observed: Observed, *, known: Container[str]) -> tuple[measurement.Measurement, ...]:
    """Return what was measured of a DLJob; nothing where its objects say what no measurement can."""
    try:
        return records.of(observed, known=known)
    except ValidationError as error:
        _LOGGER.warning("%s: what was measured is skipped: %s", observed.job.meta.key, errors.shortened(str(error)))
        return ()
