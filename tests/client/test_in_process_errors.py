"""Answers of the in-process transport that are no Status, such as that of a path that nobody serves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.client.in_process import InProcessTransport
from bayplan.client.transport import RawWatch


class NotFound:
    """A door behind which there is nothing."""

    async def call(
        self, method: str, path: str, query: Mapping[str, str], body: bytes, content_type: str
    ) -> tuple[int, bytes]:
        return 404, b"404 page not found\n"

    async def watch(self, kind: Kind, path: str, query: Mapping[str, str]) -> tuple[int, bytes, RawWatch | None]:
        return 404, b"", None


def test_a_plain_text_is_the_message_of_the_error() -> None:
    with pytest.raises(ApiError) as refused:
        asyncio.run(InProcessTransport(NotFound()).request("GET", "/apis/nothing", {}))
    assert (refused.value.code, refused.value.message) == (404, "404 page not found\n")
