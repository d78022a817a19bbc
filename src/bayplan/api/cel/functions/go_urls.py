"""URLs as Go's `net/url` reads them, with what it says of text that is none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from bayplan.api.errors import quoted

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2}).{0,2}", re.DOTALL)
_UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"
_PATH_CHARACTERS = frozenset(_UNRESERVED + "$&+,/:;=@")
_RAW_PATH = re.compile(r"[A-Za-z0-9\-_.~!$&'()*+,;=:@\[\]/%]*")
_HOST_CHARACTERS = frozenset(_UNRESERVED + "!$&'()*+,;=:[]<>\"%")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_PORT = re.compile(r"(?::\d*)?", re.ASCII)


class URLError(ValueError):
    """The text is no URL."""


@dataclass(frozen=True, slots=True)
class ParsedURL:
    """The parts of a URL."""

    scheme: str = ""
    opaque: str = ""
    user: str = ""
    host: str = ""
    """With its port."""
    raw_path: str = ""
    """As it was given."""
    raw_query: str = ""
    fragment: str = ""

    @property
    def port(self) -> str:
        """The port, empty if there is none."""
        return self._split_host()[1]

    @property
    def hostname(self) -> str:
        """The host without port and brackets."""
        host = self._split_host()[0]
        return host[1:-1] if host.startswith("[") and host.endswith("]") else host

    def _split_host(self) -> tuple[str, str]:
        host, colon, port = self.host.rpartition(":")
        if colon and port.isascii() and (port.isdecimal() or not port) and not port.endswith("]"):
            return host, port
        return self.host, ""

    @property
    def escaped_path(self) -> str:
        """The path with its escapes; those that are missing are put in."""
        if _RAW_PATH.fullmatch(self.raw_path):
            return self.raw_path
        return "".join(
            chr(byte) if chr(byte) in _PATH_CHARACTERS else f"%{byte:02X}" for byte in unquote_to_bytes(self.raw_path)
        )

    def query(self) -> dict[str, list[str]]:
        """Values of the query by key; what is malformed is left out."""
        found: dict[str, list[str]] = {}
        for pair in self.raw_query.split("&"):
            if not pair or ";" in pair or _BAD_ESCAPE.search(pair):
                continue
            key, _, value = pair.partition("=")
            found.setdefault(_query_text(key), []).append(_query_text(value))
        return found


def _query_text(text: str) -> str:
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")


def parse_request_uri(text: str) -> ParsedURL:
    """A URL with a scheme, or a path. Raises URLError."""
    return _parse(text, text, is_request=True)


def parse_url(text: str) -> ParsedURL:
    """Any URL, with its fragment. Raises URLError."""
    rest, _, fragment = text.partition("#")
    found = _parse(text, rest, is_request=False)
    problem = _BAD_ESCAPE.search(fragment)
    if problem is not None:
        raise _error(text, f"invalid URL escape {quoted(problem.group())}")
    return ParsedURL(found.scheme, found.opaque, found.user, found.host, found.raw_path, found.raw_query, fragment)


def _error(text: str, what: str) -> URLError:
    return URLError(f"parse {quoted(text)}: {what}")


def _split_scheme(text: str, rest: str) -> tuple[str, str]:
    match = _SCHEME.match(rest)
    if match is not None:
        return match.group()[:-1].lower(), rest[match.end() :]
    if rest.startswith(":"):
        raise _error(text, "missing protocol scheme")
    return "", rest


def _parse(text: str, rest: str, *, is_request: bool) -> ParsedURL:
    if any(letter < " " or letter == "\x7f" for letter in rest):
        raise _error(text, "net/url: invalid control character in URL")
    if not rest and is_request:
        raise _error(text, "empty url")
    if rest == "*":
        return ParsedURL(raw_path="*")
    scheme, rest = _split_scheme(text, rest)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return ParsedURL(scheme, opaque=rest, raw_query=query)
        if is_request:
            raise _error(text, "invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise _error(text, "first path segment in URL cannot contain colon")
    user = host = ""
    if (scheme or (not is_request and not rest.startswith("///"))) and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, host = _authority(text, authority)
    problem = _BAD_ESCAPE.search(rest)
    if problem is not None:
        raise _error(text, f"invalid URL escape {quoted(problem.group())}")
    return ParsedURL(scheme, "", user, host, rest, query)


def _authority(text: str, authority: str) -> tuple[str, str]:
    """User and host."""
    user, at, host = authority.rpartition("@")
    found = _host(text, host)
    if at and not _USER.fullmatch(user):
        raise _error(text, "net/url: invalid userinfo")
    return user, found


def _host(text: str, host: str) -> str:
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise _error(text, "missing ']' in host")
        port = host[end + 1 :]
    else:
        colon = host.rfind(":")
        port = host[colon:] if colon >= 0 else ""
    if not _PORT.fullmatch(port):
        raise _error(text, f"invalid port {quoted(port)} after host")
    problem = _BAD_ESCAPE.search(host)
    if problem is not None:
        raise _error(text, f"invalid URL escape {quoted(problem.group())}")
    bad = next((letter for letter in host if letter.isascii() and letter not in _HOST_CHARACTERS), None)
    if bad is not None:
        raise _error(text, f"invalid character {quoted(bad)} in host name")
    return unquote_to_bytes(host).decode("utf-8", "replace")
