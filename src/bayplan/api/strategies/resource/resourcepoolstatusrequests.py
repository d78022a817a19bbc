"""Requests for figures of pools of devices, which a controller answers once."""

from __future__ import annotations

from bayplan.api.errors import FieldError, duplicate, invalid, required, too_long, too_many
from bayplan.api.managedfields.fieldset import of_paths
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import resource_v1alpha3
from bayplan.api.validation.fields import Errors, check_conditions, check_format, check_unchanged, repeats
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.values import formats

ResourcePoolStatusRequest = resource_v1alpha3.ResourcePoolStatusRequest
_LIMIT, _MOST_POOLS, _MOST_CONDITIONS, _LONGEST_ERROR, _LONGEST_POOL_NAME = 100, 1000, 10, 256, 253


class ResourcePoolStatusRequestStrategy(Strategy):
    """Rules of such requests: the specification never changes, nor the status once there is one."""

    allow_unconditional_update = False
    has_status = True
    reset_by_status = of_paths(("f:metadata",), ("f:spec",))
    update_checks = status_checks = UpdateChecks(whole=1)

    def default(self, obj: ResourcePoolStatusRequest) -> None:
        if obj.spec.limit is None:
            obj.spec.limit = _LIMIT

    def prepare_create(self, obj: ResourcePoolStatusRequest) -> None:
        obj.status = None

    def validate_create(self, obj: ResourcePoolStatusRequest) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        _check_driver(errors, "spec.driver", spec.driver)
        if spec.pool_name is not None:
            _check_pool_name(errors, "spec.poolName", spec.pool_name)
        limit = spec.limit or 0
        if limit > _MOST_POOLS:
            errors.append(invalid("spec.limit", limit, f"must be less than or equal to {_MOST_POOLS}"))
        if limit < 1:
            errors.append(invalid("spec.limit", limit, "must be greater than or equal to 1"))
        return errors

    def validate_update(self, obj: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest) -> list[FieldError]:
        errors: list[FieldError] = []
        if obj.spec != old.spec:
            errors.append(invalid("spec", None, "field is immutable"))
        return errors

    def validate_status_update(
        self, obj: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        if old.status is not None:
            check_unchanged(errors, "status", obj.status, old.status)
        if obj.status is not None:
            check_conditions(errors, "status.conditions", obj.status.conditions)
            _check_status(errors, "status", obj.status)
        return errors


def _check_status(errors: Errors, path: str, status: resource_v1alpha3.ResourcePoolStatusRequestStatus) -> None:
    if status.pool_count is None:
        errors.append(required(f"{path}.poolCount"))
    else:
        _check_least(errors, f"{path}.poolCount", status.pool_count)
    if len(status.pools) > _MOST_POOLS:
        errors.append(too_many(f"{path}.pools", len(status.pools), _MOST_POOLS))
    else:
        for index, pool in enumerate(status.pools):
            _check_pool(errors, f"{path}.pools[{index}]", pool)
    if len(status.conditions) > _MOST_CONDITIONS:
        errors.append(too_many(f"{path}.conditions", len(status.conditions), _MOST_CONDITIONS))
    for index in sorted(repeats(condition.type for condition in status.conditions)):
        errors.append(duplicate(f"{path}.conditions[{index}]", status.conditions[index]))


def _check_pool(errors: Errors, path: str, pool: resource_v1alpha3.PoolStatus) -> None:
    _check_driver(errors, f"{path}.driver", pool.driver)
    if not pool.pool_name:
        errors.append(required(f"{path}.poolName"))
    else:
        _check_pool_name(errors, f"{path}.poolName", pool.pool_name)
    if not pool.generation:
        errors.append(required(f"{path}.generation"))
    else:
        _check_least(errors, f"{path}.generation", pool.generation)
    counts = (
        ("resourceSliceCount", pool.resource_slice_count, 1),
        ("totalDevices", pool.total_devices, 0),
        ("allocatedDevices", pool.allocated_devices, 0),
        ("availableDevices", pool.available_devices, 0),
        ("unavailableDevices", pool.unavailable_devices, 0),
    )
    for name, value, least in counts:
        if value is not None:
            _check_least(errors, f"{path}.{name}", value, least)
    if pool.node_name is not None:
        check_format(errors, f"{path}.nodeName", pool.node_name, formats.dns_subdomain)
    if pool.validation_error is not None and formats.size(pool.validation_error) > _LONGEST_ERROR:
        errors.append(too_long(f"{path}.validationError", _LONGEST_ERROR))


def _check_driver(errors: Errors, path: str, name: str) -> None:
    """A domain name in any case."""
    if not name:
        errors.append(required(path))
    else:
        check_format(errors, path, name, formats.dns_subdomain_in_any_case)


def _check_pool_name(errors: Errors, path: str, name: str) -> None:
    """Subdomains with slashes between them, each of which is told by its place."""
    if formats.size(name) > _LONGEST_POOL_NAME:
        errors.append(too_long(path, _LONGEST_POOL_NAME))
    for place, part in enumerate(name.split("/")):
        problems = formats.long_name(part) if part else ("must not be empty",)
        errors.extend(invalid(path, part or name, f"segment {place}: {one}") for one in problems)


def _check_least(errors: Errors, path: str, value: int, least: int = 0) -> None:
    if value < least:
        errors.append(invalid(path, value, f"must be greater than or equal to {least}"))


STRATEGY = ResourcePoolStatusRequestStrategy()
