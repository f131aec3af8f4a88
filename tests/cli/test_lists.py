"""Lists of an API server, page by page: a small server that plays one, with its faults."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from cotenant_api import errors
from cotenant_cli.reading import kube

Answer = tuple[int, Mapping[str, Any] | bytes]
PATH = "/api/v1/pods"


class Server:
    """Answers as told, in order, and keeps what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.answers: list[Answer] = []
        self.asked: list[tuple[str, str, dict[str, list[str]], str]] = []
        self.impersonated: list[list[tuple[str, str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                token = self.headers.get("Authorization", "")
                outer.asked.append((self.command, parts.path, parse_qs(parts.query), token))
                outer.impersonated.append([one for one in self.headers.items() if one[0].startswith("Impersonate-")])
                status, body = outer.answers.pop(0)
                text = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ARG002 -- the base class names it so
                return

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        self.kubeconfig = folder / "kubeconfig"
        url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self.kubeconfig.write_text(yaml.safe_dump(kubeconfig(url)))

    def close(self) -> None:
        """No more answers."""
        self._http.shutdown()
        self._http.server_close()


def kubeconfig(url: str) -> dict[str, Any]:
    context = {"cluster": "c", "user": "u"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t0ken"}}],
        "contexts": [
            {"name": "here", "context": context},
            {"name": "there", "context": context | {"namespace": "team"}},
        ],
    }


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.close()


@pytest.fixture
def lists(server: Server) -> Callable[[], kube.Lists]:
    return lambda: kube.Lists(server.kubeconfig, None, page=2)


def page(*names: str, following: str = "") -> Answer:
    return 200, {"items": [{"metadata": {"name": name}} for name in names], "metadata": {"continue": following}}


def status(code: int, message: str = "") -> Answer:
    return code, {"kind": "Status", "message": message, "code": code}


def name_of(raw: kube.Object) -> str:
    return str(raw["metadata"]["name"])


def test_all_pages_are_read_by_get_alone_as_the_user_of_the_context(
    server: Server, lists: Callable[[], kube.Lists]
) -> None:
    server.answers = [page("a", "b", following="x"), page("c")]
    assert lists()(PATH, name_of) == ["a", "b", "c"]
    assert [(verb, path) for verb, path, _, _ in server.asked] == [("GET", PATH)] * 2
    assert [query.get("continue") for _, _, query, _ in server.asked] == [None, ["x"]]
    assert {query["limit"][0] for _, _, query, _ in server.asked} == {"2"}
    assert {token for *_, token in server.asked} == {"Bearer t0ken"}


def test_one_object_is_asked_for_by_its_name(server: Server, lists: Callable[[], kube.Lists]) -> None:
    server.answers = [page("a")]
    assert lists()(PATH, name_of, name="a") == ["a"]
    ((_, _, query, _),) = server.asked
    assert query["fieldSelector"] == ["metadata.name=a"]


def test_pods_of_a_node_are_chosen_by_the_server(server: Server, lists: Callable[[], kube.Lists]) -> None:
    server.answers = [page("a", "b")]
    assert lists()(PATH, name_of, node="n1") == ["a", "b"]
    ((_, _, query, _),) = server.asked
    assert query["fieldSelector"] == ["spec.nodeName=n1"]


def test_a_context_says_which_namespace_is_meant(server: Server) -> None:
    assert kube.Lists(server.kubeconfig, None).namespace == "default"
    assert kube.Lists(server.kubeconfig, "there").namespace == "team"


def test_a_file_that_a_kubeconfig_names_is_looked_for_beside_it(server: Server) -> None:
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"tokenFile": "token"}
    server.kubeconfig.write_text(yaml.safe_dump(config))
    (server.kubeconfig.parent / "token").write_text("fr0m-file")
    server.answers = [page()]
    kube.Lists(server.kubeconfig, None)(PATH, name_of)
    assert [token for *_, token in server.asked] == ["Bearer fr0m-file"]


def test_requests_are_those_of_the_user_that_the_kubeconfig_impersonates(server: Server) -> None:
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"] |= {
        "as": "Zoë",
        "as-uid": "7",
        "as-groups": ["g1", "g2"],
        "as-user-extra": {"example.com/team 1": ["a", "b"]},
    }
    server.kubeconfig.write_text(yaml.safe_dump(config))
    server.answers = [page()]
    kube.Lists(server.kubeconfig, None)(PATH, name_of)
    assert server.impersonated == [
        [
            ("Impersonate-User", "Zoë".encode().decode("latin-1")),
            ("Impersonate-Uid", "7"),
            ("Impersonate-Group", "g1"),
            ("Impersonate-Group", "g2"),
            ("Impersonate-Extra-example.com%2Fteam%201", "a"),
            ("Impersonate-Extra-example.com%2Fteam%201", "b"),
        ]
    ]


@pytest.mark.parametrize(
    ("user", "named"),
    [
        ({"as": 5}, "users: u: as: 5"),
        ({"as": "a\nb"}, "users: u: as: "),
        ({"as": "a", "as-groups": "g"}, "users: u: as-groups: 'g'"),
        ({"as": "a", "as-groups": [1]}, "users: u: as-groups: 1"),
        ({"as": "a", "as-user-extra": ["x"]}, "users: u: as-user-extra: "),
        ({"as-groups": ["g"]}, "users: u: as: "),
    ],
)
def test_an_impersonation_that_cannot_be_sent_is_refused(server: Server, user: dict[str, Any], named: str) -> None:
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"] |= user
    server.kubeconfig.write_text(yaml.safe_dump(config))
    with pytest.raises(errors.InvalidInputError, match=f"kubeconfig: {named}"):
        kube.Connection(server.kubeconfig, None)


def test_a_kind_that_is_not_installed_has_no_objects(server: Server, lists: Callable[[], kube.Lists]) -> None:
    server.answers = [status(404)]
    assert lists()("/apis/example.com/v1/things", name_of) == []


def test_a_server_without_what_every_cluster_has_is_the_wrong_one(
    server: Server, lists: Callable[[], kube.Lists]
) -> None:
    server.answers = [status(404, "not found")]
    with pytest.raises(errors.PermanentError, match=f"GET {PATH}: 404: 'not found': .*is the server the right one"):
        lists()(PATH, name_of)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html>Please log in</html>", "the answer is no JSON object: b'<html>Please log in</html>': is the server"),
        (b"", "the answer is no JSON object: b'': is the server"),
        (b"[]", "the answer is no JSON object"),
        (b"{}", "the answer is no list: is the server the right one"),
        (b'{"items": {"a": 1}}', "the answer is no list"),
        (b'{"items": ["a"]}', "the answer is no list"),
    ],
)
def test_an_answer_that_is_no_list_is_not_an_empty_cluster(
    server: Server, lists: Callable[[], kube.Lists], body: bytes, said: str
) -> None:
    server.answers = [(200, body)]
    with pytest.raises(errors.PermanentError, match=f"GET {PATH}: {said}"):
        lists()(PATH, name_of)


def test_a_list_that_the_server_writes_as_null_is_empty(server: Server, lists: Callable[[], kube.Lists]) -> None:
    server.answers = [(200, b'{"kind": "PodList", "items": null}')]
    assert lists()(PATH, name_of) == []


def test_a_refusal_that_is_no_json_is_told_as_it_is(server: Server, lists: Callable[[], kube.Lists]) -> None:
    server.answers = [(502, b"<html>Bad Gateway</html>")]
    with pytest.raises(errors.TemporaryError, match=r"502: .*Bad Gateway"):
        lists()(PATH, name_of)


def test_a_list_that_expired_between_its_pages_is_read_again_from_the_first(
    server: Server, lists: Callable[[], kube.Lists]
) -> None:
    server.answers = [page("a", "b", following="x"), status(410), page("a"), page()]
    assert lists()(PATH, name_of) == ["a"]


def test_a_list_that_expires_again_and_again_is_given_up(server: Server, lists: Callable[[], kube.Lists]) -> None:
    server.answers = [status(410)] * 3
    with pytest.raises(errors.PermanentError, match="expired 3 times"):
        lists()(PATH, name_of)


def test_who_may_not_read_is_told_which_role_does(server: Server, lists: Callable[[], kube.Lists]) -> None:
    server.answers = [status(403, "pods is forbidden")]
    with pytest.raises(errors.PermanentError, match=r"pods is forbidden.*cotenant-viewer"):
        lists()(PATH, name_of)


def test_whose_credentials_are_not_known_is_told_to_log_in(server: Server, lists: Callable[[], kube.Lists]) -> None:
    server.answers = [status(401, "Unauthorized")]
    with pytest.raises(errors.PermanentError, match=r"Unauthorized.*: log in again"):
        lists()(PATH, name_of)


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
def test_a_server_that_cannot_answer_now_is_worth_asking_again(
    server: Server, lists: Callable[[], kube.Lists], code: int
) -> None:
    server.answers = [status(code, "too busy")]
    with pytest.raises(errors.TemporaryError, match=f"GET {PATH}: {code}: 'too busy'"):
        lists()(PATH, name_of)


def test_a_request_that_is_wrong_is_not_worth_repeating(server: Server, lists: Callable[[], kube.Lists]) -> None:
    server.answers = [status(400, "no such field")]
    with pytest.raises(errors.PermanentError, match="no such field"):
        lists()(PATH, name_of)


def test_a_silent_server_is_waited_for_once_and_for_as_long_as_is_told(server: Server) -> None:
    config = yaml.safe_load(server.kubeconfig.read_text())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config["clusters"][0]["cluster"]["server"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        server.kubeconfig.write_text(yaml.safe_dump(config))
        with pytest.raises(errors.TemporaryError, match=rf"GET {PATH}: no answer within 0\.05 s: look whether"):
            kube.Lists(server.kubeconfig, None, patience=lambda: 0.05)(PATH, name_of)
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()


def test_a_context_that_is_not_there_is_refused(server: Server) -> None:
    kube.Lists(server.kubeconfig, "there")
    with pytest.raises(errors.InvalidInputError, match=r"--context: 'elsewhere'.*get-contexts"):
        kube.Lists(server.kubeconfig, "elsewhere")


def test_a_kubeconfig_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"--kubeconfig"):
        kube.Lists(tmp_path / "missing", None)


def test_an_object_that_is_nested_too_deep_hides_no_other(server: Server, lists: Callable[[], kube.Lists]) -> None:
    deep = b'{"metadata":{"name":"deep"},"spec":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}"
    server.answers = [(200, b'{"items":[' + deep + b',{"metadata":{"name":"b"}}],"metadata":{}}')]
    assert lists()(PATH, name_of) == ["deep", "b"]
