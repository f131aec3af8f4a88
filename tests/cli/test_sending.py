"""What is sent beside GET, and how refusals are translated: a small server that plays an API server."""

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli import kit
from cotenant_api import errors
from cotenant_cli.reading import installation, kube, objects
from cotenant_cli.sending import applying, evicting, rights
from cotenant_cli.sending import kube as sending

MANAGER = applying.Manager("cotenant-test")
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "team"}}


class Server:
    """Answers everything alike, and keeps what it was sent."""

    def __init__(self) -> None:
        self.status = 200
        self.answer: dict[str, Any] | str = {}
        self.sent: list[tuple[str, str, str, Mapping[str, Any]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_PATCH(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.sent.append((self.command, self.path, self.headers["Content-Type"], body))
                self._respond()

            do_POST = do_PATCH  # noqa: N815 -- the base class names it so

            def do_GET(self) -> None:
                self._respond()

            def _respond(self) -> None:
                text = json.dumps(outer.answer).encode()
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ARG002 -- the base class names it so
                return

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        """No more answers."""
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    """The server."""
    found = Server()
    yield found
    found.close()


@pytest.fixture
def connection(server: Server, tmp_path: Path) -> kube.Connection:
    """To it."""
    path = tmp_path / "kubeconfig"
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [context],
    }
    path.write_text(yaml.safe_dump(config))
    return kube.Connection(path, None)


def test_an_object_is_applied_on_the_server_by_its_manager(server: Server, connection: kube.Connection) -> None:
    server.answer = {"kind": "ConfigMap"}
    assert applying.apply(connection, CONFIG_MAP, manager=MANAGER) == server.answer
    applying.apply(connection, CONFIG_MAP, manager=MANAGER, force=True, dry_run=True)
    path = "/api/v1/namespaces/team/configmaps/c?fieldManager=cotenant-test&fieldValidation=Strict"
    assert server.sent == [
        ("PATCH", f"{path}&force=false", sending.APPLY, CONFIG_MAP),
        ("PATCH", f"{path}&force=true&dryRun=All", sending.APPLY, CONFIG_MAP),
    ]


def test_a_node_is_cordoned_and_a_pod_evicted_by_its_uid(server: Server, connection: kube.Connection) -> None:
    pod = objects.pod_of(kit.pod("a", on="GPU-0"))
    assert pod is not None
    evicting.cordon(connection, "n1")
    evicting.evict(connection, pod, dry_run=True)
    (_, path, kind, patch), (_, eviction, _, body) = server.sent
    assert (path.partition("?")[0], kind, patch) == (
        "/api/v1/nodes/n1",
        sending.MERGE,
        {"spec": {"unschedulable": True}},
    )
    assert eviction == "/api/v1/namespaces/team/pods/a/eviction"
    assert body["deleteOptions"] == {"preconditions": {"uid": "uid-a"}, "dryRun": ["All"]}


def test_what_one_may_do_is_asked_and_not_guessed(server: Server, connection: kube.Connection) -> None:
    server.answer = {"status": {"allowed": True}}
    right = installation.Right(verb="create", group="", resource="pods", subresource="eviction")
    assert rights.Asked(connection).may(right)
    ((_, _, _, body),) = server.sent
    wanted = {"verb": "create", "group": "", "resource": "pods", "subresource": "eviction"}
    assert body["spec"] == {"resourceAttributes": wanted}
    server.answer = {"status": {}}
    assert not rights.Asked(connection).may(right)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (403, sending.RefusedError),
        (404, sending.GoneError),
        (409, sending.ConflictError),
        (429, sending.TooManyError),
        (500, errors.TemporaryError),
    ],
)
def test_a_refusal_keeps_the_servers_own_sentence(
    server: Server, connection: kube.Connection, status: int, error: type[errors.CotenantError]
) -> None:
    server.status, server.answer = status, {"message": "because"}
    with pytest.raises(error, match=rf"PATCH /api/v1/nodes/n1: {status}: because"):
        evicting.cordon(connection, "n1")


def test_a_right_that_lacks_is_told_with_who_names_it(server: Server, connection: kube.Connection) -> None:
    server.status, server.answer = 403, {"message": 'nodes "n1" is forbidden: User "eve" cannot patch resource "nodes"'}
    with pytest.raises(sending.RefusedError, match="`cotenant doctor` names the rights"):
        evicting.cordon(connection, "n1")


def test_a_version_that_is_refused_is_an_error(server: Server, connection: kube.Connection) -> None:
    server.answer = {"minor": "36"}
    assert rights.Asked(connection).version() == {"minor": "36"}
    server.status = 401
    with pytest.raises(errors.PermanentError, match="GET /version: 401"):
        rights.Asked(connection).version()


def test_an_answer_that_is_no_object_is_no_success(server: Server, connection: kube.Connection) -> None:
    server.answer = "Please log in"
    with pytest.raises(errors.PermanentError, match=r"PATCH /api/v1/nodes/n1: the answer is no JSON object: .*log in"):
        evicting.cordon(connection, "n1")


def test_a_version_that_is_not_told_now_is_worth_asking_again(server: Server, connection: kube.Connection) -> None:
    server.status, server.answer = 503, {"message": "starting"}
    with pytest.raises(errors.TemporaryError, match="GET /version: 503: 'starting'"):
        rights.Asked(connection).version()


def test_no_answer_is_temporary(server: Server, connection: kube.Connection) -> None:
    server.close()
    with pytest.raises(errors.TemporaryError, match=r"no answer: .*Connection refused"):
        evicting.cordon(connection, "n1")
