"""What came of predicting a DLJob: a prediction, or why there is none."""

from dataclasses import dataclass
from typing import TypeAlias

from cotenant_api import prediction
from cotenant_api.names import GraphDigest


@dataclass(frozen=True, kw_only=True, slots=True)
class Predicted:
    """A prediction for the GPU models that the job may use; at least one."""

    prediction: prediction.Prediction


@dataclass(frozen=True, kw_only=True, slots=True)
class Missing:
    """There is no prediction.

    Attributes:
        reason: of the condition Predicted.
        message: what is wrong and what to do.
        may_come: whether waiting may help, without a change of the DLJob.
        graph: of a job whose graph is known and cannot be predicted.
        refused: digest of a question about the graph that has this answer for ever.
    """

    reason: str
    message: str
    may_come: bool = False
    graph: GraphDigest | None = None
    refused: str | None = None


Outcome: TypeAlias = Predicted | Missing


def graph_of(outcome: Outcome | None) -> GraphDigest | None:
    """Return the job's graph; None where it is not known. The prediction of a job that was only measured names none."""
    if isinstance(outcome, Predicted):
        measured = outcome.prediction.source is prediction.Source.PROFILE
        return None if measured else outcome.prediction.graph
    return None if outcome is None else outcome.graph
