"""What the soak with a hostile namespace sends, weighs and tells."""

import itertools
import os
import subprocess
import sys

from cotenant_e2e.hostile import attacks, report, soak, weights

KINDS = {
    "ConfigMap",
    "DLJob",
    "large DLJob",
    "deep DLJob",
    "annotated pod",
    "forged Job",
    "event",
}


def test_attacks_are_the_same_for_a_seed_and_of_every_kind() -> None:
    first, again = (list(itertools.islice(attacks.endless("evil", seed=1), 600)) for _ in range(2))
    assert [(one.kind, one.path) for one in first] == [(one.kind, one.path) for one in again]
    assert {attack.kind for attack in first} == KINDS
    assert all("/namespaces/evil/" in attack.path for attack in first)


def test_when_all_dljobs_are_there_one_is_deleted_for_each_that_is_made() -> None:
    made: set[str] = set()
    count = 0
    for attack in attacks.endless("evil", seed=1):
        if attack.kind == "DLJob" and attack.body is not None:
            name = attack.body["metadata"]["name"]
            assert name not in made
            made.add(name)
            count += 1
        elif attack.kind == "DLJob deleted":
            made.remove(attack.path.rpartition("/")[2])
        if count > attacks.DLJOBS + 10:
            break
    assert len(made) <= attacks.DLJOBS


def test_a_process_weighs_what_its_children_weigh_as_well() -> None:
    program = "import subprocess, sys; held = bytearray(64 << 20)\nif sys.argv[1:]: subprocess.run(sys.argv[1:])\n"
    program += "print(flush=True); sys.stdin.read()"
    child = [sys.executable, "-c", program]
    with subprocess.Popen([*child, *child], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as both:
        assert both.stdout is not None
        both.stdout.readline()
        assert 128 < weights.mib(both.pid) < 300
        assert both.stdin is not None
        both.stdin.close()
    assert weights.mib(both.pid) == 0
    assert weights.mib(os.getpid()) > 0


def test_the_report_says_how_much_longer_the_honest_waited() -> None:
    found = soak.Soaked(
        minutes=60,
        rate=5,
        alone=(1.0, 1.0, 2.0),
        beside=(1.5, 1.5, 9.0),
        failed=1,
        peaks_mib={"cotenant-operator": 123.4},
        ends={"cotenant-operator": 2},
        taken={"DLJob": 7},
        refused={},
        unanswered=3,
        halves=4,
        dljobs=7,
    )
    text = "\n".join(report.lines(found, cores=2))
    assert "| alone | 3 | 1.00 | 2.00 | 2.00 |" in text
    assert "| cotenant-operator | 123 | 2 |" in text
    assert "the median wait was 1.50 times as long; 1 honest DLJobs were not bound" in text
    assert "sent 7 DLJob; refused were none; 3 were not answered" in text
