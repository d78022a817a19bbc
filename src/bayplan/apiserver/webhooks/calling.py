"""Asking a webhook: where it is, and what comes of it.

Source of the behaviour: Kubernetes' `apiserver/pkg/util/webhook`.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from bayplan.api.errors import ApiError, bad_request, internal_error
from bayplan.api.types import admissionregistration_v1 as types
from bayplan.api.types import apiextensions_v1
from bayplan.apiserver.context import Context
from bayplan.apiserver.routing.dialing import authority_of
from bayplan.apiserver.routing.forwards import Forward
from bayplan.apiserver.routing.service_routes import NoRoute, SimulatedService
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


class SimulatedTarget(SendError):
    """A webhook is in a simulated pod, where nobody listens. It was not called."""

    def __init__(self, message: str, fact: str) -> None:
        """fact: what is so, as a sentence without the next step."""
        super().__init__(message)
        self.fact = fact


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
    forward: Forward | None = None
    """The forward that leads to the address, if one does."""


class Sender(Protocol):
    """What posts bytes to a webhook."""

    def dials(self, url: str) -> bool:
        """Whether it connects to an address for a URL; those of simulated pods are not dialled."""

    async def post(self, target: Target, body: bytes, seconds: float) -> bytes:
        """The body of a successful answer. Raises SendError."""

    async def close(self) -> None:
        """Let go of all connections."""


class WebhookFailure(Exception):
    """A webhook could not be asked; its failure policy says what that means."""

    def __init__(self, hook: Hook, reason: str, simulated: SimulatedTarget | None = None) -> None:
        super().__init__(f'failed calling webhook "{hook.name}": {reason}')
        self.simulated = simulated
        """Where it is, if that is in simulated pods: then it was not called."""

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
            told = f"failed to call webhook: {error.told(f'{url}?timeout={seconds}s')}"
            raise WebhookFailure(hook, told, error if isinstance(error, SimulatedTarget) else None) from error
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
    """Where a webhook is, and how it is reached. Raises SendError; SimulatedTarget if it is in simulated pods only."""
    authority = base64.b64decode(config.ca_bundle).strip() if config.ca_bundle else b""
    service, url = config.service, url_of(config)
    sender = context.webhook_sender
    dials = sender is None or sender.dials(url)
    if service is None:
        if dials:
            _check_dialled(context, *_host_of(url))
        return Target(url, None, authority)
    try:
        route = context.services.route(service.namespace, service.name, service.port or _HTTPS, dials=dials)
    except SimulatedService as error:
        raise SimulatedTarget(str(error), error.fact) from error
    except NoRoute as error:
        raise SendError(str(error)) from error
    if dials:
        _check_dialled(context, route.host, route.port)
    return Target(url, (route.host, route.port), authority, route.forward)


def _check_dialled(context: Context, host: str, port: int) -> None:
    """Refuse an address of simulated nodes and pods. Raises SimulatedTarget."""
    if reason := context.simulated.reason(host):
        where = authority_of(host, port)
        raise SimulatedTarget(f"dial tcp {where}: connect: {reason}", f"{where}: {reason}")


def _host_of(url: str) -> tuple[str, int]:
    """Host and port of a URL."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or _HTTPS
