"""What of the API a simulated pod needs besides itself: ConfigMaps and Secrets for variables and volumes, claims.

Found once per look at a pod that refers to something (`object_reader`), and handed to the pure rules. The ConfigMap with the cluster's root certificates, to which
every pod refers, is taken for granted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from bayplan.api.types import core_v1
from bayplan.kubelet.core.containers.environment import Sources, VariableError, needs, variables
from bayplan.kubelet.core.containers.field_values import every_container
from bayplan.kubelet.core.pod_status import Failure
from bayplan.kubelet.core.restarts import AnyContainer

ROOT_CERTIFICATES = "kube-root-ca.crt"


@dataclass(frozen=True, slots=True)
class Found:
    """What was found of the objects that a pod refers to."""

    config_maps: Mapping[str, core_v1.ConfigMap | None] = field(default_factory=dict)
    secrets: Mapping[str, core_v1.Secret | None] = field(default_factory=dict)
    mount_errors: tuple[str, ...] = ()
    """Why volumes cannot be mounted, a text for each event."""
    needs_config: bool = True
    """Whether containers wait for ConfigMaps and Secrets that do not exist."""


NOTHING_FOUND = Found()


def _nobody() -> Iterable[core_v1.Pod]:
    return ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What decides about a pod besides itself and the time."""

    found: Found = NOTHING_FOUND
    node: core_v1.Node | None = None
    others: Callable[[], Iterable[core_v1.Pod]] = _nobody
    """The other pods of the node, asked for only when a pod wants other resources."""
    eviction: Failure | None = None
    """Why the node gets rid of the pod."""
    disruption: str = ""
    """What the condition DisruptionTarget says of that; empty for the same."""


NO_SURROUNDINGS = Surroundings()


def refers(spec: core_v1.PodSpec) -> bool:
    """Whether a pod refers to any object that must be looked at before it starts."""
    return any(map(_is_to_be_found, spec.volumes)) or any(
        one.env_from or any(each.value_from is not None for each in one.env) for one in every_container(spec)
    )


def _is_to_be_found(volume: core_v1.Volume) -> bool:
    if volume.projected is not None:
        return any(
            one.secret is not None or (one.config_map is not None and one.config_map.name != ROOT_CERTIFICATES)
            for one in volume.projected.sources
        )
    sources = (volume.config_map, volume.secret, volume.persistent_volume_claim, volume.ephemeral)
    return any(one is not None for one in sources)


def config_error(
    pod: core_v1.Pod, container: AnyContainer, found: Found, allocatable: Mapping[str, str | int | float]
) -> str:
    """Why the variables of a container cannot be put together; empty if they can. Files of volumes are not looked into."""
    wanted = needs(container)
    if not found.needs_config or wanted.files or not (wanted.config_maps or wanted.secrets):
        return ""
    try:
        variables(pod, container, Sources(found.config_maps, found.secrets, allocatable=allocatable))
    except VariableError as error:
        return str(error)
    return ""
