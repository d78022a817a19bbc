"""A pod does not wait for a volume for ever that its node has no place for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import storage_v1
from bayplan.api.volume_attachments import attachment_name
from bayplan.kubelet.volumes.errors import AttachLimitError, VolumeError
from bayplan.testing.csi_driver import NAME
from tests.kubelet.csi.scenario import NODE, CsiNode, play, pod_of

EXHAUSTED = {"errorCode": 8, "message": "attachment limit exceeded", "time": "2026-01-02T03:04:05Z"}


@pytest.mark.parametrize(
    ("period", "error", "is_limit"),
    [
        (600, EXHAUSTED, True),
        (600, {**EXHAUSTED, "errorCode": 13}, False),
        (600, None, False),
        (None, EXHAUSTED, False),
    ],
)
def test_a_limit_is_what_the_drivers_controller_says(
    tmp_path: Path, period: int | None, error: dict[str, Any] | None, is_limit: bool
) -> None:
    async def test(here: CsiNode) -> None:
        await here.start(attachRequired=True, nodeAllocatableUpdatePeriodSeconds=period)
        volume = await here.volume()
        name = attachment_name(NAME, "volume-1", NODE)
        spec = {"attacher": NAME, "nodeName": NODE, "source": {"persistentVolumeName": "pv"}}
        await here.client.create(from_tree(storage_v1.VolumeAttachment, {"metadata": {"name": name}, "spec": spec}))
        if error is not None:
            status = {"status": {"attached": False, "attachError": error}}
            await here.client.patch(storage_v1.VolumeAttachment, name, "", status, subresource="status")
        here.driver.max_volumes = 3
        began = here.clock.monotonic()
        with pytest.raises(VolumeError) as found:
            await here.manager.wait_for_mounts(pod_of(volume))
        assert 120 < here.clock.monotonic() - began < 130
        assert isinstance(found.value, AttachLimitError) is is_limit
        waits = "unmounted volumes=[v], unattached volumes=[v], failed to process volumes=[]: context deadline exceeded"
        start = "Node has reached its volume attachment limit, rejecting pod. " if is_limit else ""
        assert str(found.value) == start + waits
        [driver] = (await here.client.get(storage_v1.CSINode, NODE)).spec.drivers
        count = driver.allocatable.count if driver.allocatable is not None else None
        assert count == (3 if is_limit else None), "who places pods learns of it at once"

    play(tmp_path, test)
