"""Bootstrap tokens, with which nodes join: `kube-public/cluster-info` is signed with each of them, and tokens whose time is over go.

Source of the behaviour: Kubernetes' `pkg/controller/bootstrap` and `k8s.io/cluster-bootstrap`. A token is a secret of type `bootstrap.kubernetes.io/token` in
kube-system, called `bootstrap-token-ID`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.controllers.base import Controller
from bayplan.informers.cache import key_of
from bayplan.support.timestamps import parse_rfc3339

TYPE, PREFIX, NAMESPACE = "bootstrap.kubernetes.io/token", "bootstrap-token-", "kube-system"
INFO_NAMESPACE, INFO = "kube-public", "cluster-info"
_KUBECONFIG, _SIGNATURE = "kubeconfig", "jws-kubeconfig-"


def text_in(secret: core_v1.Secret, name: str) -> str:
    """A text in a secret; "" if there is none, or it is no text."""
    try:
        return base64.b64decode(secret.data.get(name, ""), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def is_token(secret: core_v1.Secret) -> bool:
    """Whether a secret is a bootstrap token by type and place."""
    return secret.type == TYPE and secret.metadata.namespace == NAMESPACE


def expires_in(secret: core_v1.Secret, now: float) -> float | None:
    """Seconds until a token expires, not positive if it has (or does not say when in a way that can be read); None if it does not expire."""
    text = text_in(secret, "expiration")
    if not text:
        return None
    try:
        return parse_rfc3339(text) - now
    except ValueError:
        return 0.0


def signing_tokens(secrets: Iterable[core_v1.Secret], now: float) -> dict[str, str]:
    """Id -> secret of the tokens that sign the cluster's information."""
    found = {}
    for secret in secrets:
        identity, key = text_in(secret, "token-id"), text_in(secret, "token-secret")
        left = expires_in(secret, now)
        if (
            is_token(secret)
            and secret.metadata.name == PREFIX + identity
            and key
            and (left is None or left > 0)
            and text_in(secret, "usage-bootstrap-signing") == "true"
        ):
            found[identity] = key
    return found


def detached_signature(content: str, identity: str, key: str) -> str:
    """A JWS (HS256) whose payload is left out: whoever checks it has the content."""
    header = _url_safe(b'{"alg":"HS256","kid":' + msgspec.json.encode(identity) + b"}")
    digest = hmac.new(key.encode(), f"{header}.{_url_safe(content.encode())}".encode(), hashlib.sha256).digest()
    return f"{header}..{_url_safe(digest)}"


def _url_safe(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def with_signatures(data: dict[str, str], tokens: dict[str, str]) -> dict[str, str]:
    """The data of `cluster-info` with a signature by each token and no others. The same object if nothing changes."""
    content = data.get(_KUBECONFIG)
    if content is None:
        return data
    wanted = {name: value for name, value in data.items() if not name.startswith(_SIGNATURE)}
    for identity, key in sorted(tokens.items()):
        wanted[_SIGNATURE + identity] = detached_signature(content, identity, key)
    return data if wanted == data else wanted


class BootstrapSigner(Controller):
    """Keeps the signatures of `cluster-info`."""

    name = "bootstrap-signer-controller"
    workers = 1

    def setup(self) -> None:
        self.secrets = self.informer(core_v1.Secret)
        self.maps = self.informer(core_v1.ConfigMap)
        self.secrets.on_change(add=self._touch, update=lambda old, new: self._touch(new), delete=self._touch)
        self.maps.on_change(add=self._map_seen, update=lambda old, new: self._map_seen(new))

    def _touch(self, secret: core_v1.Secret) -> None:
        if is_token(secret):
            self.queue.add(f"{INFO_NAMESPACE}/{INFO}")

    def _map_seen(self, one: core_v1.ConfigMap) -> None:
        if one.metadata.name == INFO and one.metadata.namespace == INFO_NAMESPACE:
            self.queue.add(key_of(one))

    async def reconcile(self, key: str) -> None:
        found: core_v1.ConfigMap | None = self.maps.cache.by_key(key)
        if found is None:
            return
        data = with_signatures(found.data, signing_tokens(self.secrets.cache, self.clock.now()))
        if data is found.data:
            return
        try:
            await self.client.update(msgspec.structs.replace(found, data=data))
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            self.queue.add_rate_limited(key)


class TokenCleaner(Controller):
    """Deletes tokens when they expire."""

    name = "token-cleaner-controller"
    workers = 1

    def setup(self) -> None:
        self.secrets = self.informer(core_v1.Secret)
        self.secrets.on_change(add=self._touch, update=lambda old, new: self._touch(new))

    def _touch(self, secret: core_v1.Secret) -> None:
        if is_token(secret):
            self.queue.add(key_of(secret))

    async def reconcile(self, key: str) -> None:
        secret: core_v1.Secret | None = self.secrets.cache.by_key(key)
        left = expires_in(secret, self.clock.now()) if secret is not None else None
        if secret is None or left is None:
            return
        if left > 0:
            self.queue.add_after(key, left)
            return
        try:
            await self.client.delete(
                core_v1.Secret, secret.metadata.name, secret.metadata.namespace, uid=secret.metadata.uid
            )
        except ApiError as error:
            if error.code not in (404, 409):
                raise
