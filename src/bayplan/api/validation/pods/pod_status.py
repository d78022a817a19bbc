"""Which changes of a pod's status are allowed."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.declared_features import RESTART_ALL, features_of
from bayplan.api.errors import ErrorType, FieldError, duplicate, forbidden, invalid, required, unsupported
from bayplan.api.types import core_v1
from bayplan.api.validation.fields import Errors, check_format, check_ip, check_key_format, parse_ip
from bayplan.api.validation.pods.security import check_id
from bayplan.api.validation.values import formats

_NOT_NEGATIVE = "must be a non-negative integer"


def validate_pod_status_update(new: core_v1.Pod, old: core_v1.Pod) -> list[FieldError]:
    """Changes through `status`."""
    errors: list[FieldError] = []
    status = new.status
    if status.observed_generation < 0:
        errors.append(invalid("status.observedGeneration", status.observed_generation, _NOT_NEGATIVE))
    for index, condition in enumerate(status.conditions):
        if condition.observed_generation < 0:
            where = f"status.conditions[{index}].observedGeneration"
            errors.append(invalid(where, condition.observed_generation, _NOT_NEGATIVE))
        if condition.type not in ("PodScheduled", "Ready", "Initialized"):
            check_key_format(errors, f"status.conditions[{index}].Type", condition.type)
    if status.nominated_node_name and status.nominated_node_name != old.status.nominated_node_name:
        check_format(errors, "status.nominatedNodeName", status.nominated_node_name, formats.dns_subdomain)
        if old.spec.node_name:
            text = "may not be set on pods that are already bound to a node"
            errors.append(forbidden("status.nominatedNodeName", text))
    if status.qos_class != old.status.qos_class:
        errors.append(invalid("status.qosClass", status.qos_class, "field is immutable"))
    before, policy = old.status, old.spec.restart_policy
    if RESTART_ALL in features_of(old.spec):
        policy = "Always"
    for name, now, then, restarts in (
        ("containerStatuses", status.container_statuses, before.container_statuses, policy),
        ("initContainerStatuses", status.init_container_statuses, before.init_container_statuses, policy),
        ("ephemeralContainerStatuses", status.ephemeral_container_statuses, before.ephemeral_container_statuses, ""),
    ):
        if restarts != "Always":
            _check_terminated(errors, f"status.{name}", now, then, old.spec, restarts)
    _check_claim_statuses(errors, new)
    _check_extended_claim(errors, new)
    _check_addresses(errors, "status.podIPs", status.pod_ips, before.pod_ips)
    if status.host_ips and status.host_ip != status.host_ips[0].ip:
        errors.append(invalid("status.hostIPs[0].ip", status.host_ips[0].ip, "must be equal to `hostIP`"))
    _check_addresses(errors, "status.hostIPs", status.host_ips, before.host_ips)
    _check_container_details(errors, new)
    return errors


def _check_container_details(errors: Errors, pod: core_v1.Pod) -> None:
    """Users of containers, and the health of the resources they were given."""
    status, spec = pod.status, pod.spec
    parts = (
        ("containerStatuses", status.container_statuses, spec.containers),
        ("initContainerStatuses", status.init_container_statuses, spec.init_containers),
        ("ephemeralContainerStatuses", status.ephemeral_container_statuses, None),
    )
    system = spec.os.name if spec.os is not None else "linux"
    for name, statuses, _ in parts:
        for index, one in enumerate(statuses):
            if one.user is not None and one.user.linux is not None:
                _check_user(errors, f"status.{name}[{index}].linux", one.user.linux, system)
    for name, statuses, containers in parts:
        by_name = {found.name: found for found in reversed(containers or ())}
        for index, one in enumerate(statuses):
            if not one.allocated_resources_status:
                continue
            path = f"status.{name}[{index}].allocatedResourcesStatus"
            if containers is None:
                errors.append(forbidden(path, "must not be specified in container status"))
            else:
                container = by_name.get(one.name)
                for position, resource in enumerate(one.allocated_resources_status):
                    _check_allocated(errors, f"{path}[{position}]", resource, container)


def _check_user(errors: Errors, path: str, user: core_v1.LinuxContainerUser, system: str) -> None:
    if system == "windows":
        errors.append(forbidden(path, "cannot be set for a windows pod"))
    elif system == "linux":
        check_id(errors, f"{path}.uid", user.uid)
        check_id(errors, f"{path}.gid", user.gid)
        for index, group in enumerate(user.supplemental_groups):
            check_id(errors, f"{path}.supplementalGroups[{index}]", group)


_HEALTH = ("Healthy", "Unhealthy", "Unknown")


def _check_allocated(
    errors: Errors, path: str, resource: core_v1.ResourceStatus, container: core_v1.Container | None
) -> None:
    """The health of one resource of a container; a container that the pod does not have is passed over."""
    name = resource.name
    if container is not None and name.startswith("claim:"):
        claims = container.resources.claims
        known = {f"claim:{claim.name}/{claim.request}" if claim.request else f"claim:{claim.name}" for claim in claims}
        if name not in known:
            text = (
                "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
                "'claim:<claimName>' if request is empty"
            )
            errors.append(invalid(f"{path}.name", name, text))
    elif container is not None and name not in container.resources.requests:
        errors.append(invalid(f"{path}.name", name, "must match one of the container's resource requests"))
    seen: set[str] = set()
    for index, one in enumerate(resource.resources):
        where = f"{path}.resources[{index}]"
        if one.health not in _HEALTH:
            errors.append(unsupported(f"{where}.health", one.health, _HEALTH))
        if one.resource_id in seen:
            errors.append(duplicate(f"{where}.resourceID", one.resource_id))
        seen.add(one.resource_id)


def _check_terminated(
    errors: Errors,
    path: str,
    new: tuple[core_v1.ContainerStatus, ...],
    old: tuple[core_v1.ContainerStatus, ...],
    spec: core_v1.PodSpec,
    policy: str,
) -> None:
    """Terminated containers stay so unless the pod's restart policy, or their own, lets them start again. Ephemeral ones (`policy` "") never do."""
    free = {one.name for one in spec.containers + spec.init_containers if one.restart_policy is not None}
    for index, before in enumerate(old):
        ended = before.state.terminated
        if ended is None or before.name in free or (ended.exit_code != 0 and policy == "OnFailure"):
            continue
        for after in new:
            if after.name == before.name and after.state.terminated is None:
                errors.append(forbidden(f"{path}[{index}].state", "may not be transitioned to non-terminated state"))


def _check_claim_statuses(errors: Errors, pod: core_v1.Pod) -> None:
    known = {claim.name for claim in pod.spec.resource_claims}
    seen: set[str] = set()
    for index, status in enumerate(pod.status.resource_claim_statuses):
        where = f"status.resourceClaimStatuses[{index}]"
        if status.name not in known:
            errors.append(
                invalid(f"{where}.name", status.name, "must match the name of an entry in `spec.resourceClaims`")
            )
        if status.name in seen:
            errors.append(duplicate(f"{where}.name", status.name))
        seen.add(status.name)
        if status.resource_claim_name is not None:
            check_format(errors, f"{where}.name", status.resource_claim_name, formats.dns_subdomain)


def _check_extended_claim(errors: Errors, pod: core_v1.Pod) -> None:
    """The claim made for extended resources, and which request of it stands for which resource of a container."""
    status, path = pod.status.extended_resource_claim_status, "status.extendedResourceClaimStatus"
    if status is None:
        return
    containers = {one.name: one for one in pod.spec.init_containers + pod.spec.containers}
    if not status.request_mappings:
        errors.append(required(f"{path}.requestMappings", "at least one request mapping is required"))
    seen: set[tuple[str, str, str]] = set()
    for index, one in enumerate(status.request_mappings):
        where, container = f"{path}.requestMappings[{index}]", containers.get(one.container_name)
        if container is None:
            text = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            errors.append(invalid(f"{where}.containerName", one.container_name, text))
        elif one.resource_name not in container.resources.requests:
            lists = "spec.initContainers.resources.requests or spec.containers.resources.requests"
            text = f"must match the extended resource name of an entry in {lists}"
            errors.append(invalid(f"{where}.resourceName", one.resource_name, text))
        check_format(errors, f"{path}.requestName", one.request_name, formats.dns_label)
        key = (one.container_name, one.resource_name, one.request_name)
        if key in seen:
            names = ("containerName", "resourceName", "requestName")
            errors.extend(duplicate(f"{where}.{name}", value) for name, value in zip(names, key, strict=True))
        seen.add(key)
    if not status.resource_claim_name:
        errors.append(required(f"{path}.resourceClaimName"))
    else:
        check_format(errors, f"{path}.resourceClaimName", status.resource_claim_name, formats.dns_subdomain)


def _check_addresses(
    errors: Errors,
    path: str,
    new: Sequence[core_v1.PodIP | core_v1.HostIP],
    old: Sequence[core_v1.PodIP | core_v1.HostIP],
) -> None:
    """At most one address of each family. Those that were there may stay as they are."""
    addresses, known = [one.ip for one in new], {one.ip for one in old}
    for index, address in enumerate(addresses):
        if address not in known:
            check_ip(errors, f"{path}[{index}]", address)
    if len(addresses) > 1:
        parsed = [parse_ip(address) for address in addresses]
        if None in parsed:
            at = parsed.index(None)
            text = f"failed to check for dual stack with error:invalid IP[{at}]: {addresses[at]}"
            errors.append(FieldError(ErrorType.INTERNAL, path, None, text))
        if None in parsed or len({one.version for one in parsed if one is not None}) != 2 or len(addresses) > 2:
            shown = [{"IP": address} for address in addresses]
            errors.append(invalid(path, shown, "may specify no more than one IP for each IP family"))
