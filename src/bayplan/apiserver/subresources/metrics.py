"""`metrics.k8s.io`: what nodes and pods use. Nothing is collected: figures of simulated nodes are worked out when somebody asks, from annotations of the pods.

Source of the behaviour: metrics-server (which objects are shown, names, labels, timestamps, columns).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from bayplan.api.codec import encode
from bayplan.api.errors import not_found_error
from bayplan.api.quantity import Quantity
from bayplan.api.simulated_usage import SIMULATED_NODE, container_usage, total_usage
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.context import Call
from bayplan.apiserver.requests import Response
from bayplan.apiserver.verbs.read import selection
from bayplan.apiserver.watching import Entry
from bayplan.support.timestamps import rfc3339

_WINDOW = "15s"
_STEP = 250
"""Pods that are worked on in one go."""


async def handle(call: Call) -> Response:
    """get and list."""
    find = _node_metrics if call.kind.kind == "NodeMetrics" else _pod_metrics
    if not call.path.name:
        shape = call.shape(is_list=True)
        select, _ = selection(call)
        return await shape.list(await find(call, select), meta_v1.ListMeta(), call.warnings)
    wanted = (call.path.namespace, call.path.name)
    found = await find(call, lambda entry: (entry.namespace, entry.name) == wanted)
    if not found:
        shown = call.path.name if not call.kind.namespaced else "/".join(wanted)
        raise not_found_error(call.kind.kind.lower(), call.kind.group, shown)
    return call.answer(200, found[0])


async def _pod_metrics(call: Call, select: Callable[[Entry], bool] | None) -> list[Entry]:
    nodes = _simulated_nodes(call)
    chance, now, result = call.context.randomness.random, call.context.clock.now(), []
    async for entry, pod in _running_pods(call, call.path.namespace, select):
        if pod.spec.node_name in nodes and (usage := container_usage(pod, chance, now)):
            containers = [{"name": name, "usage": _wire(amounts)} for name, amounts in usage.items()]
            result.append(_entry(call, entry, {"containers": containers}))
    return result


async def _node_metrics(call: Call, select: Callable[[Entry], bool] | None) -> list[Entry]:
    chance, now = call.context.randomness.random, call.context.clock.now()
    nodes = {name: entry for name, entry in _simulated_nodes(call).items() if select is None or select(entry)}
    totals = {name: total_usage({}) for name in nodes}
    if nodes:
        async for _, pod in _running_pods(call, "", None):
            name = pod.spec.node_name
            if name in totals:
                totals[name] = total_usage({"": totals[name], **container_usage(pod, chance, now)})
    return [_entry(call, entry, {"usage": _wire(totals[name])}) for name, entry in nodes.items()]


def _simulated_nodes(call: Call) -> dict[str, Entry]:
    """Nodes whose usage follows from annotations, by name."""
    cache = call.context.objects.cache(call.context.kinds.of_type(core_v1.Node))
    mark = SIMULATED_NODE.encode()
    return {
        entry.name: entry
        for entry in cache.ordered()
        if mark in entry.body and SIMULATED_NODE in cache.decode(entry).metadata.annotations
    }


async def _running_pods(
    call: Call, namespace: str, select: Callable[[Entry], bool] | None
) -> AsyncIterator[tuple[Entry, core_v1.Pod]]:
    """Pods that run; others get their turn meanwhile."""
    cache = call.context.objects.cache(call.context.kinds.of_type(core_v1.Pod))
    for number, entry in enumerate(tuple(cache.ordered(namespace))):
        if number % _STEP == _STEP - 1:
            await asyncio.sleep(0)
        if entry.fields.get("status.phase") == "Running" and (select is None or select(entry)):
            yield entry, cache.decode(entry)


def _entry(call: Call, source: Entry, figures: dict[str, Any]) -> Entry:
    """Figures of an object as an entry of their own."""
    now = rfc3339(call.context.clock.now())
    metadata = meta_v1.ObjectMeta(
        name=source.name, namespace=source.namespace, labels=source.labels, creation_timestamp=now
    )
    body = encode({"metadata": metadata, "timestamp": now, "window": _WINDOW, **figures})[1:]
    return Entry(source.namespace, source.name, 0, 0, body, source.labels, source.fields, "")


def _wire(amounts: dict[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}
