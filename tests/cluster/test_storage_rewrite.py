"""Rewriting objects goes on where it was interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from bayplan.api.errors import ApiError, failure
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.storage.rewriting import Resource, Rewriting

_SECRETS = Resource("secrets", "v1", "Secret", "secrets", True)


class Server:
    """Answers as an API server with secrets in namespaces whose order as keys is not that as pairs; it fails after some writes."""

    def __init__(self, count: int, page: int = 10) -> None:
        names = [("a-b", f"s-{number:03}") for number in range(count)] + [
            ("a", f"s-{number:03}") for number in range(count)
        ]
        self.names = sorted(names, key="/".join)
        self.written: list[tuple[str, str]] = []
        self.fails_after: int | None = None
        self.expires = 0
        """How many lists are to expire on their second page."""
        self._page = page

    async def raw(self, method: str, path: str, query: Mapping[str, str] | None = None, body: bytes = b"") -> bytes:
        if method == "GET":
            start = int((query or {}).get("continue", 0))
            if start and self.expires:
                self.expires -= 1
                raise failure(410, "Expired", "too old")
            names = self.names[start : start + self._page]
            metadata: dict[str, Any] = {"remainingItemCount": len(self.names) - start - len(names)}
            if start + self._page < len(self.names):
                metadata["continue"] = str(start + self._page)
            items = [{"metadata": {"namespace": one, "name": other, "resourceVersion": "1"}} for one, other in names]
            return msgspec.json.encode({"metadata": metadata, "items": items})
        if self.fails_after is not None and len(self.written) >= self.fails_after:
            raise TransportError("the server has gone")
        sent = msgspec.json.decode(body)
        assert (sent["kind"], sent["apiVersion"]) == ("Secret", "v1")
        name = (sent["metadata"]["namespace"], sent["metadata"]["name"])
        assert path == f"/api/v1/namespaces/{name[0]}/secrets/{name[1]}"
        self.written.append(name)
        if name[1] == "s-003":
            raise ApiError(failure(409, "Conflict", "somebody was faster").status)
        sent["metadata"]["resourceVersion"] = "1" if name[1] == "s-004" else "2"
        return msgspec.json.encode(sent)


def rewriting(server: Server, state: Path | None = None) -> Rewriting:
    return Rewriting(cast("Client", server), state)


def test_it_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    server, state = Server(50), tmp_path / "state"
    server.fails_after = 64
    with pytest.raises(TransportError):
        asyncio.run(rewriting(server, state).rewrite(_SECRETS))
    before = list(server.written)
    server.fails_after = None
    again = rewriting(server, state)
    result = asyncio.run(again.rewrite(_SECRETS))
    assert set(server.written) == set(server.names)
    repeated = len(server.written) - len(server.names)
    assert repeated <= 16 + server._page
    assert len(before) + result.seen == len(server.written)
    assert asyncio.run(rewriting(server, state).rewrite(_SECRETS)).seen == 0
    again.finish()
    assert asyncio.run(rewriting(server, state).rewrite(_SECRETS)).seen == 100


def test_it_tells_what_became_of_each_object_and_how_far_it_is() -> None:
    server = Server(5)
    steps: list[tuple[int, int]] = []
    result = asyncio.run(rewriting(server).rewrite(_SECRETS, lambda done, of: steps.append((done, of))))
    assert (result.written, result.current, result.changed, result.failures) == (6, 2, 2, [])
    assert steps[-1] == (10, 10)


def test_a_list_that_expires_is_begun_again_behind_what_is_done() -> None:
    server = Server(20)
    server.expires = 2
    result = asyncio.run(rewriting(server).rewrite(_SECRETS))
    assert result.seen == len(server.written) == 40


def test_a_state_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no")
    with pytest.raises(ClusterError, match="not the state"):
        rewriting(Server(1), tmp_path / "state")
