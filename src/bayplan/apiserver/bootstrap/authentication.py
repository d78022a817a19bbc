"""Publishing by what clients are known: extension API servers read from a ConfigMap who vouches for clients, and which front proxy may say who asks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.authentication.request_headers import RequestHeaders
from bayplan.apiserver.bootstrap.publishing import change, ensure
from bayplan.apiserver.context import Context

NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"
CLIENT_CA: Final = "client-ca-file"
_FRONT_PROXY_CA: Final = "requestheader-client-ca-file"
_SLACK_SECONDS: Final = 300.0
"""For which a certificate that has expired is still published."""


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """Who may say in headers who asks: certificates of an authority (PEM), with one of these names; any name if there are none."""

    authority: str
    names: tuple[str, ...]
    headers: RequestHeaders = field(default_factory=RequestHeaders)


async def publish_authentication(context: Context, client_ca: str, front_proxy: FrontProxy) -> None:
    """Create or complete it: what other servers of the cluster have published stays, as do other keys. Raises ApiError."""
    headers = front_proxy.headers
    authorities = {CLIENT_CA: client_ca, _FRONT_PROXY_CA: front_proxy.authority}
    lists = {
        "requestheader-allowed-names": front_proxy.names,
        "requestheader-username-headers": headers.usernames,
        "requestheader-uid-headers": headers.uids,
        "requestheader-group-headers": headers.groups,
        "requestheader-extra-headers-prefix": headers.extra_prefixes,
    }
    now = context.clock.now()

    def completed(found: dict[str, str]) -> dict[str, str]:
        data = dict(found)
        for key, pem in authorities.items():
            data[key] = _joined_certificates(found.get(key, ""), pem, now)
        for key, values in lists.items():
            known = _list_in(found.get(key, ""))
            if known or values or key == "requestheader-allowed-names":
                data[key] = msgspec.json.encode(list(dict.fromkeys((*known, *values)))).decode()
        return data

    metadata = meta_v1.ObjectMeta(name=NAME, namespace=NAMESPACE)
    if not await ensure(context, core_v1.ConfigMap(metadata=metadata, data=completed({})), "v1"):
        await change(
            context, "v1", "ConfigMap", NAMESPACE, NAME, lambda found: _corrected(found, completed(found.data))
        )


def _list_in(text: str) -> list[str]:
    """A published list; none if somebody has written something else."""
    try:
        return msgspec.json.decode(text, type=list[str]) if text else []
    except msgspec.DecodeError:
        return []


def _joined_certificates(published: str, own: str, now: float) -> str:
    """Certificates (PEM) of two bundles, each once, without those that have expired. What is published and cannot be read goes."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    found: dict[str, None] = {}
    for bundle in (published, own):
        try:
            certificates = x509.load_pem_x509_certificates(bundle.encode())
        except ValueError:
            continue
        for one in certificates:
            if one.not_valid_after_utc.timestamp() > now - _SLACK_SECONDS:
                found[one.public_bytes(Encoding.PEM).decode()] = None
    return "".join(found)


def _corrected(found: Any, data: dict[str, str]) -> Any:
    found.data = data
    return found
