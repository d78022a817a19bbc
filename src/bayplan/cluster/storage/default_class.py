"""The default storage class of a cluster with simulated nodes: claims get local volumes, as clusters on one machine have them."""

from __future__ import annotations

from bayplan.api.errors import ApiError
from bayplan.api.types import meta_v1, storage_v1
from bayplan.apiserver.admission.default_storage_class import DEFAULT_ANNOTATIONS
from bayplan.client import Client
from bayplan.controllers.volumes.volume_binder import PROVISIONER

NAME = "standard"


async def publish_storage_class(client: Client) -> None:
    """Make the class, unless there is one of that name, or another default one already. Raises ApiError."""
    known = (await client.list(storage_v1.StorageClass)).items
    if any(one.metadata.annotations.get(mark) == "true" for one in known for mark in DEFAULT_ANNOTATIONS):
        return
    storage_class = storage_v1.StorageClass(
        metadata=meta_v1.ObjectMeta(name=NAME, annotations={DEFAULT_ANNOTATIONS[0]: "true"}),
        provisioner=PROVISIONER,
        reclaim_policy="Delete",
        volume_binding_mode="WaitForFirstConsumer",
        allow_volume_expansion=True,
    )
    try:
        await client.create(storage_class)
    except ApiError as error:
        if error.status.reason != "AlreadyExists":
            raise
