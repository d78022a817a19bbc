"""CSI nodes."""

from __future__ import annotations

from msgspec.structs import replace

from bayplan.api.errors import FieldError, duplicate, invalid, required
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import storage_v1
from bayplan.api.validation.fields import Errors, check_format, check_not_negative, check_unchanged, repeats
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.storage import check_csi_driver_name
from bayplan.api.validation.values import formats


class CSINodeStrategy(Strategy):
    """Rules of CSI nodes: a driver that is there stays as it is, except for what it can hold."""

    update_checks = UpdateChecks(whole=1, change=0)
    allow_unconditional_update = False
    returns_object_on_delete = True

    def validate(self, obj: storage_v1.CSINode) -> list[FieldError]:
        errors: list[FieldError] = []
        names: set[str] = set()
        for index, driver in enumerate(obj.spec.drivers):
            path = f"spec.drivers[{index}]"
            check_csi_driver_name(errors, f"{path}.name", driver.name)
            if not driver.node_id:
                errors.append(required(f"{path}.nodeID"))
            elif formats.size(driver.node_id) > 256:
                errors.append(invalid(f"{path}.nodeID", driver.node_id, "must be 256 characters or less"))
            if driver.allocatable is not None:
                check_not_negative(errors, f"{path}.allocatable.count", driver.allocatable.count)
            if driver.name in names:
                errors.append(duplicate(f"{path}.name", driver.name))
            names.add(driver.name)
            _check_topology_keys(errors, path, driver.topology_keys)
        return errors

    def validate_update(self, obj: storage_v1.CSINode, old: storage_v1.CSINode) -> list[FieldError]:
        errors: list[FieldError] = []
        known: dict[str, list[storage_v1.CSINodeDriver]] = {}
        for driver in obj.spec.drivers:
            known.setdefault(driver.name, []).append(replace(driver, allocatable=None))
        for before in old.spec.drivers:
            for after in known.get(before.name, ()):
                check_unchanged(errors, "spec.drivers", after, replace(before, allocatable=None))
        return errors


def _check_topology_keys(errors: Errors, path: str, keys: tuple[str, ...]) -> None:
    again = repeats(keys)
    for index, key in enumerate(keys):
        if not key:
            errors.append(required(path))
        if index in again:
            errors.append(duplicate(path, key))
        check_format(errors, path, key, formats.label_key)


STRATEGY = CSINodeStrategy()
