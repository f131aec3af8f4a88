"""CEL rules and list kinds that types alone cannot say: what is contradictory, and what may not change.

Each message names the field and the remedy. A path leads through properties; `[]` is an array's item.
"""

from cotenant_api import dljob, names, quantity
from cotenant_api.crds import service_rules, structural, success_rules
from cotenant_api.crds.refining import Refinement, Rule

_CONDITIONS: structural.Schema = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
_SET: structural.Schema = {"x-kubernetes-list-type": "set"}
_POSITIVE = (
    # Rules are evaluated although the pattern does not match: an exponent of many digits would cost as many steps.
    "type(self) == int ? int(self) > 0 : !string(self).matches('[eE][+-]?[0-9]{3}') && "
    "isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))"
)
_GPU_MEMORY_MOST = (
    f"type(self) == int ? int(self) <= {dljob.MAX_GPU_MEMORY_MIB * quantity.BYTES_PER_MIB} : "
    "string(self).matches('[eE][+-]?[0-9]{3}') || !isQuantity(string(self)) || "
    "!quantity(string(self)).isGreaterThan(quantity('1Pi'))"
)
_GPU_MEMORY = (
    f"type(self) == int ? int(self) >= {dljob.MIN_GPU_MEMORY_MIB * quantity.BYTES_PER_MIB} : "
    "!string(self).matches('[eE][+-]?[0-9]{3}') && isQuantity(string(self)) && "
    f"!quantity(string(self)).isLessThan(quantity('{dljob.MIN_GPU_MEMORY_MIB}Mi'))"
)


_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"


def _is_name(field_name: str) -> str:
    """Return the condition that a field names an object of Kubernetes: a subdomain by RFC 1123."""
    return f"self.{field_name}.matches('^{_LABEL}([.]{_LABEL})*$')"


def _one_of(*fields: str) -> str:
    return f"[{', '.join(f'has(self.{name})' for name in fields)}].filter(x, x).size() <= 1"


def _only_training(name: str) -> Rule:
    message = f"{name} belongs to workloadType Training: an inference job has no end; remove it"
    return Rule(f"self.workloadType == 'Training' || !has(self.{name})", message, f".{name}", "FieldValueForbidden")


def _only_with_extraction(name: str) -> Rule:
    rule = f"!has(self.{name}) || (has(self.model) && (has(self.model.onnx) || has(self.model.entrypoint)))"
    message = f"{name} belongs to model.onnx and model.entrypoint: a graph document carries its own; remove it"
    return Rule(rule, message, f".{name}", "FieldValueForbidden")


def _not_in_a_sweep(name: str) -> Rule:
    rule = f"!has(self.completions) || !has(self.model) || !has(self.model.{name})"
    message = (
        f"a sweep has no model.{name}: each run would extract the same graph; extract it once with `cotenant extract`, "
        "and name it in model.configMapRef"
    )
    return Rule(rule, message, f".model.{name}", "FieldValueForbidden")


def _fixed_for_training(name: str) -> Rule:
    message = f"{name} of a training job is immutable: delete the DLJob and create it again"
    return Rule(f"self.workloadType != 'Training' || self.{name} == oldSelf.{name}", message, f".{name}")


def _absent(field_name: str, message: str) -> Rule:
    return Rule(f"!has(self.{field_name})", message, f".{field_name}", "FieldValueForbidden")


def _not_true(field_name: str, message: str) -> Rule:
    return Rule(f"!has(self.{field_name}) || !self.{field_name}", message, f".{field_name}", "FieldValueForbidden")


_NO_GPU_REQUEST = tuple(
    Rule(
        f"!has(self.resources) || !has(self.resources.{kind}) || !('{resource}' in self.resources.{kind})",
        f"remove {resource}: the operator asks for the GPU share that the prediction calls for",
        f".resources.{kind}",
        "FieldValueForbidden",
    )
    for kind in ("limits", "requests")
    for resource in (names.GPU_SHARE, "nvidia.com/gpu")
)
_NO_OTHER_GPU = Rule(
    "!has(self.resources) || !has(self.resources.limits) || "
    "!self.resources.limits.exists(k, k.startsWith('nvidia.com/mig-') || k.startsWith('nvidia.com/gpu.'))",
    "a pod has a share of a GPU or GPUs of another device plugin, not both: remove nvidia.com/mig-* and "
    "nvidia.com/gpu.*",
    ".resources.limits",
    "FieldValueForbidden",
)
_IMAGE = Rule(
    "!has(self.image) || self.image == self.image.trim()",
    "image must not begin or end with a blank, as Kubernetes refuses such pods: remove it",
    ".image",
)
_NOT_PRIVILEGED = Rule(
    "!has(self.securityContext) || !has(self.securityContext.privileged) || !self.securityContext.privileged",
    "a privileged container could use every GPU of its node: remove privileged",
    ".securityContext.privileged",
    "FieldValueForbidden",
)

DLJOB = Refinement(
    rules={
        "": (
            Rule(
                f"size(self.metadata.name) <= {dljob.MAX_NAME}",
                f"metadata.name must be at most {dljob.MAX_NAME} characters: the names of its Jobs and pods are "
                "made from it",
            ),
            Rule(
                "self.spec.workloadType != 'Training' || !self.metadata.name.contains('.')",
                "metadata.name of a training job must have no '.', as names of pods have none: use '-'",
                only_new=True,
            ),
            Rule(
                f"!has(self.spec.completions) || size(self.metadata.name) <= {dljob.MAX_SWEEP_NAME}",
                f"metadata.name of a sweep must be at most {dljob.MAX_SWEEP_NAME} characters: its runs are NAME-INDEX",
            ),
            service_rules.OWN_NAME,
        ),
        "spec": (
            Rule(
                "self.workloadType == oldSelf.workloadType",
                "workloadType is immutable: delete the DLJob and create it again",
                ".workloadType",
            ),
            Rule(
                "self.workloadType != 'Training' || self.replicas >= 1",
                "replicas of a training job must be at least 1: use suspend to stop it",
                ".replicas",
            ),
            *(_fixed_for_training(name) for name in ("replicas", "gpusPerReplica", "processesPerGPU")),
            *(
                _only_training(name)
                for name in (
                    "backoffLimit",
                    "activeDeadlineSeconds",
                    "ttlSecondsAfterFinished",
                    "managedBy",
                    "completions",
                    "podFailurePolicy",
                    "successPolicy",
                )
            ),
            Rule(
                "has(self.completions) == has(oldSelf.completions) && "
                "(!has(self.completions) || self.completions == oldSelf.completions)",
                "completions is immutable: delete the DLJob and create it again",
                ".completions",
            ),
            Rule(
                "!has(self.parallelism) || has(self.completions)",
                "parallelism belongs to a sweep: set completions, the number of its runs; replicas are pods of one run",
                ".parallelism",
                "FieldValueForbidden",
            ),
            *(_not_in_a_sweep(name) for name in ("onnx", "entrypoint")),
            *(_only_with_extraction(name) for name in ("batchSize", "precision", "inputShapes")),
            Rule(
                "!has(self.model) || !(has(self.model.onnx) || has(self.model.entrypoint)) || has(self.batchSize)",
                "batchSize must be set with model.onnx and model.entrypoint: write the samples of one step",
                ".batchSize",
                "FieldValueRequired",
            ),
            Rule(
                "self.workloadType == 'Inference' || !has(self.slo)",
                "slo belongs to workloadType Inference: remove it, or set workloadType: Inference",
                ".slo",
                "FieldValueForbidden",
            ),
            service_rules.ONLY_INFERENCE,
            *success_rules.OF_SPEC,
            Rule(
                "!has(self.container) || self.template.spec.containers.exists(c, c.name == self.container)",
                "container must name a container of template.spec.containers",
                ".container",
            ),
            Rule(
                "!has(self.podFailurePolicy) || self.podFailurePolicy.rules.all(r, "
                "!has(r.onExitCodes.containerName) || "
                "self.template.spec.containers.exists(c, c.name == r.onExitCodes.containerName) || "
                "(has(self.template.spec.initContainers) && "
                "self.template.spec.initContainers.exists(c, c.name == r.onExitCodes.containerName)))",
                "onExitCodes.containerName must name a container of template.spec.containers or initContainers",
                ".podFailurePolicy.rules",
            ),
            Rule(
                "self.workloadType != 'Training' || !has(self.template.spec.restartPolicy) "
                "|| self.template.spec.restartPolicy == 'Never'",
                "restartPolicy of a training job must be Never (the default): the Job controller restarts its pods",
                ".template.spec.restartPolicy",
            ),
            Rule(
                "self.workloadType != 'Inference' || !has(self.template.spec.restartPolicy) "
                "|| self.template.spec.restartPolicy == 'Always'",
                "restartPolicy of an inference job must be Always (the default): it runs as a Deployment",
                ".template.spec.restartPolicy",
            ),
        ),
        "spec.podFailurePolicy.rules[].onExitCodes": (
            Rule(
                "self.operator != 'In' || !(0 in self.values)",
                "values of operator In must not have 0: a container that ends with 0 has not failed",
                ".values",
            ),
        ),
        **service_rules.RULES,
        **success_rules.RULES,
        "spec.model": (
            Rule(
                _one_of("features", "configMapRef", "onnx", "entrypoint"),
                "model must have at most one of features, configMapRef, onnx and entrypoint",
            ),
        ),
        "spec.gpuMemory": (
            Rule(
                _GPU_MEMORY,
                f'gpuMemory must be a quantity of at least {dljob.MIN_GPU_MEMORY_MIB}Mi, such as "10Gi": a number '
                "without a unit counts bytes (Mi and Gi are MiB and GiB)",
            ),
            Rule(_GPU_MEMORY_MOST, "gpuMemory must be at most 1Pi: no GPU has so much"),
        ),
        "spec.slo.requestsPerSecond": (Rule(_POSITIVE, "requestsPerSecond must be a quantity above zero"),),
        "spec.model.configMapRef": (
            Rule(
                _is_name("name"), "name must be that of a ConfigMap: lower case letters, digits, '-' and '.'", ".name"
            ),
            Rule(
                "self.key.matches('^[-._a-zA-Z0-9]+$') && self.key != '.' && !self.key.startsWith('..')",
                "key must be one of a ConfigMap: letters, digits, '-', '_' and '.', and it must not begin with '..'",
                ".key",
            ),
        ),
        "spec.model.onnx": (
            Rule(
                f"!has(self.claimName) || {_is_name('claimName')}",
                "claimName must be that of a PersistentVolumeClaim: lower case letters, digits, '-' and '.'",
                ".claimName",
            ),
            Rule(
                "!self.path.matches('(^|/)[.][.](/|$)')",
                "path must not lead through '..': write where the file is, in the container or in the volume of "
                "claimName",
                ".path",
            ),
        ),
        "spec.model.entrypoint": (
            Rule(
                "self.callable.matches('^[A-Za-z_][0-9A-Za-z_]*([.][A-Za-z_][0-9A-Za-z_]*)*:[A-Za-z_][0-9A-Za-z_]*([.][A-Za-z_][0-9A-Za-z_]*)*$')",
                "callable must be module:function: names of Python, with '.' between those of packages",
                ".callable",
            ),
        ),
        "spec.template.metadata": (
            *(
                Rule(
                    f"!has(self.annotations) || !('{annotation}' in self.annotations)",
                    f"{annotation} is written by the operator alone: remove it",
                    ".annotations",
                    "FieldValueForbidden",
                )
                for annotation in names.RESERVED_ANNOTATIONS
            ),
            Rule(
                f"!has(self.annotations) || !self.annotations.exists(k, k.startsWith('{names.GROUP}/'))",
                f"annotations of {names.GROUP} are for plain pods: remove them, and use the DLJob's fields (gpuMemory, "
                "gpuModels, processesPerGPU, minimumRunSeconds)",
                ".annotations",
                "FieldValueForbidden",
            ),
            Rule(
                "!has(self.annotations) || "
                f"self.annotations.map(k, size(k) + size(self.annotations[k])).sum() <= {dljob.MAX_ANNOTATIONS}",
                f"annotations must have at most {dljob.MAX_ANNOTATIONS} characters together, keys included, so that "
                "there is room for what the scheduler writes: remove some",
                ".annotations",
            ),
            Rule(
                f"!has(self.labels) || !self.labels.exists(k, k.startsWith('{names.GROUP}/'))",
                f"labels of {names.GROUP} are written by the operator alone, which finds its pods by them: remove them",
                ".labels",
                "FieldValueForbidden",
            ),
        ),
        "spec.template.spec": (
            _absent("nodeName", "remove nodeName: the scheduler chooses the node and the GPU"),
            Rule(
                f"!has(self.schedulerName) || self.schedulerName == '{names.SCHEDULER_NAME}'",
                f"schedulerName must be {names.SCHEDULER_NAME} (the default)",
                ".schedulerName",
            ),
            Rule(
                "!has(self.overhead) || size(self.overhead) == 0 || has(self.runtimeClassName)",
                "overhead belongs to a RuntimeClass, by which Kubernetes sets it: remove it",
                ".overhead",
                "FieldValueForbidden",
            ),
            Rule(
                f"!has(self.serviceAccountName) || self.serviceAccountName == '' || {_is_name('serviceAccountName')}",
                "serviceAccountName must be that of a ServiceAccount: lower case letters, digits, '-' and '.'",
                ".serviceAccountName",
            ),
            _not_true("hostPID", "a pod in the host's PID namespace cannot share a GPU: remove hostPID"),
            _not_true("hostIPC", "a pod in the host's IPC namespace cannot share a GPU: remove hostIPC"),
        ),
        "spec.template.spec.containers[]": (*_NO_GPU_REQUEST, _NO_OTHER_GPU, _NOT_PRIVILEGED, _IMAGE),
        "spec.template.spec.initContainers[]": (*_NO_GPU_REQUEST, _NO_OTHER_GPU, _NOT_PRIVILEGED, _IMAGE),
    },
    keywords={
        "spec.gpuModels": _SET,
        **service_rules.KEYWORDS,
        "spec.podFailurePolicy.rules[].onExitCodes.values": _SET,
        "status": {"default": {"observedGeneration": dljob.NEVER_OBSERVED}},
        "status.conditions": _CONDITIONS,
    },
)

PACKING_POLICY = Refinement(
    rules={
        "": (
            Rule(
                "self.metadata.name == 'default'",
                "metadata.name must be default: a cluster has one PackingPolicy",
            ),
        ),
        "spec": (
            Rule(
                "(self.tenancy == 'Label') == has(self.tenancyLabel)",
                "tenancyLabel must be set with tenancy Label, and only then",
                ".tenancyLabel",
            ),
            Rule(
                "self.placement != 'MemoryOnly' || (self.threadPartition != 'Proportional' && (!has(self.overrides) "
                "|| self.overrides.all(o, !has(o.threadPartition) || o.threadPartition != 'Proportional')))",
                "threadPartition must not be Proportional with placement MemoryOnly, which books one hundredth of a "
                "GPU: choose Demand or None",
                ".threadPartition",
            ),
            Rule(
                "!has(self.overrides) || self.overrides.all(o, !has(o.tenancy) || o.tenancy != 'Label')",
                "an override's tenancy must be SameNamespace or Any: tenancyLabel is the whole cluster's",
                ".overrides",
            ),
            Rule(
                "!has(self.overrides) || self.overrides.all(o, o.gpuModels.all(m, "
                "self.overrides.exists_one(p, m in p.gpuModels)))",
                "overrides must name each GPU model once",
                ".overrides",
            ),
        ),
        "spec.tenancyLabel": (
            Rule(
                "self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",
                "tenancyLabel must be the key of a label, such as team or example.com/team",
            ),
        ),
    },
    keywords={
        "spec.overrides[].gpuModels": _SET,
        "status.conditions": _CONDITIONS,
    },
)

GPU_NODE = Refinement(
    keywords={
        "spec.excludedGPUs": _SET,
        "status.conditions": _CONDITIONS,
        "status.gpus": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uuid"]},
    },
)
