"""Discovery, OpenAPI, health and other documents: paths, methods, media types and queries."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from bayplan.api.kinds import DEFAULT_KINDS
from tests.differential.api.steps import ACCEPTS, Step, some, step

_PLACES = (
    *(
        "/",
        "/api",
        "/apis",
        "/api/",
        "/apis/",
        "/api/v1",
        "/api/v1/",
        "/api/v2",
        "/apis/apps",
        "/apis/apps/",
        "/apis/apps/v2",
        "/apis/nosuch",
        "/apis/nosuch/v1",
    ),
    *(
        "/version",
        "/version/",
        "/healthz",
        "/healthz/ping",
        "/healthz/nosuch",
        "/healthz/etcd",
        "/livez",
        "/livez/ping",
        "/readyz",
        "/readyz/nosuch",
        "/nosuch",
    ),
    *(
        "/openapi",
        "/openapi/v3",
        "/openapi/v3/",
        "/openapi/v3/nosuch",
        "/openapi/v2/x",
        "/swagger.json",
        "/openapi/v3/version",
        "/openapi/v3/api",
    ),
    *(
        "/.well-known/openid-configuration",
        "/.well-known",
        "/openid/v1/jwks",
        "/openid/v1",
        "/logs",
        "/logs/",
        "/debug",
        "/debug/pprof",
        "/ui",
        "/static",
        "/index.html",
    ),
    *(
        "/api/v1/watch",
        "/api/v1/watch/pods/x/y",
        "/api/v1/namespaces/${ns}/",
        "/api/v1/namespaces/${ns}/nosuch",
        "/api/v1/namespaces/${ns}/pods/",
    ),
    *(
        "/api/v1/nosuch/x",
        "/api/v1//pods",
        "//api",
        "/api/v1/namespaces/${ns}/pods/x/nosuch",
        "/api/v1/namespaces/${ns}/pods/x/status/y",
        "/api/v1/pods/x",
    ),
    *(
        "/api/v1/namespaces//pods",
        "/api/v1/namespaces/%20/pods",
        "/api/v1/namespaces/${ns}/pods/%2e%2e",
        "/api/v1/namespaces/${ns}/configmaps/A%20b",
        "/%zz",
        "/a%2fb",
    ),
    *(
        "/apis/apps/v1/nosuch",
        "/apis/apps/v1/namespaces/${ns}/pods",
        "/apis/apps/v1/deployments/x",
        "/api/v1/namespaces/nosuch/configmaps",
        "/api/v1/nodes/x/proxy",
    ),
    *(
        "/api/v1/proxy/namespaces/${ns}/pods/x",
        "/api/v1/namespaces/${ns}/services/x/proxy",
        "/api/v1/componentstatuses",
        "/metrics/nosuch",
        "/apis/metrics.k8s.io",
    ),
)
_QUERY = {
    "verbose": ["", "true", "1"],
    "exclude": ["ping", "nosuch", "etcd"],
    "pretty": ["true", "1", "false"],
    "timeout": ["5s", "x", "32s", "-1s", "0", "10h"],
    "hash": ["x"],
    "watch": ["false"],
}
_DISCOVERY_ACCEPTS = (
    *ACCEPTS,
    *(
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    ),
    *(
        "application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList,application/json",
        "application/json;as=APIGroupDiscoveryList",
    ),
    *(
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer",
        "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    ),
    *(
        "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf,application/json",
        "application/vnd.kubernetes.protobuf",
    ),
)
_METHODS = ("GET",) * 14 + ("HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE")
_BIG = ("/openapi/v2", "/apis", "/api/v1", "/openapi/v3/apis/apps/v1", "/openapi/v3/api/v1")
"""Read once in each run: they are large."""


def documents(chance: Random, count: int) -> Iterator[Step]:
    """Requests that are about no object."""
    versions = sorted({kind.api_version for kind in DEFAULT_KINDS})
    for _ in range(count):
        path = chance.choice(_PLACES)
        if chance.random() < 0.35:
            version = chance.choice(versions)
            place = f"apis/{version}" if "/" in version else f"api/{version}"
            path = chance.choice((f"/{place}", f"/{place}/", f"/{place.rpartition('/')[0]}"))
        yield _request(chance, path)


def large_documents() -> Iterator[Step]:
    """Whole documents, once."""
    for path in _BIG:
        yield step("GET", path, f"document {path}")
    for version in sorted({kind.api_version for kind in DEFAULT_KINDS} - {"v1", "apps/v1"}):
        place = f"apis/{version}" if "/" in version else f"api/{version}"
        yield step("GET", f"/{place}", "document discovery")
        yield step("GET", f"/openapi/v3/{place}", "document openapi v3")
    for accept in _DISCOVERY_ACCEPTS[-8:]:
        yield step("GET", "/apis", "document discovery", headers={"Accept": accept}, **_binary(accept))
        yield step("GET", "/api", "document discovery", headers={"Accept": accept}, **_binary(accept))
    yield step("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "document roles")
    yield step("GET", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "document roles")
    yield step("GET", "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles", "document roles")
    yield step("GET", "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", "document flow schemas")
    yield step("GET", "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations", "document flow schemas")


def _binary(accept: str) -> dict[str, Any]:
    return {"view": "binary"} if "proto" in accept else {}


def _request(chance: Random, path: str) -> Step:
    method = chance.choice(_METHODS)
    accept = chance.choice(_DISCOVERY_ACCEPTS) if chance.random() < 0.5 else "application/json"
    user = chance.choice((None,) * 8 + ("alice", "anonymous", "wrong", "node1"))
    body = {"a": "b"} if method in ("POST", "PUT", "PATCH") and chance.random() < 0.5 else None
    more: dict[str, Any] = {
        "headers": {"Accept": accept},
        "user": user,
        "query": some(chance, _QUERY, 2),
        **_binary(accept),
    }
    if "verbose" in more["query"] and path.startswith(("/healthz", "/livez", "/readyz")):
        more["view"] = {"lines": "^(?!.*(reason withheld)).*"}  # the checks themselves are compared, not their order
    return step(method, path, f"document {method}", body, **more)
