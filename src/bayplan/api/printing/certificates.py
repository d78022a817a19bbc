"""How requests for certificates, and bundles of trust anchors, look in tables."""

from __future__ import annotations

from typing import Any

from bayplan.api.printing.base import NONE, human_duration, label_text, object_age, printers
from bayplan.api.types import certificates_v1, certificates_v1beta1


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


def _bundle(obj: certificates_v1beta1.ClusterTrustBundle, now: float) -> list[Any]:
    return [obj.metadata.name, obj.spec.signer_name or NONE]


def _pod_request(obj: certificates_v1beta1.PodCertificateRequest, now: float) -> list[Any]:
    spec, state = obj.spec, "Pending"
    for condition in obj.status.conditions:
        if condition.type in ("Issued", "Denied", "Failed"):
            state = condition.type
    return [
        obj.metadata.name,
        spec.pod_name,
        spec.service_account_name,
        spec.node_name,
        spec.signer_name,
        state,
        label_text(spec.unverified_user_annotations),
    ]


PRINTERS = printers(
    "certificates",
    {
        "CertificateSigningRequest": _request,
        "ClusterTrustBundle": _bundle,
        "PodCertificateRequest": _pod_request,
    },
)
