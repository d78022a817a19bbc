"""Volumes and claims that somebody makes by hand. Conformance: PersistentVolumes CSI Conformance."""

from __future__ import annotations

from bayplan.testing.cluster import eventually
from tests.integration.conformance.requests import STRATEGIC_PATCH, Object
from tests.integration.conformance.workloads import Space, Workloads

VOLUMES = "/api/v1/persistentvolumes"


async def volume_and_claim(space: Space) -> tuple[str, str]:
    """Create a volume and a claim of one class that is nobody's; returns their names, which the server makes."""
    modes, amount = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"], {"storage": "2Gi"}
    volume = {
        "metadata": {"generateName": f"{space.name}-", "labels": {"volumes-of": space.name}},
        "spec": {
            "capacity": amount,
            "accessModes": modes,
            "storageClassName": space.name,
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": "trial.example.com", "volumeHandle": "trial"},
        },
    }
    claim = {
        "metadata": {"generateName": "claim-"},
        "spec": {"accessModes": modes, "resources": {"requests": amount}, "storageClassName": space.name},
    }
    made = await space.api.create(VOLUMES, volume)
    wanted = await space.api.create(space.core("persistentvolumeclaims"), claim)
    return made["metadata"]["name"], wanted["metadata"]["name"]


async def emptied(space: Space, path: str, chosen: str) -> None:
    """Wait until nothing with these labels is left."""

    async def none() -> bool:
        return not await space.api.names(path, labelSelector=chosen)

    await eventually(none)


async def label(space: Space, path: str, name: str) -> None:
    """Patch an object: it gets a label, another revision, and keeps its identity."""
    before = await space.api.get(f"{path}/{name}")
    patched = await space.api.patch(f"{path}/{name}", {"metadata": {"labels": {name: "patched"}}}, STRATEGIC_PATCH)
    assert patched["metadata"]["labels"][name] == "patched"
    assert int(patched["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])
    assert (await space.api.get(f"{path}/{name}"))["metadata"]["uid"] == before["metadata"]["uid"]


def test_the_life_of_a_volume_and_a_claim(workloads: Workloads) -> None:
    """PersistentVolumes CSI Conformance should run through the lifecycle of a PV and a PVC."""

    async def scenario(space: Space) -> None:
        claims, mine = space.core("persistentvolumeclaims"), f"volumes-of={space.name}"
        volume, claim = await volume_and_claim(space)
        assert await space.api.names(VOLUMES, labelSelector=mine) == [volume]
        assert await space.api.names(claims) == [claim]
        await label(space, VOLUMES, volume)
        await label(space, claims, claim)
        await space.api.delete(f"{claims}/{claim}")
        await emptied(space, claims, "")
        await space.api.delete(f"{VOLUMES}/{volume}")
        await emptied(space, VOLUMES, mine)

        volume, claim = await volume_and_claim(space)

        def update(one: Object) -> None:
            one["metadata"].setdefault("labels", {})[one["metadata"]["name"]] = "updated"

        await space.changed(f"{VOLUMES}/{volume}", update)
        updated = await space.changed(f"{claims}/{claim}", update)
        assert updated["metadata"]["labels"][claim] == "updated"
        everywhere = await space.api.names("/api/v1/persistentvolumeclaims", labelSelector=f"{claim}=updated")
        assert everywhere == [claim]
        await space.api.delete(claims, labelSelector=f"{claim}=updated")
        await emptied(space, claims, f"{claim}=updated")
        await space.api.delete(VOLUMES, labelSelector=f"{volume}=updated")
        await emptied(space, VOLUMES, f"{volume}=updated")

    workloads.run(scenario)
