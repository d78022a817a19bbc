"""A live cluster for a test that is no coroutine: it runs on a loop in a thread of its own, and any client reaches it by its kubeconfig."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.api.types import core_v1
from bayplan.apiserver.routing.forwards import parse_forward, parse_service
from bayplan.client import Client
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.manifests.apply import apply_manifests
from bayplan.cluster.manifests.reading import gather_manifests
from bayplan.cluster.settings import ClusterSettings
from bayplan.simulation.explanations.summary import what_is_wrong
from bayplan.simulation.faults.api_faults import OBSERVER, Faults
from bayplan.support.system.private_files import write_private
from bayplan.testing.cluster import eventually

T = TypeVar("T")
_PATIENCE = 30.0
_LOOK_EVERY = 0.02


class LoopThread:
    """An event loop in a thread; clusters of many tests may share it."""

    def __init__(self) -> None:
        import uvloop

        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="bayplan", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """The loop is closed where it ran: in another thread that may never return."""
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run there and wait for the result, or raise what it raised."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a function there."""

        async def now() -> T:
            return function(*args, **kwargs)

        return self.run(now())

    def close(self) -> None:
        """End the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_PATIENCE)


class _There:
    """An object whose methods run on the loop that it belongs to."""

    def __init__(self, target: object, thread: LoopThread) -> None:
        self._target = target
        self._thread = thread

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        return (lambda *args, **kwargs: self._thread.call(found, *args, **kwargs)) if callable(found) else found


class ClusterHandle:
    """A running cluster: API server, controllers, scheduler and simulated nodes.

    The kubeconfig is that of an administrator. What this object does itself is never met by faults.
    """

    def __init__(self, thread: LoopThread, settings: ClusterSettings, directory: Path) -> None:
        self._thread = thread
        self._settings = settings
        self.kubeconfig = directory / "kubeconfig"
        """For kubectl and client libraries."""

    def start(self) -> None:
        """Return when the nodes are there and pods can be created. Raises ClusterError."""
        self.cluster = self._thread.run(self._start())
        self.faults = cast(Faults, _There(Faults(self.cluster.api), self._thread))
        """What goes wrong for the clients of the kubeconfig."""
        self.server = self.cluster.server_url
        """Base URL of the API."""
        write_private(self.kubeconfig, self.cluster.kubeconfig().encode())

    async def _start(self) -> Cluster:
        cluster = Cluster(self._settings)
        await cluster.start()
        self._client = cluster.client(OBSERVER)
        await eventually(self._is_up, _PATIENCE)
        return cluster

    async def _is_up(self) -> bool:
        await self._client.get(core_v1.ServiceAccount, "default", "default")
        return len((await self._client.list(core_v1.Node)).items) >= self._settings.nodes.nodes

    def stop(self) -> None:
        """End it; nothing is kept."""
        self._thread.run(self.cluster.stop())

    def apply(self, *manifests: str | Path | Mapping[str, Any]) -> int:
        """Create or update objects as `kubectl apply` does: files or directories, YAML texts, or objects as dictionaries.
        Returns their number. Raises ManifestError, ApiError."""
        return self._thread.run(apply_manifests(self._client, gather_manifests(manifests)))

    def forward(self, *forwards: str) -> None:
        """Let programs of this machine answer for services, such as `service/shop/hook=localhost:9443`, as `bayplan forward` does. Raises ForwardError."""
        found = [parse_forward(text) for text in forwards]
        for one in found:
            self._thread.call(self.cluster.api.context.services.forwards.set, one)

    def remove_forward(self, service: str) -> bool:
        """End a forward, such as that of `service/shop/hook`. Returns whether there was one. Raises ForwardError."""
        return self._thread.call(self.cluster.api.context.services.forwards.remove, parse_service(service))

    def get(self, resource: str, name: str, namespace: str = "default") -> dict[str, Any] | None:
        """An object as JSON would show it, None if it is not there. `resource`: plural, singular, short name or kind.

        Raises ApiError, KeyError for a resource that does not exist.
        """
        kind = self._kind(resource)
        try:
            return self._read(kind.path(namespace if kind.namespaced else "", name))
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def list(self, resource: str, namespace: str = "", labels: str | Mapping[str, str] = "") -> list[dict[str, Any]]:
        """Objects of one namespace or (by default) all. `labels`: a label selector, or labels that they have to have.

        Raises ApiError, KeyError for a resource that does not exist.
        """
        selector = labels if isinstance(labels, str) else ",".join(f"{key}={value}" for key, value in labels.items())
        query = {"labelSelector": selector} if selector else {}
        items: list[dict[str, Any]] = self._read(self._kind(resource).path(namespace), query)["items"]
        return items

    def _read(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        return msgspec.json.decode(self._thread.run(self._client.raw("GET", path, query)), type=dict[str, Any])

    def _kind(self, resource: str) -> Kind:
        try:
            return self.cluster.api.context.kinds.named(resource)
        except KeyError:
            raise KeyError(f"this cluster has no resource {resource!r}") from None

    def run(self, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine with Bayplan's own client, such as `lambda client: client.list(core_v1.Pod)`."""
        return self._thread.run(work(self._client))

    def eventually(self, condition: Callable[[], T], within: float = _PATIENCE) -> T:
        """Ask until a condition gives something true, and return that; failed assertions count as not yet.

        Raises AssertionError with the last failure, and with what is wrong in the cluster, when `within` seconds have passed.
        """
        until = time.monotonic() + within
        while True:
            last: AssertionError | None = None
            said = ""
            try:
                found = condition()
                if found:
                    return found
                said = f"the condition gave {found!r}"
            except AssertionError as error:
                last = error
            if time.monotonic() >= until:
                wrong = self._thread.run(what_is_wrong(self._client))
                text = f"not true within {within:g} s: {said or last}"
                raise AssertionError(f"{text}\n{wrong}" if wrong else text) from last
            time.sleep(_LOOK_EVERY)
