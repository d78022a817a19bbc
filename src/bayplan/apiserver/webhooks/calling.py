"""Asking a webhook: where it is, and what comes of it.

Source of the behaviour: Kubernetes' `apiserver/pkg/util/webhook`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from bayplan.api.errors import ApiError, bad_request, internal_error
from bayplan.api.types import admissionregistration_v1 as types
from bayplan.api.types import apiextensions_v1, core_v1
from bayplan.apiserver.context import Context
from bayplan.apiserver.dialing import authority_of
from bayplan.apiserver.webhooks.matching import Hook
from bayplan.apiserver.webhooks.reviews import (
    Answer,
    Question,
    Resource,
    ReviewError,
    question,
    read_answer,
    version_for,
)

ClientConfig = types.WebhookClientConfig | apiextensions_v1.WebhookClientConfig
_HTTPS = 443
_DEFAULT_TIMEOUT = 10
_WITHOUT_EFFECTS = ("None", "NoneOnDryRun")


class SendError(Exception):
    """A webhook was not reached, or gave no answer. The message is as Go words it."""

    def told(self, url: str) -> str:
        """The message with what was tried."""
        return f'Post "{url}": {self}'


class AnswerError(SendError):
    """A webhook was reached, and answered with an error code."""

    def told(self, url: str) -> str:
        """See SendError; what was tried is not said here."""
        return str(self)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a webhook listens."""

    url: str
    """As messages show it, and as the certificate is checked: `https://name.namespace.svc:443/path`."""
    address: tuple[str, int] | None = None
    """Host and port to connect to, if they are not those of the URL."""
    authority: bytes = b""
    """PEM of the authorities that may vouch for it; empty for those of the system."""


class Sender(Protocol):
    """What posts bytes to a webhook."""

    @property
    def dials(self) -> bool:
        """Whether it connects to addresses, which those of simulated nodes are not for."""

    async def post(self, target: Target, body: bytes, seconds: float) -> bytes:
        """The body of a successful answer. Raises SendError."""

    async def close(self) -> None:
        """Let go of all connections."""


class WebhookFailure(Exception):
    """A webhook could not be asked; its failure policy says what that means."""

    def __init__(self, hook: Hook, reason: str) -> None:
        super().__init__(f'failed calling webhook "{hook.name}": {reason}')

    @property
    def as_error(self) -> ApiError:
        """What the client of the request is told."""
        return internal_error(str(self))


async def ask(
    context: Context, hook: Hook, asked: Question, seen: Resource, obj: Any, old: Any, *, mutating: bool
) -> Answer:
    """What a webhook says about a request. Raises WebhookFailure, and ApiError (400) if it must not be asked in a dry run."""
    webhook = hook.webhook
    if asked.dry_run and webhook.side_effects not in _WITHOUT_EFFECTS:
        raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
    sender = context.webhook_sender
    if sender is None:
        raise WebhookFailure(hook, "failed to call webhook: this server calls none")
    uid = context.randomness.uuid4()
    seconds = webhook.timeout_seconds or _DEFAULT_TIMEOUT
    url = url_of(webhook.client_config)
    try:
        version = version_for(webhook.admission_review_versions)
        body = question(version, uid, asked, seen, obj, old)
        try:
            data = await sender.post(target_of(context, webhook.client_config), body, seconds)
        except SendError as error:
            raise ReviewError(f"failed to call webhook: {error.told(f'{url}?timeout={seconds}s')}") from error
        return read_answer(version, uid, data, mutating=mutating)
    except ReviewError as error:
        raise WebhookFailure(hook, str(error)) from error


def url_of(config: ClientConfig) -> str:
    """Where a webhook is, as messages show it."""
    service = config.service
    if service is None:
        return config.url or ""
    path = (service.path or "").lstrip("/")
    return f"https://{service.name}.{service.namespace}.svc:{service.port or _HTTPS}/{path}"


def target_of(context: Context, config: ClientConfig) -> Target:
    """Where a webhook is, and how it is reached. Raises SendError."""
    authority = base64.b64decode(config.ca_bundle).strip() if config.ca_bundle else b""
    service = config.service
    address = (
        None if service is None else service_address(context, service.namespace, service.name, service.port or _HTTPS)
    )
    url = url_of(config)
    host, port = address or _host_of(url)
    sender = context.webhook_sender
    if sender is not None and sender.dials and (reason := context.simulated.reason(host)):
        raise SendError(f"dial tcp {authority_of(host, port)}: connect: {reason}")
    return Target(url, address, authority)


def _host_of(url: str) -> tuple[str, int]:
    """Host and port of a URL."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or _HTTPS


def service_address(
    context: Context, namespace: str, name: str, port: int, *, uses_cluster_ip: bool = False
) -> tuple[str, int]:
    """Host and port behind a port of a service: of an endpoint, or of the service itself. Raises SendError."""
    service = context.find("Service", namespace, name)
    if service is None:
        raise SendError(f'service "{name}" not found')
    if service.spec.type == "ExternalName":
        return service.spec.external_name, port
    row = next((one for one in service.spec.ports if one.port == port), None)
    if row is None:
        raise SendError(f'no service port {port} found for service "{name}"')
    if uses_cluster_ip and service.spec.cluster_ip not in ("", "None"):
        return service.spec.cluster_ip, port
    found = sorted(_endpoints(context, namespace, name, row))
    if not found:
        raise SendError(f'no endpoints available for service "{name}"')
    return context.randomness.choice(found)


def _endpoints(context: Context, namespace: str, name: str, row: core_v1.ServicePort) -> Iterator[tuple[str, int]]:
    kind = context.kinds.of_kind("discovery.k8s.io/v1", "EndpointSlice")
    assert kind is not None
    cache = context.objects.cache(kind)
    for entry in cache.ordered(namespace):
        if entry.labels.get("kubernetes.io/service-name") != name:
            continue
        found = cache.shared(entry)
        port = next((one.port for one in found.ports if one.name == row.name and one.port), None)
        if port is None:
            continue
        for endpoint in found.endpoints:
            if endpoint.conditions.ready is not False:
                yield from ((address, port) for address in endpoint.addresses)
