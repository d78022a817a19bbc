"""What refused requests leave to the garbage collector: nothing that holds a body."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Iterator

import pytest

from bayplan.api.errors import ApiError
from bayplan.apiserver.requests import Request
from tests.apiserver.serving import ADMIN, opened

_PODS = "/api/v1/namespaces/default/pods"
_MAPS = "/api/v1/namespaces/default/configmaps"
_REFUSED = [
    ("POST", _PODS, "application/json", b'{"spec":{"containers":[{"name":1}]}}'),
    ("POST", _PODS, "application/json", b'{"metadata":{"name":"a"},"metadata":{"name":"a"},"spec":{}}'),
    ("POST", _PODS, "application/json", b'{"metadata":{"creationTimestamp":"x"}}'),
    ("POST", _PODS, "application/json", b'{"metadata":'),
    ("POST", _PODS, "application/yaml", b"a: [\n"),
    ("POST", _PODS, "application/vnd.kubernetes.protobuf", b"k8s\0\xff"),
    ("POST", _MAPS, "application/json", b'{"metadata":{"name":"A_B"}}'),
    ("PUT", f"{_MAPS}/a", "application/json", b'{"metadata":{"name":"a","resourceVersion":"x"}}'),
    ("PATCH", f"{_MAPS}/there", "application/json-patch+json", b'[{"op":"test","path":"/data/x","value":1}]'),
    ("PATCH", f"{_MAPS}/there", "application/merge-patch+json", b'{"data":{"a":1}}'),
    ("PATCH", f"{_MAPS}/there", "application/strategic-merge-patch+json", b'{"$retainKeys":1}'),
    ("PATCH", f"{_MAPS}/there", "application/apply-patch+yaml", b"data: 1\n"),
    ("POST", "/api/v1/namespaces/none/configmaps", "application/json", b'{"metadata":{"name":"a"}}'),
    ("DELETE", f"{_MAPS}/there", "application/json", b'{"preconditions":{"uid":"x"}}'),
]
_BYTES = 200_000
"""By which bodies are made larger, so that what they leave is found."""


@contextlib.contextmanager
def all_garbage() -> Iterator[None]:
    """Meanwhile, what the collector finds is kept in `gc.garbage`, and only found when it is called."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.collect()


@pytest.mark.parametrize(("method", "path", "content_type", "body"), _REFUSED)
def test_a_refused_request_leaves_no_garbage(method: str, path: str, content_type: str, body: bytes) -> None:
    async def main() -> None:
        async with opened() as api:
            query = {"fieldManager": "test", "fieldValidation": "Strict"}
            there = Request("POST", _MAPS, {}, ADMIN, b'{"metadata":{"name":"there"}}', "application/json")
            assert (await api.handle(there)).code == 201
            refused = body + b" " * _BYTES
            for _ in range(2):  # what is imported and built at the first time
                request = Request(method, path, query, ADMIN, refused, content_type)
                assert (await api.handle(request)).code >= 400
            with all_garbage():
                await api.handle(request)
                gc.collect()
                held = [one for one in gc.garbage if isinstance(one, ApiError) or type(one).__name__ == "frame"]
                assert not held, gc.garbage

    asyncio.run(main())
