"""A whole cluster, in one process or in two."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bayplan.api.kinds import Kind
from bayplan.apiserver.allocation.addresses import AddressRange
from bayplan.apiserver.bootstrap.authentication import publish_authentication
from bayplan.apiserver.bootstrap.identity import keep_identity, lease_name
from bayplan.apiserver.certificates import KeyPair, sign
from bayplan.apiserver.health import AUTHENTICATION
from bayplan.apiserver.http.server import HttpServer
from bayplan.apiserver.in_process import InProcessEndpoint
from bayplan.apiserver.requests import User
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.apiserver.webhooks.http import HttpSender
from bayplan.client import Client
from bayplan.client.in_process import InProcessTransport
from bayplan.client.own_kubeconfig import render
from bayplan.cluster.api_server.serving import Serving
from bayplan.cluster.api_server.token_key_files import TokenKeyFiles
from bayplan.cluster.components import CONTROLLERS, DESCHEDULER, NODES, SCHEDULER, Components, SigningCredentials
from bayplan.cluster.contents import take_in
from bayplan.cluster.credentials import ADMIN_GROUP, ADMIN_USER, obtain
from bayplan.cluster.errors import AddressInUse, ClusterError
from bayplan.cluster.questions.what_if import respond, take
from bayplan.cluster.settings import ClusterSettings
from bayplan.cluster.storage.default_class import publish_storage_class
from bayplan.cluster.storage.sizes import StorageSizes
from bayplan.cluster.storage.stores import stores_of
from bayplan.support.clock import Clock, SystemClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import Randomness, SystemRandomness
from bayplan.support.system.machine import default_address, machine_addresses

if TYPE_CHECKING:
    from bayplan.apiserver.admission.pods.image_policy import ImagePolicyWebhook
    from bayplan.cluster.api_server.authentication import Authentication
    from bayplan.cluster.api_server.authorization import Authorization
    from bayplan.cluster.api_server.encryption import Encryption
    from bayplan.cluster.api_server.tracing import OpenTelemetryTracing
    from bayplan.cluster.processes.group_member import GroupMember
    from bayplan.cluster.processes.worker_process import WorkerProcess

logger = logging.getLogger(__name__)

_PUBLISHED_EVERY: Final = 60.0
"""Seconds, as in kube-apiserver."""


_ALL_ADDRESSES: Final = {"0.0.0.0": socket.AF_INET, "::": socket.AF_INET6}
"""Addresses that stand for all of a machine."""


def kubernetes_addresses(settings: ClusterSettings) -> tuple[str, ...]:
    """The addresses that the certificate of the server is for: all of the machine's where it listens on all of them."""
    kubernetes_service = AddressRange(settings.api.service_cluster_ip_range.partition(",")[0]).first
    own = machine_addresses() if settings.bind_address in _ALL_ADDRESSES else ()
    further = (*settings.further_addresses, *settings.certificate_addresses)
    return settings.bind_address, *own, *further, kubernetes_service


def url_of(bind_address: str, port: int) -> str:
    """Base URL of a server for clients on this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bind_address, bind_address)
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def listen_error(where: str, error: OSError) -> ClusterError:
    """Why nobody can listen there."""
    if error.errno == errno.EADDRINUSE:
        return AddressInUse(
            f"{where} is in use; choose another port with --port (0 picks a free one), or stop what listens there"
        )
    return ClusterError(f"cannot listen on {where}: {error.strerror or error}")


class Cluster:
    """Starts an API server and the components around it; `start` returns when the API is served, `stop` when everything has ended."""

    def __init__(
        self,
        settings: ClusterSettings,
        *,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
        contents: Iterable[tuple[Kind, Any]] = (),
        worker_process: WorkerProcess | None = None,
        member: GroupMember | None = None,
    ) -> None:
        """`contents`: objects to begin with, taken in as they are; those that the store has already win.
        `worker_process`: the process in which the components are to run; None for this one.
        `member`: what this process has in common with others that serve the same address; None if it serves alone."""
        self.settings = settings
        self._member = member
        self._worker_process = worker_process
        self._contents = contents
        self.clock = clock or SystemClock()
        self.randomness = randomness or SystemRandomness()
        self.metrics = Registry()
        self.port = 0
        self.credentials = obtain(settings.directory, kubernetes_addresses(settings), self.clock.now())
        self.serving = Serving(settings, self.credentials, self.clock)
        self._token_key_files = TokenKeyFiles(settings, self.credentials, self.clock)
        self.encryption = self._encryption_of(settings.api)
        self.tracing = self._tracing_of(settings.api)
        stores = stores_of(settings, self.clock, self.metrics, self.tracing, self.encryption)
        self.api = ApiServer(
            stores.main,
            elsewhere=stores.elsewhere,
            clock=self.clock,
            randomness=self.randomness,
            settings=settings.api,
            metrics=self.metrics,
            token_keys=self._token_key_files.keys,
        )
        self.api.before_metrics.append(StorageSizes(self.metrics, stores.databases).update)
        if self.encryption is not None and (self.encryption.asks_services or settings.api.encryption_reload):
            self.api.context.key_service_error = self.encryption.service_error
        self.api.context.tracing = self.tracing
        self.api.context.webhook_sender = HttpSender(self.api.context.simulated.reason)
        if settings.nodes.answers:
            from bayplan.kubelet.simulator.answers import PodAnswers

            self.api.context.pod_answers = PodAnswers(settings.nodes.answers, self.clock)
        self.api.context.authenticator.anonymous = settings.anonymous
        self.authentication = self._authentication_of(settings.api)
        self.authorization = self._authorization_of(settings.api)
        self._image_policy = self._image_policy_of(settings.api)
        self._http: HttpServer | None = None
        self._components: Components | None = None
        self._is_up = False
        """Whether `start` has returned."""
        self._crashed: asyncio.Future[None] | None = None

    def _tracing_of(self, settings: ApiServerSettings) -> OpenTelemetryTracing | None:
        """What traces requests; None if nothing does. Raises ClusterError."""
        if not settings.tracing_config_file:
            return None
        from bayplan.cluster.api_server.tracing import open_tracing  # needs OpenTelemetry

        return open_tracing(Path(settings.tracing_config_file), lease_name(socket.gethostname()))

    def _encryption_of(self, settings: ApiServerSettings) -> Encryption | None:
        """What is encrypted in the store; None if nothing is. Raises ClusterError."""
        if not settings.encryption_provider_config:
            return None
        from bayplan.cluster.api_server.encryption import Encryption  # few clusters have it

        server_id = lease_name(socket.gethostname())
        return Encryption(Path(settings.encryption_provider_config), self.clock, self.metrics, server_id)

    def _authentication_of(self, settings: ApiServerSettings) -> Authentication | None:
        """Who knows users besides the cluster; None if nobody does. Raises ClusterError."""
        given = settings.authentication
        if not (given.config_file or given.issuer or given.webhook_config_file):
            return None
        from bayplan.cluster.api_server.authentication import Authentication  # few clusters have it

        return Authentication(given, self.api, lease_name(socket.gethostname()))

    def _authorization_of(self, settings: ApiServerSettings) -> Authorization | None:
        """The authorizers that need files; None if there are none. Raises ClusterError."""
        if not (settings.authorization.config_file or {"ABAC", "Webhook"} & set(settings.authorization_modes)):
            return None
        from bayplan.cluster.api_server.authorization import Authorization  # few clusters have them

        return Authorization(settings, self.api, lease_name(socket.gethostname()))

    def _image_policy_of(self, settings: ApiServerSettings) -> ImagePolicyWebhook | None:
        """What asks a webhook about images; None if nothing does. Raises ClusterError."""
        if "ImagePolicyWebhook" not in settings.enable_admission_plugins:
            return None
        from bayplan.cluster.api_server.image_policy import connect_image_policy  # few clusters have it

        try:
            return connect_image_policy(self.api.context)
        except ValueError as error:
            raise ClusterError(f"the kubeconfig of ImagePolicyWebhook: {error}") from error

    @property
    def server_url(self) -> str:
        """Base URL of the API."""
        return url_of(self.settings.bind_address, self.port)

    def kubeconfig(self) -> str:
        """A kubeconfig for the administrator."""
        return render(self.server_url, self.credentials.authority.certificate, self.credentials.admin_token)

    def sign_client(self, user: str, groups: tuple[str, ...]) -> KeyPair:
        """A new certificate with which a client is this user."""
        return sign(self.credentials.authority, self.clock.now(), user, organizations=groups)

    def client(self, user: str = ADMIN_USER, groups: tuple[str, ...] = (ADMIN_GROUP,)) -> Client:
        """A client in this process, as one user."""
        return Client(InProcessTransport(self._endpoint(user, groups)), self.api.context.kinds.built_in())

    def _endpoint(self, user: str, groups: tuple[str, ...] = (ADMIN_GROUP,)) -> InProcessEndpoint:
        return InProcessEndpoint(self.api, User(user, (*groups, "system:authenticated")))

    async def start(self) -> None:
        """Open the store, serve the API, start the components. Raises ClusterError, StoreError."""
        self._crashed = asyncio.get_running_loop().create_future()
        if self.settings.api.audit is not None:
            from bayplan.cluster.api_server.auditing import open_audit_log  # few clusters have one

            lines = self._member.audit_lines if self._member is not None else None
            self.api.auditor = open_audit_log(self.settings.api.audit, self.api, self.clock, self.randomness, lines)
        await self.api.open()
        try:
            await self._serve()
            await take_in(self.api, self._contents)
            self._contents = ()
            await self._start_components()
            self._is_up = True
        except BaseException:
            await self.stop()
            raise

    async def _start_components(self) -> None:
        settings = self.settings
        plays_nodes = settings.nodes.plays_nodes
        runs = {
            CONTROLLERS: settings.run_controllers,
            SCHEDULER: settings.run_scheduler,
            NODES: plays_nodes,
            DESCHEDULER: settings.descheduler_policy is not None,
        }
        names = [name for name, is_wanted in runs.items() if is_wanted]
        if settings.run_controllers and plays_nodes and self._leads:
            await publish_storage_class(self.client())
        if self._member is not None:
            return
        if self._worker_process is not None:
            self._report(names, self._worker_process.failure)
            await self._worker_process.start(names, self._signing_credentials(), self._endpoint, self.clock)
            self.api.further_metrics = self._worker_process.metrics
            if settings.run_scheduler:
                self.api.what_if = partial(take, self._ask)
            return
        self._components = components = Components(
            settings,
            self.client,
            self._signing_credentials(),
            clock=self.clock,
            randomness=self.randomness,
            metrics=self.metrics,
            restarts=True,
        )
        for name in names:
            components.start(name)
        if settings.run_scheduler:
            self.api.what_if = partial(take, self._ask)
        self._report(names, lambda name: components.failures.get(name, ""))

    async def scheduler_state(self) -> dict[str, Any] | None:
        """The scheduler's queue and latest attempts, as plain data (`scheduler.attempts`); None if there is no scheduler, or it does not answer."""
        if self._worker_process is not None:
            return await self._worker_process.scheduler_state()
        scheduler = self._components.scheduler if self._components is not None else None
        return scheduler.state() if scheduler is not None else None

    async def _ask(self, body: bytes, namespace: str, explain: bool) -> tuple[int, bytes]:
        """The scheduler's response to a question about pods that are not there."""
        if self._worker_process is not None:
            return await self._worker_process.what_if(body, namespace, explain)
        scheduler = self._components.scheduler if self._components is not None else None
        return await respond(scheduler, body, namespace=namespace, explain=explain)

    def _report(self, names: Sequence[str], failure: Callable[[str], str]) -> None:
        """Let health checks tell which components do not run. failure: why a component does not; "" if it does."""
        self.api.context.component_failures = {name: partial(failure, name) for name in names}

    async def _serve(self) -> None:
        settings = self.settings
        authenticator = self.api.context.authenticator
        for identity in (self.authentication, self.authorization):
            if identity is not None:
                identity.start()
        authenticator.add_token(self.credentials.admin_token, ADMIN_USER, (ADMIN_GROUP,))
        for token, user, uid, groups in settings.tokens:
            authenticator.add_token(token, user, groups, uid)
        self._http = HttpServer(
            self.api,
            authenticator,
            self.serving.kubelet_tls,
            self.serving.front_proxy_pair,
            self.serving.certificates,
            settings.request_headers,
        )
        self.api.unfinished.add(AUTHENTICATION)
        try:
            await self._listen(self._http)
        except OSError as error:
            raise listen_error(f"{settings.bind_address}:{settings.port}", error) from error
        await self._publish_address()
        await self._certificates_changed()
        self.api.unfinished.discard(AUTHENTICATION)
        self.api.keep_running("certificates", lambda: self.serving.follow(self._certificates_changed))
        self.api.keep_running("published authentication", self._keep_published)
        if self._token_key_files.are_given:
            self.api.keep_running("keys of tokens", lambda: self._token_key_files.follow(self._token_keys_changed))
        if self.encryption is not None and settings.api.encryption_reload:
            self.api.keep_running("encryption configuration", self.encryption.follow)
        if self.encryption is not None and self.api.context.key_service_error is not None:
            self.api.keep_running("key management services", self.encryption.follow_services)
        if self._leads:
            name = (self._member.identity if self._member is not None else "") or socket.gethostname()
            self.api.keep_running("identity", lambda: keep_identity(self.api.context, name))

    @property
    def _leads(self) -> bool:
        """Whether this process says where the server is, and that it is there."""
        return self._member is None or self._member.leads

    async def _listen(self, http: HttpServer) -> None:
        """Listen on all addresses. Raises OSError."""
        settings = self.settings
        if self._member is not None:
            self.port = settings.port
            self.api.gathered_metrics = self._member.metrics
            http.start_on(self._member.sockets, self._member.share, self.serving.tls)
            if self._member.own_address:
                await http.listen_also(self._member.own_address, self.port)
            return
        self.port = await http.start(settings.bind_address, settings.port, self.serving.tls)
        for further in settings.further_addresses:
            await http.listen_also(further, self.port)

    async def _publish_address(self) -> None:
        """Let the `kubernetes` service lead to this server. Raises ApiError."""
        settings = self.settings
        address = settings.further_addresses[0] if settings.further_addresses else settings.bind_address
        address = (self._member.own_address if self._member is not None else "") or address
        family = _ALL_ADDRESSES.get(address)
        address = default_address(family) if family is not None else address.replace("localhost", "127.0.0.1")
        if self._leads:
            await self.api.publish_address(address, self.port)
        else:
            self.api.name_address(address, self.port)

    async def _token_keys_changed(self) -> None:
        self.api.context.service_accounts.keys_changed()

    async def _keep_published(self) -> None:
        """Publish again by what clients are known, whoever changes or deletes it."""
        while True:
            await self.clock.sleep(_PUBLISHED_EVERY)
            await publish_authentication(self.api.context, self.serving.client_authority, self.serving.front_proxy)

    async def _certificates_changed(self) -> None:
        """Let the server use what files say now, and publish it."""
        if self._http is not None:
            serving = self.serving
            self._http.certificates_changed(serving.tls, serving.kubelet_tls, serving.front_proxy_pair)
        await publish_authentication(self.api.context, self.serving.client_authority, self.serving.front_proxy)

    def _signing_credentials(self) -> SigningCredentials:
        from bayplan.controllers.access.certificate_rules import Authority

        authority = self.credentials.authority
        return SigningCredentials(
            root_ca=authority.certificate.decode(),
            token_signer=self._sign,
            authority=Authority(authority.certificate, authority.key),
        )

    async def _sign(self, claims: dict[str, Any]) -> str:
        return self.api.context.service_accounts.issuer.keys.sign(claims)

    def _on_crash(self, name: str, error: BaseException) -> None:
        if self._crashed is not None and not self._crashed.done():
            self._crashed.set_exception(error)

    async def wait(self) -> None:
        """Return never; raises what was raised by something that cannot be started again."""
        assert self._crashed is not None
        await asyncio.shield(self._crashed)  # several may wait, and give up

    async def stop(self) -> None:
        """Be unready for `shutdown_delay_duration`; answer what has come while components end; close the store. What was acknowledged is kept."""
        self.api.stopping = True
        if self._is_up and self.settings.api.shutdown_delay_duration > 0:
            await self.clock.sleep(self.settings.api.shutdown_delay_duration)
        self._is_up = False
        answering = asyncio.create_task(self._http.stop()) if self._http is not None else None
        if self._worker_process is not None:
            await self._worker_process.close()
        if self._components is not None:
            await self._components.close()
        if answering is not None:
            await answering
        for asked in (self.authentication, self.authorization, self._image_policy):
            if asked is not None:
                await asked.close()
        await self.api.close()
        if self.encryption is not None:
            self.encryption.close()
        if self.tracing is not None:
            await self.tracing.close()
