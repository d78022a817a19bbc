"""Which container of which pod a request is about."""

from __future__ import annotations

from bayplan.api.pods.container_logs import NoLogError, logged_run
from bayplan.api.types import core_v1
from bayplan.kubelet.core.restarts import AnyContainer
from bayplan.kubelet.server.errors import RequestError


def container_named(pod: core_v1.Pod, name: str) -> AnyContainer | None:
    """A container of a pod by name; None if it has none of that name."""
    specs: tuple[AnyContainer, ...] = (
        *pod.spec.containers,
        *pod.spec.init_containers,
        *pod.spec.ephemeral_containers,
    )
    return next((each for each in specs if each.name == name), None)


def find_container(pod: core_v1.Pod, name: str) -> AnyContainer:
    """A container of a pod by name. Raises RequestError (404)."""
    found = container_named(pod, name)
    if found is not None:
        return found
    raise RequestError(404, f'container "{name}" not found in pod "{pod.metadata.name}"')


def _status_of(status: core_v1.PodStatus, name: str) -> core_v1.ContainerStatus | None:
    found = (*status.container_statuses, *status.init_container_statuses, *status.ephemeral_container_statuses)
    return next((each for each in found if each.name == name), None)


def log_container_id(pod_name: str, status: core_v1.PodStatus, name: str, *, previous: bool) -> str:
    """The id of the container whose log is meant. Raises RequestError (400) with why there is none."""
    try:
        return _id(logged_run(pod_name, status, name, previous=previous).container_id)
    except NoLogError as error:
        raise RequestError(400, str(error)) from None


def _id(text: str) -> str:
    return text.partition("://")[2]


def running_container_id(status: core_v1.PodStatus, name: str) -> str:
    """The id of a container that runs. Raises RequestError (500), as kubelet answers."""
    found = _status_of(status, name)
    if found is None or found.state.running is None:
        raise RequestError(500, f'container not found ("{name}")')
    return _id(found.container_id)
