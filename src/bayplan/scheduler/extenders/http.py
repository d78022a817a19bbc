"""Extenders over HTTP and HTTPS: the door through which `extenders.Call`s go out."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bayplan.scheduler.extenders.protocol import Answer, Call, Extender, ExtenderError, TlsSettings
from bayplan.support.system.private_files import temporary_private_file
from bayplan.support.web.trust import trust

if TYPE_CHECKING:
    import aiohttp


def ssl_context(extender: Extender) -> ssl.SSLContext | None:
    """The TLS settings of an extender; None for what the system trusts. Raises OSError, ssl.SSLError.

    As with kube-scheduler, an extender that is reached over HTTPS and has no CA configured is not verified.
    """
    tls = extender.tls or TlsSettings()
    has_authority = bool(tls.ca_data or tls.ca_file)
    insecure = tls.insecure or (extender.enable_https and not has_authority)
    if extender.tls is None and not insecure:
        return None
    context = ssl.create_default_context()
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif tls.ca_data:
        trust(context, tls.ca_data.decode())
    elif tls.ca_file:
        trust(context, Path(tls.ca_file).read_text(errors="replace"))
    if tls.cert_data:
        # OpenSSL reads certificates of clients from files only.
        with temporary_private_file(tls.cert_data + b"\n" + tls.key_data) as pair:
            context.load_cert_chain(pair)
    elif tls.cert_file:
        context.load_cert_chain(tls.cert_file, tls.key_file or None)
    return context


class HttpDoor:
    """Carries calls to extenders; connections are kept open. `close` when done."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext | None] = {}

    async def __call__(self, call: Call) -> Answer:
        """The extender's answer. Raises ExtenderError."""
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession()
        extender = call.extender
        timeout = aiohttp.ClientTimeout(total=extender.timeout_seconds)
        tls = extender.tls
        try:
            async with self._session.post(
                call.url,
                data=call.body,
                headers={"Content-Type": "application/json"},
                timeout=timeout,
                ssl=self._context(extender) or True,
                server_hostname=(tls.server_name or None) if tls is not None else None,
                allow_redirects=False,
            ) as response:
                return read_answer(call, response.status, await response.read())
        except TimeoutError as error:
            raise too_late(call) from error
        except (aiohttp.ClientError, OSError) as error:
            raise ExtenderError(f'Post "{call.url}": {error}') from error

    def _context(self, extender: Extender) -> ssl.SSLContext | None:
        key = extender.url_prefix
        if key not in self._contexts:
            self._contexts[key] = ssl_context(extender)
        return self._contexts[key]

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def read_answer(call: Call, status: int, body: bytes) -> Answer:
    """The JSON of an answer. Raises ExtenderError."""
    if status != 200:
        raise ExtenderError(f"failed {call.verb} with extender at URL {call.url}, code {status}")
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise ExtenderError(f"the answer of {call.url} is not JSON: {error}") from error


def too_late(call: Call) -> ExtenderError:
    """The extender did not answer in time."""
    return ExtenderError(
        f'Post "{call.url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
    )
