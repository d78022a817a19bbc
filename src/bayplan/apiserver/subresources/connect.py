"""`log`, `exec`, `attach`, `portforward` and `proxy`: checked here, answered by the kubelet of the pod's node, or by what listens in a pod.

The answer names where the request goes on to (`Relay`); the transport carries it there.
"""

from __future__ import annotations

from urllib.parse import urlencode

from bayplan.api.declared_features import WEBSOCKETS
from bayplan.api.errors import (
    FieldError,
    bad_request,
    forbidden,
    forbidden_error,
    invalid,
    invalid_object,
    not_found_error,
)
from bayplan.api.nodes import is_simulated
from bayplan.api.times import SECONDS_LAYOUT, TimeError, canonical
from bayplan.api.types import core_v1
from bayplan.apiserver.authorization.attributes import attributes_of
from bayplan.apiserver.authorization.interface import Decision
from bayplan.apiserver.authorization.waiting import decided
from bayplan.apiserver.context import Call
from bayplan.apiserver.requests import Response, bool_parameter, int_parameter
from bayplan.apiserver.routing import relays
from bayplan.apiserver.routing.dialing import authority_of
from bayplan.apiserver.routing.forwards import Forward
from bayplan.apiserver.routing.relays import Purpose, Relay
from bayplan.apiserver.routing.service_routes import SimulatedService
from bayplan.apiserver.subresources.connection_options import (
    PodPortForwardOptions,
    PodStreamOptions,
    admit_proxy,
    port_options,
    stream_options,
    wanted_streams,
)
from bayplan.apiserver.subresources.simulated_pods import answer_for, metrics_page
from bayplan.support.metrics.instruments import Counter, Family, Registry

_STREAMS = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
"""Options of `exec` and `attach` -> what kubelets call them."""
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_NOT_NEGATIVE = "must be greater than or equal to 0"


async def handle(call: Call) -> Response:
    """Send the request on to the kubelet of the pod's node. Raises ApiError."""
    subresource = call.path.subresource
    assert subresource is not None
    what = subresource.name
    if what != "log":
        await decided(_check_may_create, call)
    options: PodStreamOptions | PodPortForwardOptions | None = None
    if what == "log":
        container, query = call.request.query.get("container", ""), _log_query(call)
    elif what == "portforward":
        options = await port_options(call)
        container, query = "", [("port", ",".join(map(str, options.ports)))] if options.ports else []
    else:
        options = await stream_options(call)
        container, query = options.container, _stream_query(options)
    pod = _pod(call, call.path.name)
    path = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if what == "portforward":
        path = f"/portForward/{path}"
    else:
        container = _container(pod, container)
        path = f"/{'containerLogs' if what == 'log' else what}/{path}/{container}"
    if not pod.spec.node_name:
        if what == "log":
            return Response(204, content_type="")
        raise bad_request(f"pod {pod.metadata.name} does not have a host assigned")
    if _is_simulated(call, pod.spec.node_name):
        return Response(200, relay=answer_for(call, pod, container, options))
    host, port = _kubelet(call, pod.spec.node_name, what)
    translates = what != "log" and not _takes_websockets(call, pod.spec.node_name)
    if what != "log":
        _streams(call.context.metrics).labels(
            "translated_at_apiserver" if translates else "proxied_to_kubelet", what
        ).inc()
    relay = Relay(
        purpose=Purpose.LOG if what == "log" else Purpose.STREAM,
        scheme="https",
        host=host,
        port=port,
        path=path,
        query=urlencode(sorted(query, key=lambda pair: pair[0])),
        is_kubelet=True,
        subject=pod.metadata.name,
        translates=translates,
        wanted=wanted_streams(options) if isinstance(options, PodStreamOptions) else None,
    )
    return Response(200, relay=relay)


async def handle_proxy(call: Call) -> Response:
    """`proxy` of pods, services and nodes: any HTTP request. Raises ApiError."""
    await admit_proxy(call)
    kind = call.kind.kind
    name = relays.split_name(call.path.name, kind.lower())
    scheme, is_kubelet = name.scheme or "http", False
    forward = _forward(call, name) if kind == "Service" else None
    if kind == "Node" and (page := metrics_page(call, name.name)) is not None:
        return page
    if kind == "Node":
        host, port = _kubelet(call, name.name, "proxy")
        relays.check_address(host)
        is_kubelet = name.port in ("", port)
        scheme, port = ("https", port) if is_kubelet else (scheme, name.port)
    elif forward is not None:
        scheme, host, port = forward.scheme or scheme, forward.host, str(forward.port)
    elif kind == "Service":
        host, port = _service_address(call, name)
    else:
        host, port = relays.pod_address(_pod(call, name.name), name.port)
    relays.check_port(port)
    if reason := call.context.simulated.reason(host):
        where = authority_of(host, port or _DEFAULT_PORTS[scheme])
        raise relays.unavailable(f"error trying to reach service: dial tcp {where}: connect: {reason}")
    rest = f"/{call.path.rest}" if call.path.rest else ""
    if call.request.path.endswith("/"):
        rest += "/"
    relay = Relay(
        purpose=Purpose.PROXY,
        scheme=scheme,
        host=host,
        port=port,
        path=rest,
        query="",
        is_kubelet=is_kubelet,
        subject=name.name,
    )
    return Response(200, relay=relay)


def _check_may_create(call: Call) -> None:
    """A connection writes, also where it is opened with GET, as WebSockets are. Raises ApiError (403)."""
    attributes = attributes_of(call.request)
    if attributes.verb == "create":
        return
    attributes.verb = "create"
    verdict = call.context.authorizer.authorize(attributes)
    if verdict.decision is not Decision.ALLOW:
        raise forbidden_error(call.kind.plural, call.kind.group, call.path.name, verdict.reason)


def _pod(call: Call, name: str) -> core_v1.Pod:
    pod: core_v1.Pod | None = call.context.find("Pod", call.path.namespace, name)
    if pod is None:
        raise not_found_error(call.kind.plural, "", name)
    return pod


def _log_query(call: Call) -> list[tuple[str, str]]:
    """The options of `log` for a kubelet. Raises ApiError (400, 422)."""
    query = call.request.query
    numbers = {name: int_parameter(query, name) for name in ("limitBytes", "sinceSeconds", "tailLines")}
    since = query.get("sinceTime", "")
    if since:
        try:
            canonical(since, SECONDS_LAYOUT)
        except TimeError as error:
            raise bad_request(str(error)) from None
    problems: list[FieldError] = []
    tail, limit, seconds = numbers["tailLines"], numbers["limitBytes"], numbers["sinceSeconds"]
    if tail is not None and tail < 0:
        problems.append(invalid("tailLines", tail, _NOT_NEGATIVE))
    if limit is not None and limit < 1:
        problems.append(invalid("limitBytes", limit, "must be greater than 0"))
    if seconds is not None and since:
        problems.append(forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif seconds is not None and seconds < 1:
        problems.append(invalid("sinceSeconds", seconds, "must be greater than 0"))
    if "stream" in query:
        problems.append(forbidden("stream", "may not be specified"))
    if problems:
        raise invalid_object("PodLogOptions", "", call.path.name, problems)
    switches = [(name, "true") for name in ("follow", "previous", "timestamps") if bool_parameter(query, name)]
    given = [(name, str(value)) for name, value in numbers.items() if value is not None]
    return [*switches, *given, *([("sinceTime", since)] if since else [])]


def _stream_query(options: PodStreamOptions) -> list[tuple[str, str]]:
    """The options of `exec` and `attach` for a kubelet."""
    switches = [(theirs, "1") for ours, theirs in _STREAMS.items() if getattr(options, ours)]
    return switches + [("command", word) for word in options.command]


def _container(pod: core_v1.Pod, name: str) -> str:
    """The container that the request is about: it must be named where there is a choice. Raises ApiError (400)."""
    spec = pod.spec
    known = [one.name for one in (*spec.init_containers, *spec.containers)]
    known += [one.name for one in spec.ephemeral_containers]
    if name:
        if name not in known:
            raise bad_request(f"container {name} is not valid for pod {pod.metadata.name}")
        return name
    if len(spec.containers) == 1:
        return spec.containers[0].name
    raise bad_request(
        f"a container name must be specified for pod {pod.metadata.name}, choose one of: [{' '.join(known)}]"
    )


def _is_simulated(call: Call, node_name: str) -> bool:
    """Whether the containers of a node run no programs."""
    node: core_v1.Node | None = call.context.find("Node", "", node_name)
    return node is not None and is_simulated(node)


def _streams(metrics: Registry) -> Family[Counter]:
    """Kubernetes' counter of `exec`, `attach` and `portforward`, by the way that WebSockets take."""
    return metrics.counter(
        "apiserver_websocket_streaming_requests_total",
        "Total number of WebSocket streaming requests (exec/attach/portforward) routed by the API server, labeled by subresource and proxy_type. "
        "proxy_type is proxied_to_kubelet when the kubelet handles the request directly; otherwise translated_at_apiserver.",
        ("proxy_type", "subresource"),
    )


def _takes_websockets(call: Call, node_name: str) -> bool:
    """Whether a node's kubelet takes every WebSocket protocol that clients speak."""
    node: core_v1.Node | None = call.context.find("Node", "", node_name)
    return node is not None and WEBSOCKETS in node.status.declared_features


def _kubelet(call: Call, node_name: str, what: str) -> tuple[str, str]:
    """Host and port of a node's kubelet. Raises ApiError (404 about the kind that was asked for, 500, 503)."""
    node: core_v1.Node | None = call.context.find("Node", "", node_name)
    if node is None:
        raise not_found_error(call.kind.plural, "", node_name)
    host, port = relays.kubelet_address(node, call.context.settings.kubelet_preferred_address_types)
    if not port or is_simulated(node):
        raise relays.unavailable(f"node {node_name} runs no containers that {what} could reach")
    return host, port


def _service_address(call: Call, name: relays.Name) -> tuple[str, str]:
    """Address and port of a pod behind a service. Raises ApiError (404, 503)."""
    namespace = call.path.namespace
    port_name = name.port
    if name.port.lstrip("+-").isdigit():
        service: core_v1.Service | None = call.context.find("Service", namespace, name.name)
        if service is None:
            raise not_found_error(call.kind.plural, "", name.name)
        port_name = relays.service_port_name(service, name.port)
    endpoints: core_v1.Endpoints | None = call.context.find("Endpoints", namespace, name.name)
    if endpoints is None:
        raise not_found_error(call.kind.plural, "", name.name)
    if not endpoints.subsets:
        raise relays.unavailable(f'no endpoints available for service "{name.name}"')
    served = relays.endpoints_with(endpoints, port_name)
    of_pods = {(address.ip, port): None for address, port in served if _is_of_pod(call, address)}
    others = [(address.ip, 0) for subset in endpoints.subsets for address in subset.not_ready_addresses]
    try:
        listening = call.context.services.listening(namespace, name.name, list(of_pods), others)
    except SimulatedService as error:
        raise relays.unavailable(f"error trying to reach service: {error}") from error
    if listening:
        host, port = call.context.randomness.choice(listening)
        return host, str(port)
    raise relays.unavailable(f'no endpoints available for service "{call.path.name}"')


def _forward(call: Call, name: relays.Name) -> Forward | None:
    """The forward that a service's proxy follows. Raises ApiError (503) for one to another machine: proxies check no certificates."""
    namespace, port = call.path.namespace, name.port
    if not port.isdecimal():
        service: core_v1.Service | None = call.context.find("Service", namespace, name.name)
        rows = service.spec.ports if service is not None else ()
        port = next((str(one.port) for one in rows if one.name == port), "0")
    forward = call.context.services.forwards.find(namespace, name.name, int(port))
    if forward is not None and not forward.is_local:
        raise relays.unavailable(
            f"error trying to reach service: {forward} leads to another machine, which proxies do not"
        )
    return forward


def _is_of_pod(call: Call, address: core_v1.EndpointAddress) -> bool:
    """Whether an endpoint is the pod that it says it is: nothing else is reached through the API server."""
    target = address.target_ref
    if target is None or target.namespace != call.path.namespace:
        return False
    pod: core_v1.Pod | None = call.context.find("Pod", target.namespace, target.name)
    return pod is not None and any(one.ip == address.ip for one in pod.status.pod_ips)
