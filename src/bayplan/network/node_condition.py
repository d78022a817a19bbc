"""What the Node object says of its pod network."""

from __future__ import annotations

from typing import Any, Final

from bayplan.api.types import core_v1
from bayplan.network.settings import DataPlane
from bayplan.support.timestamps import rfc3339

_TYPE: Final = "NetworkUnavailable"
_REASONS: Final = {DataPlane.OVERLAY: "OverlayIsUp", DataPlane.ROUTED: "RoutesAreSet"}
_MESSAGES: Final = {
    DataPlane.OVERLAY: "pods of other nodes are reached by VXLAN",
    DataPlane.ROUTED: "pods of other nodes are reached by routes",
}


def network_available(node: core_v1.Node, data_plane: DataPlane, now: float) -> dict[str, Any] | None:
    """A strategic merge patch of the status by which a node has a network; None if it says so already. now: Unix time."""
    reason = _REASONS[data_plane]
    old = next((each for each in node.status.conditions if each.type == _TYPE), None)
    if old is not None and old.status == "False" and old.reason == reason:
        return None
    time = rfc3339(now)
    since = time if old is None or old.status != "False" or not old.last_transition_time else old.last_transition_time
    return {
        "status": {
            "conditions": [
                {
                    "type": _TYPE,
                    "status": "False",
                    "reason": reason,
                    "message": _MESSAGES[data_plane],
                    "lastHeartbeatTime": time,
                    "lastTransitionTime": since,
                }
            ]
        }
    }
