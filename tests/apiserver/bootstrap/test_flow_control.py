"""What becomes of flow schemas and priority levels that every cluster has when users change them: kube-apiserver's `ensurer` tests."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.api.types import flowcontrol_v1 as fc
from bayplan.api.types import meta_v1
from bayplan.apiserver.bootstrap.flow_control import Revision, publish_flow_control
from bayplan.apiserver.bootstrap.flow_control_table import AUTO_UPDATE, flow_schemas, priority_levels
from bayplan.client import Client
from tests.apiserver.serving import client_of, opened

SPEC = {one.metadata.name: one.spec for one in priority_levels()}


def level(name: str, annotation: str | None, generation: int, shares: int | None) -> fc.PriorityLevelConfiguration:
    """A level as it is in the store. shares: other ones than the server's."""
    one = next(one for one in priority_levels() if one.metadata.name == name)
    one.metadata.annotations = {} if annotation is None else {AUTO_UPDATE: annotation}
    one.metadata.generation = generation
    part = one.spec.limited or one.spec.exempt
    if shares is not None and part is not None:
        part.nominal_concurrency_shares = shares
    return one


@pytest.mark.parametrize(
    ("name", "annotation", "generation", "shares", "expected"),
    [
        pytest.param("system", "true", 1, None, None, id="as it should be"),
        pytest.param("system", "true", 5, 7, ("true", 30), id="changed, though the server keeps it"),
        pytest.param("system", "false", 5, 7, None, id="taken over by a user"),
        pytest.param("system", "false", 1, 7, None, id="taken over by a user when it was made"),
        pytest.param("system", None, 1, None, ("true", 30), id="without annotation, never changed"),
        pytest.param("system", None, 1, 7, ("true", 30), id="of an earlier release, never changed"),
        pytest.param("system", None, 2, 7, ("false", 7), id="without annotation, changed by a user"),
        pytest.param("system", "maybe", 2, 7, ("false", 7), id="an annotation that says nothing, changed by a user"),
        pytest.param("system", "T", 2, 7, ("T", 30), id="any way of saying yes"),
        pytest.param("catch-all", "false", 2, 7, ("true", 5), id="mandatory ones cannot be taken over"),
        pytest.param("catch-all", "false", 2, None, ("true", 5), id="not even unchanged"),
        pytest.param("exempt", "true", 2, 9, None, id="shares of exempt are the user's"),
    ],
)
def test_what_the_server_changes(
    name: str, annotation: str | None, generation: int, shares: int | None, expected: tuple[str, int] | None
) -> None:
    current = level(name, annotation, generation, shares)
    revision = Revision.of(current, SPEC[name])
    assert revision.is_needed is (expected is not None)
    if expected is not None:
        changed = revision.apply(current)
        assert changed.metadata.annotations[AUTO_UPDATE] == expected[0]
        assert changed.spec.limited.nominal_concurrency_shares == expected[1]


def test_deleted_ones_come_back_and_those_of_earlier_releases_go() -> None:
    async def names(client: Client) -> set[str]:
        return {one.metadata.name for one in (await client.list(fc.FlowSchema)).items}

    def schema(name: str, annotation: str) -> fc.FlowSchema:
        one = flow_schemas()[-1]
        one.metadata = meta_v1.ObjectMeta(name=name, annotations={AUTO_UPDATE: annotation} if annotation else {})
        return one

    async def run() -> None:
        async with opened() as api:
            client = client_of(api)
            published = await names(client)
            for name in ("catch-all", "probes"):
                await client.delete(fc.FlowSchema, name)
            for name, annotation in (("former", "true"), ("mine", "false"), ("other", "")):
                await client.create(schema(name, annotation))
            await publish_flow_control(api.context)
            assert await names(client) == {*published, "mine", "other"}

    asyncio.run(run())
