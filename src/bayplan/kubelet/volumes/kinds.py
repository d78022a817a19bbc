"""The table of kinds. A kind that other programs provide, such as CSI, is added to it when the node is wired."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bayplan.kubelet.volumes.config_map import ConfigMap
from bayplan.kubelet.volumes.downward_api import DownwardApi
from bayplan.kubelet.volumes.empty_dir import EmptyDir
from bayplan.kubelet.volumes.errors import SetUpError
from bayplan.kubelet.volumes.host_path import HostPath
from bayplan.kubelet.volumes.image import Image
from bayplan.kubelet.volumes.interface import VolumeKind, VolumeSpec, escaped
from bayplan.kubelet.volumes.local import Local
from bayplan.kubelet.volumes.nfs import Nfs
from bayplan.kubelet.volumes.projected import Projected
from bayplan.kubelet.volumes.secret import Secret


def default_kinds() -> tuple[VolumeKind, ...]:
    """The kinds that need nothing but this node and the API."""
    return (EmptyDir(), HostPath(), ConfigMap(), Secret(), DownwardApi(), Projected(), Image(), Local(), Nfs())


class VolumeKinds:
    """Kinds by the volumes they support and by the directories they leave."""

    def __init__(self, kinds: Iterable[VolumeKind]) -> None:
        self._kinds = {each.name: each for each in kinds}

    def __iter__(self) -> Iterator[VolumeKind]:
        return iter(self._kinds.values())

    def add(self, kind: VolumeKind) -> None:
        """Add a kind, or put another in the place of the one of this name."""
        self._kinds[kind.name] = kind

    def of(self, spec: VolumeSpec) -> VolumeKind:
        """The kind of a volume. Raises SetUpError."""
        found = [each for each in self._kinds.values() if each.can_support(spec)]
        if not found:
            raise SetUpError("no volume plugin matched")
        if len(found) > 1:
            names = ",".join(each.name for each in found)
            raise SetUpError(f"multiple volume plugins matched: {names}")
        return found[0]

    def of_directory(self, name: str) -> VolumeKind | None:
        """The kind that made a directory `kubernetes.io~KIND`; None for one of no kind that is known."""
        return next((each for each in self._kinds.values() if escaped(each.name) == name), None)
