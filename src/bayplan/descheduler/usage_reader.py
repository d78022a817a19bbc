"""Reading what nodes and pods really use: `metrics.k8s.io/v1beta1`, whoever serves it.

Upstream smooths these figures over its own samples; here they are taken as the metrics server has averaged them.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.quota.amounts import Amounts, add, parsed
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.descheduler.errors import UsageError
from bayplan.descheduler.snapshot import Usage

_PATH: Final = "/apis/metrics.k8s.io/v1beta1"


class _Named(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Container(msgspec.Struct):
    usage: dict[str, str] = {}


class _Node(msgspec.Struct):
    metadata: _Named
    usage: dict[str, str] = {}


class _Pod(msgspec.Struct):
    metadata: _Named
    containers: list[_Container] = []


class _Nodes(msgspec.Struct):
    items: list[_Node] | None = None


class _Pods(msgspec.Struct):
    items: list[_Pod] | None = None


async def read_usage(client: Client) -> Usage:
    """Usage of all nodes and pods. Raises UsageError."""
    nodes: _Nodes = await _read(client, "nodes", _Nodes)
    pods: _Pods = await _read(client, "pods", _Pods)
    return Usage(
        {one.metadata.name: parsed(one.usage) for one in nodes.items or ()},
        {(one.metadata.namespace, one.metadata.name): _total(one) for one in pods.items or ()},
    )


async def _read(client: Client, resource: str, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(await client.raw("GET", f"{_PATH}/{resource}"), type=kind)
    except (ApiError, TransportError, ValueError) as error:
        raise UsageError(f"{_PATH}/{resource}: {error}") from error


def _total(pod: _Pod) -> Amounts:
    total: Amounts = {}
    for container in pod.containers:
        total = add(total, parsed(container.usage))
    return total
