"""`cotenant submit`: from a model to an applied DLJob; `--dry-run`: what it will need, and cost."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cotenant_api import errors, terminal
from cotenant_api.choices import Sharing, WorkloadType
from cotenant_cli.commands import output
from cotenant_cli.submitting import graphs, scripts

if TYPE_CHECKING:
    from cotenant_api.graph import Graph
    from cotenant_cli.reading import cluster, kube
    from cotenant_cli.submitting import objects

SUMMARY = "submit a model as a DLJob; with --dry-run, say what it will need and cost"
EXTRA = "submit"
TAKES_REST = True
EXAMPLES = """\
examples: cotenant submit my_models:resnet --batch-size 64 --image registry.example/train:1 -n vision -- python train.py
          cotenant submit resnet50.json -f dljob.yaml
          cotenant submit my_models:resnet --batch-size 64 --image registry.example/train:1 --dry-run \\
              --steps 100000 --prices prices.yaml
          cotenant submit train.py --image registry.example/train:1 --follow -- --epochs 3

MODEL is what `cotenant extract` takes (MODULE:CALLABLE, a Hugging Face folder, FILE.onnx), or a graph that it wrote
(.json, .json.gz). The callable runs in this process, on PyTorch's meta device: no weights, no GPU.
It may be a script (train.py), too: nothing is predicted, and the PackingPolicy says what a job without prediction gets.
The script goes into a ConfigMap with the modules beside it that it imports, and python runs it.

Words after -- are the container's command; with --command WORD.., its arguments; of a script, the
script's: --command names what runs it (torchrun).
prices.yaml names the price of one hour of a whole GPU for each GPU model: NVIDIA-H200: 3.5
"""

CLIENT: Final = "client"
SERVER: Final = "server"
_FILE: Final = "--filename"
_STEPS: Final = "--steps"
_MOST_STEPS: Final = 10**15
"""More are a slip, and no number that times and costs can be reckoned with."""
_PRICES: Final = "--prices"
_ONLY_WITHOUT_FILE: Final = (
    ("--name", "name"),
    ("--image", "image"),
    ("--command", "container_command"),
    ("--env", "env"),
    ("--user", "user"),
    ("--workload-type", "workload_type"),
    ("--replicas", "replicas"),
    ("--gpus-per-replica", "gpus_per_replica"),
    ("--gpu-models", "gpu_models"),
    ("--gpu-memory", "gpu_memory"),
    ("--sharing", "sharing"),
    ("--", "rest"),
)
_ONLY_OF_A_MODEL: Final = (
    (_FILE, "filename"),
    (_STEPS, "steps"),
    (_PRICES, "prices"),
    ("--batch-size", "batch_size"),
)
_NOT_PREDICTED: Final = (
    "nothing is predicted of a script: the PackingPolicy's queue.onMissingPrediction says what it gets "
    "(-o yaml shows the DLJob)\n"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "target", metavar="MODEL", help="MODULE:CALLABLE, FOLDER, FILE.onnx, a graph, or a script; see below"
    )
    parser.add_argument("-n", "--namespace", metavar="NS", help="default: that of the file, else of the context")
    _configure_job(parser)
    _configure_trial(parser)
    parser.add_argument("--follow", action="store_true", help="tell where it stands and what it prints, until it ends")
    parser.add_argument("--force-conflicts", action="store_true", help="take fields over that others have applied")
    output.configure(parser)
    graphs.configure(parser)


def _configure_job(parser: argparse.ArgumentParser) -> None:
    job = parser.add_argument_group("the DLJob: a file, or these")
    job.add_argument("-f", _FILE, type=Path, metavar="FILE", help="a DLJob without spec.model; the graph is put there")
    job.add_argument("--name", help="default: made of MODEL")
    job.add_argument("--image", help="of its container")
    job.add_argument(
        "--command",
        dest="container_command",
        nargs="+",
        default=[],
        metavar="WORD",
        help="of the container; default: words after --",
    )
    job.add_argument(
        "--code",
        choices=scripts.PLACES,
        help="where a script is: sent in a ConfigMap (default), or in the image, at that path",
    )
    job.add_argument("--env", action="append", default=[], metavar="KEY=VALUE", help="a variable of the container")
    job.add_argument("--user", type=_user, metavar="UID", help="of the container, by number; default: the image's")
    job.add_argument("--workload-type", type=WorkloadType, choices=tuple(WorkloadType), help="default: Training")
    job.add_argument("--replicas", type=int, metavar="N", help="pods; of a training job a gang; default: 1")
    job.add_argument("--gpus-per-replica", type=int, metavar="N", help="more than one are whole GPUs; default: 1")
    job.add_argument("--gpu-models", metavar="MODEL,..", help="that it may use; default: any")
    job.add_argument("--gpu-memory", metavar="10Gi", help="to book on each GPU, instead of what is predicted")
    job.add_argument("--sharing", type=Sharing, choices=tuple(Sharing), help="default: Shared")


def _configure_trial(parser: argparse.ArgumentParser) -> None:
    trial = parser.add_argument_group("trying it out")
    trial.add_argument(
        "--dry-run",
        nargs="?",
        const=CLIENT,
        choices=(CLIENT, SERVER),
        help="apply nothing; say what it will need. client (default): nothing is sent; server: the server checks it",
    )
    trial.add_argument(_STEPS, type=int, metavar="N", help="of the whole run, for its time and cost")
    trial.add_argument(_PRICES, type=Path, metavar="FILE", help="YAML: GPU model, price of an hour of one")
    trial.add_argument(
        "--gpu-model",
        action="append",
        default=[],
        metavar="MODEL",
        help="predict for this one (repeat for more) and ask no cluster; default: those of the cluster",
    )


def run(arguments: argparse.Namespace) -> int:
    """Extract or read, then apply, or say what it will need."""
    from cotenant_cli.submitting import objects

    _require_consistent(arguments)
    is_script = scripts.is_script(arguments.target)
    offline = arguments.dry_run == CLIENT
    connection = None if offline and arguments.gpu_model else _connection(arguments, needed=not offline)
    namespace = arguments.namespace and output.require_name("--namespace", arguments.namespace)
    default = connection.namespace if connection is not None else "default"
    graph = None
    if is_script:
        wanted = _script(arguments, namespace or default)
        job = wanted[-1]
    else:
        job = _job(arguments, namespace, default)
        arguments.workload_type = objects.spec_of(job).workload_type
        graph = graphs.read(arguments)
        names = {"namespace": job["metadata"]["namespace"], "name": job["metadata"]["name"]}
        wanted = [objects.config_map(graph, **names), job]
    # One of a context was not looked at yet, and becomes a part of a path.
    output.require_name("namespace", job["metadata"]["namespace"])
    if arguments.dry_run is None and connection is not None:
        made = _applied(connection, wanted, force=arguments.force_conflicts)
        _show(arguments, made)
        return _follow(connection, made[-1]) if arguments.follow else 0
    if arguments.dry_run == SERVER and connection is not None:
        wanted = _sent(connection, wanted, force=arguments.force_conflicts, dry_run=True)
    if arguments.output in (output.JSON, output.YAML):
        _show(arguments, wanted)
        return 0
    if graph is None:
        terminal.write(_NOT_PREDICTED)
    else:
        _tell(arguments, graph, job, None if connection is None else _lists(arguments))
    return 0


def _require_consistent(arguments: argparse.Namespace) -> None:
    if arguments.filename is None:
        if not arguments.image:
            raise errors.InvalidInputError("--image", arguments.image, f"must be given, or {_FILE} with a DLJob")
    else:
        for option, field in _ONLY_WITHOUT_FILE:
            if getattr(arguments, field) not in (None, []):
                remedy = f"is not for {_FILE}: write it into {arguments.filename}"
                raise errors.InvalidInputError(option, getattr(arguments, field), remedy)
    _require_consistent_with_target(arguments)
    _require_consistent_trial(arguments)


def _require_consistent_trial(arguments: argparse.Namespace) -> None:
    if arguments.dry_run is None:
        for option, field in ((_STEPS, "steps"), (_PRICES, "prices"), ("--gpu-model", "gpu_model")):
            if getattr(arguments, field) not in (None, []):
                raise errors.InvalidInputError(option, getattr(arguments, field), "needs --dry-run")
    if arguments.output in (output.JSON, output.YAML):
        for option, value in ((_STEPS, arguments.steps), (_PRICES, arguments.prices)):
            if value is not None:
                remedy = f"is not for -o {arguments.output}, which prints the objects: leave it out"
                raise errors.InvalidInputError(option, value, remedy)
    if arguments.steps is not None and not 1 <= arguments.steps <= _MOST_STEPS:
        raise errors.InvalidInputError(_STEPS, arguments.steps, f"must be 1 to {_MOST_STEPS}")


def _require_consistent_with_target(arguments: argparse.Namespace) -> None:
    if scripts.is_script(arguments.target):
        named = ((option, getattr(arguments, field)) for option, field in _ONLY_OF_A_MODEL)
        for option, value in (*named, *graphs.step_options(arguments)):
            if value is not None:
                remedy = "is not for a script, of which nothing is predicted: leave it out"
                raise errors.InvalidInputError(option, value, remedy)
    elif arguments.code is not None:
        raise errors.InvalidInputError("--code", arguments.code, "is for a script (train.py): leave it out")
    if arguments.follow and (arguments.dry_run is not None or arguments.output in (output.JSON, output.YAML)):
        raise errors.InvalidInputError("--follow", True, "does not go with --dry-run, nor with -o json or yaml")


def _connection(arguments: argparse.Namespace, *, needed: bool) -> "kube.Connection | None":
    """None: there is no cluster to ask, and none is needed."""
    from cotenant_cli.reading import kube

    try:
        return kube.Connection(arguments.kubeconfig, arguments.context)
    except errors.PermanentError:
        if needed:
            raise
        return None


def _lists(arguments: argparse.Namespace) -> "cluster.Lists":
    from cotenant_cli.reading import kube

    return kube.Lists(arguments.kubeconfig, arguments.context)


def _job(arguments: argparse.Namespace, namespace: str | None, default: str) -> dict[str, Any]:
    from cotenant_cli.submitting import objects

    if arguments.filename is not None:
        text = _text(_FILE, arguments.filename)
        return objects.from_file(text, source=str(arguments.filename), namespace=namespace, default=default)
    command, rest = arguments.container_command, arguments.rest
    options = _options(arguments, command=command or rest, args=rest if command else ())
    return objects.job(options, namespace=namespace or default, name=objects.name_of(arguments.name, arguments.target))


def _script(arguments: argparse.Namespace, namespace: str) -> list[dict[str, Any]]:
    from cotenant_cli.submitting import objects

    code = scripts.read(arguments.target, arguments.code or scripts.CONFIG_MAP)
    options = _options(arguments, command=arguments.container_command, args=arguments.rest)
    return objects.of_script(code, options, namespace=namespace, name=objects.name_of(arguments.name, arguments.target))


def _options(arguments: argparse.Namespace, *, command: list[str], args: Sequence[str]) -> "objects.Options":
    from cotenant_cli.submitting import objects

    models = [one.strip() for one in (arguments.gpu_models or "").split(",") if one.strip()]
    return objects.Options(
        image=arguments.image,
        command=command,
        args=args,
        environment=dict(_variable(one) for one in arguments.env),
        user=arguments.user,
        workload_type=arguments.workload_type or WorkloadType.TRAINING,
        replicas=arguments.replicas,
        gpus_per_replica=arguments.gpus_per_replica,
        gpu_models=models,
        gpu_memory=arguments.gpu_memory,
        sharing=arguments.sharing,
    )


def _user(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number above 0: who shares a GPU is not root")
    return int(text)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise errors.InvalidInputError("--env", text, "must be KEY=VALUE")
    return name, value


def _text(option: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidInputError(option, str(path), f"cannot be read: {error}") from error


def _sent(
    connection: "kube.Connection", wanted: list[dict[str, Any]], *, force: bool, dry_run: bool = False
) -> list[dict[str, Any]]:
    from cotenant_cli.sending import applying
    from cotenant_cli.sending import kube as sending
    from cotenant_cli.submitting import objects

    manager = applying.Manager(objects.MANAGED_BY)
    try:
        return [applying.apply(connection, one, manager=manager, force=force, dry_run=dry_run) for one in wanted]
    except sending.ConflictError as error:
        remedy = "choose another --name, or take the fields over with --force-conflicts"
        raise errors.PermanentError(f"{error}: {remedy}") from error
    except sending.GoneError as error:
        remedy = "create the namespace, or install Cotenant (cotenant doctor says what lacks)"
        raise errors.PermanentError(f"{error}: {remedy}") from error


def _applied(connection: "kube.Connection", wanted: list[dict[str, Any]], *, force: bool) -> list[dict[str, Any]]:
    """Return the objects as the server has them.

    What the DLJob, which is the last, needs comes first, so that it is found, and then as the DLJob's own.
    """
    from cotenant_cli.submitting import objects

    *needed, job = wanted
    # A DLJob that is refused should leave nothing behind.
    (tried,) = _sent(connection, [job], force=force, dry_run=True)
    _refuse_what_has_ended(tried)
    *_, made = _sent(connection, wanted, force=force)
    return [*_sent(connection, [objects.owned(one, made) for one in needed], force=force), made]


def _refuse_what_has_ended(job: dict[str, Any]) -> None:
    """Refuse a DLJob of which nothing runs any more, whatever is written into it.

    Raises:
        PermanentError: it has ended.
    """
    status, metadata = job.get("status") or {}, job["metadata"]
    ended = [one for one in status.get("conditions") or () if one["type"] in ("Complete", "Failed")]
    if any(one["status"] == "True" for one in ended):
        where = f"{metadata['namespace']}/{metadata['name']}"
        remedy = (
            f"choose another --name, or delete it: kubectl delete dljob {metadata['name']} -n {metadata['namespace']}"
        )
        raise errors.PermanentError(f"{where} has ended ({status.get('phase')}) and does not run again: {remedy}")


def _follow(connection: "kube.Connection", job: dict[str, Any]) -> int:
    """Return 0 if it succeeds, else 1."""
    from cotenant_cli.submitting import following

    metadata = job["metadata"]
    follower = following.Follower(
        source=connection,
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        container=job["spec"].get("container") or job["spec"]["template"]["spec"]["containers"][0]["name"],
        tell=lambda line: terminal.write(f"{line}\n"),
        wait=time.sleep,
    )
    return 0 if follower.run() else 1


def _show(arguments: argparse.Namespace, found: list[dict[str, Any]]) -> None:
    from cotenant_cli.submitting import objects

    if arguments.output in (output.JSON, output.YAML):
        terminal.write(output.of_object(objects.listed(found), arguments.output))
        return
    *needed, job = (one["metadata"] for one in found)
    terminal.write(
        "".join(f"configmap/{one['name']} serverside-applied\n" for one in needed)
        + f"dljob.cotenant.dev/{job['name']} serverside-applied\n"
        f"where it stands: cotenant why {job['namespace']}/{job['name']}\n"
    )


def _tell(arguments: argparse.Namespace, graph: "Graph", job: dict[str, Any], lists: "cluster.Lists | None") -> None:
    """Write what it will need, for people."""
    from cotenant_cli.submitting import costs, estimate_lines, estimates

    file = arguments.prices
    prices = {} if file is None else costs.prices_of(_text(_PRICES, file), source=str(file))
    trial = estimates.Trial(models=arguments.gpu_model, steps=arguments.steps, prices=prices)
    found = estimates.estimate(graph, job, lists, trial)
    look = output.look(arguments.output)
    terminal.write("\n".join(estimate_lines.lines(found, look)) + "\n")
