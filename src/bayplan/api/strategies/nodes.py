"""Nodes."""

from __future__ import annotations

from bayplan.api import quantity
from bayplan.api.defaults.quantities import canonical_list
from bayplan.api.errors import FieldError, duplicate, forbidden, invalid
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import core_v1
from bayplan.api.validation.fields import check_cidr, go_struct, parse_cidr
from bayplan.api.validation.ip_warnings import cidr_warnings
from bayplan.api.validation.resources import is_integer_resource
from bayplan.api.validation.scheduling import check_taints


class NodeStrategy(Strategy):
    """Rules of nodes. Their status may be given at creation, as kubelets do."""

    has_status = True
    selectable_field_names = frozenset(("spec.unschedulable",))

    def default(self, obj: core_v1.Node) -> None:
        spec, status = obj.spec, obj.status
        if status.capacity or status.allocatable:
            canonical_list(status.capacity)
            canonical_list(status.allocatable)
            if not status.allocatable:
                status.allocatable = dict(status.capacity)
        if spec.pod_cidr and not spec.pod_cidrs:
            spec.pod_cidrs = (spec.pod_cidr,)
        elif spec.pod_cidrs:
            spec.pod_cidr = spec.pod_cidrs[0]

    def prepare_create(self, obj: core_v1.Node) -> None:
        """The status of a new node counts; configuration from the API is no longer a feature."""
        obj.spec.config_source = obj.status.config = None

    def prepare_update(self, obj: core_v1.Node, old: core_v1.Node) -> None:
        obj.status = old.status
        if old.spec.config_source is None:
            obj.spec.config_source = None

    def prepare_status_update(self, obj: core_v1.Node, old: core_v1.Node) -> None:
        obj.spec = old.spec
        if old.status.config is None:
            obj.status.config = None

    def validate(self, obj: core_v1.Node) -> list[FieldError]:
        errors: list[FieldError] = []
        if obj.spec.taints:
            check_taints(errors, "metadata.taints", obj.spec.taints)
        if obj.status.capacity or obj.status.allocatable:
            _check_resources(errors, obj.status)
        return errors

    def validate_create(self, obj: core_v1.Node) -> list[FieldError]:
        errors: list[FieldError] = []
        cidrs = obj.spec.pod_cidrs
        for index, value in enumerate(cidrs):
            check_cidr(errors, f"spec.podCIDRs[{index}]", value)
        if len(cidrs) > 1:
            families = {network.version for network in map(parse_cidr, cidrs) if network is not None}
            if len(families) != 2 or len(cidrs) > 2:
                errors.append(invalid("spec.podCIDRs", cidrs, "may specify no more than one CIDR for each IP family"))
            errors.extend(
                duplicate(f"spec.podCIDRs[{index}]", one) for index, one in enumerate(cidrs) if one in cidrs[:index]
            )
        return errors

    def validate_update(self, obj: core_v1.Node, old: core_v1.Node) -> list[FieldError]:
        errors: list[FieldError] = []
        _check_addresses(errors, obj.status)
        if old.spec.pod_cidrs and obj.spec.pod_cidrs != old.spec.pod_cidrs:
            errors.append(forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid'))
        if old.spec.provider_id and obj.spec.provider_id != old.spec.provider_id:
            errors.append(
                forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')
            )
        if obj.spec.external_id != old.spec.external_id:
            errors.append(forbidden("spec.externalID", "may not be updated"))
        return errors

    def validate_status_update(self, obj: core_v1.Node, old: core_v1.Node) -> list[FieldError]:
        errors: list[FieldError] = []
        _check_resources(errors, obj.status)
        _check_addresses(errors, obj.status)
        return errors

    def warnings(self, obj: core_v1.Node, old: core_v1.Node | None) -> list[str]:
        found = []
        if obj.spec.config_source is not None and (old is None or old.spec.config_source is None):
            found.append("spec.configSource: the feature is no longer supported")
        if obj.spec.external_id and (old is None or old.spec.external_id != obj.spec.external_id):
            found.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
        if old is None or old.spec.pod_cidrs != obj.spec.pod_cidrs:
            for index, value in enumerate(obj.spec.pod_cidrs):
                found.extend(cidr_warnings(f"spec.podCIDRs[{index}]", value))
        return found

    def selectable_fields(self, obj: core_v1.Node) -> dict[str, str]:
        return {"spec.unschedulable": "true" if obj.spec.unschedulable else "false"}


def _check_resources(errors: list[FieldError], status: core_v1.NodeStatus) -> None:
    for part, amounts in (("capacity", status.capacity), ("allocatable", status.allocatable)):
        for name in sorted(amounts):
            parsed = quantity.parse(amounts[name])
            where = f"status.{part}.{name}"
            if parsed.sign() < 0:
                errors.append(invalid(where, str(parsed), "must be greater than or equal to 0"))
            if parsed.scale and is_integer_resource(name):
                errors.append(invalid(where, str(parsed), "must be an integer"))


def _check_addresses(errors: list[FieldError], status: core_v1.NodeStatus) -> None:
    for index, address in enumerate(status.addresses):
        if address in status.addresses[:index]:
            errors.append(duplicate(f"status.addresses[{index}]", go_struct(address)))


STRATEGY = NodeStrategy()
