"""A person who logs in at an OpenID Connect provider with a browser, as far as the API server's tests need one, and the provider itself."""

from __future__ import annotations

import base64
import contextlib
import html
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import aiohttp
import pytest

from bayplan.apiserver.certificates import KeyPair

HERE = Path(__file__).parent
REDIRECT = "http://localhost:8000"
"""Where a program such as kubelogin would listen for the code."""

needs_provider = pytest.mark.skipif(
    shutil.which("node") is None or not (HERE / "node_modules" / "oidc-provider").exists(),
    reason="the provider is not installed: npm ci --prefix tests/javascript",
)


@dataclass(frozen=True)
class Tokens:
    """What a provider gives to somebody who has logged in."""

    id_token: str
    refresh_token: str


@contextlib.contextmanager
def running_provider(certificate: Path, key: Path) -> Iterator[str]:
    """The provider of oidc_provider.js; yields its URL."""
    command = ["node", "oidc_provider.js", str(certificate), str(key)]
    with subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield next(line.strip() for line in process.stdout if line.startswith("https://"))
        finally:
            process.kill()


async def log_in(session: aiohttp.ClientSession, issuer: str, name: str, client: str = "kubernetes") -> Tokens:
    """Log in with the forms of the provider, agree that the client may have the claims, and exchange the code for tokens.

    The session needs a cookie jar that keeps cookies of addresses (`unsafe`)."""
    asked = {
        "client_id": client,
        "response_type": "code",
        "scope": "openid email groups offline_access",
        "prompt": "consent",
        "redirect_uri": REDIRECT,
    }
    page = await _page(session, "GET", f"{issuer}/auth?{urlencode(asked)}")
    page = await _page(session, "POST", _form(page), prompt="login", login=name, password="secret")
    code = await _page(session, "POST", _form(page), prompt="consent")
    given = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT}
    secret = base64.b64encode(f"{client}:{client}-secret".encode()).decode()
    async with session.post(f"{issuer}/token", data=given, headers={"Authorization": f"Basic {secret}"}) as answer:
        found = await answer.json()
    return Tokens(found["id_token"], found["refresh_token"])


def _form(page: str) -> str:
    found = re.search(r'<form[^>]* action="([^"]+)"', page)
    assert found is not None, page
    return html.unescape(found[1])


async def _page(session: aiohttp.ClientSession, method: str, url: str, **fields: str) -> str:
    """The page that one comes to in the end, or the code that the provider sends to the client."""
    while True:
        async with session.request(method, url, data=fields or None, allow_redirects=False) as answer:
            if answer.status not in (302, 303):
                return await answer.text()
            url, method, fields = urljoin(url, answer.headers["Location"]), "GET", {}
        if url.startswith(REDIRECT):
            return parse_qs(urlsplit(url).query)["code"][0]


def certificate_files(directory: Path, authority: KeyPair, pair: KeyPair) -> tuple[Path, Path, Path]:
    """Authority, certificate and key as files."""
    files = directory / "authority.crt", directory / "provider.crt", directory / "provider.key"
    for file, content in zip(files, (authority.certificate, pair.certificate, pair.key), strict=True):
        file.write_bytes(content)
    return files
