"""What every API server publishes at start: system namespaces, priority classes, roles, flow control, its own API services, and the service under
which it is found."""

from __future__ import annotations

import asyncio

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1, scheduling_v1
from bayplan.apiserver.bootstrap.api_services import AT_START, LABEL, api_services
from bayplan.apiserver.bootstrap.flow_control import API_VERSION as FLOW_CONTROL
from bayplan.apiserver.bootstrap.flow_control import publish_flow_control
from bayplan.apiserver.bootstrap.legacy_tokens import publish_tracking
from bayplan.apiserver.bootstrap.publishing import ensure, kind_of, own_call, remove
from bayplan.apiserver.bootstrap.roles import publish_roles
from bayplan.apiserver.bootstrap.service_cidr import publish_service_cidr
from bayplan.apiserver.context import Context

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITY_CLASSES = (
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
)
_RESTORED = (
    ("v1", "Namespace"),
    (FLOW_CONTROL, "PriorityLevelConfiguration"),
    (FLOW_CONTROL, "FlowSchema"),
    ("v1", "ConfigMap"),
)
_REGISTRATION = "apiregistration.k8s.io/v1"


async def publish(context: Context) -> None:
    """Create what is missing of what every cluster has: namespaces first, then all the rest at once, which costs one commit."""
    await asyncio.gather(*(_namespace(context, name) for name in NAMESPACES))
    await asyncio.gather(
        *(_priority_class(context, *row) for row in _PRIORITY_CLASSES),
        _publish_api_services(context),
        publish_flow_control(context),
        publish_service_cidr(context),
        publish_roles(context, own_call),
        publish_tracking(context),
    )


async def publish_beside_others(context: Context) -> None:
    """`publish`, again if another server that starts at the same time was in the way. Raises ApiError."""
    while True:
        try:
            await publish(context)
            return
        except ApiError as error:
            if not context.objects.is_shared or error.reason not in ("AlreadyExists", "Conflict"):
                raise


class Restorer:
    """Creates or corrects again what Kubernetes, too, looks after while it runs: system namespaces, flow control, since when tokens are tracked."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._seen: list[int] = []

    async def restore(self) -> None:
        """Look at it all, if anything of these kinds was written since the last look. Raises ApiError."""
        context = self._context
        caches = [context.objects.cache(kind_of(context, *kind)) for kind in _RESTORED]
        revisions = [cache.revision for cache in caches]
        if revisions == self._seen and not any(cache.unreadable for cache in caches):
            return
        await asyncio.gather(*(_namespace(context, name) for name in NAMESPACES))
        await publish_flow_control(context)
        await publish_tracking(context)
        self._seen = revisions


async def _namespace(context: Context, name: str) -> None:
    await ensure(context, core_v1.Namespace(metadata=meta_v1.ObjectMeta(name=name)), "v1")


async def _priority_class(context: Context, name: str, value: int, text: str) -> None:
    found = scheduling_v1.PriorityClass(metadata=meta_v1.ObjectMeta(name=name), value=value, description=text)
    await ensure(context, found, "scheduling.k8s.io/v1")


async def _publish_api_services(context: Context) -> None:
    """Those of this server; what earlier starts published and this one does not serve is taken away, unless another server has taken it over."""
    wanted = api_services(context.kinds)
    await asyncio.gather(*(ensure(context, one, _REGISTRATION) for one in wanted))
    kind, names = kind_of(context, _REGISTRATION, "APIService"), {one.metadata.name for one in wanted}
    cache = context.objects.cache(kind)
    for entry in list(cache.all()):
        is_ours = entry.labels.get(LABEL) == AT_START and cache.shared(entry).spec.service is None
        if is_ours and entry.name not in names:
            await remove(context, kind, entry)
