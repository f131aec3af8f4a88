"""The reader of graphs, in the process of the test: the same work, without the process around it."""

from collections.abc import Mapping

from cotenant_api.names import GPUModel
from cotenant_operator.parsing import tasks, work
from cotenant_predictor import devices
from cotenant_predictor.devices import Device
from cotenant_predictor.jobs import prediction as jobs


class Inline:
    """Answers at once.

    Attributes:
        asked, namespaces: what was asked so far, and for whom.
    """

    def __init__(self, known: Mapping[GPUModel, Device] | None = None) -> None:
        found = devices.load() if known is None else known
        self.ready = tasks.Ready(version="test", model=jobs.FORMULA.name, devices=tuple(sorted(found)))
        self.asked: list[tasks.Task] = []
        self.namespaces: list[str] = []
        self._reader = work.Reader(devices=found, knowledge=jobs.FORMULA)

    def check(self, namespace: str) -> None:
        """Whoever comes is answered."""

    async def ask(self, namespace: str, task: tasks.Task, data: bytes) -> tasks.Answer:
        """As the process answers: over text."""
        self.asked.append(task)
        self.namespaces.append(namespace)
        return tasks.Answer.model_validate_json(self._reader.answer(task, data).text())

    def count(self, kind: tasks.Kind) -> int:
        """How often so much was asked."""
        return sum(task.kind is kind for task in self.asked)
