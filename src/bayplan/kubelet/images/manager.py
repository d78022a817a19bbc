"""Sees to it that an image is on the node before a container is made of it.

Source: pull policies, reasons and events of Kubernetes 1.36 (Container.imagePullPolicy, ContainerStateWaiting.reason), KEP-2535 for who may use
an image that is there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bayplan.api.types import core_v1
from bayplan.kubelet.core.back_off import BackOff
from bayplan.kubelet.images.credential_plugins import CredentialPlugins
from bayplan.kubelet.images.keyring import DockerConfigError, PullCredentials, keyring_of_secrets, lookup_all
from bayplan.kubelet.images.node_credentials import NodeCredentials
from bayplan.kubelet.images.records import Access, PullRecords
from bayplan.kubelet.images.references import InvalidReferenceError, parse_reference, pull_policy, with_default_tag
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.runtime.types import SandboxConfig
from bayplan.support.clock import Clock
from bayplan.support.durations import go_duration

NORMAL, WARNING = "Normal", "Warning"
INVALID_IMAGE_NAME = "InvalidImageName"
IMAGE_INSPECT_ERROR = "ImageInspectError"
IMAGE_NEVER_PULL = "ErrImageNeverPull"
IMAGE_PULL = "ErrImagePull"
IMAGE_PULL_BACK_OFF = "ImagePullBackOff"
_RUNTIME_REASONS = {
    "RegistryUnavailable": "the registry is unavailable",
    "SignatureValidationFailed": "the signature validation failed",
}
"""Reasons that runtimes give as the first word of their message -> what kubelet says for it."""


class ImagePullError(Exception):
    """An image cannot be used; `reason` and `message` are those of the container's waiting state."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Recorder(Protocol):
    """Where events go."""

    def event(self, obj: core_v1.ObjectReference, event_type: str, reason: str, message: str) -> None:
        """Record an event."""


@dataclass(frozen=True, slots=True)
class ImageManagerSettings:
    """KubeletConfiguration: serializeImagePulls, maxParallelImagePulls (0 for no limit), registryPullQPS (0 for no limit), registryBurst; seconds of back-off."""

    serialize_image_pulls: bool = True
    max_parallel_image_pulls: int = 0
    registry_pull_qps: float = 5.0
    registry_burst: int = 10
    first_back_off: float = 10.0
    longest_back_off: float = 300.0


@dataclass(frozen=True, slots=True)
class _Pulled:
    """A finished pull. seconds: without what it waited for others."""

    image_ref: str
    size: int
    seconds: float
    used: PullCredentials | None


class ImageManager:
    """Pulls images, one at a time or several, and says who may use those that are there."""

    def __init__(
        self,
        runtime: Runtime,
        recorder: Recorder,
        records: PullRecords,
        clock: Clock,
        settings: ImageManagerSettings | None = None,
        *,
        node_credentials: NodeCredentials | None = None,
        plugins: CredentialPlugins | None = None,
    ) -> None:
        self._runtime = runtime
        self._recorder = recorder
        self._records = records
        self._clock = clock
        settings = settings or ImageManagerSettings()
        self._back_off = BackOff(settings.first_back_off, settings.longest_back_off)
        self._failures: dict[str, str] = {}
        """What the last pull of a pod's image said, for who waits for the next one."""
        limit = 1 if settings.serialize_image_pulls else settings.max_parallel_image_pulls
        self._slots = asyncio.Semaphore(limit) if limit else None
        self._rate = _Rate(clock, settings.registry_pull_qps, settings.registry_burst)
        self._node_credentials = node_credentials
        self._plugins = plugins

    async def ensure(
        self,
        pod: core_v1.Pod,
        container: core_v1.Container | core_v1.EphemeralContainer,
        pull_secrets: Sequence[core_v1.Secret],
        sandbox: SandboxConfig | None = None,
        runtime_handler: str = "",
    ) -> str:
        """The reference by which the runtime makes containers of a container's image. Raises ImagePullError."""
        reference = container_reference(pod, container.name)
        policy = pull_policy(container.image, container.image_pull_policy)
        return await self.ensure_image(reference, pod, container.image, policy, pull_secrets, sandbox, runtime_handler)

    async def ensure_image(
        self,
        reference: core_v1.ObjectReference,
        pod: core_v1.Pod,
        image: str,
        policy: str,
        pull_secrets: Sequence[core_v1.Secret],
        sandbox: SandboxConfig | None = None,
        runtime_handler: str = "",
    ) -> str:
        """The same for any image of a pod, such as that of a volume. reference: what events are about. Raises ImagePullError."""
        try:
            name = with_default_tag(image)
        except InvalidReferenceError as error:
            message = f"Failed to apply default image tag {_quoted(image)}: couldn't parse image name {_quoted(image)}: {error}"
            self._recorder.event(reference, WARNING, "InspectFailed", message)
            raise ImagePullError(INVALID_IMAGE_NAME, message) from error
        image_ref = "" if policy == "Always" else await self._present(reference, name, runtime_handler)
        if not image_ref and policy == "Never":
            raise self._never(reference, image)
        access = self._records.access(image, image_ref) if image_ref else Access.NONE
        # Only now, as plugins may take long.
        credentials: Sequence[PullCredentials] = (
            () if access is Access.ALL else await self._credentials(name, pull_secrets, pod)
        )
        if image_ref:
            is_open = access is Access.BY_SECRET and self._records.is_opened_by(image, image_ref, credentials)
            if is_open or access is Access.ALL:
                message = f"Container image {_quoted(image)} already present on machine and can be accessed by the pod"
                self._recorder.event(reference, NORMAL, "Pulled", message)
                return image_ref
            if policy == "Never":
                # That it is there is not for this pod to know.
                raise self._never(reference, image)
        return await self._pull(reference, pod.metadata.uid, image, name, credentials, sandbox, runtime_handler)

    async def _present(self, reference: core_v1.ObjectReference, name: str, runtime_handler: str) -> str:
        try:
            found = await self._runtime.image_status(name, runtime_handler=runtime_handler)
        except RuntimeRequestError as error:
            message = f"Failed to inspect image {_quoted(name)}: {error.rpc_text}"
            self._recorder.event(reference, WARNING, "InspectFailed", message)
            raise ImagePullError(IMAGE_INSPECT_ERROR, message) from error
        return found.id if found is not None else ""

    def _never(self, reference: core_v1.ObjectReference, image: str) -> ImagePullError:
        message = f"Container image {_quoted(image)} is not present with pull policy of Never"
        self._recorder.event(reference, WARNING, IMAGE_NEVER_PULL, message)
        return ImagePullError(IMAGE_NEVER_PULL, message)

    async def _credentials(
        self, name: str, pull_secrets: Sequence[core_v1.Secret], pod: core_v1.Pod
    ) -> Sequence[PullCredentials]:
        """Credentials to try, in this order: the pod's, the node's, those of plugins."""
        repository = parse_reference(name).repository
        try:
            keyrings = [keyring_of_secrets(pull_secrets)]
        except (DockerConfigError, ValueError) as error:
            raise ImagePullError(IMAGE_PULL, f"an image pull secret cannot be used: {error}") from error
        if self._node_credentials is not None:
            keyrings.append(self._node_credentials.keyring())
        if self._plugins is not None:
            keyrings.extend(await self._plugins.keyrings(repository, pod))
        return lookup_all(keyrings, repository)

    async def _pull(
        self,
        reference: core_v1.ObjectReference,
        pod_uid: str,
        image: str,
        name: str,
        credentials: Sequence[PullCredentials],
        sandbox: SandboxConfig | None,
        runtime_handler: str,
    ) -> str:
        key = f"{pod_uid}_{image}"
        if self._back_off.is_waiting(key, self._clock.monotonic()):
            message = f"Back-off pulling image {_quoted(image)}"
            self._recorder.event(reference, NORMAL, "BackOff", message)
            last = self._failures.get(key)
            raise ImagePullError(IMAGE_PULL_BACK_OFF, f"{message}: {last}" if last else message)
        self._failures.pop(key, None)
        try:
            self._records.begin(image)
        except OSError as error:
            text = f"Failed to record image pull intent for container image {_quoted(image)}: {error}"
            raise ImagePullError(IMAGE_PULL, text) from error
        done = False
        self._recorder.event(reference, NORMAL, "Pulling", f"Pulling image {_quoted(image)}")
        started = self._clock.monotonic()
        try:
            pulled = await self._pull_in_turn(name, credentials, sandbox, runtime_handler)
            self._records.succeeded(image, pulled.image_ref, pulled.used)
            done = True
        except _PullFailed as error:
            self._recorder.event(reference, WARNING, "Failed", f"Failed to pull image {_quoted(image)}: {error}")
            now = self._clock.monotonic()
            self._back_off.next(key, now, now)
            failure = _pull_error(image, str(error))
            self._failures[key] = f"{failure.reason}: {failure.message}"
            raise failure from error
        finally:
            if not done:
                self._records.failed(image)
        waited = _milliseconds(self._clock.monotonic() - started)
        message = (
            f"Successfully pulled image {_quoted(image)} in {_milliseconds(pulled.seconds)} ({waited} including waiting). "
            f"Image size: {pulled.size} bytes."
        )
        self._recorder.event(reference, NORMAL, "Pulled", message)
        self._back_off.collect(self._clock.monotonic())
        self._failures = {key: text for key, text in self._failures.items() if self._back_off.seconds(key)}
        return pulled.image_ref

    async def _pull_in_turn(
        self, name: str, credentials: Sequence[PullCredentials], sandbox: SandboxConfig | None, runtime_handler: str
    ) -> _Pulled:
        """Pull when it is its turn. Raises _PullFailed."""
        if self._slots is None:
            return await self._pull_now(name, credentials, sandbox, runtime_handler)
        async with self._slots:
            return await self._pull_now(name, credentials, sandbox, runtime_handler)

    async def _pull_now(
        self, name: str, credentials: Sequence[PullCredentials], sandbox: SandboxConfig | None, runtime_handler: str
    ) -> _Pulled:
        started = self._clock.monotonic()
        failures: list[str] = []
        if not self._rate.take():
            raise _PullFailed("pull QPS exceeded")
        for used in credentials or (None,):
            try:
                image_ref = await self._runtime.pull_image(
                    name, used.credentials if used else None, sandbox, runtime_handler=runtime_handler
                )
            except RuntimeRequestError as error:
                text = str(error) if error.code == "UNKNOWN" else error.rpc_text
                if text not in failures:
                    failures.append(text)
                continue
            return _Pulled(image_ref, await self._size(name, runtime_handler), self._clock.monotonic() - started, used)
        raise _PullFailed(failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]")

    async def _size(self, name: str, runtime_handler: str) -> int:
        """Bytes of an image, 0 if the runtime does not tell: nothing depends on it but a message."""
        try:
            found = await self._runtime.image_status(name, runtime_handler=runtime_handler)
        except RuntimeRequestError:
            return 0
        return found.size if found is not None else 0


class _PullFailed(Exception):
    """A pull has failed; the message is what the runtime says."""


class _Rate:
    """A token bucket: `per_second` pulls, `burst` of them at once; no limit with 0."""

    def __init__(self, clock: Clock, per_second: float, burst: int) -> None:
        self._clock = clock
        self._per_second, self._burst = per_second, burst
        self._tokens, self._since = float(burst), clock.monotonic()

    def take(self) -> bool:
        """Whether a pull may begin now."""
        if not self._per_second:
            return True
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._since) * self._per_second)
        self._since = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def container_reference(pod: core_v1.Pod, name: str) -> core_v1.ObjectReference:
    """What events about a container are about: the pod with the container's field path."""
    spec, metadata = pod.spec, pod.metadata
    path = next(
        (
            f"spec.{kind}{{{name}}}"
            for kind, containers in (
                ("containers", spec.containers),
                ("initContainers", spec.init_containers),
                ("ephemeralContainers", spec.ephemeral_containers),
            )
            if any(each.name == name for each in containers)
        ),
        "",
    )
    return core_v1.ObjectReference(
        kind="Pod",
        api_version="v1",
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        field_path=path,
    )


def _pull_error(image: str, text: str) -> ImagePullError:
    for reason, meaning in _RUNTIME_REASONS.items():
        if text.startswith(reason):
            return ImagePullError(reason, f"image pull failed for {image} because {meaning}{text.removeprefix(reason)}")
    return ImagePullError(IMAGE_PULL, text)


def _milliseconds(seconds: float) -> str:
    return go_duration(int(seconds * 1000) / 1000)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
