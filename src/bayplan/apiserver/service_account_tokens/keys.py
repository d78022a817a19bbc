"""Keys that sign and verify tokens, and the JSON forms (JWT, JWKS) around them. Source: RFC 7515, 7517, 7518 and Kubernetes' `pkg/serviceaccount/jwt.go`.

`cryptography` is imported when a key is first needed: most servers of tests and simulations never need one.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey
    PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

_RSA_BITS = 2048
_CURVES = {
    "secp256r1": ("ES256", "P-256", 32),
    "secp384r1": ("ES384", "P-384", 48),
    "secp521r1": ("ES512", "P-521", 66),
}


class KeyFileError(ValueError):
    """A key file holds no key that tokens can be signed or verified with."""


class TokenError(ValueError):
    """A token cannot be read, or nobody here signed it."""


def encode_part(data: bytes) -> str:
    """Base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_part(text: str) -> bytes:
    """The reverse. Raises TokenError."""
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
    except (ValueError, TypeError) as error:
        raise KeyFileError(f"no private key: {error}") from error
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
        except ValueError as error:
            raise KeyFileError(f"no public key: {error}") from error
        if not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
            raise KeyFileError("only RSA and ECDSA keys verify tokens")
        found.append(key)
    if not found:
        raise KeyFileError("there is no key in it")
    return found


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
        self.key_id = encode_part(hashlib.sha256(der).digest())
        self._width = 0
        if isinstance(key, rsa.RSAPublicKey):
            self.algorithm = "RS256"
            numbers = key.public_numbers()
            self._public: dict[str, str] = {"kty": "RSA", "n": _number(numbers.n), "e": _number(numbers.e)}
        else:
            self.algorithm, curve, self._width = _CURVES[key.curve.name]
            point = key.public_numbers()
            x, y = _number(point.x, self._width), _number(point.y, self._width)
            self._public = {"kty": "EC", "crv": curve, "x": x, "y": y}

    def jwk(self) -> dict[str, str]:
        """The key as a JSON web key."""
        return {"use": "sig", "kid": self.key_id, "alg": self.algorithm, **self._public}

    def verifies(self, signed: bytes, signature: bytes) -> bool:
        """Whether the signature is this key's."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

        try:
            if isinstance(self._key, rsa.RSAPublicKey):
                self._key.verify(signature, signed, padding.PKCS1v15(), _hash(self.algorithm))
            else:
                half = self._width
                pair = int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big")
                self._key.verify(utils.encode_dss_signature(*pair), signed, ec.ECDSA(_hash(self.algorithm)))
        except InvalidSignature:
            return False
        return True


def _number(value: int, width: int = 0) -> str:
    return encode_part(value.to_bytes(width or (value.bit_length() + 7) // 8, "big"))


def _hash(algorithm: str) -> Any:
    from cryptography.hazmat.primitives import hashes

    return {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}[algorithm[2:]]


class TokenKeys:
    """The key that signs and all keys that verify. Made or read when first needed.

    signing: gives the private key (PEM). verifying: PEM files with further keys. Raises KeyFileError at the first use if a key is none.
    """

    def __init__(self, signing: Callable[[], bytes], verifying: Sequence[bytes] = ()) -> None:
        self._signing = signing
        self._verifying = tuple(verifying)
        self._private: PrivateKey | None = None
        self._public: list[VerificationKey] | None = None

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
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

        key, public = self.private(), self.public()[0]
        header = {"alg": public.algorithm, "kid": public.key_id}
        parts = [encode_part(msgspec.json.encode(header)), encode_part(msgspec.json.encode(claims))]
        signed = ".".join(parts).encode()
        if isinstance(key, rsa.RSAPrivateKey):
            signature = key.sign(signed, padding.PKCS1v15(), _hash(public.algorithm))
        else:
            width = (key.curve.key_size + 7) // 8
            one, other = utils.decode_dss_signature(key.sign(signed, ec.ECDSA(_hash(public.algorithm))))
            signature = one.to_bytes(width, "big") + other.to_bytes(width, "big")
        return ".".join((*parts, encode_part(signature)))

    def verify(self, token: str) -> dict[str, Any]:
        """The claims of a token that one of the keys signed. Raises TokenError."""
        header, claims, signature = _decoded(token)
        signed = token.rpartition(".")[0].encode()
        key_id, algorithm = header.get("kid", ""), header.get("alg", "")
        candidates = [key for key in self.public() if key.algorithm == algorithm]
        candidates.sort(key=lambda key: key.key_id != key_id)
        if not any(key.verifies(signed, signature) for key in candidates):
            raise TokenError("invalid signature")
        return claims

    def jwks(self) -> bytes:
        """The public keys as a JSON web key set."""
        return msgspec.json.encode({"keys": [key.jwk() for key in self.public()]})

    def algorithms(self) -> list[str]:
        """What tokens may be signed with."""
        return sorted({key.algorithm for key in self.public()})


def unverified_claims(token: str) -> dict[str, Any] | None:
    """What a token claims, whoever signed it; None if it is no JWT at all."""
    try:
        return _decoded(token)[1]
    except TokenError:
        return None


def _decoded(token: str) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenError("a token has three parts")
    header_text, claims_text, signature = (decode_part(part) for part in parts)
    try:
        header, claims = msgspec.json.decode(header_text), msgspec.json.decode(claims_text)
    except msgspec.DecodeError as error:
        raise TokenError(str(error)) from error
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise TokenError("header and claims of a token are objects")
    return header, claims, signature
