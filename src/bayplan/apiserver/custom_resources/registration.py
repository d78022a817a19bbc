"""An APIService for every group version of custom resources.

Source of the behaviour: Kubernetes' `kube-aggregator/pkg/controllers/autoregister` and `controlplane/controller/crdregistration`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api.kinds import Kind
from bayplan.api.types import apiregistration_v1, meta_v1
from bayplan.apiserver.bootstrap.api_services import LABEL
from bayplan.apiserver.bootstrap.publishing import ensure, kind_of, remove
from bayplan.apiserver.context import Context
from bayplan.apiserver.custom_resources.definitions import ESTABLISHED, DefinitionRule, is_true
from bayplan.apiserver.reads.watching import Entry, Selection

_KEPT_IN_SYNC = "true"
_GROUP_PRIORITY, _VERSION_PRIORITY = 1000, 100
_API_VERSION = "apiregistration.k8s.io/v1"


class CustomResourceApiServices(DefinitionRule):
    """What is served is registered; what no definition stands behind any more is not."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._services = kind_of(context, _API_VERSION, "APIService")

    def inputs(self) -> Sequence[tuple[Kind, Selection | None]]:
        """The definitions, and the services that were made for them."""
        return ((self.kind, None), (self._services, _is_ours))

    async def settle(self) -> None:
        """Make the services that are missing, delete those that are too many. Raises ApiError."""
        wanted = {
            f"{version.name}.{one.spec.group}": (one.spec.group, version.name)
            for one in self.definitions()
            if is_true(one, ESTABLISHED)
            for version in one.spec.versions
            if version.served
        }
        for name, (group, version_name) in wanted.items():
            await ensure(self.context, _service(name, group, version_name), _API_VERSION)
        for entry in list(self.context.objects.cache(self._services).all()):
            if _is_ours(entry) and entry.name not in wanted:
                await remove(self.context, self._services, entry)


def _is_ours(entry: Entry) -> bool:
    return entry.labels.get(LABEL) == _KEPT_IN_SYNC


def _service(name: str, group: str, version: str) -> apiregistration_v1.APIService:
    spec = apiregistration_v1.APIServiceSpec(
        group=group, version=version, group_priority_minimum=_GROUP_PRIORITY, version_priority=_VERSION_PRIORITY
    )
    return apiregistration_v1.APIService(
        metadata=meta_v1.ObjectMeta(name=name, labels={LABEL: _KEPT_IN_SYNC}), spec=spec
    )
