"""How volumes are used, in the words of CSI, and secrets and parameters of classes. Pure.

Source of the behaviour: csi-lib-utils `accessmodes`, external-provisioner `getSecretReference` and `removePrefixedParameters`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from bayplan.api.types import core_v1
from bayplan.csi import messages as csi
from bayplan.csi_controller.errors import RequestError

PREFIX: Final = "csi.storage.k8s.io/"
FS_TYPE: Final = f"{PREFIX}fstype"
PVC_NAME, PVC_NAMESPACE, PV_NAME = f"{PREFIX}pvc/name", f"{PREFIX}pvc/namespace", f"{PREFIX}pv/name"
BLOCK: Final = "Block"
_SECRETS: Final = ("", *(f"{one}-" for one in (
    "provisioner", "controller-publish", "node-stage", "node-publish", "controller-expand", "node-expand", "controller-modify"
)))  # fmt: skip
_RESERVED: Final = frozenset(
    {FS_TYPE, *(f"{PREFIX}{one}secret-{part}" for one in _SECRETS for part in ("name", "namespace"))}
)
_TOKEN: Final = re.compile(r"\$\{([^}]*)\}|\$\$")
_ANNOTATION: Final = re.compile(r"pvc\.annotations\['([^']+)'\]")


def access_mode(modes: Collection[str], *, single_node_multi_writer: bool) -> csi.Access:
    """The one access mode that stands for a volume's. Raises RequestError."""
    found = set(modes)
    one_pod = "ReadWriteOncePod" in found
    if one_pod and len(found) > 1:
        raise RequestError("CSI does not support ReadWriteOncePod and other access modes on the same PersistentVolume")
    if "ReadWriteMany" in found:
        return csi.Access.MULTI_NODE_MULTI_WRITER
    if {"ReadOnlyMany", "ReadWriteOnce"} <= found:
        raise RequestError("CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume")
    if "ReadOnlyMany" in found:
        return csi.Access.MULTI_NODE_READER_ONLY
    if one_pod:
        return csi.Access.SINGLE_NODE_SINGLE_WRITER if single_node_multi_writer else csi.Access.SINGLE_NODE_WRITER
    if "ReadWriteOnce" in found:
        return csi.Access.SINGLE_NODE_MULTI_WRITER if single_node_multi_writer else csi.Access.SINGLE_NODE_WRITER
    raise RequestError(f"unsupported AccessMode combination: {', '.join(sorted(found)) or 'none'}")


def capability(
    mode: csi.Access, volume_mode: str | None, fs_type: str, options: tuple[str, ...]
) -> csi.VolumeCapability:
    """How a volume is used."""
    access = csi.AccessMode(mode)
    if volume_mode == BLOCK:
        return csi.VolumeCapability(block=csi.Empty(), access_mode=access)
    return csi.VolumeCapability(mount=csi.MountVolume(fs_type, options), access_mode=access)


def capability_of_volume(
    spec: core_v1.PersistentVolumeSpec, *, single_node_multi_writer: bool, default_fs_type: str = ""
) -> csi.VolumeCapability:
    """How a PersistentVolume of a driver is used. Raises RequestError."""
    fs_type = spec.csi.fs_type if spec.csi is not None else ""
    mode = access_mode(spec.access_modes, single_node_multi_writer=single_node_multi_writer)
    return capability(mode, spec.volume_mode, fs_type or default_fs_type, spec.mount_options)


def fs_type_of(parameters: Mapping[str, str], default: str) -> str:
    """The file system that a class asks for. Raises RequestError if it does so twice."""
    found = [value for key, value in parameters.items() if key == FS_TYPE or key.lower() == "fstype"]
    if len(found) > 1:
        raise RequestError(f'fstype specified in parameters with both "fstype" and "{FS_TYPE}" keys')
    return (found[0] if found else "") or default


def driver_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters that are meant for the driver. Raises RequestError for unknown ones that are not."""
    for key in parameters:
        if key.startswith(PREFIX) and key not in _RESERVED:
            raise RequestError(f'found unknown parameter key "{key}" with reserved namespace {PREFIX}')
    return {key: value for key, value in parameters.items() if not key.startswith(PREFIX)}


@dataclass(frozen=True, slots=True)
class SecretTokens:
    """What templates of secrets' names may name."""

    volume: str
    namespace: str = ""
    claim: str = ""
    annotations: Mapping[str, str] | None = None


def secret_reference(kind: str, parameters: Mapping[str, str], tokens: SecretTokens) -> core_v1.SecretReference | None:
    """The secret that a class names for a kind of call, such as `node-stage`; the default one if there is none for it. Raises RequestError."""
    for prefix in (f"{kind}-", ""):
        keys = [f"{PREFIX}{prefix}secret-{part}" for part in ("name", "namespace")]
        name, namespace = (parameters.get(key, "") for key in keys)
        if bool(name) != bool(namespace):
            raise RequestError(f"either name and namespace for {kind} secrets specified, both must be specified")
        if name:
            return core_v1.SecretReference(
                name=_resolved(name, tokens, with_claim=True, with_annotations=kind != "provisioner"),
                namespace=_resolved(namespace, tokens, with_claim=False, with_annotations=False),
            )
    return None


def _resolved(template: str, tokens: SecretTokens, *, with_claim: bool, with_annotations: bool) -> str:
    known = {"pv.name": tokens.volume, "pvc.namespace": tokens.namespace}
    if with_claim:
        known["pvc.name"] = tokens.claim
    missing: list[str] = []

    def replace(match: re.Match[str]) -> str:
        token = match[1]
        if token is None:
            return "$"
        annotation = _ANNOTATION.fullmatch(token)
        if annotation is not None and with_annotations and annotation[1] in (tokens.annotations or {}):
            return (tokens.annotations or {})[annotation[1]]
        if token not in known:
            missing.append(token)
        return known.get(token, "")

    text = _TOKEN.sub(replace, template)
    if missing:
        raise RequestError(f"error resolving value {template!r}: invalid tokens: {missing}")
    return text
