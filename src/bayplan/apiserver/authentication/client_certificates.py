"""Certificates of clients: whose user they name, and which of them belong to front proxies.

A connection's certificate is verified against the authority of users and that of front proxies, each by itself: TLS trusts both, and does not tell which of
them vouches. Source: Kubernetes' `pkg/authentication/request/x509`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from bayplan.apiserver.authentication.authenticator import with_authenticated
from bayplan.apiserver.requests import User
from bayplan.support.memory.memo import Memo

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.x509.verification import ClientVerifier, Policy

CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
_UID: Final = "1.3.6.1.4.1.57683.2"
"""The subject attribute that Kubernetes has registered for uids."""
_KNOWN_BYTES: Final = 32 << 20
_USER_BYTES: Final = 1500
"""Of what is remembered of a certificate, besides itself."""
_UNKNOWN: Final = "x509: certificate signed by unknown authority"


class AuthorityError(ValueError):
    """A file holds no certificates of authorities."""


class NotVouchedFor(Exception):
    """No certificate of an authority vouches for a client's certificate; the message says why."""


class Authority:
    """Certificates (PEM) that vouch for clients."""

    def __init__(self, pem: bytes) -> None:
        """Raises AuthorityError."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.x509.verification import Store

        try:
            self.certificates = x509.load_pem_x509_certificates(pem)
        except ValueError as error:
            raise AuthorityError("data does not contain any valid RSA or ECDSA certificates") from error
        self.pem = pem
        self._store = Store(self.certificates)
        self._ed25519 = [one for one in self.certificates if isinstance(one.public_key(), Ed25519PublicKey)]
        """Those whose signatures the verifier does not take."""

    def verify(self, chain: Sequence[x509.Certificate], now: float) -> float:
        """When the trust in a client's certificate ends (Unix seconds). chain: that certificate, then others that it may need. Raises NotVouchedFor."""
        from cryptography import x509
        from cryptography.x509.verification import VerificationError

        leaf, *others = chain
        if (
            leaf.version is x509.Version.v1
        ):  # without extensions, as `openssl x509 -req` makes them: the verifier does not take them
            return _verify_directly(self.certificates, leaf, now)
        try:
            verified = self._verifier(now).verify(leaf, others).chain
        except VerificationError as error:
            if self._ed25519:
                return _verify_directly(self._ed25519, leaf, now)
            raise NotVouchedFor(f"{_UNKNOWN}: {error}") from error
        return min(one.not_valid_after_utc.timestamp() for one in verified)

    def _verifier(self, now: float) -> ClientVerifier:
        from cryptography import x509
        from cryptography.x509.verification import Criticality, ExtensionPolicy, PolicyBuilder

        anything = ExtensionPolicy.permit_all()
        issuers = anything.require_present(x509.BasicConstraints, Criticality.AGNOSTIC, None)
        clients = anything.may_be_present(x509.ExtendedKeyUsage, Criticality.AGNOSTIC, _check_usage)
        builder = PolicyBuilder().store(self._store).time(datetime.fromtimestamp(now, UTC))
        return builder.extension_policies(ca_policy=issuers, ee_policy=clients).build_client_verifier()


def _verify_directly(issuers: Sequence[x509.Certificate], leaf: x509.Certificate, now: float) -> float:
    """When the trust in a client's certificate ends that one of these authorities must have signed itself. Raises NotVouchedFor."""
    from cryptography import x509

    ends = leaf.not_valid_after_utc.timestamp()
    if not leaf.not_valid_before_utc.timestamp() <= now <= ends:
        raise NotVouchedFor("x509: certificate has expired or is not yet valid")
    for issuer in issuers:
        issuer_ends = issuer.not_valid_after_utc.timestamp()
        if issuer.not_valid_before_utc.timestamp() <= now <= issuer_ends and _has_signed(issuer, leaf):
            try:
                _check_usage(None, leaf, leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
            except x509.ExtensionNotFound:
                pass  # it may be used for anything
            except ValueError as error:
                raise NotVouchedFor(f"x509: {error}") from error
            return min(ends, issuer_ends)
    raise NotVouchedFor(_UNKNOWN)


def _check_usage(policy: Policy | None, certificate: x509.Certificate, usage: x509.ExtendedKeyUsage | None) -> None:
    """Raises ValueError for a certificate that is not for clients."""
    from cryptography.x509.oid import ExtendedKeyUsageOID

    wanted = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)
    if usage is not None and not any(one in usage for one in wanted):
        raise ValueError("certificate specifies an incompatible key usage")


def _has_signed(issuer: x509.Certificate, leaf: x509.Certificate) -> bool:
    """Whether an authority has signed a certificate. One that says that it is none has not."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    try:
        constraints = issuer.extensions.get_extension_for_class(x509.BasicConstraints).value
        leaf.verify_directly_issued_by(issuer)
    except (x509.ExtensionNotFound, ValueError, TypeError, InvalidSignature):
        return False
    return constraints.ca


@dataclass(frozen=True, slots=True)
class FrontProxies:
    """Who may say in headers who asks: clients with a certificate of an authority and one of these common names (any if there are none)."""

    authority: Authority
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Certified:
    """What a connection's certificate is good for."""

    user: User | None = None
    """Whom it names, if the authority of users vouches for it."""
    is_front_proxy: bool = False
    """Whether its requests may say in headers who asks."""
    not_after: float = float("inf")
    """Unix seconds: it is good for nothing later."""
    problem: str = ""
    """Why it names no user; "" if it does, or has no name."""


NO_CERTIFICATE: Final = Certified()


class ClientCertificates:
    """What the certificates of connections are good for. A certificate is verified once, until the authorities change."""

    def __init__(self, users: Authority | None = None, front_proxies: FrontProxies | None = None) -> None:
        """users: who vouches for users; None: whoever TLS trusts, if front proxies have no authority of their own."""
        self._users = users
        self._front_proxies = front_proxies
        self._known: Memo[bytes, Certified] = Memo("client_certificates", most_bytes=_KNOWN_BYTES)

    def replace(self, users: Authority | None, front_proxies: FrontProxies | None) -> None:
        """Believe others from now on."""
        self._users, self._front_proxies = users, front_proxies
        self._known.clear()

    def of(self, transport: asyncio.BaseTransport | None, now: float) -> Certified:
        """What the certificate of a connection, which TLS has verified, is good for."""
        tls = transport.get_extra_info("ssl_object") if transport is not None else None
        leaf: bytes | None = tls.getpeercert(True) if tls is not None else None
        if tls is None or not leaf:
            return NO_CERTIFICATE
        found = self._known.get(leaf)
        if found is None:
            found = self.judge(_presented(tls) or (leaf,), now)
            self._known.put(leaf, found, _USER_BYTES + len(leaf))
        if now > found.not_after:
            return replace(found, user=None, is_front_proxy=False, problem="x509: certificate has expired")
        return found

    def judge(self, presented: Sequence[bytes], now: float) -> Certified:
        """What a certificate (DER), with others after it that it may need, is good for."""
        from cryptography.exceptions import UnsupportedAlgorithm

        try:
            return self._judge(presented, now)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:  # which TLS has taken, but nobody can read
            return Certified(problem=f"x509: malformed certificate: {error}")

    def _judge(self, presented: Sequence[bytes], now: float) -> Certified:
        """Raises ValueError, TypeError, UnsupportedAlgorithm."""
        from cryptography import x509

        chain = [x509.load_der_x509_certificate(one) for one in presented]
        ends = [chain[0].not_valid_after_utc.timestamp()]
        user, problem = user_of_certificate(chain[0]), ""
        if self._users is not None:
            try:
                ends.append(self._users.verify(chain, now))
            except NotVouchedFor as error:
                user, problem = None, f"verifying certificate failed: {error}"
        elif self._front_proxies is not None:
            user, problem = None, "nobody vouches for certificates of users"
        is_front_proxy = False
        if self._front_proxies is not None:
            is_front_proxy, end = _judge_front_proxy(self._front_proxies, chain, now)
            ends.append(end)
        return Certified(user, is_front_proxy, min(ends), problem)


def _judge_front_proxy(proxies: FrontProxies, chain: Sequence[x509.Certificate], now: float) -> tuple[bool, float]:
    """Whether a certificate belongs to a front proxy, and when that ends."""
    try:
        end = proxies.authority.verify(chain, now)
    except NotVouchedFor:
        return False, float("inf")
    names = _values(chain[0], "2.5.4.3")
    if proxies.names and (names[-1] if names else "") not in proxies.names:
        return False, float("inf")
    return True, end


def _presented(tls: ssl.SSLObject) -> tuple[bytes, ...]:
    """The certificates (DER) that a client has sent, its own first; none if TLS has resumed a session without them."""
    public: Callable[[], Iterable[bytes]] | None = getattr(tls, "get_unverified_chain", None)
    if public is not None:
        return tuple(public())
    inner: Any = tls._sslobj  # type: ignore[attr-defined]  # public as of Python 3.13 only
    return tuple(one.public_bytes(2) for one in inner.get_unverified_chain() or ())


def _values(certificate: x509.Certificate, oid: str) -> tuple[str, ...]:
    """The values of an attribute of the subject."""
    from cryptography.x509.oid import ObjectIdentifier

    return tuple(str(one.value) for one in certificate.subject.get_attributes_for_oid(ObjectIdentifier(oid)))


def user_of_certificate(certificate: x509.Certificate) -> User | None:
    """Whom a certificate names: common name, organizations as groups, and the uid if there is one. None if it has no common name."""
    from cryptography.hazmat.primitives import hashes

    names, uids = _values(certificate, "2.5.4.3"), _values(certificate, _UID)
    if not names or not names[-1] or len(uids) > 1:
        return None
    fingerprint = certificate.fingerprint(hashes.SHA256()).hex()
    groups = with_authenticated(_values(certificate, "2.5.4.10"))
    return User(names[-1], groups, uids[0] if uids else "", {CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)})
