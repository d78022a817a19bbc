"""What is measured of encryption, under kube-apiserver's names. Key IDs and servers are shown as hashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bayplan.apiserver.authentication.oidc.metrics import hashed
from bayplan.support.metrics.instruments import Counter, Gauge, Histogram, Registry, exponential_buckets

FROM_STORAGE: Final = "from_storage"
TO_STORAGE: Final = "to_storage"
_TRANSFORMED: Final = exponential_buckets(5e-6, 2, 25)
_CALLED: Final = exponential_buckets(1e-4, 2, 20)
_ENVELOPES: Final = "apiserver_envelope_encryption_"
_MOST_KEYS: Final = 1000


class Measured:
    """One way of one provider's values of one resource."""

    __slots__ = ("_failures", "_seconds", "_successes", "now")

    def __init__(self, successes: Counter, failures: Counter, seconds: Histogram, now: Callable[[], float]) -> None:
        self._successes = successes
        self._failures = failures
        self._seconds = seconds
        self.now = now

    def done(self, started: float) -> None:
        """A value was transformed. started: when that began."""
        self._successes.value += 1
        self._seconds.observe(self.now() - started)

    def failed(self) -> None:
        """A value could not be transformed."""
        self._failures.value += 1


class TransformationMetrics:
    """Transformations of values by resource and provider."""

    def __init__(self, registry: Registry, now: Callable[[], float]) -> None:
        self._now = now
        self._total = registry.counter(
            "apiserver_storage_transformation_operations_total",
            "Total number of transformations. Successful ones have the status 'OK'.",
            ("resource", "transformation_type", "transformer_prefix", "status"),
        )
        self._seconds = registry.histogram(
            "apiserver_storage_transformation_duration_seconds",
            "Latencies in seconds of value transformation operations.",
            ("transformation_type", "transformer_prefix"),
            _TRANSFORMED,
        )

    def of(self, resource: str, way: str, prefix: bytes) -> Measured:
        """What counts one way (TO_STORAGE, FROM_STORAGE) of a provider."""
        text = prefix.decode()
        total = self._total
        return Measured(
            total.labels(resource, way, text, "OK"),
            total.labels(resource, way, text, "unknown-non-grpc"),
            self._seconds.labels(way, text),
            self._now,
        )


class KeyUses:
    """Uses of one key, in one way; they are shown from the first one on."""

    __slots__ = ("_make", "_series")

    def __init__(self, make: Callable[[], tuple[Counter, Gauge]]) -> None:
        """make: the series of how many there were, and of when the last one was."""
        self._make = make
        self._series: tuple[Counter, Gauge] | None = None

    def used(self, now: float) -> None:
        """A value was encrypted or decrypted. now: Unix seconds."""
        series = self._series
        if series is None:
            series = self._series = self._make()
        total, last = series
        total.value += 1
        last.set(now)


class EnvelopeMetrics:
    """Calls of key management services, and uses of their keys."""

    def __init__(self, registry: Registry, server_id: str) -> None:
        """server_id: names the API server."""
        server = ("apiserver_id_hash",)
        self._server = hashed(server_id)
        self._of_key: dict[tuple[str, str, str], KeyUses] = {}
        """The series of uses of keys: hashing their names takes as long as encrypting a value."""
        self._calls = registry.histogram(
            f"{_ENVELOPES}kms_operations_latency_seconds",
            "KMS operation duration with gRPC error code status total.",
            ("provider_name", "method_name", "grpc_status_code"),
            _CALLED,
        )
        self._used = registry.counter(
            f"{_ENVELOPES}key_id_hash_total",
            "Number of times a keyID is used split by transformation type, provider, and apiserver identity.",
            ("transformation_type", "provider_name", "key_id_hash", *server),
        )
        self._last_used = registry.gauge(
            f"{_ENVELOPES}key_id_hash_last_timestamp_seconds",
            "The last time in seconds when a keyID was used.",
            ("transformation_type", "provider_name", "key_id_hash", *server),
        )
        self._status = registry.gauge(
            f"{_ENVELOPES}key_id_hash_status_last_timestamp_seconds",
            "The last time in seconds when a keyID was returned by the Status RPC call.",
            ("provider_name", "key_id_hash", *server),
        )
        self._invalid = registry.counter(
            f"{_ENVELOPES}invalid_key_id_from_status_total",
            "Number of times an invalid keyID is returned by the Status RPC call split by error.",
            ("provider_name", "error"),
        )
        self._size = registry.gauge(
            f"{_ENVELOPES}dek_source_cache_size",
            "Number of records in data encryption key (DEK) source cache.",
            ("provider_name",),
        )
        self._misses = registry.counter(
            "apiserver_storage_envelope_transformation_cache_misses_total",
            "Total number of cache misses while accessing key decryption key(KEK).",
        )

    def hashed(self, key_id: str) -> str:
        """What stands for a key ID in logs and labels."""
        return hashed(key_id)

    def called(self, provider: str, method: str, code: str, seconds: float) -> None:
        """A call was answered. code: gRPC's name, such as OK or Unavailable."""
        self._calls.labels(provider, f"/v2.KeyManagementService/{method}", code).observe(seconds)

    def uses_of(self, way: str, provider: str, key_id: str) -> KeyUses:
        """What counts the values that are encrypted or decrypted with seeds of a key."""
        place = (way, provider, key_id)
        uses = self._of_key.get(place)
        if uses is None:
            if len(self._of_key) >= _MOST_KEYS:
                self._of_key.clear()
            labels = (way, provider, hashed(key_id), self._server)
            uses = self._of_key[place] = KeyUses(lambda: (self._used.labels(*labels), self._last_used.labels(*labels)))
        return uses

    def key_id_from_status(self, provider: str, key_id: str, now: float) -> None:
        """The service named its key."""
        self._status.labels(provider, hashed(key_id), self._server).set(now)

    def invalid_key_id(self, provider: str, error: str) -> None:
        """The service named what can be no key."""
        self._invalid.labels(provider, error).inc()

    def seeds(self, provider: str, count: int) -> None:
        """So many seeds are known."""
        self._size.labels(provider).set(count)

    def cache_missed(self) -> None:
        """A seed was not known."""
        self._misses.labels().inc()


NOT_MEASURED: Final = EnvelopeMetrics(Registry(), "")
"""For what nobody looks at."""
