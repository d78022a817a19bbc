"""Requests that make no sense: whatever comes in, no answer says that the server is broken, nothing hangs, and what was there stays.

`BAYPLAN_FUZZ_REQUESTS` sets how many requests are made (20,000 if it is not set).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from typing import Any

import pytest

from bayplan.api import protobuf
from bayplan.api.kinds import DEFAULT_KINDS
from bayplan.apiserver.requests import Request, Response
from bayplan.apiserver.server import ApiServer
from tests.apiserver.serving import ADMIN, opened

REQUESTS = int(os.environ.get("BAYPLAN_FUZZ_REQUESTS", "20000"))
SEEDS = range(4)
METHODS = (
    ("GET",) * 6 + ("POST",) * 12 + ("PUT",) * 8 + ("PATCH",) * 12 + ("DELETE", "DELETE", "HEAD", "OPTIONS", "BREW")
)
PATCHES = ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")
BODY_TYPES = ("application/json", "application/yaml", protobuf.MEDIA_TYPE, "", "text/plain", "a;b=c;;")
ACCEPTS = (
    "",
    "*/*",
    "application/json",
    "application/yaml",
    protobuf.MEDIA_TYPE,
    f"{protobuf.MEDIA_TYPE};stream=watch",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    f"{protobuf.MEDIA_TYPE};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "text/html;q=x,application/json;q=0.1",
    ";;,=;as",
)
KEYS = (
    *("watch", "limit", "continue", "resourceVersion", "resourceVersionMatch", "labelSelector", "fieldSelector"),
    *("sendInitialEvents", "allowWatchBookmarks", "timeoutSeconds", "dryRun", "fieldManager", "fieldValidation"),
    *("force", "gracePeriodSeconds", "propagationPolicy", "orphanDependents", "includeObject", "pretty", "verbose"),
)
VALUES = (
    *("", "true", "false", "1", "0", "-1", "x", "All", "Strict", "Exact", "NotOlderThan", "999999999999999999999"),
    *("a=b", "a in (b,c)", "!a", "a==,", "metadata.name=a", "spec.nodeName!=x", "((", "Foreground", "\x00", "é", "%zz"),
    *("eyJydiI6MSwic3RhcnQiOiJhIn0", "eyJydiI6LTF9", "bnVsbA", "Orphan", "Background", "Object", "None", "٣"),
)
NUMBERS = (0, 1, -1, 2**31, 2**63, 2**64, 10**400, 1.5, 1e308, -0.0)
TEXTS = (
    "",
    "a",
    "x" * 300,
    "\x00",
    "é",
    "/",
    "..",
    "10m",
    "1e999",
    "2026-01-01T00:00:00Z",
    "a.b/c",
    "\ud800",
    "{{",
    "$(A)",
)
USUAL = (
    *("Pod", "ConfigMap", "Secret", "Service", "Deployment", "ReplicaSet", "Job", "Namespace", "Node", "Event"),
    *("StatefulSet", "DaemonSet", "ServiceAccount", "Lease", "PersistentVolumeClaim"),
)
EXPECTED_FAILURES = (500, 501, 503, 504)


class Nonsense:
    """Requests made by chance from pieces that a server looks at."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.kinds = list(DEFAULT_KINDS)
        self.usual = [kind for kind in self.kinds if kind.kind in USUAL]

    def request(self) -> Request:
        chance = self.chance
        method = chance.choice(METHODS)
        path, kind = self.path(method)
        query = {chance.choice(KEYS): chance.choice(VALUES) for _ in range(chance.choice((0, 0, 0, 1, 1, 2, 4)))}
        patch = method == "PATCH" and chance.random() < 0.9
        content_type = (
            f"application/{chance.choice(PATCHES)}"
            if patch
            else chance.choice(BODY_TYPES[: chance.choice((1, 1, 1, 3, 6))])
        )
        body = b"" if method == "GET" and chance.random() < 0.9 else self.body(kind, content_type)
        return Request(
            method, path, query, ADMIN, body, content_type, chance.choice(ACCEPTS[: chance.choice((3, 8, 11))])
        )

    def path(self, method: str) -> tuple[str, Any]:
        chance = self.chance
        kind = chance.choice(self.kinds if chance.random() < 0.5 else self.usual)
        likely = ("",) * 12 if method == "POST" else ("",) * 3 + ("a",) * 12
        name = chance.choice((*likely, "a", "b", "", "x" * 300, "..", "é", "A_B", "default"))
        subresources = ("status", "scale", "log", "binding", "eviction", "token", "nosuch", "proxy/x/y")
        subresource = chance.choice(subresources) if name and chance.random() < 0.3 else ""
        namespace = chance.choice(("default",) * 12 + ("", "nosuch", "é")) if kind.namespaced else ""
        path = kind.path(namespace, name, subresource)
        if chance.random() < 0.05:
            at = chance.randrange(len(path))
            path = path[:at] + chance.choice(("/", "//", "%2f", "\x00", "watch/", "../", "?")) + path[at:]
        if chance.random() < 0.03:
            path = chance.choice(
                (
                    "/",
                    "",
                    "/apis",
                    "/api",
                    "/openapi/v2",
                    "/openapi/v3",
                    "/metrics",
                    "/version/x",
                    "/livez/ping",
                    "//",
                    "/apis//v1",
                )
            )
        return path, kind

    def tree(self, depth: int = 0) -> Any:
        """Any JSON."""
        chance = self.chance
        if depth > 3 or chance.random() < 0.4:
            return chance.choice((None, True, False, *NUMBERS, *TEXTS, [], {}))
        if chance.random() < 0.3:
            return [self.tree(depth + 1) for _ in range(chance.randrange(3))]
        return {
            chance.choice((*TEXTS, "name", "metadata", "spec")): self.tree(depth + 1)
            for _ in range(chance.randrange(4))
        }

    def object(self, kind: Any) -> dict[str, Any]:
        """Something that looks like an object of a kind, with a piece that does not."""
        chance = self.chance
        pod = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
        found: dict[str, Any] = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": "a", "labels": {"a": "b"}, "annotations": {}},
            "spec": {
                **pod,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod},
            },
        }
        if kind.kind == "Pod":
            found["spec"] = pod
        elif kind.kind.endswith(("Set", "Deployment", "Job")):
            del found["spec"]["containers"]
            if kind.kind == "Job":
                found["spec"] = {"template": {"spec": {**pod, "restartPolicy": "Never"}}}
        elif kind.kind == "Service":
            found["spec"] = {"ports": [{"port": 80}], "selector": {"a": "b"}}
        else:
            del found["spec"]
        for _ in range(chance.choice((0, 0, 1, 1, 2))):
            self.spoil(found)
        return found

    def spoil(self, value: Any) -> None:
        """Put something else somewhere."""
        chance = self.chance
        while isinstance(value, dict | list) and value:
            key = chance.choice(list(value)) if isinstance(value, dict) else chance.randrange(len(value))
            if chance.random() < 0.35 or not isinstance(value[key], dict | list):
                value[key] = self.tree(2)
                if isinstance(value, dict) and chance.random() < 0.3:
                    value[chance.choice(TEXTS)] = self.tree(2)
                return
            value = value[key]

    def body(self, kind: Any, content_type: str) -> bytes:
        chance = self.chance
        if "json-patch" in content_type:
            operations: Any = [
                {
                    "op": chance.choice(("add", "remove", "replace", "test", "move", "copy", "x")),
                    "path": chance.choice(
                        (
                            "/metadata/labels/a",
                            "",
                            "/",
                            "/a~2",
                            "/metadata/name",
                            "/spec/-1",
                            "/-",
                            "x",
                            "/spec/containers/0",
                        )
                    ),
                    "from": chance.choice(("/metadata", "/metadata/labels", "", "/nosuch")),
                    "value": self.tree(2),
                }
                for _ in range(chance.randrange(4))
            ]
            tree: Any = operations if chance.random() < 0.9 else self.tree()
        else:
            tree = self.object(kind) if chance.random() < 0.8 else self.tree()
        data = json.dumps(tree).encode()
        if content_type == protobuf.MEDIA_TYPE:
            data = protobuf.envelope(kind.api_version, kind.kind, self.message())
        if chance.random() < 0.08:
            data = self.damaged(data)
        return data

    def message(self) -> bytes:
        """Fields by chance, some of them nested."""
        chance = self.chance
        data = b""
        for _ in range(chance.randrange(5)):
            inner = chance.choice((b"a", b"", b"\x0a\x01a", chance.randbytes(6), b"\xff" * 4))
            head = bytes([chance.randrange(1, 16) << 3 | 2, len(inner)])
            data += head + inner
        return b"\x0a" + bytes([len(data) % 128]) + data if chance.random() < 0.5 else data

    def damaged(self, data: bytes) -> bytes:
        chance = self.chance
        at = chance.randrange(len(data) + 1)
        return chance.choice(
            (
                data[:at],
                data[:at] + chance.randbytes(3) + data[at:],
                b"",
                b"[" * 3000,
                b'{"a":' * 3000,
                b"null",
                b"\xff\xfe",
                b"&a [*a]",
                b"a: &a {b: *a}",
            )
        )


def describe(request: Request, response: Response) -> str:
    """A request and its answer, for people."""
    asked = f"{request.method} {request.path!r} {request.query} {request.content_type!r} {request.accept!r}"
    return f"{response.code} {response.body[:300]!r}\n  for {asked}\n  {request.body[:500]!r}"


def is_fault(request: Request, response: Response) -> bool:
    """Whether an answer says that the server itself failed. Kubernetes answers some nonsense with 500, too, but says what is wrong with it."""
    if response.code < 500:
        return False
    return response.code not in EXPECTED_FAILURES or b"Error:" in response.body


async def play(api: ApiServer, seed: int, count: int) -> list[str]:
    nonsense = Nonsense(seed)
    faults = []
    codes: Counter[int] = Counter()
    for _ in range(count):
        request = nonsense.request()
        response = await asyncio.wait_for(api.handle(request), 5)
        codes[response.code] += 1
        assert isinstance(response.whole_body(), bytes)
        if response.watcher is not None:
            watcher = response.watcher
            watcher.close()
            for event in await watcher.next_batch():
                watcher.line(*event)
        if is_fault(request, response):
            faults.append(describe(request, response))
    assert min(codes[code] for code in (200, 201, 400, 404, 405, 406, 409, 415, 422)) > 0, codes  # else it is no test
    return faults


@pytest.mark.parametrize("seed", SEEDS)
def test_nonsense_is_refused_and_nothing_breaks(seed: int) -> None:
    async def run() -> None:
        async with opened() as api:
            kept = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "kept", "namespace": "kube-public"},
                "data": {"a": "b"},
            }
            path = "/api/v1/namespaces/kube-public/configmaps"
            made = await api.handle(Request("POST", path, {}, ADMIN, json.dumps(kept).encode(), "application/json"))
            assert made.code == 201
            faults = await play(api, seed, REQUESTS // len(SEEDS))
            assert not faults, f"{len(faults)} faults\n" + "\n".join(faults[:10])
            found = await api.handle(Request("GET", f"{path}/kept", {}, ADMIN))
            if found.code == 200:
                assert json.loads(found.body)["data"] == {"a": "b"}
            else:
                gone = await api.handle(Request("GET", "/api/v1/namespaces/kube-public", {}, ADMIN))
                assert b"Terminating" in gone.body or gone.code == 404

    asyncio.run(run())
