"""The environment variables of a container (makeEnvironmentVariables in pkg/kubelet/kubelet_pods.go)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bayplan.api.secret_data import secret_texts
from bayplan.api.types import core_v1
from bayplan.api.types.scalars import Quantity as WireQuantity
from bayplan.kubelet.core.containers.env_file import EnvFileError, value_in_env_file
from bayplan.kubelet.core.containers.expansion import expand
from bayplan.kubelet.core.containers.field_values import (
    FieldValueError,
    container_named,
    default_limits,
    pod_field,
    resource_value,
)
from bayplan.kubelet.core.restarts import AnyContainer

_MASTER_SERVICES = frozenset(("kubernetes",))
"""Services of the namespace `default` that all pods hear of."""


class VariableError(Exception):
    """A variable has no value; the text is for the status."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where values come from. A ConfigMap or Secret that does not exist is None. `files` are those of volumes: (volume, path) -> text."""

    config_maps: Mapping[str, core_v1.ConfigMap | None] = field(default_factory=dict)
    secrets: Mapping[str, core_v1.Secret | None] = field(default_factory=dict)
    files: Mapping[tuple[str, str], str | None] = field(default_factory=dict)
    services: Iterable[core_v1.Service] = ()
    allocatable: Mapping[str, WireQuantity] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be read before the variables of a container can be put together."""

    config_maps: frozenset[str]
    secrets: frozenset[str]
    files: frozenset[tuple[str, str]]


def needs(container: AnyContainer) -> Needs:
    """Names of the ConfigMaps, Secrets and files that a container's variables come from."""
    config_maps, secrets, files = set(), set(), set()
    for source in container.env_from:
        if source.config_map_ref is not None:
            config_maps.add(source.config_map_ref.name)
        if source.secret_ref is not None:
            secrets.add(source.secret_ref.name)
    for variable in container.env:
        origin = variable.value_from
        if origin is None or variable.value:
            continue
        if origin.config_map_key_ref is not None:
            config_maps.add(origin.config_map_key_ref.name)
        if origin.secret_key_ref is not None:
            secrets.add(origin.secret_key_ref.name)
        if origin.file_key_ref is not None:
            files.add((origin.file_key_ref.volume_name, origin.file_key_ref.path))
    return Needs(frozenset(config_maps), frozenset(secrets), frozenset(files))


def variables(pod: core_v1.Pod, container: AnyContainer, sources: Sources) -> tuple[tuple[str, str], ...]:
    """The variables, each name once. Raises VariableError."""
    services = service_variables(pod, sources.services)
    values: dict[str, str] = {}
    for origin in container.env_from:
        for name, value in _from_all(origin, pod.metadata.namespace, sources).items():
            values[f"{origin.prefix}{name}"] = value
    for variable in container.env:
        if variable.value:
            values[variable.name] = expand(variable.value, {**services, **values})
            continue
        value = ""
        if variable.value_from is not None:
            found = _from_one(variable.value_from, pod, container, sources)
            if found is None:
                continue
            value = found
        values[variable.name] = value
    return tuple({**services, **values}.items())


def _from_all(origin: core_v1.EnvFromSource, namespace: str, sources: Sources) -> Mapping[str, str]:
    """All values of a ConfigMap or Secret."""
    if origin.config_map_ref is not None:
        name = origin.config_map_ref.name
        config_map = sources.config_maps.get(name)
        if config_map is not None:
            return config_map.data
        if not origin.config_map_ref.optional:
            raise VariableError(f'configmap "{name}" not found')
    elif origin.secret_ref is not None:
        name = origin.secret_ref.name
        secret = sources.secrets.get(name)
        if secret is not None:
            return secret_texts(secret)
        if not origin.secret_ref.optional:
            raise VariableError(f'secret "{name}" not found')
    return {}


def _from_one(origin: core_v1.EnvVarSource, pod: core_v1.Pod, container: AnyContainer, sources: Sources) -> str | None:
    """One value; None for one that is optional and does not exist."""
    namespace = pod.metadata.namespace
    try:
        if origin.field_ref is not None:
            return pod_field(pod, origin.field_ref)
        if origin.resource_field_ref is not None:
            name = origin.resource_field_ref.container_name
            target = container if name in ("", container.name) else container_named(pod, name)
            return resource_value(origin.resource_field_ref, target, default_limits(pod, sources.allocatable))
    except FieldValueError as error:
        raise VariableError(str(error)) from None
    if origin.config_map_key_ref is not None:
        key = origin.config_map_key_ref
        config_map = sources.config_maps.get(key.name)
        values = config_map.data if config_map is not None else None
        return _key(values, "ConfigMap", key.name, key.key, namespace, optional=bool(key.optional))
    if origin.secret_key_ref is not None:
        secret_key = origin.secret_key_ref
        secret = sources.secrets.get(secret_key.name)
        found = secret_texts(secret) if secret is not None else None
        return _key(found, "Secret", secret_key.name, secret_key.key, namespace, optional=bool(secret_key.optional))
    if origin.file_key_ref is not None:
        return _file_key(origin.file_key_ref, sources)
    return ""


def _key(
    values: Mapping[str, str] | None, kind: str, name: str, key: str, namespace: str, *, optional: bool
) -> str | None:
    if values is None:
        if optional:
            return None
        raise VariableError(f'{kind.lower()} "{name}" not found')
    if key not in values:
        if optional:
            return None
        raise VariableError(f"couldn't find key {key} in {kind} {namespace}/{name}")
    return values[key]


def _file_key(selector: core_v1.FileKeySelector, sources: Sources) -> str | None:
    """A value of a file with `NAME=value` lines in a volume."""
    text = sources.files.get((selector.volume_name, selector.path))
    if text is None:  # also where the variable is optional: its file is not
        raise VariableError("couldn't parse env file")
    try:
        value = value_in_env_file(text, selector.key)
    except EnvFileError:
        raise VariableError("couldn't parse env file") from None  # what is in the file may be secret
    if value:
        return value
    if selector.optional:
        return None
    raise VariableError(f'environment variable key "{selector.key}" not found in file "{selector.path}"')


def service_variables(pod: core_v1.Pod, services: Iterable[core_v1.Service]) -> dict[str, str]:
    """Variables that tell where services are, as Docker's links did: of `kubernetes`, and of the pod's namespace unless it does not want them."""
    shown: dict[str, core_v1.Service] = {}
    for service in services:
        name, namespace = service.metadata.name, service.metadata.namespace
        if service.spec.cluster_ip in ("", "None"):
            continue
        if namespace == "default" and name in _MASTER_SERVICES:
            shown.setdefault(name, service)
        elif namespace == pod.metadata.namespace and pod.spec.enable_service_links:
            shown[name] = service
    result: dict[str, str] = {}
    for service in shown.values():
        result.update(_of_service(service))
    return result


def _variable_name(text: str) -> str:
    return text.upper().replace("-", "_")


def _of_service(service: core_v1.Service) -> dict[str, str]:
    prefix, address = _variable_name(service.metadata.name), service.spec.cluster_ip
    ports = service.spec.ports
    result = {f"{prefix}_SERVICE_HOST": address}
    if not ports:
        return result
    result[f"{prefix}_SERVICE_PORT"] = str(ports[0].port)
    for port in ports:
        if port.name:
            result[f"{prefix}_SERVICE_PORT_{_variable_name(port.name)}"] = str(port.port)
    host = f"[{address}]" if ":" in address else address
    for index, port in enumerate(ports):
        protocol = (port.protocol or "TCP").lower()
        link = f"{protocol}://{host}:{port.port}"
        if index == 0:
            result[f"{prefix}_PORT"] = link
        base = f"{prefix}_PORT_{port.port}_{protocol.upper()}"
        result[base] = link
        result[f"{base}_PROTO"] = protocol
        result[f"{base}_PORT"] = str(port.port)
        result[f"{base}_ADDR"] = address
    return result
