"""The workload of trials that bring none: a few of every kind, small enough that a thousand trials take minutes."""

from __future__ import annotations

from typing import Any, Final

_REQUESTS: Final = {"cpu": "100m", "memory": "64Mi"}


def usual_mix() -> list[dict[str, Any]]:
    """A Deployment with a service and a budget, a StatefulSet, a DaemonSet, a Job and a quota."""
    return [
        _workload("Deployment", "web", 6, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web"},
            "spec": {"maxUnavailable": 2, "selector": {"matchLabels": {"app": "web"}}},
        },
        _workload("StatefulSet", "db", 3, serviceName="db"),
        _workload("DaemonSet", "agent", None),
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "batch"},
            "spec": {
                "completions": 6,
                "parallelism": 2,
                "backoffLimit": 1000,
                "template": _template("batch", "OnFailure"),
            },
        },
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "all"},
            "spec": {"hard": {"pods": "100", "requests.cpu": "50"}},
        },
    ]


def _template(name: str, restart: str) -> dict[str, Any]:
    container = {"name": "main", "image": name, "resources": {"requests": _REQUESTS}}
    return {"metadata": {"labels": {"app": name}}, "spec": {"restartPolicy": restart, "containers": [container]}}


def _workload(kind: str, name: str, replicas: int | None, **more: Any) -> dict[str, Any]:
    spec = {"selector": {"matchLabels": {"app": name}}, "template": _template(name, "Always"), **more}
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
