"""Providers of encryption: what each makes of a value, under the prefix by which it is known again.

    k8s:enc:aescbc:v1:KEY:     16 bytes of vector, then AES-CBC of the value with PKCS #7 padding
    k8s:enc:aesgcm:v1:KEY:     12 bytes of nonce, then AES-GCM of the value, bound to its key in the store
    k8s:enc:secretbox:v1:KEY:  24 bytes of nonce, then XSalsa20 and Poly1305 of the value
    k8s:enc:kms:v2:NAME:       see `envelopes`
    (none)                     identity: the value itself

Source: `k8s.io/apiserver/pkg/storage/value`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from bayplan.apiserver.encryption.metrics import FROM_STORAGE, TO_STORAGE, TransformationMetrics
from bayplan.apiserver.encryption.prefixes import ENCRYPTED, encryption_prefix
from bayplan.store.errors import Untransformable
from bayplan.support.metrics.instruments import Registry

RandomBytes = Callable[[int], bytes]
"""So many bytes that nobody can guess."""
_VECTOR_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_BLOCK_BITS: Final = 128


class Unreadable(Exception):
    """A value is not what the key has encrypted."""


class Secret(Protocol):
    """One key of one provider."""

    def encrypt(self, key: str, value: bytes) -> bytes:
        """The value encrypted; `key`: where it is kept. Raises Unreadable if it cannot encrypt now."""

    def decrypt(self, key: str, data: bytes) -> bytes:
        """What was encrypted. Raises Unreadable."""

    telling_bytes: ClassVar[int]
    """How much of the begin of what was encrypted `is_current` looks at."""

    def is_current(self, begin: bytes) -> bool:
        """Whether what was encrypted, of which this is the begin, would be encrypted with the same key today."""

    def is_ready(self, data: bytes) -> bool:
        """Whether `decrypt` asks nobody."""

    def make_ready(self, data: bytes) -> None:
        """Ask whoever has to be asked, so that `decrypt` need not. Blocks; what goes wrong is told by `decrypt`."""


class _Fixed:
    """A secret that is the same as long as it is configured."""

    telling_bytes: ClassVar[int] = 0

    def is_ready(self, data: bytes) -> bool:
        return True

    def make_ready(self, data: bytes) -> None:
        return

    def is_current(self, begin: bytes) -> bool:
        return True


class AesCbc(_Fixed):
    """`aescbc`: keeps values secret, but does not notice that they were changed."""

    def __init__(self, secret: bytes, random_bytes: RandomBytes) -> None:
        self._algorithm = AES(secret)
        self._random_bytes = random_bytes

    def encrypt(self, key: str, value: bytes) -> bytes:
        vector = self._random_bytes(_VECTOR_BYTES)
        padder = PKCS7(_BLOCK_BITS).padder()
        encryptor = Cipher(self._algorithm, CBC(vector)).encryptor()
        return vector + encryptor.update(padder.update(value) + padder.finalize()) + encryptor.finalize()

    def decrypt(self, key: str, data: bytes) -> bytes:
        if len(data) < _VECTOR_BYTES:
            raise Unreadable("the stored data was shorter than the required size")
        if len(data) % _VECTOR_BYTES:
            raise Unreadable("the stored data is not a multiple of the block size")
        decryptor = Cipher(self._algorithm, CBC(data[:_VECTOR_BYTES])).decryptor()
        padded = decryptor.update(data[_VECTOR_BYTES:]) + decryptor.finalize()
        unpadder = PKCS7(_BLOCK_BITS).unpadder()
        try:
            return unpadder.update(padded) + unpadder.finalize()
        except ValueError:
            raise Unreadable("invalid padding on input") from None


class AesGcm(_Fixed):
    """`aesgcm`: also notices changes, and values that were put under another key of the store."""

    def __init__(self, secret: bytes, random_bytes: RandomBytes) -> None:
        self._cipher = AESGCM(secret)
        self._random_bytes = random_bytes

    def encrypt(self, key: str, value: bytes) -> bytes:
        nonce = self._random_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, value, key.encode())

    def decrypt(self, key: str, data: bytes) -> bytes:
        if len(data) < _NONCE_BYTES:
            raise Unreadable("the stored data was shorter than the required size")
        try:
            return self._cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], key.encode())
        except InvalidTag:
            raise Unreadable("cipher: message authentication failed") from None


class SecretBox(_Fixed):
    """`secretbox`: XSalsa20 and Poly1305, by libsodium. Raises ImportError without PyNaCl."""

    def __init__(self, secret: bytes, random_bytes: RandomBytes) -> None:
        from nacl.secret import SecretBox as Box

        self._box: Any = Box(secret)
        self._random_bytes = random_bytes

    def encrypt(self, key: str, value: bytes) -> bytes:
        return bytes(self._box.encrypt(value, self._random_bytes(self._box.NONCE_SIZE)))

    def decrypt(self, key: str, data: bytes) -> bytes:
        from nacl.exceptions import CryptoError

        if len(data) < self._box.NONCE_SIZE:
            raise Unreadable("the stored data was shorter than the required size")
        try:
            return bytes(self._box.decrypt(data))
        except CryptoError:
            raise Unreadable("output array was not large enough for encryption") from None


class Provider(NamedTuple):
    """One secret under the prefix of its values; the identity has neither."""

    prefix: bytes
    secret: Secret | None


IDENTITY: Final = Provider(b"", None)


class Providers:
    """The providers of a resource: the first one writes, all of them read."""

    def __init__(
        self,
        providers: Sequence[Provider],
        folders: tuple[str, str] = ("", ""),
        metrics: TransformationMetrics | None = None,
        resource: str = "",
    ) -> None:
        """folders: what keys of the resource begin with in the store, and in what values are bound to. resource: names in metrics what is encrypted."""
        folder, self._bound_folder = folders
        self._folder_size = len(folder)
        metrics = metrics or TransformationMetrics(Registry(), float)
        self._writer = providers[0]
        self._written = metrics.of(resource, TO_STORAGE, providers[0].prefix)
        self._readers = tuple((one, metrics.of(resource, FROM_STORAGE, one.prefix)) for one in providers)

    def to_storage(self, key: str, value: bytes) -> bytes:
        """See `bayplan.store.transforming.Transformer`."""
        measured, (prefix, secret) = self._written, self._writer
        started = measured.now()
        try:
            stored = value if secret is None else prefix + secret.encrypt(self._bound(key), value)
        except Unreadable as error:
            measured.failed()
            raise Untransformable(key, str(error)) from None
        measured.done(started)
        return stored

    def is_current(self, value: bytes) -> bool:
        """See `bayplan.store.transforming.Transformer`."""
        prefix, secret = self._writer
        if secret is None:
            return not value.startswith(ENCRYPTED)
        return value.startswith(prefix) and secret.is_current(value[len(prefix) :])

    def form(self, value: bytes) -> bytes:
        """See `bayplan.store.transforming.Transformer`."""
        for (prefix, secret), _ in self._readers:
            if secret is not None and value.startswith(prefix):
                return value[: len(prefix) + secret.telling_bytes] if secret.telling_bytes else prefix
        return value[: len(ENCRYPTED)]

    def _bound(self, key: str) -> str:
        """What values under a key of the store are bound to."""
        return self._bound_folder + key[self._folder_size :]

    def unready(self, value: bytes) -> tuple[Secret, bytes] | None:
        """The secret that has to ask somebody before it decrypts a value, with what it is to decrypt; None if none has to."""
        for provider, _ in self._readers:
            if provider.secret is not None and value.startswith(provider.prefix):
                data = value[len(provider.prefix) :]
                if not provider.secret.is_ready(data):
                    return provider.secret, data
        return None

    def from_storage(self, key: str, value: bytes) -> bytes:
        """See `bayplan.store.transforming.Transformer`."""
        failure, why, bound = "no matching prefix found", "", self._bound(key)
        for provider, measured in self._readers:
            if provider.secret is None:
                if not value.startswith(ENCRYPTED):
                    measured.done(measured.now())
                    return value
                failure = "identity transformer tried to read encrypted data"
            elif value.startswith(provider.prefix):
                started = measured.now()
                try:
                    found = provider.secret.decrypt(bound, value[len(provider.prefix) :])
                except Unreadable as error:
                    measured.failed()
                    why = str(error)
                else:
                    measured.done(started)
                    return found
        if value.startswith(ENCRYPTED):  # what follows the name of the provider and of its key is secret
            failure = f'{why or failure}; it is encrypted as "{encryption_prefix(value)}"'
        raise Untransformable(key, failure)
