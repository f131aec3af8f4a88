"""`cotenant profile`: measure jobs on a GPU, alone and together, and make measurement documents of the results.

`run`, `pack` and `graphs` are those of `python -m cotenant_predictor.profiling`, which needs nothing else of the
project; `collect` and `plot` read what was measured, on any machine.
"""

import argparse
import csv
import gzip
import io
import json
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant_api import errors

if TYPE_CHECKING:
    from cotenant_api.graph import Graph
    from cotenant_predictor.profiling.store import Store

SUMMARY = "measure jobs on a GPU, alone and together"
EXAMPLES = """\
examples: cotenant profile graphs --set smoke --output graphs/
          cotenant profile collect measured/*.tar.gz graphs/ --output measured/
          cotenant profile plot measured/
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    from cotenant_predictor.profiling import command

    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, (summary, add, _) in command.COMMANDS.items():
        add(actions.add_parser(name, help=summary, description=summary))
    text = "make measurement documents, with the graphs, of a campaign's results"
    collect = actions.add_parser("collect", help=text, description=text)
    collect.add_argument(
        "sources", nargs="+", type=Path, metavar="SOURCE", help="campaign folders, or archives of them"
    )
    collect.add_argument("--output", type=Path, required=True, metavar="DIR", help="gets data/ and report/")
    text = "slowdown of every tenant against the predicted utilization of all, as data and as a picture"
    plot = actions.add_parser("plot", help=text, description=text)
    plot.add_argument("folder", type=Path, metavar="DIR", help="what collect wrote")
    plot.add_argument(
        "--predictions", type=Path, metavar="FILE", help="lines of `cotenant predict`; default: the formula"
    )


def run(arguments: argparse.Namespace) -> int:
    """Do the action."""
    from cotenant_predictor.profiling import command

    if arguments.action == "collect":
        return _collect(arguments.sources, arguments.output)
    if arguments.action == "plot":
        return _plot(arguments.folder, arguments.predictions)
    try:
        return command.COMMANDS[arguments.action][2](arguments)
    except command.UsageError as error:
        raise errors.PermanentError(str(error)) from error


def _collect(sources: Iterable[Path], output: Path) -> int:
    """Measurements and graphs in `data`, ready for `cotenant train` and `evaluate`; everything else in `report`."""
    from cotenant_api import documents
    from cotenant_api.measurement import Measurement
    from cotenant_predictor.profiling import measurements, observations

    with tempfile.TemporaryDirectory() as folder:
        results, graphs = _read(sources, Path(folder))
    digests = {job: graph.digest for job, graph in graphs.items()}
    try:
        lines = measurements.lines(results, digests)
    except measurements.MissingGraphError as error:
        raise errors.PermanentError(str(error)) from error
    for line in (*lines.measurements, *lines.requests):
        Measurement.from_object(line, source=line["id"])
    measured = {line["graph"] for line in (*lines.measurements, *lines.requests)}
    _write_lines(output / "data" / "measurements.jsonl.gz", [documents.canonical(line) for line in lines.measurements])
    kept = [graph.to_json() for _, graph in sorted(graphs.items()) if graph.digest in measured]
    _write_lines(output / "data" / "graphs.jsonl.gz", kept)
    _write_lines(output / "report" / "requests.jsonl.gz", [documents.canonical(line) for line in lines.requests])
    _write_json(output / "report" / "observations.json", observations.rows(results))
    _write_json(output / "report" / "summary.json", _summary(results, measurements.noise_floor(results)))
    print(f"{len(results)} runs: {len(lines.measurements)} measurements, {len(lines.requests)} of requests")
    return 0


def _read(sources: Iterable[Path], folder: Path) -> "tuple[list[dict[str, Any]], dict[str, Graph]]":
    from cotenant_api.graph import Graph
    from cotenant_predictor.profiling import store

    results: dict[str, dict[str, Any]] = {}
    graphs: dict[str, Graph] = {}
    try:
        for place, found in _stores(sources, folder):
            results.update({result["id"]: result for result in found.results()})
            for job, graph in found.graphs().items():
                graphs[job] = Graph.from_object(graph, source=f"{place}: {job}").sealed()
    except store.StoreError as error:
        raise errors.PermanentError(str(error)) from error
    kinds = {(result["gpuModel"], result["simulated"]) for result in results.values()}
    if len({simulated for _, simulated in kinds}) > 1:
        raise errors.InvalidInputError("SOURCE", sorted(kinds), "holds simulated and measured runs: collect each alone")
    if not results:
        raise errors.InvalidInputError("SOURCE", [str(source) for source in sources], "holds no result")
    return list(results.values()), graphs


def _stores(sources: Iterable[Path], folder: Path) -> "Iterable[tuple[Path, Store]]":
    """Results of equal name are of the same run: the last one counts."""
    from cotenant_predictor.profiling import store

    for index, source in enumerate(sources):
        if not source.exists():
            raise errors.InvalidInputError("SOURCE", str(source), "is neither a campaign's folder nor an archive")
        if source.is_dir():
            yield source, store.Store(source)
        else:
            unpacked = store.Store(folder / str(index))
            store.unpack([source], unpacked)
            yield source, unpacked


def _summary(results: Iterable[Mapping[str, Any]], noise: Mapping[str, float] | None) -> dict[str, Any]:
    """Count runs by stage, mechanism and outcome, which are never pooled; add the noise floor."""
    counts: dict[str, int] = {}
    for result in results:
        key = f"{result['run']['stage']} {result['run']['mechanism']} {result['outcome']}"
        counts[key] = counts.get(key, 0) + 1
    return {"runs": dict(sorted(counts.items())), "noiseFloor": noise}


def _plot(folder: Path, predictions: Path | None) -> int:
    from cotenant_api.graph import Graph
    from cotenant_predictor.datasets import files
    from cotenant_predictor.profiling import slowdowns

    if not (folder / "data").is_dir():
        raise errors.InvalidInputError("DIR", str(folder), "holds no data/: give what `cotenant profile collect` wrote")
    found = list(files.documents_in([folder / "data"]))
    lines = [content.value for _, content in found if files.is_measurement(content.value)]
    graphs = [Graph.read(content.text, source=place) for place, content in found if files.is_graph(content.value)]
    models = sorted({line["gpuModel"] for line in lines})
    rows = [
        row
        for model in models
        for row in slowdowns.rows(
            [line for line in lines if line["gpuModel"] == model], _utilization(graphs, model, predictions)
        )
    ]
    if not rows:
        raise errors.InvalidInputError("DIR", str(folder), "holds no run of several jobs that are predicted")
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    _write(folder / "report" / "slowdowns.csv", buffer.getvalue().encode())
    for suffix in ("svg", "png"):
        _draw(rows, folder / "report" / f"slowdowns.{suffix}")
        print(f"wrote {folder / 'report' / 'slowdowns'}.{suffix}", flush=True)
    return 0


def _utilization(graphs: "list[Graph]", model: str, predictions: Path | None) -> dict[str, float]:
    """Predicted percent by graph, on this GPU model."""
    from cotenant_api.names import GPUModel
    from cotenant_api.prediction import Prediction
    from cotenant_predictor import devices
    from cotenant_predictor.jobs import prediction

    if predictions is None:
        gpus = devices.select([model])
        every = [prediction.predict(graph, gpus) for graph in graphs]
    else:
        text = predictions.read_text(encoding="utf-8").splitlines()
        every = [Prediction.from_json(line, source=f"{predictions}:{n}") for n, line in enumerate(text, 1)]
    name = GPUModel(model)
    return {one.graph: one.by_gpu[name].utilization.q50 for one in every if name in one.by_gpu}


def _draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw a panel for each mechanism; hollow where a job had fewer threads than all."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mechanisms = sorted({row["mechanism"] for row in rows})
    figure = Figure(figsize=(1 + 4.4 * len(mechanisms), 4.2), layout="constrained")
    figure.suptitle(f"Slowdown beside others{', SIMULATED' if rows[0]['simulated'] else ''}", fontsize=12)
    axes = figure.subplots(1, len(mechanisms), sharey=True, squeeze=False)
    for axis, mechanism in zip(axes[0], mechanisms, strict=True):
        for tenants, limited in sorted({(row["tenants"], row["limited"]) for row in rows}):
            kind = (mechanism, tenants, limited)
            own = [row for row in rows if (row["mechanism"], row["tenants"], row["limited"]) == kind]
            colour = f"C{tenants - 2}"
            axis.scatter(
                [row["summedUtilizationPercent"] for row in own],
                [100 * row["slowdown"] for row in own],
                s=18,
                facecolors="none" if limited else colour,
                edgecolors=colour,
                label=f"{tenants} jobs{', threads limited' if limited else ''}",
            )
        axis.set(title=mechanism, xlabel="sum of predicted utilization, %")
    axes[0][0].set_ylabel("slowdown: (T beside - T alone) / T alone, %")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False)
    buffer = io.BytesIO()
    form = path.suffix[1:]
    with mpl.rc_context({"svg.hashsalt": "cotenant"}):
        figure.savefig(buffer, format=form, dpi=120, metadata={"Date" if form == "svg" else "Software": None})
    _write(path, buffer.getvalue())


def _write_lines(path: Path, lines: list[str]) -> None:
    _write(path, gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))


def _write_json(path: Path, value: Any) -> None:
    _write(path, json.dumps(value, indent=1, sort_keys=True).encode() + b"\n")


def _write(path: Path, data: bytes) -> None:
    from cotenant_api import files

    files.replace(path, data, field="--output")
