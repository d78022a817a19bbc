"""Rules for volume mounts and devices of containers."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.api.errors import forbidden, invalid, not_found, required, unsupported
from bayplan.api.types import core_v1
from bayplan.api.validation.fields import Errors
from bayplan.api.validation.values.paths import check_relative_path

_Container = core_v1.Container | core_v1.EphemeralContainer


def check_volume_mounts(
    errors: Errors, path: str, container: _Container, volumes: Mapping[str, core_v1.Volume]
) -> None:
    """`volumeMounts` of a container."""
    devices = {device.name: device.device_path for device in container.volume_devices}
    seen: set[str] = set()
    for index, mount in enumerate(container.volume_mounts):
        volume = volumes.get(mount.name)
        if volume is None:
            if not mount.name:
                errors.append(required(f"{path}[{index}].name"))
            errors.append(not_found(f"{path}[{index}].name", mount.name))
        if not mount.mount_path:
            errors.append(required(f"{path}[{index}].mountPath"))
        if mount.mount_path in seen:
            errors.append(invalid(f"{path}[{index}].mountPath", mount.mount_path, "must be unique"))
        seen.add(mount.mount_path)
        if devices:
            if mount.name in devices:
                errors.append(invalid(f"{path}[{index}].name", mount.name, "must not already exist in volumeDevices"))
            if mount.mount_path in devices.values():
                errors.append(
                    invalid(
                        f"{path}[{index}].mountPath",
                        mount.mount_path,
                        "must not already exist as a path in volumeDevices",
                    )
                )
        if mount.sub_path:
            check_relative_path(errors, f"{path}.subPath", mount.sub_path)
        if mount.sub_path_expr:
            if mount.sub_path:
                where = f"{path}[{index}].subPathExpr"
                errors.append(invalid(where, mount.sub_path_expr, "subPathExpr and subPath are mutually exclusive"))
            check_relative_path(errors, f"{path}.subPathExpr", mount.sub_path_expr)
        if mount.mount_propagation is not None:
            _check_propagation(errors, f"{path}.mountPropagation", mount.mount_propagation, container)
        if mount.recursive_read_only is not None:
            _check_recursive(errors, f"{path}.recursiveReadOnly", mount)


def _check_propagation(errors: Errors, path: str, mode: str, container: _Container) -> None:
    supported = ("Bidirectional", "HostToContainer", "None")
    if mode not in supported:
        errors.append(unsupported(path, mode, supported))
    context = container.security_context
    if mode == "Bidirectional" and not (context is not None and context.privileged):
        errors.append(forbidden(path, "Bidirectional mount propagation is available only to privileged containers"))


def _check_recursive(errors: Errors, path: str, mount: core_v1.VolumeMount) -> None:
    mode = mount.recursive_read_only or ""
    if mode == "Disabled":
        return
    if mode not in ("Enabled", "IfPossible"):
        errors.append(unsupported(path, mode, ("Disabled", "Enabled", "IfPossible")))
        return
    if not mount.read_only:
        errors.append(forbidden(path, "may only be specified when readOnly is true"))
    if mount.mount_propagation not in (None, "None"):
        errors.append(forbidden(path, "may only be specified when mountPropagation is None or not specified"))


def check_volume_devices(
    errors: Errors, path: str, container: _Container, volumes: Mapping[str, core_v1.Volume]
) -> None:
    """`volumeDevices` of a container."""
    mounts = {mount.name: mount.mount_path for mount in container.volume_mounts}
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container.volume_devices):
        where, name, target = f"{path}[{index}]", device.name, device.device_path
        volume = volumes.get(name)
        if not name:
            errors.append(required(f"{where}.name"))
        if name in names:
            errors.append(invalid(f"{where}.name", name, "must be unique"))
        if volume is None:
            errors.append(not_found(f"{where}.name", name))
        elif volume.persistent_volume_claim is None and volume.ephemeral is None:
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(f"{where}.name", name, detail))
        if not target:
            errors.append(required(f"{where}.devicePath"))
        if target in paths:
            errors.append(invalid(f"{where}.devicePath", target, "must be unique"))
        if ".." in target.split("/"):
            errors.append(invalid(f"{where}.devicePath", target, "can not contain backsteps ('..')"))
        else:
            paths.add(target)
        if name in mounts:
            errors.append(invalid(f"{where}.name", name, "must not already exist in volumeMounts"))
        if target in mounts.values():
            errors.append(invalid(f"{where}.devicePath", target, "must not already exist as a path in volumeMounts"))
        if name:
            names.add(name)
