"""Requests as bytes on a connection: well-formed ones about nonsense, and bytes that are no request."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlencode

from bayplan.apiserver.requests import Request
from tests.fuzz.frames import frames
from tests.fuzz.nonsense import TOKENS, Nonsense
from tests.fuzz.wire import Protocol

_RAW = (
    b"GET /api HTTP/1.1\nHost: x\nAuthorization: Bearer %t\n\n",
    b"GET  /api  HTTP/1.1\r\n\r\n",
    b"GET /api HTTP/9.9\r\nHost: x\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %t\r\nContent-Length: -1\r\n\r\n{}",
    b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %t\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}{}{}",
    b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %t\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
    b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %t\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
    b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %t\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n{}",
    b"GET /%zz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %t\r\n\r\n",
    b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /api HTTP/1.1\r\nHost: x\r\nA: " + b"y" * 70_000 + b"\r\n\r\n",
    b"GET /api HTTP/1.1\r\n" + b"".join(b"H%d: v\r\n" % n for n in range(5000)) + b"\r\n",
    b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://other/api HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %t\r\n\r\n",
    b"GET /api HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %t\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAAA\r\n\r\n",
    b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %t\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n\x81\xff\x00",
    b"GET /api HTTP/1.0\r\n\r\nGET /api HTTP/1.1\r\n\r\n",
    b"",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
)
"""%t stands for the administrator's token."""
_USUAL_SHARE, _REQUEST_SHARE = 0.85, 0.98
_FRAMES_SHARE = 0.4
"""Of what is no request of HTTP/1.1: frames of HTTP/2."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is sent."""

    data: bytes
    is_head: bool = False
    is_request: bool = True
    """Whether it is a whole request, which has an answer; other bytes may have none."""
    protocol: Protocol = Protocol.TLS
    path: str = ""

    def shown(self, token: str) -> str:
        """For people, without credentials."""
        return repr(self.data[:1500].replace(token.encode(), b"TOKEN"))


class Cases:
    """Cases by chance from one seed."""

    def __init__(self, seed: int, token: str) -> None:
        self._nonsense = Nonsense(seed)
        self._chance = self._nonsense.chance
        self._token = token

    def next(self) -> Case:
        """Another case."""
        kind = self._chance.random()
        if kind < _REQUEST_SHARE:
            return self._request(self._nonsense.request(), usual=kind < _USUAL_SHARE)
        if self._chance.random() < _FRAMES_SHARE:
            return Case(frames(self._chance, self._token), is_request=False, protocol=Protocol.HTTP2)
        data = self._chance.choice(_RAW).replace(b"%t", self._token.encode())
        if self._chance.random() < 0.5 and data:
            at = self._chance.randrange(len(data))
            data = data[:at] + self._chance.randbytes(self._chance.choice((1, 1, 3))) + data[at + 1 :]
        protocol = Protocol.TLS if self._chance.random() < 0.9 else Protocol.TCP
        return Case(data, is_request=False, protocol=protocol)

    def _request(self, request: Request, *, usual: bool) -> Case:
        """A request with the administrator's credentials, or (not a usual one) others, and with odd headers."""
        chance = self._chance
        path = quote(request.path.split("?")[0], safe="/:%", errors="replace") or "/"
        query = urlencode({**request.query, "timeoutSeconds": "1"}, errors="replace") if request.query else ""
        head = [f"{request.method} {path}{'?' + query if query else ''} HTTP/1.1", "Host: localhost"]
        token = self._token if usual or chance.random() < 0.3 else chance.choice(TOKENS)
        head.append(f"Authorization: Bearer {token}")
        head += [f"Accept: {request.accept}"] if request.accept else []
        head += [f"Content-Type: {request.content_type}"] if request.content_type else []
        body = request.body
        if not usual:
            head += chance.choice(_ODD_HEADERS)
        if not usual and chance.random() < 0.3:
            head.append("Transfer-Encoding: chunked")
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
        else:
            head.append(f"Content-Length: {len(body)}")
        data = "\r\n".join(head).encode(errors="replace") + b"\r\n\r\n" + body
        return Case(data, is_head=request.method == "HEAD", path=path)


_ODD_HEADERS: tuple[list[str], ...] = (
    [],
    ["Impersonate-User: a"],
    ["Impersonate-User: system:node:n", "Impersonate-Group: system:nodes"],
    ["Impersonate-Group: b"],
    ["Impersonate-User: a", "Impersonate-Extra-%zz: c", "Impersonate-Uid: d"],
    ["Content-Encoding: gzip"],
    ["Content-Encoding: br"],
    ["Accept-Encoding: gzip"],
    ["Accept-Encoding: gzip;q=x, *;q=0"],
    ["Connection: close"],
    ["Connection: Upgrade", "Upgrade: SPDY/3.1"],
    [
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ],
    ["Expect: 100-continue"],
    ["X-Forwarded-For: ::1, é", "X-Real-Ip: x"],
    ["User-Agent: Mozilla/5.0"],
    ["Audit-Id: x"],
)
