"""Fields that nobody knows or that are given twice. Conformance: FieldValidation."""

from __future__ import annotations

import json

import pytest

from tests.integration.conformance.requests import APPLY_PATCH, MERGE_PATCH, Requests, conformance

DEPLOYMENT = """{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"my-dep",%s"labels":{"app":"nginx"}},
"spec":{%s"selector":{"matchLabels":{"app":"nginx"}},"template":{"metadata":{"labels":{"app":"nginx"}},
"spec":{"containers":[{"name":"nginx","image":"nginx:latest"}]}}}}"""


@pytest.mark.parametrize(
    ("metadata", "spec", "problem"),
    [
        (
            "",
            '"unknownField":"foo","replicas":2,"replicas":3,',
            'unknown field "spec.unknownField", duplicate field "spec.replicas"',
        ),
        ('"unknownMeta":"foo",', "", 'unknown field "metadata.unknownMeta"'),
    ],
    ids=["unknown and duplicate fields", "unknown metadata"],
)
def test_a_strict_request_is_refused(metadata: str, spec: str, problem: str) -> None:
    """FieldValidation should detect unknown and duplicate fields, and unknown metadata fields, of a typed object."""

    async def scenario(api: Requests) -> None:
        deployments = f"{(await api.namespace()).replace('/api/v1', '/apis/apps/v1')}/deployments"
        query = {"fieldValidation": "Strict", "fieldManager": "field_validation_mgr"}
        refused = await api.refused("POST", deployments, DEPLOYMENT % (metadata, spec), **query)
        assert f"strict decoding error: {problem}" in refused.message
        await api.create(deployments, DEPLOYMENT % (metadata, spec), fieldValidation="Ignore")

    conformance(scenario)


@pytest.mark.parametrize(
    ("media_type", "body", "problem"),
    [
        (MERGE_PATCH, '{"data":{"a":"1","a":"2"}}', 'strict decoding error: duplicate field "data.a"'),
        (MERGE_PATCH, '{"dta":{"a":"1"}}', 'strict decoding error: unknown field "dta"'),
        (
            "application/json-patch+json",
            '[{"op":"add","path":"/data","value":{},"what":1}]',
            'strict decoding error: json patch unknown field "[0].what"',
        ),
        (
            APPLY_PATCH,
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndata: {}\ndata: {}\n",
            'yaml: unmarshal errors:\n  line 5: key "data" already set in map',
        ),
        (APPLY_PATCH, '{"apiVersion":"v1","kind":"ConfigMap","dta":{}}', ".dta: field not declared in schema"),
    ],
)
def test_a_strict_patch_is_refused(media_type: str, body: str, problem: str) -> None:
    async def scenario(api: Requests) -> None:
        maps = f"{await api.namespace()}/configmaps"
        await api.create(maps, {"metadata": {"name": "cm"}})
        query = {"fieldValidation": "Strict", "fieldManager": "test"}
        refused = await api.refused("PATCH", f"{maps}/cm", body, media_type=media_type, **query)
        assert problem in refused.message

    conformance(scenario)


def test_a_strict_yaml_object_with_a_key_twice_is_refused() -> None:
    async def scenario(api: Requests) -> None:
        maps = f"{await api.namespace()}/configmaps"
        body = "metadata:\n  name: cm\n  name: cm\nnosuch: 1\n"
        refused = await api.refused("POST", maps, body, media_type="application/yaml", fieldValidation="Strict")
        text = 'strict decoding error: yaml: unmarshal errors:\n  line 3: key "name" already set in map, unknown field "nosuch"'
        assert text in refused.message

    conformance(scenario)


def test_what_is_given_twice_is_warned_about() -> None:
    async def scenario(api: Requests) -> None:
        maps = f"{await api.namespace()}/configmaps"
        server, headers = api.server, {**api.headers, "Content-Type": "application/json"}
        body = json.dumps({"metadata": {"name": "cm"}, "nosuch": 1, "data": {"a": "1", "b": "2"}}).replace('"b"', '"a"')
        async with server.session.post(server.url + maps, data=body, headers=headers) as answer:
            warnings = answer.headers.getall("Warning")
        assert warnings == ['299 - "unknown field \\"nosuch\\""', '299 - "duplicate field \\"data.a\\""']

    conformance(scenario)
