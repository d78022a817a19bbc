"""Volumes of drivers come to pods and go again, whatever happens to driver, pod and kubelet in between."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1, storage_v1
from bayplan.api.volume_attachments import attachment_name
from bayplan.csi import messages as csi
from bayplan.csi.messages import NodeCapability as N
from bayplan.kubelet.volumes.errors import VolumeError
from bayplan.testing.csi_driver import NAME
from tests.kubelet.csi.scenario import NODE, CsiNode, give_up, play, pod_of


def staging(here: CsiNode, handle: str = "volume-1") -> Path:
    digest = hashlib.sha256(handle.encode()).hexdigest()
    return here.root / "plugins/kubernetes.io/csi" / NAME / digest / "globalmount"


def test_a_volume_is_staged_once_and_published_for_each_pod(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        volume = await here.volume(csi={"volumeAttributes": {"a": "b"}}, mountOptions=["noatime"])
        first, second = pod_of(volume, "u1"), pod_of(volume, "u2")
        mounted = await here.manager.wait_for_mounts(first)
        assert mounted["v"].host_path == str(here.target())
        await here.manager.wait_for_mounts(second)
        assert here.calls() == ["Stage", "Publish", "Publish"]
        (staged,) = here.driver.requests("NodeStageVolume")
        assert staged.staging_target_path == str(staging(here))
        mount = csi.MountVolume("ext4", ("noatime",))
        access = csi.AccessMode(csi.Access.SINGLE_NODE_MULTI_WRITER)
        assert staged.volume_capability == csi.VolumeCapability(mount=mount, access_mode=access)
        published = here.driver.requests("NodePublishVolume")[0]
        assert published.volume_context == {"a": "b"}
        assert (published.staging_target_path, published.target_path) == (str(staging(here)), str(here.target()))
        await here.manager.unmount("u1")
        assert here.calls()[3:] == ["Unpublish"]
        await here.manager.unmount("u2")
        assert here.calls()[4:] == ["Unpublish", "Unstage"]
        assert here.left() == []
        assert not here.driver.targets
        assert not here.driver.staged

    play(tmp_path, test)


def test_a_driver_that_stages_nothing_is_not_asked_to(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        await here.manager.wait_for_mounts(pod_of(await here.volume()))
        assert here.driver.requests("NodePublishVolume")[0].staging_target_path == ""
        await here.manager.unmount("u1")
        assert here.calls() == ["Publish", "Unpublish"]
        assert here.left() == []

    play(tmp_path, test, node=())


def test_an_inline_volume_is_the_pods_own(tmp_path: Path) -> None:
    inline = core_v1.Volume(name="v", csi=core_v1.CSIVolumeSource(driver=NAME, volume_attributes={"size": "1Mi"}))

    async def test(here: CsiNode) -> None:
        await here.start(podInfoOnMount=True, volumeLifecycleModes=["Ephemeral"])
        await here.manager.wait_for_mounts(pod_of(inline))
        (published,) = here.driver.requests("NodePublishVolume")
        assert published.volume_id == "csi-" + hashlib.sha256(b"u1v").hexdigest()
        assert published.volume_context == {
            "size": "1Mi",
            "csi.storage.k8s.io/ephemeral": "true",
            "csi.storage.k8s.io/pod.name": "p-u1",
            "csi.storage.k8s.io/pod.namespace": "default",
            "csi.storage.k8s.io/pod.uid": "u1",
            "csi.storage.k8s.io/serviceAccount.name": "sa",
        }
        assert await here.manager.volumes_in_use() == []
        await here.manager.unmount("u1")
        assert here.calls() == ["Publish", "Unpublish"]
        assert here.left() == []

    play(tmp_path, test)


def test_a_mode_that_a_driver_does_not_have_is_refused(tmp_path: Path) -> None:
    inline = core_v1.Volume(name="v", csi=core_v1.CSIVolumeSource(driver=NAME))

    async def test(here: CsiNode) -> None:
        await here.start()
        with pytest.raises(VolumeError):
            await here.manager.wait_for_mounts(pod_of(inline))
        assert any('only supports ["Persistent"]' in each for each in here.events)
        assert here.calls() == []

    play(tmp_path, test)


def test_a_driver_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        volume = await here.volume()
        await here.registration.deregister(NAME, Path("/csi.sock"))
        waiting = asyncio.ensure_future(here.manager.wait_for_mounts(pod_of(volume)))
        await asyncio.sleep(3)
        text = "attacher.MountDevice failed to create newCsiDriverClient: driver name fake.csi.bayplan.dev not found"
        assert any(each.startswith("Warning FailedMount MountVolume.MountDevice failed") for each in here.events)
        assert text in here.events[0]
        await here.register()
        await waiting
        assert here.calls() == ["Stage", "Publish"]

    play(tmp_path, test)


@pytest.mark.parametrize(
    ("call", "doing"), [("NodeStageVolume", "MountVolume.MountDevice"), ("NodePublishVolume", "MountVolume.SetUp")]
)
def test_what_a_driver_refuses_is_told_and_leaves_nothing(tmp_path: Path, call: str, doing: str) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        volume = await here.volume()
        here.driver.fail(call, "INTERNAL", "no luck", times=1000)
        waiting = asyncio.ensure_future(here.manager.wait_for_mounts(pod_of(volume)))
        await asyncio.sleep(5)
        shown = f'Warning FailedMount {doing} failed for volume "pv" : rpc error: code = Internal desc = no luck'
        assert here.events[0] == shown
        await give_up(waiting)
        await here.manager.unmount("u1")
        assert "Unpublish" not in here.calls()  # it never was there
        await here.kind.clean_up(here.host)
        assert here.left() == []

    play(tmp_path, test)


@pytest.mark.parametrize("code", ["DEADLINE_EXCEEDED", "UNAVAILABLE"])
def test_what_may_have_happened_is_undone(tmp_path: Path, code: str) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        volume = await here.volume()
        here.driver.lose("NodePublishVolume", code, times=1000)
        waiting = asyncio.ensure_future(here.manager.wait_for_mounts(pod_of(volume)))
        await asyncio.sleep(1)
        assert here.driver.targets
        await give_up(waiting)
        await here.manager.unmount("u1")
        assert here.calls()[-2:] == ["Unpublish", "Unstage"]
        assert not here.driver.targets
        assert here.left() == []

    play(tmp_path, test)


def test_the_end_of_a_pod_comes_after_what_was_asked_for_it(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        volume = await here.volume()
        here.driver.delay("NodePublishVolume", 30)
        waiting = asyncio.ensure_future(here.manager.wait_for_mounts(pod_of(volume)))
        await asyncio.sleep(1)
        await give_up(waiting)
        started = here.clock.monotonic()
        await here.manager.unmount("u1")
        assert here.clock.monotonic() - started > 25
        assert here.calls() == ["Stage", "Publish", "Unpublish", "Unstage"]
        assert here.left() == []

    play(tmp_path, test)


def test_a_pod_does_not_wait_for_a_driver_that_hangs_when_it_unstages(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        await here.manager.wait_for_mounts(pod_of(await here.volume()))
        here.driver.delay("NodeUnstageVolume", 60)
        started = here.clock.monotonic()
        await here.manager.unmount("u1")
        assert here.clock.monotonic() - started < 15
        assert here.left() != []
        await asyncio.sleep(60)
        assert here.left() == []

    play(tmp_path, test)


def test_a_kubelet_that_knows_nothing_finds_what_is_to_be_undone(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        await here.manager.wait_for_mounts(pod_of(await here.volume()))
        await here.manager.close()
        here.restart()
        with pytest.raises(VolumeError, match="not found in the list of registered CSI drivers"):
            await here.manager.unmount("u1")
        await here.register()
        await here.manager.remove_orphans(set())
        assert here.calls()[-2:] == ["Unpublish", "Unstage"]
        assert here.left() == []

    play(tmp_path, test)


def test_a_pod_that_stays_is_published_again_by_the_next_kubelet(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        pod = pod_of(await here.volume())
        await here.manager.wait_for_mounts(pod)
        await here.manager.close()
        here.restart()
        await here.register()
        here.driver.fail("NodePublishVolume", "INTERNAL")
        await here.manager.wait_for_mounts(pod)
        assert here.calls() == ["Stage", "Publish", "Stage", "Publish", "Publish"]
        assert here.target().is_dir()  # the failure has not taken it from the pod

    play(tmp_path, test)


def test_what_cannot_be_unstaged_now_is_unstaged_later(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start(attachRequired=True)
        volume = await here.volume()
        name = attachment_name(NAME, "volume-1", NODE)
        attachment = {
            "metadata": {"name": name},
            "spec": {"attacher": NAME, "nodeName": NODE, "source": {"persistentVolumeName": "pv"}},
        }
        await here.client.create(from_tree(storage_v1.VolumeAttachment, attachment))
        unique = f"kubernetes.io/csi/{NAME}^volume-1"
        here.node.status.volumes_in_use = (unique,)
        here.node.status.volumes_attached = (core_v1.AttachedVolume(name=unique),)
        await here.manager.wait_for_mounts(pod_of(volume))
        here.driver.fail("NodeUnstageVolume", "INTERNAL", times=2)
        await here.manager.unmount("u1")
        assert await here.manager.volumes_in_use() == [unique]  # it must not be detached yet
        await here.kind.clean_up(here.host)
        assert await here.manager.volumes_in_use() == [unique]
        await here.kind.clean_up(here.host)
        assert await here.manager.volumes_in_use() == []
        assert here.left() == []

    play(tmp_path, test)


def test_an_attached_volume_comes_with_what_the_controller_said(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start(attachRequired=True)
        volume = await here.volume()
        name = attachment_name(NAME, "volume-1", NODE)
        spec = {"attacher": NAME, "nodeName": NODE, "source": {"persistentVolumeName": "pv"}}
        tree = {"metadata": {"name": name}, "spec": spec}
        await here.client.create(from_tree(storage_v1.VolumeAttachment, tree))
        status = {"status": {"attached": True, "attachmentMetadata": {"lun": "7"}}}
        await here.client.patch(storage_v1.VolumeAttachment, name, "", status, subresource="status")
        waiting = asyncio.ensure_future(here.manager.wait_for_mounts(pod_of(volume)))
        await asyncio.sleep(2)
        assert here.calls() == []
        assert here.reports > 0  # the API server does not know yet that it is used here
        unique = f"kubernetes.io/csi/{NAME}^volume-1"
        here.node.status.volumes_in_use = tuple(await here.manager.volumes_in_use())
        here.node.status.volumes_attached = (core_v1.AttachedVolume(name=unique),)
        await waiting
        for call in ("NodeStageVolume", "NodePublishVolume"):
            assert here.driver.requests(call)[0].publish_context == {"lun": "7"}

    play(tmp_path, test)


def test_a_block_volume_is_a_device(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        volume = await here.volume(mode="Block")
        mounted = await here.manager.wait_for_mounts(pod_of(volume, is_block=True))
        device = here.root / "plugins/kubernetes.io/csi/volumeDevices/publish/pv/u1"
        assert (mounted["v"].host_path, mounted["v"].is_device) == (str(device), True)
        link = here.root / "pods/u1/volumeDevices/kubernetes.io~csi/pv"
        assert link.readlink() == device
        assert here.driver.requests("NodeStageVolume")[0].volume_capability.block is not None
        await here.manager.close()
        here.restart()
        await here.register()
        await here.manager.unmount("u1")
        assert here.calls() == ["Stage", "Publish", "Unpublish", "Unstage"]
        assert here.left() == []

    play(tmp_path, test)


def test_files_get_the_pods_group_unless_the_driver_gives_it(tmp_path: Path) -> None:
    security = core_v1.PodSecurityContext(fs_group=4321)

    async def by_kubelet(here: CsiNode) -> None:
        await here.start(fsGroupPolicy="File")
        await here.manager.wait_for_mounts(pod_of(await here.volume(), security_context=security))
        assert here.target().stat().st_gid == 4321
        assert here.driver.requests("NodePublishVolume")[0].volume_capability.mount.volume_mount_group == ""

    async def by_driver(here: CsiNode) -> None:
        await here.start(fsGroupPolicy="File")
        await here.manager.wait_for_mounts(pod_of(await here.volume(), security_context=security))
        assert here.target().stat().st_gid != 4321
        for call in ("NodeStageVolume", "NodePublishVolume"):
            assert here.driver.requests(call)[0].volume_capability.mount.volume_mount_group == "4321"

    play(tmp_path / "a", by_kubelet)
    play(tmp_path / "b", by_driver, node=(N.STAGE_UNSTAGE_VOLUME, N.VOLUME_MOUNT_GROUP))


@pytest.mark.parametrize("in_secrets", [False, True])
def test_drivers_get_tokens_again_and_again(tmp_path: Path, in_secrets: bool) -> None:
    async def test(here: CsiNode) -> None:
        await here.start(
            requiresRepublish=True, tokenRequests=[{"audience": "vault"}], serviceAccountTokenInSecrets=in_secrets
        )
        pod = pod_of(await here.volume())
        await here.manager.wait_for_mounts(pod)
        running = asyncio.ensure_future(here.manager.run())
        await asyncio.sleep(200)
        await give_up(running)
        found = here.driver.requests("NodePublishVolume")
        assert len(found) >= 3
        told = found[0].secrets if in_secrets else found[0].volume_context
        other = found[0].volume_context if in_secrets else found[0].secrets
        tokens = json.loads(told["csi.storage.k8s.io/serviceAccount.tokens"])
        assert tokens["vault"]["token"] == "token 1 for p-u1 to vault"
        assert tokens["vault"]["expirationTimestamp"].endswith("Z")
        assert not other
        assert here.calls("NodeStageVolume") == ["Stage"]

    play(tmp_path, test)


def test_secrets_are_read_for_each_call(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        reference = {"name": "s", "namespace": "default"}
        volume = await here.volume(csi={"nodeStageSecretRef": reference, "nodePublishSecretRef": reference})
        waiting = asyncio.ensure_future(here.manager.wait_for_mounts(pod_of(volume)))
        await asyncio.sleep(1)
        assert "fetching NodeStageSecretRef default/s failed" in here.events[0]
        secret = {"metadata": {"name": "s", "namespace": "default"}, "stringData": {"key": "value"}}
        await here.client.create(from_tree(core_v1.Secret, secret))
        await waiting
        for call in ("NodeStageVolume", "NodePublishVolume"):
            assert here.driver.requests(call)[0].secrets == {"key": "value"}

    play(tmp_path, test)


def test_figures_are_the_drivers(tmp_path: Path) -> None:
    async def test(here: CsiNode) -> None:
        await here.start()
        await here.manager.wait_for_mounts(pod_of(await here.volume()))
        usage = (await here.manager.usage("u1"))["v"]
        assert (usage.capacity_bytes, usage.used_bytes) == (1 << 30, 1)
        here.driver.fail("NodeGetVolumeStats", "INTERNAL")
        assert await here.manager.usage("u1") == {}

    play(tmp_path, test)
