"""What a connection to a pod, service or node is asked for with, as an object: admission plugins and webhooks look at it (operation CONNECT).

Source: Kubernetes' `core/v1` types that no schema lists, and `endpoints/handlers/rest.go` (ConnectResource).
"""

from __future__ import annotations

from bayplan.api.errors import bad_request, quoted
from bayplan.api.types.scalars import Object
from bayplan.apiserver.admission.chain import CONNECT, AdmissionRequest
from bayplan.apiserver.context import Call
from bayplan.apiserver.requests import bool_parameter, parameters
from bayplan.streaming.interface import Wanted

_MOST_PORTS = 1 << 16


class PodStreamOptions(Object):
    """PodExecOptions and PodAttachOptions."""

    kind: str = ""
    api_version: str = ""
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
    container: str = ""
    command: tuple[str, ...] = ()
    """Of PodExecOptions alone."""


class PodPortForwardOptions(Object):
    """PodPortForwardOptions."""

    kind: str = ""
    api_version: str = ""
    ports: tuple[int, ...] = ()


class ProxyOptions(Object):
    """PodProxyOptions, ServiceProxyOptions, NodeProxyOptions."""

    kind: str = ""
    api_version: str = ""
    path: str = ""


Options = PodStreamOptions | PodPortForwardOptions | ProxyOptions


async def stream_options(call: Call) -> PodStreamOptions:
    """The options of `exec` and `attach`, as admission leaves them. Raises ApiError."""
    query = call.request.query
    options = PodStreamOptions(
        stdin=bool_parameter(query, "stdin"),
        stdout=bool_parameter(query, "stdout"),
        stderr=bool_parameter(query, "stderr"),
        tty=bool_parameter(query, "tty"),
        container=query.get("container", ""),
        command=tuple(parameters(query, "command")),
    )
    await _admit(call, options)
    return options


def wanted_streams(options: PodStreamOptions) -> Wanted:
    """The streams that a client of `exec` or `attach` gets: a terminal has one for both kinds of output."""
    return Wanted(options.stdin, options.stdout, options.stderr and not options.tty, options.tty)


async def port_options(call: Call) -> PodPortForwardOptions:
    """The options of `portforward`, as admission leaves them. Raises ApiError."""
    ports = [port for text in parameters(call.request.query, "ports") for port in text.split(",")]
    for port in ports:
        if not (port.isascii() and port.isdecimal()) or int(port) >= _MOST_PORTS:
            problem = "value out of range" if port.isascii() and port.isdecimal() else "invalid syntax"
            raise bad_request(f"cannot convert to []int32: strconv.ParseUint: parsing {quoted(port)}: {problem}")
    options = PodPortForwardOptions(ports=tuple(map(int, ports)))
    await _admit(call, options)
    return options


async def admit_proxy(call: Call) -> None:
    """Let admission judge a request of `proxy`. Raises ApiError."""
    await _admit(call, ProxyOptions(path=f"/{call.path.rest}" if call.path.rest else ""))


async def _admit(call: Call, options: Options) -> None:
    subresource = call.path.subresource
    assert subresource is not None
    options.kind, options.api_version = subresource.kind, call.kind.api_version
    plan = call.context.admission.plan(call.stored, CONNECT, subresource.name)
    await plan.run(AdmissionRequest(call, CONNECT, options, None, subresource.name, name=call.path.name))
