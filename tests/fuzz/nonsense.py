"""Requests made by chance from pieces that a server looks at: routes, queries, bodies of every kind and encoding, patches, credentials."""

from __future__ import annotations

import base64
import functools
import json
import random
from typing import Any

import msgspec

from bayplan.api import protobuf
from bayplan.api.kinds import DEFAULT_KINDS, Kind
from bayplan.apiserver.requests import Request
from tests.apiserver.serving import ADMIN

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


BOMBS = (
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"metadata":{"name":"a"},"spec":' + b"[" * 9_000 + b"]" * 9_000 + b"}",
    b"a: &a [x,x,x,x,x,x,x,x,x]\n"
    + b"".join(b"%c: &%c [%b]\n" % (98 + n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9)) for n in range(12)),
    b"- " * 50_000,
    b"? " * 20_000,
    b'{"spec":{"replicas":' + b"9" * 5_000 + b"}}",
    b'{"metadata":{"name":"a","creationTimestamp":"9999-12-31T23:59:59.999999Z","deletionGracePeriodSeconds":9223372036854775807}}',
    json.dumps(
        [
            {"op": "add", "path": "/data/a", "value": "x" * 1000},
            *[{"op": "copy", "from": "/data", "path": f"/data/{n}"} for n in range(21)],
        ]
    ).encode(),
    json.dumps([{"op": "test", "path": "", "value": {}}] * 10_001).encode(),
    json.dumps(
        {
            "metadata": {
                "name": "a",
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": f"{n}"} for n in range(20_000)
                ],
            }
        }
    ).encode(),
    json.dumps({"metadata": {"name": "a", "finalizers": [f"a.b/{n}" for n in range(20_000)]}}).encode(),
    json.dumps({"metadata": {"name": "a", "labels": {f"a{n}": "b" for n in range(20_000)}}}).encode(),
)
"""Bodies that cost more than others, if nobody bounds them."""
TOKENS = (
    "",
    "x",
    "." * 1000,
    "a.b.c",
    "eyJhbGciOiJub25lIn0.eyJzdWIiOiJzeXN0ZW06YWRtaW4ifQ.",
    base64.urlsafe_b64encode(b"[" * 5000).decode() + ".e30.x",
    "eyJhbGciOiJSUzI1NiJ9." + base64.urlsafe_b64encode(b'{"exp":' + b"9" * 5000 + b"}").decode() + ".AAAA",
    "abcdef.0123456789abcdef",
    "é",
)


@functools.cache
def _fields(cls: type[msgspec.Struct]) -> list[tuple[str, msgspec.inspect.Type]]:
    """The fields of a type with what they may hold."""
    return [(one.encode_name, msgspec.inspect.type_info(one.type)) for one in msgspec.structs.fields(cls)]


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

    def typed(self, kind: Kind) -> Any:
        """An object with fields of its type that were chosen by chance, most of them with values that fit; None for kinds without a type."""
        if kind.type is None:
            return None
        found = self._struct(kind.type, 0)
        found |= {"apiVersion": kind.api_version, "kind": kind.kind}
        metadata = found.get("metadata")
        if metadata is None or isinstance(metadata, dict):
            found["metadata"] = {"name": self.chance.choice(("a", "b", "default")), **(metadata or {})}
        return found

    def _struct(self, cls: type[msgspec.Struct], depth: int) -> dict[str, Any]:
        share = (0.5, 0.4, 0.25, 0.15, 0.08)[min(depth, 4)]
        return {name: self._value(info, depth + 1) for name, info in _fields(cls) if self.chance.random() < share}

    def _value(self, info: Any, depth: int) -> Any:
        chance, types = self.chance, msgspec.inspect
        if chance.random() < 0.02:
            return self.tree(2)
        if isinstance(info, types.UnionType):
            return self._value(chance.choice(info.types), depth)
        if isinstance(info, types.CustomType | types.RawType | types.AnyType):
            return self.tree(2)
        if isinstance(info, types.StructType):
            return self._struct(info.cls, depth)
        if isinstance(info, types.DictType):
            return {chance.choice(TEXTS): self._value(info.value_type, depth) for _ in range(chance.randrange(3))}
        if isinstance(info, types.ListType | types.VarTupleType | types.SetType):
            many = chance.choice((0, 1, 1, 2, 2, 40 if depth < 4 else 3))
            return [self._value(info.item_type, depth) for _ in range(many)]
        if isinstance(info, types.BoolType):
            return chance.random() < 0.5
        if isinstance(info, types.IntType):
            return chance.choice((0, 1, 2, 80, -1, 2**31 - 1, 2**63 - 1))
        if isinstance(info, types.NoneType):
            return None
        return chance.choice(
            (*TEXTS, "a", "a", "b", "default", "Always", "10Mi", "In", "TCP", "10.0.0.1", "a.example.com")
        )

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
            typed = self.typed(kind) if chance.random() < 0.4 else None
            tree = typed or (self.object(kind) if chance.random() < 0.8 else self.tree())
        data = json.dumps(tree).encode()
        if content_type == protobuf.MEDIA_TYPE:
            message = self._message_of(kind, tree) if chance.random() < 0.6 else b""
            data = message or protobuf.envelope(kind.api_version, kind.kind, self.message())
        elif "yaml" in content_type and chance.random() < 0.3:
            data = chance.choice((b"", b"---\n", b"%YAML 1.1\n---\n", b"&a ", b"!!binary ", b"\t", b"- ")) + data
        if chance.random() < 0.01:
            data = chance.choice(BOMBS)
        if chance.random() < 0.08:
            data = self.damaged(data)
        return data

    def _message_of(self, kind: Kind, tree: Any) -> bytes:
        """An object in protobuf; b"" for what has no such form."""
        try:
            obj = msgspec.json.decode(json.dumps(tree).encode(), type=kind.type)
            return protobuf.envelope(kind.api_version, kind.kind, protobuf.message_of(obj))
        except (ValueError, TypeError, msgspec.MsgspecError, AttributeError, KeyError, OverflowError):
            return b""

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
