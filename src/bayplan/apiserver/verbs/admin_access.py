"""Where devices may be had that others use: in namespaces that are marked for it.

Source: KEP-5018.
"""

from __future__ import annotations

from typing import Any

from bayplan.api.errors import FieldError, forbidden
from bayplan.apiserver.context import Call

_LABEL = "resource.kubernetes.io/admin-access"


def admin_access_problems(call: Call, obj: Any) -> list[FieldError]:
    """What is wrong with the first request for admin access of a new claim or claim template."""
    kind = call.stored
    if kind.group != "resource.k8s.io" or kind.kind not in ("ResourceClaim", "ResourceClaimTemplate"):
        return []
    spec = obj.spec.spec if kind.kind == "ResourceClaimTemplate" else obj.spec
    for index, request in enumerate(spec.devices.requests):
        if request.exactly is not None and request.exactly.admin_access:
            return gives_admin_access(call, obj.metadata.namespace, f"spec.devices.requests[{index}]")
    return []


def gives_admin_access(call: Call, namespace: str, path: str) -> list[FieldError]:
    """What is wrong with admin access in a namespace. path: where it is asked for."""
    if _is_marked(call, namespace):
        return []
    text = f"admin access to devices requires the `{_LABEL}: true` label on the containing namespace"
    return [forbidden(f"{path}.adminAccess", text)]


def _is_marked(call: Call, namespace: str) -> bool:
    found = call.context.find("Namespace", "", namespace)
    return found is not None and found.metadata.labels.get(_LABEL) == "true"
