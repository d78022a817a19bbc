"""An OpenID Connect provider for tests: keys that sign tokens, and a server on loopback with discovery and keys."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from bayplan.apiserver.certificates import make_authority, sign

RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def public_key(key: Any, key_id: str) -> dict[str, Any]:
    """A public key as an issuer publishes it."""
    maker: Any = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    return {**maker.to_jwk(key.public_key(), as_dict=True), "kid": key_id, "use": "sig"}


def token(key: Any, claims: dict[str, Any], *, algorithm: str = "RS256", key_id: str = "k1") -> str:
    """A token that states the claims."""
    return jwt.encode(claims, key, algorithm, {"kid": key_id} if key_id else None)


class Provider:
    """A provider with its server. What it publishes may be changed while it runs."""

    def __init__(self) -> None:
        self.keys: list[dict[str, Any]] = [public_key(RSA_KEY, "k1")]
        self.issuer = ""
        """As its pages have it."""
        self.says_issuer: str | None = None
        """What discovery tells instead."""
        self.status = 200
        self.body: bytes | None = None
        """What is answered instead of keys."""
        self.gate: asyncio.Event | None = None
        """Keys are answered once it is set."""
        self.asked: list[str] = []
        """Paths that were asked for."""
        self.authority = ""
        self.groups_token = ""
        """What is answered to whoever asks for groups with the right token."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        if self.status != 200:
            return web.Response(status=self.status, text="not now")
        if request.path == "/.well-known/openid-configuration" or request.path == "/elsewhere":
            issuer = self.issuer if self.says_issuer is None else self.says_issuer
            return web.json_response({"issuer": issuer, "jwks_uri": f"{self.issuer}/keys"})
        if request.path == "/groups":
            assert request.headers["Authorization"] == "Bearer groups-please"
            return web.Response(text=self.groups_token)
        if self.gate is not None:
            await self.gate.wait()
        return web.Response(body=self.body or json.dumps({"keys": self.keys}).encode())

    def token(self, now: float, key: Any = RSA_KEY, algorithm: str = "RS256", key_id: str = "k1", **claims: Any) -> str:
        """A token of this issuer for the audience `me`, good for an hour; claims of None are left out."""
        given = {"iss": self.issuer, "aud": "me", "sub": "jane", "exp": now + 3600, "iat": now, **claims}
        stated = {name: value for name, value in given.items() if value is not None}
        return token(key, stated, algorithm=algorithm, key_id=key_id)


@contextlib.asynccontextmanager
async def running_provider(directory: Path, now: float, name: str = "provider") -> AsyncIterator[Provider]:
    """A provider that answers on loopback over HTTPS."""
    provider = Provider()
    authority = make_authority(now)
    pair = sign(authority, now, "provider", hosts=("127.0.0.1",))
    file = directory / f"{name}.pem"
    file.write_bytes(pair.certificate + pair.key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(file)
    runner = web.ServerRunner(web.Server(provider.answer), shutdown_timeout=0.1)  # type: ignore[arg-type]
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    provider.issuer = f"https://127.0.0.1:{port}"
    provider.authority = authority.certificate.decode()
    try:
        yield provider
    finally:
        await runner.cleanup()
