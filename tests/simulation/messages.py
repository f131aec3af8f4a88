"""The words in which a pod is told why it waits: nothing else may appear in a condition."""

import re

from cotenant_api.pod import PackedReason
from cotenant_extender.packing import causes

_AMOUNT = r"(at least )?\d+(\.\d)? (jobs?|hundredths?|MiB|GiB)"
_PREDICATES = "|".join(
    re.escape(text).replace(re.escape("{}"), _AMOUNT) for cause in causes.Cause for text in (cause.one, cause.several)
)
_PHRASE = rf"\d+( GPUs?)? ({_PREDICATES})"
_TALLY = rf"({_PHRASE}(, {_PHRASE})*|no node offers a GPU)"
_ALONE = rf"(\d+ of the gang's \d+ waiting pods fit; for the next )?{_TALLY}"
_EMPTY = (
    r"(all GPUs together, if empty,|one after the other, empty GPUs) have room for \d+ of the gang's \d+ waiting pods"
)
_HELD = r"(1 GPU is|\d+ GPUs are) held for it, to start about \d{4}-\d\d-\d\d \d\d:\d\d UTC \(an estimate\)"
_BESIDE = "beside pods that never end"
_MORE = "and no node that it may use has more than"
_TOGETHER = r"has \S+ CPUs, \d+ MiB of memory and room for a pod at once"
_LACKS = (
    rf"it requests (\S+ CPUs|\d+ MiB of memory)( and \d+ MiB of memory)?, {_MORE} (\S+ CPUs|\d+ MiB)( and \d+ MiB)?"
    rf"|no node that it may use (takes another pod|{_TOGETHER})"
)
_UNTIL = r"until \d{4}-\d\d-\d\d \d\d:\d\d UTC"
_NO_HOLD = (
    "none that it could use is expected to become free"
    rf"|({_LACKS}) {_BESIDE}: request less of it, or move such pods to other nodes"
    rf"|nodes never have enough for all \d+ pods at once {_BESIDE}: request less, or fewer"
    "|pods of higher priority keep its namespace at maxGPUsPerNamespace"
    f"|some stood empty for it in vain, {_UNTIL}: look whether pods without a share have the CPU, memory or pods "
    "that it needs"
)
_OUTLOOK = rf"(; ({_HELD}|no GPU is held for it, as ({_NO_HOLD})))?"
_OF_OTHERS = "PodDisruptionBudgets of other namespaces"
_GUARDED = (
    rf"(; pods of lower priority are kept by ({_OF_OTHERS}"
    rf"|PodDisruptionBudgets? [^\s;,]+(, [^\s;,]+)*( and \d+ more)?(, and by {_OF_OTHERS})?))?"
)
_UNTRIED = (
    r"(; evicts nobody before \d{4}-\d\d-\d\d \d\d:\d\d UTC, as pods left in vain for such jobs)?"
    r"(; evicts nobody before kube-scheduler has said which nodes it accepts)?"
)
_NEVER = (
    r"asks for \d+ GPUs of one node, and no node has more than \d+ that it may use: ask for fewer, or add such a node"
    r"|asks for \S+ [MG]iB of GPU memory, and no GPU that it may use has more than \S+ [MG]iB to book: ask for less, "
    r"or add a larger GPU"
    r"|no node has a GPU of model \S+( or \S+)*: (did you mean|nodes have) .*"
)
_WAITING = (
    rf"(waits for another node: )?({_ALONE}|{_EMPTY}|{_NEVER}|others go first){_GUARDED}{_UNTRIED}{_OUTLOOK}",
    r"waits for \S+(, \S+)*( and \d+ more)? to leave",
    r"\d+ of the gang's \d+ pods are here",
    r"the gang has its \d+ pods without this one: .*",
    r"kube-scheduler (found no node|could not place it): .*",
    r"the API server did not carry out the write that promises the pod a GPU, which is tried again: .*",
    r"PackingPolicy default (has mode \w+|is paused): nothing is placed",
)
_PLACE = re.compile(r"on node \S+: GPU-\S+ \(\d+ hundredths, \d+ MiB\)(, GPU-\S+ \(\d+ hundredths, \d+ MiB\))*")
_KNOWN = re.compile(rf"({'|'.join(_WAITING)})(; \d+(st|nd|rd|th) in the queue)?", re.DOTALL)


def known(reason: str, message: str) -> bool:
    """Whether a message is one of the known ones."""
    match reason:
        case PackedReason.PLACED:
            return _PLACE.fullmatch(message) is not None
        case PackedReason.INVALID_REQUEST:
            return bool(message)
        case _:
            return _KNOWN.fullmatch(message) is not None
