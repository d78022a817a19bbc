"""Service CIDRs."""

from __future__ import annotations

from bayplan.api.errors import FieldError, invalid, required
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import networking_v1
from bayplan.api.validation.fields import check_canonical_cidr, parse_cidr


class ServiceCIDRStrategy(Strategy):
    """Rules of service CIDRs."""

    has_status = True

    def validate(self, obj: networking_v1.ServiceCIDR) -> list[FieldError]:
        errors: list[FieldError] = []
        cidrs = obj.spec.cidrs
        if not cidrs:
            return [required("spec.cidrs", "at least one CIDR required")]
        if len(cidrs) > 2:
            return [invalid("spec.cidrs", cidrs, "may only hold up to 2 values")]
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
        new, before = obj.spec.cidrs, old.spec.cidrs
        if new == before or (len(before) == 1 and len(new) == 2 and new[0] == before[0]):
            return []
        return [invalid("spec.cidrs", new, "field is immutable")]


STRATEGY = ServiceCIDRStrategy()
