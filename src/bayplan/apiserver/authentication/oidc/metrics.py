"""What is measured of issuers, under kube-apiserver's names. Source: `plugin/pkg/authenticator/token/oidc/metrics.go`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

from bayplan.support.metrics.instruments import Registry

_PREFIX: Final = "apiserver_authentication_jwt_authenticator_"
_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def hashed(text: str | bytes) -> str:
    """What stands for a text in labels; "" for none."""
    data = text.encode() if isinstance(text, str) else text
    return f"sha256:{hashlib.sha256(data).hexdigest()}" if data else ""


class IssuerMetrics:
    """The series of one API server."""

    def __init__(self, registry: Registry, server_id: str, now: Callable[[], float]) -> None:
        self._server = hashed(server_id)
        self._now = now
        self._latency = registry.histogram(
            f"{_PREFIX}latency_seconds",
            "Latency of jwt authentication operations in seconds, of tokens that are not in the cache.",
            ("result", "jwt_issuer_hash"),
            _BUCKETS,
        )
        self._fetched = registry.gauge(
            f"{_PREFIX}jwks_fetch_last_timestamp_seconds",
            "Timestamp of the last successful or failed fetch of keys.",
            ("result", "jwt_issuer_hash", "apiserver_id_hash"),
        )
        self._keys = registry.gauge(
            f"{_PREFIX}jwks_fetch_last_key_set_info",
            "The keys that were fetched last, with their hash as label.",
            ("jwt_issuer_hash", "apiserver_id_hash", "hash"),
        )
        self._key_hashes: dict[str, str] = {}

    def record(self, issuer: str, seconds: float, *, is_fine: bool) -> None:
        """A token of an issuer has been looked at."""
        self._latency.labels("success" if is_fine else "failure", hashed(issuer)).observe(seconds)

    def fetched(self, issuer: str, page: bytes | None) -> None:
        """Keys were fetched, or could not be."""
        who = hashed(issuer)
        self._fetched.labels("failure" if page is None else "success", who, self._server).set(self._now())
        if page is None:
            return
        if before := self._key_hashes.get(issuer):
            self._keys.remove(who, self._server, before)
        self._key_hashes[issuer] = now = hashed(page)
        self._keys.labels(who, self._server, now).set(1.0)

    def forget(self, issuer: str) -> None:
        """The configuration does not have an issuer any more."""
        who = hashed(issuer)
        for result in ("success", "failure"):
            self._fetched.remove(result, who, self._server)
        if before := self._key_hashes.pop(issuer, ""):
            self._keys.remove(who, self._server, before)
