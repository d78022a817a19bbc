"""Reading what horizontal autoscalers look at: `metrics.k8s.io`, `custom.metrics.k8s.io` and `external.metrics.k8s.io`, whoever serves them.

All values are in thousandths (milli-units), as in the Kubernetes controller. Source of the behaviour and of the wording: its REST metrics client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.quantity import parse
from bayplan.api.selectors.labels import LabelSelector
from bayplan.api.types import autoscaling_v2
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.support.durations import go_seconds
from bayplan.support.timestamps import parse_rfc3339

T = TypeVar("T")
_RESOURCES = "/apis/metrics.k8s.io/v1beta1"
_CUSTOM, _CUSTOM_VERSIONS = "/apis/custom.metrics.k8s.io", ("v1beta2", "v1beta1")
_EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1"
_DEFAULT_WINDOW = 60.0
"""Seconds over which a custom metric was measured if it does not say."""


class MetricsError(Exception):
    """A metric could not be read; the message says which and why."""


@dataclass(frozen=True, slots=True)
class PodMetric:
    """The metric of one pod."""

    value: int
    """In thousandths."""
    timestamp: float = 0.0
    """Unix time at which it was measured."""
    window: float = _DEFAULT_WINDOW
    """Seconds over which it was measured."""


class _Named(msgspec.Struct):
    name: str = ""


class ContainerFigures(msgspec.Struct):
    """What a container uses: quantities by resource."""

    name: str = ""
    usage: dict[str, str] = {}


class PodFigures(msgspec.Struct):
    """What the containers of a pod use, as `PodMetrics`."""

    metadata: _Named
    timestamp: str = ""
    window: str = "0s"
    containers: list[ContainerFigures] = []


class _PodList(msgspec.Struct):
    items: list[PodFigures] | None = None


class _Value(msgspec.Struct, rename="camel"):
    value: str | int | float = 0
    timestamp: str = ""
    window_seconds: int | None = None
    described_object: _Named = msgspec.field(default_factory=_Named)


class _ValueList(msgspec.Struct):
    items: list[_Value] | None = None


class _GroupVersion(msgspec.Struct):
    version: str = ""


class _Group(msgspec.Struct):
    versions: list[_GroupVersion] = []


def seconds(duration: str) -> float:
    """A Go duration such as `1m30s` or `15s`; 0 if it cannot be read."""
    try:
        return go_seconds(duration)
    except ValueError:
        return 0.0


class MetricsReader:
    """Reads metrics through a client. Every method raises MetricsError."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def resource(
        self, resource: str, namespace: str, selector: LabelSelector, container: str = ""
    ) -> dict[str, PodMetric]:
        """What pods (or one container in each) use of a resource, by name of the pod. Pods of which something is missing are left out."""
        found = await self.figures(namespace, selector)
        if not found:
            raise MetricsError("no metrics returned from resource metrics API")
        return resource_metrics(found, resource, namespace, container)

    async def figures(self, namespace: str, selector: LabelSelector) -> list[PodFigures]:
        """What the containers of pods use, by pod."""
        path = f"{_RESOURCES}/namespaces/{namespace}/pods"
        try:
            found = await self._read(path, {"labelSelector": str(selector)}, _PodList, "pods.metrics.k8s.io")
        except MetricsError as error:
            raise MetricsError(f"unable to fetch metrics from resource metrics API: {error}") from error
        return found.items or []

    async def of_pods(
        self, metric: str, namespace: str, selector: LabelSelector, metric_selector: LabelSelector
    ) -> dict[str, PodMetric]:
        """A custom metric of each pod, by name of the pod."""
        query = {"labelSelector": str(selector), "metricLabelSelector": str(metric_selector)}
        found = await self._custom(f"namespaces/{namespace}/pods/*/{metric}", query)
        return {
            one.described_object.name: PodMetric(
                _milli(one.value),
                parse_rfc3339(one.timestamp) if one.timestamp else 0.0,
                _DEFAULT_WINDOW if one.window_seconds is None else float(one.window_seconds),
            )
            for one in found
        }

    async def of_object(
        self,
        metric: str,
        namespace: str,
        reference: autoscaling_v2.CrossVersionObjectReference,
        metric_selector: LabelSelector,
    ) -> int:
        """A custom metric of one object."""
        group, _, version = reference.api_version.rpartition("/")
        kind = self._client.kinds.of_kind(reference.api_version, reference.kind) or next(
            (one for one in self._client.kinds if one.group == group and one.kind == reference.kind), None
        )
        if kind is None:
            raise MetricsError(
                f'no matches for kind "{reference.kind}" in version "{reference.api_version or version}"'
            )
        if kind.kind == "Namespace" and not kind.group:
            path = f"namespaces/{reference.name}/metrics/{metric}"
        else:
            path = f"{kind.group_resource}/{reference.name}/{metric}"
            path = f"namespaces/{namespace}/{path}" if kind.namespaced else path
        found = await self._custom(path, {"metricLabelSelector": str(metric_selector)})
        return _milli(found[0].value)

    async def external(self, metric: str, namespace: str, metric_selector: LabelSelector) -> tuple[int, ...]:
        """All series of an external metric."""
        path, query = f"{_EXTERNAL}/namespaces/{namespace}/{metric}", {"labelSelector": str(metric_selector)}
        try:
            found = await self._read(path, query, _ValueList, f"{metric}.external.metrics.k8s.io")
        except MetricsError as error:
            raise MetricsError(f"unable to fetch metrics from external metrics API: {error}") from error
        if not found.items:
            raise MetricsError("no metrics returned from external metrics API")
        return tuple(_milli(one.value) for one in found.items)

    async def _custom(self, path: str, query: dict[str, str]) -> list[_Value]:
        resource = path.rpartition("/")[0].split("/")
        name = (
            f"{resource[2] if resource[0] == 'namespaces' and len(resource) > 3 else resource[0]}.custom.metrics.k8s.io"
        )
        try:
            version = await self._custom_version()
            found = await self._read(f"{_CUSTOM}/{version}/{path}", query, _ValueList, name)
        except MetricsError as error:
            raise MetricsError(f"unable to fetch metrics from custom metrics API: {error}") from error
        if not found.items:
            raise MetricsError("no metrics returned from custom metrics API")
        return found.items

    async def _custom_version(self) -> str:
        """The version of custom metrics to ask for, the newest that is both served and known."""
        try:
            group = msgspec.json.decode(await self._client.raw("GET", _CUSTOM), type=_Group)
        except ApiError as error:
            if error.code == 404:
                raise MetricsError("no custom metrics API (custom.metrics.k8s.io) registered") from error
            raise MetricsError(error.message) from error
        except (TransportError, msgspec.MsgspecError) as error:
            raise MetricsError(str(error)) from error
        served = {one.version for one in group.versions}
        found = next((one for one in _CUSTOM_VERSIONS if one in served), None)
        if found is None:
            raise MetricsError("no known available metric versions found")
        return found

    async def _read(self, path: str, query: dict[str, str], answer: type[T], resource: str) -> T:
        try:
            data = await self._client.raw("GET", path, {name: value for name, value in query.items() if value})
            return msgspec.json.decode(data, type=answer)
        except ApiError as error:
            if error.code == 404:
                raise MetricsError(f"the server could not find the requested resource (get {resource})") from error
            raise MetricsError(error.message) from error
        except (TransportError, msgspec.MsgspecError) as error:
            raise MetricsError(str(error)) from error


def resource_metrics(items: list[Any], resource: str, namespace: str, container: str = "") -> dict[str, PodMetric]:
    """Sums over the containers of each pod, or the figures of one container. Raises MetricsError if a pod has no figures of that container."""
    found = {}
    for pod in items:
        name, usages = pod.metadata.name, {one.name: one.usage.get(resource) for one in pod.containers}
        if container:
            if container not in usages:
                raise MetricsError(f"container {container} not present in metrics for pod {namespace}/{name}")
            usages = {container: usages[container]}
        amounts = [_milli(usage) for usage in usages.values() if usage is not None]
        if amounts and len(amounts) == len(usages):
            time = parse_rfc3339(pod.timestamp) if pod.timestamp else 0.0
            found[name] = PodMetric(sum(amounts), time, seconds(pod.window))
    return found


def _milli(value: str | int | float) -> int:
    """Raises MetricsError."""
    try:
        return parse(value).milli_value()
    except ValueError as error:
        raise MetricsError(str(error)) from error
