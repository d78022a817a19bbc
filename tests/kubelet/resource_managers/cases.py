"""Cases of Kubernetes' own unit tests (pkg/kubelet/cm, 1.36), with the results that those expect, as tables."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.kubelet.resource_managers.cpus.cpu_set import parse_cpu_set
from bayplan.kubelet.resource_managers.cpus.cpu_state import CpuState
from bayplan.kubelet.resource_managers.devices.device_calls import Steps
from bayplan.kubelet.resource_managers.machine_topology import Cpu, CpuTopology
from bayplan.kubelet.resource_managers.topology_hints import TopologyHint

_HERE = Path(__file__).parent


@cache
def tables(name: str) -> dict[str, Any]:
    """The tables of a file: `cpu` or `merge`."""
    found: dict[str, Any] = json.loads((_HERE / f"upstream_{name}_cases.json").read_text())
    return found


def cases(name: str, table: str) -> list[Any]:
    """Parameters: one case of a table each, by its name."""
    return [pytest.param(each, id=each["name"]) for each in tables(name)[table]]


@cache
def topology(name: str) -> CpuTopology:
    """A machine of Kubernetes' tests, such as topoDualSocketHT."""
    rows = tables("cpu")["topologies"][name]
    return CpuTopology({cpu: Cpu(core, socket, numa, uncore) for cpu, core, socket, numa, uncore in rows})


def cpu_state(case: dict[str, Any]) -> CpuState:
    """What a case starts with."""
    state = CpuState("static", shared=parse_cpu_set(case["shared"]))
    state.assignments = {
        uid: {name: parse_cpu_set(text) for name, text in each.items()} for uid, each in case["assignments"].items()
    }
    return state


def container(name: str, cpu: str = "1", limit: str = "", *, memory: str = "1G", **more: str) -> core_v1.Container:
    """A container with requests and limits."""
    requests: dict[str, str | int | float] = {"cpu": cpu, "memory": memory, **more}
    resources = core_v1.ResourceRequirements(requests=requests, limits={**requests, "cpu": limit or cpu})
    return core_v1.Container(name=name, image="app", resources=resources)


def pod(
    *containers: core_v1.Container, uid: str = "pod", init: tuple[core_v1.Container, ...] = (), **spec: Any
) -> core_v1.Pod:
    """A pod of some containers."""
    metadata = meta_v1.ObjectMeta(name=uid, namespace="default", uid=uid)
    return core_v1.Pod(metadata=metadata, spec=core_v1.PodSpec(containers=containers, init_containers=init, **spec))


def pod_of(case: dict[str, Any]) -> core_v1.Pod:
    """The pod of a case."""
    init = tuple(container(*each) for each in case["init"])
    return pod(*(container(*each) for each in case["containers"]), uid=case["uid"], init=init)


class FixedAffinity:
    """Always the same hint."""

    def __init__(self, hint: dict[str, Any] | None = None) -> None:
        self._hint = hint_of(hint) if hint is not None else TopologyHint()

    def affinity(self, pod_uid: str, container: str) -> TopologyHint:
        return self._hint


def hint_of(case: dict[str, Any], everywhere: tuple[int, ...] = ()) -> TopologyHint:
    """A hint of a case; "all" for all nodes."""
    nodes = case["affinity"]
    return TopologyHint(
        None if nodes is None else frozenset(everywhere if nodes == "all" else nodes), case["preferred"]
    )


def finish(steps: Steps) -> None:
    """Take steps that ask nothing."""
    for call in steps:
        raise AssertionError(f"nobody answers {call}")
