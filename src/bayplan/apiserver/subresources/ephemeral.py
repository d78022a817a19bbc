"""`pods/ephemeralcontainers` and `pods/resize`: the two ways to change containers of a pod that exists."""

from __future__ import annotations

from typing import Any

from bayplan.api.errors import ErrorType, FieldError, invalid_object
from bayplan.api.types import core_v1
from bayplan.apiserver.context import Call
from bayplan.apiserver.requests import Response
from bayplan.apiserver.verbs import read
from bayplan.apiserver.verbs.write import modify, patch_function


def _wanted(call: Call) -> Any:
    """The change that the request asks for, as a function from pod to pod."""
    if call.request.method == "PUT":
        body = call.body_object(core_v1.Pod, "Pod", "v1")
        return lambda pod: body
    return patch_function(call)


async def handle(call: Call) -> Response:
    """get, update and patch of ephemeral containers: they can be added, never changed or removed."""
    if call.request.method == "GET":
        return read.get(call)
    apply = _wanted(call)

    def changed(pod: core_v1.Pod) -> core_v1.Pod:
        before = pod.spec.ephemeral_containers
        old = call.strategy
        wanted = apply(core_v1_copy(pod)).spec.ephemeral_containers
        for index, container in enumerate(before):
            if container not in wanted:
                detail = f"existing ephemeral containers \"{container.name}\" may not be removed or changed"
                raise invalid_object("Pod", "", pod.metadata.name, [FieldError(ErrorType.FORBIDDEN, f"spec.ephemeralContainers[{index}]", None, detail)])
        pod.spec.ephemeral_containers = wanted
        old.default(pod)
        return pod

    return call.answer(200, await modify(call, changed, plain=True))


async def handle_resize(call: Call) -> Response:
    """get, update and patch of container resources."""
    if call.request.method == "GET":
        return read.get(call)
    apply = _wanted(call)

    def changed(pod: core_v1.Pod) -> core_v1.Pod:
        wanted = {container.name: container for container in apply(core_v1_copy(pod)).spec.containers}
        if wanted.keys() != {container.name for container in pod.spec.containers}:
            error = FieldError(ErrorType.FORBIDDEN, "spec.containers", None, "containers may not be added or removed")
            raise invalid_object("Pod", "", pod.metadata.name, [error])
        before = [container.resources for container in pod.spec.containers]
        for container in pod.spec.containers:
            container.resources = wanted[container.name].resources
            container.resize_policy = wanted[container.name].resize_policy or container.resize_policy
        call.strategy.default(pod)
        errors = call.strategy.validate(pod)
        if errors:
            raise invalid_object("Pod", "", pod.metadata.name, list(errors))
        if [container.resources for container in pod.spec.containers] != before:
            pod.metadata.generation += 1
        return pod

    return call.answer(200, await modify(call, changed, plain=True))


def core_v1_copy(pod: core_v1.Pod) -> core_v1.Pod:
    """A copy that a patch may change."""
    from bayplan.api.strategies.base import clone

    copied: core_v1.Pod = clone(pod)
    return copied
