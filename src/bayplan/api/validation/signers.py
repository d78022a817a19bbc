"""Names of signers of certificates, as `example.com/signer-name`.

Source: Kubernetes' `ValidateSignerName`.
"""

from __future__ import annotations

from typing import Final

from bayplan.api.errors import invalid, quoted, required, too_long
from bayplan.api.validation.fields import Errors
from bayplan.api.validation.values import formats

_LONGEST_DOMAIN: Final = 253
_LONGEST: Final = _LONGEST_DOMAIN + 1 + _LONGEST_DOMAIN + 63 + 1


def check_signer_name(errors: Errors, path: str, name: str) -> None:
    """A domain of at least two labels, a slash, and subdomains with dots between them."""
    if not name:
        errors.append(required(path))
        return
    domain, slash, rest = name.partition("/")
    if not slash or "/" in rest:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        errors.append(invalid(path, name, text))
        return
    if formats.size(domain) > _LONGEST_DOMAIN:
        errors.append(too_long(path, _LONGEST_DOMAIN))
    for label in domain.split("."):
        if problems := formats.dns_label(label):
            errors.extend(invalid(path, domain, f"validating label {quoted(label)}: {one}") for one in problems)
            break
    if "." not in domain:
        errors.append(invalid(path, domain, "should be a domain with at least two segments separated by dots"))
    for label in rest.split("."):
        if problems := formats.dns_subdomain(label):
            errors.extend(invalid(path, rest, f"validating label {quoted(label)}: {one}") for one in problems)
            break
    if formats.size(name) > _LONGEST:
        errors.append(too_long(path, _LONGEST))


def is_kubernetes_signer(name: str) -> bool:
    """Whether a signer is one of Kubernetes' own."""
    domain = name.partition("/")[0]
    return domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
