"""If, Loop and Scan: which branch counts, and how often a body runs.

A branch that constants choose is the one that counts; else the costlier one does, and the If is named as unknown. A
body counts as often as its trip count says; where that depends on data it counts once, and the Loop is named.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from cotenant_predictor.extraction.onnx_reader import operators
from cotenant_predictor.extraction.onnx_reader.values import Array, Occurrence, Value, axis_of

if TYPE_CHECKING:
    from cotenant_predictor.extraction.onnx_reader.walk import Scope, Surroundings, Walker

OPERATORS = frozenset({"If", "Loop", "Scan"})
MAX_TRIPS = 10_000_000
"""Exporters write a larger trip count for a loop that only its condition ends."""
MAX_REPEAT = 10**12


@dataclasses.dataclass(frozen=True, kw_only=True)
class Visit:
    """A control-flow node in its place."""

    walker: Walker
    node: onnx.NodeProto
    inputs: tuple[Value | None, ...]
    scope: Scope
    inside: Surroundings

    def outputs(self) -> list[Value]:
        """Visit the bodies; what the node writes. A node that launches nothing joins it to what the body wrote.

        Raises:
            InvalidInputError: the node is damaged, or a shape depends on what is computed.
        """
        needed = {"then_branch", "else_branch"} if self.node.op_type == "If" else {"body"}
        missing = sorted(needed - {attribute.name for attribute in self.node.attribute if attribute.HasField("g")})
        if missing or not self.inputs:
            raise self.refused(f"lacks {missing or 'inputs'}: export it again")
        if self.node.op_type == "If":
            return self._branch()
        return self._loop() if self.node.op_type == "Loop" else self._scan()

    def refused(self, reason: str) -> Exception:
        """Return the error of this node."""
        return self.walker.refuse(self.node, self.inside.path.removesuffix(" > "), reason)

    def _body(self, name: str) -> onnx.GraphProto:
        bodies = [attribute.g for attribute in self.node.attribute if attribute.name == name]
        body: onnx.GraphProto = bodies[0]
        return body

    def _walked(self, body: onnx.GraphProto, own: Scope, *, repeat: int) -> list[Value]:
        declared = {value.name: value.type for value in [*body.value_info, *body.output]}
        declared = {**self.inside.declared, **declared}
        return self.walker.graph(body, own, dataclasses.replace(self.inside, declared=declared, repeat=repeat))

    def _output_name(self, index: int) -> str:
        return self.node.output[index] if index < len(self.node.output) else ""

    def _branch(self) -> list[Value]:
        def take(name: str) -> list[Value]:
            return self._walked(self._body(name), dict(self.scope), repeat=self.inside.repeat)

        condition = self.inputs[0]
        if condition is not None and condition.array is not None and condition.array.size:
            return take("then_branch" if condition.array.reshape(-1)[0] else "else_branch")
        self.walker.unknown["onnx::If"] += self.inside.repeat
        visited = self.walker.occurrences
        start = len(visited)
        found = []
        for name in ("then_branch", "else_branch"):
            outputs = take(name)
            found.append((sum(map(operators.flops, visited[start:])), len(visited), visited[start:], outputs))
            del visited[start:]
        _, _, branch, outputs = max(found, key=lambda entry: entry[:2])
        visited.extend(branch)
        return outputs

    def _loop(self) -> list[Value]:
        body, carried = self._body("body"), [value for value in self.inputs[2:] if value is not None]
        if len(body.input) != len(carried) + 2 or len(body.output) < len(carried) + 1:
            raise self.refused("its body takes other values than it is given: export it again")
        trips = self._trips()
        if trips is None:
            self.walker.unknown["onnx::Loop"] += self.inside.repeat
        own = dict(self.scope)
        own[body.input[0].name] = Value(name=body.input[0].name, shape=(), dtype="int64")
        own[body.input[1].name] = Value(name=body.input[1].name, shape=(), dtype="bool")
        entering = [self.walker.fresh(e.name, v) for e, v in zip(body.input[2:], carried, strict=True)]
        own.update({value.name: value for value in self._joined("Identity", carried, entering)})
        results = self._repeated(body, own, trips=trips)[1:]
        found = []
        for index, value in enumerate(results):
            name = self._output_name(index)
            if index < len(carried):
                stays = value.shape == carried[index].shape
                found.append(self.walker.fresh(name, value) if stays else self._declared(name, value))
            elif trips is None and name:
                found.append(self._declared(name, value))
            else:
                found.append(self.walker.fresh(name, value, shape=(trips or 0, *value.dims)))
        return self._joined(self.node.op_type, results, found)

    def _scan(self) -> list[Value]:
        settings = {attribute.name: attribute for attribute in self.node.attribute}
        body, values = self._body("body"), [value for value in self.inputs if value is not None]
        count = settings["num_scan_inputs"].i if "num_scan_inputs" in settings else 0
        states = len(values) - count
        if not 0 < count <= len(values) or len(body.input) != len(values) or len(body.output) < states:
            raise self.refused("its body takes other values than it is given; needs opset 9 or later")
        axes = _integers(settings.get("scan_input_axes"), count)
        own, trips = dict(self.scope), 0
        entering = [self.walker.fresh(e.name, v) for e, v in zip(body.input[:states], values, strict=False)]
        for entry, value, given in zip(body.input[states:], values[states:], axes, strict=True):
            if not value.dims:
                raise self.refused(f"scans {value.name[:128]!r}, which has no axis: export it again")
            axis = axis_of(given, value.dims)
            trips = value.dims[axis]
            slices = (*value.dims[:axis], *value.dims[axis + 1 :])
            entering.append(self.walker.fresh(entry.name, value, shape=slices))
        own.update({value.name: value for value in self._joined("Identity", values, entering)})
        results = self._repeated(body, own, trips=trips)
        found = [self.walker.fresh("", value) for value in results[:states]]
        stacked = _integers(settings.get("scan_output_axes"), len(results) - states)
        for value, given in zip(results[states:], stacked, strict=True):
            axis = axis_of(given, (0, *value.dims))
            found.append(self.walker.fresh("", value, shape=(*value.dims[:axis], trips, *value.dims[axis:])))
        return self._joined("Scan", results, found)

    def _repeated(self, body: onnx.GraphProto, own: Scope, *, trips: int | None) -> list[Value]:
        """Return the body's outputs, its nodes counted as often as it runs."""
        repeat = self.inside.repeat * (1 if trips is None else max(1, trips))
        if repeat > MAX_REPEAT:
            raise self.refused(f"its body runs {repeat} times, more than any step: check its trip count")
        start = len(self.walker.occurrences)
        results = self._walked(body, own, repeat=repeat)
        if trips == 0:
            del self.walker.occurrences[start:]
        return results

    def _joined(self, operator: str, sources: list[Value], targets: list[Value]) -> list[Value]:
        """Return the targets; each waits for its source, and passes gradients on to it."""
        for source, target in zip(sources, targets, strict=True):
            self.walker.occurrences.append(
                Occurrence(
                    domain="",
                    operator=operator,
                    place=self.inside.path,
                    opset=1,
                    attributes={},
                    inputs=(source,),
                    outputs=(target,),
                    repeat=self.inside.repeat,
                )
            )
        return targets

    def _trips(self) -> int | None:
        """Return the declared trip count; None where only data ends the loop."""
        count, condition = self.inputs[0], self.inputs[1] if len(self.inputs) > 1 else None
        if condition is not None and condition.array is not None and not condition.array.all():
            return 0
        if count is None or count.array is None or count.array.size != 1 or count.array.dtype.kind not in "iu":
            return None
        trips = int(count.array.reshape(-1)[0])
        return max(0, trips) if trips <= MAX_TRIPS else None

    def _declared(self, name: str, value: Value) -> Value:
        """Return a tensor whose size depends on how often the body runs: as the user declares it."""
        shape = self.walker.declared(name)
        if shape is None:
            advice = f"declare it with --input-shape {name[:128]}=SIZES"
            raise self.refused(f"the shape of its output {name[:128]!r} depends on how often it runs: {advice}")
        return self.walker.fresh(name, value, shape=shape)


def constant_array(attributes: Mapping[str, Any]) -> Array:
    """Return what a Constant node without a tensor holds.

    Raises:
        ValueError: nothing.
    """
    types = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    for name, dtype in types.items():
        if name in attributes:
            return np.asarray(attributes[name], dtype=dtype)
    if "value_string" in attributes or "value_strings" in attributes:
        return np.zeros(np.shape(attributes.get("value_strings", ())), dtype=np.object_)
    raise ValueError("a Constant without a value")


def _integers(attribute: onnx.AttributeProto | None, count: int) -> list[int]:
    """One integer per value, 0 where none is given."""
    given = [] if attribute is None else list(attribute.ints)
    return (given + [0] * count)[:count]
