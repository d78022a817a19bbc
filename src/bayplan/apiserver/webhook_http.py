"""Posting to webhooks over HTTPS."""

from __future__ import annotations

import asyncio
import functools
import ssl
from urllib.parse import urlsplit

import aiohttp

from bayplan.apiserver.dialing import dial_problem
from bayplan.apiserver.webhooks.calling import SendError, Target

_HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}
_HTTPS = 443
_LARGEST = 16 << 20
"""Bytes of an answer that are read."""


class HttpSender:
    """A `Sender` with connections that are kept."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def post(self, target: Target, body: bytes, seconds: float) -> bytes:
        """See Sender."""
        parts = urlsplit(target.url)
        url, headers = target.url, dict(_HEADERS)
        if target.address is not None:
            host, port = target.address
            url = parts._replace(netloc=f"[{host}]:{port}" if ":" in host else f"{host}:{port}").geturl()
            headers["Host"] = parts.netloc
        if self._session is None:
            self._session = aiohttp.ClientSession()
        try:
            async with self._session.post(
                url,
                params={"timeout": f"{seconds:g}s"},
                data=body,
                headers=headers,
                ssl=_context(target.authority),
                server_hostname=parts.hostname,
                timeout=aiohttp.ClientTimeout(seconds),
                allow_redirects=False,
            ) as answer:
                data = await answer.content.read(_LARGEST)
                if not 200 <= answer.status < 300:
                    raise SendError(_refused(answer.status, answer.reason or ""))
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

    async def close(self) -> None:
        """See Sender."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def _refused(status: int, reason: str) -> str:
    return f"the server responded with the status code {status} but did not return more information: {reason}"


@functools.lru_cache(maxsize=64)
def _context(authority: bytes) -> ssl.SSLContext:
    """TLS with these authorities (PEM), or with those of the system. Raises SendError."""
    try:
        return ssl.create_default_context(cadata=authority.decode() if authority else None)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise SendError("tls: unable to load root certificates: not a PEM bundle") from error
