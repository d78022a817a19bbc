"""What other servers have, among what this one has."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import pytest

from bayplan.api.types import apiregistration_v1, meta_v1
from bayplan.apiserver.aggregation.discovery import merged_groups, read_resources, remote_version
from bayplan.apiserver.aggregation.forwarding import identity_headers, is_identity_header
from bayplan.apiserver.aggregation.openapi import merge
from bayplan.apiserver.aggregation.registry import RemoteApi, ResourceRow, authority_of
from bayplan.apiserver.requests import User

OWN = {"": ["v1"], "apps": ["v1"], "metrics.k8s.io": ["v1beta1"], "b.example.com": ["v1"], "d.example.com": ["v1"]}
CUSTOM = ("b.example.com", "d.example.com")


def service(group: str, version: str, priority: int, rank: int = 10) -> apiregistration_v1.APIService:
    spec = apiregistration_v1.APIServiceSpec(
        group=group, version=version, group_priority_minimum=priority, version_priority=rank
    )
    return apiregistration_v1.APIService(metadata=meta_v1.ObjectMeta(name=f"{version}.{group}"), spec=spec)


def groups(*services: apiregistration_v1.APIService) -> list[str]:
    return list(merged_groups(OWN, {(one.spec.group, one.spec.version): one for one in services}, CUSTOM))


class TestGroups:
    def test_nothing_changes_without_other_servers(self) -> None:
        assert merged_groups(OWN, {}, CUSTOM) == OWN
        assert groups() == list(OWN)

    @pytest.mark.parametrize(
        ("priority", "place"), [(2000, 3), (1000, 4), (999, 5)], ids=["before", "among", "behind custom resources"]
    )
    def test_priority_decides_about_the_place(self, priority: int, place: int) -> None:
        assert groups(service("c.example.com", "v1", priority)).index("c.example.com") == place

    def test_built_in_groups_come_first(self) -> None:
        assert groups(service("a.example.com", "v1", 19000))[:4] == ["", "apps", "metrics.k8s.io", "a.example.com"]

    def test_a_group_of_the_server_itself_keeps_its_place(self) -> None:
        assert groups(service("metrics.k8s.io", "v1beta1", 100)) == list(OWN)

    def test_versions_are_in_the_order_of_their_priority(self) -> None:
        several = [("v1alpha1", 20), ("v1beta1", 10), ("v1", 10)]
        services = {("x.io", version): service("x.io", version, 100, rank) for version, rank in several}
        assert merged_groups(OWN, services, CUSTOM)["x.io"] == ["v1alpha1", "v1", "v1beta1"]

    def test_further_versions_of_a_group_come_behind_the_servers_own(self) -> None:
        services = {("metrics.k8s.io", "v1"): service("metrics.k8s.io", "v1", 100, 99)}
        assert merged_groups(OWN, services, CUSTOM)["metrics.k8s.io"] == ["v1beta1", "v1"]


class TestResources:
    def test_of_another_group_version(self) -> None:
        with pytest.raises(ValueError, match=r"it is about 'x\.io/v2'"):
            read_resources(b'{"groupVersion": "x.io/v2"}', "x.io/v1")

    @pytest.mark.parametrize("body", [b"", b"ok", b'{"groupVersion": "x.io/v1", "resources": [{}]}'])
    def test_what_cannot_be_read(self, body: bytes) -> None:
        with pytest.raises(ValueError, match=r"."):
            read_resources(body, "x.io/v1")

    def test_a_subresource_without_its_resource(self) -> None:
        row = ResourceRow("things/log", namespaced=True, kind="Thing", verbs=("get",))
        shown = remote_version("v1", RemoteApi(rows=(row,)))
        assert shown["freshness"] == "Stale"
        (things,) = shown["resources"]
        assert (things["resource"], things["scope"], things["verbs"]) == ("things", "Namespaced", ())
        assert things["subresources"][0]["subresource"] == "log"


class TestOpenApi:
    OWN: ClassVar[dict[str, Any]] = {
        "swagger": "2.0",
        "paths": {"/api/v1/": {}},
        "definitions": {"Part": {"type": "string"}},
    }

    @staticmethod
    def other(**definitions: Any) -> bytes:
        item = {"get": {"schema": {"$ref": "#/definitions/Thing"}}}
        return msgspec.json.encode(
            {"paths": {"/apis/x.io/v1/things": item, "/api/v1/": {"get": {}}}, "definitions": definitions}
        )

    def test_definitions_of_the_same_name_that_mean_something_else(self) -> None:
        body = self.other(Thing={"items": [{"$ref": "#/definitions/Part"}]}, Part={"type": "integer"})
        found = merge(self.OWN, [("x.io/v1", body)])
        assert found["definitions"]["Part"] == {"type": "string"}
        assert found["definitions"]["Part_v2"] == {"type": "integer"}
        assert found["definitions"]["Thing"] == {"items": [{"$ref": "#/definitions/Part_v2"}]}
        assert found["paths"]["/api/v1/"] == {}, "another server says nothing about what is not its own"

    def test_definitions_that_refer_to_themselves(self) -> None:
        found = merge(self.OWN, [("x.io/v1", self.other(Thing={"items": {"$ref": "#/definitions/Thing"}}))])
        assert found["definitions"]["Thing"] == {"items": {"$ref": "#/definitions/Thing"}}

    def test_shared_parameters_come_along(self) -> None:
        taken = {"limit-a": {"name": "limit", "type": "integer"}, "body-b": {"name": "body"}}
        theirs = {
            "limit-a": taken["limit-a"],
            "body-b": {"name": "body", "schema": {"$ref": "#/definitions/Part"}},
            "unused-c": {"name": "unused"},
        }
        item = {"parameters": [{"$ref": f"#/parameters/{name}"} for name in ("limit-a", "body-b")]}
        body = {
            "paths": {"/apis/x.io/v1/things": item},
            "parameters": theirs,
            "definitions": {"Part": {"type": "integer"}},
        }
        found = merge({**self.OWN, "parameters": taken}, [("x.io/v1", msgspec.json.encode(body))])
        assert found["paths"]["/apis/x.io/v1/things"]["parameters"] == [
            {"$ref": "#/parameters/limit-a"},
            {"$ref": "#/parameters/body-b_v2"},
        ]
        renamed = {"name": "body", "schema": {"$ref": "#/definitions/Part_v2"}}
        assert found["parameters"] == {**taken, "body-b_v2": renamed}

    @pytest.mark.parametrize("body", [b"", b"[]", b'{"paths": []}', b'{"definitions": {}}', b'{"paths": 1}'])
    def test_documents_that_make_no_sense_add_nothing(self, body: bytes) -> None:
        assert merge(self.OWN, [("x.io/v1", body)]) == self.OWN


class TestIdentity:
    def test_all_that_is_known_of_a_user(self) -> None:
        user = User("ann", ("a", "b"), "7", {"example.com/scopes": ("x", "y")})
        assert list(identity_headers(user)) == [
            ("X-Remote-User", "ann"),
            ("X-Remote-Uid", "7"),
            ("X-Remote-Group", "a"),
            ("X-Remote-Group", "b"),
            ("X-Remote-Extra-example.com%2Fscopes", "x"),
            ("X-Remote-Extra-example.com%2Fscopes", "y"),
        ]

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("x-remote-user", True),
            ("x-remote-uid", True),
            ("x-remote-group", True),
            ("x-remote-extra-a", True),
            ("x-remote", False),
        ],
    )
    def test_headers_that_clients_must_not_send(self, name: str, *, expected: bool) -> None:
        assert is_identity_header(name) is expected

    def test_an_authority_that_is_not_base64(self) -> None:
        found = service("x.io", "v1", 1)
        found.spec.ca_bundle = "***"
        with pytest.raises(ValueError, match=r"spec\.caBundle"):
            authority_of(found)
