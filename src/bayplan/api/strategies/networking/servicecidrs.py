"""Service CIDRs."""

from __future__ import annotations

from bayplan.api.errors import FieldError, invalid, required
from bayplan.api.managedfields.fieldset import of_paths
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import networking_v1
from bayplan.api.validation.fields import (
    check_canonical_cidr,
    check_unchanged,
    null_if_empty,
    parse_cidr,
)
from bayplan.api.validation.go_structs import go_struct


class ServiceCIDRStrategy(Strategy):
    """Rules of service CIDRs."""

    has_status = True
    reset_by_status = of_paths(("f:spec",), ("f:metadata",))

    def validate_create(self, obj: networking_v1.ServiceCIDR) -> list[FieldError]:
        errors: list[FieldError] = []
        cidrs = obj.spec.cidrs
        if not cidrs:
            return [required("spec.cidrs", "at least one CIDR required")]
        if len(cidrs) > 2:
            return [invalid("spec.cidrs", go_struct(obj.spec), "may only hold up to 2 values")]
        networks = [parse_cidr(cidr) for cidr in cidrs]
        if (
            len(cidrs) == 2
            and all(networks)
            and len({network.version for network in networks if network is not None}) != 2
        ):
            errors.append(
                invalid(
                    "spec.cidrs",
                    cidrs,
                    "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
                )
            )
        for index, cidr in enumerate(cidrs):
            check_canonical_cidr(errors, f"spec.cidrs[{index}]", cidr)
        return errors

    def validate_update(self, obj: networking_v1.ServiceCIDR, old: networking_v1.ServiceCIDR) -> list[FieldError]:
        """Ranges stay; a second one may come."""
        errors: list[FieldError] = []
        new, before = obj.spec.cidrs, old.spec.cidrs
        becomes_dual = len(before) == 1 and len(new) == 2
        if len(new) != len(before) and not becomes_dual:
            return [invalid("spec.cidrs", null_if_empty(new), "field is immutable")]
        for index, (cidr, former) in enumerate(zip(new, before, strict=False)):
            check_unchanged(errors, f"spec.cidrs[{index}]", cidr, former)
        return errors + self.validate_create(obj) if becomes_dual else errors


STRATEGY = ServiceCIDRStrategy()
