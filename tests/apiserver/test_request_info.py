"""The action that is authorized is the action that is executed: every route, method and form of query."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from bayplan.api.kinds import Kind
from bayplan.apiserver import dispatch
from bayplan.apiserver.authorization.attributes import Attributes
from bayplan.apiserver.authorization.chain import Named
from bayplan.apiserver.authorization.interface import Decision, Verdict
from bayplan.apiserver.context import Call
from bayplan.apiserver.request_info import is_public, parse_request_info
from bayplan.apiserver.requests import Request, Response, User, resolve
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.apiserver.subresources import SUBRESOURCES
from bayplan.apiserver.verbs import read
from tests.apiserver.custom_resources.things import definition, version
from tests.apiserver.serving import ADMIN, opened

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND")
QUERIES: tuple[dict[str, str], ...] = (
    {},
    {"watch": "1"},
    {"watch": ""},
    {"watch": "false"},
    {"fieldSelector": "metadata.name=x"},
    {"watch": "true", "fieldSelector": "metadata.name=x"},
)
Action = tuple[str, str, str, str, str, str]
"""Verb, group, resource, subresource, namespace, name."""


def bodies_of(base: str, kind: Kind) -> Iterator[str]:
    """All paths that could mean something to somebody for a kind, below `/api/v1` or the like."""
    words = ["", "watch/", "proxy/"]
    for prefix in words:
        for scope in ("", "namespaces/a/"):
            collection = f"{base}/{prefix}{scope}{kind.plural}"
            yield collection
            yield f"{collection}/x"
            yield f"{collection}/x/"
            for subresource in (*(one.name for one in kind.subresources), "nosuch", "watch"):
                yield f"{collection}/x/{subresource}"
                yield f"{collection}//{subresource}"
                yield f"{collection}/x/{subresource}/more"


def routes(api: ApiServer) -> list[str]:
    """Every route of every kind that the server has, and many that it has not."""
    found = [
        path
        for kind in api.context.kinds
        for path in bodies_of(f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}", kind)
    ]
    odd = ["/api/v1/watch", "/api/v1/proxy", "/api/v1/watch/", "/api/v1/watch/watch/pods", "/api/v1/namespaces/a/watch"]
    return [*dict.fromkeys(found), *odd, "/api/v1//pods", "/api/v1/namespaces//pods", "/apis/example.com/v1/watch/x"]


class Observed:
    """What the authorizer was asked for, and what was executed."""

    def __init__(self, api: ApiServer, patch: pytest.MonkeyPatch) -> None:
        self.authorized: list[Action] = []
        self.executed: list[Action] = []
        api.context.authorizer.use((Named("Observed", "observed", self),))
        for verb in ("list", "create", "update", "patch", "delete", "deletecollection"):
            patch.setitem(dispatch._VERBS, verb, self._recorder(verb))
        patch.setattr(read, "watch", self._note("watch"))
        patch.setattr(read, "get", self._note("get"))
        patch.setattr(read, "get_converted", self._recorder("get"))
        patch.setattr(SUBRESOURCES, "_handlers", dict.fromkeys(SUBRESOURCES._handlers, self._subresource))
        patch.setattr(SUBRESOURCES, "handle_virtual", self._subresource)

    def authorize(self, attributes: Attributes) -> Verdict:
        """Permit everything, and remember it."""
        one = attributes
        self.authorized.append((one.verb, one.group, one.resource, one.subresource, one.namespace, one.name))
        return Verdict(Decision.ALLOW)

    def _note(self, verb: str) -> Callable[[Call], Response]:
        def note(call: Call) -> Response:
            path = call.path
            subresource = path.subresource.name if path.subresource is not None else ""
            self.executed.append((verb, path.kind.group, path.kind.plural, subresource, path.namespace, path.name))
            return Response(299)

        return note

    def _recorder(self, verb: str) -> Callable[[Call], Awaitable[Response]]:
        async def record(call: Call) -> Response:
            return self._note(verb)(call)

        return record

    async def _subresource(self, call: Call) -> Response:
        by_method = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch"}
        verb = {**by_method, "DELETE": "delete", "OPTIONS": ""}[call.request.method]
        if verb == "get" and not call.path.name:
            verb = "list"  # of figures and health, which are not stored
        return self._note(verb)(call)


async def define(api: ApiServer) -> None:
    """Two custom resources: one in namespaces, and one whose name looks like a part of a path."""
    status = version(
        subresources={"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}}
    )
    watch_kind = definition(status, kind="Watch", namespaced=False, names={"plural": "watch"})
    watch_kind["metadata"]["name"] = "watch.example.com"
    for one in (definition(status), watch_kind):
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        created = await api.handle(Request("POST", path, {}, ADMIN, json.dumps(one).encode(), "application/json"))
        assert created.code == 201, created.body
    for _ in range(200):
        if sum(kind.is_custom for kind in api.context.kinds) == 2:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the custom resources are not served")


def test_what_is_authorized_is_what_is_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with opened(settings=ApiServerSettings(authorization_modes=("RBAC",))) as api:
            await define(api)
            observed = Observed(api, monkeypatch)
            user, executions, at_once = User("u"), 0, 0
            for path in routes(api):
                for method in METHODS:
                    for query in QUERIES:
                        observed.authorized.clear()
                        observed.executed.clear()
                        content_type = "application/merge-patch+json" if method == "PATCH" else ""
                        response = await api.handle(Request(method, path, query, user, b"", content_type))
                        executions += check(observed, response, f"{method} {path} {query}", query)
                        observed.authorized.clear()
                        observed.executed.clear()
                        fast = api.handle_at_once(Request(method, path, query, user, b"", content_type))
                        if fast is not None:
                            assert (fast.code, fast.body) == (response.code, response.body)
                            at_once += check(observed, fast, f"{method} {path} {query} at once", query)
            assert executions > 1000
            assert at_once > 100

    asyncio.run(run())


def check(observed: Observed, response: Response, what: str, query: dict[str, str]) -> bool:
    """What was executed was authorized; what is no route has the answers of Kubernetes. Returns whether something was executed."""
    if not observed.executed:
        # 400: of custom resources, whose handler has no routes; 501: not of this server.
        assert response.code in (404, 405, 400), (what, response)
        return False
    verb, group, resource, subresource, namespace, name = observed.executed[0]
    if resource == "namespaces":
        namespace = name
    if not name and verb in ("list", "watch") and "fieldSelector" in query and "/watch/" not in what:
        name = "x"
    expected = (verb, group, resource, subresource, namespace, name)
    asked = observed.authorized or [expected]  # nothing is asked again that was permitted for every name
    first = asked[0] if verb != "create" or name else (*asked[0][:5], "")  # the body says the name
    assert (len(observed.executed), response.code, first) == (1, 299, expected), what
    return True


@pytest.mark.parametrize("verbs", [["watch"], ["get"], ["list"], ["get", "list", "watch"], ["proxy"]])
def test_who_may_only_read_changes_nothing(verbs: list[str]) -> None:
    async def run() -> None:
        async with opened(settings=ApiServerSettings(authorization_modes=("RBAC",))) as api:
            await define(api)
            await grant(api, verbs)
            user = User("reader", ("system:authenticated",))
            before = api.context.objects.revision
            refusals = {"GET": 0, "POST": 0}
            for path in routes(api):
                for method in METHODS:
                    for query in ({}, {"watch": "1", "timeoutSeconds": "1"}):
                        response = await api.handle(Request(method, path, query, user, b"{}", "application/json"))
                        if response.watcher is not None:
                            assert (method, "watch" in verbs) == ("GET", True), path
                            response.watcher.close()
                        elif method in ("POST", "PUT", "PATCH", "DELETE") and "/selfsubject" not in path:
                            assert response.code in (403, 404, 405), (method, path, query, response)
                        refusals[method] = refusals.get(method, 0) + (response.code == 403)
            assert api.context.objects.revision == before
            assert refusals["POST"] > 100

    asyncio.run(run())


async def grant(api: ApiServer, verbs: list[str]) -> None:
    """Let the reader use some verbs on everything."""
    rbac = "rbac.authorization.k8s.io"
    role = {"metadata": {"name": "reads"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}]}
    binding = {
        "metadata": {"name": "reads"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "reads"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": "reader"}],
    }
    for plural, body in (("clusterroles", role), ("clusterrolebindings", binding)):
        path = f"/apis/{rbac}/v1/{plural}"
        made = await api.handle(Request("POST", path, {}, ADMIN, json.dumps(body).encode(), "application/json"))
        assert made.code == 201, made.body


def test_a_watch_of_one_object_by_parameter_is_a_get() -> None:
    assert parse_request_info("GET", "/api/v1/namespaces/a/pods/p", {"watch": "1"}).verb == "get"


@pytest.mark.parametrize(
    ("path", "public"),
    [("/healthz", True), ("/readyz/ping", True), ("/version", True), ("/healthzz", False), ("/versions/x", False)],
)
def test_public_paths_are_whole_words(path: str, public: bool) -> None:
    assert is_public(path) is public


def test_series_of_metrics_do_not_follow_what_clients_call_methods() -> None:
    async def run() -> None:
        async with opened() as api:
            for number in range(20):
                await api.handle(Request(f"METHOD{number}", "/nosuch", {}, ADMIN))
            shown = api.metrics.render().decode()
            assert "METHOD" not in shown
            assert any(
                'verb="other"' in line and float(line.rpartition(" ")[2]) == 20
                for line in shown.splitlines()
                if "_total" in line
            )

    asyncio.run(run())


def test_resolving_needs_nothing_but_the_record() -> None:
    async def run() -> None:
        async with opened() as api:
            info = parse_request_info("PUT", "/api/v1/namespaces/a/pods/p/status", {})
            info.path = "/something/else"
            found: Any = resolve(api.context.kinds, info)
            assert (found.kind.plural, found.namespace, found.name, found.verb) == ("pods", "a", "p", "update")
            assert found.subresource.name == "status"

    asyncio.run(run())


@pytest.mark.parametrize("path", ["*", "x", "?/api", "", "//", "."])
def test_a_path_that_is_none_is_not_found(path: str) -> None:
    async def run() -> None:
        async with opened() as api:
            assert (await api.handle(Request("GET", path, {}, ADMIN))).code in (200, 404)

    asyncio.run(run())


def test_bodies_are_limited_however_they_come() -> None:
    async def run() -> None:
        async with opened(settings=ApiServerSettings(max_request_bytes=1000)) as api:
            path = "/api/v1/namespaces/default/configmaps"
            for size, code in ((100, 201), (1000, 413)):
                body = json.dumps({"metadata": {"generateName": "x"}, "data": {"a": "b" * size}}).encode()
                answer = await api.handle(Request("POST", path, {}, ADMIN, body, "application/json"))
                assert answer.code == code

    asyncio.run(run())
