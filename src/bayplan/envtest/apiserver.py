"""`kube-apiserver` for envtest: Bayplan's API server, with the flags and files that Kubernetes' takes."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from bayplan.envtest.arguments import ArgumentError, flags_of
from bayplan.envtest.etcd import STORE_PATH

_PREFERRED: Final = ("etcd-servers", "cert-dir", "tls-cert-file", "tls-private-key-file")
"""Flags of which more follows than their values."""
_OF_ETCD: Final = ("etcd-cafile", "etcd-certfile", "etcd-keyfile", "etcd-prefix", "etcd-compaction-interval")
"""Flags about an etcd, in the place of which there is Bayplan's store."""
_ASK_SECONDS: Final = 10.0


def main(words: Sequence[str] | None = None) -> int:
    """The program. words: instead of the command line. Returns the exit code."""
    from bayplan.cli.components.apiserver import command

    given = list(sys.argv[1:] if words is None else words)
    known = command.flags()
    try:
        flags = list(flags_of(given, command.switches()))
        if any(name in ("help", "h") for name, _ in flags):
            print(_help(known))
            return 0
        arguments = translated(flags, known)
    except ArgumentError as error:
        print(f"kube-apiserver: {error}", file=sys.stderr)
        return 1
    code: object = 0
    try:
        command.main(arguments, prog_name="kube-apiserver")
    except SystemExit as end:
        code = end.code
    return code if isinstance(code, int) else 1


def _help(known: Iterable[str]) -> str:
    """All flags: envtest looks there for some."""
    return "Usage: kube-apiserver [flags]\n  A stand-in for envtest, by Bayplan.\n" + "".join(
        f"  --{each}\n" for each in known
    )


def translated(flags: Iterable[tuple[str, str]], known: Iterable[str]) -> list[str]:
    """The arguments of `bayplan apiserver` that mean the same. Raises ArgumentError."""
    names, found, special = set(known), [], dict.fromkeys(_PREFERRED, "")
    for name, value in flags:
        if name in special:
            special[name] = value
        elif name in names and name not in _OF_ETCD:
            found.append(f"--{name}={value}")
        elif name not in _OF_ETCD:
            raise ArgumentError(f"unknown flag: --{name}")
    directory = Path(special["cert-dir"] or "/var/run/kubernetes").absolute()
    found += [f"--cert-dir={directory / 'bayplan'}", f"--kubeconfig={directory / 'bayplan' / 'kubeconfig'}"]
    certificate = Path(special["tls-cert-file"] or directory / "apiserver.crt")
    key = Path(special["tls-private-key-file"] or directory / "apiserver.key")
    if special["tls-cert-file"] or certificate.exists():  # else it makes its own, as kube-apiserver does
        found += [f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}"]
    return [*found, f"--store={_store(special['etcd-servers'])}"]


def _store(servers: str) -> str:
    """The store that Bayplan's `etcd` keeps the place of. Raises ArgumentError."""
    url = servers.split(",")[0].rstrip("/")
    if not url:
        raise ArgumentError("--etcd-servers must be specified")
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            url + STORE_PATH, timeout=_ASK_SECONDS
        ) as answer:
            directory = Path(json.load(answer)["directory"])
    except (OSError, ValueError, KeyError) as error:
        raise ArgumentError(
            f"--etcd-servers: {url} is not the etcd that belongs to this kube-apiserver ({error}); start the one from the same directory"
        ) from error
    return f"sqlite:{directory / 'store.db'}"


if __name__ == "__main__":
    raise SystemExit(main())
