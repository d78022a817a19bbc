"""The stores of a cluster: what its settings name, with everything that is done to values on their way."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

from bayplan.api.kinds import DEFAULT_KINDS, Kind
from bayplan.apiserver.etcd_layout import etcd_folders
from bayplan.apiserver.store_partition import PREFIX
from bayplan.apiserver.stored_forms import JSON, StoredForms
from bayplan.apiserver.tracing import Tracing
from bayplan.cluster.settings import ClusterSettings
from bayplan.cluster.storage.sizes import Sized
from bayplan.store.interface import Store
from bayplan.store.transforming import TransformingStore
from bayplan.store.url import open_store
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry

if TYPE_CHECKING:
    from bayplan.cluster.api_server.encryption import Encryption  # few clusters have it

logger = logging.getLogger(__name__)


class Stores(NamedTuple):
    """Stores that are not open yet."""

    main: Store
    elsewhere: dict[str, Store]
    """Those of kinds that are not in the main one, by storage prefix."""
    databases: list[tuple[str, Sized]]
    """Those among them that know how large they are, with where they are."""


def stores_of(
    settings: ClusterSettings, clock: Clock, metrics: Registry, tracing: Tracing | None, encryption: Encryption | None
) -> Stores:
    """What the settings name. encryption: what encrypts, if anything does. Raises ValueError."""

    databases: list[tuple[str, Sized]] = []

    def opened(url: str) -> Store:
        etcd = replace(settings.etcd, root=PREFIX, folders=etcd_folders(DEFAULT_KINDS))
        store = open_store(url, clock=clock, tells_previous=False, etcd=etcd, readiness=encryption)
        if url.startswith(("etcd", "sqlite")):
            databases.append((url.partition("://")[2] or url, cast("Sized", store)))
        if url.startswith("etcd"):
            from bayplan.cluster.storage.measured_store import MeasuredStore

            store = MeasuredStore(store, clock, metrics, tracing)
        if encryption is not None:
            store = TransformingStore(store, encryption.of_key, readiness=encryption)
        if url.startswith("etcd") or settings.api.storage_media_type != JSON:
            forms = StoredForms(settings.api.storage_media_type)
            store = TransformingStore(store, forms.of_key, forms_stay_current=True)
        return store

    return Stores(opened(settings.store), _elsewhere(settings, opened), databases)


def _elsewhere(settings: ClusterSettings, opened: Callable[[str], Store]) -> dict[str, Store]:
    """Equal servers are one store."""
    by_servers: dict[str, Store] = {}
    found: dict[str, Store] = {}
    for place, servers in settings.etcd.elsewhere:
        kind = _kind_of(place)
        if kind is None:
            logger.warning("--etcd-servers-overrides: there is no resource %s here", place)
            continue
        same = ",".join(sorted(servers.split(",")))
        if same not in by_servers:
            by_servers[same] = opened(f"etcd://{servers}")
        found[kind.storage_prefix] = by_servers[same]
    return found


def _kind_of(place: str) -> Kind | None:
    """The kind in whose version objects of `group/resource` are kept."""
    group, _, resource = place.partition("/")
    return next(
        (
            DEFAULT_KINDS.storage_kind(kind)
            for kind in DEFAULT_KINDS
            if (kind.group, kind.plural) == (group, resource) and kind.is_stored
        ),
        None,
    )
