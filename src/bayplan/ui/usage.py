"""What nodes and pods use, from the metrics API (`metrics.k8s.io/v1beta1`), whoever serves it; the latest readings of each are kept.

Pods of a cluster with many are read one by one, when a page looks at one: a list of all would cost more than it tells.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from typing import Any, Final

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.quantity import milli_value, value
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.support.clock import Clock

_PATH: Final = "/apis/metrics.k8s.io/v1beta1"
_READINGS_KEPT: Final = 120
_OBJECTS_KEPT: Final = 15_000
MOST_PODS: Final = 5_000
"""Pods up to which all are read at once."""
_NO_API: Final = "the cluster has no metrics API (metrics.k8s.io), which an add-on such as metrics-server brings"


class _Named(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Container(msgspec.Struct):
    usage: dict[str, str] = {}


class _Reading(msgspec.Struct):
    """NodeMetrics or PodMetrics."""

    metadata: _Named
    usage: dict[str, str] = {}
    containers: list[_Container] = []


class _Readings(msgspec.Struct):
    items: list[_Reading] | None = None


class _Series:
    """The latest readings of one object: seconds since the history began, thousandths of a CPU, bytes."""

    __slots__ = ("at", "cpu", "memory")

    def __init__(self) -> None:
        self.at, self.cpu, self.memory = array("f"), array("f"), array("f")

    def add(self, at: float, cpu: float, memory: float) -> None:
        for column, number in ((self.at, at), (self.cpu, cpu), (self.memory, memory)):
            column.append(number)
            if len(column) > _READINGS_KEPT:
                del column[0]


class UsageHistory:
    """Reads the metrics API when it is told to, and keeps what it has read, within bounds."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._began = clock.now()
        self._series: OrderedDict[str, _Series] = OrderedDict()
        self.missing: dict[str, str] = {}
        """Why the usage of `nodes` or `pods` cannot be read."""

    async def read(self, *, pods: bool) -> None:
        """Read all nodes and, if asked to, all pods."""
        for resource in ("nodes", "pods") if pods else ("nodes",):
            found = await self._get(resource, f"{_PATH}/{resource}", _Readings)
            for one in (found.items or ()) if found is not None else ():
                self._add(resource, one)

    async def read_pod(self, namespace: str, name: str) -> None:
        """Read one pod."""
        found = await self._get("pods", f"{_PATH}/namespaces/{namespace}/pods/{name}", _Reading)
        if found is not None:
            self._add("pods", found)

    async def _get(self, resource: str, path: str, cls: type[Any]) -> Any:
        try:
            found = msgspec.json.decode(await self._client.raw("GET", path), type=cls)
        except ApiError as error:
            if error.code != 404:
                self.missing[resource] = error.message
            elif cls is _Readings:  # of one pod: it has no reading yet
                self.missing[resource] = _NO_API
            return None
        except (TransportError, msgspec.DecodeError) as error:
            self.missing[resource] = str(error)
            return None
        self.missing.pop(resource, None)
        return found

    def _add(self, resource: str, reading: _Reading) -> None:
        parts = [reading.usage, *(one.usage for one in reading.containers)]
        cpu = sum(milli_value(one.get("cpu", 0)) for one in parts)
        memory = sum(value(one.get("memory", 0)) for one in parts)
        key = f"{resource}/{reading.metadata.namespace}/{reading.metadata.name}"
        series = self._series.setdefault(key, _Series())
        self._series.move_to_end(key)
        series.add(self._clock.now() - self._began, cpu, memory)
        while len(self._series) > _OBJECTS_KEPT:
            self._series.popitem(last=False)

    def to_dict(self, resource: str, namespace: str, name: str) -> dict[str, Any]:
        """The readings of one object, and why there are no (further) ones."""
        series = self._series.get(f"{resource}/{namespace}/{name}") or _Series()
        return {
            "at": [round(self._began + at, 1) for at in series.at],
            "cpu": series.cpu.tolist(),
            "memory": series.memory.tolist(),
            "missing": self.missing.get(resource, ""),
        }
