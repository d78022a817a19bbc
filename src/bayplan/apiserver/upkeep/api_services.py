"""The condition `Available` of API services: whether requests for their group version can be answered.

Those without a service are answered here and always available. Those with one depend on the service, its port and its endpoints, and on whether the server
behind it answers; what that says it has is kept for discovery and OpenAPI. Those whose pods are all simulated are left out, if that is the choice.

Source: Kubernetes' `kube-aggregator/pkg/controllers/status`.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from bayplan.api.kinds import Kind
from bayplan.api.strategies.apiregistration.apiservices import available
from bayplan.api.types import apiregistration_v1, core_v1, discovery_v1
from bayplan.apiserver.aggregation.probing import probe
from bayplan.apiserver.bootstrap.publishing import kind_of, own_call
from bayplan.apiserver.context import Context
from bayplan.apiserver.reads.watching import Entry, Selection
from bayplan.apiserver.routing.service_routes import SimulatedService
from bayplan.apiserver.simulated.webhooks import is_skipped
from bayplan.apiserver.verbs.update import modify
from bayplan.support.timestamps import rfc3339

_SERVICE_LABEL = "kubernetes.io/service-name"
_TYPE = "Available"
_HTTPS = 443
SIMULATED = "SimulatedPods"
"""The reason of a condition: all pods behind the service are simulated."""
Condition = apiregistration_v1.APIServiceCondition


class ApiServiceAvailability:
    """Every API service says whether it is available."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._api_services = kind_of(context, "apiregistration.k8s.io/v1", "APIService")
        self._services = kind_of(context, "v1", "Service")
        self._slices = kind_of(context, "discovery.k8s.io/v1", "EndpointSlice")
        self._referenced: set[tuple[str, str]] = set()
        """Namespace and name of the services behind API services: nothing else is followed."""

    def inputs(self) -> Sequence[tuple[Kind, Selection | None]]:
        """API services, the services that they name, and their endpoints."""
        return ((self._api_services, None), (self._services, self._is_behind), (self._slices, self._belongs_behind))

    def _is_behind(self, entry: Entry) -> bool:
        return (entry.namespace, entry.name) in self._referenced

    def _belongs_behind(self, entry: Entry) -> bool:
        return bool(self._referenced) and (entry.namespace, entry.labels.get(_SERVICE_LABEL, "")) in self._referenced

    async def settle(self) -> None:
        """Correct the conditions that say something else. Raises ApiError."""
        cache = self.context.objects.cache(self._api_services)
        found = [(entry, cache.shared(entry)) for entry in cache.all()]
        behind = (one.spec.service for _, one in found if one.spec.service is not None)
        self._referenced = {(service.namespace, service.name) for service in behind}
        now = rfc3339(self.context.clock.now())
        conditions = await asyncio.gather(*(self._condition(api_service, now) for _, api_service in found))
        for (entry, api_service), wanted in zip(found, conditions, strict=True):
            if wanted is not None and _changed(api_service, wanted) and not api_service.metadata.deletion_timestamp:
                call = own_call(self.context, self._api_services, "", entry.name)
                await modify(call, partial(_with, wanted), subresource="status")

    @property
    def looks_elsewhere(self) -> bool:
        """Whether an API service leads to another server, which may have ended or come back without a sign."""
        return bool(self._referenced)

    async def _condition(self, api_service: apiregistration_v1.APIService, now: str) -> Condition | None:
        """What it should say; None for what it says already, if this server asks no others."""
        reference = api_service.spec.service
        if reference is None:
            return available(now)
        reason, message = self._obstacle(reference)
        key, known = (api_service.spec.group, api_service.spec.version), self.context.aggregated
        is_left_out = reason == SIMULATED and self._is_left_out(api_service)
        known.skip(key, message if is_left_out else "")
        if is_left_out and known.is_served_here(key):
            told = f"this server answers itself: {message}"
            return Condition(type=_TYPE, status="True", last_transition_time=now, reason=reason, message=told)
        if reason:
            known.note(key, dataclasses.replace(known.remote(key), is_current=False))
        elif self.context.ask_aggregated is None:
            return None
        else:
            remote, message = await probe(self.context, api_service, self.context.ask_aggregated, known.remote(key))
            known.note(key, remote)
            if not message:
                return Condition(
                    type=_TYPE, status="True", last_transition_time=now, reason="Passed", message="all checks passed"
                )
            reason = "FailedDiscoveryCheck"
        return Condition(type=_TYPE, status="False", last_transition_time=now, reason=reason, message=message)

    def _is_left_out(self, api_service: apiregistration_v1.APIService) -> bool:
        """Whether an API service that leads to simulated pods is left out; then an event tells."""
        metadata, spec = api_service.metadata, api_service.spec
        if not is_skipped(metadata.annotations, self.context.settings.simulated_webhooks):
            return False
        source = core_v1.ObjectReference(
            kind="APIService", api_version=self._api_services.api_version, name=metadata.name, uid=metadata.uid
        )
        here = self.context.aggregated.is_served_here((spec.group, spec.version))
        what = "answered by this server itself" if here else "not served"
        assert spec.service is not None
        simulated = SimulatedService(spec.service.namespace, spec.service.name)
        self.context.simulated_reports.note(source, f"{spec.group}/{spec.version} is {what}: {simulated}")
        return True

    def _obstacle(self, reference: apiregistration_v1.ServiceReference) -> tuple[str, str]:
        """Why nobody behind a service can be asked: a reason and a message, or two empty strings."""
        services, port = self.context.services, reference.port or _HTTPS
        if services.forwards.find(reference.namespace, reference.name, port) is not None:
            return "", ""
        cache = self.context.objects.cache(self._services)
        entry = cache.get(reference.namespace, reference.name)
        service = None if entry is None else cache.shared(entry)
        reason, message = obstacle(reference, service, tuple(self._slices_of(reference)))
        if not reason and services.is_simulated(reference.namespace, reference.name, port):
            return SIMULATED, str(SimulatedService(reference.namespace, reference.name))
        return reason, message

    def _slices_of(self, reference: apiregistration_v1.ServiceReference) -> Iterator[discovery_v1.EndpointSlice]:
        cache = self.context.objects.cache(self._slices)
        for entry in cache.ordered(reference.namespace):
            if entry.labels.get(_SERVICE_LABEL) == reference.name:
                yield cache.shared(entry)


def obstacle(
    reference: apiregistration_v1.ServiceReference,
    service: core_v1.Service | None,
    slices: Sequence[discovery_v1.EndpointSlice],
) -> tuple[str, str]:
    """Why the service behind an API service cannot be asked: a reason and a message, or two empty strings."""
    name = f'service/{reference.name} in "{reference.namespace}"'
    if service is None:
        return "ServiceNotFound", f"{name} is not present"
    if service.spec.type != "ClusterIP":
        return "", ""
    port = next((one for one in service.spec.ports if one.port == reference.port), None)
    if port is None:
        return "ServicePortError", f"{name} is not listening on port {reference.port}"
    if not slices:
        return "EndpointsNotFound", f"cannot find endpointslices for {name}"
    if not any(_has_endpoint(one, port.name) for one in slices):
        return "MissingEndpoints", f'endpointslices for {name} have no addresses with port name "{port.name}"'
    return "", ""


def _has_endpoint(one: discovery_v1.EndpointSlice, port_name: str) -> bool:
    if all(endpoint.conditions.ready is False for endpoint in one.endpoints):
        return False
    return any(port.name == port_name and port.port is not None for port in one.ports)


def _found(api_service: apiregistration_v1.APIService) -> Condition | None:
    return next((one for one in api_service.status.conditions if one.type == _TYPE), None)


def _changed(api_service: apiregistration_v1.APIService, wanted: Condition) -> bool:
    found = _found(api_service)
    return found is None or (found.status, found.reason, found.message) != (
        wanted.status,
        wanted.reason,
        wanted.message,
    )


def _with(wanted: Condition, api_service: Any) -> Any:
    """The API service with this condition, whose time stays as it is if only the reason changes."""
    found = _found(api_service)
    if found is not None and found.status == wanted.status:
        wanted = msgspec.structs.replace(wanted, last_transition_time=found.last_transition_time)
    others = (one for one in api_service.status.conditions if one.type != _TYPE)
    api_service.status.conditions = (*others, wanted)
    return api_service
