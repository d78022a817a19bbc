"""Weights and skews at their bounds, which are those of `pkg/apis/core/validation`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.validation.pods import pod, problems

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERM = {"topologyKey": "zone", "labelSelector": {}}
ZONE = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}


@pytest.mark.parametrize(("weight", "is_allowed"), [(0, False), (1, True), (100, True), (101, False), (-1, False)])
@pytest.mark.parametrize(
    ("kind", "term"),
    [
        ("nodeAffinity", {"preference": ZONE}),
        ("podAffinity", {"podAffinityTerm": TERM}),
        ("podAntiAffinity", {"podAffinityTerm": TERM}),
    ],
)
def test_weights(kind: str, term: dict[str, Any], weight: int, is_allowed: bool) -> None:
    found = problems(pod({"affinity": {kind: {PREFERRED: [{"weight": weight, **term}]}}}))
    assert found == ([] if is_allowed else [f"spec.affinity.{kind}.{PREFERRED}[0].weight INVALID"])


@pytest.mark.parametrize(("skew", "is_allowed"), [(-1, False), (0, False), (1, True)])
def test_skews(skew: int, is_allowed: bool) -> None:
    constraint = {"maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", **TERM}
    found = problems(pod({"topologySpreadConstraints": [constraint]}))
    assert found == ([] if is_allowed else ["spec.topologySpreadConstraints[0].maxSkew INVALID"])
