"""The work queue: one worker a key, delays, and retries that slow down."""

from cotenant_operator.loop.workqueue import LONGEST_BACKOFF_SECONDS, PER_NAMESPACE, WorkQueue
from cotenant_operator.state.views import Key

A, B = Key("team", "a"), Key("team", "b")


def test_keys_come_in_the_order_in_which_they_are_due() -> None:
    queue = WorkQueue()
    queue.add(A, at=2)
    queue.add(B, at=1)
    assert queue.take(0.5) is None
    assert queue.take(3) == B
    assert queue.take(3) == A
    assert queue.take(3) is None


def test_key_added_twice_comes_once_at_the_earlier_time() -> None:
    queue = WorkQueue()
    queue.add(A, at=5)
    queue.add(A, at=1)
    queue.add(A, at=9)
    assert queue.take(1) == A
    queue.done(A)
    assert queue.take(100) is None
    assert len(queue) == 0


def test_key_is_with_one_worker_at_a_time() -> None:
    queue = WorkQueue()
    queue.add(A, at=0)
    assert queue.take(0) == A
    queue.add(A, at=1)
    assert queue.take(2) is None
    queue.done(A)
    assert queue.take(2) == A


def test_failures_slow_down_and_success_forgets_them() -> None:
    queue = WorkQueue()
    delays = []
    now = 0.0
    queue.add(A, at=now)
    for _ in range(12):
        assert queue.take(now) == A
        delay = queue.failed(A, now=now)
        delays.append(delay)
        now += delay
    assert delays[:4] == [0.2, 0.4, 0.8, 1.6]
    assert max(delays) == LONGEST_BACKOFF_SECONDS
    assert queue.take(now) == A
    queue.done(A)
    queue.add(A, at=now)
    queue.take(now)
    assert queue.failed(A, now=now) == 0.2


def test_failure_waits_as_long_as_it_asks_for() -> None:
    queue = WorkQueue()
    queue.add(A, at=0)
    queue.take(0)
    assert queue.failed(A, now=0, delay_seconds=7) == 7
    assert queue.due_in(0) == 7


def test_event_ends_the_wait_after_a_failure() -> None:
    queue = WorkQueue()
    queue.add(A, at=0)
    queue.take(0)
    queue.failed(A, now=0, delay_seconds=60)
    queue.add(A, at=1)
    assert queue.take(1) == A


def test_time_to_the_next_key_is_known() -> None:
    queue = WorkQueue()
    assert queue.due_in(0) is None
    queue.add(A, at=5)
    queue.add(A, at=3)
    assert queue.due_in(1) == 2
    assert queue.due_in(9) == 0
    queue.take(9)
    assert queue.due_in(9) is None


def test_namespaces_take_turns_however_many_keys_one_has_due() -> None:
    queue = WorkQueue()
    for number in range(1500):
        queue.add(Key("evil", str(number)), at=0)
    queue.add(A, at=1)
    queue.add(B, at=1)
    found = [queue.take(2) for _ in range(5)]
    assert found == [Key("evil", "0"), A, Key("evil", "1"), B, Key("evil", "2")]
    assert queue.due_in(2) == 0
    assert len(queue) == 1502


def crowd(count: int) -> list[Key]:
    return [Key("evil", str(number)) for number in range(count)]


def test_a_namespace_that_is_alone_holds_all_workers() -> None:
    queue = WorkQueue()
    for key in crowd(100):
        queue.add(key, at=0)
    assert [queue.take(0) for _ in range(100)] == crowd(100)


def test_a_namespace_holds_its_part_of_the_workers_beside_another() -> None:
    queue = WorkQueue()
    for key in crowd(100):
        queue.add(key, at=0)
    queue.add(A, at=0)
    taken = [queue.take(0) for _ in range(PER_NAMESPACE + 2)]
    assert taken == [Key("evil", "0"), A, *crowd(PER_NAMESPACE)[1:], None]
    # Nothing can be taken: whoever asks sleeps until a worker is done.
    assert queue.due_in(0) is None
    queue.done(Key("evil", "3"))
    assert queue.due_in(0) == 0
    assert queue.take(0) == Key("evil", str(PER_NAMESPACE))
    assert queue.take(0) is None
    queue.done(A)
    assert queue.take(0) == Key("evil", str(PER_NAMESPACE + 1))


def test_a_namespace_that_held_all_workers_gets_no_more_of_them_beside_another() -> None:
    queue = WorkQueue()
    for key in crowd(100):
        queue.add(key, at=0)
    for _ in range(32):
        queue.take(0)
    queue.add(A, at=0)
    assert queue.take(0) == A
    for key in crowd(32 - PER_NAMESPACE):
        queue.done(key)
        assert queue.take(0) is None
    queue.done(Key("evil", "31"))
    assert queue.take(0) == Key("evil", "32")


def test_workers_that_only_wait_are_not_of_a_namespaces_part() -> None:
    queue = WorkQueue()
    for key in crowd(100):
        queue.add(key, at=0)
    queue.add(A, at=0)
    while queue.take(0) is not None:
        continue
    queue.set_aside("evil", 1)
    assert queue.take(0) == Key("evil", str(PER_NAMESPACE))
    queue.set_aside("evil", -1)
    queue.done(Key("evil", "0"))
    assert queue.take(0) is None
    # The other namespace's only key waits as well: then nobody is held up.
    queue.set_aside(A.namespace, 1)
    assert queue.take(0) is not None


def test_looks_that_were_due_late_and_came_early_leave_nothing_behind() -> None:
    queue = WorkQueue()
    for now in range(10_000):
        queue.add(A, at=1e9)
        queue.add(A, at=now)
        assert queue.take(now) == A
        queue.add(A, at=1e9)
        queue.done(A)
    assert queue.entries < 100
    assert queue.take(1e9) == A


def test_what_is_left_of_early_looks_goes_by_itself() -> None:
    queue, keys = WorkQueue(), [Key("team", f"k{number}") for number in range(500)]
    for at in (9e9, 8e9, 7e9, 6e9):
        for number, key in enumerate(keys):
            queue.add(key, at=at + number)
    assert queue.entries <= 2 * len(keys) + 64
    assert [queue.take(1e10) for _ in keys] == keys
