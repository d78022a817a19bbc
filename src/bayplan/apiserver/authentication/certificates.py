"""Users of client certificates that TLS has verified: common name, organizations as groups, and the uid if there is one."""

from __future__ import annotations

import asyncio

from bayplan.apiserver.authentication.authenticator import with_authenticated
from bayplan.apiserver.requests import User

CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
_UID = "1.3.6.1.4.1.57683.2"
"""The subject attribute that Kubernetes has registered for uids."""


_LIMIT = 10_000
"""Certificates whose user is kept."""


class CertificateUsers:
    """The users of connections; a certificate is read once."""

    def __init__(self) -> None:
        self._known: dict[bytes, User | None] = {}

    def of(self, transport: asyncio.BaseTransport | None) -> User | None:
        """The user of a connection, or None if it has no certificate or one without a name."""
        if transport is None or not transport.get_extra_info("peercert"):
            return None
        der: bytes = transport.get_extra_info("ssl_object").getpeercert(True)
        if der not in self._known:
            if len(self._known) >= _LIMIT:
                self._known.clear()
            self._known[der] = user_of_certificate(der)
        return self._known[der]


def user_of_certificate(der: bytes) -> User | None:
    """The user that a certificate (DER) names, or None if it has no common name."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID, ObjectIdentifier

    certificate = x509.load_der_x509_certificate(der)

    def values(oid: ObjectIdentifier) -> tuple[str, ...]:
        return tuple(str(attribute.value) for attribute in certificate.subject.get_attributes_for_oid(oid))

    names, uids = values(NameOID.COMMON_NAME), values(ObjectIdentifier(_UID))
    if not names or not names[-1] or len(uids) > 1:
        return None
    fingerprint = certificate.fingerprint(hashes.SHA256()).hex()
    groups = with_authenticated(values(NameOID.ORGANIZATION_NAME))
    return User(names[-1], groups, uids[0] if uids else "", {CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)})
