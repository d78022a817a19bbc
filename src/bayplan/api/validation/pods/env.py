"""Rules for environment variables and the fields that they and downward API volumes may refer to."""

from __future__ import annotations

from bayplan.api import quantity
from bayplan.api.errors import invalid, required, unsupported_text
from bayplan.api.types import core_v1
from bayplan.api.validation.fields import Errors, check_format
from bayplan.api.validation.values import formats
from bayplan.api.validation.values.paths import check_relative_path

ENV_FIELDS = frozenset(
    (
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    )
)
VOLUME_FIELDS = frozenset(
    ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
)
_KNOWN_LABELS = ENV_FIELDS | VOLUME_FIELDS | {"spec.restartPolicy", "spec.schedulerName", "status.phase"}
_RESOURCES = tuple(
    sorted(f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage"))
)
_HUGE_PAGES = ("requests.hugepages-", "limits.hugepages-")
_BYTE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")


def check_env(errors: Errors, path: str, env: tuple[core_v1.EnvVar, ...]) -> None:
    """`env` of a container."""
    for index, variable in enumerate(env):
        if not variable.name:
            errors.append(required(f"{path}[{index}].name"))
        elif formats.env_var_name(variable.name):
            check_format(errors, f"{path}[{index}].name", variable.name, formats.env_var_name)
        if variable.value_from is not None:
            _check_source(errors, f"{path}[{index}].valueFrom", variable.value_from, variable.value)


def _check_source(errors: Errors, path: str, source: core_v1.EnvVarSource, value: str) -> None:
    count = 0
    if source.field_ref is not None:
        count += 1
        check_field_selector(errors, f"{path}.fieldRef", source.field_ref, ENV_FIELDS)
    if source.resource_field_ref is not None:
        count += 1
        check_resource_selector(errors, f"{path}.resourceFieldRef", source.resource_field_ref)
    for name, reference in (("configMapKeyRef", source.config_map_key_ref), ("secretKeyRef", source.secret_key_ref)):
        if reference is not None:
            count += 1
            _check_key_reference(errors, f"{path}.{name}", reference)
    if source.file_key_ref is not None:
        count += 1
        _check_file_key(errors, f"{path}.fileKeyRef", source.file_key_ref)
    if not count:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        errors.append(invalid(path, "", text))
    elif value:
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif count > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))


def _check_key_reference(
    errors: Errors, path: str, reference: core_v1.ConfigMapKeySelector | core_v1.SecretKeySelector
) -> None:
    check_format(errors, f"{path}.name", reference.name, formats.dns_subdomain)
    if not reference.key:
        errors.append(required(f"{path}.key"))
    else:
        check_format(errors, f"{path}.key", reference.key, formats.config_map_key)


def _check_file_key(errors: Errors, path: str, reference: core_v1.FileKeySelector) -> None:
    if not reference.volume_name:
        errors.append(required(f"{path}.volumeName"))
    else:
        check_format(errors, f"{path}.volumeName", reference.volume_name, formats.dns_label)
    if not reference.key:
        errors.append(required(f"{path}.key"))
    else:
        check_format(errors, f"{path}.key", reference.key, formats.env_var_name)
    if not reference.path:
        errors.append(required(f"{path}.path"))
    else:
        check_relative_path(errors, f"{path}.path", reference.path)


def check_env_from(errors: Errors, path: str, sources: tuple[core_v1.EnvFromSource, ...]) -> None:
    """`envFrom` of a container."""
    for index, source in enumerate(sources):
        where = f"{path}[{index}]"
        if source.prefix:
            check_format(errors, f"{where}.prefix", source.prefix, formats.env_var_name)
        count = 0
        for name, reference in (("configMapRef", source.config_map_ref), ("secretRef", source.secret_ref)):
            if reference is None:
                continue
            count += 1
            if not reference.name:
                errors.append(required(f"{where}.{name}.name"))
            else:
                check_format(errors, f"{where}.{name}.name", reference.name, formats.dns_subdomain)
        if not count:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif count > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))


def check_field_selector(
    errors: Errors, path: str, selector: core_v1.ObjectFieldSelector, fields: frozenset[str]
) -> None:
    """A field of the pod, one of `fields` or one label or annotation."""
    if not selector.api_version:
        errors.append(required(f"{path}.apiVersion"))
        return
    if not selector.field_path:
        errors.append(required(f"{path}.fieldPath"))
        return
    name, subscript = _split_subscript(selector.field_path)
    problem = ""
    if selector.api_version != "v1":
        problem = f"unsupported pod version: {selector.api_version}"
    elif subscript is not None:
        if name not in ("metadata.annotations", "metadata.labels"):
            problem = f"field label does not support subscript: {selector.field_path}"
    elif name == "spec.host":
        name = "spec.nodeName"
    elif name not in _KNOWN_LABELS:
        problem = f"field label not supported: {name}"
    if problem:
        errors.append(invalid(f"{path}.fieldPath", selector.field_path, f"error converting fieldPath: {problem}"))
    elif subscript is not None:
        check_format(
            errors, path, subscript.lower() if name == "metadata.annotations" else subscript, formats.label_key
        )
    elif name not in fields:
        errors.append(unsupported_text(f"{path}.fieldPath", name, sorted(fields)))


def _split_subscript(path: str) -> tuple[str, str | None]:
    if not path.endswith("']"):
        return path, None
    name, bracket, subscript = path[:-2].partition("['")
    return (name, subscript) if bracket and name else (path, None)


def check_resource_selector(
    errors: Errors, path: str, selector: core_v1.ResourceFieldSelector, *, volume: bool = False
) -> None:
    """A resource of a container; in volumes the container must be named."""
    name = selector.resource
    if volume and not selector.container_name:
        errors.append(required(f"{path}.containerName"))
    elif not name:
        errors.append(required(f"{path}.resource"))
    elif name not in _RESOURCES and not name.startswith(_HUGE_PAGES):
        errors.append(unsupported_text(f"{path}.resource", name, _RESOURCES))
    divisor = quantity.parse(selector.divisor)
    if divisor.is_zero():
        return
    allowed: tuple[str, ...]
    if name in ("limits.cpu", "requests.cpu"):
        allowed, text = ("1m", "1"), "only divisor's values 1m and 1 are supported with the cpu resource"
    else:
        allowed = _BYTE_DIVISORS
        shown = (
            "local ephemeral storage"
            if name.endswith("ephemeral-storage")
            else "memory"
            if name.endswith(".memory")
            else "hugepages"
        )
        text = f"only divisor's values {', '.join(_BYTE_DIVISORS)} are supported with the {shown} resource"
        if name not in _RESOURCES and not name.startswith(_HUGE_PAGES):
            return
    if str(divisor) not in allowed:
        errors.append(invalid(f"{path}.divisor", name, text))
