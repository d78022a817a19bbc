"""Where a request for another server goes, and as whom: the server believes what the front proxy says of the user.

Source: https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/ and kube-aggregator's handler_proxy.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from bayplan.api.errors import ApiError
from bayplan.apiserver.aggregation.registry import ApiService, authority_of
from bayplan.apiserver.context import Context
from bayplan.apiserver.requests import User
from bayplan.apiserver.routing.relays import Purpose, Relay, unavailable
from bayplan.apiserver.routing.service_routes import NoRoute

USER_HEADER: Final = "X-Remote-User"
UID_HEADER: Final = "X-Remote-Uid"
GROUP_HEADER: Final = "X-Remote-Group"
EXTRA_PREFIX: Final = "X-Remote-Extra-"
_EXTRA_SAFE: Final = "!#$&'*+.^_`|~"
"""What a header's name may have besides letters, digits and `-`."""


def relay_to(context: Context, service: ApiService, path: str, user: User) -> Relay:
    """Where a request of a user goes on to. Raises ApiError (503) if nobody is there."""
    reference = service.spec.service
    assert reference is not None
    try:
        route = context.services.route(
            reference.namespace,
            reference.name,
            reference.port or 443,
            uses_cluster_ip=not context.settings.enable_aggregator_routing,
        )
        authority = authority_of(service)
    except (NoRoute, ValueError) as error:
        raise not_available(str(error)) from error
    if reason := context.simulated.reason(route.host):
        raise not_available(reason)
    forward = route.forward
    is_unchecked = service.spec.insecure_skip_tls_verify or (forward is not None and forward.is_local)
    return Relay(
        purpose=Purpose.AGGREGATED,
        scheme=(forward.scheme if forward is not None else "") or "https",
        host=route.host,
        port=str(route.port),
        path=path,
        query="",
        subject=service.metadata.name,
        tls_name="" if is_unchecked else f"{reference.name}.{reference.namespace}.svc",
        tls_authority=authority,
        identity=tuple(identity_headers(user)),
    )


def identity_headers(user: User) -> Iterator[tuple[str, str]]:
    """Who asks, as the front proxy says it."""
    yield USER_HEADER, user.name
    if user.uid:
        yield UID_HEADER, user.uid
    for group in user.groups:
        yield GROUP_HEADER, group
    for name, values in user.extra.items():
        for value in values:
            yield EXTRA_PREFIX + quote(name, safe=_EXTRA_SAFE), value


def is_identity_header(lower: str) -> bool:
    """Whether a header (its name in small letters) says who asks: clients must not say that themselves."""
    return lower.startswith(EXTRA_PREFIX.lower()) or lower in (
        USER_HEADER.lower(),
        UID_HEADER.lower(),
        GROUP_HEADER.lower(),
    )


def not_available(reason: str) -> ApiError:
    """503, with a reason that only the log of Kubernetes would show."""
    return unavailable(f"service unavailable: {reason}" if reason else "service unavailable")
