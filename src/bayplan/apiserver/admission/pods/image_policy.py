"""ImagePolicyWebhook: a webhook outside the cluster says whether the images of a pod may run.

What it says is kept for a while, by images, namespace and annotations of the pod. It is asked before the object is written, when everybody has changed it.
Source: Kubernetes' `plugin/pkg/admission/imagepolicy`, API `imagepolicy.k8s.io/v1alpha1`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from bayplan.api.errors import ApiError, forbidden_error
from bayplan.api.kinds import Kind
from bayplan.api.types import core_v1
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.webhooks.posting import ReviewError, ReviewWebhook
from bayplan.support.memory.memo import Memo

logger = logging.getLogger(__name__)

FAILED_OPEN: Final = "alpha.image-policy.k8s.io/failed-open"
"""Annotation of pods that run because the webhook did not answer."""
_MARK: Final = ".image-policy.k8s.io/"
"""In the annotations of pods that the webhook is shown."""
_PREFIX: Final = "imagepolicywebhook.image-policy.k8s.io/"
"""Of annotations in the audit log."""
_EPHEMERAL: Final = "ephemeralcontainers"
_MOST_BYTES: Final = 4 << 20
_HALF_HOUR: Final = 1800.0


class Configuration(NamedTuple):
    """`imagePolicy` of the plugin's configuration. Times in seconds."""

    kubeconfig: str
    allow_seconds: float
    deny_seconds: float
    backoff_seconds: float
    default_allow: bool


class _Status(msgspec.Struct, rename="camel"):
    allowed: bool = False
    reason: str = ""
    audit_annotations: dict[str, str] = {}


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


class _Kept(NamedTuple):
    status: _Status
    until: float
    """Monotonic seconds."""


def read_configuration(given: Mapping[str, Any]) -> Configuration:
    """The configuration in a file. Raises ValueError."""
    own = given.get("imagePolicy")
    if not isinstance(own, dict) or not own.get("kubeConfigFile"):
        raise ValueError("imagePolicy.kubeConfigFile: the kubeconfig of the webhook must be given")
    default_allow = own.get("defaultAllow", False)
    if not isinstance(default_allow, bool):
        raise ValueError(f"imagePolicy.defaultAllow: {default_allow!r} is neither true nor false")
    return Configuration(
        kubeconfig=str(own["kubeConfigFile"]),
        allow_seconds=_seconds(own, "allowTTL", 1.0, (1.0, _HALF_HOUR), 300.0),
        deny_seconds=_seconds(own, "denyTTL", 1.0, (1.0, _HALF_HOUR), 30.0),
        backoff_seconds=_seconds(own, "retryBackoff", 0.001, (0.0, 300.0), 0.5),
        default_allow=default_allow,
    )


def _seconds(given: Mapping[str, Any], name: str, unit: float, bounds: tuple[float, float], default: float) -> float:
    """A time in seconds; -1 is none at all, and 0 the default. unit: of what is given."""
    value = given.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"imagePolicy.{name}: {value!r} is no whole number")
    if value in (-1, 0):
        return 0.0 if value else default
    found, (least, most) = value * unit, bounds
    if not least <= found <= most:
        raise ValueError(f"imagePolicy.{name}: valid value is between {least:g} and {most:g} seconds, got {found:g}")
    return found


class ImagePolicyWebhook(AdmissionPlugin):
    """See the module. Who runs the server gives it the webhook (`connect`)."""

    name = "ImagePolicyWebhook"
    needs_configuration = True

    def __init__(self) -> None:
        self.configuration = Configuration("", 0.0, 0.0, 0.0, default_allow=False)
        self._webhook: ReviewWebhook | None = None
        self._kept: Memo[bytes, _Kept] = Memo("image_policy", most_bytes=_MOST_BYTES)

    def configure(self, configuration: Mapping[str, Any]) -> None:
        """Take `imagePolicy`. Raises ValueError."""
        self.configuration = read_configuration(configuration)

    def connect(self, webhook: ReviewWebhook) -> None:
        """From now on this webhook is asked. Before, it counts as one that does not answer."""
        self._webhook = webhook

    async def close(self) -> None:
        """Let go of the webhook."""
        if self._webhook is not None:
            await self._webhook.close()

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return (
            kind.kind == "Pod" and not kind.group and operation in (CREATE, UPDATE) and subresource in ("", _EPHEMERAL)
        )

    def validate(self, request: AdmissionRequest) -> Awaitable[None]:
        """Refuse the pod (403)."""
        return self._review(request)

    async def _review(self, request: AdmissionRequest) -> None:
        spec = _spec(request)
        key, now = msgspec.json.encode(spec, order="sorted"), request.call.context.clock.monotonic()
        kept = self._kept.get(key)
        if kept is not None and kept.until > now:
            status = kept.status
        else:
            try:
                status = await self._ask(spec)
            except (ReviewError, msgspec.DecodeError, UnicodeDecodeError) as error:
                self._failed(request, str(error))
                return
            own = self.configuration
            seconds = own.allow_seconds if status.allowed else own.deny_seconds
            self._kept.put(key, _Kept(status, now + seconds), 2 * len(key))
        for name, value in status.audit_annotations.items():
            _note(request, name, value)
        if not status.allowed:
            why = f"image policy webhook backend denied one or more images: {status.reason}" if status.reason else ""
            raise _refused(request, why or "one or more images rejected by webhook backend")

    async def _ask(self, spec: dict[str, Any]) -> _Status:
        """Raises ReviewError, msgspec.DecodeError, UnicodeDecodeError."""
        if self._webhook is None:
            raise ReviewError("there is no webhook yet")
        review = {
            "kind": "ImageReview",
            "apiVersion": "imagepolicy.k8s.io/v1alpha1",
            "metadata": {},
            "spec": spec,
            "status": {"allowed": False},
        }
        answer = await self._webhook.post(msgspec.json.encode(review), lambda error, seconds: None)
        return msgspec.json.decode(answer, type=_Review).status

    def _failed(self, request: AdmissionRequest, why: str) -> None:
        """The webhook has not answered. Raises ApiError (403) if that is no permission."""
        logger.warning("image policy webhook: %s", why)
        if not self.configuration.default_allow:
            raise _refused(request, why)
        _note(request, "failed-open", "true")
        metadata = request.obj.metadata
        metadata.annotations = {**metadata.annotations, FAILED_OPEN: "true"}


def _spec(request: AdmissionRequest) -> dict[str, Any]:
    """What the webhook is shown of a pod."""
    pod: core_v1.Pod = request.obj
    spec = pod.spec
    containers = spec.ephemeral_containers if request.subresource else (*spec.containers, *spec.init_containers)
    shown: dict[str, Any] = {}
    if containers:
        shown["containers"] = [{"image": one.image} if one.image else {} for one in containers]
    annotations = {name: value for name, value in pod.metadata.annotations.items() if _MARK in name}
    if annotations:
        shown["annotations"] = annotations
    if request.namespace:
        shown["namespace"] = request.namespace
    return shown


def _note(request: AdmissionRequest, name: str, value: str) -> None:
    record = request.call.request.audit
    if record is not None:
        record.annotate_admission(f"{_PREFIX}{name}", value)


def _refused(request: AdmissionRequest, why: str) -> ApiError:
    return forbidden_error("pods", "", request.name, why)
