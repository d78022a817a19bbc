"""What a controller is, and what it is given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bayplan.api.errors import ApiError
from bayplan.api.types import meta_v1
from bayplan.client import Client
from bayplan.client.events import EventRecorder
from bayplan.controllers.queue_names import queue_name
from bayplan.controllers.settings import ControllerSettings
from bayplan.informers import Informer, InformerFactory
from bayplan.informers.cache import NOTHING, OWNERS, key_of
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import Randomness
from bayplan.workqueue.metrics import WorkQueueMetrics
from bayplan.workqueue.queue import WorkQueue

T = TypeVar("T")


@dataclass(slots=True)
class ControllerContext:
    """Everything a controller may use."""

    client: Client
    informers: InformerFactory
    clock: Clock
    randomness: Randomness
    recorder: EventRecorder
    settings: ControllerSettings = field(default_factory=ControllerSettings)
    metrics: Registry | None = None
    """Where queues report; None if they do not."""


class Controller:
    """Base of all controllers. `name` is the one of kube-controller-manager's `--controllers`."""

    name = ""
    event_source = ""
    """Who events come from, where that is not the name."""
    workers = 8
    """Keys that are reconciled at once."""

    def __init__(self, context: ControllerContext) -> None:
        self.context = context
        self.client = context.client
        self.clock = context.clock
        self.recorder = context.recorder
        self.queue: WorkQueue[str] = WorkQueue(
            clock=context.clock,
            name=self.name,
            metrics=WorkQueueMetrics(context.metrics, queue_name(self.name)) if context.metrics is not None else None,
        )
        self.setup()

    def setup(self) -> None:
        """Ask for informers and add handlers. Called once, before anything runs."""
        raise TypeError(f"{type(self).__name__} has no setup")

    async def reconcile(self, key: str) -> None:
        """Bring the object of a key closer to what it should be. Called again after an exception, later and later."""
        raise TypeError(f"{type(self).__name__} has no reconcile")

    async def run_background(self) -> None:
        """Work besides the queue, until cancelled; ends at once by default."""

    def informer(self, cls: type[Any]) -> Informer[Any]:
        """The shared informer of a kind."""
        return self.context.informers.informer(cls)

    def watch_keys(self, informer: Informer[Any]) -> None:
        """Queue every object of an informer when it is added, changed or deleted."""
        informer.on_change(
            add=lambda obj: self.queue.add(key_of(obj)),
            update=lambda old, new: self.queue.add(key_of(new)),
            delete=lambda obj: self.queue.add(key_of(obj)),
        )

    def watch_owned(self, informer: Informer[Any], kind: str) -> None:
        """Queue the controlling owner of that kind when an owned object is added, changed or deleted; of a change both owners."""

        def touch(obj: Any) -> None:
            owner = controller_of(obj)
            if owner is not None and owner.kind == kind:
                self.queue.add(f"{obj.metadata.namespace}/{owner.name}")

        def change(old: Any, new: Any) -> None:
            touch(old)
            touch(new)

        informer.on_change(add=touch, update=change, delete=touch)


def controller_of(obj: Any) -> meta_v1.OwnerReference | None:
    """The owner reference that is marked as controller."""
    for owner in obj.metadata.owner_references:
        if owner.controller:
            found: meta_v1.OwnerReference = owner
            return found
    return None


async def set_finalizers(client: Client, obj: Any, finalizers: Sequence[str]) -> bool:
    """Give an object as it was seen other finalizers, if it is still there. False if somebody has changed it meanwhile. Raises ApiError."""
    metadata = obj.metadata
    patch = {
        "metadata": {
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
            "finalizers": list(finalizers) or None,
        }
    }
    try:
        await client.patch(type(obj), metadata.name, metadata.namespace, patch)
    except ApiError as error:
        if error.code not in (404, 409):
            raise
        return error.code == 404
    return True


def index_by_controller(informer: Informer[Any]) -> None:
    """Let an informer find objects by their controller, for `held_or_free`."""
    informer.add_index(
        "controller", lambda obj: tuple(one.uid for one in obj.metadata.owner_references if one.controller), OWNERS
    )
    informer.add_index("orphan", lambda obj: () if controller_of(obj) else (obj.metadata.namespace,), OWNERS)


def index_by_namespace(informer: Informer[Any]) -> None:
    """Let an informer find objects by their namespace."""
    informer.add_index("namespace", lambda obj: (obj.metadata.namespace,), NOTHING)


def held_or_free(informer: Informer[T], owner: Any) -> list[T]:
    """The objects that an owner controls, and those of its namespace that nobody does: all that can be its own."""
    cache, metadata = informer.cache, owner.metadata
    return [*cache.by_index("controller", metadata.uid), *cache.by_index("orphan", metadata.namespace)]


def owner_reference(api_version: str, kind: str, owner: Any) -> meta_v1.OwnerReference:
    """A controlling reference to an owner."""
    return meta_v1.OwnerReference(
        api_version=api_version,
        kind=kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def adoption(owner: meta_v1.OwnerReference, dependent: Any) -> dict[str, Any]:
    """A strategic merge patch that adds an owner to an object, if it is still that object. Owners that others add meanwhile stay."""
    return {"metadata": {"uid": dependent.metadata.uid, "ownerReferences": [owner]}}


def release(owner: Any, dependent: Any) -> dict[str, Any]:
    """A strategic merge patch that takes an owner from an object, if it is still that object."""
    return {
        "metadata": {
            "uid": dependent.metadata.uid,
            "ownerReferences": [{"$patch": "delete", "uid": owner.metadata.uid}],
        }
    }


async def is_still_there(client: Client, owner: Any) -> bool:
    """Whether an owner is there and stays, as the server (not the cache) says: one that is about to go must not adopt what it has just left behind."""
    try:
        found: Any = await client.get(type(owner), owner.metadata.name, owner.metadata.namespace)
    except ApiError as error:
        if error.code != 404:
            raise
        return False
    return bool(found.metadata.uid == owner.metadata.uid and not found.metadata.deletion_timestamp)


async def delete_if_there(client: Client, obj: Any) -> None:
    """Delete an object, unless it is gone or another one has its name by now. Raises ApiError, ClientError."""
    metadata = obj.metadata
    try:
        await client.delete(type(obj), metadata.name, metadata.namespace, uid=metadata.uid)
    except ApiError as error:
        if error.code not in (404, 409):
            raise


def with_condition(conditions: Iterable[Any], new: Any) -> tuple[Any, ...]:
    """Conditions with one added or replaced; the transition time stays when the status does, and an equal condition stays as it is."""
    result, found = [], False
    for condition in conditions:
        if condition.type != new.type:
            result.append(condition)
            continue
        found = True
        if condition.status == new.status:
            new.last_transition_time = condition.last_transition_time
            if condition.reason == new.reason and condition.message == new.message:
                result.append(condition)
                continue
        result.append(new)
    return (*result, *(() if found else (new,)))


def condition_of(conditions: Iterable[Any], condition_type: str) -> Any | None:
    """The condition of a type, or None."""
    return next((one for one in conditions if one.type == condition_type), None)


def show_selector(selector: meta_v1.LabelSelector | None) -> str:
    """A selector as Kubernetes prints it in messages."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {selector.match_labels[key]}," for key in sorted(selector.match_labels))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{one.key},Operator:{one.operator},Values:[{' '.join(one.values)}],}},"
        for one in selector.match_expressions
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
