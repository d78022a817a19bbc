"""Flags about etcd, with kube-apiserver's names and defaults."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from bayplan.store.etcd.options import EtcdOptions
from bayplan.support.web.tls_files import TlsFiles

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
ETCD_FLAGS: Final = {
    "--etcd-servers": "servers of etcd, with commas, such as https://10.0.0.1:2379",
    "--etcd-servers-overrides": "other servers for some resources, such as /events#https://10.0.0.4:2379;https://10.0.0.5:2379,apps/deployments#...",
    "--etcd-cafile": "authority of their certificates",
    "--etcd-certfile": "certificate that etcd sees",
    "--etcd-keyfile": "key of that certificate",
    "--etcd-prefix": "prefix of all keys in etcd (default /registry)",
    "--etcd-compaction-interval": "how often etcd is compacted, by one of the API servers; 0 for not by this one (default 5m0s)",
}
"""Name -> meaning."""
_OVERRIDES: Final = "--etcd-servers-overrides"
_BAD_OVERRIDE: Final = "--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, semicolon separated"
_DEFAULTS: Final = {"--etcd-prefix": "/registry", "--etcd-compaction-interval": "5m0s"}


class EtcdFlags(NamedTuple):
    """What the flags say."""

    url: str
    """Of the store; "" without --etcd-servers."""
    options: EtcdOptions


def etcd_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The flags as options of a command, which gets an `EtcdFlags` as `etcd`."""
    return _with_options(function, ETCD_FLAGS)


def one_etcd_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a command that is about the servers of one etcd."""
    return _with_options(function, {name: ETCD_FLAGS[name] for name in ETCD_FLAGS if name != _OVERRIDES})


def _with_options(function: Callable[..., Any], flags_taken: dict[str, str]) -> Callable[..., Any]:
    @functools.wraps(function)
    def command(**given: Any) -> Any:
        flags = {_flag(name): given.pop(name) or "" for name in tuple(given) if name.startswith("etcd_")}
        return function(etcd=_parsed(flags), **given)

    for name, meaning in reversed(flags_taken.items()):
        kind = _FILE if name.endswith("file") else str
        command = click.option(name, type=kind, help=f"{meaning[:1].upper()}{meaning[1:]}.")(command)
    return command


def split_etcd_flags(flags: Sequence[str]) -> tuple[EtcdFlags, tuple[str, ...]]:
    """What flags of the form `--name=value` say about etcd, and the others. Raises UsageError."""
    from bayplan.cli.flags.kube_flags import parse_flags

    own = [flag for flag in flags if flag.partition("=")[0] in ETCD_FLAGS]
    given = parse_flags(own, ETCD_FLAGS)
    for name, value in given.items():
        if name.endswith("file") and not Path(value).is_file():
            raise click.UsageError(f"{name}: {value}: no such file")
    return _parsed(given), tuple(flag for flag in flags if flag not in own)


def _flag(name: str) -> str:
    """The flag of a parameter."""
    return f"--{name.replace('_', '-')}"


def _parsed(given: Mapping[str, Any]) -> EtcdFlags:
    """Raises UsageError."""
    from bayplan.cli.flags.kube_flags import seconds

    values = {name: str(given.get(name) or _DEFAULTS.get(name, "")) for name in ETCD_FLAGS}
    files = [values[name] for name in ("--etcd-cafile", "--etcd-certfile", "--etcd-keyfile")]
    if bool(files[1]) != bool(files[2]):
        raise click.UsageError("--etcd-certfile and --etcd-keyfile belong together")
    interval, prefix = values["--etcd-compaction-interval"], f"/{values['--etcd-prefix'].strip('/')}"
    if prefix == "/":
        raise click.UsageError("--etcd-prefix: the prefix must not be empty")
    servers = values["--etcd-servers"]
    elsewhere = _elsewhere(values[_OVERRIDES])
    if elsewhere and not servers:
        raise click.UsageError("--etcd-servers-overrides needs --etcd-servers, which have everything else")
    options = EtcdOptions(
        prefix=prefix,
        elsewhere=elsewhere,
        tls=TlsFiles(*files) if any(files) else None,
        compaction_interval=0.0 if interval == "0" else seconds(interval),
    )
    return EtcdFlags(f"etcd://{servers}" if servers else "", options)


def _elsewhere(value: str) -> tuple[tuple[str, str], ...]:
    """See EtcdOptions. Raises UsageError with kube-apiserver's words."""
    found = []
    for text in filter(None, value.split(",")):
        place, separator, servers = text.partition("#")
        urls = servers.split(";")
        if not separator or "#" in servers or place.count("/") != 1 or not all(urls):
            raise click.UsageError(_BAD_OVERRIDE)
        found.append((place, ",".join(urls)))
    return tuple(found)
