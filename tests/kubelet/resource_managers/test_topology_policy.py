"""Hints are merged as kubelet merges them."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.kubelet.resource_managers.errors import ResourceManagerError
from bayplan.kubelet.resource_managers.topology_hints import Hints, TopologyHint
from bayplan.kubelet.resource_managers.topology_options import TopologyOptions, parse_topology_options
from bayplan.kubelet.resource_managers.topology_policy import NumaInfo, TopologyPolicy
from tests.kubelet.resource_managers.cases import hint_of, tables

COMMON, BEST_EFFORT = "commonPolicyMergeTestCases", "bestEffortPolicy.mergeTestCases"
NO_POLICIES, CLOSEST = "bestEffortPolicy.mergeTestCasesNoPolicies", "bestEffortPolicy.mergeTestCasesClosestNUMA"
SINGLE = "singleNumaNodePolicy.mergeTestCases"
RUNS = [
    ("best-effort", "Four", (COMMON, BEST_EFFORT, NO_POLICIES), False),
    ("best-effort", "Eight", (COMMON, BEST_EFFORT, CLOSEST), True),
    ("restricted", "Four", (COMMON, BEST_EFFORT, NO_POLICIES), False),
    ("restricted", "Eight", (COMMON, BEST_EFFORT, CLOSEST), True),
    ("single-numa-node", "Four", (COMMON, SINGLE), False),
]
"""(policy, machine, tables, whether close nodes are preferred), as upstream runs its tables."""


def numa_info(name: str) -> NumaInfo:
    """A machine of upstream's tests."""
    found = tables("merge")[f"numa commonNUMAInfo{name}Nodes"]
    return NumaInfo(tuple(found["nodes"]), {int(node): each for node, each in found["distances"].items()})


@pytest.mark.parametrize(
    ("policy", "machine", "closest", "case"),
    [
        pytest.param(policy, machine, closest, case, id=f"{policy}-{machine}-{case['name']}")
        for policy, machine, names, closest in RUNS
        for name in names
        for case in tables("merge")[name]
    ],
)
def test_the_merged_hint_is_that_of_kubelet(policy: str, machine: str, closest: bool, case: dict[str, Any]) -> None:
    numa = numa_info(machine)
    hints: list[Hints] = [
        {name: None if each is None else [hint_of(one, numa.nodes) for one in each] for name, each in provider.items()}
        for provider in case["hints"]
    ]
    merged, admitted = TopologyPolicy(policy, numa, TopologyOptions(closest)).merge(hints)
    assert merged == hint_of(case["expected"], numa.nodes)
    assert admitted == (policy == "best-effort" or merged.preferred)


def test_without_a_policy_nothing_is_merged() -> None:
    hint, admitted = TopologyPolicy("none", numa_info("Two")).merge([{"cpu": ()}])
    assert (hint, admitted) == (TopologyHint(), True)


def test_options_are_read() -> None:
    found = parse_topology_options({"prefer-closest-numa-nodes": "true", "max-allowable-numa-nodes": "16"})
    assert found == TopologyOptions(True, 16)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max-allowable-numa-nodes": "4"}, "should not be less than 8"),
        ({"max-allowable-numa-nodes": "many"}, "unable to convert policy option to integer"),
        ({"prefer-closest-numa-nodes": "yes"}, 'bad value for option "prefer-closest-numa-nodes"'),
        ({"other": "1"}, 'unknown Topology Manager Policy option: "other"'),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ResourceManagerError, match=message):
        parse_topology_options(options)
