"""IP addresses taken by services."""

from __future__ import annotations

from bayplan.api.errors import FieldError, required
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import networking_v1
from bayplan.api.validation.fields import check_format, check_unchanged
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.values import formats


class IPAddressStrategy(Strategy):
    """Rules of IP addresses: the name is the address, the owner never changes."""

    update_checks = UpdateChecks(whole=1)
    name_is_checked_as = "ip-address"
    completes_names = False

    def validate(self, obj: networking_v1.IPAddress) -> list[FieldError]:
        errors: list[FieldError] = []
        parent = obj.spec.parent_ref
        if parent is None:
            errors.append(required("spec.parentRef"))
            return errors
        if parent.group:
            check_format(errors, "spec.parentRef.group", parent.group, formats.dns_subdomain)
        for field, value in (("resource", parent.resource), ("name", parent.name)):
            if not value:
                errors.append(required(f"spec.parentRef.{field}"))
            else:
                check_format(errors, f"spec.parentRef.{field}", value, formats.path_segment)
        if parent.namespace:
            check_format(errors, "spec.parentRef.namespace", parent.namespace, formats.path_segment)
        return errors

    def validate_update(self, obj: networking_v1.IPAddress, old: networking_v1.IPAddress) -> list[FieldError]:
        errors: list[FieldError] = []
        check_unchanged(errors, "spec.parentRef", obj.spec.parent_ref, old.spec.parent_ref)
        return errors


STRATEGY = IPAddressStrategy()
