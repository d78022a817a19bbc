"""Keys that sign and verify tokens, and how they are published. PyJWT signs and verifies. Source: Kubernetes' `pkg/serviceaccount/jwt.go`.

`jwt` and `cryptography` are imported when a key is first needed: most servers of tests and simulations never need one. What a token of another issuer
says is looked at without them, and bounded: clients send what they like.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from bayplan.api.json.nesting import EXCEEDED, is_too_deep

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey
    PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

_RSA_BITS = 2048
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_PUBLISHED = ("kty", "crv", "x", "y", "n", "e")
"""Members of a JSON web key that say what the key is."""
MAX_TOKEN_LETTERS = 1 << 20
"""No longer token is looked at: no header of HTTP is longer, in Go."""
_MAX_HEADER_LETTERS = 8192


class KeyFileError(ValueError):
    """A key file holds no key that tokens can be signed or verified with."""


class TokenError(ValueError):
    """A token cannot be read, or nobody here signed it."""


def decode_part(text: str) -> bytes:
    """Bytes from base64 for URLs, without padding. Raises TokenError."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise TokenError(str(error)) from error


def make_signing_key() -> bytes:
    """A new RSA key (PEM)."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def public_pem(private: bytes) -> bytes:
    """The public key of a private one (both PEM)."""
    from cryptography.hazmat.primitives import serialization

    key = _private_key(private).public_key()
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _private_key(pem: bytes) -> PrivateKey:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    try:
        key = serialization.load_pem_private_key(pem, None)
    except TypeError as error:
        raise KeyFileError("the private key is encrypted, and nothing says with which password") from error
    except ValueError as error:
        raise KeyFileError("there is no private key in PEM in it") from error
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise KeyFileError("only RSA and ECDSA keys sign tokens")
    return key


def _public_keys(pem: bytes) -> list[PublicKey]:
    """All keys of a file: public keys, certificates and the public halves of private keys. Raises KeyFileError."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    found: list[PublicKey] = []
    for block in _blocks(pem):
        try:
            if b"PRIVATE KEY" in block:
                found.append(_private_key(block).public_key())
                continue
            is_certificate = b"BEGIN CERTIFICATE" in block
            key = (
                x509.load_pem_x509_certificate(block).public_key()
                if is_certificate
                else serialization.load_pem_public_key(block)
            )
        except KeyFileError:
            raise
        except ValueError as error:
            raise KeyFileError(f"one of its keys cannot be read: {error}") from error
        if not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
            raise KeyFileError("only RSA and ECDSA keys verify tokens")
        found.append(key)
    if not found:
        raise KeyFileError("there is no key in it")
    return found


def check_signing_key(pem: bytes) -> None:
    """Raises KeyFileError for what is no key that signs."""
    VerificationKey(_private_key(pem).public_key())


def check_verifying_keys(pem: bytes) -> None:
    """Raises KeyFileError for what is not one key or several that verify."""
    for key in _public_keys(pem):
        VerificationKey(key)


def _blocks(pem: bytes) -> list[bytes]:
    parts = pem.split(b"-----BEGIN ")
    return [b"-----BEGIN " + part for part in parts[1:] if b"PARAMETERS" not in part.partition(b"-----")[0]]


class VerificationKey:
    """One public key: its algorithm, its id, and how it is published."""

    def __init__(self, key: PublicKey) -> None:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        self._key = key
        der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.key_id = base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()
        if isinstance(key, rsa.RSAPublicKey):
            self.algorithm = "RS256"
        elif key.curve.name in _CURVES:
            self.algorithm = _CURVES[key.curve.name]
        else:
            raise KeyFileError(f"keys of the curve {key.curve.name} do not verify tokens")

    def jwk(self) -> dict[str, str]:
        """The key as a JSON web key."""
        from cryptography.hazmat.primitives.asymmetric import rsa
        from jwt.algorithms import ECAlgorithm, RSAAlgorithm

        public = self._key
        if isinstance(public, rsa.RSAPublicKey):
            made = RSAAlgorithm.to_jwk(public, as_dict=True)
        else:
            made = ECAlgorithm.to_jwk(public, as_dict=True)
        key = {name: made[name] for name in _PUBLISHED if name in made}
        return {"use": "sig", "kid": self.key_id, "alg": self.algorithm, **key}

    def verifies(self, token: str) -> bool:
        """Whether the token is signed with this key."""
        import jwt

        try:
            jwt.PyJWS().decode_complete(token, self._key, algorithms=[self.algorithm])
        except jwt.PyJWTError:
            return False
        return True


class TokenKeys:
    """The key that signs and all keys that verify. Made or read when first needed.

    signing: gives the private key (PEM). verifying: PEM files with further keys. Raises KeyFileError at the first use if a key is none.
    """

    def __init__(self, signing: Callable[[], bytes], verifying: Sequence[bytes] = ()) -> None:
        self._signing = signing
        self._verifying = tuple(verifying)
        self._private: PrivateKey | None = None
        self._public: list[VerificationKey] | None = None

    def replace(self, others: TokenKeys) -> None:
        """Sign and verify with the keys of others from now on. Raises KeyFileError, and changes nothing, if they are none."""
        private, public = others.private(), others.public()
        self._private, self._public = private, public

    def private(self) -> PrivateKey:
        """The key that signs."""
        if self._private is None:
            self._private = _private_key(self._signing())
        return self._private

    def public(self) -> list[VerificationKey]:
        """All keys that verify, the one of the signing key first."""
        if self._public is None:
            keys = [VerificationKey(self.private().public_key())]
            keys += [VerificationKey(key) for pem in self._verifying for key in _public_keys(pem)]
            self._public = list({key.key_id: key for key in keys}.values())
        return self._public

    def sign(self, claims: dict[str, Any]) -> str:
        """A token that states the claims."""
        import jwt

        public = self.public()[0]
        headers = {"typ": None, "kid": public.key_id}  # Kubernetes' tokens have no type
        return jwt.PyJWS().encode(msgspec.json.encode(claims), self.private(), public.algorithm, headers)

    def verify(self, token: str) -> dict[str, Any]:
        """The claims of a token that one of the keys signed. Raises TokenError."""
        header, payload = opened(token)
        candidates = [key for key in self.public() if header.kid in ("", key.key_id)]
        if not candidates:
            raise TokenError("invalid signature, no keys found")
        if not any(key.algorithm == header.alg and key.verifies(token) for key in candidates):
            raise TokenError("invalid signature")
        try:
            return msgspec.json.decode(payload, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise TokenError(str(error)) from error

    def jwks(self) -> bytes:
        """The public keys as a JSON web key set."""
        return msgspec.json.encode({"keys": [key.jwk() for key in self.public()]})

    def algorithms(self) -> list[str]:
        """What tokens may be signed with."""
        return sorted({key.algorithm for key in self.public()})


class TokenHeader(msgspec.Struct):
    """What is looked at before a signature is."""

    alg: str
    kid: str = ""
    crit: msgspec.Raw = msgspec.Raw()
    b64: bool = True


class _Issued(msgspec.Struct):
    """Whose token it may be."""

    iss: str = ""


def unverified_issuer(token: str) -> str:
    """Who issued a token by its own account, whoever signed it; "" if it is no JWT at all. Costs milliseconds at most."""
    try:
        return msgspec.json.decode(opened(token)[1], type=_Issued).iss
    except (TokenError, msgspec.DecodeError):
        return ""


def opened(token: str) -> tuple[TokenHeader, bytes]:
    """Header and payload of a token. Raises TokenError for what no key here can have signed, whatever the signature."""
    parts = token.split(".", 3) if len(token) <= MAX_TOKEN_LETTERS else []
    if len(parts) != 3 or len(parts[0]) > _MAX_HEADER_LETTERS:
        raise TokenError("a token has three parts")
    head, payload, _ = (decode_part(part) for part in parts)
    if is_too_deep(head) or is_too_deep(payload):
        raise TokenError(EXCEEDED)
    try:
        header = msgspec.json.decode(head, type=TokenHeader)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TokenError(str(error)) from error
    if header.crit or not header.b64:
        raise TokenError("the header asks for what is not known here")
    return header, payload
