"""Publishing the ServiceCIDR `kubernetes`: the ranges of `--service-cluster-ip-range` as an object."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from bayplan.api.types import meta_v1, networking_v1
from bayplan.apiserver.bootstrap.publishing import change, ensure, kind_of
from bayplan.apiserver.context import Context
from bayplan.support.timestamps import rfc3339

logger = logging.getLogger(__name__)

NAME = "kubernetes"
API_VERSION = "networking.k8s.io/v1"
_MANAGER = "kubernetes-service-cidr-controller"
_FIELDS = (
    b'{"f:status":{"f:conditions":{"k:{\\"type\\":\\"Ready\\"}":{".":{},"f:lastTransitionTime":{},"f:message":{},'
    b'"f:status":{},"f:type":{}}}}}'
)
"""Fields of the condition, which kube-apiserver's own controller applies."""
_READY = "Kubernetes default Service CIDR is ready"


async def publish_service_cidr(context: Context) -> None:
    """Create it; a second range is added, any other difference is only told, since services may hold addresses of the old range. Raises ApiError."""
    cidrs = tuple(str(one.network) for one in context.allocators.addresses.ranges)
    spec = networking_v1.ServiceCIDRSpec(cidrs=cidrs)
    made = networking_v1.ServiceCIDR(metadata=meta_v1.ObjectMeta(name=NAME), spec=spec)
    if not await ensure(context, made, API_VERSION):
        cache = context.objects.cache(kind_of(context, API_VERSION, "ServiceCIDR"))
        entry = cache.get("", NAME)
        known = cache.shared(entry).spec.cidrs if entry is not None else cidrs
        if known != cidrs and known != cidrs[:1]:
            logger.warning("the service ranges %s differ from those of the ServiceCIDR %s: %s", cidrs, NAME, known)
            return
    await change(
        context, API_VERSION, "ServiceCIDR", "", NAME, lambda obj: _ready(obj, spec, context.clock.now()), track=False
    )


def _ready(obj: Any, spec: networking_v1.ServiceCIDRSpec, now: float) -> Any:
    obj.spec = spec
    if not any(one.type == "Ready" and one.status == "True" for one in obj.status.conditions):
        ready = meta_v1.Condition(
            type="Ready", status="True", last_transition_time=rfc3339(now), reason="", message=_READY
        )
        others = tuple(one for one in obj.status.conditions if one.type != "Ready")
        obj.status = networking_v1.ServiceCIDRStatus(conditions=(*others, ready))
        managed = meta_v1.ManagedFieldsEntry(
            manager=_MANAGER,
            operation="Apply",
            api_version=API_VERSION,
            time=rfc3339(now),
            fields_type="FieldsV1",
            fields_v1=msgspec.Raw(_FIELDS),
            subresource="status",
        )
        known = (one for one in obj.metadata.managed_fields if one.manager != _MANAGER)
        obj.metadata.managed_fields = (managed, *known)
    return obj
