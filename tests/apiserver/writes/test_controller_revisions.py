"""The data of ControllerRevisions, whose bytes controllers compare."""

from __future__ import annotations

import asyncio
import json

from bayplan.api.types import apps_v1, core_v1, meta_v1
from bayplan.apiserver.requests import Request
from bayplan.controllers.workloads.revisions import data_of
from tests.apiserver.serving import ADMIN, opened

PATH = "/apis/apps/v1/namespaces/default/controllerrevisions"
DATA = '{"a":{"$patch":"replace","z":"x \\u0026\\u0026 \\u003cy\\u003e","b":1}}'


def test_data_keeps_its_order_and_has_escapes_as_go_writes_them() -> None:
    async def scenario() -> None:
        async with opened() as api:
            body = {"metadata": {"name": "r"}, "revision": 1, "data": json.loads(DATA)}
            request = Request("POST", PATH, {}, ADMIN, json.dumps(body).encode(), "application/json")
            assert (await api.handle(request)).code == 201
            for path, accept in ((f"{PATH}/r", ""), (PATH, ""), (PATH, "application/vnd.kubernetes.protobuf")):
                answer = await api.handle(Request("GET", path, {}, ADMIN, accept=accept))
                assert DATA.encode() in answer.whole_body()

    asyncio.run(scenario())


def test_controllers_write_it_in_order() -> None:
    template = core_v1.PodTemplateSpec(
        metadata=meta_v1.ObjectMeta(labels={"b": "1", "a": "2"}),
        spec=core_v1.PodSpec(containers=(core_v1.Container(name="main", image="app"),)),
    )
    data = data_of(template)
    assert json.dumps(data) == json.dumps(data, sort_keys=True)
    assert apps_v1.ControllerRevision(data=data).data["spec"]["template"]["$patch"] == "replace"
