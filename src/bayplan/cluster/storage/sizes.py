"""How large the databases are in which objects are kept, under kube-apiserver's names.

Source: `k8s.io/apiserver/pkg/storage/etcd3/metrics`, which asks when somebody looks, as here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bayplan.store.errors import StoreError
from bayplan.support.metrics.instruments import Registry


class Sized(Protocol):
    """A database."""

    async def allocated_bytes(self) -> int:
        """What it takes of the disk. Raises StoreError, OSError."""


class StorageSizes:
    """The series of one API server."""

    def __init__(self, registry: Registry, databases: Sequence[tuple[str, Sized]]) -> None:
        """databases: with where they are."""
        text = "ize of the storage database file physically allocated in bytes."
        self._databases = databases
        self._sizes = registry.gauge("apiserver_storage_size_bytes", f"S{text}", ("storage_cluster_id",))
        self._former = registry.gauge("apiserver_storage_db_total_size_in_bytes", f"Total s{text}", ("endpoint",))

    async def update(self) -> None:
        """Ask all databases. One that cannot tell is left out."""
        for number, (place, database) in enumerate(self._databases):
            name = f"etcd-{number}"
            try:
                size = float(await database.allocated_bytes())
            except (StoreError, OSError):
                self._sizes.remove(name)
                self._former.remove(place)
            else:
                self._sizes.labels(name).set(size)
                self._former.labels(place).set(size)
