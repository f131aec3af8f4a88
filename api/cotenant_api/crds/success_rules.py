"""Rules of `spec.successPolicy`: what the API server would refuse of the Job is refused of the DLJob, with a remedy."""

from typing import Final

from cotenant_api.crds.refining import Rule

_INDEX: Final = "(0|[1-9][0-9]{0,3})(-[1-9][0-9]{0,3})?"
_FORMAT: Final = f"^{_INDEX}(,{_INDEX})*$"
_BOUNDS: Final = "self.succeededIndexes.replace('-', ',-').split(',').map(i, int(i))"
"""First and last indexes in order, the last one of an interval as a negative number: strings of unknown length, as the
parts of a string are, would be of unbounded cost. An interval's last index is never 0."""
_NO_INDEXES: Final = f"!has(self.succeededIndexes) || !self.succeededIndexes.matches('{_FORMAT}')"
_SIZE: Final = f"[{_BOUNDS}].map(b, b.transformList(i, v, v < 0 ? -v - b[i - 1] : 1).sum())[0]"

OF_SPEC: Final = (
    Rule(
        "!has(self.successPolicy) || self.workloadType != 'Training' || self.replicas > 1",
        "successPolicy belongs to a gang: set replicas above 1, or remove it",
        ".successPolicy",
        "FieldValueForbidden",
    ),
    Rule(
        "!has(self.successPolicy) || !has(self.completions)",
        "a sweep has no successPolicy: each of its runs ends by itself; remove successPolicy, or completions",
        ".successPolicy",
        "FieldValueForbidden",
    ),
    Rule(
        "!has(self.successPolicy) || self.successPolicy.rules.all(r, !has(r.succeededCount) || "
        "r.succeededCount <= self.replicas)",
        "succeededCount of each rule must be at most replicas, the number of members",
        ".successPolicy.rules",
    ),
    Rule(
        "!has(self.successPolicy) || self.successPolicy.rules.all(r, !has(r.succeededIndexes) || "
        f"!r.succeededIndexes.matches('{_FORMAT}') || [r.succeededIndexes.replace('-', ',').split(',')]"
        ".all(b, int(b[b.size() - 1]) < self.replicas))",
        "succeededIndexes of each rule must be below replicas: the members of a gang are 0 to replicas - 1",
        ".successPolicy.rules",
    ),
)
RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "spec.successPolicy.rules[]": (
        Rule(
            "has(self.succeededIndexes) || has(self.succeededCount)",
            "a rule must have succeededIndexes, succeededCount or both",
            reason="FieldValueRequired",
        ),
        Rule(
            f"!has(self.succeededIndexes) || self.succeededIndexes.matches('{_FORMAT}')",
            "succeededIndexes must be indexes and intervals with commas between them, such as 0,2-5",
            ".succeededIndexes",
        ),
        Rule(
            f"{_NO_INDEXES} || [{_BOUNDS}].all(b, b.all(i, v, i == 0 || "
            "(b[i - 1] < 0 ? -b[i - 1] : b[i - 1]) < (v < 0 ? -v : v)))",
            "succeededIndexes must ascend, and name each member once: write them as 0,2-5",
            ".succeededIndexes",
        ),
        Rule(
            f"!has(self.succeededCount) || {_NO_INDEXES} || self.succeededCount <= {_SIZE}",
            "succeededCount must be at most the number of members that succeededIndexes names",
            ".succeededCount",
        ),
    ),
}
