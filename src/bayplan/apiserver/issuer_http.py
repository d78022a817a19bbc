"""Reading pages of issuers of tokens over HTTPS, within bounds of time and size."""

from __future__ import annotations

import ssl
from http import HTTPStatus
from typing import Final

import aiohttp

from bayplan.apiserver.authentication.oidc.key_sets import FetchError
from bayplan.apiserver.routing.dialing import dial_problem
from bayplan.support.web.trust import trust

_SECONDS: Final = 30.0
"""For a page, as in kube-apiserver."""
_MOST_BYTES: Final = 1 << 20
"""Of a page."""
_SHOWN_BYTES: Final = 256
"""Of a page with an error."""


class HttpFetch:
    """See `bayplan.apiserver.authentication.oidc.key_sets.Fetch`."""

    def __init__(self, authority: str, *, seconds: float = _SECONDS) -> None:
        """authority: certificates (PEM) that vouch for the servers; "" for those of the system. Raises ssl.SSLError."""
        if authority:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            trust(self._tls, authority)
        else:
            self._tls = ssl.create_default_context()
        self._timeout = aiohttp.ClientTimeout(seconds)
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, url: str, token: str = "") -> bytes:
        """See Fetch."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._tls),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=self._timeout,
            )
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            async with self._session.get(url, headers=headers) as answer:
                page = await answer.content.read(_MOST_BYTES + 1)
                while page and len(page) <= _MOST_BYTES and (more := await answer.content.read(_MOST_BYTES)):
                    page += more
                if answer.status != HTTPStatus.OK:
                    raise FetchError(f"{answer.status} {answer.reason}: {page[:_SHOWN_BYTES].decode(errors='replace')}")
        except TimeoutError:
            raise FetchError(f'Get "{url}": context deadline exceeded') from None
        except aiohttp.ClientConnectorCertificateError as error:
            raise FetchError(f'Get "{url}": tls: failed to verify certificate: {error.certificate_error}') from error
        except aiohttp.ClientConnectorError as error:
            raise FetchError(f'Get "{url}": {dial_problem(error, error.host, error.port or 443)}') from error
        except (aiohttp.ClientError, ssl.SSLError, ValueError) as error:
            raise FetchError(f'Get "{url}": {error or type(error).__name__}') from error
        if len(page) > _MOST_BYTES:
            raise FetchError(f'Get "{url}": the page has more than {_MOST_BYTES} bytes')
        return page

    async def close(self) -> None:
        """See Fetch."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
