"""Mutants that change no behaviour, each with the reason; they are reported apart from those that survive."""

from typing import Final, NamedTuple

from mutants import mutation


class Equivalent(NamedTuple):
    """An edit that nobody can notice.

    Attributes:
        function: where it is, as the sample names it.
        number: which of the equal edits of this function it is, from 1.
    """

    file: str
    function: str
    old: str
    new: str
    number: int
    reason: str


EQUIVALENT: Final[tuple[Equivalent, ...]] = (
    Equivalent(
        "leadership.py",
        "module",
        "0.0",
        "(-1.0)",
        1,
        "the term is only compared with itself, and its mark does not name the time",
    ),
    Equivalent(
        "ledger/drift.py",
        "_compared_rows",
        "0",
        "(-1)",
        2,
        "the array has one row",
    ),
    Equivalent(
        "ledger/drift.py",
        "module",
        "200",
        "201",
        1,
        "how many pods a step counts changes nothing in what is found",
    ),
    Equivalent(
        "ledger/ledger.py",
        "Ledger.gpunode",
        "1",
        "2",
        1,
        "the number is only compared with itself",
    ),
    Equivalent(
        "ledger/ledger.py",
        "Ledger.tick",
        "self.nodes[name].alive",
        "True",
        1,
        "a Lease that has expired has the next look come earlier, which finds the same",
    ),
    Equivalent(
        "packing/fleet.py",
        "Fleet.crowded",
        "2",
        "1",
        1,
        "how many tenancies of the past are remembered before the arrays are made anew, which say the same",
    ),
    Equivalent(
        "packing/fleet.py",
        "Fleet.made",
        "max((len(node.gpus) for node in nodes), default=1)",
        "(min((len(node.gpus) for node in nodes), default=1))",
        1,
        "a node with more GPUs than there are columns widens the arrays when it is written",
    ),
    Equivalent(
        "packing/occupancy.py",
        "occupancy",
        "0",
        "1",
        2,
        "the code 1 says that a pod wants another model, which closes no GPU",
    ),
    Equivalent(
        "packing/rules.py",
        "of_models",
        "0",
        "(-1)",
        4,
        "where it is one number, nobody reads which",
    ),
    Equivalent(
        "packing/rules.py",
        "of_models",
        "0",
        "(-1)",
        10,
        "there is no GPU for which anybody would read the number",
    ),
    Equivalent(
        "packing/rules.py",
        "of_models",
        "0",
        "(-1)",
        12,
        "there is no GPU for which anybody would read the number",
    ),
    Equivalent(
        "packing/rules.py",
        "of_models",
        "return Needs(0, only.share, _memory(source, only))",
        "pass",
        1,
        "the way for several models says the same of one",
    ),
    Equivalent(
        "packing/situations.py",
        "Situations._row",
        "0",
        "1",
        1,
        "what is remembered of a node is what is found for it anew",
    ),
    Equivalent(
        "packing/situations.py",
        "Situations._row",
        "True",
        "False",
        1,
        "both have the same length",
    ),
    Equivalent(
        "packing/situations.py",
        "Situations._row",
        "return standing[1]",
        "pass",
        1,
        "what is remembered of a node is what is found for it anew",
    ),
    Equivalent(
        "packing/speeds.py",
        "Predicted.together",
        "0",
        "1",
        2,
        "the array is empty, whichever of its columns is taken",
    ),
    Equivalent(
        "queue/memory.py",
        "Memory.__init__",
        "0",
        "1",
        5,
        "every pass makes the array anew before it is read",
    ),
    Equivalent(
        "queue/memory.py",
        "Memory.begin",
        "999",
        "1000",
        1,
        "how many kinds of request are remembered before all are found out anew, which says the same",
    ),
    Equivalent(
        "queue/order.py",
        "_entry",
        "0.0",
        "(-1.0)",
        1,
        "the keys that are compared here have the same number",
    ),
    Equivalent(
        "queue/roster.py",
        "Roster._write",
        "True",
        "False",
        2,
        "both have the same length",
    ),
    Equivalent(
        "queue/roster.py",
        "Roster.levels",
        "priority < below",
        "(priority <= below)",
        1,
        "the masks of preemption exclude equal priorities by themselves: the last one is tried twice",
    ),
    Equivalent(
        "queue/screen.py",
        "Kinds.__init__",
        "0",
        "1",
        1,
        "the array is resized before it is read",
    ),
)


def reason(mutant: mutation.Mutant) -> str | None:
    """Return why a mutant changes no behaviour; None where it is not known to be so."""
    where = mutant.file, mutant.name, mutant.old, mutant.new, mutant.number
    return next((entry.reason for entry in EQUIVALENT if entry[:5] == where), None)
