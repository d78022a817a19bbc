"""WebSockets of clients, translated into the SPDY that kubelets and container runtimes take.

    v5.channel.k8s.io               exec, attach: the channels of the WebSocket become streams of a SPDY connection
    SPDY/3.1+portforward.k8s.io     port-forward: the client speaks SPDY itself, in messages that are unpacked

A kubelet whose node declares ExtendWebSocketsToKubelet takes both as they are, and all other WebSockets are passed on to any kubelet.
Source: Kubernetes' `apiserver/pkg/util/proxy` (StreamTranslatorHandler, TunnelingHandler) and `registry/core/pod/rest/subresources.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Final

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from bayplan.api.errors import failure
from bayplan.apiserver.routing.relays import Purpose, Relay
from bayplan.streaming.command_client import PROTOCOLS, run_over_spdy
from bayplan.streaming.commands import serve_command
from bayplan.streaming.interface import CommandStreams, StreamError, Wanted
from bayplan.streaming.port_forwards import LONGEST_MESSAGE, Messages
from bayplan.streaming.serving import while_connected
from bayplan.streaming.spdy import Carrier
from bayplan.support.clock import Clock
from bayplan.support.web.upgrades import Switched, is_websocket_request

SendUpgrade = Callable[[Mapping[str, str]], AbstractAsyncContextManager[aiohttp.ClientResponse]]
"""Sends the kubelet a POST with these headers. Raises StreamError in __aenter__ if the kubelet cannot be reached."""

_CHANNELS: Final = "v5.channel.k8s.io"
_TUNNEL: Final = "SPDY/3.1+"
"""What the name of a protocol begins with that is spoken inside the messages of a WebSocket."""
_SUFFIX: Final = ".k8s.io"
_VERSION: Final = "X-Stream-Protocol-Version"
_MOST_REFUSAL: Final = 50_000
"""Bytes of a kubelet's refusal that are told."""


def is_translated(http: web.BaseRequest, relay: Relay) -> bool:
    """Whether the client speaks what the kubelet does not."""
    if relay.purpose is not Purpose.STREAM or not relay.translates or not is_websocket_request(http):
        return False
    return bool(_tunnelled(http)) if relay.wanted is None else _CHANNELS in _protocols(http)


async def translate(http: web.BaseRequest, relay: Relay, send: SendUpgrade, clock: Clock) -> web.StreamResponse:
    """Serve the client until it or the kubelet has finished. Raises ApiError, ConnectionError."""
    if relay.wanted is None:
        return await _translate_port_forward(http, send, clock)
    return await _translate_command(http, relay.wanted, send, clock)


async def _translate_command(
    http: web.BaseRequest, wanted: Wanted, send: SendUpgrade, clock: Clock
) -> web.StreamResponse:
    """The client learns over its error channel what goes wrong, as it has its WebSocket by then."""

    async def run(streams: CommandStreams) -> int:
        try:
            async with send(_upgrade(PROTOCOLS)) as answer:
                carrier = await _switched(answer, clock)
                try:
                    return await run_over_spdy(carrier, wanted, answer.headers.get(_VERSION, PROTOCOLS[-1]), streams)
                finally:
                    carrier.close()
        except StreamError as error:
            raise StreamError(f"Internal error occurred: {error}") from error

    return await serve_command(http, wanted, run, clock)


async def _translate_port_forward(http: web.BaseRequest, send: SendUpgrade, clock: Clock) -> web.StreamResponse:
    """The client gets its WebSocket when the kubelet has agreed, and else the kubelet's reason. Raises ApiError (500)."""
    offered = _tunnelled(http)
    try:
        async with send(_upgrade(offered)) as answer:
            kubelet = await _switched(answer, clock)
            try:
                chosen = answer.headers.get(_VERSION, offered[0])
                socket = web.WebSocketResponse(
                    protocols=(f"{_TUNNEL}{chosen}",), compress=False, max_msg_size=LONGEST_MESSAGE
                )
                await socket.prepare(http)
                client = Messages(socket)
                await while_connected(_carry(client, kubelet), _carry(kubelet, client))
                await socket.close()
                return socket
            finally:
                kubelet.close()
    except StreamError as error:
        raise failure(500, "InternalError", f"Internal error occurred: {error}", details=False) from error


async def _switched(answer: aiohttp.ClientResponse, clock: Clock) -> Switched:
    """The kubelet's connection when it speaks SPDY. Raises StreamError with its refusal."""
    if answer.status == HTTPStatus.SWITCHING_PROTOCOLS:
        return Switched(answer, clock)
    text = (await answer.content.read(_MOST_REFUSAL)).decode(errors="replace").strip()
    raise StreamError(f"unable to upgrade connection: {text}")


async def _carry(source: Carrier, target: Carrier) -> None:
    """Bytes, until there are no more. Raises ConnectionError."""
    while piece := await source.read():
        await target.write(piece)


def _upgrade(protocols: Sequence[str]) -> CIMultiDict[str]:
    headers = CIMultiDict({"Connection": "Upgrade", "Upgrade": "SPDY/3.1"})
    for protocol in protocols:
        headers.add(_VERSION, protocol)
    return headers


def _protocols(http: web.BaseRequest) -> list[str]:
    """Those that the client offers, as it orders them."""
    return [one.strip() for one in ",".join(http.headers.getall("Sec-WebSocket-Protocol", [])).split(",")]


def _tunnelled(http: web.BaseRequest) -> list[str]:
    """The protocols that the client would speak inside messages."""
    return [one.removeprefix(_TUNNEL) for one in _protocols(http) if one.startswith(_TUNNEL) and one.endswith(_SUFFIX)]
