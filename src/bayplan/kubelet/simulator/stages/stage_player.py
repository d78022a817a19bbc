"""Leads pods and nodes through stages: chooses, waits, writes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from bayplan.api.codec import encode
from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.client.client import MERGE_PATCH
from bayplan.client.events import EventRecorder
from bayplan.kubelet.simulator.nodes.objects import HEALTHY
from bayplan.kubelet.simulator.stages.expressions import at_moment
from bayplan.kubelet.simulator.stages.stage_applies import apply
from bayplan.kubelet.simulator.stages.stages import (
    Action,
    Apply,
    Delete,
    Event,
    Finalizers,
    Stage,
    body_of,
    choose,
    delay,
    object_of,
)
from bayplan.kubelet.simulator.stages.templates import Function
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness
from bayplan.support.timestamps import rfc3339

_NODE_PORT = 10250
Played = core_v1.Pod | core_v1.Node


class StagePlayer:
    """Plays the stages of objects of one kind. `host_ip` gives the address of a node, `pod_ip` that of a pod."""

    def __init__(
        self,
        client: Client,
        stages: Sequence[Stage],
        *,
        clock: Clock,
        randomness: Randomness,
        recorder: EventRecorder,
        host_ip: Callable[[str], str],
        pod_ip: Callable[[core_v1.Pod], str],
    ) -> None:
        self._client = client
        self._stages = stages
        self._has_expressions = any(stage.has_expressions for stage in stages)
        self._clock = clock
        self._randomness = randomness
        self._recorder = recorder
        self._host_ip = host_ip
        self._pod_ip = pod_ip
        self._started = rfc3339(clock.now())
        self._chosen: dict[str, tuple[Stage, float, tuple[Stage, ...]]] = {}
        """Uid of an object -> stage that comes next, unix time when, and the stages of which it was chosen."""

    def forget(self, obj: Played) -> None:
        """An object is gone."""
        self._chosen.pop(obj.metadata.uid, None)

    async def advance(self, obj: Played) -> float | None:
        """Carry out what is due for an object. Seconds until there is something to do; None if nothing is until it changes.

        Raises StageError, ApiError, TransportError.
        """
        now, uid = self._clock.now(), obj.metadata.uid
        data = msgspec.json.decode(encode(obj))
        with at_moment(now, self._randomness.random) if self._has_expressions else contextlib.nullcontext():
            chosen = self._choose(uid, data, now)
        if chosen is None:
            self._chosen.pop(uid, None)
            return None
        stage, due = chosen
        if due > now:
            return due - now
        functions = self._functions(obj, now)
        for action in stage.actions:
            await self._act(obj, action, data, functions)
        self._chosen.pop(uid, None)
        return None

    def _choose(self, uid: str, data: Any, now: float) -> tuple[Stage, float] | None:
        """The stage that comes next and when; None for none. It is chosen anew when other stages fit than before. Raises StageError."""
        known = self._chosen.get(uid)
        fitting = tuple(stage for stage in self._stages if stage.fits(data))
        if known is None or known[2] != fitting:
            stage = choose(fitting, data, self._randomness.random())
            if stage is None:
                return None
            known = self._chosen[uid] = (stage, now + delay(stage, data, now, self._randomness.random()), fitting)
        return known[:2]

    async def _act(self, obj: Played, action: Action, data: Any, functions: Mapping[str, Function]) -> None:
        metadata, cls = obj.metadata, type(obj)
        if isinstance(action, Event):
            self._recorder.event(obj, action.type, action.reason, action.message)
        elif isinstance(action, Delete):
            await self._client.delete(cls, metadata.name, metadata.namespace, grace_period_seconds=0, uid=metadata.uid)
        elif isinstance(action, Finalizers):
            after = action.apply(metadata.finalizers)
            if after != list(metadata.finalizers):
                guard = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
                patch = {"metadata": {**guard, "finalizers": after}}
                await self._client.patch(cls, metadata.name, metadata.namespace, patch, patch_type=MERGE_PATCH)
        elif isinstance(action, Apply):
            made = object_of(action, data, functions)
            kind, subresource = action.content_type, action.subresource
            await apply(self._client, made, metadata.namespace, content_type=kind, subresource=subresource)
        else:
            body = body_of(action, data, functions)
            await self._client.patch(
                cls,
                metadata.name,
                metadata.namespace,
                body,
                patch_type=action.content_type,
                subresource=action.subresource,
            )

    def _functions(self, obj: Played, now: float) -> dict[str, Function]:
        """What templates may ask about the moment, the pod and its node. A node has its own address where a pod has one."""
        stamp = rfc3339(now)
        node = obj.spec.node_name if isinstance(obj, core_v1.Pod) else obj.metadata.name
        address = (
            self._pod_ip(obj) if isinstance(obj, core_v1.Pod) and not obj.spec.host_network else self._host_ip(node)
        )

        def pod_ip(*_: Any) -> str:
            return address

        return {
            "Now": lambda: stamp,
            "StartTime": lambda: self._started,
            "NodeName": lambda: node,
            "NodePort": lambda: _NODE_PORT,
            "NodeIP": lambda: self._host_ip(node),
            "NodeIPs": lambda: [self._host_ip(node)],
            "NodeIPWith": self._host_ip,
            "NodeIPsWith": lambda name: [self._host_ip(name)],
            "PodIP": pod_ip,
            "PodIPs": lambda: [address],
            "PodIPWith": pod_ip,
            "PodIPsWith": lambda *_: [address],
            "NodeConditions": lambda: [
                {"type": kind, "status": status, "reason": reason, "message": message}
                for kind, status, reason, message in HEALTHY
            ],
        }
