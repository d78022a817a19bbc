"""Devices, claims for them, and clusters that have them, as plain dicts in the form of the API."""

from __future__ import annotations

from typing import Any

from bayplan.scheduler.core import Outcome
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.test_core import Setup

DRIVER = "gpu.example.com"


def device_class(name: str = "gpu", *expressions: str, **spec: Any) -> Tree:
    return {
        "kind": "DeviceClass",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": text}} for text in expressions], **spec},
    }


def device(name: str, *, memory: str = "40Gi", **attributes: Any) -> Tree:
    kinds = {int: "int", str: "string", bool: "bool"}
    return {
        "name": name,
        "attributes": {key: {kinds[type(value)]: value} for key, value in attributes.items()},
        "capacity": {"memory": {"value": memory}},
    }


def slice_of(on: str, *devices: Tree, count: int = 1, generation: int = 1, part: int = 0, **spec: Any) -> Tree:
    place = {} if spec.keys() & {"allNodes", "nodeSelector", "perDeviceNodeSelection"} else {"nodeName": on}
    return {
        "kind": "ResourceSlice",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": f"{on}-{generation}-{part}"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": on, "generation": generation, "resourceSliceCount": count},
            "devices": list(devices),
            **place,
            **spec,
        },
    }


def exactly(name: str = "one", *expressions: str, count: int = 1, class_name: str = "gpu", **fields: Any) -> Tree:
    body = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": count, **fields}
    return {"name": name, "exactly": body | {"selectors": [{"cel": {"expression": text}} for text in expressions]}}


def claim(name: str, *requests: Tree, **devices: Any) -> Tree:
    return {
        "kind": "ResourceClaim",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": list(requests) or [exactly()], **devices}},
    }


def user(name: str, *claims: str) -> Tree:
    entries = [{"name": f"r{index}", "resourceClaimName": item} for index, item in enumerate(claims)]
    return pod(name, resourceClaims=entries)


def cluster(*trees: Tree, nodes: str = "ab", classes: tuple[Tree, ...] = (device_class(),)) -> Setup:
    setup = Setup()
    for name in nodes:
        setup.see("Node", node(name))
    for tree in (*classes, *trees):
        setup.see(tree["kind"], tree)
    return setup


def attempt(setup: Setup) -> Outcome:
    outcome = setup.core.schedule_one()
    assert outcome is not None
    return outcome


def allocated(name: str, on: str, *users: str) -> Tree:
    tree = claim(name)
    field = {"key": "metadata.name", "operator": "In", "values": [on]}
    tree["status"] = {
        "allocation": {
            "devices": {"results": [{"request": "one", "driver": DRIVER, "pool": on, "device": "gpu-0"}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        },
        "reservedFor": [{"resource": "pods", "name": item, "uid": f"uid-{item}"} for item in users],
    }
    return tree
