"""Flags about certificates by name and the headers of front proxies, with kube-apiserver's names, defaults and errors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from bayplan.apiserver.authentication.request_headers import RequestHeaders
from bayplan.cluster.settings import SniFiles

_HEADERS: Final = {
    "username": ("--requestheader-username-headers", "X-Remote-User", "Headers in which front proxies name the user"),
    "uid": ("--requestheader-uid-headers", "X-Remote-Uid", "Headers in which they say the user's UID"),
    "group": ("--requestheader-group-headers", "X-Remote-Group", "Headers in which they say the user's groups"),
    "extra": (
        "--requestheader-extra-headers-prefix",
        "X-Remote-Extra-",
        "How headers begin in which they say more about the user",
    ),
}
"""What a header is about -> its flag, its default, and what it means."""


class ServingFlags(NamedTuple):
    """What the flags say."""

    request_headers: RequestHeaders
    sni_certificates: tuple[SniFiles, ...]


def serving_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The flags as options of a command, which gets a `ServingFlags` as `serving`."""

    @functools.wraps(function)
    def command(tls_sni_cert_key: tuple[str, ...], **given: Any) -> Any:
        texts = {name: given.pop(flag[2:].replace("-", "_")) for name, (flag, _, _) in _HEADERS.items()}
        serving = ServingFlags(request_headers_of(texts), tuple(map(sni_files_of, tls_sni_cert_key)))
        return function(serving=serving, **given)

    for flag, default, meaning in reversed(_HEADERS.values()):
        command = click.option(flag, default=default, show_default=True, help=f"{meaning}, with commas.")(command)
    return click.option(
        "--tls-sni-cert-key",
        multiple=True,
        metavar="CERT,KEY[:NAMES]",
        help="Certificate and key for clients that ask for these names, such as foo.crt,foo.key:*.foo.com,foo.com; repeatable.",
    )(command)


def request_headers_of(texts: dict[str, str]) -> RequestHeaders:
    """The headers by what they are about: username, uid, group, extra. Raises UsageError."""
    found = {}
    for name, (flag, default, _) in _HEADERS.items():
        text = texts.get(name, default)
        found[name] = tuple(one.strip() for one in text.split(",")) if text else ()
        if not all(found[name]):
            raise click.UsageError(f'empty value in "{flag[2:]}"')
    if found["uid"] and "x-remote-uid" not in (one.lower() for one in found["uid"]):
        raise click.UsageError(
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation will not work"
        )
    return RequestHeaders(found["username"], found["uid"], found["group"], found["extra"])


def sni_files_of(text: str) -> SniFiles:
    """`CERT,KEY[:NAME,...]`. Raises UsageError."""
    files, _, names = text.partition(":")
    certificate, comma, key = files.partition(",")
    if not (certificate and comma and key) or "," in key:
        raise click.UsageError(f"--tls-sni-cert-key: {text!r}: expected comma separated certificate and key file paths")
    for file in (certificate, key):
        if not Path(file).is_file():
            raise click.UsageError(f"--tls-sni-cert-key: {file}: no such file")
    return SniFiles(Path(certificate), Path(key), tuple(one.strip() for one in names.split(",") if one.strip()))
