"""HTTP requests that probes and lifecycle hooks send to containers (pkg/probe/http)."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

import aiohttp
from multidict import CIMultiDict

from bayplan.api.types import core_v1
from bayplan.kubelet.core.restarts import AnyContainer

_MOST_BODY = 10 * 1024
"""Bytes of an answer that are read."""
_MOST_HEADER = 10 << 20
"""Bytes of a header of an answer: as many as Go's HTTP client takes of all headers."""
_MOST_REDIRECTS = 10
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What came back."""

    status: int
    body: str


class HttpActionError(Exception):
    """No answer came; `str()` reads as Go's client says it."""


def resolve_port(port: int | str, container: AnyContainer) -> int:
    """The number of a port that may be a container port's name. Raises ValueError."""
    number = port
    if isinstance(port, str):
        named = next((each.container_port for each in container.ports if each.name == port), None)
        if named is None and not port.isdecimal():
            raise ValueError(f'strconv.Atoi: parsing "{port}": invalid syntax')
        number = named if named is not None else int(port)
    number = int(number)
    if not 0 < number < 65536:
        raise ValueError(f"invalid port number: {number}")
    return number


def action_url(action: core_v1.HTTPGetAction, container: AnyContainer, pod_ip: str) -> str:
    """The URL that an action asks for. Raises ValueError for a port that does not exist."""
    port = resolve_port(action.port, container)
    host = action.host or pod_ip
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    path = action.path if action.path.startswith("/") else f"/{action.path}"
    return f"{(action.scheme or 'HTTP').lower()}://{host}:{port}{path}"


def action_headers(action: core_v1.HTTPGetAction, user_agent: str) -> CIMultiDict[str]:
    """The headers of an action; one with an empty value for User-Agent or Accept takes the usual one away."""
    headers = CIMultiDict[str]()
    for header in action.http_headers:
        headers.add(header.name, header.value)
    for name, usual in (("User-Agent", user_agent), ("Accept", "*/*")):
        if name not in headers:
            headers[name] = usual
        elif not headers[name]:
            del headers[name]
    return headers


def any_certificate() -> ssl.SSLContext:
    """TLS that takes whatever certificate a container shows, as Kubernetes does for probes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def http_get(url: str, headers: CIMultiDict[str], seconds: float) -> HttpReply:
    """Ask once, on a connection of its own, following redirects within the host. Raises HttpActionError."""
    try:
        async with asyncio.timeout(seconds), _session() as session:
            return await _follow(session, url, headers)
    except TimeoutError:
        text = f'Get "{url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
        raise HttpActionError(text) from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise HttpActionError(f'Get "{url}": {_reason(url, error)}') from None


def _session() -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(ssl=any_certificate(), force_close=True)
    return aiohttp.ClientSession(
        connector=connector,
        auto_decompress=False,
        max_field_size=_MOST_HEADER,
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
    )


async def _follow(session: aiohttp.ClientSession, url: str, headers: CIMultiDict[str]) -> HttpReply:
    host = urlsplit(url).hostname
    for _ in range(_MOST_REDIRECTS):
        async with session.get(url, headers=headers, allow_redirects=False) as response:
            body = (await response.content.read(_MOST_BODY)).decode(errors="replace")
            target = response.headers.get("Location")
            if response.status not in _REDIRECTS or not target:
                return HttpReply(response.status, body)
            url = urljoin(url, target)
            if urlsplit(url).hostname != host:
                return HttpReply(response.status, body)
    raise HttpActionError(f'Get "{url}": stopped after {_MOST_REDIRECTS} redirects')


def _reason(url: str, error: Exception) -> str:
    address = urlsplit(url).netloc
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        if isinstance(cause, ConnectionRefusedError):
            return f"dial tcp {address}: connect: connection refused"
        return f"dial tcp {address}: {cause.strerror or cause}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error)
