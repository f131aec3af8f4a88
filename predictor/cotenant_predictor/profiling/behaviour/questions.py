"""What is asked of MPS, and what its documentation says. Pure data; the order is that of the report."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

_DOCS = "https://docs.nvidia.com/deploy/mps/latest"
WHEN = f"{_DOCS}/when-to-use-mps.html"
INTERFACE = f"{_DOCS}/mpsv2-interface.html"
TROUBLE = f"{_DOCS}/troubleshooting.html"
MANUAL = "nvidia-cuda-mps-control(1)"
NVML = "https://docs.nvidia.com/deploy/nvml-api"
NOT_SAID = "not said"


class Merge(enum.StrEnum):
    """How the answers of several runs of one experiment become one."""

    SAME = "Same"
    """All that differ, side by side."""
    SUM = "Sum"
    LARGEST = "Largest"
    UNION = "Union"


@dataclasses.dataclass(frozen=True)
class Question:
    """One thing that is asked.

    Attributes:
        key: in result files.
        asks: as a person would.
        documented: what NVIDIA says, in our words.
        source: where.
        expected: the answer that follows from it; None: none follows.
        timed: a time, which says something only of real hardware.
    """

    key: str
    asks: str
    documented: str = NOT_SAID
    source: str = ""
    expected: Any = None
    merge: Merge = Merge.SAME
    timed: bool = False


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Questions that are answered by one run, or by several of the same kind; `seconds`: what a run takes at most."""

    name: str
    stage: str
    title: str
    questions: tuple[Question, ...]
    seconds: float = 60.0
    repeats: int = 1


_LOWER = "a client's environment can only lower what the server allows"
_KILLED = (
    Question("kills", "how often", merge=Merge.SUM),
    Question("states", "states of the server at once after", merge=Merge.UNION),
    Question("serversReplaced", "how often another server came", merge=Merge.SUM),
    Question("neighbourErrors", "neighbours that saw an error", merge=Merge.SUM),
    Question("neighbourErrorNames", "which", merge=Merge.UNION),
    Question(
        "usualStepMilliseconds",
        "the longest of a round's usual steps of a neighbour, ms",
        merge=Merge.LARGEST,
        timed=True,
    ),
    Question("longestStepMilliseconds", "its longest step around an end, ms", merge=Merge.LARGEST, timed=True),
    Question(
        "secondsUntilNewClient",
        "until a new client works, a wait and the start of its process included, s",
        merge=Merge.LARGEST,
        timed=True,
    ),
    Question("clientListed", "ends whose client was still listed after", merge=Merge.SUM),
)

EXPERIMENTS = (
    Experiment(
        "nvml",
        "management",
        "NVML while two clients work",
        (
            Question(
                "computeLists",
                "compute processes: clients, server",
                "the server",
                WHEN,
                "0 of 2 clients, server yes, others 0",
            ),
            Question("mpsLists", "MPS compute processes: clients, server", "MPS clients", NVML),
            Question("utilizationOf", "whose utilization is told", "the server's", WHEN),
            Question("utilization", "the GPU's utilization, %"),
            Question("pidsAreOurs", "are these PIDs those of our PID namespace", "the host's", NVML),
            Question("events", "event types that are supported"),
            Question("recoveryAction", "recovery action"),
            Question("remappedRows", "remapped rows: correctable, uncorrectable, pending, failed"),
            Question("cores", "CUDA cores (source of the number of SMs)"),
            Question("attributes", "SMs by nvmlDeviceGetAttributes", "MIG devices alone", NVML),
        ),
    ),
    Experiment(
        "agent-nvml",
        "management",
        "The node agent's own code against NVML",
        (
            Question("devices", "enumerates"),
            Question("smCount", "number of SMs"),
            Question("usage", "usage while two clients work"),
            Question("clientsFound", "does it see all clients", "MPS clients are listed", NVML, True),
            Question("readings", "readings"),
            Question("untold", "what this driver does not tell"),
            Question("xids", "XIDs received of a tenant's fault"),
        ),
    ),
    Experiment(
        "agent-mps",
        "management",
        "The node agent's own code against the control daemon",
        (
            Question("understood", "reads every answer", expected=True, documented="", source=""),
            Question("described", "what it reads"),
            Question(
                "clientSees",
                "what a client sees that it ends",
                "CUDA_ERROR_MPS_CLIENT_TERMINATED",
                INTERFACE,
                "CUDA_ERROR_MPS_CLIENT_TERMINATED (810)",
            ),
            Question("observed", "observes as the agent does"),
            Question("faultSeen", "fatal lines of the log that it recognises"),
            Question("unknownCommand", "answer to a command that is not known"),
            Question("unknownServer", "answer about a server that is not there"),
        ),
    ),
    Experiment(
        "agent-tenant",
        "management",
        "A tenant under the node agent's own daemon: another user, in namespaces of its own, at 30 % and 2048 MiB",
        (
            Question("secondsUntilActive", "from the start of the daemon until the agent sees a server, s", timed=True),
            Question("canary", "why the agent's canary does not pass"),
            Question("runs", "does the tenant run under MPS", expected=True),
            Question("smCount", "its SMs, and those of a tenant without limits"),
            Question("speed", "its speed against a tenant without limits"),
            Question("error", "error beyond its memory", "out of memory", INTERFACE, "CUDA_ERROR_OUT_OF_MEMORY (2)"),
            Question("usableMiB", "what it could allocate, MiB"),
            Question("shownMiB", "`mem_get_info` at first: free, total, MiB"),
            Question("observed", "what the agent sees then"),
            Question("clientListed", "does the agent see its PID as the host counts", expected=True),
            Question("observedFault", "what the agent sees of another's fault on the device"),
            Question("faultLines", "lines of a fault that the agent recognises"),
            Question(
                "secondsUntilWell", "from when the last client was reaped until the agent sees ACTIVE, s", timed=True
            ),
            Question("observedKill", "what the agent sees of another that was killed"),
        ),
        seconds=90.0,
    ),
    Experiment(
        "shared-memory",
        "surroundings",
        "A client with a /dev/shm of its own",
        (
            Question(
                "ownSharedMemory", "own mount of /dev/shm: works under MPS", "NVIDIA's plugin mounts a common one"
            ),
            Question("ownIPC", "and an own IPC namespace: works under MPS"),
            Question("ownPID", "and an own PID namespace: works under MPS"),
            Question("listedPID", "the PID that the daemon lists of it"),
        ),
    ),
    Experiment(
        "users",
        "surroundings",
        "Clients of several users",
        (
            Question("otherWaits", "without -multiuser-server: the second user waits", "it is queued", MANUAL, True),
            Question("otherRunsAfter", "and gets its turn when the first has ended", "it does", MANUAL, True),
            Question("bothRun", "with -multiuser-server: both run at once", "they do", INTERFACE, True),
        ),
        seconds=90.0,
    ),
    Experiment(
        "no-daemon",
        "surroundings",
        "A client that finds no daemon",
        (
            Question("runs", "does it run", "on, without MPS", MANUAL, True),
            Question("threadsIgnored", "is its limit of threads ignored", "limits are MPS's", INTERFACE, True),
            Question("memoryIgnored", "is its limit of memory ignored", "limits are MPS's", INTERFACE, True),
            Question("besideServer", "does it run beside an MPS server in compute mode Default", NOT_SAID),
        ),
    ),
    Experiment(
        "threads",
        "limits",
        "Thread percentage of a kernel that fills the GPU",
        (
            Question("smCounts", "SMs that a client has", "rounded down to what the hardware can part", INTERFACE),
            Question("multiprocessors", "multiprocessors that it is told of"),
            Question("speeds", "speed against 100 %", "a cap, no reservation", INTERFACE),
            Question("moreIsNeverSlower", "is more never slower (5 %)", "a cap on threads", INTERFACE, expected=True),
        ),
        seconds=120.0,
    ),
    Experiment(
        "memory-limit",
        "limits",
        "A memory limit of 2048 MiB is hit",
        (
            Question(
                "error", "error of the driver", "out of memory", INTERFACE, expected="CUDA_ERROR_OUT_OF_MEMORY (2)"
            ),
            Question("errorText", "its words"),
            Question("torchText", "torch's words"),
            Question("usableMiB", "what could be allocated, MiB", "allocations of CUDA itself count", INTERFACE),
            Question("contextCounts", "does the context count", "allocations of CUDA itself count", INTERFACE, True),
            Question("secondContextMiB", "what a second context takes of the limit, MiB"),
            Question("shownTotalMiB", "`mem_get_info`: total, MiB"),
            Question("shownFreeMiB", "`mem_get_info`: free at first, MiB"),
            Question("nvmlProcessMiB", "NVML: memory of the process at the limit, MiB"),
            Question("nvmlTotalMiB", "NVML: the GPU's total, MiB"),
            Question("nvidiaSmi", "`nvidia-smi` at the limit"),
            Question("neighbourUnaffected", "does a neighbour work on", "an error of the allocation", INTERFACE, True),
        ),
    ),
    Experiment(
        "context",
        "limits",
        "What a context takes of a limit of 2048 MiB",
        (
            Question(
                "limitMiB", "of the limit, MiB, by thread percentage", "allocations of CUDA itself count", INTERFACE
            ),
            Question("nvmlMiB", "as NVML tells the process's memory, MiB"),
        ),
    ),
    Experiment(
        "two-processes",
        "limits",
        "Two processes of one tenant with one limit",
        (
            Question("eachGetsAll", "does each get the whole limit", "a limit is a client process's", INTERFACE, True),
            Question("sumMiB", "both together at a limit of 2048 MiB"),
        ),
    ),
    Experiment(
        "environment",
        "limits",
        "A tenant that unsets or raises its limits (server: 50 %, 4096 MiB)",
        (
            Question("unsetThreads", "threads unset: the server's", _LOWER, INTERFACE, True),
            Question("raisedThreads", "threads raised to 90 %: the server's", _LOWER, INTERFACE, True),
            Question("loweredThreads", "threads lowered to 20 %: 20 %", _LOWER, INTERFACE, True),
            Question("unsetMemory", "memory unset: the server's", _LOWER, INTERFACE, True),
            Question("raisedMemory", "memory raised to 8192 MiB: the server's", _LOWER, INTERFACE, True),
            Question("openServer", "unset where the server has no limit: everything", _LOWER, INTERFACE, True),
            Question("shares", "SMs against all, by what was asked"),
            Question("usableMiB", "MiB by what was asked"),
            Question(
                "liveServerRaised", "may set_active_thread_percentage exceed the default", "it may", INTERFACE, True
            ),
        ),
        seconds=90.0,
    ),
    Experiment(
        "priority",
        "limits",
        "Client priority 0 beside 1",
        (
            Question("alonePerSecond", "steps a second alone"),
            Question("equalPerSecond", "0 beside 0"),
            Question("mixedPerSecond", "0 beside 1"),
            Question("preferred", "is 0 faster than 1", "1: below normal, a hint to the scheduler", INTERFACE, True),
            Question("streamPriorities", "stream priorities that each is given"),
        ),
    ),
    Experiment(
        "fault",
        "endings",
        "A tenant writes to an illegal address",
        (
            Question(
                "culpritError", "what it sees", "the error of its kernel", WHEN, "CUDA_ERROR_ILLEGAL_ADDRESS (700)"
            ),
            Question("neighboursAllFail", "do all neighbours fail", "all clients of the GPU do", WHEN, True),
            Question("neighbourErrorNames", "with which error", merge=Merge.UNION),
            Question("neighbourSeconds", "after how many seconds", merge=Merge.LARGEST, timed=True),
            Question("state", "state of the server while they live", "FAULT", TROUBLE, "FAULT"),
            Question(
                "newClientError",
                "what a new client gets then",
                "CUDA_ERROR_MPS_SERVER_NOT_READY",
                TROUBLE,
                "CUDA_ERROR_MPS_SERVER_NOT_READY (807)",
            ),
            Question(
                "secondsUntilActive", "from the end of the last one until ACTIVE, s", merge=Merge.LARGEST, timed=True
            ),
            Question("newClientWorks", "does a new client work then", "yes", TROUBLE, True),
            Question("serverStays", "is it the same server"),
            Question("logLines", "what the log says of it", merge=Merge.UNION),
        ),
    ),
    Experiment(
        "kill",
        "endings",
        "A busy tenant is ended by SIGKILL",
        (
            dataclasses.replace(_KILLED[0], documented="what co-tenants see is undefined", source=WHEN),
            *_KILLED[1:],
        ),
        seconds=90.0,
        repeats=5,
    ),
    Experiment(
        "kill-terminated",
        "endings",
        "A busy tenant is ended by terminate_client, then SIGKILL",
        (
            *_KILLED[:3],
            dataclasses.replace(_KILLED[3], documented="none", source=INTERFACE, expected=0),
            *_KILLED[4:],
            Question("terminateAnswers", "answer to terminate_client", merge=Merge.UNION),
            Question("listedWhileAlive", "clients still listed after it, while their process lives", merge=Merge.SUM),
            Question("terminateSeconds", "how long it takes, s", merge=Merge.LARGEST, timed=True),
            Question(
                "victimErrors",
                "what the tenant itself sees",
                "CUDA_ERROR_MPS_CLIENT_TERMINATED",
                INTERFACE,
                ["CUDA_ERROR_MPS_CLIENT_TERMINATED (810)"],
                Merge.UNION,
            ),
        ),
        seconds=120.0,
        repeats=5,
    ),
)
"""All, in the order in which they are conducted."""

STAGES = tuple(dict.fromkeys(experiment.stage for experiment in EXPERIMENTS))
ENDINGS = "endings"
_KILLING = ("kill", "kill-terminated")


@dataclasses.dataclass(frozen=True)
class Part:
    """What can be called by itself: experiments of one stage; of their repeats those from `first` to before `end`."""

    name: str
    stage: str
    experiments: tuple[str, ...]
    first: int = 0
    end: int | None = None

    def runs(self) -> tuple[tuple[str, int], ...]:
        """Return each experiment with the number of its repeat, in order."""
        counts = {experiment.name: experiment.repeats for experiment in EXPERIMENTS}
        return tuple(
            (name, repeat) for name in self.experiments for repeat in range(counts[name])[self.first : self.end]
        )


def _whole(stage: str) -> Part:
    return Part(stage, stage, tuple(experiment.name for experiment in EXPERIMENTS if experiment.stage == stage))


PARTS = (
    _whole("management"),
    _whole("surroundings"),
    _whole("limits"),
    Part("fault", ENDINGS, ("fault",)),
    Part("kills", ENDINGS, _KILLING, end=1),
    Part("more-kills", ENDINGS, _KILLING, first=1),
)
"""What is done first on a GPU: what says most in a short time. The stage `endings` has three parts."""


def named(name: str) -> Experiment:
    """Return the experiment of this name. Raises KeyError."""
    return {experiment.name: experiment for experiment in EXPERIMENTS}[name]
