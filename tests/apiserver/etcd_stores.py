"""Stores in the etcd that tests share, laid out as the API server has them."""

from __future__ import annotations

import itertools
import os

from bayplan.api.kinds import DEFAULT_KINDS
from bayplan.apiserver.etcd_layout import etcd_folders
from bayplan.store.etcd.options import EtcdOptions
from bayplan.store.interface import Store
from bayplan.store.url import open_store
from bayplan.support.clock import SystemClock
from tests.store.etcd.server import shared_server

_numbers = itertools.count(1)


def new_prefix() -> str:
    """A prefix that no other test has."""
    return f"/ha-{os.getpid()}-{next(_numbers)}"


def etcd_store(prefix: str, *endpoints: str) -> Store:
    """A store under a prefix, at these members if they are given."""
    servers = ",".join(endpoints) or shared_server().endpoint
    options = EtcdOptions(prefix=prefix, root="/registry/", folders=etcd_folders(DEFAULT_KINDS), compaction_interval=0)
    return open_store(f"etcd://{servers}", clock=SystemClock(), tells_previous=False, etcd=options)
