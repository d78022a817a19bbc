"""Objects of API versions that are served no more, in the form of today.

What has only moved (to another group or version) is renamed; what has changed its form is rebuilt. Works on plain data,
before anything is decoded. Source of the moves: the deprecated API migration guide of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

Tree = dict[str, Any]

_MOVED: Final = {
    **{
        (f"apps/{version}", kind): "apps/v1"
        for version in ("v1beta1", "v1beta2")
        for kind in ("Deployment", "StatefulSet", "ControllerRevision", "DaemonSet", "ReplicaSet")
    },
    **{("extensions/v1beta1", kind): "apps/v1" for kind in ("Deployment", "DaemonSet", "ReplicaSet")},
    ("batch/v1beta1", "CronJob"): "batch/v1",
    ("policy/v1beta1", "PodDisruptionBudget"): "policy/v1",
    ("autoscaling/v2beta2", "HorizontalPodAutoscaler"): "autoscaling/v2",
    ("node.k8s.io/v1beta1", "RuntimeClass"): "node.k8s.io/v1",
    ("scheduling.k8s.io/v1beta1", "PriorityClass"): "scheduling.k8s.io/v1",
    ("scheduling.k8s.io/v1alpha1", "PriorityClass"): "scheduling.k8s.io/v1",
    **{
        (f"storage.k8s.io/{version}", kind): "storage.k8s.io/v1"
        for version in ("v1alpha1", "v1beta1")
        for kind in ("StorageClass", "CSIDriver", "CSINode", "CSIStorageCapacity", "VolumeAttachment")
    },
    **{
        (f"resource.k8s.io/{version}", kind): "resource.k8s.io/v1"
        for version in ("v1beta1", "v1beta2")
        for kind in ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
    },
}
"""(apiVersion, kind) of old -> apiVersion of today."""


def current_form(tree: Mapping[str, Any]) -> Tree:
    """The object in the version of today; as it is, if there is nothing to do."""
    key = (str(tree.get("apiVersion", "")), str(tree.get("kind", "")))
    target = _MOVED.get(key)
    if target is None:
        return dict(tree)
    moved = {**tree, "apiVersion": target}
    rebuild = _REBUILT.get(key)
    return rebuild(moved) if rebuild is not None else moved


def _with_selector(tree: Tree) -> Tree:
    """Workloads of the first beta versions need not name a selector: it follows from the template."""
    spec = dict(tree.get("spec") or {})
    if not spec.get("selector"):
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        spec["selector"] = {"matchLabels": dict(labels)}
    for gone in ("rollbackTo", "templateGeneration"):
        spec.pop(gone, None)
    return {**tree, "spec": spec}


def _budget(tree: Tree) -> Tree:
    """An empty selector of policy/v1beta1 selects nothing; today it selects everything."""
    spec = dict(tree.get("spec") or {})
    selector = spec.get("selector")
    if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
        spec.pop("selector")
    return {**tree, "spec": spec}


def _slice(tree: Tree) -> Tree:
    """v1beta1 keeps what a device has under `basic`."""
    spec = dict(tree.get("spec") or {})
    spec["devices"] = [
        {**{key: value for key, value in device.items() if key != "basic"}, **(device.get("basic") or {})}
        for device in spec.get("devices") or ()
    ]
    return {**tree, "spec": spec}


def _claim_spec(spec: Mapping[str, Any]) -> Tree:
    """v1beta1 has what a request asks for beside its name; today it is under `exactly`."""
    devices = dict(spec.get("devices") or {})
    devices["requests"] = [_request(one) for one in devices.get("requests") or ()]
    return {**spec, "devices": devices}


def _request(request: Mapping[str, Any]) -> Tree:
    if "firstAvailable" in request:
        return dict(request)
    return {"name": request.get("name", ""), "exactly": {key: value for key, value in request.items() if key != "name"}}


def _claim(tree: Tree) -> Tree:
    return {**tree, "spec": _claim_spec(tree.get("spec") or {})}


def _claim_template(tree: Tree) -> Tree:
    spec = tree.get("spec") or {}
    return {**tree, "spec": {**spec, "spec": _claim_spec(spec.get("spec") or {})}}


_REBUILT: Final[dict[tuple[str, str], Callable[[Tree], Tree]]] = {
    **{key: _with_selector for key in _MOVED if key[0] in ("apps/v1beta1", "extensions/v1beta1")},
    ("policy/v1beta1", "PodDisruptionBudget"): _budget,
    ("resource.k8s.io/v1beta1", "ResourceSlice"): _slice,
    ("resource.k8s.io/v1beta1", "ResourceClaim"): _claim,
    ("resource.k8s.io/v1beta1", "ResourceClaimTemplate"): _claim_template,
}
"""(apiVersion, kind) of old -> what changes besides the version."""
