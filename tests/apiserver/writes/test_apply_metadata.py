"""Applied configurations whose metadata is no map, or whose object cannot be typed, are refused as Kubernetes refuses them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from bayplan.api.types import coordination_v1, core_v1, meta_v1
from bayplan.apiserver.in_process import InProcessEndpoint
from tests.apiserver.serving import ADMIN, client_of, opened

PATH = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a"


@pytest.mark.parametrize("metadata", ["x", [[1]], 5, True])
@pytest.mark.parametrize("exists", [False, True])
def test_metadata_that_is_no_map_is_refused(metadata: object, exists: bool) -> None:
    async def main() -> tuple[int, bytes]:
        async with opened() as api:
            if exists:
                name = meta_v1.ObjectMeta(name="a", namespace="default")
                await client_of(api).create(coordination_v1.Lease(metadata=name))
            body = msgspec.json.encode({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata})
            door = InProcessEndpoint(api, ADMIN)
            return await door.call("PATCH", PATH, {"fieldManager": "x"}, body, "application/apply-patch+yaml")

    code, answer = asyncio.run(main())
    assert code == 500
    assert b"failed to create typed patch object" in answer
    assert b".metadata: expected map" in answer


def test_an_object_with_unnamed_list_items_takes_updates_but_no_configuration() -> None:
    async def main() -> tuple[list[int], int, bytes]:
        async with opened() as api:
            door = InProcessEndpoint(api, ADMIN)

            async def ask(method: str, path: str, body: object, content_type: str, **query: str) -> tuple[int, bytes]:
                return await door.call(method, path, query, msgspec.json.encode(body), content_type)

            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}
            unnamed: dict[str, Any] = {
                **account,
                "secrets": [{"name": "x"}, {"namespace": "default"}, {"kind": "Secret"}],
            }
            path = "/api/v1/namespaces/default/serviceaccounts"
            codes = [
                (await ask("POST", path, unnamed, "application/json"))[0],
                (await ask("PUT", f"{path}/a", unnamed | {"secrets": unnamed["secrets"][1:]}, "application/json"))[0],
            ]
            apply = "application/apply-patch+yaml"
            return codes, *(await ask("PATCH", f"{path}/a", account, apply, fieldManager="m"))

    codes, code, answer = asyncio.run(main())
    assert codes == [201, 200]
    assert code == 500
    assert msgspec.json.decode(answer)["message"] == (
        "failed to create manager for existing fields: failed to convert new object (default/a; /v1, Kind=ServiceAccount) to smd typed: "
        '.secrets: element 0: associative list with keys has an element that omits all key fields ["name"] '
        "(and doesn't have default values for any key fields)"
    )


@pytest.mark.parametrize(
    ("field", "why"),
    [
        (
            {"deprecatedFirstTimestamp": "TCP"},
            'parsing time "TCP" as "2006-01-02T15:04:05Z07:00": cannot parse "TCP" as "2006"',
        ),
        ({"deprecatedCount": 3.5}, "cannot convert float64 to int32"),
    ],
)
def test_what_does_not_fit_is_refused_where_another_manager_knows_another_version(
    field: dict[str, object], why: str
) -> None:
    """The owner's fields are of `v1`, so that what is applied has to be converted to see what it changes of them."""

    async def main() -> tuple[int, bytes]:
        async with opened() as api:
            event = core_v1.Event(
                metadata=meta_v1.ObjectMeta(name="a", namespace="default"),
                involved_object=core_v1.ObjectReference(kind="Pod", namespace="default", name="x"),
                reason="R",
            )
            await client_of(api).create(event)
            body = {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"name": "a"},
                "reason": "S",
                **field,
            }
            endpoint = InProcessEndpoint(api, ADMIN)
            path = "/apis/events.k8s.io/v1/namespaces/default/events/a"
            query = {"fieldManager": "x", "force": "true"}
            return await endpoint.call("PATCH", path, query, msgspec.json.encode(body), "application/apply-patch+yaml")

    code, answer = asyncio.run(main())
    assert code == 500
    assert msgspec.json.decode(answer)["message"] == (
        "failed to convert new object (/a; events.k8s.io/v1, Kind=Event) to proper version: "
        f"unable to convert unstructured object to events.k8s.io/v1, Kind=Event: {why}"
    )
