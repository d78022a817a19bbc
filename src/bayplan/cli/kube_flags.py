"""Flags of the Kubernetes binaries, under the same names, for the components that stand for them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.output import Failure

if TYPE_CHECKING:
    from bayplan.apiserver.settings import ApiServerSettings

Tokens = tuple[tuple[str, str, str, tuple[str, ...]], ...]

API_SERVER_FLAGS = {
    "--service-cluster-ip-range": "range of cluster IPs (CIDR)",
    "--service-node-port-range": "range of node ports, such as 30000-32767",
    "--enable-admission-plugins": "admission plugins to run besides the default ones",
    "--disable-admission-plugins": "default admission plugins not to run",
    "--max-request-bytes": "largest request body",
    "--event-ttl": "how long events are kept, such as 1h0m0s",
    "--min-request-timeout": "seconds that a watch lasts at least",
    "--token-auth-file": "file with static tokens: token,user,uid,groups",
    "--anonymous-auth": "whether requests without credentials may read health and version",
}
"""Flags of the API server that change how it behaves: name -> meaning."""


def parse_flags(flags: Sequence[str], known: dict[str, str]) -> dict[str, str]:
    """`--name=value` (or `--name` for true) by name. Raises UsageError for a name that is not known, with the nearest one that is."""
    found = {}
    for flag in flags:
        name, equals, value = flag.partition("=")
        name = "--" + name.lstrip("-")
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise click.UsageError(
                f"unknown flag {name}" + (f"; did you mean {near[0]}?" if near else f"; known: {', '.join(known)}")
            )
        found[name] = value if equals else "true"
    return found


def seconds(text: str) -> float:
    """A Go duration such as `1h0m30s` in seconds. Raises UsageError."""
    import re

    parts = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?", text)
    if not text or parts is None:
        raise click.UsageError(f"{text!r} is no duration such as 1h0m0s")
    return int(parts[1] or 0) * 3600 + int(parts[2] or 0) * 60 + float(parts[3] or 0)


def api_server_settings(flags: Sequence[str]) -> tuple[ApiServerSettings, Tokens, bool]:
    """Settings, static tokens and whether anonymous requests are taken, from flags. Raises UsageError, Failure."""
    from bayplan.apiserver.authentication import TokenFileError, read_token_file
    from bayplan.apiserver.settings import ApiServerSettings

    given = parse_flags(flags, API_SERVER_FLAGS)
    settings = ApiServerSettings()
    try:
        if text := given.get("--service-cluster-ip-range"):
            settings = replace(settings, service_cluster_ip_range=text.split(",")[0])
        if text := given.get("--service-node-port-range"):
            first, _, last = text.partition("-")
            settings = replace(settings, service_node_port_range=(int(first), int(last)))
        if text := given.get("--max-request-bytes"):
            settings = replace(settings, max_request_bytes=int(text))
        if text := given.get("--min-request-timeout"):
            settings = replace(settings, min_request_timeout=float(text))
    except ValueError as error:
        raise click.UsageError(f"{text!r}: {error}") from error
    if text := given.get("--event-ttl"):
        settings = replace(settings, event_ttl=seconds(text))
    settings = replace(
        settings,
        enable_admission_plugins=_names(given.get("--enable-admission-plugins", "")),
        disable_admission_plugins=_names(given.get("--disable-admission-plugins", "")),
    )
    tokens: Tokens = ()
    if text := given.get("--token-auth-file"):
        try:
            tokens = tuple(read_token_file(Path(text)))
        except (OSError, TokenFileError) as error:
            raise Failure(f"--token-auth-file: {error}") from error
    return settings, tokens, given.get("--anonymous-auth", "true") != "false"


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)
