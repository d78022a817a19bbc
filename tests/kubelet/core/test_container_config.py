"""What a runtime is told of pods and containers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.core.containers.config import (
    ContainerParts,
    MountConfigError,
    SandboxParts,
    container_config,
    pod_log_directory,
    sandbox_config,
    sub_path_of,
    volume_mount,
    wants_hosts_file,
)
from bayplan.kubelet.core.containers.hosts import HostnameError
from bayplan.kubelet.runtime.types import (
    ContainerConfig,
    ContainerSecurity,
    DnsConfig,
    ImageMount,
    MountPropagation,
    PortMapping,
    SandboxSecurity,
)
from bayplan.kubelet.volumes.interface import Mounted
from bayplan.testing.builders import container, pod

VALUES = (("A", "1"), ("EMPTY", ""), ("B", "x/y"))
SANDBOX = SandboxParts(
    "/logs", "cluster.local", DnsConfig(("10.0.0.10",)), SandboxSecurity(), cgroup_parent="/kubepods"
)


def config(restarts: int = 2, meta: dict[str, Any] | None = None, **fields: Any) -> ContainerConfig:
    spec = {"termination_grace_period_seconds": fields.pop("grace", None)}
    main = container("main", **fields)
    asked = pod("p", meta={"uid": "u", "labels": {"app": "x"}, **(meta or {})}, containers=(main,), **spec)
    return container_config(asked, main, ContainerParts("image@sha256:1", restarts, VALUES, (), ContainerSecurity()))


def test_a_sandbox_is_the_pods() -> None:
    ports = (core_v1.ContainerPort(container_port=80), core_v1.ContainerPort(container_port=53, host_port=5353, protocol="UDP", host_ip="127.0.0.1"))  # fmt: skip
    sysctls = (core_v1.Sysctl(name="net/ipv4/tcp_syncookies", value="1"),)
    asked = pod(
        "p",
        namespace="ns",
        meta={"uid": "u", "labels": {"app": "x"}, "annotations": {"note": "y"}},
        containers=(container(ports=ports),),
        security_context=core_v1.PodSecurityContext(sysctls=sysctls),
        hostname="h",
    )
    found = sandbox_config(asked, 3, SANDBOX)
    assert (found.name, found.namespace, found.uid, found.attempt, found.hostname) == ("p", "ns", "u", 3, "h")
    assert found.log_directory == pod_log_directory("/logs", asked) == "/logs/ns_p_u"
    assert found.port_mappings == (PortMapping("TCP", 80, 0), PortMapping("UDP", 53, 5353, "127.0.0.1"))
    assert found.labels == {
        "app": "x",
        "io.kubernetes.pod.name": "p",
        "io.kubernetes.pod.namespace": "ns",
        "io.kubernetes.pod.uid": "u",
    }
    assert found.annotations == {"note": "y"}
    assert found.sysctls == {"net.ipv4.tcp_syncookies": "1"}
    assert (found.cgroup_parent, found.dns) == ("/kubepods", DnsConfig(("10.0.0.10",)))


def test_a_pod_in_the_nodes_network_has_the_nodes_name() -> None:
    assert sandbox_config(pod("p", host_network=True, hostname="h"), 0, SANDBOX).hostname == ""


def test_a_name_that_is_too_long_makes_no_sandbox() -> None:
    asked = pod("p" * 60, subdomain="s", set_hostname_as_fqdn=True)
    with pytest.raises(HostnameError, match="is too long"):
        sandbox_config(asked, 0, SANDBOX)


def test_a_container_is_as_its_spec_says() -> None:
    found = config(
        command=("run", "$(A)", "$$(A)"), args=("$(B)", "$(missing)"), working_dir="/w", stdin=True, stdin_once=True, tty=True
    )  # fmt: skip
    assert found.command == ("run", "1", "$(A)")
    assert found.args == ("x/y", "$(missing)")
    assert (found.working_directory, found.stdin, found.stdin_once, found.tty) == ("/w", True, True, True)
    assert (found.image, found.user_image, found.attempt) == ("image@sha256:1", "app:1", 2)
    assert found.log_path == "main/2.log"
    assert found.environment == VALUES
    assert found.labels == {
        "io.kubernetes.pod.name": "p",
        "io.kubernetes.pod.namespace": "default",
        "io.kubernetes.pod.uid": "u",
        "io.kubernetes.container.name": "main",
    }


def test_annotations_keep_what_the_kubelet_must_know_when_the_pod_is_gone() -> None:
    hook = core_v1.LifecycleHandler(exec=core_v1.ExecAction(command=("stop",)))
    found = config(
        termination_message_path="/dev/termination-log",
        termination_message_policy="File",
        lifecycle=core_v1.Lifecycle(pre_stop=hook, stop_signal="SIGUSR1"),
        ports=(core_v1.ContainerPort(container_port=80, name="web"),),
        grace=45,
    )
    notes = found.annotations
    assert notes["io.kubernetes.container.restartCount"] == "2"
    assert notes["io.kubernetes.container.terminationMessagePath"] == "/dev/termination-log"
    assert notes["io.kubernetes.container.terminationMessagePolicy"] == "File"
    assert notes["io.kubernetes.pod.terminationGracePeriod"] == "45"
    assert "io.kubernetes.pod.deletionGracePeriod" not in notes
    assert json.loads(notes["io.kubernetes.container.preStopHandler"]) == {"exec": {"command": ["stop"]}}
    assert json.loads(notes["io.kubernetes.container.ports"])[0]["containerPort"] == 80
    assert found.stop_signal == "SIGUSR1"


def test_the_hash_changes_with_the_image_and_with_nothing_else() -> None:
    name = "io.kubernetes.container.hash"
    one = config().annotations[name]
    assert config(restarts=5, command=("other",), tty=True).annotations[name] == one
    assert config(image="app:2").annotations[name] != one


@pytest.mark.parametrize(
    ("mount", "path"),
    [
        (core_v1.VolumeMount(), ""),
        (core_v1.VolumeMount(sub_path="a/b"), "a/b"),
        (core_v1.VolumeMount(sub_path_expr="$(A)/$(B)"), "1/x/y"),
        (core_v1.VolumeMount(sub_path_expr="$$(A)"), "$(A)"),
        (core_v1.VolumeMount(sub_path_expr="plain"), "plain"),
    ],
)
def test_a_part_of_a_volume_may_depend_on_variables(mount: core_v1.VolumeMount, path: str) -> None:
    assert sub_path_of(mount, VALUES) == path


@pytest.mark.parametrize(
    ("mount", "message"),
    [
        (core_v1.VolumeMount(sub_path_expr="$(Z)/$(A)/$(MISSING)"), "missing value for MISSING, Z"),
        (core_v1.VolumeMount(sub_path_expr="$(EMPTY)"), "missing value for EMPTY"),
        (core_v1.VolumeMount(sub_path="/a"), "error SubPath `/a` must not be an absolute path"),
        (core_v1.VolumeMount(sub_path_expr="/$(A)"), "error SubPath `/1` must not be an absolute path"),
        (core_v1.VolumeMount(sub_path="a/../b"), "unable to provision SubPath `a/../b`: must not contain '..'"),
    ],
)
def test_impossible_parts_are_refused(mount: core_v1.VolumeMount, message: str) -> None:
    with pytest.raises(MountConfigError) as error:
        sub_path_of(mount, VALUES)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, MountPropagation.PRIVATE),
        ("None", MountPropagation.PRIVATE),
        ("HostToContainer", MountPropagation.HOST_TO_CONTAINER),
        ("Bidirectional", MountPropagation.BIDIRECTIONAL),
    ],
)
def test_mounts_are_seen_on_the_sides_that_are_asked_for(wanted: str | None, expected: MountPropagation) -> None:
    mount = core_v1.VolumeMount(name="v", mount_path="data", mount_propagation=wanted)
    found = volume_mount(mount, Mounted("/host", relabel=True), "/host/sub", "sub", recursive_read_only=True)
    assert (found.propagation, found.container_path, found.host_path) == (expected, "/data", "/host/sub")
    assert (found.selinux_relabel, found.read_only, found.recursive_read_only) == (True, False, False)


def test_a_volume_is_read_only_if_it_or_the_mount_says_so() -> None:
    for by_mount, by_volume in ((True, False), (False, True)):
        mount = core_v1.VolumeMount(name="v", mount_path="/v", read_only=by_mount)
        assert volume_mount(mount, Mounted("/h", read_only=by_volume), "/h", "", recursive_read_only=False).read_only


def test_an_image_is_mounted_by_its_reference() -> None:
    mount = core_v1.VolumeMount(name="v", mount_path="/v", sub_path="models")
    found = volume_mount(mount, Mounted(image="models:1", read_only=True), "", "models", recursive_read_only=False)
    assert found.image == ImageMount("models:1", "models")
    assert found.host_path == ""


@pytest.mark.parametrize(
    ("mode", "supported", "expected"),
    [
        (None, True, False),
        ("Disabled", True, False),
        ("IfPossible", True, True),
        ("IfPossible", False, False),
        ("Enabled", True, True),
    ],
)
def test_what_is_mounted_below_is_read_only_as_far_as_the_runtime_can(
    mode: str | None, supported: bool, expected: bool
) -> None:
    mount = core_v1.VolumeMount(name="v", mount_path="/v", read_only=True, recursive_read_only=mode)
    found = volume_mount(mount, Mounted("/h"), "/h", "", recursive_read_only=supported)
    assert (found.read_only, found.recursive_read_only) == (True, expected)


@pytest.mark.parametrize(
    ("fields", "supported", "message"),
    [
        ({"read_only": True}, False, "it is not supported by the runtime"),
        ({}, True, "it is not read-only"),
        (
            {"read_only": True, "mount_propagation": "HostToContainer"},
            True,
            'it is not compatible with propagation "HostToContainer"',
        ),
    ],
)
def test_recursive_read_only_mounts_have_their_conditions(
    fields: dict[str, Any], supported: bool, message: str
) -> None:
    mount = core_v1.VolumeMount(name="v", mount_path="/v", recursive_read_only="Enabled", **fields)
    with pytest.raises(MountConfigError) as error:
        volume_mount(mount, Mounted("/h"), "/h", "", recursive_read_only=supported)
    assert str(error.value) == (
        f'failed to resolve recursive read-only mode: volume "v" requested recursive read-only mode, but {message}'
    )


@pytest.mark.parametrize(
    ("ips", "spec", "path", "wanted"),
    [
        (("10.1.0.5",), {}, "/data", True),
        ((), {}, "/data", False),
        ((), {"host_network": True}, "/data", True),
        (("10.1.0.5",), {}, "/etc/hosts", False),
    ],
)
def test_etc_hosts_is_the_kubelets_unless_the_container_brings_its_own(
    ips: tuple[str, ...], spec: dict[str, Any], path: str, wanted: bool
) -> None:
    main = container(volume_mounts=(core_v1.VolumeMount(name="v", mount_path=path),))
    assert wants_hosts_file(pod("p", containers=(main,), **spec), main, ips) == wanted
