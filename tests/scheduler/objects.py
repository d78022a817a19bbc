"""Small objects for scheduler tests, as plain dicts in the form of the API."""

from __future__ import annotations

from typing import Any

Tree = dict[str, Any]


def node(name: str, *, labels: dict[str, str] | None = None, taints: tuple[Tree, ...] = (), **allocatable: str) -> Tree:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"} | {
        key.replace("_", "-"): v for key, v in allocatable.items()
    }
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name} | (labels or {})},
        "spec": {"taints": list(taints)} if taints else {},
        "status": {"allocatable": amounts},
    }


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> Tree:
    return {"key": key, "effect": effect, "value": value}


def pod(
    name: str,
    *,
    cpu: str = "",
    memory: str = "",
    on: str = "",
    labels: dict[str, str] | None = None,
    priority: int = 0,
    ports: tuple[int, ...] = (),
    **spec: Any,
) -> Tree:
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    container: Tree = {"name": "main", "image": "app:1", "resources": {"requests": requests} if requests else {}}
    if ports:
        container["ports"] = [{"containerPort": port, "hostPort": port, "protocol": "TCP"} for port in ports]
    full: Tree = {"containers": [container], "priority": priority, "schedulerName": "default-scheduler", **spec}
    if on:
        full["nodeName"] = on
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels or {}},
        "spec": full,
        "status": {"phase": "Running" if on else "Pending"},
    }


def spread(key: str, labels: dict[str, str], *, skew: int = 1, when: str = "DoNotSchedule") -> Tree:
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": labels},
    }


def affinity_term(key: str, labels: dict[str, str]) -> Tree:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}}


def apart(key: str, labels: dict[str, str]) -> Tree:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [affinity_term(key, labels)]}}


def together(key: str, labels: dict[str, str]) -> Tree:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [affinity_term(key, labels)]}}
