"""CPUs are chosen as kubelet chooses them, and never twice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.kubelet.resource_managers.cpus.cpu_assignment import take_packed
from bayplan.kubelet.resource_managers.cpus.cpu_distribution import take_distributed
from bayplan.kubelet.resource_managers.cpus.cpu_set import CpuSet, format_cpu_set, parse_cpu_set
from bayplan.kubelet.resource_managers.errors import AllocationError
from tests.kubelet.resource_managers.cases import cases, tables, topology


def result(case: dict[str, Any], take: Any) -> tuple[str, str]:
    """(CPUs, error)."""
    try:
        return format_cpu_set(take()), ""
    except AllocationError as error:
        return "", str(error)


@pytest.mark.parametrize("case", cases("cpu", "packed"))
def test_cpus_are_packed_as_kubelet_does(case: dict[str, Any]) -> None:
    available = parse_cpu_set(case["available"])
    cpus, error = result(
        case,
        lambda: take_packed(
            topology(case["topology"]),
            available,
            case["number"],
            spread="distribute-cpus-across-cores" in case["options"],
            by_uncore_cache="prefer-align-cpus-by-uncorecache" in case["options"],
        ),
    )
    assert (cpus, error) == (case["expected"], case["error"])


@pytest.mark.parametrize("case", cases("cpu", "distributed"))
def test_cpus_are_distributed_as_kubelet_does(case: dict[str, Any]) -> None:
    available = parse_cpu_set(case["available"])
    machine = topology(case["topology"])
    cpus, error = result(case, lambda: take_distributed(machine, available, case["number"], case["group_size"]))
    assert (cpus, error) == (case["expected"], case["error"])


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, CpuSet, int]:
    """(machine, CPUs that are free, how many are wanted)."""
    name = draw(st.sampled_from(sorted(each for each, rows in tables("cpu")["topologies"].items() if len(rows) <= 20)))
    available = draw(st.frozensets(st.sampled_from(sorted(topology(name).all()))))
    return name, available, draw(st.integers(0, len(available)))


@given(requests(), st.booleans(), st.booleans())
def test_so_many_free_cpus_are_taken_as_are_wanted(
    request: tuple[str, CpuSet, int], spread: bool, by_uncore_cache: bool
) -> None:
    name, available, number = request
    taken = take_packed(topology(name), available, number, spread=spread, by_uncore_cache=by_uncore_cache)
    assert len(taken) == number
    assert taken <= available


@given(requests(), st.sampled_from([1, 2]))
def test_distributed_cpus_are_free_ones_and_as_many_as_wanted(
    request: tuple[str, CpuSet, int], group_size: int
) -> None:
    name, available, number = request
    taken = take_distributed(topology(name), available, number, group_size)
    assert len(taken) == number
    assert taken <= available


@given(st.frozensets(st.integers(0, 300)))
def test_sets_are_read_as_they_are_written(numbers: CpuSet) -> None:
    assert parse_cpu_set(format_cpu_set(numbers)) == numbers


@pytest.mark.parametrize("text", ["1.3", "asd", "3-1", "1,,2", "-1", "1-"])
def test_what_is_no_set_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no CPU|invalid range"):
        parse_cpu_set(text)
