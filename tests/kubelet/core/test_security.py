"""As whom containers run, and what they may."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.kubelet.core.containers.security import (
    MASKED_PATHS,
    READ_ONLY_PATHS,
    NodeSecurity,
    SecurityError,
    container_security,
    dotted,
    forbidden_sysctl,
    sandbox_security,
    unenforceable_apparmor,
    verify_non_root,
)
from bayplan.kubelet.runtime.types import ContainerSecurity, NamespaceMode, SecurityProfile
from bayplan.testing.builders import container, pod

Security, PodSecurity = core_v1.SecurityContext, core_v1.PodSecurityContext
Seccomp, AppArmor = core_v1.SeccompProfile, core_v1.AppArmorProfile


def security(
    own: core_v1.SecurityContext | None = None,
    of_pod: core_v1.PodSecurityContext | None = None,
    node: NodeSecurity | None = None,
    *,
    spec: dict[str, Any] | None = None,
    **more: Any,
) -> ContainerSecurity:
    main = container(security_context=own)
    asked = pod("p", containers=(main,), security_context=of_pod, **(spec or {}))
    return container_security(asked, main, node or NodeSecurity("/seccomp"), **more)


@pytest.mark.parametrize(
    ("own", "of_pod", "image", "user", "username"),
    [
        (None, None, (0, ""), 0, ""),
        (None, None, (None, "www"), None, "www"),
        (None, PodSecurity(run_as_user=5), (7, ""), 5, ""),
        (Security(run_as_user=0), PodSecurity(run_as_user=5), (None, "www"), 0, ""),
    ],
    ids=["the image's id", "the image's name", "the pod's", "its own"],
)
def test_a_container_runs_as_whom_the_nearest_says(
    own: core_v1.SecurityContext | None,
    of_pod: core_v1.PodSecurityContext | None,
    image: tuple[int | None, str],
    user: int | None,
    username: str,
) -> None:
    found = security(own, of_pod, image_user=image[0], image_username=image[1])
    assert (found.run_as_user, found.run_as_username) == (user, username)


def test_groups_are_those_of_pod_and_volumes() -> None:
    of_pod = PodSecurity(
        fs_group=10, supplemental_groups=(20, 30), run_as_group=40, supplemental_groups_policy="Strict"
    )
    found = security(None, of_pod, extra_groups=(50,))
    assert sorted(found.supplemental_groups) == [10, 20, 30, 50]
    assert (found.run_as_group, found.supplemental_groups_policy) == (40, "Strict")
    assert security(Security(run_as_group=0), of_pod).run_as_group == 0
    assert security(extra_groups=(50,)).supplemental_groups == (50,)


@pytest.mark.parametrize(
    ("own", "of_pod", "image", "message"),
    [
        (
            Security(run_as_non_root=True),
            None,
            (0, ""),
            'container has runAsNonRoot and image will run as root (pod: "p_default(u)", container: main)',
        ),
        (
            None,
            PodSecurity(run_as_non_root=True),
            (None, "www"),
            "container has runAsNonRoot and image has non-numeric user (www), cannot verify user is non-root "
            '(pod: "p_default(u)", container: main)',
        ),
        (
            Security(run_as_non_root=True, run_as_user=0),
            None,
            (1000, ""),
            'container\'s runAsUser breaks non-root policy (pod: "p_default(u)", container: main)',
        ),
        (
            Security(run_as_non_root=True),
            PodSecurity(run_as_user=0),
            (1000, ""),
            'container\'s runAsUser breaks non-root policy (pod: "p_default(u)", container: main)',
        ),
        (
            Security(run_as_non_root=True),
            None,
            (2**31, ""),
            "container has runAsNonRoot and image has an invalid user id (2147483648). (Must be 1-(2147483647)): "
            'must be between 0 and 2147483647, inclusive (pod: "p_default(u)", container: main)',
        ),
    ],
    ids=["root", "a name", "its own user", "the pod's user", "an impossible id"],
)
def test_who_must_not_be_root_is_not(
    own: core_v1.SecurityContext | None,
    of_pod: core_v1.PodSecurityContext | None,
    image: tuple[int | None, str],
    message: str,
) -> None:
    main = container(security_context=own)
    with pytest.raises(SecurityError) as error:
        verify_non_root(pod("p", containers=(main,), security_context=of_pod), main, *image, "p_default(u)")
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("own", "of_pod", "image"),
    [
        (None, None, (0, "")),
        (Security(run_as_non_root=False), PodSecurity(run_as_non_root=True), (0, "")),
        (Security(run_as_non_root=True), None, (1000, "")),
        (Security(run_as_non_root=True, run_as_user=1), None, (None, "www")),
        (Security(run_as_non_root=True), None, (None, "")),
    ],
    ids=["nobody minds", "allowed for this one", "another user", "a number instead of a name", "nothing is known"],
)
def test_who_may_be_root_or_is_not_runs(
    own: core_v1.SecurityContext | None, of_pod: core_v1.PodSecurityContext | None, image: tuple[int | None, str]
) -> None:
    main = container(security_context=own)
    verify_non_root(pod("p", containers=(main,), security_context=of_pod), main, *image, "p")


def test_what_a_container_asks_for_it_gets() -> None:
    found = security(
        Security(
            privileged=True,
            read_only_root_filesystem=True,
            allow_privilege_escalation=False,
            capabilities=core_v1.Capabilities(add=("NET_ADMIN",), drop=("ALL",)),
            se_linux_options=core_v1.SELinuxOptions(level="s0"),
        )
    )
    assert (found.privileged, found.read_only_root, found.no_new_privileges) == (True, True, True)
    assert (found.capabilities_add, found.capabilities_drop) == (("NET_ADMIN",), ("ALL",))
    assert found.selinux is not None
    assert found.selinux.level == "s0"
    usual = security(Security(allow_privilege_escalation=True))
    assert (usual.privileged, usual.read_only_root, usual.no_new_privileges) == (False, False, False)
    assert security().no_new_privileges is False


def test_proc_is_masked_unless_that_is_not_wanted() -> None:
    assert (security().masked_paths, security().read_only_paths) == (MASKED_PATHS, READ_ONLY_PATHS)
    hot = NodeSecurity(more_masked_paths=("/sys/hot",))
    assert security(node=hot).masked_paths == (*MASKED_PATHS, "/sys/hot")
    assert security(Security(proc_mount="Unmasked"), node=hot).masked_paths == ()
    unmasked = security(Security(proc_mount="Unmasked"))
    assert (unmasked.masked_paths, unmasked.read_only_paths) == ((), ())
    assert security(Security(proc_mount="Default")).masked_paths == MASKED_PATHS


@pytest.mark.parametrize(
    ("own", "of_pod", "by_default", "profile"),
    [
        (None, None, False, SecurityProfile("Unconfined")),
        (None, None, True, SecurityProfile("RuntimeDefault")),
        (Seccomp(type="Unconfined"), None, True, SecurityProfile("Unconfined")),
        (None, Seccomp(type="RuntimeDefault"), False, SecurityProfile("RuntimeDefault")),
        (Seccomp(type="Unconfined"), Seccomp(type="RuntimeDefault"), False, SecurityProfile("Unconfined")),
        (
            Seccomp(type="Localhost", localhost_profile="a/b.json"),
            None,
            False,
            SecurityProfile("Localhost", "/seccomp/a/b.json"),
        ),
    ],
)
def test_the_seccomp_profile_is_the_nearest(
    own: core_v1.SeccompProfile | None,
    of_pod: core_v1.SeccompProfile | None,
    by_default: bool,
    profile: SecurityProfile,
) -> None:
    found = security(
        Security(seccomp_profile=own), PodSecurity(seccomp_profile=of_pod), NodeSecurity("/seccomp", by_default)
    )
    assert found.seccomp == profile


def test_a_local_profile_needs_a_name() -> None:
    with pytest.raises(SecurityError, match="localhostProfile must be set if seccompProfile type is Localhost"):
        security(Security(seccomp_profile=Seccomp(type="Localhost")))


@pytest.mark.parametrize(
    ("own", "of_pod", "profile"),
    [
        (None, None, None),
        (AppArmor(type="Localhost", localhost_profile="mine"), None, SecurityProfile("Localhost", "mine")),
        (None, AppArmor(type="RuntimeDefault"), SecurityProfile("RuntimeDefault")),
        (AppArmor(type="Unconfined"), AppArmor(type="RuntimeDefault"), SecurityProfile("Unconfined")),
    ],
)
def test_the_apparmor_profile_is_the_nearest(
    own: core_v1.AppArmorProfile | None, of_pod: core_v1.AppArmorProfile | None, profile: SecurityProfile | None
) -> None:
    found = security(Security(app_armor_profile=own), PodSecurity(app_armor_profile=of_pod))
    assert found.apparmor == profile


NODE, POD, CONTAINER, TARGET = (
    NamespaceMode.NODE,
    NamespaceMode.POD,
    NamespaceMode.CONTAINER,
    NamespaceMode.TARGET,
)


@pytest.mark.parametrize(
    ("spec", "network", "pid", "ipc"),
    [
        ({}, POD, CONTAINER, POD),
        ({"host_network": True}, NODE, CONTAINER, POD),
        ({"host_pid": True}, POD, NODE, POD),
        ({"host_ipc": True}, POD, CONTAINER, NODE),
        ({"share_process_namespace": True}, POD, POD, POD),
        ({"share_process_namespace": False}, POD, CONTAINER, POD),
    ],
)
def test_namespaces_are_shared_as_asked_for(
    spec: dict[str, Any], network: NamespaceMode, pid: NamespaceMode, ipc: NamespaceMode
) -> None:
    found = security(spec=spec).namespaces
    assert (found.network, found.pid, found.ipc, found.target_id) == (network, pid, ipc, "")
    assert sandbox_security(pod("p", **spec)).namespaces == found


def test_an_ephemeral_container_sees_the_processes_of_its_target() -> None:
    found = security(target_id="abc").namespaces
    assert (found.pid, found.target_id) == (TARGET, "abc")
    shared = security(spec={"share_process_namespace": True}, target_id="abc").namespaces
    assert (shared.pid, shared.target_id) == (POD, "")


def test_a_sandbox_is_privileged_if_a_container_is() -> None:
    plain = container("a")
    privileged = container("b", security_context=Security(privileged=True))
    assert not sandbox_security(pod("p", containers=(plain,))).privileged
    assert sandbox_security(pod("p", containers=(plain, privileged))).privileged
    assert sandbox_security(pod("p", containers=(plain,), init_containers=(privileged,))).privileged


def test_a_sandbox_runs_as_the_pod_says() -> None:
    of_pod = PodSecurity(run_as_user=1, run_as_group=2, fs_group=3, supplemental_groups=(4,))
    found = sandbox_security(pod("p", security_context=of_pod), extra_groups=(5,))
    assert (found.run_as_user, found.run_as_group) == (1, 2)
    assert sorted(found.supplemental_groups) == [3, 4, 5]
    assert found.seccomp == SecurityProfile("RuntimeDefault")


@pytest.mark.parametrize(
    ("name", "allowed", "spec", "message"),
    [
        ("kernel.shm_rmid_forced", (), {}, ""),
        ("net/ipv4/tcp_syncookies", (), {}, ""),
        ("net.ipv4.tcp_syncookies", (), {"host_network": True}, "not allowed with host Net enabled"),
        ("kernel.shm_rmid_forced", (), {"host_ipc": True}, "not allowed with host IPC enabled"),
        ("kernel.shm_rmid_forced", (), {"host_network": True}, ""),
        ("net.core.somaxconn", (), {}, "not allowlisted"),
        ("net.core.somaxconn", (), {"host_network": True}, "not allowlisted"),
        ("net.core.somaxconn", ("net.core.somaxconn",), {}, ""),
        ("net.core.somaxconn", ("net/core/somaxconn",), {}, ""),
        ("net.core.somaxconn", ("net.core.*",), {}, ""),
        ("net.corex", ("net.core.*",), {}, "not allowlisted"),
        ("net.core.somaxconn", ("net.*",), {"host_network": True}, "not allowed with host Net enabled"),
        ("kernel.msgmax", ("kernel.msg*",), {"host_ipc": True}, "not allowed with host IPC enabled"),
        ("fs.mqueue.msg_max", ("fs.mqueue.*",), {"host_ipc": True}, "not allowed with host IPC enabled"),
        ("vm.swappiness", (), {}, "not allowlisted"),
    ],
)
def test_sysctls_are_allowed_if_they_are_safe_or_listed(
    name: str, allowed: tuple[str, ...], spec: dict[str, Any], message: str
) -> None:
    asked = pod("p", security_context=PodSecurity(sysctls=(core_v1.Sysctl(name=name, value="1"),)), **spec)
    found = forbidden_sysctl(asked, allowed)
    assert found == (f'forbidden sysctl: "{dotted(name)}" {message}' if message else "")


def test_a_pod_without_sysctls_is_fine() -> None:
    assert forbidden_sysctl(pod("p"), ()) == ""


@pytest.mark.parametrize(
    ("own", "of_pod", "phase", "enabled", "text"),
    [
        pytest.param("RuntimeDefault", None, "Pending", False, "AppArmor is not enabled on the host", id="no AppArmor"),
        pytest.param(None, "RuntimeDefault", "Pending", False, "AppArmor is not enabled on the host", id="the pod's"),
        pytest.param(
            "Unconfined", "RuntimeDefault", "", False, "AppArmor is not enabled on the host", id="pod's first"
        ),
        pytest.param("RuntimeDefault", None, "Pending", True, "", id="AppArmor is there"),
        pytest.param("Unconfined", None, "Pending", False, "", id="nothing to enforce"),
        pytest.param(None, None, "Pending", False, "", id="nothing said"),
        pytest.param("RuntimeDefault", None, "Running", False, "", id="it runs already"),
        pytest.param("Localhost", None, "Pending", True, "invalid empty AppArmor profile name", id="no name"),
    ],
)
def test_a_node_takes_no_pod_whose_apparmor_profile_it_cannot_enforce(
    own: str | None, of_pod: str | None, phase: str, enabled: bool, text: str
) -> None:
    main = container(security_context=Security(app_armor_profile=AppArmor(type=own)) if own else None)
    of_all = PodSecurity(app_armor_profile=AppArmor(type=of_pod)) if of_pod else None
    asked = pod("p", containers=(main,), security_context=of_all)
    asked.status.phase = phase
    assert unenforceable_apparmor(asked, enabled=enabled) == text


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("a.b.c", "a.b.c"),
        ("a/b/c", "a.b.c"),
        ("net/ipv4/conf/eno2.100/rp_filter", "net.ipv4.conf.eno2/100.rp_filter"),
        ("net.ipv4.conf.eno2/100.rp_filter", "net.ipv4.conf.eno2/100.rp_filter"),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_names_of_sysctls_have_dots(name: str, normal: str) -> None:
    assert dotted(name) == normal
