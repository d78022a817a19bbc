"""`log`, `exec`, `attach`, `portforward` and `proxy`: checked here, carried out by the node that runs the pod.

How to reach a node is the `node_connector` of the server's context: whoever runs nodes sets it. Without one, the answer says that the node cannot
be reached.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayplan.api.errors import ApiError, bad_request, failure, not_found_error
from bayplan.api.types import core_v1
from bayplan.apiserver.context import Call
from bayplan.apiserver.requests import Response


async def handle(call: Call) -> Response:
    """Check the request against the pod and hand it to the pod's node. Raises ApiError."""
    subresource = call.path.subresource
    assert subresource is not None
    pod = _pod(call)
    if subresource.name == "log":
        _check_log_options(call)
    if subresource.name != "portforward":
        _check_container(call, pod)
    if not pod.spec.node_name:
        if subresource.name == "log":
            return Response(204, content_type="")
        raise bad_request(f"pod {pod.metadata.name} does not have a host assigned")
    return await _to_node(call, pod.spec.node_name, "pods")


async def handle_proxy(call: Call) -> Response:
    """`proxy` of pods, services and nodes."""
    name = _bare_name(call.path.name)
    if call.kind.kind == "Service":
        raise await _no_endpoints(call, name)
    if call.entry(call.path.namespace, name) is None:
        raise not_found_error(call.kind.plural, call.kind.group, name)
    if call.kind.kind == "Node":
        return await _to_node(call, name, "nodes")
    call.path = type(call.path)(call.path.kind, call.path.namespace, name, call.path.subresource, call.path.rest)
    pod = _pod(call)
    if not pod.spec.node_name:
        raise bad_request(f"pod {name} does not have a host assigned")
    return await _to_node(call, pod.spec.node_name, "pods")


def _bare_name(name: str) -> str:
    """`[scheme:]name[:port]` without scheme and port."""
    parts = name.split(":")
    return parts[1] if len(parts) == 3 else parts[0]


def _pod(call: Call) -> core_v1.Pod:
    entry = call.entry(call.path.namespace, call.path.name)
    if entry is None:
        raise not_found_error("pods", "", call.path.name)
    pod: core_v1.Pod = call.context.objects.cache(call.stored).shared(entry)
    return pod


def _check_log_options(call: Call) -> None:
    query = call.request.query
    for name, least in (("tailLines", 0), ("sinceSeconds", 1), ("limitBytes", 1)):
        text = query.get(name)
        if text and (not text.lstrip("-").isdigit() or int(text) < least):
            raise bad_request(f'{name}: Invalid value: "{text}": must be greater than or equal to {least}')
    if query.get("sinceSeconds") and query.get("sinceTime"):
        raise bad_request("at most one of `sinceTime` or `sinceSeconds` may be specified")


def _check_container(call: Call, pod: core_v1.Pod) -> None:
    """A container must be named, and exist, where there is a choice. Raises ApiError (400)."""
    spec, name = pod.spec, call.request.query.get("container", "")
    groups: tuple[Iterable[Any], ...] = (spec.containers, spec.init_containers, spec.ephemeral_containers)
    known = [container.name for group in groups for container in group]
    if name:
        if name not in known:
            raise bad_request(f"container {name} is not valid for pod {pod.metadata.name}")
        return
    if (
        len(spec.containers) > 1
        and pod.metadata.annotations.get("kubectl.kubernetes.io/default-container") not in known
    ):
        choice = f"choose one of: [{' '.join(container.name for container in spec.containers)}]"
        if spec.init_containers:
            choice += (
                f" or one of the init containers: [{' '.join(container.name for container in spec.init_containers)}]"
            )
        raise bad_request(f"a container name must be specified for pod {pod.metadata.name}, {choice}")


async def _no_endpoints(call: Call, name: str) -> ApiError:
    """Services are proxied through their endpoints; without any there is nothing to reach."""
    context = call.context
    kind = context.kinds.of_kind("v1", "Endpoints")
    assert kind is not None
    cache = context.objects.cache(kind)
    entry = cache.get(call.path.namespace, name)
    if call.entry(call.path.namespace, name) is None or entry is None:
        return not_found_error("services", "", name)
    if not any(subset.addresses for subset in cache.shared(entry).subsets):
        return failure(503, "ServiceUnavailable", f'no endpoints available for service "{name}"', details=False)
    return failure(503, "ServiceUnavailable", f'service "{name}" cannot be reached from here', details=False)


async def _to_node(call: Call, node_name: str, plural: str) -> Response:
    """Let the node answer. Raises ApiError (404, 503) if there is no such node, or no way to it."""
    context = call.context
    kind = context.kinds.of_kind("v1", "Node")
    assert kind is not None
    if context.objects.cache(kind).get("", node_name) is None:
        raise not_found_error(plural, "", node_name)
    if context.node_connector is None:
        subresource = call.path.subresource
        what = subresource.name if subresource is not None else ""
        raise failure(
            503, "ServiceUnavailable", f"node {node_name} runs no containers that {what} could reach", details=False
        )
    return await context.node_connector(call, node_name)
