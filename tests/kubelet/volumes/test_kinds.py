"""What each kind of volume shows, and what it says when it cannot."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from bayplan.api.quantity import parse
from bayplan.api.types import core_v1
from bayplan.kubelet.volumes.directories import memory_size, nested_mount_points, page_size
from bayplan.kubelet.volumes.errors import SetUpError, VolumeError
from bayplan.kubelet.volumes.host_path import check_host_path
from bayplan.kubelet.volumes.interface import Mounted
from bayplan.support.virtual_time import run
from bayplan.testing.builders import container
from tests.kubelet.volumes.node import Node, pod_with, shown


def mounted(node: Node, *volumes: core_v1.Volume, **spec: object) -> Mounted:
    """Mount the volumes of a pod; the first."""
    pod = pod_with(*volumes, **spec)  # type: ignore[arg-type]
    found = run(node.manager.wait_for_mounts(pod))
    return found[volumes[0].name]


def refused(node: Node, *volumes: core_v1.Volume, **spec: object) -> str:
    """What the event says of volumes that cannot be mounted."""
    pod = pod_with(*volumes, **spec)  # type: ignore[arg-type]
    with pytest.raises(VolumeError):
        run(node.manager.wait_for_mounts(pod))
    return node.events[0]


def config_map(name: str = "c", **source: object) -> core_v1.Volume:
    fields = {"default_mode": 0o644, **source}
    return core_v1.Volume(name="v", config_map=core_v1.ConfigMapVolumeSource(name=name, **fields))  # type: ignore[arg-type]


def secret(**source: object) -> core_v1.Volume:
    fields = {"default_mode": 0o644, **source}
    return core_v1.Volume(name="v", secret=core_v1.SecretVolumeSource(secret_name="s", **fields))  # type: ignore[arg-type]


def projected(*sources: core_v1.VolumeProjection, mode: int = 0o644) -> core_v1.Volume:
    return core_v1.Volume(name="v", projected=core_v1.ProjectedVolumeSource(sources=sources, default_mode=mode))


def test_a_config_map_is_files_on_disk_that_containers_may_only_read(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.objects.put_config_map("c", a="1", b="2")
    node.objects.config_maps["c"].binary_data["raw"] = "/wA="
    del node.objects.config_maps["c"].data["b"]
    found = mounted(node, config_map())
    assert found == Mounted(str(node.directory("configmap")), read_only=True, relabel=True)
    assert (node.directory("configmap") / "a").read_text() == "1"
    assert (node.directory("configmap") / "raw").read_bytes() == b"\xff\x00"
    assert node.mounts.mounted == []


def test_items_choose_keys_paths_and_modes(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.objects.put_config_map("c", a="1", b="2", c="3")
    items = (core_v1.KeyToPath(key="a", path="x/y"), core_v1.KeyToPath(key="b", path="z", mode=0o400))
    mounted(node, config_map(items=items))
    top = node.directory("configmap")
    assert shown(top) == {"x/y": "1", "z": "2"}
    assert stat.S_IMODE((top / "z").stat().st_mode) == 0o400
    assert stat.S_IMODE((top / "x" / "y").stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("volume", "text"),
    [
        (config_map(), 'MountVolume.SetUp failed for volume "v" : configmap "c" not found'),
        (secret(), 'MountVolume.SetUp failed for volume "v" : secret "s" not found'),
        (
            config_map("there", items=(core_v1.KeyToPath(key="b", path="b"),)),
            'MountVolume.SetUp failed for volume "v" : configmap references non-existent config key: b',
        ),
        (
            config_map("there", items=(core_v1.KeyToPath(key="a", path="../b"),)),
            "MountVolume.SetUp failed for volume \"v\" : invalid path: must not contain '..': ../b",
        ),
        (
            projected(
                core_v1.VolumeProjection(secret=core_v1.SecretProjection(name="s")),
                core_v1.VolumeProjection(config_map=core_v1.ConfigMapProjection(name="c")),
            ),
            'MountVolume.SetUp failed for volume "v" : [secret "s" not found, configmap "c" not found]',
        ),
    ],
    ids=["no config map", "no secret", "no such key", "a path out of the volume", "two sources of a projection"],
)
def test_an_event_says_what_is_missing(tmp_path: Path, volume: core_v1.Volume, text: str) -> None:
    node = Node(tmp_path)
    node.objects.put_config_map("there", a="1")
    assert refused(node, volume) == f"Warning FailedMount {text}"


def test_what_is_optional_may_be_missing(tmp_path: Path) -> None:
    node = Node(tmp_path)
    mounted(node, config_map(optional=True), mounts={"/v": "v"})
    assert shown(node.directory("configmap")) == {}


def test_an_optional_config_map_may_lack_keys(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.objects.put_config_map("c", a="1")
    items = tuple(core_v1.KeyToPath(key=key, path=key) for key in "ab")
    mounted(node, config_map(optional=True, items=items))
    assert shown(node.directory("configmap")) == {"a": "1"}


def test_a_secret_is_in_memory(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.objects.put_secret("s", password="x")
    mounted(node, secret())
    [mount] = node.mounts.mounted
    assert (mount.path, mount.type) == (str(node.directory("secret")), "tmpfs")
    assert mount.options[0] == f"size={8 * 2**30}"
    assert shown(node.directory("secret")) == {"password": "x"}


def test_fields_of_the_pod_are_files(tmp_path: Path) -> None:
    node = Node(tmp_path)
    items = (
        core_v1.DownwardAPIVolumeFile(
            path="labels", field_ref=core_v1.ObjectFieldSelector(field_path="metadata.labels")
        ),
        core_v1.DownwardAPIVolumeFile(
            path="one", mode=0o400, field_ref=core_v1.ObjectFieldSelector(field_path="metadata.labels['b']")
        ),
        core_v1.DownwardAPIVolumeFile(
            path="memory",
            resource_field_ref=core_v1.ResourceFieldSelector(
                container_name="main", resource="limits.memory", divisor="1Mi"
            ),
        ),
    )
    volume = core_v1.Volume(name="v", downward_api=core_v1.DownwardAPIVolumeSource(items=items, default_mode=0o644))
    mounted(node, volume, labels={"b": 'quo"te', "a": "x"})
    top = node.directory("downward-api")
    assert shown(top) == {"labels": 'a="x"\nb="quo\\"te"', "one": 'quo"te', "memory": "8192"}
    assert stat.S_IMODE((top / "one").stat().st_mode) == 0o400


def test_files_of_a_projection_come_from_everywhere_and_later_ones_win(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.objects.put_config_map("c", a="1", b="2")
    node.objects.put_secret("s", b="3")
    volume = projected(
        core_v1.VolumeProjection(config_map=core_v1.ConfigMapProjection(name="c")),
        core_v1.VolumeProjection(secret=core_v1.SecretProjection(name="s")),
        core_v1.VolumeProjection(service_account_token=core_v1.ServiceAccountTokenProjection(path="t", audience="x")),
        core_v1.VolumeProjection(
            cluster_trust_bundle=core_v1.ClusterTrustBundleProjection(name="bundle", path="anchors")
        ),
        core_v1.VolumeProjection(
            pod_certificate=core_v1.PodCertificateProjection(credential_bundle_path="both", key_path="key")
        ),
    )
    mounted(node, volume)
    assert shown(node.directory("projected")) == {
        "a": "1",
        "anchors": "anchors of bundle",
        "b": "3",
        "both": "key 4\nchain 4\n",
        "key": "key 4\n",
        "t": "token 1 for p to x",
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize(
    ("security", "mode", "owner"),
    [
        (None, 0o644, (0, 0)),
        (core_v1.PodSecurityContext(run_as_user=1000), 0o600, (1000, 0)),
        (core_v1.PodSecurityContext(fs_group=2000), 0o640, (0, 2000)),
    ],
    ids=["everybody", "the user that all containers have", "the group"],
)
def test_a_token_is_for_whom_it_is_meant(
    tmp_path: Path, security: core_v1.PodSecurityContext | None, mode: int, owner: tuple[int, int]
) -> None:
    node = Node(tmp_path)
    token = core_v1.ServiceAccountTokenProjection(path="token")
    mounted(node, projected(core_v1.VolumeProjection(service_account_token=token)), security_context=security)
    found = (node.directory("projected") / "token").stat()
    assert (stat.S_IMODE(found.st_mode), (found.st_uid, found.st_gid)) == (mode, owner)


@pytest.mark.parametrize(
    ("medium", "type"), [("Memory", "tmpfs"), ("HugePages", "hugetlbfs"), ("HugePages-2Mi", "hugetlbfs")]
)
def test_an_empty_directory_is_on_the_medium_that_it_asks_for(tmp_path: Path, medium: str, type: str) -> None:
    node = Node(tmp_path)
    source = core_v1.EmptyDirVolumeSource(medium=medium, size_limit="1Mi")
    main = container(
        resources=core_v1.ResourceRequirements(requests={"hugepages-2Mi": "4Mi"}),
        volume_mounts=(core_v1.VolumeMount(name="v", mount_path="/v"),),
    )
    mounted(node, core_v1.Volume(name="v", empty_dir=source), containers=(main,))
    [mount] = node.mounts.mounted
    assert mount.type == type
    assert mount.options[0] == ("size=1048576" if type == "tmpfs" else "pagesize=2Mi")


def test_an_empty_directory_is_for_everybody(tmp_path: Path) -> None:
    node = Node(tmp_path)
    mounted(node, core_v1.Volume(name="v", empty_dir=core_v1.EmptyDirVolumeSource()))
    assert stat.S_IMODE(node.directory("empty-dir").stat().st_mode) == 0o777


def test_unknown_media_are_refused(tmp_path: Path) -> None:
    node = Node(tmp_path)
    volume = core_v1.Volume(name="v", empty_dir=core_v1.EmptyDirVolumeSource(medium="Tape"))
    assert refused(node, volume).endswith('MountVolume.SetUp failed for volume "v" : unknown storage medium "Tape"')


def test_a_restarted_kubelet_leaves_the_files_of_an_empty_directory_alone(tmp_path: Path) -> None:
    node = Node(tmp_path)
    volume = core_v1.Volume(name="v", empty_dir=core_v1.EmptyDirVolumeSource())
    group = core_v1.PodSecurityContext(fs_group=os.getegid())
    mounted(node, volume, security_context=group)
    file = node.directory("empty-dir") / "private"
    file.write_text("")
    file.chmod(0o600)
    node.restarted()
    mounted(node, volume, security_context=group)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("limits", "limit", "size"),
    [
        ({}, None, 8 * 2**30),
        ({"memory": "1Gi"}, None, 2**30),
        ({"memory": "1Gi"}, "2Gi", 2**30),
        ({"memory": "1Gi"}, "1Mi", 2**20),
        ({"memory": "16Gi"}, None, 8 * 2**30),
    ],
)
def test_memory_volumes_hold_the_least_of_what_node_pod_and_volume_allow(
    limits: dict[str, str | int | float], limit: str | None, size: int
) -> None:
    pod = pod_with(containers=(container(resources=core_v1.ResourceRequirements(limits=limits)),))
    assert memory_size(pod, {"memory": "8Gi"}, parse(limit) if limit else None) == size


def test_memory_of_the_pod_as_a_whole_and_of_containers_without_limits() -> None:
    limits = core_v1.ResourceRequirements(limits={"memory": "1Gi"})
    whole = pod_with(containers=(container("a"), container("b")), resources=limits)
    assert memory_size(whole, {"memory": "8Gi"}, None) == 2**30
    some = pod_with(containers=(container("a", resources=limits), container("b")))
    assert memory_size(some, {"memory": "8Gi"}, None) == 8 * 2**30


def test_pages_of_several_sizes_need_a_medium_with_a_size() -> None:
    requests: dict[str, str | int | float] = {"hugepages-2Mi": "2Mi", "hugepages-1Gi": "1Gi"}
    pod = pod_with(containers=(container(resources=core_v1.ResourceRequirements(requests=requests)),))
    with pytest.raises(SetUpError) as error:
        page_size(pod, "HugePages")
    assert str(error.value) == "medium: HugePages can't be used if container requests multiple huge page sizes"
    assert str(page_size(pod, "HugePages-1Gi")) == "1Gi"
    with pytest.raises(SetUpError) as error:
        page_size(pod_with(), "HugePages-1Gi")
    text = "medium HugePages-1Gi: hugePages storage requested, but there is no resource request for huge pages"
    assert str(error.value) == text


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


_MAKE: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,
    "a directory": Path.mkdir,
    "a file": Path.touch,
    "a socket file": make_socket,
    "a link to a directory": lambda path: path.symlink_to(path.parent),
}
_FITS = {
    "": set(_MAKE),
    "Directory": {"a directory", "a link to a directory"},
    "DirectoryOrCreate": {"a directory", "a link to a directory", "nothing"},
    "File": {"a file"},
    "FileOrCreate": {"a file", "nothing"},
    "Socket": {"a socket file"},
    "CharDevice": set[str](),
    "BlockDevice": set[str](),
}
_NOUNS = {
    "Directory": "a directory",
    "File": "a file",
    "Socket": "a socket file",
    "CharDevice": "a character device",
    "BlockDevice": "a block device",
}


@pytest.mark.parametrize("there", list(_MAKE))
@pytest.mark.parametrize("kind", list(_FITS))
def test_a_host_path_is_what_its_type_says(tmp_path: Path, kind: str, there: str) -> None:
    path = tmp_path / "path"
    _MAKE[there](path)
    if there in _FITS[kind]:
        check_host_path(str(path), kind)
        assert path.exists() == (there != "nothing" or kind.endswith("OrCreate"))
        return
    with pytest.raises(SetUpError) as error:
        check_host_path(str(path), kind)
    noun = _NOUNS[kind.removesuffix("OrCreate")]
    assert str(error.value) == f"hostPath type check failed: {path} is not {noun}"


def test_devices_and_unknown_types_of_host_paths() -> None:
    check_host_path("/dev/null", "CharDevice")
    with pytest.raises(SetUpError, match=r"^Nonsense is an invalid volume type$"):
        check_host_path("/dev/null", "Nonsense")
    with pytest.raises(SetUpError, match=r"^invalid HostPath `/a/../b`: must not contain '..'$"):
        check_host_path("/a/../b", "")


def test_an_image_is_mounted_by_the_runtime(tmp_path: Path) -> None:
    node = Node(tmp_path)
    volume = core_v1.Volume(name="v", image=core_v1.ImageVolumeSource(reference="models:1"))
    assert mounted(node, volume).image == "models:1"
    assert node.mounts.mounted == []


def test_nfs_is_mounted_with_its_server(tmp_path: Path) -> None:
    node = Node(tmp_path)
    volume = core_v1.Volume(name="v", nfs=core_v1.NFSVolumeSource(server="fd00::1", path="/x", read_only=True))
    assert mounted(node, volume).read_only
    [mount] = node.mounts.mounted
    assert (mount.source, mount.type, mount.options) == ("[fd00::1]:/x", "nfs", ("ro",))


def test_a_failing_mount_leaves_no_directory(tmp_path: Path) -> None:
    node = Node(tmp_path)
    directory = node.directory("nfs")
    node.mounts.failures[str(directory)] = "mount failed: exit status 32"
    volume = core_v1.Volume(name="v", nfs=core_v1.NFSVolumeSource(server="s", path="/x"))
    text = 'MountVolume.SetUp failed for volume "v" : mount failed: exit status 32'
    assert refused(node, volume) == f"Warning FailedMount {text}"
    assert not directory.exists()


def test_kinds_that_the_node_has_not_are_named(tmp_path: Path) -> None:
    node = Node(tmp_path)
    volume = core_v1.Volume(name="v", rbd=core_v1.RBDVolumeSource(image="x", monitors=("m",)))
    with pytest.raises(VolumeError) as error:
        run(node.manager.wait_for_mounts(pod_with(volume)))
    assert str(error.value) == (
        "unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: "
        'failed to get Plugin from volumeSpec for volume "v" err=no volume plugin matched'
    )


def test_mount_points_within_volumes_are_made_but_none_within_these(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.objects.put_config_map("c", a="1")
    others = tuple(core_v1.Volume(name=name, empty_dir=core_v1.EmptyDirVolumeSource()) for name in "xyz")
    places = {"/dir": "v", "/dir/n": "x", "/dir/n/deeper": "y", "/dir/n-more": "z"}
    pod = pod_with(config_map(), *others, mounts=places)
    assert nested_mount_points(pod, "v") == ["n", "n-more"]
    run(node.manager.wait_for_mounts(pod))
    assert (node.directory("configmap") / "n").is_dir()
    assert not (node.directory("configmap") / "n" / "deeper").exists()
