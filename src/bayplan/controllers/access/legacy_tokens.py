"""Legacy tokens: secrets with tokens that were made for service accounts on their own, and that nobody has used for long, are first marked as invalid and, when
still nobody asks for them, deleted.

Source of the behaviour: Kubernetes' `pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go` (KEP-2799). The API server says since when it
tracks the use of tokens; before a whole period of that has passed, nothing is done.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.client.errors import ClientError
from bayplan.controllers.base import Controller
from bayplan.support.timestamps import parse_rfc3339

logger = logging.getLogger(__name__)

ROUND_SECONDS = 86400.0
"""Between two rounds."""
TRACKING = "kube-apiserver-legacy-service-account-token-tracking"
LAST_USED, INVALID_SINCE = "kubernetes.io/legacy-token-last-used", "kubernetes.io/legacy-token-invalid-since"
_TYPE, _ACCOUNT = "kubernetes.io/service-account-token", "kubernetes.io/service-account.name"


def day(text: str) -> float | None:
    """Unix seconds of the beginning of a day such as 2026-01-31; None if it is none."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def verdict(
    secret: core_v1.Secret, account: core_v1.ServiceAccount | None, tracked: float, period: float, now: float
) -> str:
    """What to do with a secret: `mark` it as invalid, `delete` it, or "" to let it be. `tracked`: since when use is tracked (unix seconds)."""
    if secret.type != _TYPE or account is None or all(one.name != secret.metadata.name for one in account.secrets):
        return ""
    metadata = secret.metadata
    used = day(metadata.labels.get(LAST_USED, ""))
    latest = max(used if used is not None else tracked, _created(secret, now))
    if now < latest + period:
        return ""
    since = metadata.labels.get(INVALID_SINCE)
    if since is None:
        return "mark"
    marked = day(since)
    if marked is None:
        return "mark"
    return "delete" if now >= marked + period else ""


def _created(secret: core_v1.Secret, now: float) -> float:
    text = secret.metadata.creation_timestamp
    return parse_rfc3339(text) if text else now


class LegacyTokenCleaner(Controller):
    """See the module. Works in rounds, without its queue."""

    name = "legacy-serviceaccount-token-cleaner-controller"
    workers = 0

    def setup(self) -> None:
        self.secrets = self.informer(core_v1.Secret)
        self.accounts = self.informer(core_v1.ServiceAccount)
        self.pods = self.informer(core_v1.Pod)

    async def run_background(self) -> None:
        while True:
            await self.clock.sleep(ROUND_SECONDS)
            try:
                await self.clean()
            except (ApiError, ClientError) as error:
                logger.warning("legacy tokens were not cleaned up: %s", error)

    async def clean(self) -> None:
        """One round. Raises ApiError, ClientError."""
        try:
            tracking = await self.client.get(core_v1.ConfigMap, TRACKING, "kube-system")
        except ApiError as error:
            if error.code != 404:
                raise
            return
        now, period = self.clock.now(), self.context.settings.legacy_token_clean_up_period
        tracked = day(tracking.data.get("since", ""))
        if tracked is None or now < tracked + period:
            return
        mounted = {
            (pod.metadata.namespace, volume.secret.secret_name)
            for pod in self.pods.cache
            for volume in pod.spec.volumes
            if volume.secret is not None
        }
        for secret in self.secrets.cache:
            metadata = secret.metadata
            account = self.accounts.cache.get(metadata.namespace, metadata.annotations.get(_ACCOUNT, ""))
            what = verdict(secret, account, tracked, period, now)
            if what and (metadata.namespace, metadata.name) not in mounted:
                await self._do(what, secret, now)

    async def _do(self, what: str, secret: core_v1.Secret, now: float) -> None:
        metadata = secret.metadata
        try:
            if what == "delete":
                await self.client.delete(
                    core_v1.Secret,
                    metadata.name,
                    metadata.namespace,
                    uid=metadata.uid,
                    resource_version=metadata.resource_version,
                )
            else:
                today = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d")
                labels = {INVALID_SINCE: today}
                patch = {"metadata": {"resourceVersion": metadata.resource_version, "labels": labels}}
                await self.client.patch(core_v1.Secret, metadata.name, metadata.namespace, patch)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
