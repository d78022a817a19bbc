"""Extenders over HTTP and HTTPS for those who have no event loop: each call waits for its answer."""

from __future__ import annotations

import http.client
import ssl
from urllib.parse import urlsplit

from bayplan.scheduler.extenders.http import read_answer, ssl_context, too_late
from bayplan.scheduler.extenders.protocol import Answer, Call, Extender, ExtenderError, TlsSettings


class BlockingDoor:
    """Carries calls to extenders and waits for each answer; a connection per call."""

    def __call__(self, call: Call) -> Answer:
        """The extender's answer. Raises ExtenderError."""
        url = urlsplit(call.url)
        path = f"{url.path}?{url.query}" if url.query else url.path
        try:
            connection = self._connection(call.extender, url.scheme, url.netloc)
            try:
                connection.request("POST", path, call.body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                return read_answer(call, response.status, response.read())
            finally:
                connection.close()
        except TimeoutError as error:
            raise too_late(call) from error
        except (http.client.HTTPException, OSError) as error:
            raise ExtenderError(f'Post "{call.url}": {error}') from error

    def _connection(self, extender: Extender, scheme: str, place: str) -> http.client.HTTPConnection:
        if scheme != "https":
            return http.client.HTTPConnection(place, timeout=extender.timeout_seconds)
        context = ssl_context(extender) or ssl.create_default_context()
        return _NamedConnection(place, extender.timeout_seconds, context, (extender.tls or TlsSettings()).server_name)


class _NamedConnection(http.client.HTTPSConnection):
    """A TLS connection to a server that may go by another name than its address."""

    def __init__(self, place: str, timeout: float, context: ssl.SSLContext, server_name: str) -> None:
        super().__init__(place, timeout=timeout, context=context)
        self._tls = context
        self._server_name = server_name

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._server_name or self.host)
