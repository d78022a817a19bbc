"""Rules for volumes of pods. Sources that a volume shares with a persistent volume are in `volume_sources`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from bayplan.api import quantity
from bayplan.api.errors import duplicate, forbidden, invalid, required, unsupported, unsupported_text
from bayplan.api.trusted import is_trusted
from bayplan.api.types import core_v1, meta_v1
from bayplan.api.validation.devices.claims import check_claim_spec
from bayplan.api.validation.fields import Errors, check_format
from bayplan.api.validation.meta import check_template_object_meta
from bayplan.api.validation.pods.env import VOLUME_FIELDS, check_field_selector, check_resource_selector
from bayplan.api.validation.pods.volume_sources import (
    LONG_PORTAL,
    MAX_PORTAL,
    NAMES_OF_FURTHER_SOURCES,
    NAMES_OF_SOURCES,
    SHARED_SOURCES,
)
from bayplan.api.validation.storage import check_csi_driver_name
from bayplan.api.validation.values import formats
from bayplan.api.validation.values.paths import check_local_file_path

_MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"


def check_volumes(
    errors: Errors, path: str, volumes: tuple[core_v1.Volume, ...], metadata: meta_v1.ObjectMeta | None
) -> dict[str, core_v1.Volume]:
    """`volumes` of a pod; returns them by name. `metadata`: that of the pod, None in templates."""
    found: dict[str, core_v1.Volume] = {}
    made = _claims_made(volumes, metadata)
    for index, volume in enumerate(volumes):
        where, before = f"{path}[{index}]", len(errors)
        if not is_trusted(volume.projected):
            _check_source(errors, where, volume, metadata)
        if not volume.name:
            errors.append(required(f"{where}.name"))
        elif formats.dns_label(volume.name):
            check_format(errors, f"{where}.name", volume.name, formats.dns_label)
        if volume.name in found:
            errors.append(duplicate(f"{where}.name", volume.name))
        if len(errors) == before:  # containers cannot refer to a volume that is wrong
            found[volume.name] = volume
        claim = volume.persistent_volume_claim
        if claim is not None and claim.claim_name in made:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(f"{where}.persistentVolumeClaim.claimName", claim.claim_name, text))
    return found


def _claims_made(volumes: tuple[core_v1.Volume, ...], metadata: meta_v1.ObjectMeta | None) -> frozenset[str]:
    """Names of the claims that will be made for ephemeral volumes; only known for a pod with a name."""
    if metadata is None or not metadata.name:
        return frozenset()
    return frozenset(f"{metadata.name}-{volume.name}" for volume in volumes if volume.ephemeral is not None)


def _check_source(errors: Errors, path: str, volume: core_v1.Volume, metadata: meta_v1.ObjectMeta | None) -> None:
    count = 0
    for place, source in enumerate(_sources_of(volume)):
        if source is None:
            continue
        attribute, name = _ORDER[place]
        count += 1
        if count > 1:
            shown = NAMES_OF_FURTHER_SOURCES.get(attribute, name)
            errors.append(forbidden(f"{path}.{shown}", "may not specify more than 1 volume type"))
        elif attribute == "ephemeral":
            _check_ephemeral(errors, f"{path}.{name}", source, volume.name, metadata)
        elif attribute == "image":
            _check_image(errors, f"{path}.{name}", source, in_pod=metadata is not None)
        else:
            check = _CHECKS.get(attribute) or SHARED_SOURCES.get(attribute)
            if check is not None:
                check(errors, f"{path}.{NAMES_OF_SOURCES.get(attribute, name)}", source)
        initiator = source.initiator_name if isinstance(source, core_v1.ISCSIVolumeSource) else None
        if initiator is not None and len(f"{volume.name}:{source.target_portal}") > MAX_PORTAL:
            errors.append(invalid(f"{path}.name", volume.name, LONG_PORTAL))
    if not count:
        errors.append(required(path, "must specify a volume type"))


def _check_empty_dir(errors: Errors, path: str, source: core_v1.EmptyDirVolumeSource) -> None:
    if source.size_limit is not None and quantity.parse(source.size_limit).sign() < 0:
        errors.append(forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity"))


def _check_git_repo(errors: Errors, path: str, source: core_v1.GitRepoVolumeSource) -> None:
    if not source.repository:
        errors.append(required(f"{path}.repository"))
    check_local_file_path(errors, f"{path}.directory", source.directory)


def _check_mode(errors: Errors, path: str, mode: int | None) -> None:
    if mode is not None and not 0 <= mode <= 0o777:
        errors.append(invalid(path, mode, _MODE_TEXT))


def _check_items(errors: Errors, path: str, items: tuple[core_v1.KeyToPath, ...]) -> None:
    for index, item in enumerate(items):
        _check_item(errors, f"{path}[{index}]", item)


def _check_item(errors: Errors, path: str, item: core_v1.KeyToPath) -> None:
    if not item.key:
        errors.append(required(f"{path}.key"))
    if not item.path:
        errors.append(required(f"{path}.path"))
    check_local_file_path(errors, f"{path}.path", item.path)
    _check_mode(errors, f"{path}.mode", item.mode)


def _check_secret(errors: Errors, path: str, source: core_v1.SecretVolumeSource) -> None:
    if not source.secret_name:
        errors.append(required(f"{path}.secretName"))
    _check_mode(errors, f"{path}.defaultMode", source.default_mode)
    _check_items(errors, f"{path}.items", source.items)


def _check_config_map(errors: Errors, path: str, source: core_v1.ConfigMapVolumeSource) -> None:
    if not source.name:
        errors.append(required(f"{path}.name"))
    _check_mode(errors, f"{path}.defaultMode", source.default_mode)
    _check_items(errors, f"{path}.items", source.items)


def _check_claim(errors: Errors, path: str, source: core_v1.PersistentVolumeClaimVolumeSource) -> None:
    if not source.claim_name:
        errors.append(required(f"{path}.claimName"))


def _check_downward(errors: Errors, path: str, source: core_v1.DownwardAPIVolumeSource) -> None:
    _check_mode(errors, f"{path}.defaultMode", source.default_mode)
    for item in source.items:
        _check_downward_file(errors, path, item)


def _check_downward_file(errors: Errors, path: str, item: core_v1.DownwardAPIVolumeFile) -> None:
    if not item.path:
        errors.append(required(f"{path}.path"))
    check_local_file_path(errors, f"{path}.path", item.path)
    if item.field_ref is not None:
        check_field_selector(errors, f"{path}.fieldRef", item.field_ref, VOLUME_FIELDS)
        if item.resource_field_ref is not None:
            errors.append(
                invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
            )
    elif item.resource_field_ref is not None:
        check_resource_selector(errors, f"{path}.resourceFieldRef", item.resource_field_ref, volume=True)
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    _check_mode(errors, f"{path}.mode", item.mode)


def _check_projected(errors: Errors, path: str, source: core_v1.ProjectedVolumeSource) -> None:
    _check_mode(errors, f"{path}.defaultMode", source.default_mode)
    paths: set[str] = set()
    for index, projection in enumerate(source.sources):
        _check_projection(errors, path, f"{path}.sources[{index}]", projection, paths)


def _check_projection(
    errors: Errors, volume: str, path: str, projection: core_v1.VolumeProjection, paths: set[str]
) -> None:
    """One source, at `path`, of the projected volume at `volume`. `paths`: those taken by the sources before."""
    count = 0
    for name, keyed in (("secret", projection.secret), ("configMap", projection.config_map)):
        if keyed is None:
            continue
        count += 1
        if not keyed.name:
            errors.append(required(f"{path}.{name}.name"))
        for index, item in enumerate(keyed.items):
            _check_item(errors, f"{path}.{name}.items[{index}]", item)
            _check_path_conflict(errors, volume, item.path, keyed.name, paths)
    if projection.downward_api is not None:
        count += 1
        for file in projection.downward_api.items:
            _check_downward_file(errors, f"{path}.downwardAPI", file)
            _check_path_conflict(errors, volume, file.path, file.path, paths)
    singles: tuple[tuple[Any, Callable[[Errors, str, str, Any, set[str]], None]], ...] = (
        (projection.service_account_token, _check_token),
        (projection.cluster_trust_bundle, _check_trust_bundle),
        (projection.pod_certificate, _check_pod_certificate),
    )
    for single, check in singles:
        if single is not None:
            count += 1
            check(errors, volume, path, single, paths)
    if count > 1:
        errors.append(forbidden(path, "may not specify more than 1 volume type per source"))


def _check_path_conflict(errors: Errors, path: str, target: str, shown: str, paths: set[str]) -> None:
    if target and target in paths:
        errors.append(invalid(path, shown, "conflicting duplicate paths"))
    paths.add(target)


def _check_token(
    errors: Errors, volume: str, path: str, token: core_v1.ServiceAccountTokenProjection, paths: set[str]
) -> None:
    where, seconds = f"{path}.serviceAccountToken", token.expiration_seconds
    if seconds is not None and seconds < 600:
        errors.append(invalid(f"{where}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    elif seconds is not None and seconds > 2**32:
        errors.append(
            invalid(f"{where}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
        )
    if not token.path:
        errors.append(required(f"{volume}.path"))
    else:
        check_local_file_path(errors, f"{volume}.path", token.path)


def _check_trust_bundle(
    errors: Errors, volume: str, path: str, bundle: core_v1.ClusterTrustBundleProjection, paths: set[str]
) -> None:
    where = f"{path}.clusterTrustBundle"
    if bundle.name is not None and bundle.signer_name is not None:
        errors.append(invalid(where, bundle, "only one of name and signerName may be used"))
    elif bundle.name is None and bundle.signer_name is None:
        errors.append(required(where, "either name or signerName must be specified"))
    elif bundle.name is not None:
        if not bundle.name:
            errors.append(required(f"{where}.name", "must be a valid object name"))
        for message in formats.dns_subdomain(bundle.name):
            errors.append(invalid(f"{where}.name", bundle.name, f"not a valid clustertrustbundlename: {message}"))
        if bundle.label_selector is not None:
            errors.append(
                invalid(
                    f"{where}.labelSelector", bundle.label_selector, "labelSelector must be unset if name is specified"
                )
            )
    if not bundle.path:
        errors.append(required(f"{where}.path"))
    check_local_file_path(errors, f"{where}.path", bundle.path)
    _check_path_conflict(errors, volume, bundle.path, bundle.path, paths)


_KEY_TYPES = ("ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096")


def _check_pod_certificate(
    errors: Errors, volume: str, path: str, source: core_v1.PodCertificateProjection, paths: set[str]
) -> None:
    where = f"{path}.podCertificate"
    if not source.signer_name:
        errors.append(required(f"{where}.signerName"))
    if source.key_type not in _KEY_TYPES:
        errors.append(unsupported_text(f"{where}.keyType", source.key_type, _KEY_TYPES))
    seconds = source.max_expiration_seconds
    if seconds is not None and not 3600 <= seconds <= 91 * 24 * 3600:
        errors.append(invalid(f"{where}.maxExpirationSeconds", seconds, "must be between 1 hour and 91 days"))
    targets = (source.credential_bundle_path, source.key_path, source.certificate_chain_path)
    if not any(targets):
        errors.append(
            required(where, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath")
        )
    for name, target in zip(("credentialBundlePath", "keyPath", "certificateChainPath"), targets, strict=True):
        if target:
            check_local_file_path(errors, f"{where}.{name}", target)
            _check_path_conflict(errors, volume, target, target, paths)


def _check_csi(errors: Errors, path: str, source: core_v1.CSIVolumeSource) -> None:
    check_csi_driver_name(errors, f"{path}.driver", source.driver)
    secret = source.node_publish_secret_ref
    if secret is not None:
        if not secret.name:
            errors.append(required(f"{path}.nodePublishSecretRef.name"))
        else:
            check_format(errors, f"{path}.name", secret.name, formats.dns_subdomain)


def _check_ephemeral(
    errors: Errors, path: str, source: core_v1.EphemeralVolumeSource, name: str, metadata: meta_v1.ObjectMeta | None
) -> None:
    where, template = f"{path}.volumeClaimTemplate", source.volume_claim_template
    if template is None:
        errors.append(required(where))
    else:
        check_template_object_meta(errors, f"{where}.metadata", template.metadata)
        check_claim_spec(errors, f"{where}.spec", template.spec)
    if metadata is not None and metadata.name and name:
        claim = f"{metadata.name}-{name}"
        for message in formats.dns_subdomain(claim):
            text = f'PVC name "{claim}": {message}'
            errors.append(invalid(path.removesuffix(".ephemeral") + ".name", name, text))


def _check_image(errors: Errors, path: str, source: core_v1.ImageVolumeSource, *, in_pod: bool) -> None:
    if in_pod and not source.reference:
        errors.append(required(f"{path}.reference"))
    if source.pull_policy not in ("Always", "IfNotPresent", "Never"):
        errors.append(unsupported(f"{path}.pullPolicy", source.pull_policy, ("Always", "IfNotPresent", "Never")))


_CHECKS: dict[str, Any] = {
    "empty_dir": _check_empty_dir,
    "git_repo": _check_git_repo,
    "secret": _check_secret,
    "config_map": _check_config_map,
    "persistent_volume_claim": _check_claim,
    "downward_api": _check_downward,
    "projected": _check_projected,
    "csi": _check_csi,
}
_ORDER = tuple(
    (attribute, core_v1.Volume.__struct_encode_fields__[core_v1.Volume.__struct_fields__.index(attribute)])
    for attribute in (
        "empty_dir",
        "host_path",
        "git_repo",
        "gce_persistent_disk",
        "aws_elastic_block_store",
        "secret",
        "nfs",
        "iscsi",
        "glusterfs",
        "flocker",
        "persistent_volume_claim",
        "rbd",
        "cinder",
        "cephfs",
        "quobyte",
        "downward_api",
        "fc",
        "flex_volume",
        "config_map",
        "azure_file",
        "vsphere_volume",
        "photon_persistent_disk",
        "portworx_volume",
        "azure_disk",
        "storageos",
        "projected",
        "scale_io",
        "csi",
        "ephemeral",
        "image",
    )
)
_sources_of = operator.attrgetter(*(attribute for attribute, _ in _ORDER))
