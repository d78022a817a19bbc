"""The Lease by which an API server says that it is there: `kube-system/apiserver-<hash of its host>`, renewed every ten seconds.

Source: KEP-1965. Leases of servers that are gone are taken away by whoever finds them expired.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from bayplan.api.errors import ApiError
from bayplan.api.types import coordination_v1, meta_v1
from bayplan.apiserver.bootstrap.publishing import change, ensure, kind_of
from bayplan.apiserver.context import Context
from bayplan.store.errors import Conflict
from bayplan.support.timestamps import parse_rfc3339, rfc3339_micro

API_VERSION, NAMESPACE = "coordination.k8s.io/v1", "kube-system"
LABEL, LABEL_VALUE = "apiserver.kubernetes.io/identity", "kube-apiserver"
DURATION, RENEWAL = 3600, 10.0
"""Seconds."""


def lease_name(host: str) -> str:
    """The name of the lease of the server on a host."""
    digest = hashlib.sha256(host.encode()).digest()[:16]
    return "apiserver-" + base64.b32encode(digest).decode().rstrip("=").lower()


async def keep_identity(context: Context, host: str) -> None:
    """Hold the lease until cancelled. Raises ApiError if the store cannot be written to."""
    name = lease_name(host)
    holder = f"{name}_{context.randomness.uuid4()}"
    while True:
        now = rfc3339_micro(context.clock.now())
        spec = coordination_v1.LeaseSpec(holder_identity=holder, lease_duration_seconds=DURATION, renew_time=now)
        labels = {LABEL: LABEL_VALUE, "kubernetes.io/hostname": host}
        metadata = meta_v1.ObjectMeta(name=name, namespace=NAMESPACE, labels=labels)
        if not await ensure(context, coordination_v1.Lease(metadata=metadata, spec=spec), API_VERSION):
            await _renew(context, name, spec)
        await _collect(context)
        await context.clock.sleep(RENEWAL)


async def _renew(context: Context, name: str, spec: coordination_v1.LeaseSpec) -> None:
    def renewed(lease: Any) -> Any:
        lease.spec = spec
        return lease

    try:
        await change(context, API_VERSION, "Lease", NAMESPACE, name, renewed)
    except ApiError as error:
        if error.reason != "NotFound":  # somebody deleted it just now; the next round makes it again
            raise


async def _collect(context: Context) -> None:
    """Take away the leases of servers that have gone."""
    objects, kind = context.objects, kind_of(context, API_VERSION, "Lease")
    cache, now = objects.cache(kind), context.clock.now()
    for entry in list(cache.ordered(NAMESPACE)):
        if entry.labels.get(LABEL) != LABEL_VALUE:
            continue
        spec = cache.shared(entry).spec
        if spec.renew_time and parse_rfc3339(spec.renew_time) + (spec.lease_duration_seconds or 0) < now:
            try:
                await objects.remove(kind, entry)
            except Conflict as race:  # its server is back
                await objects.settle(race)
