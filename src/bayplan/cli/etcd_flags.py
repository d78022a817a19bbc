"""Flags about etcd, with kube-apiserver's names and defaults."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from bayplan.store.etcd.options import EtcdOptions
from bayplan.support.tls_files import TlsFiles

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_OPTIONS: Final = (
    click.option("--etcd-servers", metavar="URLS", help="Servers of etcd, with commas, such as https://10.0.0.1:2379."),
    click.option("--etcd-cafile", type=_FILE, help="Authority of their certificates."),
    click.option("--etcd-certfile", type=_FILE, help="Certificate that etcd sees."),
    click.option("--etcd-keyfile", type=_FILE, help="Key of that certificate."),
    click.option("--etcd-prefix", default="/registry", show_default=True, help="Prefix of all keys in etcd."),
    click.option(
        "--etcd-compaction-interval",
        default="5m0s",
        show_default=True,
        help="How often etcd is compacted, by one of the API servers; 0 for not by this one.",
    ),
)


class EtcdFlags(NamedTuple):
    """What the flags say."""

    url: str
    """Of the store; "" without --etcd-servers."""
    options: EtcdOptions


def etcd_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The flags as options of a command, which gets an `EtcdFlags` as `etcd`."""

    @functools.wraps(function)
    def command(**given: Any) -> Any:
        flags = {name: given.pop(name) for name in tuple(given) if name.startswith("etcd_")}
        return function(etcd=_parsed(**flags), **given)

    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _parsed(
    etcd_servers: str | None,
    etcd_cafile: Path | None,
    etcd_certfile: Path | None,
    etcd_keyfile: Path | None,
    etcd_prefix: str,
    etcd_compaction_interval: str,
) -> EtcdFlags:
    """Raises UsageError."""
    from bayplan.cli.kube_flags import seconds

    if (etcd_certfile is None) != (etcd_keyfile is None):
        raise click.UsageError("--etcd-certfile and --etcd-keyfile belong together")
    files = [str(path) if path is not None else "" for path in (etcd_cafile, etcd_certfile, etcd_keyfile)]
    interval = etcd_compaction_interval
    prefix = f"/{etcd_prefix.strip('/')}"
    if prefix == "/":
        raise click.UsageError("--etcd-prefix: the prefix must not be empty")
    options = EtcdOptions(
        prefix=prefix,
        tls=TlsFiles(*files) if any(files) else None,
        compaction_interval=0.0 if interval == "0" else seconds(interval),
    )
    return EtcdFlags(f"etcd://{etcd_servers}" if etcd_servers else "", options)
