"""Puts authentication beyond a cluster's own tokens together: issuers of tokens, a webhook, anonymous requests. Their file is read again when it changes."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bayplan.api.errors import FieldError, forbidden
from bayplan.apiserver.authentication.configuration import (
    AuthenticationConfiguration,
    read_authentication_configuration,
)
from bayplan.apiserver.authentication.oidc.issuer import JwtIssuer, JwtIssuers
from bayplan.apiserver.authentication.oidc.metrics import IssuerMetrics
from bayplan.apiserver.authentication.oidc.tokens import ALGORITHMS
from bayplan.apiserver.authentication.oidc.validation import validated
from bayplan.apiserver.authentication.settings import AuthenticationSettings
from bayplan.apiserver.authentication.token_cache import CacheMetrics, TokenCache
from bayplan.apiserver.authentication.token_webhook import TokenWebhook, as_source
from bayplan.apiserver.authorization.rbac import aggregate
from bayplan.apiserver.configuration.files import ConfigurationError
from bayplan.apiserver.issuer_http import HttpFetch
from bayplan.apiserver.requests import User
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.webhooks.posting import ReviewWebhook
from bayplan.cluster.api_server.followed_files import FollowedFiles, ReloadMetrics
from bayplan.cluster.api_server.review_posting import KubeconfigReviewPoster
from bayplan.cluster.errors import ClusterError
from bayplan.support.tasks import Supervisor

logger = logging.getLogger(__name__)

_SUCCESS_SECONDS, _FAILURE_SECONDS = 10.0, 0.0
"""How long is kept what all sources say, as in kube-apiserver."""
_HEALTHY_WITHIN: Final = 60.0
"""Seconds for the issuers of a changed file to be reached; else the former file stays."""
_RETIRED_AFTER: Final = 60.0
"""Seconds in which calls to former issuers end."""
_METRICS: Final = "apiserver_authentication_config_controller"


class Authentication:
    """What is in force of the settings."""

    def __init__(self, settings: AuthenticationSettings, api: ApiServer, server_id: str) -> None:
        """server_id: names the API server in metrics. Raises ClusterError for files that cannot be used."""
        self._settings = settings
        self._context = context = api.context
        self._clock = context.clock
        self._tasks = Supervisor("authentication", clock=self._clock)
        self._issuer_metrics = IssuerMetrics(context.metrics, server_id, self._clock.now)
        self._file: FollowedFiles[bytes] | None = None
        try:
            configuration = self._first_configuration(server_id)
            self._issuers = self._issuers_of(configuration)
            self._webhook = self._webhook_of()
        except (OSError, ssl.SSLError, ValueError) as error:
            raise ClusterError(str(error)) from error
        self._anonymous = configuration.anonymous
        authenticator = context.authenticator
        if configuration.jwt or self._file is not None:
            authenticator.slow_sources.append(self._token_of_issuers)
        cache_metrics = CacheMetrics(context.metrics)
        if self._webhook is not None:
            seconds = settings.webhook_cache_seconds
            kept = TokenCache(
                self._webhook.find,
                self._clock,
                cache_metrics,
                success_seconds=seconds,
                failure_seconds=seconds,
                keeps_errors=False,
            )
            authenticator.slow_sources.append(as_source(kept.find))
        authenticator.cache = self._cache = TokenCache(
            authenticator.ask,
            self._clock,
            cache_metrics,
            success_seconds=_SUCCESS_SECONDS,
            failure_seconds=_FAILURE_SECONDS,
        )
        if self._anonymous is not None:
            authenticator.anonymous = self._anonymous.enabled
            paths = frozenset(one.path for one in self._anonymous.conditions)
            authenticator.anonymous_paths = paths or None

    def _first_configuration(self, server_id: str) -> AuthenticationConfiguration:
        """Raises OSError, ValueError."""
        settings = self._settings
        if not settings.config_file:
            return self._checked(AuthenticationConfiguration(jwt=(settings.issuer,) if settings.issuer else ()))
        path = Path(settings.config_file)
        metrics = ReloadMetrics(self._context.metrics, _METRICS, server_id, self._clock.now)
        self._file = FollowedFiles(str(path), path.read_bytes, self._changed, self._clock, record=metrics.record)
        try:
            data = self._file.begin()
            metrics.in_force(data)
            configuration = read_authentication_configuration(data)
        except (OSError, ConfigurationError) as error:
            raise ValueError(f'failed to load authentication configuration from file "{path}": {error}') from error
        if configuration.anonymous is not None and settings.anonymous_is_given:
            text = "--anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file"
            raise ValueError(str(forbidden("anonymous", text)))
        return self._checked(configuration)

    def _checked(
        self, configuration: AuthenticationConfiguration, more: Sequence[FieldError] = ()
    ) -> AuthenticationConfiguration:
        """Raises ConfigurationError."""
        errors = [*validated(configuration, self._context.service_accounts.issuer.issuers)[1], *more]
        if errors:
            raise ConfigurationError(f"invalid authentication configuration: {aggregate(errors)}")
        return configuration

    def _issuers_of(self, configuration: AuthenticationConfiguration) -> JwtIssuers:
        """Raises ssl.SSLError."""
        settings, clock = self._settings, self._clock
        algorithms = ALGORITHMS if settings.config_file else settings.signing_algorithms
        mappings, _ = validated(configuration, self._context.service_accounts.issuer.issuers)
        found = [
            JwtIssuer(
                one, algorithms, HttpFetch(one.configuration.issuer.certificate_authority), clock, self._issuer_metrics
            )
            for one in mappings
        ]
        return JwtIssuers(found, lambda: self._context.authenticator.audiences, clock)

    def _webhook_of(self) -> TokenWebhook | None:
        """Raises ValueError."""
        settings, context = self._settings, self._context
        if not settings.webhook_config_file:
            return None
        poster = KubeconfigReviewPoster(Path(settings.webhook_config_file))
        webhook = ReviewWebhook(poster, self._clock, context.randomness)
        return TokenWebhook(webhook, settings.webhook_version, lambda: context.authenticator.audiences)

    async def _token_of_issuers(self, token: str, audiences: tuple[str, ...]) -> tuple[User, tuple[str, ...]] | None:
        return await self._issuers(token, audiences)

    def start(self) -> None:
        """Begin to reach the issuers. To be called on the event loop."""
        self._issuers.start()
        if self._file is not None:
            self._tasks.keep_running("file", self._file.follow)

    async def close(self) -> None:
        """Let go of issuers and webhook."""
        await self._tasks.close()
        self._cache.close()
        await self._issuers.close()
        if self._webhook is not None:
            await self._webhook.close()

    async def reload(self) -> bool:
        """Look at the file; whether that brought another configuration into force."""
        return self._file is not None and await self._file.look()

    async def _changed(self, data: bytes) -> None:
        """Bring another file into force. Raises ConfigurationError, TimeoutError."""
        configuration = read_authentication_configuration(data)
        more = []
        if configuration.anonymous != self._anonymous:
            more.append(forbidden("anonymous", "changed from initial configuration file"))
        issuers = self._issuers_of(self._checked(configuration, more))
        issuers.start()
        try:
            await self._reached(issuers)
        except BaseException:
            await issuers.close()
            raise
        former, self._issuers = self._issuers, issuers
        self._cache.clear()
        self._tasks.spawn("former issuers", self._retire(former))

    async def _reached(self, issuers: JwtIssuers) -> None:
        """Wait until all have been reached. Raises TimeoutError."""
        ends = self._clock.monotonic() + _HEALTHY_WITHIN
        while issuers.problem:
            if self._clock.monotonic() >= ends:
                raise TimeoutError(issuers.problem)
            await self._clock.sleep(0.1)

    async def _retire(self, former: JwtIssuers) -> None:
        try:
            await self._clock.sleep(_RETIRED_AFTER)
        finally:  # also when the server ends
            await former.close()
        now = {one.url for one in self._issuers.issuers}
        for one in former.issuers:
            if one.url not in now:
                self._issuer_metrics.forget(one.url)
