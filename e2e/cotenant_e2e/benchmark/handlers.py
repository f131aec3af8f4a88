"""What the extender computes, without its process and without HTTP: watch events, and the handler of filter.

At the size of a large cluster; its GPUs are simulated.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson

from cotenant_api.names import NodeName
from cotenant_e2e.benchmark import times, world
from cotenant_extender import feed, garbage, reading, records, steps, verbs, wire
from cotenant_extender.ledger import ledger, lists
from cotenant_extender.packing import placing

REQUESTS: Final = 300
EVENTS: Final = 20_000
FIRST: Final = 10**6
"""Number of the first pod that waits."""

Pages = dict[str, list[bytes]]


class Whole:
    """A ledger that was fed the pages of every list."""

    def __init__(self, pages: Pages, size: world.Size) -> None:
        self.ledger, self._size, now = ledger.Ledger(), size, time.time()
        self.pods = feed.Pods(self.ledger, lambda: now, lambda: None)
        steps.finish(feed.Policies(self.ledger, lambda: None).take(_items(pages, "packingpolicies"), 1))
        steps.finish(feed.Nodes(self.ledger, lambda: None).take(map(reading.node, _items(pages, "/nodes")), 1))
        gpunodes = feed.GPUNodes(self.ledger, lambda: now, lambda: None)
        steps.finish(gpunodes.take(map(reading.gpunode, _items(pages, "gpunodes")), 1))
        leases = {NodeName(item["metadata"]["name"]): now for item in _items(pages, "/nodes")}
        steps.finish(lists.leases(self.ledger, leases, now=now))
        steps.finish(self.pods.take(map(reading.pod, _items(pages, "/pods")), 1))
        self.nodes = [NodeName(item["metadata"]["name"]) for item in _items(pages, "/nodes")]
        # As the process does (see `serve`).
        garbage.look_in_short_turns()

    def events_per_second(self) -> float:
        """Watch events of placed pods, from the line to the ledger; the best of three."""
        best = 0.0
        for turn in range(3):
            count = min(EVENTS, self._size.pods)
            lines = [
                orjson.dumps({"type": "MODIFIED", "object": world.placed_pod(number, self.nodes, version=turn + 2)})
                for number in range(count)
            ]
            began = time.perf_counter()
            for line in lines:
                self.pods.changed(orjson.loads(line)["object"])
            best = max(best, count / (time.perf_counter() - began))
        return best

    def filters(self) -> Iterator[times.Times]:
        """From the body of a request to that of its answer, for pods that have an earmark, fit, or fit nowhere."""
        for what in times.Asked:
            for count in sorted({min(500, len(self.nodes)), len(self.nodes)}):
                bodies = list(self._bodies(what, self.nodes[-count:]))
                yield times.of(what, count, [self._milliseconds(body) for body in bodies])

    def _bodies(self, what: times.Asked, names: Sequence[str]) -> Iterator[bytes]:
        for number in range(FIRST, FIRST + REQUESTS):
            raw = world.waiting_pod(number, share=what.share)
            if what is times.Asked.EARMARKED:
                raw["metadata"]["uid"] += f"-{len(names)}"
                self._earmark(raw, names)
            yield orjson.dumps({"Pod": raw, "NodeNames": list(names)})

    def _earmark(self, raw: dict[str, Any], names: Sequence[str]) -> None:
        record = records.pod_record(raw)
        self.ledger.pod(record, now=0.0)
        seen = self.ledger.seen().part([NodeName(name) for name in names])
        if record.request is None:
            raise ValueError("the pod of the benchmark asks for nothing")
        found = placing.choose(seen, record.request, self.ledger.known)
        if found is None:
            raise ValueError("the pod of the benchmark fits nowhere")
        placed = placing.document(found, record.request, seen.policy, self.ledger.known)
        self.ledger.earmark(record.uid, placed, now=time.time())

    def _milliseconds(self, body: bytes) -> float:
        began = time.perf_counter()
        self._answer(body)
        return 1e3 * (time.perf_counter() - began)

    def _answer(self, body: bytes) -> bytes:
        args = wire.decode_args(body, known=self.ledger.pods.get)
        found = verbs.filter_nodes(self.ledger, args.pod, args.names)
        return wire.filter_result(args, found.chosen, found.failed)


def _items(pages: Pages, ending: str) -> list[dict[str, Any]]:
    path = next(path for path in pages if path.endswith(ending))
    return [item for page in pages[path] for item in orjson.loads(page)["items"]]
