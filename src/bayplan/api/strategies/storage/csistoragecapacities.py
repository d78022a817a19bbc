"""CSI storage capacities."""

from __future__ import annotations

from bayplan.api import quantity
from bayplan.api.defaults.quantities import canonical
from bayplan.api.errors import FieldError, invalid
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import storage_v1
from bayplan.api.validation.fields import check_format, check_label_selector, check_unchanged
from bayplan.api.validation.label_warnings import selector_warnings
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.values import formats


class CSIStorageCapacityStrategy(Strategy):
    """Rules of CSI storage capacities."""

    update_checks = UpdateChecks(whole=1)
    allow_unconditional_update = False

    def default(self, obj: storage_v1.CSIStorageCapacity) -> None:
        if obj.capacity is not None:
            obj.capacity = canonical(obj.capacity)
        if obj.maximum_volume_size is not None:
            obj.maximum_volume_size = canonical(obj.maximum_volume_size)

    def validate(self, obj: storage_v1.CSIStorageCapacity) -> list[FieldError]:
        errors: list[FieldError] = []
        check_label_selector(errors, "nodeTopology", obj.node_topology)
        check_format(errors, "storageClassName", obj.storage_class_name, formats.dns_subdomain)
        if obj.capacity is not None and quantity.parse(obj.capacity).sign() < 0:
            errors.append(invalid("capacity", quantity.canonical(obj.capacity), "must be greater than or equal to 0"))
        return errors

    def warnings(self, obj: storage_v1.CSIStorageCapacity, old: storage_v1.CSIStorageCapacity | None) -> list[str]:
        return list(selector_warnings("nodeTopology", obj.node_topology))

    def validate_update(
        self, obj: storage_v1.CSIStorageCapacity, old: storage_v1.CSIStorageCapacity
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        check_unchanged(errors, "nodeTopology", obj.node_topology, old.node_topology)
        check_unchanged(errors, "storageClassName", obj.storage_class_name, old.storage_class_name)
        return errors


STRATEGY = CSIStorageCapacityStrategy()
