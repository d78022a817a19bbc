"""Ranges of user and group ids for pods that have a user namespace (`hostUsers: false`; pkg/kubelet/userns).

Each pod has a range of its own for as long as it is on the node. It is written into the pod's directory before it is used, in Kubernetes' format, so that a kubelet
that was restarted, or Kubernetes' own in its place, gives it to nobody else:

    ROOT/pods/UID/userns  {"uidMappings":[{"hostId":131072,"containerId":0,"length":65536}],"gidMappings":[...]}
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import msgspec

from bayplan.api.types import core_v1
from bayplan.kubelet.errors import ConfigurationError, KubeletError
from bayplan.kubelet.runtime.types import IdMapping, NamespaceMode, UserNamespace
from bayplan.support.blocking import Blocking
from bayplan.support.system.private_files import write_private

FILE = "userns"
_ALL_IDS = 1 << 32
_UNIT = 65536


class UserNamespaceError(KubeletError):
    """A pod cannot have a user namespace; the text is for an event."""


class _Range(msgspec.Struct, rename="camel", kw_only=True):
    host_id: int
    container_id: int
    length: int


class _Mappings(msgspec.Struct, rename="camel", kw_only=True):
    uid_mappings: list[_Range]
    gid_mappings: list[_Range]


class UserNamespaces:
    """Gives out ranges: the first id of a pod is a multiple of `ids_per_pod`, and the node's own ids below that are nobody's."""

    def __init__(self, root: Path, blocking: Blocking, *, ids_per_pod: int, max_pods: int) -> None:
        """root: the kubelet's directory. Raises ConfigurationError."""
        if ids_per_pod <= 0 or ids_per_pod % _UNIT:
            text = f"kubelet user namespace length {ids_per_pod} is not a multiple of {_UNIT}"
            raise ConfigurationError(f"userNamespaces.idsPerPod: {text}")
        self._count = _ALL_IDS // ids_per_pod - 1
        if self._count < max_pods:
            text = f"kubelet user assigned IDs are not enough to support {max_pods} pods"
            raise ConfigurationError(f"userNamespaces.idsPerPod: {text}")
        self._pods = root / "pods"
        self._blocking = blocking
        self._length = ids_per_pod
        self._first_by_pod: dict[str, int] = {}

    async def recover(self) -> None:
        """Find the ranges of the pods that are on the node. Raises UserNamespaceError, OSError."""
        for uid, data in (await self._blocking(self._read_all)).items():
            self._record(uid, data)

    async def of(self, pod: core_v1.Pod, *, handler: str, is_supported: bool) -> UserNamespace:
        """The user namespace of a pod: the node's unless it asks for one of its own.

        handler: of its RuntimeClass, empty for the default; is_supported: whether that has user namespaces. Raises UserNamespaceError, OSError.
        """
        if pod.spec.host_users is not False:
            return UserNamespace(NamespaceMode.NODE)
        if not is_supported:
            which = f'RuntimeClass handler "{handler}"' if handler else "runtime"
            raise UserNamespaceError(f"can't set `spec.hostUsers: false`, {which} does not support user namespaces")
        uid = pod.metadata.uid
        first = self._first_by_pod.get(uid)
        if first is None:
            data = await self._blocking(lambda: _read(self._pods / uid / FILE))
            first = self._record(uid, data) if data else await self._allocate(uid)
        mapping = (IdMapping(host_id=first, container_id=0, length=self._length),)
        return UserNamespace(NamespaceMode.POD, mapping, mapping)

    async def release(self, pod_uid: str) -> None:
        """Give back the range of a pod whose containers are gone. Raises OSError."""
        if pod_uid in self._first_by_pod:
            await self._blocking(lambda: (self._pods / pod_uid / FILE).unlink(missing_ok=True))
            self._first_by_pod.pop(pod_uid, None)

    async def release_all_but(self, keep: Collection[str]) -> None:
        """Give back the ranges of all pods but those with these uids. Raises OSError."""
        for uid in [uid for uid in self._first_by_pod if uid not in keep]:
            await self.release(uid)

    async def _allocate(self, uid: str) -> int:
        used = set(self._first_by_pod.values())
        candidates = range(self._length, _ALL_IDS, self._length)
        first = next((each for each in candidates if each not in used), None)
        if first is None:
            text = "could not find an empty slot to allocate a user namespace"
            raise UserNamespaceError(f"create user namespace: {text}")
        self._first_by_pod[uid] = first  # taken before anybody else may ask
        mapping = _Range(host_id=first, container_id=0, length=self._length)
        data = msgspec.json.encode(_Mappings(uid_mappings=[mapping], gid_mappings=[mapping]))
        try:
            await self._blocking(lambda: _write(self._pods / uid, data))
        except BaseException:
            del self._first_by_pod[uid]
            raise
        return first

    def _record(self, uid: str, data: bytes) -> int:
        """Take the range that a file names; its first id. Raises UserNamespaceError."""
        try:
            found = msgspec.json.decode(data, type=_Mappings)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise UserNamespaceError(f"invalid user namespace mappings file: {error}") from error
        if len(found.uid_mappings) != 1 or found.uid_mappings != found.gid_mappings:
            text = "GID and UID mappings should be one and identical"
            raise UserNamespaceError(f"invalid user namespace configuration: {text}")
        [mapping] = found.uid_mappings
        first = mapping.host_id
        if mapping.container_id != 0:
            raise UserNamespaceError("invalid user namespace configuration: UID 0 must be mapped")
        if mapping.length != self._length:
            raise UserNamespaceError(f"wrong user namespace length {mapping.length}")
        if first % self._length:
            raise UserNamespaceError(f"wrong user namespace offset specified {first}")
        if not self._length <= first < _ALL_IDS:
            raise UserNamespaceError(f"id {first} is out of range")
        if any(other == first and each != uid for each, other in self._first_by_pod.items()):
            raise UserNamespaceError(f'range picked for pod "{uid}" already taken')
        self._first_by_pod[uid] = first
        return first

    def _read_all(self) -> dict[str, bytes]:
        try:
            uids = sorted(os.listdir(self._pods))
        except FileNotFoundError:
            return {}
        found = {uid: _read(self._pods / uid / FILE) for uid in uids}
        return {uid: data for uid, data in found.items() if data}


def _read(path: Path) -> bytes:
    """What is in a file; nothing if it is not there."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return b""


def _write(directory: Path, data: bytes) -> None:
    directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    write_private(directory / FILE, data)
