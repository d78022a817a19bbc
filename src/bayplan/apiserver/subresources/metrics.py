"""`metrics.k8s.io`: what nodes and pods use. Nothing is collected: when somebody asks, figures of simulated nodes are worked out from annotations of the
pods, and kubelets of real nodes are asked for theirs.

Source of the behaviour: metrics-server (which objects are shown, names, labels, timestamps, columns).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from bayplan.api.codec import encode
from bayplan.api.errors import not_found_error
from bayplan.api.nodes import SIMULATED
from bayplan.api.quantity import Quantity
from bayplan.api.simulated_usage import container_usage, total_usage
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.context import Call
from bayplan.apiserver.reads.watching import Entry
from bayplan.apiserver.requests import Response
from bayplan.apiserver.simulated.pods import Usage
from bayplan.apiserver.subresources.real_usage import real_usage
from bayplan.apiserver.verbs.read import selection
from bayplan.support.timestamps import rfc3339

_WINDOW = "15s"
_MEASURED_WINDOW = "10s"
"""Time between two measurements of a kubelet."""
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
    now, result = call.context.clock.now(), []
    real: dict[str, list[tuple[Entry, core_v1.Pod]]] = {}
    async for entry, pod in _running_pods(call, call.path.namespace, select):
        if pod.spec.node_name not in nodes:
            real.setdefault(pod.spec.node_name, []).append((entry, pod))
        elif usage := simulated_usage(call, pod, now):
            containers = [{"name": name, "usage": _wire(amounts)} for name, amounts in usage.items()]
            result.append(_entry(call, entry, {"containers": containers}))
    for name, node in (await real_usage(call.context, _nodes(call, real))).items():
        known = node.by_uid()
        for entry, pod in real[name]:
            found = known.get(pod.metadata.uid)
            if found is not None and (shown := found.wire()) is not None:
                result.append(_entry(call, entry, {"containers": shown}, found.time()))
    return sorted(result, key=lambda each: (each.namespace, each.name)) if real else result


async def _node_metrics(call: Call, select: Callable[[Entry], bool] | None) -> list[Entry]:
    now = call.context.clock.now()
    simulated = _simulated_nodes(call)
    nodes = {name: entry for name, entry in simulated.items() if select is None or select(entry)}
    totals = {name: total_usage({}) for name in nodes}
    if nodes:
        async for _, pod in _running_pods(call, "", None):
            name = pod.spec.node_name
            if name in totals:
                totals[name] = total_usage({"": totals[name], **simulated_usage(call, pod, now)})
    result = [_entry(call, entry, {"usage": _wire(totals[name])}) for name, entry in nodes.items()]
    cache = call.context.objects.cache(call.context.kinds.of_type(core_v1.Node))
    entries = {
        each.name: each for each in cache.ordered() if each.name not in simulated and (select is None or select(each))
    }
    for name, node in (await real_usage(call.context, _nodes(call, entries))).items():
        shown = node.node.wire()
        if shown is not None:
            result.append(_entry(call, entries[name], {"usage": shown}, node.node.cpu.time))
    return sorted(result, key=lambda each: each.name) if entries else result


def simulated_usage(call: Call, pod: core_v1.Pod, now: float) -> Usage:
    """What a pod on a simulated node uses: as users say, or else as its annotations do."""
    context = call.context
    chance = context.randomness.random
    usage = container_usage(pod, chance, now)
    if context.pod_answers is None:
        return usage
    node: core_v1.Node | None = context.find("Node", "", pod.spec.node_name)
    said = context.pod_answers.usage(pod, node, now, chance) if node is not None else {}
    for name, amounts in said.items():
        if name in usage:
            usage[name] |= amounts
    return usage


def _nodes(call: Call, names: Iterable[str]) -> list[core_v1.Node]:
    """Those of these nodes that exist."""
    found = (call.context.find("Node", "", name) for name in names)
    return [each for each in found if each is not None]


def _simulated_nodes(call: Call) -> dict[str, Entry]:
    """Nodes whose usage follows from annotations, by name."""
    cache = call.context.objects.cache(call.context.kinds.of_type(core_v1.Node))
    mark = SIMULATED.encode()
    return {
        entry.name: entry
        for entry in cache.ordered()
        if mark in entry.body and SIMULATED in cache.decode(entry).metadata.annotations
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


def _entry(call: Call, source: Entry, figures: dict[str, Any], time: str = "") -> Entry:
    """Figures of an object as an entry of their own. time: of the measurement; now where there was none."""
    now = rfc3339(call.context.clock.now())
    metadata = meta_v1.ObjectMeta(
        name=source.name, namespace=source.namespace, labels=source.labels, creation_timestamp=now
    )
    body = encode(
        {"metadata": metadata, "timestamp": time or now, "window": _MEASURED_WINDOW if time else _WINDOW, **figures}
    )[1:]
    return Entry(source.namespace, source.name, 0, 0, body, source.labels, source.fields, "")


def _wire(amounts: dict[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}
