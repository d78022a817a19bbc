"""Tokens in secrets: a secret of type `kubernetes.io/service-account-token` gets a token of the account that it names, and goes with the account.

Such tokens have no end; new clients ask for tokens that have one. Source: Kubernetes' `pkg/controller/serviceaccount/tokens_controller.go`.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.controllers.base import Controller, ControllerContext
from bayplan.informers.cache import key_of

TYPE = "kubernetes.io/service-account-token"
ACCOUNT_NAME, ACCOUNT_UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
_CLAIM = "kubernetes.io/serviceaccount/"
TokenSigner = Callable[[dict[str, Any]], Awaitable[str]]
"""From claims to a signed token."""


class ServiceAccountTokensController(Controller):
    """Fills secrets with tokens and deletes those whose account is gone."""

    name = "serviceaccount-token-controller"
    workers = 4

    def __init__(self, context: ControllerContext, root_ca: str, sign: TokenSigner) -> None:
        self.root_ca = root_ca
        self.sign = sign
        super().__init__(context)

    def setup(self) -> None:
        self.secrets = self.informer(core_v1.Secret)
        self.accounts = self.informer(core_v1.ServiceAccount)
        self.secrets.on_change(add=self._touch, update=lambda old, new: self._touch(new))
        self.accounts.on_change(delete=self._touch_secrets)

    def _touch(self, secret: core_v1.Secret) -> None:
        if secret.type == TYPE:
            self.queue.add(key_of(secret))

    def _touch_secrets(self, account: core_v1.ServiceAccount) -> None:
        for secret in self.secrets.cache:
            if secret.metadata.namespace == account.metadata.namespace:
                self._touch(secret)

    async def reconcile(self, key: str) -> None:
        secret = self.secrets.cache.by_key(key)
        if secret is None or secret.type != TYPE or secret.metadata.deletion_timestamp:
            return
        metadata = secret.metadata
        account = await self._account(metadata.namespace, metadata.annotations.get(ACCOUNT_NAME, ""))
        try:
            if account is None or metadata.annotations.get(ACCOUNT_UID, account.metadata.uid) != account.metadata.uid:
                await self.client.delete(core_v1.Secret, metadata.name, metadata.namespace, uid=metadata.uid)
                return
            token = "" if secret.data.get("token") else await self.sign(claims_of(secret, account))
            wanted = filled(secret, account, self.root_ca, token)
            if wanted != secret:
                await self.client.update(wanted)
        except ApiError as error:
            if error.code != 404:
                raise

    async def _account(self, namespace: str, name: str) -> core_v1.ServiceAccount | None:
        """The account as the server (not the cache) has it: a secret must not go because its account is very new."""
        try:
            return await self.client.get(core_v1.ServiceAccount, name, namespace) if name else None
        except ApiError as error:
            if error.code != 404:
                raise
            return None


def claims_of(secret: core_v1.Secret, account: core_v1.ServiceAccount) -> dict[str, Any]:
    """What the token of a secret says."""
    namespace, name = secret.metadata.namespace, account.metadata.name
    return {
        "iss": "kubernetes/serviceaccount",
        f"{_CLAIM}namespace": namespace,
        f"{_CLAIM}secret.name": secret.metadata.name,
        f"{_CLAIM}service-account.name": name,
        f"{_CLAIM}service-account.uid": account.metadata.uid,
        "sub": f"system:serviceaccount:{namespace}:{name}",
    }


def filled(secret: core_v1.Secret, account: core_v1.ServiceAccount, root_ca: str, token: str) -> core_v1.Secret:
    """The secret with what it lacks: authority, namespace, token (if it has none) and the account's uid. The same secret if it lacks nothing."""
    metadata, data = secret.metadata, dict(secret.data)
    data["ca.crt"] = _encoded(root_ca)
    data.setdefault("namespace", _encoded(metadata.namespace))
    if not data.get("token"):
        data["token"] = _encoded(token)
    annotations = {**metadata.annotations, ACCOUNT_UID: account.metadata.uid}
    if data == secret.data and annotations == metadata.annotations:
        return secret
    return replace(secret, metadata=replace(metadata, annotations=annotations), data=data)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
