"""Defaults of volumes in pods and of persistent volumes, which share many sources."""

from __future__ import annotations

import operator
from typing import Any

from bayplan.api.defaults.images import pull_policy
from bayplan.api.defaults.quantities import canonical, canonical_list
from bayplan.api.trusted import is_trusted
from bayplan.api.types import core_v1

_MODE = 0o644
_SOURCES = tuple(field for field in core_v1.Volume.__struct_fields__ if field != "name")
_sources_of = operator.attrgetter(*_SOURCES)


def default_volume(volume: core_v1.Volume) -> None:
    """Defaults of one volume; one without a source is an empty directory."""
    if is_trusted(volume.projected):
        return
    for source in (volume.secret, volume.config_map, volume.downward_api, volume.projected):
        if source is not None and source.default_mode is None:
            source.default_mode = _MODE
    if volume.downward_api is not None:
        _default_downward_items(volume.downward_api.items)
        return
    if volume.projected is not None:
        for projection in volume.projected.sources:
            _default_projection(projection)
        return
    if volume.secret is not None or volume.config_map is not None:
        return
    if volume.empty_dir is not None:
        if volume.empty_dir.size_limit is not None:
            volume.empty_dir.size_limit = canonical(volume.empty_dir.size_limit)
    elif volume.image is not None:
        if not volume.image.pull_policy:
            volume.image.pull_policy = pull_policy(volume.image.reference)
    elif volume.ephemeral is not None:
        if volume.ephemeral.volume_claim_template is not None:
            default_claim_spec(volume.ephemeral.volume_claim_template.spec)
    elif _sources_of(volume).count(None) == len(_SOURCES):
        volume.empty_dir = core_v1.EmptyDirVolumeSource()
    else:
        default_volume_source(volume)


def _default_projection(projection: core_v1.VolumeProjection) -> None:
    if projection.downward_api is not None:
        _default_downward_items(projection.downward_api.items)
    token = projection.service_account_token
    if token is not None and token.expiration_seconds is None:
        token.expiration_seconds = 3600
    projection.pod_certificate = projection.cluster_trust_bundle = (
        None  # off by default in 1.36, so the server drops them
    )


def _default_downward_items(items: tuple[core_v1.DownwardAPIVolumeFile, ...]) -> None:
    for item in items:
        if item.field_ref is not None and not item.field_ref.api_version:
            item.field_ref.api_version = "v1"
        if item.resource_field_ref is not None:
            item.resource_field_ref.divisor = canonical(item.resource_field_ref.divisor)


def default_claim_spec(spec: core_v1.PersistentVolumeClaimSpec) -> None:
    """Defaults of the spec of a claim or of a claim template."""
    if spec.volume_mode is None:
        spec.volume_mode = "Filesystem"
    if spec.resources.requests:
        canonical_list(spec.resources.requests)
    if spec.resources.limits:
        canonical_list(spec.resources.limits)


def default_volume_source(holder: Any) -> None:
    """Defaults of the sources that a `Volume` and a `PersistentVolumeSpec` have in common."""
    if holder.host_path is not None and holder.host_path.type is None:
        holder.host_path.type = ""
    if holder.iscsi is not None and not holder.iscsi.iscsi_interface:
        holder.iscsi.iscsi_interface = "default"
    if holder.rbd is not None:
        holder.rbd.pool = holder.rbd.pool or "rbd"
        holder.rbd.user = holder.rbd.user or "admin"
        holder.rbd.keyring = holder.rbd.keyring or "/etc/ceph/keyring"
    if holder.scale_io is not None:
        holder.scale_io.storage_mode = holder.scale_io.storage_mode or "ThinProvisioned"
        holder.scale_io.fs_type = holder.scale_io.fs_type or "xfs"
    disk = holder.azure_disk
    if disk is not None:
        if disk.caching_mode is None:
            disk.caching_mode = "ReadWrite"
        if disk.kind is None:
            disk.kind = "Shared"
        if disk.fs_type is None:
            disk.fs_type = "ext4"
        if disk.read_only is None:
            disk.read_only = False
