"""Where webhooks are: a URL or a service, and the certificates that are trusted there.

Source: `k8s.io/apiserver/pkg/util/webhook`, and `k8s.io/client-go/transport` for certificates.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Protocol
from urllib.parse import urlsplit

from bayplan.api.errors import invalid, required
from bayplan.api.validation.fields import Errors
from bayplan.api.validation.values import formats
from bayplan.api.validation.values.der import pem_blocks

_FORM = "; desired format: https://host[/path]"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class Service(Protocol):
    """A reference to a service; every group has its own type of it."""

    namespace: str
    name: str
    path: str | None
    port: int | None


def check_url(errors: Errors, path: str, url: str) -> None:
    """The URL of a webhook."""
    problem = _url_problem(url)
    if problem:
        errors.append(required(path, f"url must be a valid URL: {problem}{_FORM}"))
        return
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if parts.scheme != "https":
        errors.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    if not host:
        errors.append(invalid(path, host, f"host must be specified{_FORM}"))
    if at:
        errors.append(invalid(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))


def _url_problem(url: str) -> str:
    """Why Go cannot parse a URL, empty if it can."""
    reason = ""
    if any(character < " " or character == "\x7f" for character in url):
        reason = "net/url: invalid control character in URL"
    elif url.startswith(":"):
        reason = "missing protocol scheme"
    elif escape := re.search(r"%(?![0-9A-Fa-f]{2}).{0,2}", url):
        reason = f'invalid URL escape "{escape[0]}"'
    elif not _SCHEME.match(url) and ":" in url.partition("/")[0]:
        reason = "first path segment in URL cannot contain colon"
    else:
        reason = _host_problem(url)
    return f'parse "{url}": {reason}' if reason else ""


def _host_problem(url: str) -> str:
    try:
        host = urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return "missing ']' in host"
    if " " in host:
        return 'invalid character " " in host name'
    port = re.search(r":[^:\]]*$", host)
    if port is not None and not port[0][1:].isdigit() and port[0] != ":":
        return f'invalid port "{port[0]}" after host'
    return ""


def check_service(errors: Errors, path: str, service: Service) -> None:
    """The service behind a webhook. Kubernetes mixes up the first two fields: a missing name is told of the namespace, and the other way round."""
    if not service.namespace:
        errors.append(required(f"{path}.name"))
    if not service.name:
        errors.append(required(f"{path}.namespace"))
    if service.port is not None and (messages := formats.port_number(service.port)):
        errors.append(invalid(f"{path}.port", service.port, f"port is not valid: {', '.join(messages)}"))
    target = service.path
    if not target or target == "/":
        return
    if target == "//":
        errors.append(invalid(f"{path}.path", target, "segment[0] may not be empty"))
        return
    if not target.startswith("/"):
        errors.append(invalid(f"{path}.path", target, "must start with a '/'"))
    for index, step in enumerate(target[1:].removesuffix("/").split("/")):
        if not step:
            errors.append(invalid(f"{path}.path", target, f"segment[{index}] may not be empty"))
            continue
        for message in formats.dns_subdomain(step):
            errors.append(invalid(f"{path}.path", target, f"segment[{index}]: {message}"))


def certificate_problem(encoded: str) -> str:
    """Why nothing can be trusted by a bundle of certificates (PEM in base64), empty if something can."""
    reason = _bundle_problem(encoded)
    return f"unable to load root certificates: {reason}" if reason else ""


def _bundle_problem(encoded: str) -> str:
    from cryptography import x509  # slow to import, and few objects have certificates

    try:
        data = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return "unable to parse bytes as PEM block"
    reason, end = "", 0
    for block in pem_blocks(data):
        end = block.end
        if block.type != "CERTIFICATE" or block.has_headers:
            continue
        try:
            x509.load_der_x509_certificate(block.content)
        except ValueError as error:
            reason = reason or f"failed to parse certificate: {error}"
        else:
            return ""
    if reason:
        return reason
    return (
        "unable to parse bytes as PEM block"
        if data[end:].strip() or not end
        else "no valid certificate authority data seen"
    )
