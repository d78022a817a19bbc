"""Flags about etcd, with kube-apiserver's names and defaults."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from bayplan.store.etcd.options import EtcdOptions
from bayplan.support.tls_files import TlsFiles

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
ETCD_FLAGS: Final = {
    "--etcd-servers": "servers of etcd, with commas, such as https://10.0.0.1:2379",
    "--etcd-cafile": "authority of their certificates",
    "--etcd-certfile": "certificate that etcd sees",
    "--etcd-keyfile": "key of that certificate",
    "--etcd-prefix": "prefix of all keys in etcd (default /registry)",
    "--etcd-compaction-interval": "how often etcd is compacted, by one of the API servers; 0 for not by this one (default 5m0s)",
}
"""Name -> meaning."""
_DEFAULTS: Final = {"--etcd-prefix": "/registry", "--etcd-compaction-interval": "5m0s"}


class EtcdFlags(NamedTuple):
    """What the flags say."""

    url: str
    """Of the store; "" without --etcd-servers."""
    options: EtcdOptions


def etcd_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The flags as options of a command, which gets an `EtcdFlags` as `etcd`."""

    @functools.wraps(function)
    def command(**given: Any) -> Any:
        flags = {_flag(name): given.pop(name) or "" for name in tuple(given) if name.startswith("etcd_")}
        return function(etcd=_parsed(flags), **given)

    for name, meaning in reversed(ETCD_FLAGS.items()):
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
    options = EtcdOptions(
        prefix=prefix,
        tls=TlsFiles(*files) if any(files) else None,
        compaction_interval=0.0 if interval == "0" else seconds(interval),
    )
    servers = values["--etcd-servers"]
    return EtcdFlags(f"etcd://{servers}" if servers else "", options)
