"""Service accounts."""

from __future__ import annotations

from bayplan.api.strategies.base import Strategy
from bayplan.api.types import core_v1
from bayplan.api.validation.meta import UpdateChecks

_ENFORCED = "kubernetes.io/enforce-mountable-secrets"


class ServiceAccountStrategy(Strategy):
    """Rules of service accounts."""

    update_checks = UpdateChecks(whole=1, change_first=True)
    returns_object_on_delete = True

    def prepare_create(self, obj: core_v1.ServiceAccount) -> None:
        obj.secrets = tuple(core_v1.ObjectReference(name=one.name) for one in obj.secrets)

    def prepare_update(self, obj: core_v1.ServiceAccount, old: core_v1.ServiceAccount) -> None:
        obj.secrets = tuple(core_v1.ObjectReference(name=one.name) for one in obj.secrets)

    def warnings(self, obj: core_v1.ServiceAccount, old: core_v1.ServiceAccount | None) -> list[str]:
        if _ENFORCED in obj.metadata.annotations and (old is None or _ENFORCED not in old.metadata.annotations):
            return [
                f"metadata.annotations[{_ENFORCED}]: deprecated in v1.32+; prefer separate namespaces to isolate "
                "access to mounted secrets"
            ]
        return []


STRATEGY = ServiceAccountStrategy()
