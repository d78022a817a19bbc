"""The Lease by which an API server says that it is there: `kube-system/apiserver-<hash of its host>`, renewed every ten seconds.

Source: KEP-1965. Leases of servers that are gone are taken away by whoever finds them expired. Bayplan's name the key that signs service account tokens as well, so
that a server notices before it writes anything that a store is in use by another cluster.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from bayplan.api.errors import ApiError
from bayplan.api.types import coordination_v1, meta_v1
from bayplan.apiserver.bootstrap.publishing import change, ensure, kind_of
from bayplan.apiserver.context import Context
from bayplan.store.errors import Conflict, StoreUnavailable
from bayplan.support.timestamps import parse_rfc3339, rfc3339_micro

API_VERSION, NAMESPACE = "coordination.k8s.io/v1", "kube-system"
LABEL, LABEL_VALUE = "apiserver.kubernetes.io/identity", "kube-apiserver"
DURATION, RENEWAL = 3600, 10.0
"""Seconds."""
SIGNING_KEY = "bayplan.dev/signing-key"
"""Annotation: the id of the key with which the server signs service account tokens."""
_LIVES_SECONDS = 3 * RENEWAL
"""A server whose lease was renewed longer ago is gone."""


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
        signs = {SIGNING_KEY: context.service_accounts.issuer.keys.public()[0].key_id}
        metadata = meta_v1.ObjectMeta(name=name, namespace=NAMESPACE, labels=labels, annotations=signs)
        if not await ensure(context, coordination_v1.Lease(metadata=metadata, spec=spec), API_VERSION):
            await _renew(context, name, spec, signs)
        await _collect(context)
        await context.clock.sleep(RENEWAL)


def check_no_other_cluster(context: Context) -> None:
    """Raises StoreUnavailable if a server lives on the store that signs tokens with a key which this one does not verify."""
    now = context.clock.now()
    for lease, renewed in _leases(context):
        key, host = lease.metadata.annotations.get(SIGNING_KEY), lease.metadata.labels.get("kubernetes.io/hostname")
        if not key or renewed <= now - _LIVES_SECONDS:
            continue
        if all(key != one.key_id for one in context.service_accounts.issuer.keys.public()):
            raise StoreUnavailable(
                f"the store is in use by another cluster: the API server on {host}, which said {max(0.0, now - renewed):.0f} s ago that it is there, signs service "
                "account tokens with a key that this one does not verify. Servers of one cluster have the same --service-account-signing-key-file, or name the "
                "keys of the others in --service-account-key-file; another cluster needs a prefix of its own (--etcd-prefix)"
            )


async def _renew(context: Context, name: str, spec: coordination_v1.LeaseSpec, annotations: dict[str, str]) -> None:
    def renewed(lease: Any) -> Any:
        lease.spec = spec
        lease.metadata.annotations = {**lease.metadata.annotations, **annotations}
        return lease

    try:
        await change(context, API_VERSION, "Lease", NAMESPACE, name, renewed)
    except ApiError as error:
        if error.reason != "NotFound":  # somebody deleted it just now; the next round makes it again
            raise


async def _collect(context: Context) -> None:
    """Take away the leases of servers that have gone."""
    objects, kind = context.objects, kind_of(context, API_VERSION, "Lease")
    now = context.clock.now()
    for lease, renewed in _leases(context):
        if renewed + (lease.spec.lease_duration_seconds or 0) < now:
            entry = objects.cache(kind).get(NAMESPACE, lease.metadata.name)
            try:
                if entry is not None:
                    await objects.remove(kind, entry)
            except Conflict as race:  # its server is back
                await objects.settle(race)


def _leases(context: Context) -> list[tuple[coordination_v1.Lease, float]]:
    """The leases of servers, and when they were renewed."""
    cache = context.objects.cache(kind_of(context, API_VERSION, "Lease"))
    found = [cache.shared(entry) for entry in cache.ordered(NAMESPACE) if entry.labels.get(LABEL) == LABEL_VALUE]
    return [(lease, parse_rfc3339(lease.spec.renew_time)) for lease in found if lease.spec.renew_time]
