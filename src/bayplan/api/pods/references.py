"""What pods and volumes refer to: the objects that a node has to read to run them. Functions of data.

Source: Kubernetes' `api/v1/pod` and `api/v1/persistentvolume` visitors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bayplan.api.types import core_v1

SECRETS, CONFIG_MAPS, CLAIMS = "secrets", "configmaps", "persistentvolumeclaims"
ACCOUNTS, RESOURCE_CLAIMS = "serviceaccounts", "resourceclaims"
MIRROR = "kubernetes.io/config.mirror"
Reference = tuple[str, str]
"""Plural of the resource and name, in the pod's own namespace."""


def references_of(pod: core_v1.Pod) -> frozenset[Reference]:
    """Everything that a node with this pod may read; nothing for mirror pods, which a node makes itself."""
    if MIRROR in pod.metadata.annotations:
        return frozenset()
    found = {(SECRETS, name) for name in secret_names(pod)}
    found |= {(CONFIG_MAPS, name) for name in config_map_names(pod)}
    found |= {(CLAIMS, name) for name in claim_names(pod)}
    found |= {(RESOURCE_CLAIMS, name) for name in _resource_claim_names(pod)}
    if pod.spec.service_account_name:
        found.add((ACCOUNTS, pod.spec.service_account_name))
    return frozenset(found)


def secret_names(pod: core_v1.Pod) -> Iterator[str]:
    """Names of secrets that the pod uses."""
    yield from _names(pod.spec.image_pull_secrets)
    for container in _containers(pod):
        yield from _names(source.secret_ref for source in container.env_from)
        yield from _names(one.value_from.secret_key_ref for one in container.env if one.value_from is not None)
    for volume in pod.spec.volumes:
        yield from _volume_secrets(volume)


def _volume_secrets(volume: core_v1.Volume) -> Iterator[str]:
    if volume.secret is not None and volume.secret.secret_name:
        yield volume.secret.secret_name
    if volume.azure_file is not None and volume.azure_file.secret_name:
        yield volume.azure_file.secret_name
    if volume.projected is not None:
        yield from _names(source.secret for source in volume.projected.sources)
    if volume.csi is not None:
        yield from _names((volume.csi.node_publish_secret_ref,))
    others = (
        volume.cephfs,
        volume.cinder,
        volume.flex_volume,
        volume.rbd,
        volume.scale_io,
        volume.iscsi,
        volume.storageos,
    )
    yield from _names(getattr(source, "secret_ref", None) for source in others)


def config_map_names(pod: core_v1.Pod) -> Iterator[str]:
    """Names of config maps that the pod uses."""
    for container in _containers(pod):
        yield from _names(source.config_map_ref for source in container.env_from)
        yield from _names(one.value_from.config_map_key_ref for one in container.env if one.value_from is not None)
    for volume in pod.spec.volumes:
        yield from _names((volume.config_map,))
        if volume.projected is not None:
            yield from _names(source.config_map for source in volume.projected.sources)


def claim_names(pod: core_v1.Pod) -> Iterator[str]:
    """Names of the volume claims of the pod, those that are made for it included."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.name}-{volume.name}"


def _resource_claim_names(pod: core_v1.Pod) -> Iterator[str]:
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for claim in pod.spec.resource_claims:
        name = claim.resource_claim_name or made.get(claim.name)
        if name:
            yield name
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        yield extended.resource_claim_name


def _containers(pod: core_v1.Pod) -> Iterator[Any]:
    yield from pod.spec.init_containers
    yield from pod.spec.containers
    yield from pod.spec.ephemeral_containers


def _names(references: Iterable[Any]) -> Iterator[str]:
    for reference in references:
        if reference is not None and reference.name:
            yield reference.name


def volume_secrets(volume: core_v1.PersistentVolume) -> Iterator[tuple[str, str]]:
    """Namespace and name of the secrets that a node needs to mount a bound volume."""
    spec, claim = volume.spec, volume.spec.claim_ref
    home = claim.namespace if claim is not None else ""
    if spec.azure_file is not None and spec.azure_file.secret_name:
        yield spec.azure_file.secret_namespace or home, spec.azure_file.secret_name
    references = [
        getattr(source, "secret_ref", None)
        for source in (spec.cephfs, spec.cinder, spec.flex_volume, spec.rbd, spec.scale_io, spec.iscsi, spec.storageos)
    ]
    if spec.csi is not None:
        csi = spec.csi
        references += [csi.node_publish_secret_ref, csi.node_stage_secret_ref, csi.node_expand_secret_ref]
    for reference in references:
        if reference is not None and reference.name:
            yield reference.namespace or home, reference.name
