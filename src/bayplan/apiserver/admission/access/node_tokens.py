"""Which audiences a node may ask tokens for: those that a volume of the pod asks for, and those that a rule grants to the node.

Source: Kubernetes' NodeRestriction (ServiceAccountNodeAudienceRestriction).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayplan.api.errors import quoted
from bayplan.api.pods.references import claim_names
from bayplan.apiserver.admission.chain import AdmissionRequest
from bayplan.apiserver.authorization.attributes import Attributes
from bayplan.apiserver.authorization.interface import Decision

_VERB = "request-serviceaccounts-token-audience"


def check_audience(request: AdmissionRequest, pod: Any) -> str:
    """What is wrong with the audiences of a token request for a pod; "" if nothing is."""
    audiences = request.obj.spec.audiences
    if len(audiences) > 1:
        return "node may only request 0 or 1 audiences"
    wanted = audiences[0] if audiences else ""
    if wanted in set(_audiences(request, pod)):
        return ""
    user = request.call.request.user
    asked = Attributes(user, _VERB, version="v1", resource=wanted, namespace=request.namespace, name=request.name)
    if request.call.context.authorizer.authorize(asked).decision is Decision.ALLOW:
        return ""
    return (
        f"audience {quoted(wanted)} not found in pod spec volume, {user.name} is not authorized to request tokens "
        "for this audience"
    )


def _audiences(request: AdmissionRequest, pod: Any) -> Iterator[str]:
    """Audiences that the pod's volumes ask for; "" is that of the API server."""
    drivers = set()
    for volume in pod.spec.volumes:
        if volume.projected is not None:
            for source in volume.projected.sources:
                if source.service_account_token is not None:
                    yield source.service_account_token.audience
        if volume.csi is not None:
            drivers.add(volume.csi.driver)
    for name in claim_names(pod):
        drivers.add(_driver_of_claim(request, name))
    for driver in drivers:
        found = request.call.context.find("CSIDriver", "", driver, "storage.k8s.io/v1")
        for token in found.spec.token_requests if found is not None else ():
            yield token.audience


def _driver_of_claim(request: AdmissionRequest, name: str) -> str:
    find = request.call.context.find
    claim = find("PersistentVolumeClaim", request.namespace, name)
    volume = find("PersistentVolume", "", claim.spec.volume_name) if claim is not None else None
    return str(volume.spec.csi.driver) if volume is not None and volume.spec.csi is not None else ""
