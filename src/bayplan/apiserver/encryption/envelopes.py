"""Values encrypted with keys that a key management service has encrypted: provider `kms`, version 2.

    k8s:enc:kms:v2:NAME: | EncryptedObject{1: data, 2: keyID, 3: encryptedDEKSource, 4: annotations, 5: encryptedDEKSourceType}
    data                 = 32 bytes of info | 12 bytes of nonce | AES-GCM of the value, bound to its key in the store
    key of AES-GCM       = HKDF-Expand-SHA256(seed, info); the seed is what the service decrypts of encryptedDEKSource

The seed is made at the start and whenever the service names another key (`Status`), so writes ask nobody. A read asks the service once per seed. Calls block, each
for the timeout of the configuration at most; whoever must not wait lets `make_ready` ask in a thread first.

Source: KEP-3299, `k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2`. Nothing here does input or output: services are passed in.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, NamedTuple, Protocol, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bayplan.api.protobuf.wire import VARINT, ProtobufError, delimited, fields, read_varint, tag, varint
from bayplan.apiserver.encryption.metrics import FROM_STORAGE, NOT_MEASURED, TO_STORAGE, EnvelopeMetrics, KeyUses
from bayplan.apiserver.encryption.providers import AesGcm, RandomBytes, Unreadable
from bayplan.support.timestamps import rfc3339

logger = logging.getLogger(__name__)
T = TypeVar("T")

PREFIX: Final = "k8s:enc:kms:v2:"
API_VERSIONS: Final = ("v2", "v2beta1")
"""Versions of the service's API; they are the same."""
WRITABLE_SECONDS: Final = 180.0
"""How long a seed may be written with after the service was well last."""
RETRY_SECONDS: Final = 10.0
"""How long a seed that could not be decrypted is not asked for again."""
VALUES_PER_KEY: Final = 1000
"""How many values a derived key encrypts: with random nonces of 96 bits, a key is good for 2^32 (NIST SP 800-38D)."""
_INFO_BYTES = _SEED_BYTES = 32
_NONCE_BYTES: Final = 12
_KEY_ID_BYTES = _SOURCE_BYTES = 1024
_ANNOTATION_BYTES: Final = 32 * 1024
_DATA: Final = tag(1)
_KEY, _SEED = 0, 1
"""Types of what the service encrypts: a key of AES-GCM, or a seed of keys."""


class KmsStatus(NamedTuple):
    """What a service says of itself."""

    version: str
    healthz: str
    """`ok`, or what is wrong."""
    key_id: str
    """The key that it encrypts with now."""


class EncryptedSeed(NamedTuple):
    """A seed as the service encrypted it, with what it wants to be given to decrypt it."""

    key_id: str
    source: bytes
    annotations: Mapping[str, bytes]
    kind: int = _SEED


class KmsError(Exception):
    """A call of a service failed; the text is the reason. `code`: gRPC's name of it, such as Unavailable."""

    def __init__(self, text: str, code: str = "Unknown") -> None:
        super().__init__(text)
        self.code = code


class KmsService(Protocol):
    """A key management service. All calls block, and raise KmsError."""

    def status(self) -> KmsStatus:
        """How it is."""

    def encrypt(self, uid: str, plaintext: bytes) -> EncryptedSeed:
        """Encrypt with the key of now. uid: names the call in logs."""

    def decrypt(self, uid: str, seed: EncryptedSeed) -> bytes:
        """What was encrypted."""

    def close(self) -> None:
        """End the connection."""


@dataclass(frozen=True, slots=True)
class _Writer:
    """The seed that writes."""

    seed: bytes
    encrypted: EncryptedSeed
    tail: bytes
    """All fields of an EncryptedObject but the data."""
    uses: KeyUses
    reads: KeyUses
    expires: float
    """Unix seconds after which nothing is written with it, unless the service is well again."""

    def sealed(self, data: bytes) -> bytes:
        """The data of an EncryptedObject that this seed has written; empty for others, and for what is damaged."""
        at = len(self.tail)
        if not data.startswith(self.tail) or data[at : at + 1] != _DATA:
            return b""
        try:
            size, at = read_varint(data, at + 1)
        except ProtobufError:
            return b""
        return data[at:] if at + size == len(data) else b""


@dataclass(slots=True)
class _Sealer:
    """The key of AES-GCM that encrypts now: deriving one takes as long as encrypting several values."""

    seed: bytes
    info: bytes
    cipher: AESGCM
    left: int
    """How many values it may still encrypt."""


@dataclass(slots=True)
class Envelopes:
    """The `kms` provider of one service: see `providers.Secret`."""

    telling_bytes: ClassVar[int] = 128
    """Enough to know the seed by (see `providers.Secret`)."""

    name: str
    service: KmsService
    random_bytes: RandomBytes
    new_uid: Callable[[], str]
    now: Callable[[], float]
    metrics: EnvelopeMetrics = NOT_MEASURED
    error: str = "the service has not been asked yet"
    """Why the service is not well; "" if it is."""
    _version: str = ""
    _writer: _Writer | None = None
    _sealer: _Sealer | None = None
    _opener: tuple[bytes, bytes, AESGCM] | None = None
    """Seed, info and key of the value that was decrypted last: those that follow often have the same."""
    _seeds: dict[tuple[object, ...], bytes] = field(default_factory=dict)
    _failures: dict[tuple[object, ...], tuple[float, str]] = field(default_factory=dict)
    _proven: set[bytes] = field(default_factory=set)
    """Seeds with which a value has been opened: what they do not open is damaged. Of others the service may have said something wrong, and is asked again."""

    def probe(self) -> str:
        """Ask how the service is, and make a seed if it has another key than before. Returns `error`."""
        expires = self.now() + WRITABLE_SECONDS
        try:
            status = self._call("Status", self.service.status)
            problems = [*self._problems(status), *self._seed_problems(status.key_id, expires)]
        except KmsError as error:
            problems = [
                f"failed to perform status section of the healthz check for KMS Provider {self.name}, error: {error}"
            ]
        else:
            problems = [f"kmsv2 Provider {self.name} is not healthy, error: {'; '.join(problems)}"] if problems else []
        found = "".join(problems)
        if found and found != self.error:
            logger.error("%s", found)
        self.error = found
        return found

    def _problems(self, status: KmsStatus) -> list[str]:
        found = []
        if status.healthz != "ok":
            found.append(f"got unexpected healthz status: {status.healthz}")
        if status.version not in API_VERSIONS:
            found.append(f"expected KMSv2 API version v2, got {status.version}")
        elif self._version not in ("", status.version):
            found.append(
                f"KMSv2 API version should not change after the initial status response version {self._version}, got {status.version}"
            )
        else:
            self._version = status.version
        return found

    def _seed_problems(self, key_id: str, expires: float) -> list[str]:
        """Let the seed be one of this key."""
        if problem := _key_id_problem(key_id):
            self.metrics.invalid_key_id(self.name, "empty" if not key_id else "too_long")
            return [f"got invalid KMSv2 KeyID: {problem}"]
        self.metrics.key_id_from_status(self.name, key_id, self.now())
        writer = self._writer
        if writer is not None and writer.encrypted.key_id == key_id:
            self._writer = replace(writer, expires=expires)
            return []
        seed = self.random_bytes(_SEED_BYTES)
        try:
            encrypted = self._call("Encrypt", lambda: self.service.encrypt(self.new_uid(), seed))
            _check(encrypted)
        except (KmsError, Unreadable) as error:
            return [f"failed to rotate DEK: failed to encrypt DEK, error: {error}"]
        if encrypted.key_id != key_id:
            return ["failed to rotate DEK: the service encrypts with another key than its status names"]
        self._keep(encrypted, seed)
        self._proven.add(seed)
        uses, reads = (self.metrics.uses_of(way, self.name, key_id) for way in (TO_STORAGE, FROM_STORAGE))
        self._writer = _Writer(seed, encrypted, _tail(encrypted), uses, reads, expires)
        logger.info("values are encrypted with a new seed of the service %s", self.name)
        return []

    def encrypt(self, key: str, value: bytes) -> bytes:
        """See `providers.Secret`. Raises Unreadable if there is no seed, or the service has not been well for long."""
        writer = self._writer
        if writer is None:
            raise Unreadable(f"kms provider {self.name} has no key to encrypt with: {self.error}")
        now = self.now()
        if now > writer.expires:
            shown = self.metrics.hashed(writer.encrypted.key_id)
            raise Unreadable(
                f'encryptedDEKSource with keyID hash "{shown}" expired at {rfc3339(writer.expires)} (current time is {rfc3339(now)})'
            )
        writer.uses.used(now)
        sealer = self._sealer
        if sealer is None or sealer.seed is not writer.seed or sealer.left <= 0:
            info = self.random_bytes(_INFO_BYTES)
            sealer = self._sealer = _Sealer(writer.seed, info, AESGCM(_derived(writer.seed, info)), VALUES_PER_KEY)
        sealer.left -= 1
        nonce = self.random_bytes(_NONCE_BYTES)
        sealed = sealer.cipher.encrypt(nonce, value, key.encode())
        size = _INFO_BYTES + _NONCE_BYTES + len(sealed)
        return b"".join((writer.tail, _DATA, varint(size), sealer.info, nonce, sealed))

    def decrypt(self, key: str, data: bytes) -> bytes:
        """See `providers.Secret`."""
        writer = self._writer
        if writer is not None and (sealed := writer.sealed(data)):  # as most are
            writer.reads.used(self.now())
            return self._opened(key, writer.seed, writer.encrypted.kind, sealed)
        encrypted, sealed = _parsed(data)
        seed = self._seed_of(encrypted)
        self.metrics.uses_of(FROM_STORAGE, self.name, encrypted.key_id).used(self.now())
        try:
            value = self._opened(key, seed, encrypted.kind, sealed)
        except Unreadable as error:
            if seed not in self._proven:
                place = _place(encrypted)
                self._seeds.pop(place, None)
                self._failures[place] = self.now(), str(error)
            raise
        self._proven.add(seed)
        return value

    def _opened(self, key: str, seed: bytes, kind: int, sealed: bytes) -> bytes:
        """Raises Unreadable."""
        if kind == _KEY:
            return AesGcm(seed, self.random_bytes).decrypt(key, sealed)
        if len(sealed) < _INFO_BYTES + _NONCE_BYTES:
            raise Unreadable("the stored data was shorter than the required size")
        info, nonce = sealed[:_INFO_BYTES], sealed[_INFO_BYTES : _INFO_BYTES + _NONCE_BYTES]
        opener = self._opener
        if opener is None or opener[0] is not seed or opener[1] != info:
            opener = self._opener = seed, info, AESGCM(_derived(seed, info))
        try:
            return opener[2].decrypt(nonce, sealed[_INFO_BYTES + _NONCE_BYTES :], key.encode())
        except InvalidTag:
            raise Unreadable("cipher: message authentication failed") from None

    def is_current(self, begin: bytes) -> bool:
        """Whether a stored value, of which this is the begin, was encrypted with the key of now."""
        writer = self._writer
        return writer is None or begin.startswith(writer.tail[: len(begin)])

    def is_ready(self, data: bytes) -> bool:
        """See `providers.Secret`."""
        writer = self._writer
        if writer is not None and data.startswith(writer.tail):
            return True
        try:
            place = _place(_parsed(data)[0])
        except Unreadable:
            return True
        return place in self._seeds or self._has_failed(place) != ""

    def make_ready(self, data: bytes) -> None:
        """See `providers.Secret`."""
        with contextlib.suppress(Unreadable):
            self._seed_of(_parsed(data)[0])

    def close(self) -> None:
        """Ask the service no more."""
        self.service.close()

    def _seed_of(self, encrypted: EncryptedSeed) -> bytes:
        """Raises Unreadable."""
        place = _place(encrypted)
        known = self._seeds.get(place)
        if known is not None:
            return known
        if why := self._has_failed(place):
            raise Unreadable(why)
        self.metrics.cache_missed()
        try:
            seed = self._call("Decrypt", lambda: self.service.decrypt(self.new_uid(), encrypted))
            _check_seed(seed, encrypted.kind)
        except KmsError as error:
            why = f"failed to decrypt DEK, error: {error}"
            self._failures[place] = self.now(), why
            raise Unreadable(why) from None
        self._failures.pop(place, None)
        self._keep(encrypted, seed)
        return seed

    def _has_failed(self, place: tuple[object, ...]) -> str:
        """Why a seed that was asked for a moment ago could not be decrypted."""
        failed_at, why = self._failures.get(place, (0.0, ""))
        return why if self.now() - failed_at < RETRY_SECONDS else ""

    def _keep(self, encrypted: EncryptedSeed, seed: bytes) -> None:
        self._seeds[_place(encrypted)] = seed
        self.metrics.seeds(self.name, len(self._seeds))

    def _call(self, method: str, call: Callable[[], T]) -> T:
        started, code = self.now(), "OK"
        try:
            return call()
        except KmsError as error:
            code = error.code
            raise
        finally:
            self.metrics.called(self.name, method, code, self.now() - started)


def _derived(seed: bytes, info: bytes) -> bytes:
    """HKDF-Expand of RFC 5869 for 32 bytes, which is one block of SHA-256."""
    return hmac.digest(seed, info + b"\x01", hashlib.sha256)


def _place(encrypted: EncryptedSeed) -> tuple[object, ...]:
    return encrypted.kind, encrypted.source, encrypted.key_id, tuple(sorted(encrypted.annotations.items()))


def _key_id_problem(key_id: str) -> str:
    if not key_id:
        return "keyID is empty"
    size = len(key_id.encode())
    return f"keyID is {size} bytes, which exceeds the max size of {_KEY_ID_BYTES}" if size > _KEY_ID_BYTES else ""


def _check(encrypted: EncryptedSeed) -> None:
    """Raises Unreadable."""
    if not encrypted.source:
        raise Unreadable("encrypted DEK source is empty")
    if len(encrypted.source) > _SOURCE_BYTES:
        raise Unreadable(
            f"encrypted DEK source is {len(encrypted.source)} bytes, which exceeds the max size of {_SOURCE_BYTES}"
        )
    if problem := _key_id_problem(encrypted.key_id):
        raise Unreadable(problem)
    size = sum(len(name.encode()) + len(value) for name, value in encrypted.annotations.items())
    if size > _ANNOTATION_BYTES:
        raise Unreadable(f"total size of annotations is {size}, which exceeds the max size of {_ANNOTATION_BYTES}")


def _check_seed(seed: bytes, kind: int) -> None:
    """Raises KmsError for what no key can be made of."""
    if kind == _SEED and len(seed) < _SEED_BYTES:
        raise KmsError(f"invalid seed length {len(seed)} used for key generation")
    if kind == _KEY and len(seed) not in (16, 24, 32):
        raise KmsError(f"crypto/aes: invalid key size {len(seed)}")


def _tail(encrypted: EncryptedSeed) -> bytes:
    """The fields that all values of a seed have in common. They stand first, so that the begin of a value tells whether it is current; readers take any order."""
    annotations = b"".join(
        delimited(4, delimited(1, name.encode()) + delimited(2, value))
        for name, value in sorted(encrypted.annotations.items())
    )
    key_id, source = delimited(2, encrypted.key_id.encode()), delimited(3, encrypted.source)
    return key_id + source + annotations + tag(5, VARINT) + varint(encrypted.kind)


def _parsed(data: bytes) -> tuple[EncryptedSeed, bytes]:
    """The seed and the data of an EncryptedObject. Raises Unreadable."""
    found: dict[int, bytes] = {}
    annotations: dict[str, bytes] = {}
    kind = _KEY
    try:
        for number, value in fields(data):
            if number == 5 and isinstance(value, int):
                kind = value
            elif number == 4 and isinstance(value, bytes):
                entry = {at: part for at, part in fields(value) if isinstance(part, bytes)}
                annotations[entry.get(1, b"").decode()] = entry.get(2, b"")
            elif isinstance(value, bytes):
                found[number] = value
        encrypted = EncryptedSeed(found.get(2, b"").decode(), found.get(3, b""), annotations, kind)
    except (ProtobufError, UnicodeDecodeError) as error:
        raise Unreadable(f"the stored data is no EncryptedObject: {error}") from None
    if kind not in (_KEY, _SEED):
        raise Unreadable(f"unknown encryptedDEKSourceType: {kind}")
    _check(encrypted)
    sealed = found.get(1, b"")
    if not sealed:
        raise Unreadable("encrypted data is empty")
    return encrypted, sealed
