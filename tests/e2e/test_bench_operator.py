"""What the operator's benchmark makes of what it has measured."""

import json
from pathlib import Path

import pytest

from cotenant_e2e import audit
from cotenant_e2e.benchmark.dljobs import crowd, finished, objects, results, tables


def entry(verb: str, resource: str, name: str, *, stage: str = "ResponseComplete", subresource: str = "") -> str:
    subject = {"resource": resource, "namespace": "a", "name": name} | (
        {"subresource": subresource} if subresource else {}
    )
    return json.dumps(
        {
            "stage": stage,
            "user": {"username": "system:serviceaccount:a:b"},
            "verb": verb,
            "requestURI": "/x",
            "objectRef": subject,
            "responseStatus": {"code": 200},
            "stageTimestamp": "2026-01-01T00:00:01.500000Z",
        }
    )


def log(folder: Path, *lines: str) -> Path:
    path = folder / "audit.log"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def at_once(seconds: float = 30.0) -> results.AtOnce:
    span = crowd.Span(seconds=seconds, cpu_seconds={"cotenant-operator": 2.0, "kwok": 0.5}, requests={crowd.STATUS: 9})
    requests = {"create jobs": 10, crowd.STATUS: 40}
    found = crowd.Crowd(
        jobs=10,
        gated=span,
        placed_seconds=5,
        running=span,
        settled=span,
        requests=requests,
        most_for_one=8,
        peak_mib=200,
    )
    return results.AtOnce(nodes=2, crowd=found)


def at_rest(requests: int = 1) -> results.AtRest:
    found = finished.Finished(
        jobs=100,
        start_seconds=3,
        start_cpu_seconds=2,
        start_requests={"list dljobs": 20},
        rss_mib=100,
        peak_mib=120,
        idle_seconds=60,
        cpu_seconds=0.3,
        api_server_cpu_seconds=1,
        requests={"watch pods": requests},
    )
    return results.AtRest(nodes=2, lately=3, finished=found)


def test_requests_are_read_with_their_subresource(tmp_path: Path) -> None:
    (found,) = audit.of(log(tmp_path, entry("patch", "dljobs", "train", subresource="status")))
    assert (found.what, found.namespace, found.name, found.code) == ("patch dljobs/status", "a", "train", 200)


def test_a_watch_counts_when_it_begins(tmp_path: Path) -> None:
    lines = [entry("watch", "pods", "", stage=stage) for stage in ("ResponseStarted", "ResponseComplete")]
    assert audit.counted(audit.of(log(tmp_path, *lines))) == {"watch pods": 1}


def test_a_line_that_is_being_written_is_left_for_later(tmp_path: Path) -> None:
    path = log(tmp_path, entry("create", "jobs", "train-1"))
    path.write_text(path.read_text() + '{"stage": "Resp')
    assert len(audit.of(path)) == 1


def test_requests_before_a_place_in_the_log_are_left_out(tmp_path: Path) -> None:
    path = log(tmp_path, entry("create", "jobs", "train-1"))
    assert audit.of(path, since_bytes=audit.size(path)) == []


def test_requests_for_a_job_and_its_events_count_for_its_dljob(tmp_path: Path) -> None:
    path = log(
        tmp_path,
        entry("create", "jobs", "job-00001-1"),
        entry("create", "events", "job-00001.abc"),
        entry("patch", "dljobs", "job-00001", subresource="status"),
        entry("patch", "dljobs", "job-00002", subresource="status"),
        entry("get", "configmaps", "graph"),
    )
    assert crowd.most_for_one(audit.of(path)) == 3


def test_a_figure_beyond_its_bar_stands_out() -> None:
    assert "**61.0 s**" in "\n".join(tables.at_once(at_once(seconds=61.0)))
    assert "**" not in "\n".join(tables.at_once(at_once()))
    assert "**11.0**" in "\n".join(tables.at_rest(at_rest(requests=11)))
    assert "**" not in "\n".join(tables.at_rest(at_rest()))


def test_requests_at_rest_are_counted_with_what_each_is_for() -> None:
    page = tables.at_rest(at_rest())
    assert (
        "| `watch pods` | 1 | a watch begins anew every 5 minutes, and where nothing was heard of it for 75 s |" in page
    )
    assert "until it was at rest it asked: 20 `list dljobs`." in "\n".join(page)


@pytest.mark.parametrize("measured", [at_once(), at_rest()])
def test_what_is_printed_as_json_has_each_figure(measured: results.AtOnce | results.AtRest) -> None:
    document = json.loads(json.dumps(measured.to_object()))
    assert len(document["figures"]) == len(measured.figures())
    assert all(figure["holds"] for figure in document["figures"])


def test_dljobs_are_spread_over_namespaces_and_graphs() -> None:
    made = list(objects.dljobs(100))
    assert len({path for path, _ in made}) == len(objects.NAMESPACES)
    assert {body["spec"]["model"]["configMapRef"]["name"] for _, body in made} == set(objects.GRAPHS)
