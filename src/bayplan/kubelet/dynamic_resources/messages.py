"""Messages of the drivers of dynamic resources (`dra.v1` and `dra.v1beta1`, which have the same fields)."""

from __future__ import annotations

from typing import Any, Final

from bayplan.support.grpc.message_tables import message_classes

KIND: Final = "DRAPlugin"
"""What such drivers say they are when they register themselves."""
SERVICES: Final = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
"""What the kubelet can speak, the newest first."""
WATCH_HEALTH: Final = "/v1alpha1.DRAResourceHealth/NodeWatchResources"
"""The stream of what a driver says of the health of its devices (`dra-health/v1alpha1`), which it may have."""

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
        "DeviceIdentifier": "pool_name: string, device_name: string",
        "DeviceHealth": (
            "device: DeviceIdentifier, health: int32, last_updated_time: int64, health_check_timeout_seconds: int64, message: string"
        ),
        "NodeWatchResourcesRequest": "",
        "NodeWatchResourcesResponse": "devices: [DeviceHealth]",
    },
)
"""Maps of the interface are lists of entries here, and enumerations numbers, as they are sent."""


def method(service: str, name: str) -> str:
    """The full name of a method. service: one of `SERVICES`."""
    return f"/k8s.io.kubelet.pkg.apis.dra.{service}/{name}"
