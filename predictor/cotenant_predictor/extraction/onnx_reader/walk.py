"""Walks an ONNX graph in the order in which it runs, and finds the shape and type of every tensor.

Each node is asked for its outputs' types by itself (onnx's own inference), with all shapes known before it and with the
elements of small constants; what the file claims of its intermediate tensors is taken only where that says nothing.
Bounded: at most `MAX_NODES` nodes are visited, whatever functions and bodies call one another.
"""

import collections
import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import onnx

from cotenant_api import errors
from cotenant_predictor.extraction.onnx_reader import contrib, control, fold, inference, operators
from cotenant_predictor.extraction.onnx_reader.values import (
    MAX_ELEMENTS,
    Occurrence,
    Origin,
    Shape,
    Value,
    dtype_of,
    dtype_of_array,
)

MAX_NODES = 10_000
MAX_DEPTH = 40
"""Functions, branches and bodies inside one another."""

Scope = dict[str, Value]
_FOLD_ERRORS = (ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError, OSError)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a node is in: a graph or a function body, and how often that runs."""

    path: str
    opsets: Mapping[str, int]
    arguments: Mapping[str, onnx.AttributeProto]
    """What the call of a function gives its attributes."""
    declared: Mapping[str, onnx.TypeProto]
    """What the file says of intermediate tensors."""
    repeat: int = 1
    depth: int = 0


class Walker:
    """Visits every node of a model once per place it runs at.

    Args:
        model: the file's content; it is not changed.
        source: the file's name, for messages.
        symbols: sizes of the dimensions that the file names.
        shapes: shapes that the user declares, by tensor; they stand above everything else.
    """

    def __init__(
        self, model: onnx.ModelProto, *, source: str, symbols: Mapping[str, int], shapes: Mapping[str, Shape]
    ) -> None:
        self.source = source
        self.occurrences: list[Occurrence] = []
        self.unknown: collections.Counter[str] = collections.Counter()
        """Control flow that only data decides, by name."""
        self.undeclared = set(shapes)
        self._model, self._symbols, self._shapes = model, symbols, shapes
        self._functions = {_function_key(function): function for function in model.functions}
        self._nodes = 0

    def run(self, inputs: Scope) -> None:
        """Visit the whole model, its graph's `inputs` being given.

        Raises:
            InvalidInputError: the graph is damaged, or a shape depends on data.
        """
        graph = self._model.graph
        opsets = {_domain(entry.domain): entry.version for entry in self._model.opset_import}
        inside = Surroundings(path="", opsets=opsets, arguments={}, declared=_declared(graph))
        self.graph(graph, dict(inputs), inside)

    def graph(self, graph: onnx.GraphProto, scope: Scope, inside: Surroundings) -> list[Value]:
        """Visit a graph or a body whose inputs and surroundings stand in `scope`; its outputs."""
        for tensor in graph.initializer:
            if tensor.name not in scope or scope[tensor.name].origin is not Origin.INPUT:
                scope[tensor.name] = self.constant(tensor, origin=Origin.INITIALIZER)
        for sparse in graph.sparse_initializer:
            scope[sparse.values.name] = self._sparse(sparse)
        self.nodes(graph.node, scope, inside)
        return [self._found(value.name, scope, f"the output of {inside.path or 'the graph'}") for value in graph.output]

    def nodes(self, nodes: Iterable[onnx.NodeProto], scope: Scope, inside: Surroundings) -> None:
        """Visit nodes in order; what they write is added to `scope`."""
        for index, node in enumerate(nodes):
            self._nodes += 1
            if self._nodes > MAX_NODES:
                remedy = f"must unfold to at most {MAX_NODES} nodes: export it with fewer functions and bodies"
                raise errors.InvalidInputError(self.source, f"more than {MAX_NODES} nodes", remedy)
            self._visit(node, index, scope, inside)

    def constant(self, tensor: onnx.TensorProto, *, origin: Origin) -> Value:
        """Return a tensor of the file; its elements only if they are few and in the file itself."""
        dtype = dtype_of(tensor.data_type)
        if dtype is None:
            remedy = f"has element type {tensor.data_type}, which the installed onnx {onnx.__version__} does not know"
            raise errors.InvalidInputError(f"{self.source}: initializer", tensor.name, remedy)
        shape = self.checked(tuple(tensor.dims), tensor.name)
        value = Value(name=tensor.name, shape=shape, dtype=dtype, static=True, origin=origin)
        external = tensor.data_location == onnx.TensorProto.EXTERNAL
        if external or value.elements > fold.MAX_FOLDED or dtype == "string":
            return value
        try:
            return dataclasses.replace(value, array=onnx.numpy_helper.to_array(tensor))
        except _FOLD_ERRORS as error:
            remedy = f"its elements do not fill its shape {list(shape)}: export the model again ({error})"
            raise errors.InvalidInputError(f"{self.source}: initializer", tensor.name, remedy) from error

    def checked(self, shape: Shape, name: str) -> Shape:
        """Return the shape, if a tensor can have it."""
        size = 1
        for each in shape:
            size *= each
            if each < 0 or size > MAX_ELEMENTS:
                remedy = f"no tensor has this shape: sizes are 0 or more, and at most {MAX_ELEMENTS} elements"
                raise errors.InvalidInputError(f"{self.source}: {name}", list(shape), remedy)
        return shape

    def fresh(self, name: str, like: Value, *, shape: Shape | None = None) -> Value:
        """Return a computed tensor whose elements nobody knows, of another's type."""
        return Value(name=name, shape=like.shape if shape is None else self.checked(shape, name), dtype=like.dtype)

    def declared(self, name: str) -> Shape | None:
        """Return the shape that the user declares for a tensor."""
        self.undeclared.discard(name)
        return self._shapes.get(name)

    def refuse(self, node: onnx.NodeProto, place: str, reason: str) -> errors.InvalidInputError:
        """Return the error of a node that cannot be used."""
        field = f"{self.source}: {place}"
        return errors.InvalidInputError(field, f"{_domain(node.domain) or 'onnx'}::{node.op_type}", reason)

    def _visit(self, node: onnx.NodeProto, index: int, scope: Scope, inside: Surroundings) -> None:
        place = f"{inside.path}node {index}" + (f" '{node.name[:128]}'" if node.name else "")
        if not all(_is_text(text) for text in (node.op_type, node.domain, *node.input, *node.output)):
            raise errors.InvalidInputError(f"{self.source}: {place}", node.op_type, "holds no text: export it again")
        inputs = tuple(None if not name else self._found(name, scope, place) for name in node.input)
        domain = _domain(node.domain)
        function = self._functions.get((domain, node.op_type, node.overload))
        if function is not None:
            self._call(function, node, inputs, scope=scope, inside=self._deeper(inside, place, node))
            return
        if not domain and node.op_type in control.OPERATORS:
            deeper = self._deeper(inside, place, node)
            visit = control.Visit(walker=self, node=node, inputs=inputs, scope=scope, inside=deeper)
            for name, value in zip(node.output, visit.outputs(), strict=False):
                if name:
                    scope[name] = dataclasses.replace(value, name=name)
            return
        occurrence = Occurrence(
            domain=domain,
            operator=node.op_type,
            place=f"{self.source}: {place}",
            opset=inside.opsets.get(domain, 1),
            attributes=self._attributes(node, place, inside),
            inputs=inputs,
            outputs=(),
            repeat=inside.repeat,
        )
        outputs = self._outputs(occurrence, node, place, inside)
        scope.update({value.name: value for value in outputs if value is not None})
        folded = all(value.static for value in outputs if value is not None)
        self.occurrences.append(dataclasses.replace(occurrence, outputs=outputs, folded=folded))

    def _found(self, name: str, scope: Scope, place: str) -> Value:
        if name in scope:
            return scope[name]
        remedy = "nothing before it gives this: the graph has a cycle or lacks an initializer; export it again"
        raise errors.InvalidInputError(f"{self.source}: {place}", name, remedy)

    def _deeper(self, inside: Surroundings, place: str, node: onnx.NodeProto) -> Surroundings:
        if inside.depth >= MAX_DEPTH:
            raise self.refuse(node, place, f"functions and bodies lie more than {MAX_DEPTH} deep, or call themselves")
        return dataclasses.replace(inside, path=f"{place} > ", depth=inside.depth + 1)

    def _call(
        self,
        function: onnx.FunctionProto,
        node: onnx.NodeProto,
        inputs: Sequence[Value | None],
        *,
        scope: Scope,
        inside: Surroundings,
    ) -> None:
        given = {attribute.name: attribute for attribute in [*function.attribute_proto, *node.attribute]}
        own: Scope = {name: value for name, value in zip(function.input, inputs, strict=False) if value is not None}
        opsets = {_domain(entry.domain): entry.version for entry in function.opset_import}
        declared = {value.name: value.type for value in function.value_info}
        body = dataclasses.replace(inside, opsets={**inside.opsets, **opsets}, arguments=given, declared=declared)
        self.nodes(function.node, own, body)
        for name, inner in zip(node.output, function.output, strict=False):
            if name:
                scope[name] = dataclasses.replace(self._found(inner, own, inside.path), name=name)

    def _attributes(self, node: onnx.NodeProto, place: str, inside: Surroundings) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for attribute in node.attribute:
            given = _given(attribute, inside)
            if given is None:
                continue
            try:
                found[attribute.name] = _attribute(given)
            except _FOLD_ERRORS as error:
                raise self.refuse(node, place, f"its attribute {attribute.name[:64]!r} is damaged: {error}") from error
        return found

    def _outputs(
        self, node: Occurrence, proto: onnx.NodeProto, place: str, inside: Surroundings
    ) -> tuple[Value | None, ...]:
        """Return what the node writes: shapes, types, and elements where they are few and known."""
        if not node.domain and node.operator == "Constant":
            return (self._constant_node(node, proto, place),)
        types = self._inferred(node, proto, place, inside)
        arrays = self._folded(node, proto, place) if proto.output else None
        static = all(value is None or value.static for value in node.inputs) and not _is_random(node)
        constant = static and (node.operator == "ConstantOfShape" or not node.read)
        known_shapes = contrib.shapes(node)
        found: list[Value | None] = []
        for position, name in enumerate(proto.output):
            array = arrays[position] if arrays is not None and position < len(arrays) else None
            kind = types[position] if types else None
            dtype, shape = self._type(name, kind, inside, like=node)
            if shape is None and position < len(known_shapes):
                shape = self.checked(known_shapes[position], name)
            if array is not None:
                dtype, shape = dtype_of_array(array) or dtype, self.checked(array.shape, name)
            if name and shape is None and not operators.is_sequence(node, kind):
                raise self.refuse(proto, place, _shapeless(name))
            origin = Origin.CONSTANT if constant else Origin.COMPUTED
            known = static or array is not None
            value = Value(name=name, shape=shape, dtype=dtype, static=known, origin=origin, array=array)
            found.append(value if name else None)
        return tuple(found)

    def _type(self, name: str, found: onnx.TypeProto | None, inside: Surroundings, *, like: Occurrence) -> Any:
        """Type and shape of one output: as declared by the user, as inferred, as the file says."""
        kind = inside.declared.get(name) if found is None or not found.WhichOneof("value") else found
        dtype = like.read[0].dtype if like.read else "fp32"
        if kind is not None and _is_tensor(kind):
            dtype = dtype_of(kind.tensor_type.elem_type) or dtype
        declared = self.declared(name)
        if declared is not None:
            return dtype, self.checked(declared, name)
        for candidate in (found, inside.declared.get(name)):
            shape = None if candidate is None else shape_of(candidate, self._symbols)
            if shape is not None:
                return dtype, self.checked(shape, name)
        return dtype, None

    def _inferred(
        self, node: Occurrence, proto: onnx.NodeProto, place: str, inside: Surroundings
    ) -> list[onnx.TypeProto | None]:
        """Return what onnx says of the outputs; nothing of an operator that it does not know."""
        attributes = [made for attribute in proto.attribute if (made := _given(attribute, inside)) is not None]
        try:
            return inference.inferred(node, attributes, outputs=len(proto.output), opsets=inside.opsets)
        except inference.MisfitError as error:
            shapes = ", ".join(str(list(value.dims)) for value in node.read)
            remedy = f"does not fit inputs of shapes {shapes[:200]}: {_first_line(error)}; see --input-shape"
            raise self.refuse(proto, place, remedy) from error

    def _folded(self, node: Occurrence, proto: onnx.NodeProto, place: str) -> Any:
        try:
            return fold.folded(node)
        except _FOLD_ERRORS as error:
            raise self.refuse(proto, place, f"cannot be computed from its constants: {_first_line(error)}") from error

    def _constant_node(self, node: Occurrence, proto: onnx.NodeProto, place: str) -> Value:
        tensor = next((a.t for a in proto.attribute if a.name == "value" and not a.ref_attr_name), None)
        name = proto.output[0] if proto.output else ""
        if tensor is not None:
            return dataclasses.replace(self.constant(tensor, origin=Origin.CONSTANT), name=name)
        try:
            array = control.constant_array(node.attributes)
        except _FOLD_ERRORS as error:
            raise self.refuse(proto, place, f"holds no tensor: {_first_line(error)}") from error
        dtype = dtype_of_array(array) or "fp32"
        kept = array if array.size <= fold.MAX_FOLDED else None
        return Value(name=name, shape=array.shape, dtype=dtype, static=True, origin=Origin.CONSTANT, array=kept)

    def _sparse(self, sparse: onnx.SparseTensorProto) -> Value:
        dtype = dtype_of(sparse.values.data_type) or "fp32"
        shape = self.checked(tuple(sparse.dims), sparse.values.name)
        return Value(name=sparse.values.name, shape=shape, dtype=dtype, static=True, origin=Origin.INITIALIZER)


def shape_of(kind: onnx.TypeProto, symbols: Mapping[str, int]) -> Shape | None:
    """Return the shape that a type states, its named dimensions looked up; None where one is not known."""
    if not _is_tensor(kind) or not kind.tensor_type.HasField("shape"):
        return None
    sizes = [
        dim.dim_value if dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0 else symbols.get(dim.dim_param)
        for dim in kind.tensor_type.shape.dim
    ]
    return None if any(size is None for size in sizes) else tuple(size for size in sizes if size is not None)


def _is_text(value: object) -> bool:
    """Protobuf gives bytes for what is no UTF-8."""
    return isinstance(value, str)


def _is_tensor(kind: onnx.TypeProto) -> bool:
    return str(kind.WhichOneof("value")) == "tensor_type"


def _is_random(node: Occurrence) -> bool:
    return node.operator.startswith("Random") or node.operator in ("Multinomial", "Bernoulli")


def _shapeless(name: str) -> str:
    return (
        f"the shape of its output {name[:128]!r} depends on data, or nothing says it: "
        f"declare it with --input-shape {name[:128]}=SIZES"
    )


def _declared(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    return {value.name: value.type for value in [*graph.value_info, *graph.output]}


def _function_key(function: onnx.FunctionProto) -> tuple[str, str, str]:
    return _domain(function.domain), function.name, function.overload


def _domain(domain: str) -> str:
    """ONNX's own domain has two names."""
    return "" if domain == "ai.onnx" else domain[:128]


def _given(attribute: onnx.AttributeProto, inside: Surroundings) -> onnx.AttributeProto | None:
    """Return the attribute.

    Where a function's body refers to its call's, that one by this name; None where that has none.
    """
    if not attribute.ref_attr_name:
        return attribute
    given = inside.arguments.get(attribute.ref_attr_name)
    if given is None:
        return None
    made = onnx.AttributeProto()
    made.CopyFrom(given)
    made.name = attribute.name
    return made


def _attribute(attribute: onnx.AttributeProto) -> Any:
    if attribute.type == onnx.AttributeProto.TENSOR:
        tensor = attribute.t
        small = math.prod(tensor.dims) <= fold.MAX_FOLDED and tensor.data_location != onnx.TensorProto.EXTERNAL
        return onnx.numpy_helper.to_array(tensor) if small else None
    return onnx.helper.get_attribute_value(attribute)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:200]
