"""The use of legacy tokens, which are kept in secrets and have no end: their secrets are labelled with the day on which somebody used them last.

Source of the behaviour: Kubernetes' `pkg/serviceaccount/legacy.go` (KEP-2799).
"""

from __future__ import annotations

import asyncio
import logging

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.apiserver.bootstrap.legacy_tokens import day_of
from bayplan.apiserver.bootstrap.publishing import change
from bayplan.apiserver.context import Context

logger = logging.getLogger(__name__)

LAST_USED = "kubernetes.io/legacy-token-last-used"
_DAY = 86400.0


class LegacyTokenUse:
    """Labels secrets with the day on which their token was used last."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._used: dict[tuple[str, str], str] = {}
        """Namespace and name of secrets that are to be labelled -> uid."""
        self._some = asyncio.Event()

    def note(self, secret: core_v1.Secret) -> None:
        """A token was shown. Costs nothing if that is known for today; clocks of servers may differ by a day."""
        now = self._context.clock.now()
        if secret.metadata.labels.get(LAST_USED) not in (day_of(now), day_of(now + _DAY)):
            self._used[secret.metadata.namespace, secret.metadata.name] = secret.metadata.uid
            self._some.set()

    async def run(self) -> None:
        """Write until cancelled; what cannot be written is logged, and tried again when the token is used again."""
        while True:
            await self._some.wait()
            self._some.clear()
            while self._used:
                (namespace, name), uid = self._used.popitem()
                try:
                    await self._label(namespace, name, uid)
                except ApiError as error:
                    logger.warning("secret %s/%s: the use of its token was not noted: %s", namespace, name, error)

    async def _label(self, namespace: str, name: str, uid: str) -> None:
        day = day_of(self._context.clock.now())

        def labelled(secret: core_v1.Secret) -> core_v1.Secret:
            if secret.metadata.uid == uid:
                secret.metadata.labels = {**secret.metadata.labels, LAST_USED: day}
            return secret

        await change(self._context, "v1", "Secret", namespace, name, labelled)
