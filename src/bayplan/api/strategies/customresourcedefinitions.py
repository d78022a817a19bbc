"""CustomResourceDefinitions."""

from __future__ import annotations

from bayplan.api.strategies.base import Strategy
from bayplan.api.types import apiextensions_v1

_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_HTTPS = 443
Definition = apiextensions_v1.CustomResourceDefinition


class CustomResourceDefinitionStrategy(Strategy):
    """Rules of definitions."""

    counts_generation = True
    has_status = True

    def default(self, obj: Definition) -> None:
        names = obj.spec.names
        if not names.singular:
            names.singular = names.kind.lower()
        if not names.list_kind and names.kind:
            names.list_kind = f"{names.kind}List"
        if obj.spec.conversion is None:
            obj.spec.conversion = apiextensions_v1.CustomResourceConversion(strategy="None")
        webhook = obj.spec.conversion.webhook
        if webhook is not None and webhook.client_config is not None and webhook.client_config.service is not None:
            service = webhook.client_config.service
            service.port = _HTTPS if service.port is None else service.port

    def prepare_create(self, obj: Definition) -> None:
        obj.status = apiextensions_v1.CustomResourceDefinitionStatus(stored_versions=_stored(obj))

    def prepare_update(self, obj: Definition, old: Definition) -> None:
        known = old.status.stored_versions
        new = tuple(one for one in _stored(obj) if one not in known)
        obj.status = old.status
        if new:
            obj.status = apiextensions_v1.CustomResourceDefinitionStatus(
                conditions=old.status.conditions,
                accepted_names=old.status.accepted_names,
                stored_versions=(*known, *new),
                observed_generation=old.status.observed_generation,
            )

    def begin_deletion(self, obj: Definition, now: str) -> bool:
        """Its objects go first, so it stays until that is done."""
        if _CLEANUP not in obj.metadata.finalizers:
            obj.metadata.finalizers = (*obj.metadata.finalizers, _CLEANUP)
        pending = apiextensions_v1.CustomResourceDefinitionCondition(
            type="Terminating",
            status="True",
            last_transition_time=now,
            reason="InstanceDeletionPending",
            message="CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        )
        others = tuple(one for one in obj.status.conditions if one.type != pending.type)
        obj.status.conditions = (*others, pending)
        return True


def _stored(obj: Definition) -> tuple[str, ...]:
    """The version in which objects are kept from now on."""
    return tuple(one.name for one in obj.spec.versions if one.storage)


STRATEGY = CustomResourceDefinitionStrategy()
