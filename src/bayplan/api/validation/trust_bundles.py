"""Rules of bundles of trust anchors.

Source: Kubernetes' `pkg/apis/certificates/validation`.
"""

from __future__ import annotations

from typing import Final

from cryptography import x509

from bayplan.api.errors import FieldError, invalid, too_long
from bayplan.api.validation.fields import Errors
from bayplan.api.validation.values import formats
from bayplan.api.validation.values.der import PemBlock, pem_blocks

_LONGEST: Final = 1 << 20
_OMITTED: Final = "<value omitted>"


def bundle_name_errors(name: str, signer: str) -> list[FieldError]:
    """What is wrong with the name of a bundle of a signer, or of nobody's ("")."""
    prefix = f"{signer.replace('/', ':')}:" if signer else ""
    if not signer and ":" in name:
        text = 'ClusterTrustBundle without signer name must not have ":" in its name'
        return [invalid("metadata.name", name, text)]
    if not name.startswith(prefix):
        text = f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"
        return [invalid("metadata.name", name, text)]
    return [invalid("metadata.name", name, one) for one in formats.dns_subdomain(name.removeprefix(prefix))]


def check_trust_bundle(errors: Errors, path: str, text: str) -> None:
    """At least one certificate of an authority in PEM, and none twice."""
    data = text.encode()
    if len(data) > _LONGEST:
        errors.append(too_long(path, _LONGEST))
        return
    found: dict[bytes, list[int]] = {}
    is_malformed = False
    for index, block in enumerate(pem_blocks(data)):
        if problem := _problem(block):
            errors.append(invalid(path, _OMITTED, f"entry {index} {problem}"))
            is_malformed = True
        else:
            found.setdefault(block.content, []).append(index)
    if is_malformed:
        return
    if not found:
        errors.append(invalid(path, _OMITTED, "at least one trust anchor must be provided"))
    for places in found.values():
        if len(places) > 1:
            shown = " ".join(map(str, places))
            errors.append(invalid(path, _OMITTED, f"duplicate trust anchor (indices [{shown}])"))


def _problem(block: PemBlock) -> str:
    """Why a block is no trust anchor; "" if it is one."""
    if block.type != "CERTIFICATE":
        return f"has bad block type: {block.type}"
    if block.has_headers:
        return "has PEM block headers"
    try:
        certificate = x509.load_der_x509_certificate(block.content)
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        return "does not have the CA bit set"
    except ValueError:
        return "does not parse as X.509"
    return "" if constraints.ca else "does not have the CA bit set"
