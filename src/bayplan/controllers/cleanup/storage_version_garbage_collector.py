"""StorageVersions lose what API servers have said that are gone, and go when nothing is left (where they are served: `internal.apiserver.k8s.io/v1alpha1`).

An API server is there as long as its identity lease. Source of the behaviour: Kubernetes' `pkg/controller/storageversiongc`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.optional_kinds import STORAGE_VERSION
from bayplan.api.types import apiserverinternal_v1alpha1 as internal
from bayplan.api.types import coordination_v1
from bayplan.controllers.base import condition_of, delete_if_there
from bayplan.controllers.optional_kinds import OptionalController
from bayplan.informers import InformerFactory
from bayplan.support.timestamps import rfc3339

_NAMESPACE: Final = "kube-system"
_LABEL, _VALUE = "apiserver.kubernetes.io/identity", "kube-apiserver"
EQUAL: Final = "AllEncodingVersionsEqual"


def with_servers(
    version: internal.StorageVersion, servers: tuple[internal.ServerStorageVersion, ...], now: str
) -> internal.StorageVersion:
    """A StorageVersion of which only these servers are left, and what they agree on. now: as in conditions."""
    encodings = {one.encoding_version for one in servers}
    common = next(iter(encodings)) if len(encodings) == 1 else None
    said = "Set" if common is not None else "Unset"
    condition = internal.StorageVersionCondition(
        type=EQUAL,
        status="True" if common is not None else "False",
        observed_generation=version.metadata.generation,
        last_transition_time=now,
        reason=f"CommonEncodingVersion{said}",
        message=f"Common encoding version {said.lower()}",
    )
    status = version.status
    before = condition_of(status.conditions, EQUAL)
    if before is not None and before.status == condition.status and status.common_encoding_version == common:
        condition.last_transition_time = before.last_transition_time
    others = tuple(one for one in status.conditions if one.type != EQUAL)
    changed = internal.StorageVersionStatus(servers, common, (*others, condition))
    new: internal.StorageVersion = msgspec.structs.replace(version, status=changed)
    return new


class StorageVersionGarbageCollector(OptionalController):
    """See the module. Keys are StorageVersions."""

    name = "storageversion-garbage-collector-controller"
    workers = 1
    kinds = (STORAGE_VERSION,)

    def begin(self, informers: InformerFactory) -> None:
        self.versions = informers.informer(internal.StorageVersion)
        self.leases = informers.informer(coordination_v1.Lease, _NAMESPACE)
        self.watch_keys(self.versions)
        self.leases.on_change(delete=self._lease_gone)

    def _lease_gone(self, lease: coordination_v1.Lease) -> None:
        if lease.metadata.labels.get(_LABEL) == _VALUE:
            for version in self.versions.cache:
                if any(one.api_server_id == lease.metadata.name for one in version.status.storage_versions):
                    self.queue.add(version.metadata.name)

    async def reconcile(self, key: str) -> None:
        await self.versions.wait_for_sync()
        await self.leases.wait_for_sync()
        version = self.versions.cache.by_key(key)
        if version is None:
            return
        servers = version.status.storage_versions
        left = tuple([one for one in servers if self._is_known(one) or await self._is_there(one.api_server_id)])
        if len(left) == len(servers):
            return
        if left:
            await self.client.update_status(with_servers(version, left, rfc3339(self.clock.now())))
        else:
            await delete_if_there(self.client, version)

    def _is_known(self, server: internal.ServerStorageVersion) -> bool:
        lease = self.leases.cache.get(_NAMESPACE, server.api_server_id)
        return lease is not None and lease.metadata.labels.get(_LABEL) == _VALUE

    async def _is_there(self, name: str) -> bool:
        """Whether the server has the identity lease of an API server that has not been seen yet. Raises ApiError, ClientError."""
        try:
            lease = await self.client.get(coordination_v1.Lease, name, _NAMESPACE)
        except ApiError as error:
            if error.code != 404:
                raise
            return False
        return lease.metadata.labels.get(_LABEL) == _VALUE
