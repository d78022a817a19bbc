"""The custom resources of other schedulers, as small as their definitions can be, and pods of their groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from bayplan.client import Client
from bayplan.cluster.settings import ClusterSettings

RIGHTS = Path(__file__).parents[3] / "deploy" / "scheduler-pod-groups.yaml"
COSCHEDULING, VOLCANO, JOB_SET = "scheduling.x-k8s.io", "scheduling.volcano.sh", "jobset.x-k8s.io"
VERSIONS = {COSCHEDULING: "v1alpha1", VOLCANO: "v1beta1", JOB_SET: "v1alpha2"}


def definition(group: str, kind: str, *, scope: str = "Namespaced") -> dict[str, Any]:
    """A definition whose objects may say anything."""
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": VERSIONS[group],
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": anything},
        "subresources": {"status": {}},
    }
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    metadata = {"name": f"{plural}.{group}"}
    if group != VOLCANO:  # a group under k8s.io has to be approved
        metadata["annotations"] = {"api-approved.kubernetes.io": "unapproved, for a test"}  # type: ignore[assignment]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {"group": group, "scope": scope, "names": names, "versions": [version]},
    }


def made(group: str, kind: str, name: str, **spec: Any) -> dict[str, Any]:
    """A custom resource."""
    metadata = {"name": name} | ({} if kind == "Queue" else {"namespace": "default"})
    return {"apiVersion": f"{group}/{VERSIONS[group]}", "kind": kind, "metadata": metadata, "spec": spec}


def member(name: str, group: str, of: str, cpu: str, **metadata: Any) -> dict[str, Any]:
    """A pod of a custom group, which runs for ten minutes."""
    annotations = {"bayplan.dev/run-seconds": "600"}
    labels = {}
    if group == COSCHEDULING:
        labels["scheduling.x-k8s.io/pod-group"] = of
    elif group == JOB_SET:
        labels["jobset.sigs.k8s.io/jobset-name"] = of
    else:
        annotations["scheduling.k8s.io/group-name"] = of
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels, "annotations": annotations, **metadata},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


def settings(folder: Path, *plugins: str) -> ClusterSettings:
    """A cluster whose scheduler has plugins besides the default ones."""
    disabled = {"queueSort": {"disabled": [{"name": "PrioritySort"}]}} if "Coscheduling" in plugins else {}
    chosen = {"multiPoint": {"enabled": [{"name": name} for name in plugins]}, **disabled}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": chosen}],
    }
    path = folder / "scheduler.yaml"
    path.write_text(yaml.safe_dump(config))
    return ClusterSettings(scheduler_config=path)


async def status(client: Client, group: str, name: str) -> dict[str, Any]:
    """The status of a custom group, as the API shows it."""
    path = f"/apis/{group}/{VERSIONS[group]}/namespaces/default/podgroups/{name}"
    found: dict[str, Any] = yaml.safe_load(await client.raw("GET", path))
    return dict(found.get("status") or {})
