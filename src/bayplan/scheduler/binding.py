"""Carrying out decisions: a pod's binding cycle to its node, with the API at its other end.

Binding cycles run beside one another, as many as there are. Only the writing of Bindings is bounded, by what the store can
commit together, so that a pod which waits for volumes or for its gang holds up nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from bayplan.api.errors import ApiError
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.scheduler.binding_cycle import BindingCycle, Failure, OtherBinder
from bayplan.scheduler.framework.extension_points import Actions
from bayplan.scheduler.framework.verdicts import ActionError, Reject, Status
from bayplan.scheduler.framework.waiting import WaitingPod
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

BINDINGS_AT_ONCE = 512
POD_BINDING = "pod_binding"
"""The type of call, in metrics, that writes a Binding."""

Called = Callable[[str, str, float], None]
"""(type of call, `success` or `error`, seconds that it took)"""


class Changes:
    """Lets binding cycles wait until what the scheduler knows has become different."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiters: set[asyncio.Event] = set()

    def tell(self) -> None:
        """Something changed: those who wait look again."""
        for waiter in self._waiters:
            waiter.set()

    async def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """See `Actions.wait_until`."""
        if condition():
            return True
        deadline = self._clock.monotonic() + seconds
        waiter = asyncio.Event()
        self._waiters.add(waiter)
        timer = self._clock.call_later(seconds, waiter.set)
        try:
            while self._clock.monotonic() < deadline:
                await waiter.wait()
                waiter.clear()
                if condition():
                    return True
            return False
        finally:
            timer.cancel()
            self._waiters.discard(waiter)


@asynccontextmanager
async def _as_action_error() -> AsyncIterator[None]:
    try:
        yield
    except (ApiError, TransportError) as error:
        raise _action_error(error) from error


def _action_error(error: ApiError | TransportError) -> ActionError:
    return ActionError(str(error), error.code) if isinstance(error, ApiError) else ActionError(str(error))


class ClientActions(Actions):
    """Plugins' actions through the client."""

    def __init__(self, client: Client, changes: Changes, clock: Clock) -> None:
        self._client = client
        self._changes = changes
        self._clock = clock
        self.slots = asyncio.Semaphore(BINDINGS_AT_ONCE)
        """Bindings that may be written at once."""
        self.created: Callable[[str], None] | None = None
        """Told `success` or `failure` for every object that plugins create; None if nobody wants to know."""

        self.called: Called | None = None
        """Told of every Binding that was written, or could not be; None if nobody wants to know."""
        self.pending = 0
        """Bindings that wait for their turn."""

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        await self.take_slot()
        try:
            await self.write_binding(pod, node_name)
        finally:
            self.slots.release()

    async def take_slot(self) -> None:
        """Wait for the turn to write a Binding; `slots.release` ends it."""
        self.pending += 1
        try:
            await self.slots.acquire()
        finally:
            self.pending -= 1

    async def write_binding(self, pod: PodInfo, node_name: str) -> None:
        """As `bind`, for those who hold a slot already."""
        metadata = pod.pod.metadata
        result, started = "error", self._clock.monotonic()
        try:  # and no context manager, which every pod would pay for
            await self._client.bind(metadata.namespace, metadata.name, metadata.uid, node_name)
            result = "success"
        except (ApiError, TransportError) as error:
            raise _action_error(error) from error
        finally:
            if self.called is not None:
                self.called(POD_BINDING, result, self._clock.monotonic() - started)

    async def write_bindings(self, placed: Sequence[tuple[PodInfo, str]]) -> list[ActionError | None]:
        """Write several Bindings at the same time, for those who hold a slot for each. Returns what went wrong with each."""
        started = self._clock.monotonic()
        sequences = []
        for pod, node_name in placed:
            metadata = pod.pod.metadata
            sequences.append((self._client.binding(metadata.namespace, metadata.name, metadata.uid, node_name),))
        answers = await self._client.transport.send_all(sequences)
        problems = [_action_error(answer) if answer is not None else None for answer in answers]
        if self.called is not None:
            seconds = self._clock.monotonic() - started
            for problem in problems:
                self.called(POD_BINDING, "success" if problem is None else "error", seconds)
        return problems

    async def update(self, obj: Any, *, subresource: str = "") -> Any:
        async with _as_action_error():
            return await self._client.update(obj, subresource=subresource)

    async def get(self, cls: type[Any], name: str, namespace: str = "") -> Any:
        async with _as_action_error():
            return await self._client.get(cls, name, namespace)

    async def create(self, obj: Any) -> Any:
        status = "failure"
        try:
            async with _as_action_error():
                created = await self._client.create(obj)
            status = "success"
        finally:
            if self.created is not None:
                self.created(status)
        return created

    async def delete(self, obj: Any) -> None:
        metadata = obj.metadata
        try:
            async with _as_action_error():
                await self._client.delete(type(obj), metadata.name, metadata.namespace, uid=metadata.uid)
        except ActionError as error:
            if error.code != 404:
                raise

    def now(self) -> float:
        return self._clock.now()

    async def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        return await self._changes.wait_until(condition, seconds)


async def wait_on_permit(waiting: WaitingPod, clock: Clock) -> Failure | None:
    """Wait until all Permit plugins have approved a pod, one has refused it, or its time is over."""
    known = asyncio.Event()
    timers = [clock.call_later(seconds, waiting.time_out, plugin) for plugin, seconds in waiting.pending.items()]
    waiting.listen(known.set)
    try:
        await known.wait()
    finally:
        for timer in timers:
            timer.cancel()
    if waiting.refusal is None:
        return None
    plugin, reject = waiting.refusal
    return Failure(plugin, reject, True)


async def carry_out(
    binding_cycle: BindingCycle,
    actions: Actions,
    clock: Clock,
    *,
    committed: Callable[[], None],
    waited: Callable[[str, float], None] | None = None,
    other: OtherBinder | None = None,
) -> Failure | None:
    """The rest of a binding cycle after its begin. After a failure everything is undone.

    `committed` is called when nothing can find the pod unfit any more; `waited` is told the outcome of Permit and how
    many seconds the pod waited for it.
    """
    failure: Failure | None = None
    try:
        if binding_cycle.waiting is not None:
            started = clock.monotonic()
            failure = await wait_on_permit(binding_cycle.waiting, clock)
            if waited is not None:
                waited("Success" if failure is None else "Unschedulable", clock.monotonic() - started)
        if failure is None:
            binding_cycle.settle()
            committed()
            failure = await binding_cycle.prepare(actions) or await binding_cycle.bind(actions, other)
    except asyncio.CancelledError:
        binding_cycle.undo()
        raise
    except Exception as error:
        # A plugin of a third party may raise anything; the pod must not stay assumed for ever because of it.
        logger.exception("binding %s to %s", binding_cycle.pod.key, binding_cycle.node_name)
        failure = Failure("", Reject(Status.ERROR, (f"{type(error).__name__}: {error}",)), False)
    if failure is not None:
        binding_cycle.undo()
        for problem in await binding_cycle.release(actions):
            logger.warning("giving up what was reserved for %s: %s", binding_cycle.pod.key, problem)
    return failure
