"""Requests that no client means to send, answered as kube-apiserver 1.36 answers them: the order of checks, odd names and paths, bodies of other kinds."""

from __future__ import annotations

import asyncio
import json

import pytest

from bayplan.apiserver.requests import Request, Response, User
from bayplan.apiserver.server import ApiServer
from tests.apiserver.serving import ADMIN, AS_RECORDED, opened

_MAPS = "/api/v1/namespaces/default/configmaps"
_MERGE = "application/merge-patch+json"


async def _ask(
    api: ApiServer, method: str, path: str, body: object = None, *, content_type: str = "", accept: str = ""
) -> Response:
    path, _, text = path.partition("?")
    query = dict(pair.split("=", 1) for pair in text.split("&")) if text else {}
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    return await api.handle(Request(method, path, query, ADMIN, data, content_type, accept))


def _message(response: Response) -> tuple[int, str]:
    return response.code, json.loads(response.body)["message"]


@pytest.mark.parametrize("accept", ["application/xml", "application/json;as=Foo;v=v1;g=meta.k8s.io"])
def test_a_method_that_a_resource_does_not_have_is_refused_before_the_media_type(accept: str) -> None:
    async def scenario() -> None:
        async with opened() as api:
            for path in ("/api/v1/namespaces/default/bindings", "/apis/authentication.k8s.io/v1/tokenreviews"):
                assert (await _ask(api, "GET", path, accept=accept)).code == 405
            assert (await _ask(api, "GET", _MAPS, accept=accept)).code == 406

    asyncio.run(scenario())


def test_deprecated_kinds_warn_also_if_the_wanted_form_is_not_acceptable_but_not_if_no_route_takes_the_patch() -> None:
    async def scenario() -> None:
        async with opened() as api:
            path = "/api/v1/namespaces/default/endpoints/x"
            answer = await _ask(api, "GET", path, accept="application/json;as=Foo;v=v1;g=meta.k8s.io")
            assert (answer.code, len(answer.warnings)) == (406, 1)
            answer = await _ask(api, "GET", path, accept="application/xml")
            assert (answer.code, list(answer.warnings)) == (406, [])
            answer = await _ask(api, "PATCH", path, {}, content_type="text/plain")
            assert (answer.code, list(answer.warnings)) == (415, [])
            answer = await _ask(api, "PATCH", path, {}, content_type=_MERGE)
            assert (answer.code, len(answer.warnings)) == (404, 1)

    asyncio.run(scenario())


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"5", b"{", b'{"metadata":[]}'])
def test_a_patch_of_what_is_not_there_is_not_found_whatever_it_says(body: bytes) -> None:
    async def scenario() -> None:
        async with opened() as api:
            for kind in ("merge-patch", "json-patch", "strategic-merge-patch"):
                answer = await _ask(api, "PATCH", f"{_MAPS}/none", body, content_type=f"application/{kind}+json")
                assert _message(answer) == (404, 'configmaps "none" not found')

    asyncio.run(scenario())


@pytest.mark.parametrize("name", [".", ".."])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_dots_are_no_names(name: str, method: str) -> None:
    async def scenario() -> None:
        async with opened() as api:
            answer = await _ask(api, method, f"{_MAPS}/{name}")
            assert _message(answer) == (400, f"Name parameter invalid: \"{name}\": may not be '{name}'")
            assert (await _ask(api, method, f"{_MAPS}/...")).code == 404

    asyncio.run(scenario())


def test_names_in_messages_are_quoted_as_go_quotes_them() -> None:
    async def scenario() -> None:
        async with opened() as api:
            assert _message(await _ask(api, "GET", f'{_MAPS}/a"\0')) == (404, r'configmaps "a\"\x00" not found')

    asyncio.run(scenario())


def test_a_path_with_two_slashes_in_front_leads_nowhere_and_deletes_nothing() -> None:
    async def scenario() -> None:
        async with opened() as api:
            assert (await _ask(api, "POST", _MAPS, {"metadata": {"name": "x"}})).code == 201
            for method in ("GET", "DELETE"):
                answer = await _ask(api, method, f"/{_MAPS}")
                assert (answer.code, answer.body) == (404, b"404 page not found\n")
            assert (await _ask(api, "GET", f"{_MAPS}/x")).code == 200

    asyncio.run(scenario())


def test_a_timeout_that_is_no_duration_is_refused_before_anything_else() -> None:
    async def scenario() -> None:
        async with opened() as api:
            answer = await _ask(api, "GET", "/api/v1/namespaces/default/bindings/x?timeout=x")
            assert _message(answer)[0] == 400
            assert (await _ask(api, "GET", "/api/v1/namespaces/default/bindings/x?timeout=1s")).code == 404

    asyncio.run(scenario())


def test_events_are_read_from_the_store_which_refuses_revisions_in_its_own_words() -> None:
    async def scenario() -> None:
        async with opened() as api:
            why = 'resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax'
            answer = await _ask(api, "GET", "/api/v1/namespaces/default/events/a?resourceVersion=x")
            assert _message(answer) == (400, f"invalid resource version: {why}")
            assert _message(await _ask(api, "GET", f"{_MAPS}/a?resourceVersion=x")) == (500, why)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("api_version", "kind", "why"),
    [
        ("v1", "List", "converting (v1.List) to (core.ConfigMap): unknown conversion"),
        ("v1", "ConfigMapList", "converting (v1.ConfigMapList) to (core.ConfigMap): unknown conversion"),
        ("apps/v1", "DeploymentList", "converting (v1.DeploymentList) to (core.ConfigMap): unknown conversion"),
        (
            "v1",
            "BindingList",
            'no kind "BindingList" is registered for version "v1" in scheme "pkg/api/legacyscheme/scheme.go:30"',
        ),
        (
            "apps/v1",
            "List",
            'no kind "List" is registered for version "apps/v1" in scheme "pkg/api/legacyscheme/scheme.go:30"',
        ),
        (
            "v1",
            "NoneList",
            'no kind "NoneList" is registered for version "v1" in scheme "pkg/api/legacyscheme/scheme.go:30"',
        ),
    ],
)
def test_a_list_is_a_kind_that_cannot_be_converted(api_version: str, kind: str, why: str) -> None:
    async def scenario() -> None:
        async with opened() as api:
            answer = await _ask(
                api, "POST", _MAPS, {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}
            )
            assert answer.code == 400
            assert json.loads(answer.body)["message"].endswith(why)

    asyncio.run(scenario())


def test_bindings_name_a_pod_of_their_own_namespace() -> None:
    async def scenario() -> None:
        async with opened() as api:
            path, target = "/api/v1/namespaces/default/bindings", {"kind": "Node", "name": "n"}
            empty = await _ask(api, "POST", path, b"null")
            assert _message(empty) == (500, "target.name: Required value")
            unnamed = await _ask(api, "POST", path, {"metadata": {}, "target": target})
            assert _message(unnamed) == (400, "Name parameter required.")
            other = await _ask(api, "POST", path, {"metadata": {"name": "p", "namespace": "other"}, "target": target})
            assert _message(other)[0] == 400
            none = await _ask(api, "POST", path, {"metadata": {"name": "p"}, "target": target})
            assert _message(none) == (404, 'pods "p" not found')

    asyncio.run(scenario())


def test_deleting_jobs_without_a_policy_warns_also_if_there_are_none() -> None:
    async def scenario() -> None:
        async with opened() as api:
            path = "/apis/batch/v1/namespaces/default/jobs"
            assert len((await _ask(api, "DELETE", path)).warnings) == 1
            assert list((await _ask(api, "DELETE", f"{path}?fieldSelector=x=y")).warnings) == []
            assert list((await _ask(api, "DELETE", f"{path}?propagationPolicy=Background")).warnings) == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("path", "rows"),
    [
        (_MAPS, []),
        ("/apis/apiregistration.k8s.io/v1/apiservices?fieldSelector=metadata.name=x", []),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", None),
    ],
)
def test_a_table_without_rows_has_null_where_another_server_makes_it(path: str, rows: object) -> None:
    async def scenario() -> None:
        async with opened() as api:
            answer = await _ask(api, "GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
            assert json.loads(answer.body)["rows"] == rows

    asyncio.run(scenario())


def test_maps_in_the_message_about_a_patch_are_in_order_however_they_were_written() -> None:
    async def scenario() -> None:
        async with opened() as api:
            body = {"metadata": {"name": "x", "labels": {"b": "1", "a": "2"}}, "data": {"z": "1", "y": "2"}}
            assert (await _ask(api, "POST", _MAPS, body)).code == 201
            answer = await _ask(api, "PATCH", f"{_MAPS}/x", {"immutable": "x"}, content_type=_MERGE)
            code, message = _message(answer)
            shown = message.replace("\\", "")
            assert (code, '"labels":{"a":"2","b":"1"}' in shown, '"data":{"y":"2","z":"1"}' in shown) == (
                422,
                True,
                True,
            )

    asyncio.run(scenario())


def test_a_watch_of_one_name_by_its_prefix_can_be_streamed() -> None:
    async def scenario() -> None:
        async with opened() as api:
            path = "/api/v1/watch/namespaces/default/configmaps/x"
            code, message = _message(await _ask(api, "GET", path, accept="text/plain"))
            assert (code, message.endswith("application/vnd.kubernetes.protobuf;stream=watch")) == (406, True)
            code, message = _message(await _ask(api, "GET", f"{_MAPS}/x", accept="text/plain"))
            assert (code, message.endswith("application/vnd.kubernetes.protobuf")) == (406, True)

    asyncio.run(scenario())


def test_empty_lists_in_the_message_about_a_patch_are_null_but_for_those_of_the_patch() -> None:
    async def scenario() -> None:
        async with opened() as api:
            path = "/api/v1/namespaces/default/limitranges"
            body = {"metadata": {"name": "x"}, "spec": {"limits": []}}
            assert (await _ask(api, "POST", path, body)).code == 201
            code, message = _message(await _ask(api, "PATCH", f"{path}/x", {"metadata": []}, content_type=_MERGE))
            shown = message.replace("\\", "")
            assert (code, '"metadata":[],"spec":{"limits":null}}' in shown) == (422, True)

    asyncio.run(scenario())


def _pod(name: str) -> dict[str, object]:
    spec = {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False}
    return {"metadata": {"name": name}, "spec": spec}


async def _with_pod(api: ApiServer) -> str:
    """The path of a new pod."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await _ask(api, "POST", accounts, {"metadata": {"name": "default"}})
    path = "/api/v1/namespaces/default/pods"
    assert (await _ask(api, "POST", path, _pod("p"))).code == 201
    return f"{path}/p"


def test_a_binding_may_be_for_a_revision_of_the_pod_and_is_of_its_namespace() -> None:
    async def scenario() -> None:
        async with opened() as api:
            path = await _with_pod(api)
            revision = json.loads((await _ask(api, "GET", path)).body)["metadata"]["resourceVersion"]
            target = {"name": "n"}
            for query, key in (("", "/registry/pods/default/p"), ("?dryRun=All", "/pods/default/p")):
                body = {"metadata": {"name": "p", "resourceVersion": "1"}, "target": target}
                code, message = _message(await _ask(api, "POST", f"{path}/binding{query}", body))
                assert code == 409
                assert f"Key: {key}, " in message
                assert message.endswith(
                    f"ResourceVersion in precondition: 1, ResourceVersion in object meta: {revision}"
                )
            body = {"metadata": {"name": "p", "namespace": "other"}, "target": target}
            assert (await _ask(api, "POST", f"{path}/binding", body)).code == 400
            old = "/api/v1/namespaces/default/bindings"
            body = {"metadata": {"name": "p", "uid": "x", "resourceVersion": revision}, "target": target}
            assert (await _ask(api, "POST", old, body)).code == 201
            assert json.loads((await _ask(api, "GET", path)).body)["spec"]["nodeName"] == "n"

    asyncio.run(scenario())


@pytest.mark.parametrize("options", [{"propagationPolicy": "x"}, {"dryRun": ["x"]}])
def test_an_eviction_with_options_that_make_no_sense_evicts_nobody(options: dict[str, object]) -> None:
    async def scenario() -> None:
        async with opened() as api:
            path = await _with_pod(api)
            body = {"metadata": {"name": "p"}, "deleteOptions": options}
            code, message = _message(await _ask(api, "POST", f"{path}/eviction", body))
            assert (code, message.startswith('DeleteOptions.meta.k8s.io "" is invalid: ')) == (422, True)
            assert (await _ask(api, "GET", path)).code == 200

    asyncio.run(scenario())


def test_the_name_of_a_scale_is_compared_before_its_workload_is_looked_for() -> None:
    async def scenario() -> None:
        async with opened() as api:
            path = "/apis/apps/v1/namespaces/default/deployments/none/scale"
            body = {"metadata": {"name": "d"}, "spec": {"replicas": 1}}
            assert _message(await _ask(api, "PUT", path, body))[0] == 400
            body = {"metadata": {"name": "none"}, "spec": {"replicas": 1}}
            assert _message(await _ask(api, "PUT", path, body)) == (404, 'deployments.apps "none" not found')

    asyncio.run(scenario())


def test_an_eviction_at_another_revision_leaves_the_pod_as_it_is() -> None:
    async def scenario() -> None:
        async with opened() as api:
            path = await _with_pod(api)
            before = (await _ask(api, "GET", path)).body
            body = {"metadata": {"name": "p"}, "deleteOptions": {"preconditions": {"resourceVersion": "1"}}}
            for query in ("", "?dryRun=All"):
                code, message = _message(await _ask(api, "POST", f"{path}/eviction{query}", body))
                assert (code, "the ResourceVersion in the precondition (1) does not match" in message) == (409, True)
            body = {"metadata": {"name": "p"}, "deleteOptions": {"dryRun": ["x"]}}
            code, message = _message(await _ask(api, "POST", f"{path}/eviction?dryRun=All", body))
            assert (code, message) == (500, "Non-matching dry-run options in request and content: [All] and [x]")
            assert (await _ask(api, "GET", path)).body == before
            assert _message(await _ask(api, "POST", f"{path}x/eviction", {"metadata": {"name": "px"}}))[0] == 404

    asyncio.run(scenario())


@pytest.mark.parametrize("dots", [".", ".."])
def test_a_namespace_of_dots_is_no_part_of_a_key(dots: str) -> None:
    base = f"/api/v1/namespaces/{dots}/configmaps"

    async def scenario() -> None:
        async with opened() as api:
            for path in (base, f"{base}?watch=1", f"{base}?labelSelector=a"):
                assert _message(await _ask(api, "GET", path)) == (500, f'invalid key: "/configmaps/{dots}"')
            assert _message(await _ask(api, "DELETE", base)) == (500, f'invalid key: "/configmaps/{dots}"')
            for method, body in (("GET", None), ("DELETE", None), ("PATCH", {})):
                found = await _ask(api, method, f"{base}/x", body, content_type=_MERGE if body is not None else "")
                assert _message(found) == (500, f'invalid key: "/configmaps/{dots}/x"')
            nodes = f"/api/v1/namespaces/{dots}/replicationcontrollers/x"
            assert _message(await _ask(api, "GET", nodes)) == (500, f'invalid key: "/controllers/{dots}/x"')
            code, message = _message(await _ask(api, "POST", base, {"metadata": {"name": "x"}}))
            assert code == 500
            assert message == f"Internal error occurred: invalid resource name \"{dots}\": [may not be '{dots}']"
            assert (await _ask(api, "GET", "/api/v1/namespaces/./nosuch")).code == 404

    asyncio.run(scenario())


@pytest.mark.parametrize("name", [".", "..", "a%b"])
def test_a_name_that_is_no_segment_of_a_path_is_refused_when_it_is_looked_up(name: str) -> None:
    why = "may not contain '%'" if "%" in name else f"may not be '{name}'"

    async def scenario() -> None:
        async with opened() as api:
            assert _message(await _ask(api, "GET", f"{_MAPS}/{name}")) == (
                400,
                f'Name parameter invalid: "{name}": {why}',
            )
            job = await _ask(api, "DELETE", f"/apis/batch/v1/namespaces/default/jobs/{name}")
            assert _message(job) == (400, f'Name parameter invalid: "{name}": {why}')
            assert "child pods are preserved" in job.warnings[0]  # which comes before
            for kind in ("/api/v1/namespaces/default/configmaps", "/apis/rbac.authorization.k8s.io/v1/clusterroles"):
                assert (await _ask(api, "POST", kind, {"metadata": {"name": name}})).code == 422

    asyncio.run(scenario())


def test_events_are_of_the_core_group_inside() -> None:
    async def scenario() -> None:
        async with opened() as api:
            accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
            code, message = _message(
                await _ask(api, "GET", "/apis/events.k8s.io/v1/namespaces/default/events", accept=accept)
            )
            assert (code, message.rpartition("(")[2]) == (406, "*core.EventList)")

    asyncio.run(scenario())


def test_a_patch_of_a_scale_names_the_object_that_it_is_for() -> None:
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}

    async def scenario() -> None:
        async with opened() as api:
            made = json.loads((await _ask(api, "POST", deployments, body)).body)["metadata"]["uid"]
            patch = {"metadata": {"uid": "x"}, "spec": {"replicas": 3}}
            assert _message(await _ask(api, "PATCH", f"{deployments}/d/scale", patch, content_type=_MERGE)) == (
                409,
                'Operation cannot be fulfilled on deployments/scale.apps "d": Precondition failed: UID in precondition: x, '
                f"UID in object meta: {made}",
            )
            patch["metadata"] = {"uid": made}
            assert (await _ask(api, "PATCH", f"{deployments}/d/scale", patch, content_type=_MERGE)).code == 200

    asyncio.run(scenario())


def test_managed_fields_are_in_order_where_the_body_has_a_status() -> None:
    node = {
        "metadata": {"name": "n", "labels": {"a": "b"}},
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {"phase": "x"},
    }

    async def scenario() -> None:
        async with opened() as api:
            made = json.loads((await _ask(api, "POST", "/api/v1/nodes", node)).body)
            (entry,) = made["metadata"]["managedFields"]
            assert list(entry["fieldsV1"]) == ["f:metadata", "f:spec"]

    asyncio.run(scenario())


_RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.mark.parametrize(
    ("reference", "code", "message"),
    [
        ({"kind": "Role", "name": "r"}, 400, "Namespace parameter required."),
        ({"kind": "ClusterRole", "name": ""}, 400, "Name parameter required."),
        ({"kind": "ClusterRole", "name": ".."}, 400, "Name parameter invalid: \"..\": may not be '..'"),
        (
            {"kind": "ClusterRole", "name": "nosuch"},
            404,
            'clusterrolebindings.rbac.authorization.k8s.io "nosuch" not found',
        ),
        ({"kind": "X", "name": "r"}, 500, 'unsupported role reference kind: "X"'),
    ],
)
def test_a_binding_to_a_role_that_cannot_be_is_refused_when_the_role_is_looked_up(
    reference: dict[str, str], code: int, message: str
) -> None:
    granter = User("granter")
    rules = [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterrolebindings"], "verbs": ["create"]}]
    subjects = [{"kind": "User", "name": granter.name, "apiGroup": "rbac.authorization.k8s.io"}]

    async def scenario() -> None:
        async with opened(settings=AS_RECORDED) as api:
            await _ask(api, "POST", f"{_RBAC}/clusterroles", {"metadata": {"name": "granter"}, "rules": rules})
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "granter"}
            binding = {"metadata": {"name": "granter"}, "subjects": subjects, "roleRef": role}
            await _ask(api, "POST", f"{_RBAC}/clusterrolebindings", binding)
            body = json.dumps({"metadata": {"name": "b"}, "subjects": subjects, "roleRef": reference}).encode()
            found = await api.handle(Request("POST", f"{_RBAC}/clusterrolebindings", {}, granter, body))
            assert _message(found) == (code, message)

    asyncio.run(scenario())


def test_what_an_authorizer_refuses_is_not_to_be_sniffed_and_what_admission_refuses_may_be() -> None:
    async def scenario() -> None:
        async with opened(settings=AS_RECORDED) as api:
            for method, path in (("GET", _MAPS), ("GET", f"{_MAPS}/x"), ("POST", _MAPS), ("GET", "/metrics")):
                refused = await api.handle(Request(method, path, {}, User("nobody")))
                assert (refused.code, refused.headers) == (403, {"X-Content-Type-Options": "nosniff"})
            immortal = await _ask(api, "DELETE", "/api/v1/namespaces/default")
            assert (immortal.code, immortal.headers) == (403, {})

    asyncio.run(scenario())


def test_requirements_of_label_selectors_in_reviews_are_checked_like_others() -> None:
    requirements = [{"key": "", "operator": "Exists"}, {"key": "a", "operator": "In", "values": ["b c"]}]
    attributes = {"verb": "list", "resource": "pods", "labelSelector": {"requirements": requirements}}

    async def scenario() -> None:
        async with opened() as api:
            path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
            code, message = _message(
                await _ask(api, "POST", path, {"spec": {"user": "a", "resourceAttributes": attributes}})
            )
            assert code == 422
            where = "spec.resourceAttributes.labelSelector.requirements"
            assert f'{where}[0].key: Invalid value: "": name part must be non-empty' in message
            assert f'{where}[1].values[0]: Invalid value: "b c": a valid label must be' in message

    asyncio.run(scenario())


def test_an_applied_list_with_keys_has_no_empty_items() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [None]}}

    async def scenario() -> None:
        async with opened() as api:
            path = "/api/v1/namespaces/default/pods/p?fieldManager=m"
            code, message = _message(await _ask(api, "PATCH", path, pod, content_type="application/apply-patch+yaml"))
            assert (code, message.rpartition(": ")[2]) == (
                500,
                "associative list with keys may not have a null element",
            )

    asyncio.run(scenario())
