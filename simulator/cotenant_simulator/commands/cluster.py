"""`cotenant simulate cluster`: what a changed policy would do on a cluster, or what Cotenant would save on another."""

import argparse
import functools
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cotenant_api import errors
from cotenant_simulator.commands import output, seeds
from cotenant_simulator.commands import snapshot as taking

if TYPE_CHECKING:
    from cotenant_api.packingpolicy import PackingPolicy
    from cotenant_simulator.cluster import cases, drawing, replay
    from cotenant_simulator.live import snapshot

SECTION: Final = "cotenant simulate cluster"
"""What names the section of a page that `--write` replaces, of a cluster on which Cotenant packs."""
SAVINGS: Final = f"{SECTION}, without Cotenant"
"""The same of another."""

SUMMARY = "what a proposed PackingPolicy would change on your cluster, or what Cotenant would save on one without"

IN_FORCE: Final = "in force"
PROPOSED: Final = "proposed"
WHOLE: Final = "whole GPUs, as now"
COTENANT: Final = "with Cotenant"
_POLICY: Final = "--policy"
_SNAPSHOT: Final = "--snapshot"


class _Key(NamedTuple):
    level: float | None
    plan: "replay.Plan"
    seed: int

    @property
    def name(self) -> str:
        assumed = "" if self.level is None else f", {self.level:.0f} % assumed"
        return f"{self.plan.name}{assumed}, seed {self.seed}"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the experiment's arguments."""
    parser.add_argument(
        _SNAPSHOT, type=Path, metavar="FILE", help="what `cotenant snapshot` wrote; default: the cluster itself"
    )
    parser.add_argument(
        _POLICY,
        type=Path,
        metavar="FILE",
        help="the proposed PackingPolicy; default, on a cluster that does not share GPUs: the one that ships",
    )
    parser.add_argument("--seeds", default="0-4", metavar="LIST", help="such as 0-4 or 1,7 (default: 0-4)")
    parser.add_argument(
        "--model", type=Path, metavar="DIR", help="what `cotenant train` wrote there; default: the model that ships"
    )
    taking.configure_source(parser)
    output.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replay under both policies; the cluster is only read."""
    from cotenant_simulator.cluster import cases, replay, report, savings

    chosen = seeds.read(arguments.seeds)
    proposed = _proposed(arguments.policy)
    whole, source = _snapshot(arguments)
    plans = _plans(whole, proposed, arguments)
    section = SECTION if plans[0].shares else SAVINGS
    output.require(arguments, section=section)
    nodes = replay.nodes_of(whole)
    if not nodes:
        raise errors.InvalidInputError(source, 0, "has no GPU that takes pods: there is nothing to simulate")
    found, window = _window(cases.of(whole), whole, hours=arguments.hours)
    if not found:
        raise errors.InvalidInputError(source, 0, f"has no job of the last {arguments.hours} hours: name more --hours")
    levels: Sequence[float | None] = (None,)
    if not plans[0].shares and savings.unknown(found):
        levels = savings.ASSUMED_PERCENTS
    setting = functools.partial(replay.Setting, nodes=nodes, found=found, window=window, model=arguments.model)
    keys = [_Key(level, plan, seed) for level in levels for plan in plans for seed in chosen]
    results = _results(keys, setting, arguments)
    by_level = {level: (results[level, plans[0].name], results[level, plans[1].name]) for level in levels}
    before, after = by_level[levels[-1]]
    asked = report.Asked(
        whole=whole,
        source=source,
        found=found,
        window=window,
        before=before,
        after=after,
        command=_command(arguments),
    )
    shown = report.made(asked) if plans[0].shares else savings.made(asked, by_level)
    output.emit(shown, arguments, section=section)
    return 0


def _results(
    keys: "Sequence[_Key]", setting: "functools.partial[replay.Setting]", arguments: argparse.Namespace
) -> "dict[tuple[float | None, str], list[replay.Result]]":
    """By level and plan, seed by seed. The history of the first seed is kept, of the level that is shown."""
    from cotenant_simulator.cluster import replay

    kept = {(key.plan.name): key for key in reversed(keys) if key.level == keys[-1].level}
    tasks = [
        functools.partial(
            replay.run,
            key.plan,
            setting(seed=key.seed, assumed_percent=key.level, keep=kept[key.plan.name] is key),
        )
        for key in keys
    ]
    names = [key.name for key in keys]
    found: dict[tuple[float | None, str], list[replay.Result]] = {}
    for key, result in zip(keys, output.runs(tasks, arguments, title=SECTION, names=names), strict=True):
        found.setdefault((key.level, key.plan.name), []).append(result)
    return found


def _plans(
    whole: "snapshot.Snapshot", proposed: "PackingPolicy | None", arguments: argparse.Namespace
) -> "Sequence[replay.Plan]":
    from cotenant_api import packingpolicy
    from cotenant_simulator.cluster import proposal, replay

    now = whole.policy
    packs = now is not None and now.spec.mode is packingpolicy.Mode.PACK
    if proposed is None and packs:
        raise errors.InvalidInputError(_POLICY, None, "name the file of the PackingPolicy that is proposed")
    then = proposed or packingpolicy.PackingPolicy(generation=0, spec=packingpolicy.Spec())
    proposal.require_simulated(then, field=str(arguments.policy or _POLICY))
    if now is not None and packs:
        running = now.model_copy(update={"spec": now.spec.model_copy(update={"paused": False})})
        return (replay.Plan(name=IN_FORCE, policy=running), replay.Plan(name=PROPOSED, policy=then))
    return (replay.Plan(name=WHOLE, policy=None), replay.Plan(name=COTENANT, policy=then))


def _proposed(path: Path | None) -> "PackingPolicy | None":
    from cotenant_simulator.cluster import proposal

    return None if path is None else proposal.read(_text(path, field=_POLICY), source=str(path))


def _snapshot(arguments: argparse.Namespace) -> "tuple[snapshot.Snapshot, str]":
    """Return the snapshot, and where it is from."""
    from cotenant_simulator.live import snapshot

    path = arguments.snapshot
    if path is None:
        return taking.of_cluster(arguments), f"cluster of context {arguments.context or 'in use'}"
    for option in ("context", "kubeconfig"):
        if getattr(arguments, option) is not None:
            raise errors.InvalidInputError(f"--{option}", getattr(arguments, option), f"leave it out with {_SNAPSHOT}")
    found = snapshot.Snapshot.from_json(_text(path, field=_SNAPSHOT), source=str(path))
    snapshot.require_whole(found, source=str(path))
    return taking.with_usage(found, arguments), path.name


def _text(path: Path, *, field: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidInputError(field, str(path), f"cannot be read: {error}") from error


def _window(
    found: "Sequence[cases.Case]", whole: "snapshot.Snapshot", *, hours: int
) -> "tuple[tuple[cases.Case, ...], drawing.Window]":
    """Return the jobs of the last so many hours."""
    from cotenant_simulator.cluster import drawing

    if hours < 1:
        raise errors.InvalidInputError("--hours", hours, "must be at least 1")
    try:
        begin = whole.taken - timedelta(hours=hours)
    except OverflowError as error:
        raise errors.InvalidInputError("--hours", hours, "reaches back before the year 1: name fewer hours") from error
    first = min((case.arrived for case in found), default=begin)
    window = drawing.Window(begin=min(max(begin, first), whole.taken), taken=whole.taken)
    return drawing.inside(found, window), window


def _command(arguments: argparse.Namespace) -> str:
    """Return the call, without where files lie and how fast it is done."""
    options = [f"{option} {path.name}" for option, path in _files(arguments) if path is not None]
    if arguments.prometheus is not None:
        options.append(f"--prometheus {'URL' if '://' in arguments.prometheus else Path(arguments.prometheus).name}")
    return " ".join([SECTION, *options, f"--seeds {arguments.seeds}"])


def _files(arguments: argparse.Namespace) -> Sequence[tuple[str, Path | None]]:
    return ((_SNAPSHOT, arguments.snapshot), (_POLICY, arguments.policy), ("--model", arguments.model))
