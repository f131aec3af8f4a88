"""What the soak with a hostile namespace sends, weighs and tells."""

import itertools
import os
import random
import subprocess
import sys
from typing import Any, cast

from cotenant_api import errors, names
from cotenant_e2e import waiting
from cotenant_e2e.client import Client, Json
from cotenant_e2e.hostile import attacks, large_pods, requests, sender, weights

KINDS = {
    "ConfigMap",
    "DLJob",
    "large DLJob",
    "deep DLJob",
    "annotated pod",
    "large pod",
    "large pod with a share",
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


def test_large_pods_are_of_each_scheduler_and_together_below_what_etcd_takes() -> None:
    source, pods = random.Random(1), large_pods.Pods("evil")  # noqa: S311 - not for secrets
    there: dict[str, Json] = {}
    seen = set()
    for number in range(1_500):
        for attack in (pods.without_share if number % 2 else pods.with_share)(source, number):
            if attack.body is None:
                del there[attack.path.rpartition("/")[2]]
                continue
            there[attack.body["metadata"]["name"]] = attack.body
            container = attack.body["spec"]["containers"][0]
            seen.add((attack.body["spec"]["schedulerName"], bool(container["resources"])))
            assert len(container["args"][0].encode()) < 1_500_000
        assert sum(map(size_of, there.values())) <= large_pods.MOST_BYTES
    assert len(there) > 800
    assert seen == {*((name, False) for name in large_pods.SCHEDULERS), (names.SCHEDULER_NAME, True)}


def size_of(pod: Json) -> int:
    return len(pod["spec"]["containers"][0]["args"][0])


class Server:
    """Takes, refuses and does not answer what its path says, in the place of a client."""

    def is_taken(self, method: str, path: str, body: Any = None) -> bool:
        """Return whether it is taken."""
        if path == "silent":
            raise errors.TemporaryError(f"{method} {path}: {body}", delay_seconds=1)
        return path == "taken"


def test_the_sender_counts_what_is_taken_what_is_refused_and_what_is_not_answered() -> None:
    endless = itertools.cycle(requests.Attack("pod", "POST", path, {}) for path in ("taken", "refused", "silent"))
    with sender.Sender(cast("Client", Server()), endless, rate=4000, ports=()) as sending:
        waiting.wait_until(lambda: sending.sent().unanswered > 3, "four unanswered attacks", 20)
    found = sending.sent()
    assert found.taken.keys() == found.refused.keys() == {"pod"}
    assert found.halves == 0


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
