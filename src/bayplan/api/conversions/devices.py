"""Kinds of dynamic resource allocation between `resource.k8s.io/v1` and `v1beta1`, in which requests and devices have another form.

    v1                                              v1beta1
    request {name, exactly: {deviceClassName, ..}}  request {name, deviceClassName, ..}
    device  {name, attributes, ..}                  device  {name, basic: {attributes, ..}}

Source: Kubernetes' `pkg/apis/resource/v1beta1/conversion.go`. `v1beta2` has the form of `v1`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bayplan.api.codec import from_tree, to_tree
from bayplan.api.types import resource_v1, resource_v1beta1

_REQUEST: Final = ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity")
"""Fields of `exactly` that v1beta1 has in the request itself."""
_SLICE: Final = ("nodeName", "allNodes")
"""Fields of a slice that v1beta1 cannot tell empty from missing."""
Tree = dict[str, Any]


def to_v1(obj: Any) -> Any:
    """An object of v1beta1 in v1."""
    tree = _converted(obj, _request_to_v1, _device_to_v1)
    if type(obj) is resource_v1beta1.ResourceSlice:
        for name in _SLICE:
            if not tree["spec"].get(name):
                tree["spec"].pop(name, None)
    return from_tree(getattr(resource_v1, type(obj).__name__), tree)


def from_v1(obj: Any) -> Any:
    """An object of v1 in v1beta1."""
    return from_tree(getattr(resource_v1beta1, type(obj).__name__), _converted(obj, _request_from_v1, _device_from_v1))


def _converted(obj: Any, request: Callable[[Tree], Tree], device: Callable[[Tree], Tree]) -> Tree:
    """An object as JSON, with its requests and devices in the form of the other version."""
    tree = _versionless(obj)
    for claim in _claims(tree):
        claim["requests"] = [request(one) for one in claim.get("requests") or ()]
    if type(obj).__name__ == "ResourceSlice":
        tree["spec"]["devices"] = [device(one) for one in tree["spec"].get("devices") or ()]
    return tree


def _versionless(obj: Any) -> Tree:
    """An object without its version, as JSON would show it."""
    tree: Tree = to_tree(obj)
    return {name: value for name, value in tree.items() if name not in ("kind", "apiVersion")}


def _claims(tree: Tree) -> list[Tree]:
    """What a ResourceClaim or a template of such asks for; nothing of other kinds."""
    spec = tree.get("spec", {})
    spec = spec.get("spec", spec)
    claim = spec.get("devices")
    return [claim] if isinstance(claim, dict) else []


def _request_to_v1(request: Tree) -> Tree:
    given = {name: request[name] for name in _REQUEST if not _is_missing(request.get(name))}
    rest = {name: value for name, value in request.items() if name not in _REQUEST}
    return {**rest, "exactly": given} if given else rest


def _is_missing(value: Any) -> bool:
    """Whether Go leaves a field out; `false` was given by somebody."""
    return value is not False and value in (None, "", 0, [])


def _request_from_v1(request: Tree) -> Tree:
    rest = {name: value for name, value in request.items() if name != "exactly"}
    return {**rest, **(request.get("exactly") or {})}


def _device_to_v1(device: Tree) -> Tree:
    return {"name": device.get("name", ""), **(device.get("basic") or {})}


def _device_from_v1(device: Tree) -> Tree:
    basic = {name: value for name, value in device.items() if name != "name"}
    return {"name": device.get("name", ""), "basic": basic}
