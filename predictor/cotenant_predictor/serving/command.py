"""A server as its command line starts it: vLLM (`vllm serve`) and SGLang (`python -m sglang.launch_server`).

Read are the options that memory follows from; the others are left to the server. Their names and defaults are those
of vLLM 0.11 and SGLang 0.5.
"""

import enum
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cotenant_api import errors
from cotenant_predictor.serving import architecture, fields, quantization


class Program(enum.StrEnum):
    """Which server it is."""

    VLLM = "vLLM"
    SGLANG = "SGLang"


@dataclass(frozen=True, kw_only=True)
class Server:
    """What a command line says; None: it does not.

    Attributes:
        model: name or folder of the model.
        dtype: of weights and activations (`auto`: as the model has it).
        quantization: the method by which linear layers are stored, whatever the model's configuration says.
        kv_dtype: of the KV cache (`auto`: as the model's).
        context: tokens of a sequence, at most.
        tensor_parallel: GPUs between which each layer is divided.
        sequences: how many are in progress at once, at most.
        batched_tokens: tokens of a step, at most.
        kv_bytes: memory of the KV cache.
        eager: whether CUDA graphs are left out.
        offloaded_gib: weights that stay in the host's memory.
    """

    program: Program
    model: str
    dtype: str = "auto"
    quantization: str | None = None
    kv_dtype: str = "auto"
    context: int | None = None
    tensor_parallel: int = 1
    sequences: int | None = None
    batched_tokens: int | None = None
    kv_bytes: int | None = None
    eager: bool = False
    offloaded_gib: float = 0.0


_SUFFIXES: Final = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
"""As vLLM has them: a small letter is decimal, a capital one binary."""
_LARGEST: Final = 10**6
_MOST_BYTES: Final = 2**50
_IN_BYTES: Final = ("--kv-cache-memory-bytes", "--kv-cache-memory")
_REMEDY: Final = (
    "must be the command that starts the server: `vllm serve MODEL ..`, `python -m "
    "vllm.entrypoints.openai.api_server --model MODEL ..` or `python -m sglang.launch_server --model-path MODEL ..`"
)


@dataclass(frozen=True)
class _Option:
    """How an option is read: `text`, `count`, `size`, `number`, or `flag`, which needs no value."""

    name: str
    kind: str


_VLLM: Final[Mapping[str, _Option]] = {
    "--model": _Option("model", "text"),
    "--dtype": _Option("dtype", "text"),
    "--quantization": _Option("quantization", "text"),
    "-q": _Option("quantization", "text"),
    "--kv-cache-dtype": _Option("kv_dtype", "text"),
    "--max-model-len": _Option("context", "size"),
    "--tensor-parallel-size": _Option("tensor_parallel", "count"),
    "-tp": _Option("tensor_parallel", "count"),
    "--max-num-seqs": _Option("sequences", "size"),
    "--max-num-batched-tokens": _Option("batched_tokens", "size"),
    "--kv-cache-memory-bytes": _Option("kv_bytes", "size"),
    "--enforce-eager": _Option("eager", "flag"),
    "--cpu-offload-gb": _Option("offloaded_gib", "number"),
}
_SGLANG: Final[Mapping[str, _Option]] = {
    "--model-path": _Option("model", "text"),
    "--model": _Option("model", "text"),
    "--dtype": _Option("dtype", "text"),
    "--quantization": _Option("quantization", "text"),
    "--kv-cache-dtype": _Option("kv_dtype", "text"),
    "--context-length": _Option("context", "count"),
    "--tensor-parallel-size": _Option("tensor_parallel", "count"),
    "--tp-size": _Option("tensor_parallel", "count"),
    "--tp": _Option("tensor_parallel", "count"),
    "--max-running-requests": _Option("sequences", "count"),
    "--chunked-prefill-size": _Option("batched_tokens", "count"),
    "--disable-cuda-graph": _Option("eager", "flag"),
    "--cpu-offload-gb": _Option("offloaded_gib", "number"),
}
KV_TYPES: Final = {"auto": None, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "bfloat16": 2, "float16": 2, "bf16": 2}
"""Bytes of a value in the KV cache; None: as the model's."""
_DTYPES: Final = frozenset({"auto", "half", "float", *architecture.TYPES})


NOT_COUNTED: Final = (
    "--config",
    "--data-parallel-size",
    "--dp",
    "--dp-size",
    "--enable-dp-attention",
    "--enable-expert-parallel",
    "--enable-lora",
    "--ep-size",
    "--hf-overrides",
    "--json-model-override-args",
    "--lora-modules",
    "--lora-paths",
    "--no-enable-chunked-prefill",
    "--pipeline-parallel-size",
    "--pp-size",
    "--speculative-algorithm",
    "--speculative-config",
    "--speculative-draft-model-path",
    "--speculative-model",
)
"""Options that change what a server takes in a way that nobody computes here."""
_ALIASES: Final = {"-pp": "--pipeline-parallel-size", "-dp": "--data-parallel-size"}
SHELLS: Final = ("sh", "bash", "dash", "ash")
_ENDS: Final = ("&&", "||", ";", "&", "|")
_NO: Final = ("false", "0", "no")


@dataclass
class _Reading:
    options: Mapping[str, _Option]
    found: dict[str, Any] = field(default_factory=dict)

    def take(self, words: Sequence[str]) -> None:
        """Read the options that are known; the value of another is no option, and so is passed over.

        Raises:
            InvalidInputError: an option is among `NOT_COUNTED`, or its value is none.
        """
        rest = list(words)
        while rest:
            word = rest.pop(0)
            name, _, given = word.partition("=")
            spelt = "--" + name[2:].replace("_", "-") if name.startswith("--") else _ALIASES.get(name, name)
            following = given if "=" in word else (rest[0] if rest else "")
            if spelt in NOT_COUNTED and not (spelt.endswith("-size") and following == "1"):
                raise errors.InvalidInputError(spelt, following, "what a server takes with it is not computed here")
            option = self._option(spelt)
            if option is None:
                continue
            if option.kind == "flag":
                self.found[option.name] = given.lower() not in _NO
                continue
            if "=" not in word and rest:
                rest.pop(0)
            if option.kind in {"count", "size"} and following in {"auto", "-1"}:
                continue
            self.found[option.name] = _value(spelt, following, option.kind)

    def _option(self, spelt: str) -> _Option | None:
        """Return what an option is, also by its beginning, as argparse takes it."""
        if spelt in self.options or not spelt.startswith("--") or len(spelt) < _SHORTEST:
            return self.options.get(spelt)
        meant = [name for name in self.options if name.startswith(spelt)]
        return self.options[meant[0]] if len(meant) == 1 else None


_SHORTEST: Final = len("--max-m")


def read(words: Sequence[str]) -> Server:
    """Read a command line: as words, as one text, in a shell's `-c`, or the arguments of a server's image alone.

    Raises:
        InvalidInputError: it starts neither server, or an option has no value that it takes.
    """
    words = _words(words)
    program, rest, model = _started(words)
    reading = _Reading(_VLLM if program is Program.VLLM else _SGLANG)
    reading.take(rest)
    server = Server(program=program, **{"model": model} | reading.found)
    for option, value, known in (("--dtype", server.dtype, _DTYPES), ("--kv-cache-dtype", server.kv_dtype, KV_TYPES)):
        if value not in known:
            raise errors.InvalidInputError(option, value, f"is not known; known are {', '.join(sorted(known))}")
    method = server.quantization
    if method is not None and method.partition("_")[0] not in quantization.METHODS:
        remedy = f"is not known; known are {', '.join(sorted(quantization.METHODS))}"
        raise errors.InvalidInputError("--quantization", method, remedy)
    return server


def _words(words: Sequence[str]) -> list[str]:
    """Return the words of the one command that is meant: of a text, and of what a shell is given behind `-c`."""
    found = list(words)
    shell = bool(found) and found[0].rpartition("/")[2] in SHELLS and len(found) > 2
    text = found[-1] if shell else found[0] if len(found) == 1 else None
    if text is None:
        return found
    try:
        found = shlex.split(text)
    except ValueError as error:
        raise errors.InvalidInputError("command", text, f"cannot be read as a shell reads it: {error}") from error
    for end in (place for place, word in enumerate(found) if word in _ENDS or word.endswith(";")):
        # What comes before is no server (`export A=1;`), or is one and all that counts.
        if any(_program(word, found[place + 1 : place + 2]) for place, word in enumerate(found[:end])):
            return [*found[:end], found[end].removesuffix(";")] if found[end] not in _ENDS else found[:end]
    return found


def _program(word: str, following: Sequence[str]) -> Program | None:
    name = word.rpartition("/")[2]
    if (name == "vllm" and list(following) == ["serve"]) or word.startswith("vllm.entrypoints."):
        return Program.VLLM
    if name == "sglang.launch_server" or (name == "sglang" and list(following) == ["serve"]):
        return Program.SGLANG
    return None


def are_arguments(words: Sequence[str]) -> bool:
    """Return whether a command line is the arguments of an image whose entrypoint is the server."""
    return not any(_program(word, words[place + 1 : place + 2]) for place, word in enumerate(words))


def _started(words: Sequence[str]) -> tuple[Program, Sequence[str], str]:
    """Which server, its options, and the model where it stands without an option."""
    for place, word in enumerate(words):
        program = _program(word, words[place + 1 : place + 2])
        if program is not None:
            rest = list(words[place + 1 :])
            rest = rest[1:] if rest[:1] == ["serve"] else rest
            return program, rest, _named(rest)
    # Arguments of an image whose entrypoint is the server.
    first = words[0] if words else ""
    if first.startswith("--model-path"):
        return Program.SGLANG, words, ""
    if first.startswith("--") or ("/" in first and not first.startswith("/") and len(words) > 1):
        return Program.VLLM, words, _named(words)
    raise errors.InvalidInputError("command", " ".join(words), _REMEDY)


def _named(words: Sequence[str]) -> str:
    return words[0] if words and not words[0].startswith("-") else ""


def _value(option: str, text: str, kind: str) -> object:
    if kind == "text":
        if not text or text.startswith("--"):
            raise errors.InvalidInputError(option, text, "needs a value behind it")
        return text
    if kind in {"count", "size"}:
        return _size(option, text) if kind == "size" else _count(option, text)
    try:
        number = float(text)
    except ValueError as error:
        raise errors.InvalidInputError(option, text, "must be a number") from error
    if not 0 <= number <= _LARGEST:
        raise errors.InvalidInputError(option, text, f"must be at least 0 and at most {_LARGEST}")
    return number


def _count(option: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise errors.InvalidInputError(option, text, "must be a whole number of at least 1")
    return int(text)


def _size(option: str, text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([kmgtKMGT]?)", text)
    if match is None or float(match[1]) <= 0 or ("." in match[1] and not match[2].islower()):
        raise errors.InvalidInputError(
            option, text, "must be a whole number above 0, as 8192, 8k (8,000) or 8K (8,192)"
        )
    found = round(float(match[1]) * _SUFFIXES.get(match[2], 1))
    if found > _MOST_BYTES or (option not in _IN_BYTES and found > fields.MOST):
        raise errors.InvalidInputError(option, text, "is more than any server takes")
    return found
