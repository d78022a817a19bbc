"""An operator written with kopf: every namespace labelled `team` gets a ResourceQuota, whose size an annotation chooses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import kopf
import kubernetes

SIZES = {"small": "10", "large": "100"}


@kopf.on.create("namespaces", labels={"team": kopf.PRESENT})
@kopf.on.update("namespaces", labels={"team": kopf.PRESENT}, annotations={"example.com/size": kopf.PRESENT})
def keep_quota(name: str, annotations: Mapping[str, str], **_: Any) -> None:
    """Create the quota, or change it."""
    wanted = SIZES.get(annotations.get("example.com/size", "small"))
    if wanted is None:
        raise kopf.PermanentError("example.com/size is neither small nor large")
    core: Any = kubernetes.client.CoreV1Api()
    quota = {"metadata": {"name": "team"}, "spec": {"hard": {"pods": wanted}}}
    try:
        core.create_namespaced_resource_quota(name, quota)
    except kubernetes.client.ApiException as error:
        if error.status != 409:
            raise
        core.patch_namespaced_resource_quota("team", name, quota)
