"""What a pod requests and may use as a whole, from its containers, init containers, sidecars, overhead and pod-level resources.

Source: KEP-753 (sidecar containers), KEP-2837 (pod-level resources). Sidecars (init containers with restart policy Always) run beside everything that
starts after them, so they add up; other init containers run one at a time, so only the largest of them counts. Worked example: sidecar 1, init 3,
containers 2 in cpu: max(2 + 1, 3 + 1) = 4 if the sidecar starts first.
"""

from __future__ import annotations

from typing import Literal

from bayplan.api.quota.amounts import Amounts, add, largest, parsed
from bayplan.api.types import core_v1

Side = Literal["requests", "limits"]
_POD_LEVEL = ("cpu", "memory")


def is_pod_level(name: str) -> bool:
    """Whether a resource can be given for the pod as a whole."""
    return name in _POD_LEVEL or name.startswith("hugepages-")


def containers_total(spec: core_v1.PodSpec, side: Side) -> Amounts:
    """What the containers need together at the most demanding moment."""
    total: Amounts = {}
    for container in spec.containers:
        total = add(total, parsed(getattr(container.resources, side)))
    sidecars: Amounts = {}
    start: Amounts = {}
    for container in spec.init_containers:
        own = parsed(getattr(container.resources, side))
        if container.restart_policy == "Always":
            total, sidecars = add(total, own), add(sidecars, own)
            start = largest(start, sidecars)
        else:
            start = largest(start, add(own, sidecars))
    return largest(total, start)


def pod_level(spec: core_v1.PodSpec, side: Side) -> Amounts:
    """What is given for the pod as a whole."""
    if spec.resources is None:
        return {}
    return {name: amount for name, amount in parsed(getattr(spec.resources, side)).items() if is_pod_level(name)}


def pod_total(spec: core_v1.PodSpec, side: Side, *, overhead: bool) -> Amounts:
    """What the pod needs: pod-level amounts where given, else the containers' total; with the overhead of its runtime class if wanted.

    Overhead is added to limits only where there is a limit.
    """
    total = {**containers_total(spec, side), **pod_level(spec, side)}
    if overhead and spec.overhead:
        extra = parsed(spec.overhead)
        total = add(total, {name: amount for name, amount in extra.items() if side == "requests" or name in total})
    return total
