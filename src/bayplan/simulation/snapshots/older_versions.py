"""Objects of API versions that are served no more, in a form of today.

What has only moved (to another group or version) is renamed; what has changed its form is rebuilt. Works on plain data,
before anything is decoded. One table says all; what is not in it is not known. Source of the moves: the deprecated API
migration guide of Kubernetes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from bayplan.api.conversions.autoscaling import CONDITIONS, CURRENT_METRICS, METRICS
from bayplan.api.kinds import BUILT_IN, Kind
from bayplan.api.optional_kinds import EVERY_KIND, NEWER

Tree = dict[str, Any]

_EXTENSIONS: Final = "extensions"
"""The group that had kinds of many groups of today."""


@dataclass(frozen=True, slots=True)
class _Older:
    """What becomes of objects of an old version."""

    now: str
    """apiVersion of today."""
    rebuild: Callable[[Tree], Tree] | None = None
    """What changes besides the version."""


def current_form(tree: Mapping[str, Any]) -> Tree:
    """The object in a version of today; as it is, if there is nothing to do."""
    older = _OLDER.get((str(tree.get("apiVersion", "")), str(tree.get("kind", ""))))
    if older is None:
        return dict(tree)
    moved = {**tree, "apiVersion": older.now}
    return older.rebuild(moved) if older.rebuild is not None else moved


def older_versions(kind: Kind) -> tuple[str, ...]:
    """The apiVersions in which servers of other releases may have a kind, newest first."""
    found = [one for (one, name), older in _OLDER.items() if name == kind.kind and _group(older.now) == kind.group]
    served = [row.api_version for row in (*BUILT_IN, *NEWER) if (row.group, row.kind) == (kind.group, kind.kind)]
    return tuple(one for one in (*found, *served) if one != kind.api_version)


def is_older_version(api_version: str, kind: str) -> bool:
    """Whether this is a version, known here or not, of a kind that Kubernetes has today."""
    group = _group(api_version)
    return (group, kind) in _known() or (group == _EXTENSIONS and any(kind == name for _, name in _known()))


@cache
def _known() -> frozenset[tuple[str, str]]:
    return frozenset((row.group, row.kind) for row in EVERY_KIND)


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


# What has changed its form


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


def _defaulting(field: str, value: Mapping[str, Any]) -> Callable[[Tree], Tree]:
    """A workload of the first betas: no selector needed, and other defaults for how it is updated."""

    def rebuild(tree: Tree) -> Tree:
        moved = _with_selector(tree)
        return {**moved, "spec": {field: dict(value), **moved["spec"]}}

    return rebuild


def _old_job(tree: Tree) -> Tree:
    """Jobs of extensions/v1beta1 say `autoSelector` where today `manualSelector` says the opposite."""
    spec = dict(tree.get("spec") or {})
    if not spec.pop("autoSelector", False) and spec.get("selector"):
        spec["manualSelector"] = True
    return {**tree, "spec": spec}


def _runtime_class(tree: Tree) -> Tree:
    """node.k8s.io/v1alpha1 has everything under `spec`, and the handler as `runtimeHandler`."""
    spec = dict(tree.get("spec") or {})
    handler = spec.pop("runtimeHandler", "")
    return {**{key: value for key, value in tree.items() if key != "spec"}, "handler": handler, **spec}


def _slice_of_alpha(tree: Tree) -> Tree:
    """v1alpha3 has plain amounts where today an amount is a field of the capacity."""
    rebuilt = _slice(tree)
    for device in rebuilt["spec"]["devices"]:
        capacity = device.get("capacity") or {}
        device["capacity"] = {
            name: amount if isinstance(amount, dict) else {"value": amount} for name, amount in capacity.items()
        }
    return rebuilt


def _autoscaler(tree: Tree) -> Tree:
    """The metrics of autoscaling/v2beta1 have the form that autoscaling/v1 carries in annotations."""
    spec, status = dict(tree.get("spec") or {}), dict(tree.get("status") or {})
    metadata = dict(tree.get("metadata") or {})
    found = {
        METRICS: spec.pop("metrics", None),
        CURRENT_METRICS: status.pop("currentMetrics", None),
        CONDITIONS: status.pop("conditions", None),
    }
    carried = {name: json.dumps(value) for name, value in found.items() if value}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **carried}
    return {**tree, "metadata": metadata, "spec": spec, "status": status}


def _first_autoscaler(tree: Tree) -> Tree:
    """extensions/v1beta1 names the target `scaleRef` and knows nothing but cpu."""
    spec = dict(tree.get("spec") or {})
    target = dict(spec.pop("scaleRef", None) or {})
    target.pop("subresource", None)
    cpu = (spec.pop("cpuUtilization", None) or {}).get("targetPercentage")
    told = {"targetCPUUtilizationPercentage": cpu} if cpu is not None else {}
    return {**tree, "spec": {**spec, "scaleTargetRef": target, **told}}


def _ingress(tree: Tree) -> Tree:
    """Backends name service and port in two fields, and paths need no type."""
    spec = dict(tree.get("spec") or {})
    backend = spec.pop("backend", None)
    if backend:
        spec["defaultBackend"] = _backend(backend)
    spec["rules"] = [_ingress_rule(rule) for rule in spec.get("rules") or ()]
    return {**tree, "spec": spec}


def _ingress_rule(rule: Tree) -> Tree:
    if not rule.get("http"):
        return rule
    paths = [
        {"pathType": "ImplementationSpecific", **path, "backend": _backend(path.get("backend") or {})}
        for path in rule["http"].get("paths") or ()
    ]
    return {**rule, "http": {**rule["http"], "paths": paths}}


def _backend(backend: Tree) -> Tree:
    if "serviceName" not in backend:
        return backend
    port = backend.get("servicePort")
    shown = {"name": port} if isinstance(port, str) else {"number": port}
    return {"service": {"name": backend["serviceName"], "port": shown}}


def _endpoint_slice(tree: Tree) -> Tree:
    """Endpoints of v1beta1 have a map of topology where today they have node and zone."""
    return {**tree, "endpoints": [_endpoint(one) for one in tree.get("endpoints") or ()]}


def _endpoint(endpoint: Tree) -> Tree:
    rest = {key: value for key, value in endpoint.items() if key != "topology"}
    topology = dict(endpoint.get("topology") or {})
    node, zone = topology.pop("kubernetes.io/hostname", ""), topology.pop("topology.kubernetes.io/zone", "")
    named = {"nodeName": node, "zone": zone, "deprecatedTopology": topology}
    return {**{key: value for key, value in named.items() if value}, **rest}


_ON_DELETE: Final = {"type": "OnDelete"}
_ONE_AT_A_TIME: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}

_OLDER: Final[Mapping[tuple[str, str], _Older]] = {
    **{
        ("apps/v1beta2", kind): _Older("apps/v1")
        for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ControllerRevision")
    },
    ("apps/v1beta1", "Deployment"): _Older("apps/v1", _with_selector),
    ("apps/v1beta1", "StatefulSet"): _Older("apps/v1", _defaulting("updateStrategy", _ON_DELETE)),
    ("apps/v1beta1", "ControllerRevision"): _Older("apps/v1"),
    ("extensions/v1beta1", "Deployment"): _Older("apps/v1", _defaulting("strategy", _ONE_AT_A_TIME)),
    ("extensions/v1beta1", "DaemonSet"): _Older("apps/v1", _defaulting("updateStrategy", _ON_DELETE)),
    ("extensions/v1beta1", "ReplicaSet"): _Older("apps/v1", _with_selector),
    ("extensions/v1beta1", "Job"): _Older("batch/v1", _old_job),
    ("batch/v1beta1", "CronJob"): _Older("batch/v1"),
    ("batch/v2alpha1", "CronJob"): _Older("batch/v1"),
    ("policy/v1beta1", "PodDisruptionBudget"): _Older("policy/v1", _budget),
    ("policy/v1alpha1", "PodDisruptionBudget"): _Older("policy/v1", _budget),
    ("autoscaling/v2beta2", "HorizontalPodAutoscaler"): _Older("autoscaling/v2"),
    ("autoscaling/v2beta1", "HorizontalPodAutoscaler"): _Older("autoscaling/v1", _autoscaler),
    ("autoscaling/v2alpha1", "HorizontalPodAutoscaler"): _Older("autoscaling/v1", _autoscaler),
    ("extensions/v1beta1", "HorizontalPodAutoscaler"): _Older("autoscaling/v1", _first_autoscaler),
    ("node.k8s.io/v1beta1", "RuntimeClass"): _Older("node.k8s.io/v1"),
    ("node.k8s.io/v1alpha1", "RuntimeClass"): _Older("node.k8s.io/v1", _runtime_class),
    ("scheduling.k8s.io/v1beta1", "PriorityClass"): _Older("scheduling.k8s.io/v1"),
    ("scheduling.k8s.io/v1alpha1", "PriorityClass"): _Older("scheduling.k8s.io/v1"),
    **{
        (f"storage.k8s.io/{version}", kind): _Older("storage.k8s.io/v1")
        for version in ("v1beta1", "v1alpha1")
        for kind in ("StorageClass", "CSIDriver", "CSINode", "CSIStorageCapacity", "VolumeAttachment")
    },
    **{
        (f"resource.k8s.io/{version}", kind): _Older("resource.k8s.io/v1", rebuild)
        for version, slices in (("v1beta2", None), ("v1beta1", _slice), ("v1alpha3", _slice_of_alpha))
        for kind, rebuild in (
            ("DeviceClass", None),
            ("ResourceClaim", _claim if slices else None),
            ("ResourceClaimTemplate", _claim_template if slices else None),
            ("ResourceSlice", slices),
        )
    },
    ("networking.k8s.io/v1beta1", "Ingress"): _Older("networking.k8s.io/v1", _ingress),
    ("extensions/v1beta1", "Ingress"): _Older("networking.k8s.io/v1", _ingress),
    ("networking.k8s.io/v1beta1", "IngressClass"): _Older("networking.k8s.io/v1"),
    ("extensions/v1beta1", "NetworkPolicy"): _Older("networking.k8s.io/v1"),
    ("discovery.k8s.io/v1beta1", "EndpointSlice"): _Older("discovery.k8s.io/v1", _endpoint_slice),
}
"""(apiVersion, kind) of old -> what it is today; of one kind the newest version first."""
