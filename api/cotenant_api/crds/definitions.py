"""The three CustomResourceDefinitions, assembled."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from cotenant_api import dljob, gpunode, names, packingpolicy
from cotenant_api.crds import refining, rules, structural, template


@dataclass(frozen=True)
class Kind:
    """What a definition is made from; a column is (name, type, JSON path, priority)."""

    kind: str
    plural: str
    short_names: tuple[str, ...]
    scope: str
    spec: type[BaseModel]
    status: type[BaseModel]
    refinement: refining.Refinement
    columns: tuple[tuple[str, str, str, int], ...]
    spec_required: bool = True
    scale: tuple[tuple[str, str], ...] = ()


def _reason(condition_type: str) -> str:
    return f'.status.conditions[?(@.type=="{condition_type}")].reason'


def _message(condition_type: str) -> str:
    return f'.status.conditions[?(@.type=="{condition_type}")].message'


_AGE = ("Age", "date", ".metadata.creationTimestamp", 0)

KINDS = (
    Kind(
        kind="DLJob",
        plural="dljobs",
        short_names=("dlj",),
        scope="Namespaced",
        spec=dljob.Spec,
        status=dljob.Status,
        refinement=rules.DLJOB,
        columns=(
            ("Phase", "string", ".status.phase", 0),
            ("Reason", "string", _reason(dljob.QUEUED), 0),
            ("Position", "integer", ".status.queuePosition", 0),
            ("Util%", "integer", ".status.prediction.utilizationPercent", 0),
            ("Upper%", "integer", ".status.prediction.upperPercent", 1),
            ("MiB", "integer", ".status.prediction.memoryMiB", 0),
            ("GPU", "string", ".status.prediction.gpuModel", 1),
            ("Node", "string", ".status.replicas[0].node", 0),
            ("Attempts", "integer", ".status.attempts", 1),
            _AGE,
            ("Message", "string", _message(dljob.QUEUED), 1),
        ),
        scale=(
            ("specReplicasPath", ".spec.replicas"),
            ("statusReplicasPath", ".status.scale.replicas"),
            ("labelSelectorPath", ".status.scale.selector"),
        ),
    ),
    Kind(
        kind="GPUNode",
        plural="gpunodes",
        short_names=("gpun",),
        scope="Cluster",
        spec=gpunode.Spec,
        status=gpunode.Status,
        refinement=rules.GPU_NODE,
        columns=(
            ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
            ("Reason", "string", _reason(gpunode.READY), 1),
            ("Model", "string", ".status.gpus[0].model", 0),
            ("Simulated", "boolean", ".status.simulated", 0),
            _AGE,
        ),
        spec_required=False,
    ),
    Kind(
        kind="PackingPolicy",
        plural="packingpolicies",
        short_names=("pp",),
        scope="Cluster",
        spec=packingpolicy.Spec,
        status=packingpolicy.Status,
        refinement=rules.PACKING_POLICY,
        columns=(
            ("Mode", "string", ".spec.mode", 0),
            ("Placement", "string", ".spec.placement", 0),
            ("Tenants", "integer", ".spec.maxTenantsPerGPU", 0),
            ("Tenancy", "string", ".spec.tenancy", 1),
            ("Generation", "integer", ".status.observedGeneration", 1),
            _AGE,
        ),
    ),
)


def definitions() -> Mapping[str, dict[str, Any]]:
    """File name -> CustomResourceDefinition."""
    return {f"{names.GROUP}_{kind.plural}.yaml": definition(kind) for kind in KINDS}


def definition(kind: Kind) -> dict[str, Any]:
    """One CustomResourceDefinition."""
    singular = kind.kind.lower()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "scope": kind.scope,
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": singular,
                "shortNames": list(kind.short_names),
                "categories": ["cotenant"],
            },
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _schema(kind)},
                    "subresources": {"status": {}, **({"scale": dict(kind.scale)} if kind.scale else {})},
                    "additionalPrinterColumns": [_column(*column) for column in kind.columns],
                }
            ],
        },
    }


def _schema(kind: Kind) -> structural.Schema:
    spec = structural.schema_of(kind.spec, defaults=True)
    if kind.spec is dljob.Spec:
        spec["properties"]["template"] = template.pod_template()
    schema: structural.Schema = {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": structural.schema_of(kind.status, defaults=False),
        },
    }
    if kind.spec_required:
        schema["required"] = ["spec"]
    return _refined(schema, kind.refinement, path="")


def _refined(schema: structural.Schema, refinement: refining.Refinement, *, path: str) -> structural.Schema:
    """Return the schema with rules and keywords at their paths; the input is left as it is."""
    result = schema | refinement.keywords.get(path, {})
    if path in refinement.rules:
        result["x-kubernetes-validations"] = [rule.to_object() for rule in refinement.rules[path]]
    if "properties" in schema:
        result["properties"] = {
            name: _refined(child, refinement, path=f"{path}.{name}".lstrip("."))
            for name, child in schema["properties"].items()
        }
    if "items" in schema:
        result["items"] = _refined(schema["items"], refinement, path=f"{path}[]")
    return result


def _column(name: str, column_type: str, path: str, priority: int) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": column_type, "jsonPath": path}
    return column | ({"priority": priority} if priority else {})
