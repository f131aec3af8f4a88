"""What monitoring says of pods, from answers of a real small HTTP server."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from cotenant_api import errors
from cotenant_simulator.live import dcgm, prometheus

Series = tuple[dict[str, str], list[float]]
OWNER = {"namespace": "team", "pod": "a", "container": "main", "gpu": "0", "UUID": "GPU-1", "modelName": "NVIDIA A10"}
RENAMED = {
    "namespace": "gpu-operator",
    "pod": "nvidia-dcgm-exporter-x",
    "exported_namespace": "team",
    "exported_pod": "a",
    "gpu": "1",
}


def vector(*series: Series) -> dict[str, Any]:
    """An answer of `/api/v1/query`, in the shape that Prometheus gives it."""
    result = [{"metric": labels, "value": [1769860800.0, str(values[0])]} for labels, values in series]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def matrix(*series: Series) -> dict[str, Any]:
    """An answer of `/api/v1/query_range`."""
    result = [
        {"metric": labels, "values": [[1769860800.0 + number, str(value)] for number, value in enumerate(values)]}
        for labels, values in series
    ]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


@pytest.fixture
def server() -> Iterator[Callable[[dict[str, Any]], str]]:
    """Starts a server that answers each metric; its URL. It keeps what it was asked."""
    started: list[ThreadingHTTPServer] = []

    def start(answers: dict[str, Any], asked: list[tuple[str, str, str]] | None = None) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = parse_qs(parts.query)["query"][0]
                if asked is not None:
                    asked.append((parts.path, query, self.headers.get("Authorization", "")))
                status, body = next((found for name, found in answers.items() if name in query), (200, vector()))
                text = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ARG002 -- the base class names it so
                return

        httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        started.append(httpd)
        return f"http://127.0.0.1:{httpd.server_address[1]}"

    yield start
    for httpd in started:
        httpd.shutdown()
        httpd.server_close()


def test_each_metric_is_asked_for_once_and_usage_is_what_is_answered(server: Callable[..., str]) -> None:
    asked: list[tuple[str, str, str]] = []
    answers = {
        dcgm.UTILIZATION: (200, vector((OWNER, [37.5]))),
        dcgm.MEMORY: (200, vector((OWNER, [5123.2]))),
        dcgm.SM_ACTIVE: (200, vector((OWNER, [0.21]))),
    }
    url = server(answers, asked)
    (found,) = dcgm.usage(prometheus.answers(f"{url}/prom/", seconds=3600, token="t"), source="--prometheus")
    assert (found.namespace, found.pod, found.utilization_percent) == ("team", "a", 37.5)
    assert (found.sm_activity_percent, found.dram_activity_percent, found.memory_peak_mib) == (21.0, None, 5124)
    assert {path for path, _, _ in asked} == {"/prom/api/v1/query"}
    assert {token for _, _, token in asked} == {"Bearer t"}
    assert f"max_over_time({dcgm.MEMORY}[3600s])" in [query for _, query, _ in asked]
    assert len(asked) == len(dcgm.METRICS)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((403, {"error": "forbidden"}), errors.PermanentError),
        ((500, b"oops"), errors.PermanentError),
        ((200, b"<html>"), errors.PermanentError),
        ((200, {"status": "error", "error": "bad query"}), errors.InvalidInputError),
    ],
)
def test_what_is_no_answer_is_refused(
    server: Callable[..., str], answer: tuple[int, Any], error: type[errors.CotenantError]
) -> None:
    with pytest.raises(error, match=r"--prometheus"):
        dcgm.usage(prometheus.answers(server({dcgm.ENGINE: answer}), seconds=60), source="--prometheus")


def test_a_server_that_is_not_there_may_be_there_later(server: Callable[..., str]) -> None:
    with pytest.raises(errors.TemporaryError, match="gave no answer"):
        prometheus.answers("http://127.0.0.1:1", seconds=60)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "https://",
        "x://y",
        "http://:9090",
        "http://[::1",
        "http://h:abc",
        "http://h:99999",
        "http://a b/",
        "http://h/a b",
        "http://h..x",
        "http://h\r\nX: y",
    ],
)
def test_what_is_no_url_of_http_is_refused(url: str) -> None:
    with pytest.raises(errors.InvalidInputError, match="must be a URL"):
        prometheus.answers(url, seconds=60)


def test_labels_that_prometheus_renamed_are_those_of_the_pod() -> None:
    (found,) = dcgm.usage({dcgm.UTILIZATION: vector((RENAMED, [10]))}, source="s")
    assert (found.namespace, found.pod) == ("team", "a")


def test_engine_activity_is_preferred_to_sampled_utilization() -> None:
    answers = {dcgm.UTILIZATION: vector((OWNER, [90])), dcgm.ENGINE: vector((OWNER, [0.5]))}
    assert [one.utilization_percent for one in dcgm.usage(answers, source="s")] == [50.0]


def test_a_pod_with_several_gpus_is_their_mean_and_the_peak_of_one() -> None:
    other = OWNER | {"gpu": "1"}
    answers = {
        dcgm.UTILIZATION: matrix((OWNER, [10, 30]), (other, [60, 60])),
        dcgm.MEMORY: matrix((OWNER, [100, 900]), (other, [500, 500])),
    }
    (found,) = dcgm.usage(answers, source="s")
    assert (found.utilization_percent, found.memory_peak_mib) == (40.0, 900)


def test_gpus_that_nobody_had_and_values_that_are_none_say_nothing() -> None:
    idle = {"gpu": "0", "UUID": "GPU-1", "namespace": "", "pod": ""}
    answers = {dcgm.UTILIZATION: vector((idle, [50]), (OWNER, [float("nan")]))}
    assert dcgm.usage(answers, source="s") == ()


@pytest.mark.parametrize(
    ("answers", "path"),
    [
        ({"DCGM_FI_DEV_GPU_TEMP": vector()}, "must be one of"),
        ({dcgm.MEMORY: vector()}, "must hold an answer for"),
        ({dcgm.UTILIZATION: {}}, f"s.{dcgm.UTILIZATION}"),
        ({dcgm.UTILIZATION: {"status": "success", "data": {"result": [{"metric": {}}]}}}, r"data.result\[0\]"),
        ({dcgm.UTILIZATION: vector(({"namespace": "n", "pod": ["a"]}, [1]))}, r"data.result\[0\].*must be texts"),  # type: ignore[dict-item]
        ({dcgm.UTILIZATION: vector((OWNER | {"pod": "p" * 300}, [1]))}, r"\.pod: .*at most 253 characters"),
        (
            {dcgm.UTILIZATION: vector((OWNER, [1])), dcgm.MEMORY: vector((OWNER, [-5]))},
            r"s\['team/a'\]\.memoryPeakMiB: -5",
        ),
    ],
)
def test_a_saved_answer_of_another_shape_is_refused_with_its_path(answers: dict[str, Any], path: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=path):
        dcgm.usage(answers, source="s")


def test_saved_answers_are_one_json_object(tmp_path: Path) -> None:
    file = tmp_path / "answers.json"
    file.write_text(json.dumps({dcgm.UTILIZATION: vector((OWNER, [10]))}))
    assert dcgm.usage(prometheus.saved(file), source=str(file))[0].pod == "a"
    file.write_text("[]")
    with pytest.raises(errors.InvalidInputError, match="must be a JSON object"):
        prometheus.saved(file)
    with pytest.raises(errors.InvalidInputError, match="cannot be read"):
        prometheus.saved(tmp_path / "missing")
