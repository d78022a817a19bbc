"""What every controller here is: keys in a queue, worked on by several tasks, tried again later and later after an error."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bayplan.api.errors import ApiError
from bayplan.api.secret_data import secret_texts
from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.client.events import EventRecorder
from bayplan.csi.client import CsiClient, DriverInfo
from bayplan.csi.errors import CsiError
from bayplan.csi_controller.errors import CsiControllerError, MissingError
from bayplan.csi_controller.settings import CsiControllerSettings
from bayplan.informers import Informer, InformerFactory
from bayplan.informers.cache import key_of
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import Randomness
from bayplan.workqueue.metrics import WorkQueueMetrics
from bayplan.workqueue.queue import WorkQueue
from bayplan.workqueue.rate_limiter import ExponentialBackoff

logger = logging.getLogger(__name__)

_CONFLICT_SECONDS = 0.5
"""Before another try after somebody else was faster."""


@dataclass(slots=True)
class DriverContext:
    """Everything that the controllers of a driver use."""

    client: Client
    informers: InformerFactory
    clock: Clock
    randomness: Randomness
    csi: CsiClient
    driver: DriverInfo
    settings: CsiControllerSettings
    metrics: Registry
    make_recorder: Callable[[str], EventRecorder]
    """A recorder for events of a component."""
    segments: dict[str, str]
    """Topology of the node of this instance; empty if it works for all nodes."""
    snapshot_kinds: dict[str, type[Any]] = field(default_factory=dict)
    """Kind -> class of the custom resources of snapshots, once the cluster has them."""


class Worker:
    """Base of the controllers. `name` is the sidecar's, and that of the queue in metrics."""

    name = ""

    def __init__(self, context: DriverContext) -> None:
        self.context = context
        self.client = context.client
        self.csi = context.csi
        self.driver = context.driver
        self.settings = context.settings
        self.clock = context.clock
        self.recorder = context.make_recorder(f"{self.name} {context.driver.name}")
        backoff = ExponentialBackoff[str](context.settings.retry_interval_start, context.settings.retry_interval_max)
        metrics = WorkQueueMetrics(context.metrics, self.name)
        self.queue: WorkQueue[str] = WorkQueue(self.name, clock=context.clock, rate_limiter=backoff, metrics=metrics)
        self.setup()

    def setup(self) -> None:
        """Ask for informers and add handlers. Called once, before anything runs."""
        raise TypeError(f"{type(self).__name__} has no setup")

    async def reconcile(self, key: str) -> None:
        """Bring the object of a key closer to what it should be. Called again after an exception."""
        raise TypeError(f"{type(self).__name__} has no reconcile")

    def informer(self, cls: type[Any]) -> Informer[Any]:
        """The shared informer of a kind."""
        return self.context.informers.informer(cls)

    def watch_keys(self, informer: Informer[Any], part: Callable[[Any], object]) -> None:
        """Queue every object of an informer when it is added, or when this part of it changes: what the worker itself writes must not bring an object back
        before its time."""

        def changed(old: Any, new: Any) -> None:
            if part(old) != part(new):
                self.queue.add(key_of(new))

        informer.on_change(add=lambda obj: self.queue.add(key_of(obj)), update=changed)

    async def tell_failure(self, changed: Any) -> None:
        """Write the status of an object that is tried again anyway; if somebody else was faster, the next try tells it."""
        try:
            await self.client.update_status(changed)
        except ApiError as error:
            if error.code != 409:
                raise
            logger.debug("%s: %s has changed meanwhile", self.name, key_of(changed))

    async def credentials(self, reference: core_v1.SecretReference | None) -> dict[str, str]:
        """What a secret says, which must not be logged. Raises MissingError."""
        if reference is None or not reference.name:
            return {}
        try:
            secret = await self.client.get(core_v1.Secret, reference.name, reference.namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            raise MissingError(f"failed to get secret {reference.namespace}/{reference.name}: not found") from error
        return secret_texts(secret)

    async def work(self) -> None:
        """Take keys from the queue until it is shut down."""
        await self.queue.serve(self._process)

    async def _process(self, key: str) -> None:
        """A key that fails is tried again later; nothing else is held up."""
        try:
            await self.reconcile(key)
        except asyncio.CancelledError:
            raise
        except (CsiError, CsiControllerError) as error:
            logger.info("%s: %s: %s", self.name, key, error)
            self.queue.add_rate_limited(key)
        except (ApiError, TransportError) as error:
            if isinstance(error, ApiError) and error.code == 409:
                # the cache is about to show what somebody else has written
                self.queue.add_after(key, _CONFLICT_SECONDS)
            else:
                logger.warning("%s: %s: %s", self.name, key, error)
                self.queue.add_rate_limited(key)
        except Exception:
            logger.exception("%s: %s", self.name, key)
            self.queue.add_rate_limited(key)
        else:
            self.queue.forget(key)
        finally:
            self.queue.done(key)
