"""Values whose keys a key management service has encrypted: the form, rotation, failures, and what of them is measured."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from bayplan.api.protobuf.wire import delimited, fields, tag, varint
from bayplan.apiserver.configuration.files import ConfigurationError
from bayplan.apiserver.encryption.configuration import read_configuration
from bayplan.apiserver.encryption.envelopes import VALUES_PER_KEY, EncryptedSeed, Envelopes, KmsError, KmsStatus
from bayplan.apiserver.encryption.metrics import EnvelopeMetrics
from bayplan.apiserver.encryption.providers import IDENTITY, Provider, Providers, Unreadable
from bayplan.store.errors import Untransformable
from bayplan.support.metrics.instruments import Registry

_KEY = "/registry/secrets/default/a"


@dataclass
class Service:
    """A service in memory: what it encrypts is turned around and marked with its key."""

    key_id: str = "key-1"
    healthz: str = "ok"
    version: str = "v2"
    fails: str = ""
    calls: list[str] = field(default_factory=list)
    closed: bool = False

    def _called(self, method: str) -> None:
        self.calls.append(method)
        if self.fails:
            raise KmsError(self.fails, "Unavailable")

    def status(self) -> KmsStatus:
        self._called("Status")
        return KmsStatus(self.version, self.healthz, self.key_id)

    def encrypt(self, uid: str, plaintext: bytes) -> EncryptedSeed:
        self._called("Encrypt")
        return EncryptedSeed(self.key_id, self.key_id.encode() + b"|" + plaintext[::-1], {"kek.example.com": b"1"})

    def decrypt(self, uid: str, seed: EncryptedSeed) -> bytes:
        self._called("Decrypt")
        assert dict(seed.annotations) == {"kek.example.com": b"1"}
        prefix = seed.key_id.encode() + b"|"
        if not seed.source.startswith(prefix):
            raise KmsError("this was not encrypted here", "InvalidArgument")
        return seed.source.removeprefix(prefix)[::-1]

    def close(self) -> None:
        self.closed = True


@dataclass
class Clock:
    now: float = 1_700_000_000.0


def made(service: Service, clock: Clock | None = None, metrics: Registry | None = None) -> Envelopes:
    measured = EnvelopeMetrics(metrics or Registry(), "server")
    at = clock or Clock()
    return Envelopes("one", service, os.urandom, lambda: "uid", lambda: at.now, measured)


def test_values_are_bound_to_their_place_and_another_server_reads_them_by_asking_once() -> None:
    service = Service()
    writer, reader = made(service), made(service)
    assert writer.probe() == ""
    first, second = writer.encrypt(_KEY, b"secret"), writer.encrypt(_KEY, b"secret")
    assert first != second
    assert b"secret" not in first
    assert writer.decrypt(_KEY, first) == b"secret"
    assert service.calls == ["Status", "Encrypt"]
    assert reader.decrypt(_KEY, first) == reader.decrypt(_KEY, second) == b"secret"
    assert service.calls[2:] == ["Decrypt"]
    with pytest.raises(Unreadable, match="message authentication failed"):
        reader.decrypt(_KEY + "b", first)


def test_the_form_is_the_one_of_kube_apiserver() -> None:
    service = Service()
    envelopes = made(service)
    envelopes.probe()
    found = dict(fields(envelopes.encrypt(_KEY, b"value")))
    assert (found[2], found[5]) == (b"key-1", 1)
    source, data = found[3], found[1]
    assert isinstance(source, bytes)
    assert isinstance(data, bytes)
    seed = source.removeprefix(b"key-1|")[::-1]
    info, nonce, sealed = data[:32], data[32:44], data[44:]
    derived = HKDFExpand(SHA256(), 32, info).derive(seed)
    assert AESGCM(derived).decrypt(nonce, sealed, _KEY.encode()) == b"value"


def test_a_derived_key_encrypts_so_many_values_of_one_seed_each_with_a_nonce_of_its_own() -> None:
    service, clock = Service(), Clock()
    envelopes = made(service, clock)
    envelopes.probe()

    def begins(count: int) -> list[tuple[bytes, bytes]]:
        found = [dict(fields(envelopes.encrypt(_KEY, b"value")))[1] for _ in range(count)]
        return [(one[:32], one[32:44]) for one in found if isinstance(one, bytes)]

    first, second = begins(VALUES_PER_KEY), begins(2)
    assert len({info for info, _ in first}) == 1
    assert len({nonce for _, nonce in first}) == VALUES_PER_KEY
    assert second[0][0] == second[1][0] != first[0][0]
    service.key_id = "key-2"
    envelopes.probe()
    assert begins(1)[0][0] != second[0][0]


def test_what_kube_apiserver_wrote_is_read_in_its_order_of_fields_and_with_plain_keys() -> None:
    service, key, nonce = Service(), os.urandom(32), os.urandom(12)
    sealed = nonce + AESGCM(key).encrypt(nonce, b"value", _KEY.encode())
    annotation = delimited(4, delimited(1, b"kek.example.com") + delimited(2, b"1"))
    stored = delimited(1, sealed) + delimited(2, b"key-1") + delimited(3, b"key-1|" + key[::-1]) + annotation
    envelopes = made(service)
    assert envelopes.decrypt(_KEY, stored) == b"value"
    assert envelopes.decrypt(_KEY, stored + tag(5, 0) + varint(0)) == b"value"
    with pytest.raises(Unreadable, match="unknown encryptedDEKSourceType: 2"):
        envelopes.decrypt(_KEY, stored + tag(5, 0) + varint(2))
    with pytest.raises(Unreadable, match="no EncryptedObject"):
        envelopes.decrypt(_KEY, stored[:-3])


def test_a_new_key_of_the_service_gives_a_new_seed_and_old_values_are_outdated_but_readable() -> None:
    service = Service()
    envelopes = made(service)
    providers = Providers([Provider(b"k8s:enc:kms:v2:one:", envelopes), IDENTITY])
    envelopes.probe()
    old = providers.to_storage(_KEY, b"value")
    envelopes.probe()
    assert service.calls.count("Encrypt") == 1
    assert providers.is_current(old[:128])
    service.key_id = "key-2"
    assert envelopes.probe() == ""
    new = providers.to_storage(_KEY, b"value")
    assert service.calls.count("Encrypt") == 2
    assert (providers.is_current(old[:128]), providers.is_current(new[:128])) == (False, True)
    assert providers.from_storage(_KEY, old) == providers.from_storage(_KEY, new) == b"value"


def test_a_service_that_is_away_stops_writes_after_three_minutes_and_reads_never() -> None:
    service, clock = Service(), Clock()
    envelopes = made(service, clock)
    envelopes.probe()
    stored = envelopes.encrypt(_KEY, b"value")
    service.fails = "nobody listens"
    assert "failed to perform status section" in envelopes.probe()
    clock.now += 180
    envelopes.encrypt(_KEY, b"value")
    clock.now += 1
    with pytest.raises(Unreadable, match="expired at"):
        envelopes.encrypt(_KEY, b"value")
    assert envelopes.decrypt(_KEY, stored) == b"value"
    service.fails = ""
    assert envelopes.probe() == ""
    envelopes.encrypt(_KEY, b"value")
    assert service.calls.count("Encrypt") == 1


def test_without_a_first_seed_nothing_is_written_and_the_reason_is_told() -> None:
    envelopes = made(Service(fails="nobody listens"))
    envelopes.probe()
    providers = Providers([Provider(b"k8s:enc:kms:v2:one:", envelopes)])
    with pytest.raises(Untransformable, match=r"unable to transform key .* nobody listens"):
        providers.to_storage(_KEY, b"value")


def test_a_seed_that_cannot_be_decrypted_is_asked_for_again_after_ten_seconds() -> None:
    service, clock = Service(), Clock()
    writer, reader = made(service, clock), made(service, clock)
    writer.probe()
    stored = writer.encrypt(_KEY, b"value")
    service.fails = "nobody listens"
    for _ in range(3):
        with pytest.raises(Unreadable, match="failed to decrypt DEK, error: nobody listens"):
            reader.decrypt(_KEY, stored)
    assert service.calls.count("Decrypt") == 1
    service.fails = ""
    clock.now += 10
    assert reader.decrypt(_KEY, stored) == b"value"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda one: setattr(one, "healthz", "the module is locked"),
            "got unexpected healthz status: the module is locked",
        ),
        (lambda one: setattr(one, "version", "v1"), "expected KMSv2 API version v2, got v1"),
        (lambda one: setattr(one, "version", "v2beta1"), "version should not change after the initial status response"),
        (lambda one: setattr(one, "key_id", ""), "keyID is empty"),
        (lambda one: setattr(one, "key_id", "k" * 1025), "exceeds the max size of 1024"),
    ],
)
def test_a_service_is_not_well_if_it_says_so_or_names_no_key(change: Callable[[Service], None], problem: str) -> None:
    service = Service()
    envelopes = made(service)
    assert envelopes.probe() == ""
    change(service)
    assert problem in envelopes.probe()
    assert envelopes.error.startswith("kmsv2 Provider one is not healthy, error: ")


def test_calls_keys_and_the_cache_are_measured_without_naming_keys() -> None:
    registry, service = Registry(), Service()
    writer = made(service, metrics=registry)
    writer.probe()
    stored = writer.encrypt(_KEY, b"value")
    made(service, metrics=registry).decrypt(_KEY, stored)
    service.fails = "away"
    writer.probe()
    text = registry.render().decode()
    assert "key-1" not in text
    count = "apiserver_envelope_encryption_kms_operations_latency_seconds_count"
    for method, code, times in (
        ("Status", "OK", 1),
        ("Encrypt", "OK", 1),
        ("Decrypt", "OK", 1),
        ("Status", "Unavailable", 1),
    ):
        labels = f'grpc_status_code="{code}",method_name="/v2.KeyManagementService/{method}",provider_name="one"'
        assert f"{count}{{{labels}}} {times}\n" in text
    assert 'apiserver_envelope_encryption_dek_source_cache_size{provider_name="one"} 1\n' in text
    assert "apiserver_storage_envelope_transformation_cache_misses_total 1\n" in text
    assert 'transformation_type="to_storage"} 1\n' in text


def _file(**kms: object) -> str:
    import json

    provider = {"name": "one", "apiVersion": "v2", "endpoint": "unix:///run/kms.sock", **kms}
    rules = [
        {
            "resources": ["secrets"],
            "providers": [{"kms": {k: v for k, v in provider.items() if v is not None}}, {"identity": {}}],
        }
    ]
    return json.dumps(
        {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": rules}
    )


def test_a_file_names_the_service_and_how_long_it_may_take() -> None:
    opened = []

    def opening(name: str, endpoint: str, seconds: float) -> Envelopes:
        opened.append((name, endpoint, seconds))
        return made(Service())

    resources = read_configuration(_file(timeout="1m"), os.urandom, opening)
    read_configuration(_file(), os.urandom, opening)
    assert opened == [("one", "unix:///run/kms.sock", 60.0), ("one", "unix:///run/kms.sock", 3.0)]
    assert resources.error() == "the service has not been asked yet"
    service = resources.envelopes[0].service
    assert isinstance(service, Service)
    resources.close()
    assert service.closed


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"name": ""}, "kms.name: Required value: name is a mandatory field for a provider"),
        ({"name": "a:b"}, "must not contain ':'"),
        ({"timeout": "0s"}, "timeout should be a positive value"),
        ({"timeout": "soon"}, "timeout should be a positive value"),
        ({"endpoint": ""}, "endpoint is a mandatory field for a kms"),
        ({"endpoint": "tcp://127.0.0.1:1"}, 'unsupported scheme "tcp" for KMS provider, only unix is supported'),
        ({"cachesize": 5}, "cachesize is not supported in v2"),
        ({"apiVersion": None}, "only v2 is supported"),
        ({"nosuch": 1}, "nosuch"),
    ],
)
def test_what_is_wrong_with_a_service_in_a_file_is_told(given: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem.replace(".", r"\.")):
        read_configuration(_file(**given), os.urandom, lambda name, endpoint, seconds: made(Service()))


def test_a_seed_that_is_not_known_is_asked_for_beforehand_and_not_again_a_moment_after_that_failed() -> None:
    service, clock = Service(), Clock()
    writer = made(service)
    writer.probe()
    stored = b"k8s:enc:kms:v2:one:" + writer.encrypt(_KEY, b"secret")
    reader = Providers([Provider(b"k8s:enc:kms:v2:one:", made(service, clock)), IDENTITY])
    assert reader.unready(b"plain") is None
    unready = reader.unready(stored)
    assert unready is not None
    secret, data = unready
    service.fails, service.calls = "away", []
    secret.make_ready(data)
    assert reader.unready(stored) is None
    with pytest.raises(Untransformable, match="failed to decrypt DEK, error: away"):
        reader.from_storage(_KEY, stored)
    service.fails, clock.now = "", clock.now + 10
    assert reader.unready(stored) is not None
    secret.make_ready(data)
    assert reader.unready(stored) is None
    assert reader.from_storage(_KEY, stored) == b"secret"
    assert service.calls == ["Decrypt", "Decrypt"]


def test_a_service_that_decrypts_to_something_else_is_asked_again_until_a_value_could_be_opened() -> None:
    service, clock = Service(), Clock()
    writer, reader = made(service, clock), made(service, clock)
    assert writer.probe() == ""
    stored, other = writer.encrypt(_KEY, b"secret"), writer.encrypt(_KEY, b"other")
    right, service.decrypt = service.decrypt, lambda uid, seed: bytes(32)  # type: ignore[method-assign]
    with pytest.raises(Unreadable, match="message authentication failed"):
        reader.decrypt(_KEY, stored)
    service.decrypt = right  # type: ignore[method-assign]
    service.calls.clear()
    with pytest.raises(Unreadable, match="message authentication failed"):
        reader.decrypt(_KEY, stored)
    assert service.calls == []
    clock.now += 11
    assert reader.decrypt(_KEY, stored) == b"secret"
    with pytest.raises(Unreadable):
        reader.decrypt(_KEY, other[:-1] + bytes([other[-1] ^ 1]))
    assert reader.decrypt(_KEY, other) == b"other"
    assert service.calls == ["Decrypt"]


@pytest.mark.parametrize(
    ("kind", "given", "problem"),
    [(1, b"short", "invalid seed length 5"), (1, b"", "invalid seed length 0"), (0, b"short", "invalid key size 5")],
)
def test_a_seed_of_another_length_is_none(kind: int, given: bytes, problem: str) -> None:
    service, clock = Service(), Clock()
    reader = made(service, clock)
    service.decrypt = lambda uid, seed: given  # type: ignore[method-assign]
    stored = delimited(1, bytes(60)) + delimited(2, b"key-1") + delimited(3, b"x") + tag(5, 0) + varint(kind)
    with pytest.raises(Unreadable, match=problem):
        reader.decrypt(_KEY, stored)
