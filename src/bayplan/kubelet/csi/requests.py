"""What drivers are asked for, from volumes, pods and CSIDriver objects. Pure functions.

Source of the behaviour: pkg/volume/csi (csi_mounter.go, csi_client.go, csi_util.go).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bayplan.api.types import core_v1, storage_v1
from bayplan.csi import messages as csi
from bayplan.kubelet.objects import Token
from bayplan.kubelet.volumes.errors import SetUpError
from bayplan.kubelet.volumes.interface import VolumeSpec
from bayplan.support.timestamps import rfc3339

EPHEMERAL, PERSISTENT = "Ephemeral", "Persistent"
TOKENS: Final = "csi.storage.k8s.io/serviceAccount.tokens"
_DEFAULT_POLICY = "ReadWriteOnceWithFSType"


@dataclass(frozen=True, slots=True)
class Source:
    """A volume of a driver, whether a pod has it inline or by a claim. `mode` is EPHEMERAL or PERSISTENT, `access` the first of its access modes."""

    driver: str
    handle: str
    mode: str
    read_only: bool = False
    fs_type: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    access: str = "ReadWriteOnce"
    access_modes: tuple[str, ...] = ("ReadWriteOnce",)
    mount_options: tuple[str, ...] = ()
    stage_secret: core_v1.SecretReference | None = None
    publish_secret: core_v1.SecretReference | None = None
    expand_secret: core_v1.SecretReference | None = None

    @property
    def key(self) -> str:
        """What tells volumes from one another."""
        return f"{self.driver}^{self.handle}"


def driver_of(spec: VolumeSpec) -> str:
    """The driver of a volume; empty for volumes of no driver."""
    if spec.persistent_volume is not None:
        persistent = spec.persistent_volume.spec.csi
        return persistent.driver if persistent is not None else ""
    return spec.volume.csi.driver if spec.volume is not None and spec.volume.csi is not None else ""


def source_of(spec: VolumeSpec, pod: core_v1.Pod) -> Source:
    """A volume as a driver is told of it. The spec has to be one of a driver."""
    if spec.persistent_volume is not None:
        volume = spec.persistent_volume.spec
        persistent = volume.csi
        assert persistent is not None
        modes = tuple(volume.access_modes)
        return Source(
            driver=persistent.driver,
            handle=persistent.volume_handle,
            mode=PERSISTENT,
            read_only=spec.read_only,
            fs_type=persistent.fs_type,
            attributes=persistent.volume_attributes,
            access=modes[0] if modes else "ReadWriteOnce",
            access_modes=modes,
            mount_options=tuple(volume.mount_options),
            stage_secret=persistent.node_stage_secret_ref,
            publish_secret=persistent.node_publish_secret_ref,
            expand_secret=persistent.node_expand_secret_ref,
        )
    inline = spec.volume.csi if spec.volume is not None else None
    assert inline is not None
    secret = inline.node_publish_secret_ref
    return Source(
        driver=inline.driver,
        handle=inline_handle(pod.metadata.uid, spec.name),
        mode=EPHEMERAL,
        read_only=bool(inline.read_only),
        fs_type=inline.fs_type or "",
        attributes=inline.volume_attributes,
        publish_secret=core_v1.SecretReference(name=secret.name, namespace=pod.metadata.namespace) if secret else None,
    )


def inline_handle(pod_uid: str, name: str) -> str:
    """The handle of a pod's inline volume."""
    return "csi-" + hashlib.sha256(f"{pod_uid}{name}".encode()).hexdigest()


def access_mode(mode: str, *, single_node_multi_writer: bool) -> csi.Access:
    """An access mode of Kubernetes in the words of CSI. Raises SetUpError."""
    several = csi.Access.SINGLE_NODE_MULTI_WRITER if single_node_multi_writer else csi.Access.SINGLE_NODE_WRITER
    one = csi.Access.SINGLE_NODE_SINGLE_WRITER if single_node_multi_writer else csi.Access.SINGLE_NODE_WRITER
    known = {
        "ReadWriteOnce": several,
        "ReadOnlyMany": csi.Access.MULTI_NODE_READER_ONLY,
        "ReadWriteMany": csi.Access.MULTI_NODE_MULTI_WRITER,
        "ReadWriteOncePod": one,
    }
    if mode not in known:
        raise SetUpError(f"unknown access mode {mode}")
    return known[mode]


def capability(
    source: Source, *, is_block: bool, single_node_multi_writer: bool, group: int | None = None
) -> csi.VolumeCapability:
    """How a volume is used. group: the group that the driver gives its files to. Raises SetUpError."""
    access = csi.AccessMode(access_mode(source.access, single_node_multi_writer=single_node_multi_writer))
    if is_block:
        return csi.VolumeCapability(block=csi.Empty(), access_mode=access)
    shown = "" if group is None else str(group)
    mount = csi.MountVolume(source.fs_type, source.mount_options, shown)
    return csi.VolumeCapability(mount=mount, access_mode=access)


def check_mode(source: Source, driver: storage_v1.CSIDriver | None) -> None:
    """Raises SetUpError if a driver does not have volumes of this mode; without a CSIDriver object, only persistent ones."""
    problem = f'volume mode "{source.mode}" not supported by driver {source.driver}'
    if driver is None:
        if source.mode == EPHEMERAL:
            raise SetUpError(
                f"kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode: {problem} (no CSIDriver object)"
            )
        return
    modes = driver.spec.volume_lifecycle_modes
    if source.mode not in modes:
        shown = " ".join(f'"{each}"' for each in modes)
        raise SetUpError(
            f"kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode: {problem} (only supports [{shown}])"
        )


def applies_group(source: Source, group: int | None, driver: storage_v1.CSIDriver | None) -> bool:
    """Whether the kubelet gives a volume's files to the pod's group (fsGroupPolicy)."""
    policy = (driver.spec.fs_group_policy if driver is not None else None) or _DEFAULT_POLICY
    if group is None or policy == "None" or source.read_only:
        return False
    if policy == "File":
        return True
    return bool(source.fs_type) and bool({"ReadWriteOnce", "ReadWriteOncePod"} & set(source.access_modes))


def pod_attributes(pod: core_v1.Pod, source: Source) -> dict[str, str]:
    """What drivers that ask for it (podInfoOnMount) are told of a pod."""
    prefix = "csi.storage.k8s.io/"
    return {
        f"{prefix}pod.name": pod.metadata.name,
        f"{prefix}pod.namespace": pod.metadata.namespace,
        f"{prefix}pod.uid": pod.metadata.uid,
        f"{prefix}serviceAccount.name": pod.spec.service_account_name,
        f"{prefix}ephemeral": "true" if source.mode == EPHEMERAL else "false",
    }


def tokens_attribute(tokens: Mapping[str, Token]) -> dict[str, str]:
    """Tokens by their audiences, as drivers read them."""
    found = {
        audience: {"token": token.text, "expirationTimestamp": rfc3339(token.expires)}
        for audience, token in sorted(tokens.items())
    }
    return {TOKENS: json.dumps(found, separators=(",", ":"))}
