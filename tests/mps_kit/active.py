"""What NVIDIA's program of a real driver answered about a server that was ACTIVE, word for word, and how to ask again.

The other recordings of `answers` have no such server: it needs a GPU. These come from results of `e2e/gpu`.
"""

import json
import re
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mps_kit import session

RESULTS: Final = Path(__file__).parents[2] / "e2e" / "gpu" / "results" / "NVIDIA-H200" / "behaviour"
ACTIVE: Final = "a server is ACTIVE and has two clients"
AT_FAULT: Final = "a client of the server has caused a fatal fault"
ENDING: Final = "a client of the server is ended"
SET: Final = "the server was started by a daemon with defaults of 50 % and 4096M"
_NAMES: Final = {
    "serverList": "get_server_list",
    "serverStatus": "get_server_status SERVER",
    "clientList": "get_client_list SERVER",
    "percentage": "get_active_thread_percentage SERVER",
    "defaultPercentage": "get_default_active_thread_percentage",
    "memory": "get_device_pinned_mem_limit SERVER 0",
    "defaultMemory": "get_default_device_pinned_mem_limit 0",
    "deviceClients": "get_device_client_list",
    "processes": "ps",
    "unknownServer": "get_server_status 999999",
    "unknownClient": "terminate_client SERVER 999999",
    "unknownCommand": "get_colour",
}
"""The commands behind the names of `e2e/gpu/product.py`."""
_GPU = re.compile(r"GPU-[0-9a-f-]+")
_NAMESPACE = re.compile(r"\b\d{10}\b")


def from_results(folder: Path = RESULTS) -> dict[str, Any]:
    """Return the recording that the campaign's results hold."""
    by_name = {each["experiment"]["name"]: each for each in _results(folder) if each.get("experiment")}
    asked, limits = by_name["agent-mps"], by_name["environment"]
    seen = _record(asked, "word for word")
    state = {"server": seen["described"]["servers"][0], "clients": seen["described"]["clients"]}
    answers = [_exchange(ACTIVE, _NAMES[name], seen["answers"][name]) for name in _NAMES]
    percentage, memory = _record(limits, "defaults")
    fault = _record(by_name["fault"], "logs")["control.log"]
    (said,) = re.findall(r"Cmd:get_server_status \d+\n\[[^]]*\] (FAULT)\n", fault)
    (ended,) = by_name["kill-terminated"]["experiment"]["answers"]["terminateAnswers"]
    more = [
        _exchange(SET, "get_default_active_thread_percentage", percentage),
        _exchange(SET, "get_default_device_pinned_mem_limit 0", memory),
        _exchange(SET, "set_active_thread_percentage SERVER 80", _record(limits, "set on a live server")),
        _exchange(AT_FAULT, "get_server_status SERVER", f"{said}\n"),
        _exchange(ENDING, "terminate_client SERVER CLIENT", f"{ended}\n"),
    ]
    return {"driver": asked["environment"]["driver"], **state, "exchanges": [*answers, *more], "fatal": seen["fatal"]}


def kept(driver: str) -> dict[str, Any]:
    """Return the recording of one driver, by its whole version."""
    found: dict[str, Any] = json.loads((session.ANSWERS / f"{driver}-active.json").read_text())
    return found


def drivers() -> tuple[str, ...]:
    """Return the versions of which there is such a recording."""
    return tuple(path.name.removesuffix("-active.json") for path in sorted(session.ANSWERS.glob("*-active.json")))


def in_state(recording: Mapping[str, Any], state: str) -> dict[str, str]:
    """Return the answers of one state, by command."""
    return {each["command"]: each["output"] for each in recording["exchanges"] if each["state"] == state}


def plain(text: str, *, server: int, clients: Sequence[int]) -> str:
    """Return an answer without what differs from host to host: PIDs, the GPU's UUID, the PID namespace, a program.

    Spaces that fill a column stay, so that columns are compared, too.
    """
    names = {str(server): "SERVER", **{str(pid): f"CLIENT{number}" for number, pid in enumerate(clients)}}

    def filled(found: re.Match[str]) -> str:
        name = names.get(found[1])
        return found[0] if name is None else name if not found[2] else name.ljust(len(found[0]))

    text = re.sub(r"\b(\d+)\b( *)", filled, text)
    text = _GPU.sub(lambda found: "GPU-UUID".ljust(len(found[0]), "x"), text)
    text = _NAMESPACE.sub("NAMESPACE.", text)
    return re.sub(r"(?m)/\S+$", "/PROGRAM", text)


def _exchange(state: str, command: str, output: str) -> dict[str, str]:
    return {"state": state, "command": command, "output": output}


def _results(folder: Path) -> list[dict[str, Any]]:
    found = []
    for archive in sorted(folder.glob("campaign-*.tar.gz")):
        with tarfile.open(archive) as files:
            for member in files.getmembers():
                file = files.extractfile(member) if member.name.startswith("results/") else None
                if file is not None:
                    found.append(json.load(file))
    return found


def _record(result: Mapping[str, Any], what: str) -> Any:
    (found,) = (each["content"] for each in result["experiment"]["records"] if each["what"] == what)
    return found


def main() -> None:
    """`python -m mps_kit.active`: keep what the results hold."""
    recording = from_results()
    path = session.ANSWERS / f"{recording['driver']}-active.json"
    path.write_text(f"{json.dumps(recording, indent=1)}\n")


if __name__ == "__main__":
    main()
