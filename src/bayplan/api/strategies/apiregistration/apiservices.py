"""API services of aggregated API servers."""

from __future__ import annotations

from bayplan.api.errors import FieldError, invalid, quoted, required, unsupported
from bayplan.api.managedfields.fieldset import of_paths
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import apiregistration_v1
from bayplan.api.validation.fields import check_format
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.values import formats
from bayplan.api.validation.values.encoded import decoded_size


def available(now: str) -> apiregistration_v1.APIServiceCondition:
    """The condition of a service that this server answers, as of a time (RFC 3339)."""
    return apiregistration_v1.APIServiceCondition(
        type="Available",
        status="True",
        last_transition_time=now,
        reason="Local",
        message="Local APIServices are always available",
    )


class APIServiceStrategy(Strategy):
    """Rules of API services: they are named after the version and the group that they serve."""

    update_checks = UpdateChecks(whole=1, change_first=True)
    knows_finalizers = False
    reset_by_status = of_paths(("f:spec",), ("f:metadata",))
    has_status = True
    allow_unconditional_update = False
    name_is_checked_as = "whole-path-segment"

    def default(self, obj: apiregistration_v1.APIService) -> None:
        if obj.spec.service is not None and obj.spec.service.port is None:
            obj.spec.service.port = 443

    def prepare_create(self, obj: apiregistration_v1.APIService) -> None:
        """What this server answers itself is available at once."""
        super().prepare_create(obj)
        if obj.spec.service is None:
            obj.status.conditions = (available(obj.metadata.creation_timestamp or ""),)

    def name_errors(self, obj: apiregistration_v1.APIService) -> list[FieldError]:
        wanted = f"{obj.spec.version}.{obj.spec.group}"
        text = f'must be `spec.version+"."+spec.group`: {quoted(wanted)}'
        given = (("metadata.generateName", obj.metadata.generate_name), ("metadata.name", obj.metadata.name))
        return [
            invalid(field, name, text)
            for field, name in given
            if name and name != wanted and not formats.path_segment(name)
        ]

    def validate(self, obj: apiregistration_v1.APIService) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        if not spec.group and spec.version != "v1":
            errors.append(required("spec.group", "only v1 may have an empty group and it better be legacy kube"))
        if spec.group:
            check_format(errors, "spec.group", spec.group, formats.dns_subdomain)
        check_format(errors, "spec.version", spec.version, formats.dns_1035_label)
        if not 0 < spec.group_priority_minimum <= 20000:
            text = "must be positive and less than 20000"
            errors.append(invalid("spec.groupPriorityMinimum", spec.group_priority_minimum, text))
        if not 0 < spec.version_priority <= 1000:
            errors.append(invalid("spec.versionPriority", spec.version_priority, "must be positive and less than 1000"))
        service = spec.service
        if service is None:
            if spec.ca_bundle:
                errors.append(
                    invalid(
                        "spec.caBundle",
                        f"{decoded_size(spec.ca_bundle)} bytes",
                        "local APIServices may not have a caBundle",
                    )
                )
            if spec.insecure_skip_tls_verify:
                text = "local APIServices may not have insecureSkipTLSVerify"
                errors.append(invalid("spec.insecureSkipTLSVerify", True, text))
            return errors
        if not service.namespace:
            errors.append(required("spec.service.namespace"))
        if not service.name:
            errors.append(required("spec.service.name"))
        if service.port is not None:
            messages = formats.port_number(service.port)
            errors.extend(invalid("spec.service.port", service.port, f"port is not valid: {one}") for one in messages)
        if spec.insecure_skip_tls_verify and spec.ca_bundle:
            text = "may not be true if caBundle is present"
            errors.append(invalid("spec.insecureSkipTLSVerify", True, text))
        return errors

    def validate_update(
        self, obj: apiregistration_v1.APIService, old: apiregistration_v1.APIService
    ) -> list[FieldError]:
        return self.name_errors(obj)

    def validate_status_update(
        self, obj: apiregistration_v1.APIService, old: apiregistration_v1.APIService
    ) -> list[FieldError]:
        known = ("True", "False", "Unknown")
        return [
            unsupported(f"status.conditions[{index}].status", condition.status, known)
            for index, condition in enumerate(obj.status.conditions)
            if condition.status not in known
        ]


STRATEGY = APIServiceStrategy()
