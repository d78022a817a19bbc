"""A node whose objects, mounts and events a test can see and change."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bayplan.api.codec import from_tree, to_tree
from bayplan.api.patching.json_patches import apply_merge_patch
from bayplan.api.types import core_v1, meta_v1
from bayplan.kubelet.objects import ObjectError, ObjectNotFoundError, Token
from bayplan.kubelet.volumes.interface import VolumeHost
from bayplan.kubelet.volumes.kinds import VolumeKinds, default_kinds
from bayplan.kubelet.volumes.manager import VolumeManager
from bayplan.support.blocking import at_once
from bayplan.support.clock import LoopClock
from bayplan.support.randomness import SeededRandomness
from bayplan.testing.builders import container, metadata, node, pod
from bayplan.testing.mounts import RememberedMounts

UID = "11111111-2222-4333-8444-555555555555"


@dataclass
class Objects:
    """`ObjectSource` from dictionaries. Texts in `errors` (by name) are raised."""

    config_maps: dict[str, core_v1.ConfigMap] = field(default_factory=dict)
    secrets: dict[str, core_v1.Secret] = field(default_factory=dict)
    claims: dict[str, core_v1.PersistentVolumeClaim] = field(default_factory=dict)
    volumes: dict[str, core_v1.PersistentVolume] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    registered: set[str] = field(default_factory=set)
    tokens: int = 0
    _changed: list[Callable[[str], None]] = field(default_factory=list)

    def register(self, pod: core_v1.Pod) -> None:
        self.registered.add(pod.metadata.uid)

    def unregister(self, pod_uid: str) -> None:
        self.registered.discard(pod_uid)

    def on_change(self, changed: Callable[[str], None]) -> None:
        self._changed.append(changed)

    def put_config_map(self, name: str, **data: str) -> None:
        """Make or change a config map, and say so."""
        self.config_maps[name] = core_v1.ConfigMap(metadata=metadata(name, "default"), data=data)
        self.changed()

    def put_secret(self, name: str, **data: str) -> None:
        """Make or change a secret, and say so."""
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        self.secrets[name] = core_v1.Secret(metadata=metadata(name, "default"), data=encoded)
        self.changed()

    def changed(self) -> None:
        """Say that something has changed."""
        for uid in sorted(self.registered):
            for each in self._changed:
                each(uid)

    async def config_map(self, namespace: str, name: str) -> core_v1.ConfigMap:
        self._check(name, name in self.config_maps, f'configmap "{name}" not found')
        return self.config_maps[name]

    async def secret(self, namespace: str, name: str) -> core_v1.Secret:
        self._check(name, name in self.secrets, f'secret "{name}" not found')
        return self.secrets[name]

    async def token(self, pod: core_v1.Pod, audience: str, seconds: int | None) -> Token:
        self._check("token", True, "")
        self.tokens += 1
        text = f"token {self.tokens} for {pod.metadata.name} to {audience or 'the API server'}"
        return Token(text, 0.0, 3600.0)

    async def claim(self, namespace: str, name: str) -> core_v1.PersistentVolumeClaim:
        self._check(name, name in self.claims, f'persistentvolumeclaims "{name}" not found')
        return self.claims[name]

    async def volume(self, name: str) -> core_v1.PersistentVolume:
        self._check(name, name in self.volumes, f'persistentvolumes "{name}" not found')
        return self.volumes[name]

    async def change_claim_status(self, claim: core_v1.PersistentVolumeClaim, status: Mapping[str, Any]) -> None:
        name = claim.metadata.name
        changed = apply_merge_patch(to_tree(claim), {"status": status})
        self.claims[name] = from_tree(core_v1.PersistentVolumeClaim, changed)

    async def trust_anchors(
        self, *, name: str | None, signer: str | None, selector: meta_v1.LabelSelector | None, optional: bool
    ) -> bytes:
        return f"anchors of {name or signer}".encode()

    async def pod_certificate(self, pod: core_v1.Pod, volume: str, index: int) -> tuple[bytes, bytes]:
        return f"key {index}\n".encode(), f"chain {index}\n".encode()

    def _check(self, name: str, exists: bool, missing: str) -> None:
        if name in self.errors:
            raise ObjectError(self.errors[name])
        if not exists:
            raise ObjectNotFoundError(missing)


class Node:
    """A node in a directory of its own, with mounts that are only remembered."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.objects = Objects()
        self.mounts = RememberedMounts()
        self.events: list[str] = []
        self.node = node("n1", memory="8Gi")
        self.host = VolumeHost(
            root=root,
            node_name="n1",
            mounter=self.mounts,
            objects=self.objects,
            clock=LoopClock(1_767_323_045.0),
            randomness=SeededRandomness(1),
            blocking=at_once,
            allocatable=lambda: self.node.status.allocatable,
            event=lambda pod, kind, reason, message: self.events.append(f"{kind} {reason} {message}"),
        )
        self.manager = self.restarted()

    def restarted(self) -> VolumeManager:
        """A manager that knows nothing, as after a restart."""
        self.manager = VolumeManager(self.host, VolumeKinds(default_kinds()), node=lambda: self.node)
        return self.manager

    def directory(self, kind: str, name: str = "v", uid: str = UID) -> Path:
        """Where a volume is to be."""
        return self.root / "pods" / uid / "volumes" / f"kubernetes.io~{kind}" / name


def pod_with(
    *volumes: core_v1.Volume,
    uid: str = UID,
    mounts: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> core_v1.Pod:
    """A pod whose container mounts all of its volumes, or `mounts`: path -> name of the volume."""
    places = mounts if mounts is not None else {f"/{each.name}": each.name for each in volumes}
    main = container(
        volume_mounts=tuple(core_v1.VolumeMount(name=name, mount_path=path) for path, name in places.items())
    )
    spec.setdefault("containers", (main,))
    meta = {"uid": uid, "labels": dict(labels or {})}
    return pod("p", meta=meta, volumes=volumes, service_account_name="default", **spec)


def shown(directory: Path) -> dict[str, str]:
    """The files that a container sees: path -> content."""
    return {
        str(each.relative_to(directory)): each.read_text()
        for each in sorted(directory.rglob("*"))
        if each.is_file() and not each.relative_to(directory).parts[0].startswith("..")
    } | {
        f"{top.name}/{each.relative_to(top)}": each.read_text()
        for top in sorted(directory.iterdir())
        if top.is_symlink() and top.is_dir() and not top.name.startswith("..")
        for each in sorted(top.resolve().rglob("*"))
        for each in [top / each.relative_to(top.resolve())]
        if each.is_file()
    }
