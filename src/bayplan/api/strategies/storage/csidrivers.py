"""CSI drivers."""

from __future__ import annotations

from bayplan.api.errors import FieldError, duplicate, invalid, unsupported
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import storage_v1
from bayplan.api.validation.fields import check_unchanged

_FS_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_MODES = ("Persistent", "Ephemeral")
_TOKENS_IN_ATTRIBUTES = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging "
    "of tokens in volume attributes"
)


class CSIDriverStrategy(Strategy):
    """Rules of CSI drivers. Their generation begins at nothing and counts changes."""

    allow_unconditional_update = False
    returns_object_on_delete = True

    def default(self, obj: storage_v1.CSIDriver) -> None:
        spec = obj.spec
        if spec.attach_required is None:
            spec.attach_required = True
        for name in ("pod_info_on_mount", "storage_capacity", "requires_republish", "se_linux_mount"):
            if getattr(spec, name) is None:
                setattr(spec, name, False)
        if spec.fs_group_policy is None:
            spec.fs_group_policy = "ReadWriteOnceWithFSType"
        if not spec.volume_lifecycle_modes:
            spec.volume_lifecycle_modes = ("Persistent",)

    def prepare_create(self, obj: storage_v1.CSIDriver) -> None:
        obj.spec.prevent_pod_scheduling_if_missing = None  # off by default in 1.36

    def prepare_update(self, obj: storage_v1.CSIDriver, old: storage_v1.CSIDriver) -> None:
        if old.spec.prevent_pod_scheduling_if_missing is None:
            obj.spec.prevent_pod_scheduling_if_missing = None
        if obj.spec != old.spec:
            obj.metadata.generation = old.metadata.generation + 1

    def validate(self, obj: storage_v1.CSIDriver) -> list[FieldError]:
        errors: list[FieldError] = []
        spec = obj.spec
        if spec.fs_group_policy not in _FS_POLICIES:
            errors.append(unsupported("spec.fsGroupPolicy", spec.fs_group_policy, _FS_POLICIES))
        audiences: set[str] = set()
        for index, request in enumerate(spec.token_requests):
            where, seconds = f"spec.tokenRequests[{index}]", request.expiration_seconds
            if request.audience in audiences:
                errors.append(duplicate(f"{where}.audience", request.audience))
                continue
            audiences.add(request.audience)
            if seconds is not None and seconds < 600:
                errors.append(
                    invalid(f"{where}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
                )
            elif seconds is not None and seconds > 2**32:
                text = "may not specify a duration larger than 2^32 seconds"
                errors.append(invalid(f"{where}.expirationSeconds", seconds, text))
        unknown = (mode for mode in spec.volume_lifecycle_modes if mode not in _MODES)
        errors.extend(unsupported("spec.volumeLifecycleModes", mode, _MODES) for mode in unknown)
        period = spec.node_allocatable_update_period_seconds
        if period is not None and period < 10:
            text = "must be greater than or equal to 10 seconds"
            errors.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, text))
        given = spec.service_account_token_in_secrets
        if given is not None and not spec.token_requests:
            text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
            errors.append(invalid("spec.serviceAccountTokenInSecrets", given, text))
        return errors

    def validate_update(self, obj: storage_v1.CSIDriver, old: storage_v1.CSIDriver) -> list[FieldError]:
        errors: list[FieldError] = []
        check_unchanged(errors, "spec.attachedRequired", obj.spec.attach_required, old.spec.attach_required)
        check_unchanged(
            errors, "spec.volumeLifecycleModes", obj.spec.volume_lifecycle_modes, old.spec.volume_lifecycle_modes
        )
        return errors

    def warnings(self, obj: storage_v1.CSIDriver, old: storage_v1.CSIDriver | None) -> list[str]:
        requests = obj.spec.token_requests
        if not requests or obj.spec.service_account_token_in_secrets is not None:
            return []
        return [] if old is not None and old.spec.token_requests == requests else [_TOKENS_IN_ATTRIBUTES]


STRATEGY = CSIDriverStrategy()
