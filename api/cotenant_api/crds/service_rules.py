"""Rules of `spec.service`: what the API server would refuse of the Service is refused of the DLJob, with a remedy."""

from typing import Final

from cotenant_api.crds import structural
from cotenant_api.crds.refining import Rule

_NAME: Final = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
_PORT_NAME: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED: Final = rf"^({_LABEL}([.]{_LABEL})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$"

OWN_NAME: Final = Rule(
    f"!has(self.spec.service) || has(self.spec.service.name) || self.metadata.name.matches('{_NAME}')",
    "metadata.name must begin with a letter and have no '.' to be the name of a Service: write another name "
    "into spec.service.name",
)
ONLY_INFERENCE: Final = Rule(
    "self.workloadType == 'Inference' || !has(self.service)",
    "service belongs to workloadType Inference: remove it, or set workloadType: Inference",
    ".service",
    "FieldValueForbidden",
)
RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "spec.service": (
        Rule(
            f"!has(self.name) || self.name.matches('{_NAME}')",
            "name must be that of a Service: lower case letters, digits and '-', with a letter first",
            ".name",
        ),
        Rule(
            "self.ports.size() == 1 || self.ports.all(p, has(p.name))",
            "ports must each have a name where there is more than one: clients find them by it",
            ".ports",
            "FieldValueRequired",
        ),
        Rule(
            "self.ports.all(p, !has(p.name) || self.ports.exists_one(o, has(o.name) && o.name == p.name))",
            "ports must have different names: rename one of them",
            ".ports",
        ),
    ),
    "spec.service.ports[]": (
        Rule(
            f"!has(self.name) || self.name.matches('{_PORT_NAME}')",
            "name of a port must have lower case letters, digits and '-' alone, with no '-' at either end",
            ".name",
        ),
        Rule(
            f"!has(self.appProtocol) || self.appProtocol.matches('{_QUALIFIED}')",
            "appProtocol must be a name such as http, or one with a prefix such as kubernetes.io/h2c",
            ".appProtocol",
        ),
    ),
    "spec.service.ports[].targetPort": (
        Rule(
            "type(self) == int ? int(self) >= 1 && int(self) <= 65535 : string(self).matches('^[a-z0-9-]{1,15}$') && "
            "string(self).matches('[a-z]') && !string(self).matches('(^-|--|-$)')",
            "targetPort must be a number from 1 to 65535, or the name of a container's port: at most 15 lower case "
            "letters, digits and '-', with a letter among them",
        ),
    ),
}
KEYWORDS: Final[dict[str, structural.Schema]] = {
    "spec.service.ports": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"]},
}
"""As core/v1 has it: two ports of one number differ by protocol, and managers of fields each have their own."""
