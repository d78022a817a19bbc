"""How certificate signing requests look in tables."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import NONE, human_duration, object_age, printers
from bayplan.api.types import certificates_v1


def _state(csr: certificates_v1.CertificateSigningRequest) -> str:
    types = {condition.type for condition in csr.status.conditions}
    found = ["Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"]
    if "Failed" in types:
        found.append("Failed")
    if csr.status.certificate:
        found.append("Issued")
    return ",".join(found)


def _request(obj: certificates_v1.CertificateSigningRequest, now: float) -> list[Any]:
    spec = obj.spec
    duration = NONE if spec.expiration_seconds is None else human_duration(spec.expiration_seconds)
    return [obj.metadata.name, object_age(obj, now), spec.signer_name or NONE, spec.username, duration, _state(obj)]


PRINTERS = printers("certificates", {"CertificateSigningRequest": _request})
