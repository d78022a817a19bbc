"""Volumes of pods get there, stay up to date, and go."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.kubelet.volumes.errors import VolumeError
from bayplan.kubelet.volumes.interface import Mounted, SetUp, TearDown, VolumeKind, VolumeSpec, VolumeUsage
from bayplan.support.virtual_time import run
from bayplan.testing.builders import container, metadata
from tests.kubelet.volumes.node import UID, Node, pod_with, shown


def config_map(name: str = "c", volume: str = "v") -> core_v1.Volume:
    return core_v1.Volume(name=volume, config_map=core_v1.ConfigMapVolumeSource(name=name, default_mode=0o644))


def empty_dir(name: str = "v") -> core_v1.Volume:
    return core_v1.Volume(name=name, empty_dir=core_v1.EmptyDirVolumeSource())


def claimed(name: str = "v", claim: str = "claim") -> core_v1.Volume:
    source = core_v1.PersistentVolumeClaimVolumeSource(claim_name=claim)
    return core_v1.Volume(name=name, persistent_volume_claim=source)


def add_claim(node: Node, path: Path, **spec: object) -> None:
    """A claim that is bound to a local volume."""
    node.objects.claims["claim"] = core_v1.PersistentVolumeClaim(
        metadata=metadata("claim", "default", uid="claim-uid"),
        spec=core_v1.PersistentVolumeClaimSpec(volume_name="pv"),
        status=core_v1.PersistentVolumeClaimStatus(phase="Bound"),
    )
    node.objects.volumes["pv"] = core_v1.PersistentVolume(
        metadata=metadata("pv"),
        spec=core_v1.PersistentVolumeSpec(
            local=core_v1.LocalVolumeSource(path=str(path)),
            claim_ref=core_v1.ObjectReference(name="claim", namespace="default", uid="claim-uid"),
            **spec,  # type: ignore[arg-type]
        ),
    )


def failure(node: Node, pod: core_v1.Pod) -> VolumeError:
    with pytest.raises(VolumeError) as error:
        run(node.manager.wait_for_mounts(pod))
    return error.value


def test_a_pod_without_volumes_waits_for_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert run(node.manager.wait_for_mounts(pod_with())) == {}
    assert node.objects.registered == {UID}


def test_volumes_that_no_container_uses_are_not_mounted(tmp_path: Path) -> None:
    node = Node(tmp_path)
    found = run(node.manager.wait_for_mounts(pod_with(config_map(), empty_dir("w"), mounts={"/w": "w"})))
    assert list(found) == ["w"]


def test_a_volume_gets_there_as_soon_as_its_object_does(tmp_path: Path) -> None:
    node = Node(tmp_path)

    async def case() -> float:
        loop = asyncio.get_running_loop()
        waiting = asyncio.create_task(node.manager.wait_for_mounts(pod_with(config_map())))
        loop.call_later(40.1, lambda: node.objects.put_config_map("c", a="1"))
        await waiting
        return loop.time()

    assert run(case()) == pytest.approx(40.1, abs=0.01)
    assert shown(node.directory("configmap")) == {"a": "1"}


def test_failures_are_tried_again_with_growing_pauses_and_an_event_each(tmp_path: Path) -> None:
    node = Node(tmp_path)

    async def case() -> float:
        with pytest.raises(VolumeError) as error:
            await node.manager.wait_for_mounts(pod_with(config_map(), empty_dir("w")))
        assert str(error.value) == (
            "unmounted volumes=[v], unattached volumes=[], failed to process volumes=[]: context deadline exceeded"
        )
        assert error.value.interrupted
        assert error.value.unmounted == ("v",)
        await node.manager.close()
        return asyncio.get_running_loop().time()

    assert run(case()) == pytest.approx(123.0)
    # at 0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 63.5 seconds
    assert node.events == ['Warning FailedMount MountVolume.SetUp failed for volume "v" : configmap "c" not found'] * 8


def test_changes_reach_pods_that_run_at_once(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.objects.put_config_map("c", a="1")

    async def case() -> None:
        await node.manager.wait_for_mounts(pod_with(config_map()))
        node.objects.put_config_map("c", a="2", b="3")
        await asyncio.sleep(0.001)

    run(case())
    assert shown(node.directory("configmap")) == {"a": "2", "b": "3"}


def test_a_change_that_comes_while_a_volume_is_written_is_not_lost(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.objects.put_config_map("c", a="1")
    read = node.objects.config_map
    changes = iter(["2", "3"])

    async def slow(namespace: str, name: str) -> core_v1.ConfigMap:
        found = await read(namespace, name)
        text = next(changes, None)
        if text is not None:
            node.objects.put_config_map("c", a=text)
        return found

    node.objects.config_map = slow  # type: ignore[method-assign]

    async def case() -> None:
        await node.manager.wait_for_mounts(pod_with(config_map()))
        await asyncio.sleep(0.001)

    run(case())
    assert shown(node.directory("configmap")) == {"a": "3"}


def test_tokens_are_renewed_within_a_minute_and_labels_with_the_pod(tmp_path: Path) -> None:
    node = Node(tmp_path)
    labels = core_v1.DownwardAPIVolumeFile(
        path="labels", field_ref=core_v1.ObjectFieldSelector(field_path="metadata.labels")
    )
    sources = (
        core_v1.VolumeProjection(service_account_token=core_v1.ServiceAccountTokenProjection(path="token")),
        core_v1.VolumeProjection(downward_api=core_v1.DownwardAPIProjection(items=(labels,))),
    )
    volume = core_v1.Volume(name="v", projected=core_v1.ProjectedVolumeSource(sources=sources, default_mode=0o644))
    seen = []

    async def case() -> None:
        running = asyncio.create_task(node.manager.run())
        await node.manager.wait_for_mounts(pod_with(volume, labels={"a": "1"}))
        seen.append(shown(node.directory("projected")))
        await asyncio.sleep(75)
        seen.append(shown(node.directory("projected")))
        await node.manager.wait_for_mounts(pod_with(volume, labels={"a": "2"}))
        await asyncio.sleep(0.001)
        seen.append(shown(node.directory("projected")))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run(case())
    assert [each["labels"] for each in seen] == ['a="1"', 'a="1"', 'a="2"']
    assert len({each["token"] for each in seen}) == 3


def test_a_volume_shows_what_it_showed_when_it_cannot_be_brought_up_to_date(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.objects.put_config_map("c", a="1")

    async def case() -> None:
        pod = pod_with(config_map())
        await node.manager.wait_for_mounts(pod)
        del node.objects.config_maps["c"]
        node.objects.changed()
        await asyncio.sleep(0.001)
        assert list(await node.manager.wait_for_mounts(pod)) == ["v"]

    run(case())
    assert shown(node.directory("configmap")) == {"a": "1"}
    assert 'MountVolume.SetUp failed for volume "v" : configmap "c" not found' in node.events[0]


def test_unmounting_leaves_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.objects.put_config_map("c", a="1")
    node.objects.put_secret("s", a="1")
    secret = core_v1.Volume(name="s", secret=core_v1.SecretVolumeSource(secret_name="s", default_mode=0o644))
    add_claim(node, tmp_path)
    pod = pod_with(config_map(), secret, empty_dir("e"), claimed("p"))

    async def case() -> None:
        await node.manager.wait_for_mounts(pod)
        (node.directory("empty-dir", "e") / "file").write_text("x")
        (tmp_path / "pods" / UID / "containers" / "main").mkdir(parents=True)
        (tmp_path / "pods" / UID / "etc-hosts").write_text("x")
        await node.manager.unmount(UID)
        await node.manager.unmount(UID)

    run(case())
    assert node.mounts.mounted == []
    assert list((tmp_path / "pods").iterdir()) == []
    assert node.objects.registered == set()
    assert node.manager.mounted(UID) == {}


def test_what_is_in_a_persistent_volume_survives_its_pods(tmp_path: Path) -> None:
    node = Node(tmp_path / "root")
    data = tmp_path / "data"
    data.mkdir()
    (data / "file").write_text("precious")
    add_claim(node, data)

    async def case() -> None:
        await node.manager.wait_for_mounts(pod_with(claimed()))
        [mount] = node.mounts.mounted
        assert (mount.source, mount.path) == (str(data), str(node.directory("local-volume", "pv")))
        await node.manager.unmount(UID)

    run(case())
    assert (data / "file").read_text() == "precious"


@pytest.mark.parametrize(("size", "status"), [("1Gi", "1Gi"), ("2Gi", "2Gi")], ids=["as it was", "larger"])
def test_a_local_volume_that_its_administrator_made_larger_is_larger_for_its_claim(
    tmp_path: Path, size: str, status: str
) -> None:
    node = Node(tmp_path / "root")
    (tmp_path / "data").mkdir()
    add_claim(node, tmp_path / "data", capacity={"storage": "1Gi"})
    conditions = (core_v1.PersistentVolumeClaimCondition(type="FileSystemResizePending", status="True"),)
    before = core_v1.PersistentVolumeClaimStatus(phase="Bound", capacity={"storage": "1Gi"}, conditions=conditions)
    claim = node.objects.claims["claim"]
    node.objects.claims["claim"] = msgspec.structs.replace(claim, status=before)

    async def case() -> None:
        await node.manager.wait_for_mounts(pod_with(claimed()))
        add_claim(node, tmp_path / "data", capacity={"storage": size})
        node.objects.claims["claim"] = msgspec.structs.replace(claim, status=before)
        running = asyncio.create_task(node.manager.run())
        await asyncio.sleep(200)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run(case())
    found = node.objects.claims["claim"].status
    assert str(found.capacity["storage"]) == status
    assert (found.conditions == ()) == (size != "1Gi")
    text = 'Normal FileSystemResizeSuccessful MountVolume.NodeExpandVolume succeeded for volume "pv"'
    assert node.events == ([text] if size != "1Gi" else [])


def test_nothing_is_removed_that_cannot_be_unmounted(tmp_path: Path) -> None:
    node = Node(tmp_path / "root")
    add_claim(node, tmp_path)
    directory = node.directory("local-volume", "pv")

    async def case() -> None:
        await node.manager.wait_for_mounts(pod_with(claimed()))
        (directory / "file").write_text("precious")  # what a mounted volume would show there
        node.mounts.failures[str(directory)] = "unmount failed: device or resource busy"
        with pytest.raises(VolumeError, match=r'TearDown failed for volume "pv" .* device or resource busy'):
            await node.manager.unmount(UID)
        assert (directory / "file").read_text() == "precious"
        node.mounts.failures.clear()
        with pytest.raises(VolumeError, match="not empty"):
            await node.manager.unmount(UID)
        assert (directory / "file").read_text() == "precious"

    run(case())


def test_pods_that_went_while_no_kubelet_ran_are_cleaned_up(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.objects.put_secret("s", a="1")
    secret = core_v1.Volume(name="v", secret=core_v1.SecretVolumeSource(secret_name="s", default_mode=0o644))

    async def case() -> None:
        await node.manager.wait_for_mounts(pod_with(secret, uid="gone"))
        await node.manager.wait_for_mounts(pod_with(secret, uid="here"))
        manager = node.restarted()
        await manager.remove_orphans({"here"})
        assert [each.name for each in (tmp_path / "pods").iterdir()] == ["here"]
        assert len(node.mounts.mounted) == 1
        found = await manager.wait_for_mounts(pod_with(secret, uid="here"))
        assert found["v"].host_path == str(node.directory("secret", uid="here"))
        assert len(node.mounts.mounted) == 1, "it was mounted a second time"

    run(case())


def test_a_pod_that_goes_before_its_volumes_came_leaves_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path)

    async def case() -> None:
        waiting = asyncio.create_task(node.manager.wait_for_mounts(pod_with(config_map(), empty_dir("w"))))
        await asyncio.sleep(10)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await node.manager.unmount(UID)
        events = len(node.events)
        await asyncio.sleep(600)
        assert len(node.events) == events, "it was tried again"

    run(case())
    assert list((tmp_path / "pods").iterdir()) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            lambda node: node.objects.claims.clear(),
            'failed to fetch PVC from API server: persistentvolumeclaims "claim" not found',
        ),
        (lambda node: setattr(node.objects.claims["claim"].status, "phase", "Pending"), "PVC is not bound"),
        (
            lambda node: setattr(node.objects.claims["claim"].metadata, "deletion_timestamp", "2026-01-01T00:00:00Z"),
            "PVC is being deleted",
        ),
        (
            lambda node: setattr(node.objects.claims["claim"].spec, "volume_name", ""),
            "PVC has empty pvc.Spec.VolumeName",
        ),
        (
            lambda node: node.objects.volumes.clear(),
            'failed to fetch PV pv from API server: persistentvolumes "pv" not found',
        ),
        (
            lambda node: setattr(node.objects.volumes["pv"].spec.claim_ref, "uid", "x"),
            "found PV object pv but its pv.Spec.ClaimRef.UID x does not point to claim.UID claim-uid",
        ),
    ],
)
def test_a_claim_that_is_not_ready_is_said_at_once(tmp_path: Path, change: object, text: str) -> None:
    node = Node(tmp_path)
    add_claim(node, tmp_path)
    change(node)  # type: ignore[operator]
    error = failure(node, pod_with(claimed()))
    assert str(error) == (
        "unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: "
        f"error processing PVC default/claim: {text}"
    )
    assert not error.interrupted


def test_a_volume_of_another_node_is_not_mounted(tmp_path: Path) -> None:
    node = Node(tmp_path)
    requirement = core_v1.NodeSelectorRequirement(key="kubernetes.io/hostname", operator="In", values=("n2",))
    term = core_v1.NodeSelectorTerm(match_expressions=(requirement,))
    affinity = core_v1.VolumeNodeAffinity(required=core_v1.NodeSelector(node_selector_terms=(term,)))
    add_claim(node, tmp_path, node_affinity=affinity)
    failure(node, pod_with(claimed()))
    assert node.events[0].endswith('MountVolume.SetUp failed for volume "pv" : no matching NodeSelectorTerms')


def test_a_volume_for_one_pod_is_not_shared(tmp_path: Path) -> None:
    node = Node(tmp_path)
    add_claim(node, tmp_path, access_modes=("ReadWriteOncePod",))

    async def case() -> None:
        await node.manager.wait_for_mounts(pod_with(claimed(), uid="first"))
        with pytest.raises(VolumeError):
            await node.manager.wait_for_mounts(pod_with(claimed(), uid="second"))
        await node.manager.close()

    run(case())
    assert "already in use by another pod" in node.events[0]


def test_a_volume_for_one_pod_is_kept_from_no_pod_by_other_volumes(tmp_path: Path) -> None:
    node = Node(tmp_path)
    add_claim(node, tmp_path, access_modes=("ReadWriteOncePod",))

    async def case() -> None:
        await node.manager.wait_for_mounts(pod_with(empty_dir(), uid="first"))
        assert list(await node.manager.wait_for_mounts(pod_with(claimed(), uid="second"))) == ["v"]
        await node.manager.unmount("second")
        assert list(await node.manager.wait_for_mounts(pod_with(claimed(), uid="third"))) == ["v"]

    run(case())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize(
    ("groups", "is_told"), [((10, 20), True), ((10, 10), False), ((10, None), False)], ids=["others", "same", "none"]
)
def test_a_volume_belongs_to_the_group_of_the_pod_that_came_first(
    tmp_path: Path, groups: tuple[int, int | None], is_told: bool
) -> None:
    node = Node(tmp_path / "root")
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, -1, groups[0])
    add_claim(node, data)

    async def case() -> None:
        for uid, group in zip(("first", "second"), groups, strict=True):
            security = core_v1.PodSecurityContext(fs_group=group)
            await node.manager.wait_for_mounts(pod_with(claimed(), uid=uid, security_context=security))

    run(case())
    owners = [node.directory("local-volume", "pv", uid).stat().st_gid for uid in ("first", "second")]
    assert owners == [10, os.getegid()], "the second mount gave the volume to its own group"
    text = (
        "Warning AlreadyMountedVolume The requested fsGroup is 20, but the volume pv has GID 10. "
        "The volume may not be shareable."
    )
    assert node.events == ([text] if is_told else [])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_volume_that_is_only_read_keeps_its_group(tmp_path: Path) -> None:
    node = Node(tmp_path)
    add_claim(node, tmp_path)
    volume = claimed()
    assert volume.persistent_volume_claim is not None
    volume.persistent_volume_claim.read_only = True
    security = core_v1.PodSecurityContext(fs_group=4321)
    found = run(node.manager.wait_for_mounts(pod_with(volume, security_context=security)))
    assert found["v"].read_only
    assert Path(found["v"].host_path).stat().st_gid == os.getegid()


@pytest.mark.parametrize(("mode", "section"), [("Block", "volumeMounts"), ("Filesystem", "volumeDevices")])
def test_devices_and_file_systems_are_not_mixed_up(tmp_path: Path, mode: str, section: str) -> None:
    node = Node(tmp_path)
    add_claim(node, tmp_path, volume_mode=mode)
    main = container(
        volume_mounts=(core_v1.VolumeMount(name="v", mount_path="/v"),) if section == "volumeMounts" else (),
        volume_devices=(core_v1.VolumeDevice(name="v", device_path="/v"),) if section == "volumeDevices" else (),
    )
    error = failure(node, pod_with(claimed(), containers=(main,)))
    assert str(error).endswith(f"volume v has volumeMode {mode}, but is specified in {section}")


def test_a_block_volume_is_a_device(tmp_path: Path) -> None:
    node = Node(tmp_path)
    add_claim(node, Path("/dev/null"), volume_mode="Block")
    main = container(volume_devices=(core_v1.VolumeDevice(name="v", device_path="/v"),))
    found = run(node.manager.wait_for_mounts(pod_with(claimed(), containers=(main,))))
    assert found["v"] == Mounted("/dev/null", is_device=True)
    assert node.mounts.mounted == []


def test_groups_of_persistent_volumes_are_the_pods_as_well(tmp_path: Path) -> None:
    node = Node(tmp_path)
    add_claim(node, tmp_path)
    node.objects.volumes["pv"].metadata.annotations["pv.beta.kubernetes.io/gid"] = "1234"
    pod = pod_with(claimed())
    run(node.manager.wait_for_mounts(pod))
    assert node.manager.extra_groups(pod) == [1234]
    has_it = pod_with(claimed(), security_context=core_v1.PodSecurityContext(supplemental_groups=(1234,)))
    assert node.manager.extra_groups(has_it) == []


class Attachable(VolumeKind):
    """A kind whose volumes are attached to the node by others first."""

    name = "example.com/disk"
    supports_mount_options = False

    def can_support(self, spec: VolumeSpec) -> bool:
        return spec.volume is not None and spec.volume.csi is not None

    def is_attachable(self, spec: VolumeSpec) -> bool:
        return True

    def unique_name(self, spec: VolumeSpec, pod_uid: str) -> str:
        return f"{self.name}/{spec.name}"

    async def set_up(self, context: SetUp) -> Mounted:
        return Mounted(context.attached)

    async def tear_down(self, context: TearDown) -> None:
        raise AssertionError("it left no directory")

    async def usage(self, context: SetUp) -> VolumeUsage | None:
        return None


def test_a_volume_waits_until_it_is_attached(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.manager.kinds.add(Attachable())
    pod = pod_with(core_v1.Volume(name="v", csi=core_v1.CSIVolumeSource(driver="d")))

    async def case() -> None:
        with pytest.raises(VolumeError, match=r"unmounted volumes=\[v\], unattached volumes=\[v\]"):
            await node.manager.wait_for_mounts(pod)
        assert await node.manager.volumes_in_use() == ["example.com/disk/v"]
        attached = core_v1.AttachedVolume(name="example.com/disk/v", device_path="/dev/d")
        node.node.status.volumes_attached = (attached,)
        with pytest.raises(VolumeError, match=r"unattached volumes=\[v\]"):
            await node.manager.wait_for_mounts(pod)  # it could be detached, as long as nobody knows that it is used
        node.node.status.volumes_in_use = ("example.com/disk/v",)
        found = await node.manager.wait_for_mounts(pod)
        assert found["v"].host_path == "/dev/d"
        await node.manager.unmount(UID)
        assert await node.manager.volumes_in_use() == []

    run(case())
    assert node.events == []


def test_usage_is_told_of_what_the_pod_owns(tmp_path: Path) -> None:
    node = Node(tmp_path)

    async def case() -> None:
        host = core_v1.Volume(name="h", host_path=core_v1.HostPathVolumeSource(path="/"))
        await node.manager.wait_for_mounts(pod_with(empty_dir(), host))
        before = await node.manager.usage(UID)
        (node.directory("empty-dir") / "file").write_bytes(b"x" * 100_000)
        (node.directory("empty-dir") / "link").hardlink_to(node.directory("empty-dir") / "file")
        after = await node.manager.usage(UID)
        assert list(after) == ["v"]
        assert 98_304 <= after["v"].used_bytes - before["v"].used_bytes <= 131_072
        assert after["v"].inodes_used - before["v"].inodes_used == 1

    run(case())


def test_the_claim_of_an_ephemeral_volume_must_be_the_pods(tmp_path: Path) -> None:
    node = Node(tmp_path)
    add_claim(node, tmp_path)
    node.objects.claims["p-v"] = node.objects.claims["claim"]
    volume = core_v1.Volume(name="v", ephemeral=core_v1.EphemeralVolumeSource())
    assert str(failure(node, pod_with(volume))).endswith(
        "PVC default/claim was not created for pod default/p (pod is not owner)"
    )
    owner = meta_v1.OwnerReference(api_version="v1", kind="Pod", name="p", uid=UID, controller=True)
    node.objects.claims["p-v"].metadata.owner_references = (owner,)
    assert list(run(node.manager.wait_for_mounts(pod_with(volume)))) == ["v"]
