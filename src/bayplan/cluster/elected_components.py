"""Components of a cluster with several API server processes: in one process, or in several equal ones, where each component runs while a process holds its lease.

They reach the API over HTTPS, at the address behind which all servers are, as components on other machines would.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bayplan.apiserver.certificates import sign
from bayplan.apiserver.service_account_tokens.keys import TokenKeys
from bayplan.apiserver.tls import client_tls
from bayplan.client import Client
from bayplan.client.credentials import Credentials
from bayplan.client.http import HttpTransport
from bayplan.client.leader_election import LeaderElector, LeaseLock
from bayplan.cluster.components import CONTROLLERS, NODES, SCHEDULER, Components, SigningCredentials
from bayplan.cluster.credentials import ADMIN_GROUP, ClusterCredentials
from bayplan.cluster.settings import ClusterSettings
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import Randomness

if TYPE_CHECKING:
    from bayplan.scheduler.service import SchedulerService

logger = logging.getLogger(__name__)

LEASES: Final = {
    SCHEDULER: "kube-scheduler",
    CONTROLLERS: "kube-controller-manager",
    NODES: "node-simulator",
}
"""The leases in `kube-system`, by component: those of Kubernetes' programs."""


class ElectedComponents:
    """Waits for the leases of components, and runs those that it gets."""

    def __init__(
        self,
        settings: ClusterSettings,
        url: str,
        credentials: ClusterCredentials,
        identity: str,
        *,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        """url: of the API. identity: what leases name as their holder."""
        self._settings = settings
        self._url = url
        self._credentials = credentials
        self._identity = identity
        self._clock = clock
        self._randomness = randomness
        self.metrics = Registry()
        self._clients: dict[str, Client] = {}
        self._components = Components(
            settings,
            self._connect,
            self._signing_credentials(),
            clock=clock,
            randomness=randomness,
            metrics=self.metrics,
            restarts=True,
        )

    @property
    def scheduler(self) -> SchedulerService | None:
        """The scheduler that runs here, or ran last; None if none did."""
        return self._components.scheduler

    def _connect(self, user: str) -> Client:
        """A client for a user. Raises OSError, ssl.SSLError."""
        client = self._clients.get(user)
        if client is None:
            pair = sign(self._credentials.authority, self._clock.now(), user, organizations=(ADMIN_GROUP,))
            tls = client_tls(pair, self._credentials.authority.certificate)
            client = self._clients[user] = Client(HttpTransport(Credentials(self._url, tls=tls), user_agent=user))
        return client

    def _signing_credentials(self) -> SigningCredentials:
        from bayplan.controllers.access.certificate_rules import Authority

        authority, given = self._credentials.authority, self._settings.token_signing_key
        key = given.read_bytes() if given is not None else self._credentials.token_signing_key()
        keys = TokenKeys(lambda: key)

        async def sign_token(claims: dict[str, Any]) -> str:
            return keys.sign(claims)

        return SigningCredentials(
            root_ca=authority.certificate.decode(),
            token_signer=sign_token,
            authority=Authority(authority.certificate, authority.key),
        )

    async def run(self, names: Sequence[str]) -> None:
        """Run components until cancelled: there is no other process for them."""
        for name in names:
            self._components.start(name)
        await asyncio.get_running_loop().create_future()

    async def elect(self, names: Sequence[str]) -> None:
        """Run components until cancelled, each while its lease is held. Raises LeadershipLost when one is lost: the process is to end then, and all that it runs."""
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(self._elect(name), name=name)

    async def _elect(self, name: str) -> None:
        lock = LeaseLock(self._connect(f"system:{LEASES[name]}"), "kube-system", LEASES[name])
        elector = LeaderElector(lock, self._identity, clock=self._clock, randomness=self._randomness)
        await elector.run(partial(self._lead, name))

    async def _lead(self, name: str) -> None:
        logger.warning("%s leads: it runs %s", self._identity, LEASES[name])
        self._components.start(name)
        try:
            await asyncio.get_running_loop().create_future()  # until the lease is lost, or this process is to stop
        finally:
            await self._components.stop(name)

    async def close(self) -> None:
        """End what runs, and all connections."""
        await self._components.close()
        for client in self._clients.values():
            await client.close()
