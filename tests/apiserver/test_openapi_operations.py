"""Operations of OpenAPI documents: what a client that is generated from them relies on."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from bayplan.api.kinds import DEFAULT_KINDS
from bayplan.apiserver.openapi.documents import OpenApi
from bayplan.apiserver.openapi.paths import paths_v2
from bayplan.apiserver.openapi.routes import Parameter, Route, article, operation_id, tag
from tests.apiserver.test_openapi import documents, get

Tree = dict[str, Any]
METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
PODS = "/api/v1/namespaces/{namespace}/pods"


@pytest.fixture(scope="module")
def openapi() -> OpenApi:
    return documents()


@pytest.fixture(scope="module")
def second(openapi: OpenApi) -> Tree:
    tree: Tree = json.loads(get(openapi, "/openapi/v2"))
    return tree


def operations(tree: Tree) -> Iterator[tuple[str, str, Tree]]:
    for path, item in tree["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method, item[method]


def parameters(tree: Tree, path: str, method: str) -> list[Tree]:
    """All parameters of an operation of version 2, references followed."""
    item = tree["paths"][path]
    given = [*item.get("parameters", ()), *item[method].get("parameters", ())]
    return [tree["parameters"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one for one in given]


IDS = {
    f"get {PODS}": "listCoreV1NamespacedPod",
    "get /api/v1/pods": "listCoreV1PodForAllNamespaces",
    f"delete {PODS}": "deleteCoreV1CollectionNamespacedPod",
    f"post {PODS}/{{name}}/binding": "createCoreV1NamespacedPodBinding",
    f"post {PODS}/{{name}}/eviction": "createCoreV1NamespacedPodEviction",
    f"post {PODS}/{{name}}/exec": "connectCoreV1PostNamespacedPodExec",
    f"get {PODS}/{{name}}/log": "readCoreV1NamespacedPodLog",
    f"options {PODS}/{{name}}/proxy/{{path}}": "connectCoreV1OptionsNamespacedPodProxyWithPath",
    "head /api/v1/nodes/{name}/proxy": "connectCoreV1HeadNodeProxy",
    f"patch {PODS}/{{name}}/ephemeralcontainers": "patchCoreV1NamespacedPodEphemeralcontainers",
    "put /api/v1/namespaces/{name}/finalize": "replaceCoreV1NamespaceFinalize",
    "get /api/v1/watch/pods": "watchCoreV1PodListForAllNamespaces",
    "get /api/v1/watch/namespaces/{namespace}/pods": "watchCoreV1NamespacedPodList",
    "get /api/v1/watch/namespaces/{namespace}/pods/{name}": "watchCoreV1NamespacedPod",
    "get /apis/rbac.authorization.k8s.io/v1/clusterroles": "listRbacAuthorizationV1ClusterRole",
    "put /apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale": "replaceAppsV1NamespacedDeploymentScale",
    "post /apis/authentication.k8s.io/v1/tokenreviews": "createAuthenticationV1TokenReview",
    "get /api/": "getCoreAPIVersions",
    "get /apis/": "getAPIVersions",
    "get /apis/apps/": "getAppsAPIGroup",
    "get /apis/apps/v1/": "getAppsV1APIResources",
    "get /version/": "getCodeVersion",
    "get /.well-known/openid-configuration/": "getServiceAccountIssuerOpenIDConfiguration",
    "get /openid/v1/jwks/": "getServiceAccountIssuerOpenIDKeyset",
}


@pytest.mark.parametrize("name", IDS)
def test_operation_ids(second: Tree, name: str) -> None:
    method, path = name.split()
    assert second["paths"][path][method]["operationId"] == IDS[name]


DESCRIPTIONS = {
    f"get {PODS}": "list or watch objects of kind Pod",
    "get /api/v1/componentstatuses": "list objects of kind ComponentStatus",
    f"delete {PODS}": "delete collection of Pod",
    f"delete {PODS}/{{name}}": "delete a Pod",
    "post /api/v1/namespaces/{namespace}/endpoints": "create Endpoints",
    "delete /apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses/{name}": "delete an Ingress",
    f"patch {PODS}/{{name}}/status": "partially update status of the specified Pod",
    f"post {PODS}/{{name}}/exec": "connect POST requests to exec of Pod",
    "get /api/v1/watch/pods": "watch individual changes to a list of Pod. deprecated: use the 'watch' parameter with a list operation instead.",
    "get /apis/apps/": "get information of a group",
    "get /apis/apps/v1/": "get available resources",
}


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_descriptions(second: Tree, name: str) -> None:
    method, path = name.split()
    assert second["paths"][path][method]["description"] == DESCRIPTIONS[name]


LISTED = {
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "namespace",
    "pretty",
    "resourceVersion",
    "resourceVersionMatch",
}
LISTED |= {"sendInitialEvents", "shardSelector", "timeoutSeconds"}
WATCHED = {"allowWatchBookmarks", "watch"}
DELETED = {
    "body",
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
}
WRITTEN = {"dryRun", "fieldManager", "fieldValidation", "namespace", "pretty"}
TAKEN = {
    f"get {PODS}": LISTED | WATCHED,
    f"delete {PODS}": LISTED | DELETED,
    f"post {PODS}": WRITTEN | {"body"},
    f"get {PODS}/{{name}}": {"name", "namespace", "pretty"},
    f"put {PODS}/{{name}}": WRITTEN | {"body", "name"},
    f"patch {PODS}/{{name}}": WRITTEN | {"body", "force", "name"},
    f"delete {PODS}/{{name}}": DELETED | {"name", "namespace", "pretty"},
    f"get {PODS}/{{name}}/portforward": {"name", "namespace", "ports"},
    "get /api/v1/nodes/{name}/proxy/{path}": {"name", "path"},
    "get /version/": set(),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_operations_take(second: Tree, name: str) -> None:
    method, path = name.split()
    assert {one["name"] for one in parameters(second, path, method)} == TAKEN[name]


def test_operation_ids_are_unique_and_words(openapi: OpenApi, second: Tree) -> None:
    found = Counter(one["operationId"] for _, _, one in operations(second))
    assert [name for name, count in found.items() if count > 1] == []
    assert all(re.fullmatch(r"[a-z]+[A-Z][A-Za-z0-9]+", name) for name in found)
    third: Counter[str] = Counter()
    for prefix in json.loads(get(openapi, "/openapi/v3"))["paths"]:
        third.update(one["operationId"] for _, _, one in operations(json.loads(get(openapi, f"/openapi/v3/{prefix}"))))
    assert third == found


def test_both_versions_have_the_same_operations(openapi: OpenApi, second: Tree) -> None:
    third = json.loads(get(openapi, "/openapi/v3/api/v1"))
    for path, method, operation in operations(third):
        before = second["paths"][path][method]
        for key in ("description", "tags", "x-kubernetes-action", "x-kubernetes-group-version-kind"):
            assert operation.get(key) == before.get(key)
        own = [*third["paths"][path].get("parameters", ()), *operation.get("parameters", ())]
        shown = [one for one in parameters(second, path, method) if one["in"] != "body"]
        assert [(one["name"], one["description"]) for one in own] == [
            (one["name"], one["description"]) for one in shown
        ]
        assert ("requestBody" in operation) == any(one["in"] == "body" for one in parameters(second, path, method))
        for code, response in operation["responses"].items():
            assert ("content" in response) == ("schema" in before["responses"][code])


def test_parameters_of_a_path_are_those_that_are_in_it(second: Tree) -> None:
    for path, method, _ in operations(second):
        named = [one["name"] for one in parameters(second, path, method) if one["in"] == "path"]
        assert sorted(named) == sorted(re.findall(r"\{(\w+)\}", path))


def test_a_parameter_is_given_once_and_in_order(second: Tree) -> None:
    for path, item in second["paths"].items():
        for method in METHODS:
            if method in item:
                every = [(one["name"], one["in"]) for one in parameters(second, path, method)]
                assert len(every) == len(set(every))
        own = [one.get("name") or one["$ref"].split("/")[-1].split("-")[0] for one in item.get("parameters", ())]
        assert own == sorted(own)


def test_a_whole_operation_of_version_2(second: Tree) -> None:
    operation = second["paths"]["/api/v1/namespaces/{name}"]["put"]
    texts = {one["name"]: one for one in operation["parameters"] if "name" in one}
    assert operation == {
        "description": "replace the specified Namespace",
        "consumes": ["*/*"],
        "produces": ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"],
        "schemes": ["https"],
        "tags": ["core_v1"],
        "operationId": "replaceCoreV1Namespace",
        "parameters": [
            {
                "name": "body",
                "in": "body",
                "required": True,
                "schema": {"$ref": "#/definitions/io.k8s.api.core.v1.Namespace"},
            },
            texts["dryRun"],
            {"$ref": "#/parameters/fieldManager-Qy4HdaTW"},
            texts["fieldValidation"],
        ],
        "responses": {
            "200": {"description": "OK", "schema": {"$ref": "#/definitions/io.k8s.api.core.v1.Namespace"}},
            "201": {"description": "Created", "schema": {"$ref": "#/definitions/io.k8s.api.core.v1.Namespace"}},
            "401": {"description": "Unauthorized"},
        },
        "x-kubernetes-action": "put",
        "x-kubernetes-group-version-kind": {"group": "", "version": "v1", "kind": "Namespace"},
    }


def test_a_whole_operation_of_version_3(openapi: OpenApi) -> None:
    tree = json.loads(get(openapi, "/openapi/v3/api/v1"))
    item = tree["paths"][f"{PODS}/{{name}}/eviction"]
    content = {"schema": {"$ref": "#/components/schemas/io.k8s.api.policy.v1.Eviction"}}
    forms = ("application/json", "application/vnd.kubernetes.protobuf", "application/yaml")
    assert item["post"] == {
        "tags": ["core_v1"],
        "description": "create eviction of a Pod",
        "operationId": "createCoreV1NamespacedPodEviction",
        "requestBody": {"content": {"*/*": content}, "required": True},
        "responses": {
            "200": {"description": "OK", "content": dict.fromkeys(forms, content)},
            "201": {"description": "Created", "content": dict.fromkeys(forms, content)},
            "202": {"description": "Accepted", "content": dict.fromkeys(forms, content)},
            "401": {"description": "Unauthorized"},
        },
        "x-kubernetes-action": "post",
        "x-kubernetes-group-version-kind": {"group": "policy", "version": "v1", "kind": "Eviction"},
    }
    names = ["dryRun", "fieldManager", "fieldValidation", "name", "namespace", "pretty"]
    assert [one["name"] for one in item["parameters"]] == names
    assert item["parameters"][3] == {
        "name": "name",
        "in": "path",
        "description": "name of the Eviction",
        "required": True,
        "schema": {"type": "string", "uniqueItems": True},
    }


SHARED = {
    "namespace-vgWSWtn3": "path",
    "pretty-tJGM1-ng": "query",
    "labelSelector-5Zw57w4C": "query",
    "shardSelector-Kgyki_3_": "query",
    "body-2Y1dVQaQ": "body",
    "path-z6Ciiujn": "path",
}
"""Names that Kubernetes gives, which clients may know."""


def test_shared_parameters_have_the_names_that_kubernetes_gives_them(second: Tree) -> None:
    assert {name: second["parameters"][name]["in"] for name in SHARED} == SHARED
    assert not {"name", "dryRun", "fieldValidation"} & {one["name"] for one in second["parameters"].values()}


def test_characters_that_go_escapes_count_escaped() -> None:
    """The name depends on the bytes that Go's encoder writes."""
    made = [
        Route("/version/", "get", "getCodeVersion", "", (), parameters=(Parameter("a", "query", "string", text),))
        for text in ("<", "\\u003c")
    ]
    first, second = (paths_v2([one])[1] for one in made)
    assert list(first) == ["a-sbEbshju"]
    assert list(first) != list(second)


def test_what_a_deletion_gives_back(second: Tree) -> None:
    found = {
        path: operation["responses"]["200"]["schema"]["$ref"].rpartition(".")[2]
        for path, method, operation in operations(second)
        if operation.get("x-kubernetes-action") == "delete"
    }
    assert found[f"{PODS}/{{name}}"] == "Pod"
    assert found["/apis/storage.k8s.io/v1/csinodes/{name}"] == "CSINode"
    assert found["/apis/storage.k8s.io/v1/namespaces/{namespace}/csistoragecapacities/{name}"] == "Status"
    assert sum(what != "Status" for what in found.values()) == 16


def test_every_kind_has_its_operations(second: Tree) -> None:
    for kind in DEFAULT_KINDS:
        place = "{namespace}" if kind.namespaced else ""
        item = second["paths"].get(kind.path(place, "{name}"), {})
        assert {"get": "get" in kind.verbs, "put": "update" in kind.verbs, "patch": "patch" in kind.verbs} == {
            method: method in item for method in ("get", "put", "patch")
        }
        for one in kind.subresources:
            assert kind.path(place, "{name}", one.name) in second["paths"]


NOUNS = {"Pod": " a ", "Ingress": " an ", "Endpoints": " ", "IPAddress": " an ", "PriorityClass": " a "}


@pytest.mark.parametrize("noun", NOUNS)
def test_articles(noun: str) -> None:
    assert article(noun) == NOUNS[noun]


def test_ids_and_tags_leave_out_what_no_identifier_has() -> None:
    route = Route("/apis/stable.my-example.com/v1beta1/things", "get", "listThing", "", ())
    assert operation_id(route) == "listStableMyExampleComV1beta1Thing"
    assert tag(route) == "stableMyExampleCom_v1beta1"
    digit = Route("/apis/3d.example.com/v1/things", "get", "listThing", "", ())
    assert (operation_id(digit), tag(digit)) == ("listDExampleComV1Thing", "DExampleCom_v1")


def test_fields_have_their_defaults_and_values(openapi: OpenApi, second: Tree) -> None:
    third = json.loads(get(openapi, "/openapi/v3/api/v1"))["components"]["schemas"]
    protocol = third["io.k8s.api.core.v1.ContainerPort"]["properties"]["protocol"]
    assert (protocol["default"], protocol["enum"]) == ("TCP", ["SCTP", "TCP", "UDP"])
    meanings = [f' - `"{name}"` is the {name} protocol.' for name in ("SCTP", "TCP", "UDP")]
    assert protocol["description"].endswith("\n".join(["\n\nPossible enum values:", *meanings]))
    before = second["definitions"]["io.k8s.api.core.v1.ContainerPort"]["properties"]["protocol"]
    assert before == {key: value for key, value in protocol.items() if key != "default"}
    modes = third["io.k8s.api.core.v1.PersistentVolumeSpec"]["properties"]["accessModes"]
    assert modes["items"]["enum"] == ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]


def test_scalars_of_several_types(openapi: OpenApi, second: Tree) -> None:
    name = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
    third = json.loads(get(openapi, "/openapi/v3/apis/apps/v1"))["components"]["schemas"][name]
    assert (third["oneOf"], third["format"]) == ([{"type": "integer"}, {"type": "string"}], "int-or-string")
    shown = {key: value for key, value in second["definitions"][name].items() if key != "description"}
    assert shown == {"type": "string", "format": "int-or-string"}


def test_shared_definitions_name_the_group_version_of_the_document(openapi: OpenApi) -> None:
    third = json.loads(get(openapi, "/openapi/v3/apis/apps/v1"))["components"]["schemas"]
    kinds = third["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]["x-kubernetes-group-version-kind"]
    assert [one["group"] for one in kinds] == ["", "apps"]
