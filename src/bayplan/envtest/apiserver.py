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
_WITHOUT_MEANING: Final = frozenset(
    (
        "allow-privileged",
        "advertise-address",
        "contention-profiling",
        "default-not-ready-toleration-seconds",
        "default-unreachable-toleration-seconds",
        "default-watch-cache-size",
        "delete-collection-workers",
        "enable-aggregator-routing",
        "enable-garbage-collector",
        "enable-priority-and-fairness",
        "endpoint-reconciler-type",
        "etcd-cafile",
        "etcd-certfile",
        "etcd-compaction-interval",
        "etcd-count-metric-poll-period",
        "etcd-keyfile",
        "etcd-prefix",
        "event-ttl",
        "external-hostname",
        "feature-gates",
        "goaway-chance",
        "http2-max-streams-per-connection",
        "livez-grace-period",
        "log-flush-frequency",
        "logging-format",
        "max-connection-bytes-per-sec",
        "min-request-timeout",
        "permit-address-sharing",
        "permit-port-sharing",
        "profiling",
        "storage-backend",
        "storage-media-type",
        "tls-cipher-suites",
        "tls-min-version",
        "vmodule",
        "watch-cache",
        "watch-cache-sizes",
    )
)
"""Flags of kube-apiserver that say how it works inside, or what Bayplan always does."""
_SWITCHES: Final = frozenset(
    ("help", "h", "allow-privileged", "profiling", "watch-cache", "enable-aggregator-routing", "anonymous-auth")
)
_ASK_SECONDS: Final = 10.0


def main(words: Sequence[str] | None = None) -> int:
    """The program. words: instead of the command line. Returns the exit code."""
    from bayplan.cli.apiserver import command

    given = list(sys.argv[1:] if words is None else words)
    known = {option.lstrip("-"): parameter for parameter in command.params for option in parameter.opts}
    try:
        flags = list(flags_of(given, _SWITCHES))
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
    names = sorted({*known, *_WITHOUT_MEANING})
    return "Usage: kube-apiserver [flags]\n  A stand-in for envtest, by Bayplan.\n" + "".join(
        f"  --{each}\n" for each in names
    )


def translated(flags: Iterable[tuple[str, str]], known: Iterable[str]) -> list[str]:
    """The arguments of `bayplan apiserver` that mean the same. Raises ArgumentError."""
    names, found, special = set(known), [], dict.fromkeys(_PREFERRED, "")
    for name, value in flags:
        if name in special:
            special[name] = value
        elif name in names:
            found.append(f"--{name}={value}")
        elif name not in _WITHOUT_MEANING:
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
