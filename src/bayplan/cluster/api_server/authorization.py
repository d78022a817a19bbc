"""Puts authorizers together that need files: a configuration that is read again when it changes, policies, webhooks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bayplan.apiserver.authorization.abac import AbacAuthorizer, PolicyError, parse_policies
from bayplan.apiserver.authorization.chain import Named, built_in_authorizer
from bayplan.apiserver.authorization.configuration import (
    DENY,
    WEBHOOK,
    AuthorizationConfiguration,
    WebhookConfiguration,
    read_authorization_configuration,
)
from bayplan.apiserver.authorization.interface import Authorizer
from bayplan.apiserver.authorization.match_conditions import compiled
from bayplan.apiserver.authorization.webhook import WebhookAuthorizer, WebhookSettings
from bayplan.apiserver.configuration.files import ConfigurationError
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.apiserver.webhooks.posting import ReviewWebhook
from bayplan.cluster.api_server.followed_files import FollowedFiles, ReloadMetrics
from bayplan.cluster.api_server.review_posting import KubeconfigReviewPoster
from bayplan.cluster.errors import ClusterError
from bayplan.support.tasks import Supervisor

logger = logging.getLogger(__name__)

_DEFAULT_NAME: Final = "default"
"""Of the webhook that flags describe."""
_SECONDS: Final = 30.0
"""That the webhook of flags may take."""
_RETIRED_AFTER: Final = 60.0
"""Seconds in which calls to former webhooks end."""
_METRICS: Final = "apiserver_authorization_config_controller"


class Authorization:
    """What is in force of the settings."""

    def __init__(self, settings: ApiServerSettings, api: ApiServer, server_id: str) -> None:
        """server_id: names the API server in metrics. Raises ClusterError for files that cannot be used."""
        self._settings = settings.authorization
        self._modes = settings.authorization_modes
        self._context = context = api.context
        self._tasks = Supervisor("authorization", clock=context.clock)
        self._lasting: dict[str, Authorizer] = {}
        """Authorizers that stay when the file changes, by type."""
        self._webhooks: list[WebhookAuthorizer] = []
        self._file: FollowedFiles[bytes] | None = None
        try:
            self._begin(server_id)
        except (OSError, ValueError) as error:
            where = f"{self._settings.config_file}: " if self._settings.config_file else ""
            raise ClusterError(f"{where}{error}") from error

    def _begin(self, server_id: str) -> None:
        """Raises OSError, ValueError."""
        context, settings = self._context, self._settings
        if not settings.config_file:
            self._use([(mode, mode.lower(), None) for mode in self._modes])
            return
        metrics = ReloadMetrics(context.metrics, _METRICS, server_id, context.clock.now)
        path = Path(settings.config_file)
        self._file = FollowedFiles(str(path), path.read_bytes, self._changed, context.clock, record=metrics.record)
        data = self._file.begin()
        metrics.in_force(data)
        configuration = read_authorization_configuration(data)
        self._wanted = {one.type for one in configuration.authorizers if one.type != WEBHOOK}
        self._use_configuration(configuration)

    def _use_configuration(self, configuration: AuthorizationConfiguration) -> None:
        """Raises ValueError."""
        self._use([(one.type, one.name, one.webhook) for one in configuration.authorizers])

    def _use(self, wanted: Sequence[tuple[str, str, WebhookConfiguration | None]]) -> None:
        """Let the server ask these, which have types and names. Raises OSError, ValueError."""
        webhooks: list[WebhookAuthorizer] = []
        named = []
        for kind, name, webhook in wanted:
            if kind == WEBHOOK:
                made = self._webhook_of_file(name, webhook) if webhook is not None else self._webhook_of_flags()
                webhooks.append(made)
                named.append(Named(kind, name if webhook is not None else _DEFAULT_NAME, made))
            else:
                named.append(Named(kind, name, self._lasting_authorizer(kind)))
        former, self._webhooks = self._webhooks, webhooks
        self._context.authorizer.use(named)
        if former:
            self._tasks.spawn("former webhooks", self._retire(former))

    def _lasting_authorizer(self, kind: str) -> Authorizer:
        """Raises OSError, PolicyError."""
        if kind not in self._lasting:
            context = self._context
            if kind == "ABAC":
                self._lasting[kind] = self._policies()
            else:
                rbac = context.authorizer.rbac
                self._lasting[kind] = built_in_authorizer(kind, rbac, context.objects, context.kinds)
        return self._lasting[kind]

    def _policies(self) -> AbacAuthorizer:
        """Raises OSError, PolicyError."""
        path = self._settings.policy_file
        if not path:
            raise PolicyError("authorization-mode ABAC's authorization policy file not passed")
        try:
            text = Path(path).read_text()
        except UnicodeDecodeError as error:
            raise PolicyError(f"error reading policy file {path}: {error}") from error
        return AbacAuthorizer(parse_policies(text, path))

    def _webhook_of_flags(self) -> WebhookAuthorizer:
        """Raises ValueError."""
        given = self._settings
        settings = WebhookSettings(
            _DEFAULT_NAME,
            given.webhook_version,
            given.webhook_authorized_seconds,
            given.webhook_unauthorized_seconds,
            denies_on_failure=False,
        )
        return self._webhook(settings, given.webhook_config_file, _SECONDS)

    def _webhook_of_file(self, name: str, given: WebhookConfiguration) -> WebhookAuthorizer:
        """Raises ValueError."""
        settings = WebhookSettings(
            name,
            given.subject_access_review_version,
            given.authorized_seconds,
            given.unauthorized_seconds,
            denies_on_failure=given.failure_policy == DENY,
            conditions=[compiled(one.expression) for one in given.match_conditions],
        )
        return self._webhook(settings, given.connection_info.kube_config_file or "", given.timeout)

    def _webhook(self, settings: WebhookSettings, kubeconfig: str, seconds: float) -> WebhookAuthorizer:
        """Raises ValueError."""
        context = self._context
        poster = KubeconfigReviewPoster(Path(kubeconfig))
        webhook = ReviewWebhook(poster, context.clock, context.randomness, seconds=seconds)
        return WebhookAuthorizer(settings, webhook, context.clock, context.authorizer.metrics)

    def start(self) -> None:
        """Begin to follow the file. To be called on the event loop."""
        if self._file is not None:
            self._tasks.keep_running("file", self._file.follow)

    async def close(self) -> None:
        """Let go of webhooks."""
        await self._tasks.close()
        for one in self._webhooks:
            await one.close()

    async def reload(self) -> bool:
        """Look at the file; whether that brought another configuration into force."""
        return self._file is not None and await self._file.look()

    async def _changed(self, data: bytes) -> None:
        """Bring another file into force. Raises ConfigurationError."""
        configuration = read_authorization_configuration(data, self._wanted)
        for kind in ("Node", "ABAC", "RBAC"):
            if kind not in self._wanted and any(one.type == kind for one in configuration.authorizers):
                raise ConfigurationError(
                    f"authorizer type {kind} is not allowed if it was not enabled at initial server startup"
                )
        try:
            self._use_configuration(configuration)
        except (OSError, ValueError) as error:
            raise ConfigurationError(str(error)) from error

    async def _retire(self, former: Sequence[WebhookAuthorizer]) -> None:
        try:
            await self._context.clock.sleep(_RETIRED_AFTER)
        finally:  # also when the server ends
            for one in former:
                await one.close()
