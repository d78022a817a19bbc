"""Messages of the drivers of dynamic resources (`dra.v1` and `dra.v1beta1`, which have the same fields)."""

from __future__ import annotations

from typing import Any, Final

from bayplan.support.message_tables import message_classes

KIND: Final = "DRAPlugin"
"""What such drivers say they are when they register themselves."""
SERVICES: Final = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
"""What the kubelet can speak, the newest first."""

MESSAGES: Final[dict[str, Any]] = message_classes(
    "dra",
    {
        "Claim": "namespace: string, uid: string, name: string",
        "Device": (
            "request_names: [string], pool_name: string, device_name: string, cdi_device_ids: [string], share_id: string"
        ),
        "PreparedClaim": "devices: [Device], error: string",
        "UnpreparedClaim": "error: string",
        "PreparedEntry": "key: string, value: PreparedClaim",
        "UnpreparedEntry": "key: string, value: UnpreparedClaim",
        "ClaimsRequest": "claims: [Claim]",
        "PrepareResponse": "claims: [PreparedEntry]",
        "UnprepareResponse": "claims: [UnpreparedEntry]",
    },
)
"""Maps of the interface are lists of entries here, as they are sent."""


def method(service: str, name: str) -> str:
    """The full name of a method. service: one of `SERVICES`."""
    return f"/k8s.io.kubelet.pkg.apis.dra.{service}/{name}"
