"""The objects that the operator creates for a StorageCluster. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from .objects import DRIVER, GROUP, NAMESPACE

DISCOVER, AGENT = "storage-discover", "storage-agent"
_NODE_NAME: Final = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
_POD_IP: Final = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def desired(cluster: Mapping[str, Any], operator_pod: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """All objects by their paths in the API. Pods of nodes have the image of the operator's pod and its volumes of type hostPath."""
    owner = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "StorageCluster",
        "name": cluster["metadata"]["name"],
        "uid": cluster["metadata"]["uid"],
    }
    spec = cluster["spec"]
    found: dict[str, dict[str, Any]] = {
        f"/apis/storage.k8s.io/v1/csidrivers/{DRIVER}": {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER},
            "spec": {"attachRequired": False, "fsGroupPolicy": "File", "volumeLifecycleModes": ["Persistent"]},
        },
        "/apis/storage.k8s.io/v1/storageclasses/replicated": {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "replicated"},
            "provisioner": DRIVER,
            "parameters": {"replicas": str(spec["replicas"]), "minInSync": str(spec["minInSync"])},
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
        },
    }
    for name, module in ((DISCOVER, "discover"), (AGENT, "agent")):
        where = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/{name}"
        found[where] = _daemon_set(name, _pod_spec(module, spec, operator_pod))
    for tree in found.values():
        tree["metadata"]["ownerReferences"] = [owner]
    return found


def _daemon_set(name: str, pod: dict[str, Any]) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "OnDelete"},  # volumes in use end with their agent
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _pod_spec(module: str, spec: Mapping[str, Any], operator_pod: Mapping[str, Any]) -> dict[str, Any]:
    model = operator_pod["spec"]["containers"][0]
    package = model["command"][-1].rpartition(".")[0]
    shared = [copy.deepcopy(one) for one in operator_pod["spec"].get("volumes", ()) if "hostPath" in one]
    names = {one["name"] for one in shared}
    mounts = [copy.deepcopy(one) for one in model.get("volumeMounts", ()) if one["name"] in names]
    directories = [("dev", "/dev", False)]
    environment: list[dict[str, Any]] = [*copy.deepcopy(model.get("env", [])), _NODE_NAME, _POD_IP]
    if spec.get("disks", {}).get("directory"):
        environment.append({"name": "DISKS_DIRECTORY", "value": spec["disks"]["directory"]})
        directories.append(("disks", same_everywhere(spec["disks"]["directory"]), False))
    if module == "agent":
        environment.append({"name": "KUBELET_DIRECTORY", "value": spec["kubeletDirectory"]})
        environment.append({"name": "LOST_AFTER_SECONDS", "value": str(spec["lostAfterSeconds"])})
        directories.append(("kubelet", same_everywhere(spec["kubeletDirectory"]), True))
    for name, directory, propagates in directories:
        shared.append({"name": name, "hostPath": {"path": directory}})
        mount: dict[str, Any] = {"name": name, "mountPath": directory}
        mounts.append({**mount, "mountPropagation": "Bidirectional"} if propagates else mount)
    container: dict[str, Any] = {
        "name": module,
        "image": model["image"],
        "imagePullPolicy": model.get("imagePullPolicy", "IfNotPresent"),
        "command": [*model["command"][:-1], f"{package}.{module}"],
        "env": environment,
        "securityContext": {"privileged": True},
        "volumeMounts": mounts,
    }
    if "workingDir" in model:
        container["workingDir"] = model["workingDir"]
    return {
        "serviceAccountName": "storage-node",
        "priorityClassName": "system-node-critical",
        "terminationGracePeriodSeconds": 5,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": shared,
    }


def same_everywhere(directory: str) -> str:
    """The part of a directory before what differs from node to node: `/data` of `/data/$(NODE_NAME)/kubelet`."""
    head, separator, _ = directory.partition("$(")
    return head.rsplit("/", 1)[0] or "/" if separator else directory
