"""Which pods want the same volume under other SELinux labels, or in another manner, than others: only one of them could use it on a node. Pure.

Source of the behaviour: Kubernetes' `pkg/controller/volume/selinuxwarning` (KEP-1710).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from bayplan.api.types import core_v1

RECURSIVE, MOUNT_OPTION = "Recursive", "MountOption"
POLICY, LABEL = "SELinuxChangePolicy", "SELinuxLabel"
_PARTS: Final = 4
"""Of a label: user, role, type, level. The level may have colons of its own."""


class Conflict(NamedTuple):
    """What a pod is told. pod and other: `namespace/name`. subject: what they have different values of."""

    subject: str
    pod: str
    value: str
    other: str
    other_value: str

    @property
    def reason(self) -> str:
        """Of the event."""
        return f"{self.subject}Conflict"

    @property
    def message(self) -> str:
        """Of the event: pods of other namespaces are not named."""
        namespace, _, name = self.other.partition("/")
        end = "If both pods land on the same node, only one of them may access the volume."
        if self.pod.partition("/")[0] == namespace:
            whom = f"pod {name} that uses the same volume as this pod with {self.subject} "
            return f'{self.subject} "{self.value}" conflicts with {whom}"{self.other_value}". {end}'
        whom = f"another pod that uses the same volume as this pod with a different {self.subject}"
        return f'{self.subject}"{self.value}" conflicts with {whom}. {end}'


@dataclass(frozen=True, slots=True)
class Use:
    """How a pod uses a volume."""

    label: str
    policy: str


def label_of(options: core_v1.SELinuxOptions) -> str:
    """`user:role:type:level`, without what nodes add to it; "" if nothing is said."""
    label = ":".join((options.user, options.role, options.type, options.level))
    return "" if label == ":::" else label


def labels_conflict(one: str, other: str) -> bool:
    """Whether two labels cannot become the same on a node, which may add a user, a role and a type, but no level."""
    *mine, level = _parts(one)
    *theirs, other_level = _parts(other)
    return level != other_level or any(a and b and a != b for a, b in zip(mine, theirs, strict=True))


def _parts(label: str) -> list[str]:
    found = label.split(":", _PARTS - 1)
    return found + [""] * (_PARTS - len(found))


def mount_labels(pod: core_v1.Pod) -> dict[str, set[str]]:
    """Volume of a pod that is mounted -> the labels of the containers that mount it, as far as these have any."""
    spec = pod.spec
    own = spec.security_context.se_linux_options if spec.security_context is not None else None
    found: dict[str, set[str]] = {}
    containers: list[core_v1.Container | core_v1.EphemeralContainer] = [*spec.init_containers, *spec.containers]
    containers += spec.ephemeral_containers
    for container in containers:
        context = container.security_context
        options = context.se_linux_options if context is not None and context.se_linux_options is not None else own
        for mount in container.volume_mounts:
            labels = found.setdefault(mount.name, set())
            if options is not None:
                labels.add(label_of(options))
    return found


def use_of(pod: core_v1.Pod, label: str, *, mounts_with_label: bool) -> Use:
    """How a pod uses a volume. label: of its containers. mounts_with_label: whether the volume can be mounted with a label."""
    context = pod.spec.security_context
    policy = context.se_linux_change_policy if context is not None else None
    if policy == RECURSIVE or not mounts_with_label or not label:
        return Use("", RECURSIVE)
    return Use(label, policy or MOUNT_OPTION)


class VolumeUses:
    """How pods use volumes. Volumes are named by whatever tells them apart."""

    def __init__(self) -> None:
        self._volumes: dict[str, dict[str, Use]] = {}
        self._of_pods: dict[str, set[str]] = {}

    def add(self, volume: str, pod: str, use: Use) -> list[Conflict]:
        """Note how a pod uses a volume; the conflicts that it brings, for both sides, if that is new."""
        pods = self._volumes.setdefault(volume, {})
        self._of_pods.setdefault(pod, set()).add(volume)
        if pods.get(pod) == use:
            return []
        pods[pod] = use
        return [each for other in pods if other != pod for each in _both_ways(pods, pod, other)]

    def remove(self, pod: str) -> None:
        """Forget a pod."""
        for volume in self._of_pods.pop(pod, ()):
            pods = self._volumes[volume]
            del pods[pod]
            if not pods:
                del self._volumes[volume]

    def volumes(self, pod: str) -> Iterable[str]:
        """Those of a pod."""
        return self._of_pods.get(pod, ())

    def conflicts(self) -> set[Conflict]:
        """All that there are."""
        return {
            each
            for pods in self._volumes.values()
            if len(set(pods.values())) > 1
            for pod in pods
            for other in pods
            if pod < other
            for each in _both_ways(pods, pod, other)
        }


def _both_ways(pods: dict[str, Use], pod: str, other: str) -> Iterator[Conflict]:
    mine, theirs = pods[pod], pods[other]
    pairs = []
    if mine.policy != theirs.policy:
        pairs.append((POLICY, mine.policy, theirs.policy))
    if labels_conflict(mine.label, theirs.label):
        pairs.append((LABEL, mine.label, theirs.label))
    for subject, value, other_value in pairs:
        yield Conflict(subject, pod, value, other, other_value)
        yield Conflict(subject, other, other_value, pod, value)
