"""Posting to webhooks over HTTPS."""

from __future__ import annotations

import asyncio
import functools
import posixpath
import ssl
from collections.abc import Callable
from urllib.parse import urlsplit

import aiohttp

from bayplan.api.errors import quoted
from bayplan.apiserver.routing.dialing import authority_of, dial_problem
from bayplan.apiserver.routing.resolving import Resolver
from bayplan.apiserver.tls import client_tls
from bayplan.apiserver.webhooks.calling import AnswerError, SendError, Target
from bayplan.support.web.trust import trust

_HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}
_HTTPS = 443
_LARGEST = 16 << 20
"""Bytes of an answer that are read."""


class HttpSender:
    """A `Sender` with connections that are kept."""

    def __init__(self, refuses: Callable[[str], str]) -> None:
        """refuses: why an address must not be dialled; "" if it may."""
        self._refuses = refuses
        self._session: aiohttp.ClientSession | None = None
        self._unchecked = functools.cache(client_tls)

    def dials(self, url: str) -> bool:
        """See Sender."""
        return True

    async def post(self, target: Target, body: bytes, seconds: float) -> bytes:
        """See Sender."""
        parts = urlsplit(target.url)
        parts = parts._replace(path=posted_path(parts.path))
        url, headers = parts.geturl(), dict(_HEADERS)
        if target.address is not None:
            host, port = target.address
            scheme = target.forward.scheme if target.forward is not None else ""
            url = parts._replace(scheme=scheme or parts.scheme, netloc=authority_of(host, port)).geturl()
            headers["Host"] = parts.netloc
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(resolver=Resolver(self._refuses)))
        try:
            async with self._session.post(
                url,
                params={"timeout": f"{seconds:g}s"},
                data=body,
                headers=headers,
                ssl=self._tls_for(target),
                server_hostname=parts.hostname,
                timeout=aiohttp.ClientTimeout(seconds),
                allow_redirects=False,
            ) as answer:
                data = await answer.content.read(_LARGEST)
                if not 200 <= answer.status < 300:
                    is_text = answer.content_type.startswith("text/")
                    raise AnswerError(_refused(answer.status, data.decode(errors="replace").strip() if is_text else ""))
                return data
        except TimeoutError:
            raise SendError("context deadline exceeded") from None
        except aiohttp.ClientConnectorCertificateError as error:
            raise SendError(f"tls: failed to verify certificate: {error.certificate_error}") from error
        except aiohttp.ClientConnectorError as error:
            host, port = target.address or (parts.hostname or "", parts.port or _HTTPS)
            raise SendError(dial_problem(error, host, port)) from error
        except (aiohttp.ClientError, ssl.SSLError, asyncio.IncompleteReadError) as error:
            raise SendError(str(error) or type(error).__name__) from error

    def _tls_for(self, target: Target) -> ssl.SSLContext:
        """How a connection is made: a program on this machine that stands in for a service may have any certificate. Raises SendError."""
        is_local = target.forward is not None and target.forward.is_local
        return self._unchecked() if is_local else _context(target.authority)

    async def close(self) -> None:
        """See Sender."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def posted_path(path: str) -> str:
    """The path that is posted to for the path of a webhook's URL: without doubled slashes and one at the end, as Kubernetes' client joins it anew."""
    return posixpath.normpath(f"/{path.lstrip('/')}")


_REFUSALS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
"""What error codes mean to a client of Kubernetes."""
_TOLD_BY_SERVER = (403, 415)
_NOT_ACCEPTABLE = 406


def _refused(status: int, text: str) -> str:
    """What a client of Kubernetes says of an error code that came with a text, if with any. Source: apimachinery's `NewGenericServerResponse`."""
    if status in _TOLD_BY_SERVER:
        return text or "unknown"
    if status == _NOT_ACCEPTABLE:
        return text or "the server was unable to respond with a content type that the client supports"
    known = _REFUSALS.get(status)
    if known is not None:
        return known
    if status >= 500:
        return f"an error on the server ({quoted(text or 'unknown')}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more information"


@functools.lru_cache(maxsize=64)
def _context(authority: bytes) -> ssl.SSLContext:
    """TLS with these authorities (PEM), or with those of the system. Raises SendError."""
    try:
        if not authority:
            return ssl.create_default_context()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trust(context, authority.decode())
        return context
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise SendError("tls: unable to load root certificates: not a PEM bundle") from error
