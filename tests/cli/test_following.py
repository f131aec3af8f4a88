"""`cotenant submit --follow`: lines for what changes, and the log without gaps or repetitions."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from cotenant_api import errors
from cotenant_cli.submitting import following

GPU = {"uuid": "GPU-1", "share": 40}
REPLICA = {"index": 0, "pod": "train-1-0", "node": "n1", "gpus": [GPU]}
RUNNING = {"phase": "Running", "replicas": [REPLICA]}
QUEUED = {"phase": "Queued", "conditions": [{"type": "Queued", "status": "True", "message": "2 go first"}]}
DONE = {"phase": "Succeeded", "conditions": [{"type": "Complete", "message": "all is done"}]}


class Server:
    """Answers with each status once, and with the log in parts; None: no answer."""

    def __init__(self, *statuses: Mapping[str, Any] | None, logs: Sequence[Sequence[bytes] | int | None] = ()) -> None:
        self._statuses, self._logs = list(statuses), list(logs)
        self.asked: list[dict[str, str]] = []

    def get(self, _path: str, _query: following.Query, /) -> tuple[int, Mapping[str, Any]]:
        """The next status."""
        status = self._statuses.pop(0)
        if status is None:
            raise errors.TemporaryError("no answer", delay_seconds=1)
        return int(status.get("code", 200)), {"status": status, "message": "gone"}

    @contextlib.contextmanager
    def lines(
        self, path: str, query: following.Query, /, *, silence_seconds: float
    ) -> Iterator[tuple[int, Iterator[bytes]]]:
        """The next part of the log."""
        assert silence_seconds > 0
        self.asked.append({"path": path, **dict(query)})
        part = self._logs.pop(0) if self._logs else ()
        if part is None:
            raise errors.TemporaryError("silence", delay_seconds=1)
        yield (part, iter(())) if isinstance(part, int) else (200, iter(part))


def followed(server: Server, *, reader_leaves_after: int = 1000) -> tuple[list[str], bool]:
    told: list[str] = []

    def tell(line: str) -> bool:
        told.append(line)
        return len(told) < reader_leaves_after

    follower = following.Follower(
        source=server, namespace="team", name="train", container="main", tell=tell, wait=lambda _: None
    )
    return told, follower.run()


def test_each_change_is_a_line_until_the_end() -> None:
    told, succeeded = followed(Server({}, QUEUED, QUEUED, None, RUNNING, DONE))
    assert told == ["Pending", "Queued: 2 go first", "Running on n1: 40 % of GPU GPU-1", "Succeeded: all is done"]
    assert succeeded


def test_a_job_that_failed_says_why_and_is_no_success() -> None:
    failed = {"phase": "Failed", "conditions": [{"type": "Failed", "message": "exit code 1"}]}
    assert followed(Server(failed)) == (["Failed: exit code 1"], False)


def test_the_log_goes_on_where_it_was_and_repeats_nothing() -> None:
    logs = [
        [b"2026-01-01T00:00:01.1Z a", b"2026-01-01T00:00:01.2Z b"],
        None,
        [b"2026-01-01T00:00:01.2Z b", b"2026-01-01T00:00:02Z c"],
    ]
    server = Server(RUNNING, RUNNING, RUNNING, DONE | {"replicas": [REPLICA]}, logs=logs)
    told, _ = followed(server)
    assert [line for line in told if len(line) == 1] == ["a", "b", "c"]
    assert server.asked[0] == {
        "path": "/api/v1/namespaces/team/pods/train-1-0/log",
        "container": "main",
        "follow": "true",
        "timestamps": "true",
    }
    assert server.asked[1]["sinceTime"] == "2026-01-01T00:00:01.2Z"


def test_a_new_pod_has_its_log_followed_from_its_beginning() -> None:
    again = RUNNING | {"replicas": [REPLICA | {"pod": "train-2-0"}]}
    server = Server(RUNNING, again, DONE, logs=[[b"2026-01-01T00:00:09Z a"], [], [b"2026-01-01T00:00:01Z b"]])
    told, _ = followed(server)
    assert [line for line in told if len(line) == 1] == ["a", "b"]


def test_a_job_that_ends_at_once_has_its_log_told() -> None:
    server = Server(DONE | {"replicas": [REPLICA]}, logs=[[b"2026-01-01T00:00:01Z a"]])
    assert followed(server)[0] == ["Succeeded: all is done", "a"]


def test_without_the_right_to_read_logs_the_job_is_followed_all_the_same() -> None:
    server = Server(RUNNING, RUNNING, DONE, logs=[403])
    told, succeeded = followed(server)
    assert told[1] == "no log: 403: ask for the right to get pods/log"
    assert len(server.asked) == 1
    assert succeeded


def test_no_line_of_a_job_reaches_a_terminal_as_more_than_text() -> None:
    told, _ = followed(Server(RUNNING, DONE, logs=[[b"2026-01-01T00:00:01Z \x1b[2J\xff"]]))
    assert all(line.isprintable() for line in told)


def test_who_reads_no_more_is_told_no_more() -> None:
    assert followed(Server(QUEUED, RUNNING), reader_leaves_after=1) == (["Queued: 2 go first"], False)


def test_a_line_of_kubelets_own_is_told_and_loses_nothing_of_what_follows() -> None:
    first = (b"2026-01-01T00:00:01.1Z a", b"failed to create fsnotify watcher: too many open files")
    server = Server(RUNNING, RUNNING, DONE, logs=[first, [b"2026-01-01T00:00:02Z b"], []])
    told, _ = followed(server)
    assert told[1:4] == ["a", "failed to create fsnotify watcher: too many open files", "b"]
    assert server.asked[1]["sinceTime"] == "2026-01-01T00:00:01.1Z"


def test_lines_are_in_order_by_what_their_times_mean() -> None:
    before, after = b"2026-10-25T02:59:59.9+02:00 summer", b"2026-10-25T02:00:00.1+01:00 winter"
    told, _ = followed(Server(RUNNING, DONE, logs=[[before, after], []]))
    assert told[1:3] == ["summer", "winter"]


@pytest.mark.parametrize("code", [429, 500, 503, 504])
def test_an_api_server_that_has_no_answer_now_is_asked_again(code: int) -> None:
    told, succeeded = followed(Server(QUEUED, {"code": code}, DONE))
    assert succeeded
    assert len(told) == 2


def test_another_dljob_of_the_name_is_not_followed() -> None:
    follower = following.Follower(
        source=Server(RUNNING), namespace="t", name="n", container="main", tell=bool, wait=lambda _: None, uid="former"
    )
    with pytest.raises(errors.PermanentError, match="another made in its stead"):
        follower.run()


def test_a_job_that_is_gone_is_told() -> None:
    with pytest.raises(errors.PermanentError, match="team/train: 404: 'gone'"):
        followed(Server(QUEUED, {"code": 404}))
