"""Since when the use of legacy tokens is tracked, which are kept in secrets and have no end: a ConfigMap says it. A controller gives up those that nobody uses.

Source of the behaviour: Kubernetes' `pkg/controlplane/controller/legacytokentracking` (KEP-2799).
"""

from __future__ import annotations

from datetime import UTC, datetime

from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.bootstrap.publishing import change, ensure
from bayplan.apiserver.context import Context

NAMESPACE, NAME, SINCE = "kube-system", "kube-apiserver-legacy-service-account-token-tracking", "since"
_FORM = "%Y-%m-%d"


def day_of(seconds: float) -> str:
    """The day of a unix time, such as 2026-01-31."""
    return datetime.fromtimestamp(seconds, UTC).strftime(_FORM)


def _is_day(text: str) -> bool:
    try:
        return bool(datetime.strptime(text, _FORM).replace(tzinfo=UTC))
    except ValueError:
        return False


async def publish_tracking(context: Context) -> None:
    """Say since when use is tracked, unless that is said already. Raises ApiError."""
    since = day_of(context.clock.now())
    found = core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name=NAME, namespace=NAMESPACE), data={SINCE: since})
    if await ensure(context, found, "v1"):
        return

    def corrected(known: core_v1.ConfigMap) -> core_v1.ConfigMap:
        if not _is_day(known.data.get(SINCE, "")):
            known.data = {**known.data, SINCE: since}
        return known

    await change(context, "v1", "ConfigMap", NAMESPACE, NAME, corrected)
