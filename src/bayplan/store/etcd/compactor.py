"""Compaction of an etcd cluster that several servers share: one of them does it in each interval.

The key `compact_rev_key` decides which. Its version counts the intervals: a server that moves it on from the version it saw last has won, and compacts to the
revision that was current when it last looked, so that the past is readable for one interval at least. The key and the rule are kube-apiserver's, which can be one of
the servers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from bayplan.store.etcd.client import EtcdClient, get_op, put_op, version_is
from bayplan.store.etcd.errors import EtcdCompacted, EtcdError
from bayplan.support.clock import Clock

log = logging.getLogger(__name__)

KEY = b"compact_rev_key"


class Compactor:
    """One server's part in it. compacted: called with each revision to which anybody has compacted."""

    def __init__(self, client: EtcdClient, clock: Clock, interval: float, compacted: Callable[[int], None]) -> None:
        self._client, self._clock, self._interval = client, clock, interval
        self._compacted = compacted
        self._version = 0
        """Version of the key as it was last seen."""
        self._revision = 0
        """Revision that was current then."""

    async def run(self) -> None:
        """Take part until cancelled."""
        while True:
            await self._clock.sleep(self._interval)
            try:
                await self.take_turn()
            except EtcdError as error:
                log.warning("etcd was not compacted: %s", error)

    async def take_turn(self) -> None:
        """Compact if no other server has since the last turn. Raises EtcdError."""
        target = self._revision
        result = await self._client.transaction(
            [version_is(KEY, self._version)], [put_op(KEY, b"%d" % target)], [get_op(KEY)]
        )
        self._revision = result.revision
        if not result.succeeded:
            kvs = result.responses[0].response_range.kvs
            self._version = kvs[0].version if kvs else 0
            done = kvs[0].value if kvs else b""
            if done.isdigit() and int(done):
                self._compacted(int(done))
            return
        self._version += 1
        if target:
            with suppress(EtcdCompacted):
                await self._client.compact(target)
            self._compacted(target)
