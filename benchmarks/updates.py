"""Writes of objects that differ, next to equal ones of the same run: creates, updates, the patches, server-side apply, custom resources."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import uvloop

from benchmarks import load
from benchmarks.api_server import api_server, timed
from benchmarks.controllers import watch_until
from benchmarks.figures import Figure
from benchmarks.mix import mix

_CONNECTIONS = 64
_NAMESPACE = "/api/v1/namespaces/default"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_GROUP = "bench.example.com"
_WIDGETS = f"/apis/{_GROUP}/v1/namespaces/default/widgets"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_APPLY = "application/apply-patch+yaml"

Objects = list[dict[str, Any]]


def run(quick: bool) -> Iterator[Figure]:
    """One server; each kind of write over all objects, equal ones (but for their names) first, then differing ones."""
    count = 1_000 if quick else 10_000
    for name, pods in (("equal", _equal(count)), ("differing", mix(count))):
        with api_server() as (_, target):
            for what, rate in uvloop.run(_measure(target, name, pods)):
                yield Figure("updates", f"{what}, {name} objects", rate, "/s")


def _equal(count: int) -> Objects:
    """Pods of one application."""
    (one,) = mix(1)
    return [{**one, "metadata": {**one["metadata"], "name": f"pod-{index}"}} for index in range(count)]


async def _measure(target: load.Target, name: str, pods: Objects) -> list[tuple[str, float]]:
    """Writes per second, by what is written."""
    await _prepare(target)
    seed = 0 if name == "equal" else 1
    deployments = [_deployment(one) for one in pods]
    widgets = [_widget(one, index * seed) for index, one in enumerate(pods)]
    found = []

    async def measure(what: str, requests: Sequence[bytes]) -> None:
        found.append((what, len(requests) / await timed(target, iter(requests), _CONNECTIONS)))

    def each(objects: Objects, request: Callable[[str, dict[str, Any], int], bytes]) -> list[bytes]:
        return [request(one["metadata"]["name"], one, index * seed) for index, one in enumerate(objects)]

    await measure("creates of pods", each(pods, lambda _, one, i: _send(target, "POST", f"{_NAMESPACE}/pods", one)))
    await measure(
        "status patches of pods",
        each(pods, lambda key, _, i: _send(target, "PATCH", f"{_NAMESPACE}/pods/{key}/status", _status(i), _STRATEGIC)),
    )
    await measure(
        "merge patches of pods",
        each(pods, lambda key, _, i: _send(target, "PATCH", f"{_NAMESPACE}/pods/{key}", _labels(i), _MERGE)),
    )
    apply = "fieldManager=bench"
    await measure(
        "Deployments created by server-side apply",
        each(deployments, lambda key, one, i: _send(target, "PATCH", f"{_DEPLOYMENTS}/{key}?{apply}", one, _APPLY)),
    )
    changed = [
        {**one, "spec": {**one["spec"], "replicas": 3 + index * seed % 7}} for index, one in enumerate(deployments)
    ]
    await measure(
        "Deployments changed by server-side apply",
        each(changed, lambda key, one, i: _send(target, "PATCH", f"{_DEPLOYMENTS}/{key}?{apply}", one, _APPLY)),
    )
    await measure(
        "Deployments applied again as they are",
        each(changed * 2, lambda key, one, i: _send(target, "PATCH", f"{_DEPLOYMENTS}/{key}?{apply}", one, _APPLY)),
    )
    await measure(
        "creates of custom resources with schema and rule",
        each(widgets, lambda _, one, i: _send(target, "POST", _WIDGETS, one)),
    )
    await measure(
        "merge patches of custom resources",
        each(
            widgets,
            lambda key, _, i: _send(target, "PATCH", f"{_WIDGETS}/{key}", {"spec": {"size": 2 + i % 90}}, _MERGE),
        ),
    )
    return found


def _send(
    target: load.Target, method: str, path: str, body: dict[str, Any], content_type: str = "application/json"
) -> bytes:
    return target.request(method, path, json.dumps(body).encode(), content_type)


def _deployment(pod: dict[str, Any]) -> dict[str, Any]:
    labels = pod["metadata"]["labels"]
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": pod["metadata"]["name"], "labels": labels},
        "spec": spec,
    }


def _status(number: int) -> dict[str, Any]:
    """What a kubelet reports of a pod that runs."""
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    ready = {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": f"2026-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}Z",
    }
    container = {
        "name": "main",
        "image": f"app:{number}",
        "imageID": f"sha256:{number:064x}",
        "containerID": f"containerd://{number:064x}",
        "ready": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    }
    return {
        "status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [ready],
            "containerStatuses": [container],
        }
    }


def _labels(number: int) -> dict[str, Any]:
    return {"metadata": {"labels": {"revision": str(number)}, "annotations": {"note": f"changed-{number}"}}}


def _widget(pod: dict[str, Any], number: int) -> dict[str, Any]:
    metadata = {"name": pod["metadata"]["name"], "labels": pod["metadata"]["labels"]}
    spec = {
        "size": 1 + number % 90,
        "limit": 100,
        "owner": f"owner-{number}",
        "parts": [{"name": f"part-{number % 7}-{item}"} for item in range(4)],
    }
    return {"apiVersion": f"{_GROUP}/v1", "kind": "Widget", "metadata": metadata, "spec": spec}


def _definition() -> dict[str, Any]:
    part = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "maxLength": 63}}}
    spec = {
        "type": "object",
        "required": ["size", "limit"],
        "properties": {
            "size": {"type": "integer", "minimum": 1},
            "limit": {"type": "integer"},
            "owner": {"type": "string", "pattern": "^[a-z0-9-]+$"},
            "mode": {"type": "string", "enum": ["fast", "safe"], "default": "safe"},
            "parts": {
                "type": "array",
                "maxItems": 16,
                "items": part,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        },
        "x-kubernetes-validations": [{"rule": "self.size <= self.limit", "message": "size is over the limit"}],
    }
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{_GROUP}"},
        "spec": {"group": _GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def _prepare(target: load.Target) -> None:
    """Create what pods need, and the definition of the custom resources."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for path, body in ((f"{_NAMESPACE}/serviceaccounts", account), (definitions, _definition())):
        await load.run(target, iter([_send(target, "POST", path, body)]), 1)
    await watch_until(target, f"{definitions}?watch=true", lambda line: b'"Established"' in line)
