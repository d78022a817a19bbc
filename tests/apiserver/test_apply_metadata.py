"""Applied configurations whose metadata is no map are refused as Kubernetes refuses them, whether the object exists or not."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from bayplan.api.types import coordination_v1, meta_v1
from bayplan.apiserver.in_process import InProcessDoor
from tests.apiserver.serving import ADMIN, client_of, opened

PATH = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a"


@pytest.mark.parametrize("metadata", ["x", [[1]], 5, True])
@pytest.mark.parametrize("exists", [False, True])
def test_metadata_that_is_no_map_is_refused(metadata: object, exists: bool) -> None:
    async def main() -> tuple[int, bytes]:
        async with opened() as api:
            if exists:
                name = meta_v1.ObjectMeta(name="a", namespace="default")
                await client_of(api).create(coordination_v1.Lease(metadata=name))
            body = msgspec.json.encode({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata})
            door = InProcessDoor(api, ADMIN)
            return await door.call("PATCH", PATH, {"fieldManager": "x"}, body, "application/apply-patch+yaml")

    code, answer = asyncio.run(main())
    assert code == 500
    assert b"failed to create typed patch object" in answer
    assert b".metadata: expected map" in answer
