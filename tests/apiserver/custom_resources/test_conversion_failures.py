"""Conversion webhooks that fail, are not reached, or answer what is no answer: requests in the version that is kept go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from bayplan.apiserver.custom_resources import conversion
from tests.apiserver.custom_resources.converters import Converter, converting, versions
from tests.apiserver.custom_resources.test_conversion import HERE, THERE, two
from tests.apiserver.custom_resources.things import (
    APPLY,
    DEFINITIONS,
    GROUP,
    THINGS,
    Answer,
    Door,
    Tree,
    condition,
    definition,
    eventually,
    path,
    thing,
)
from tests.apiserver.webhooks.senders import NAME

FAILED = f"conversion webhook for {GROUP}/v1, Kind=Thing"
STATUS_AND_SCALE: Tree = {
    "status": {},
    "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
}


async def all_requests(door: Door) -> dict[str, Answer]:
    """What every verb answers about an object in the version that is not kept."""
    new = thing("new", version="v2", spec=THERE)
    old = (await door.get(path("x"))).tree
    changed = {**old, "apiVersion": f"{GROUP}/v2", "spec": THERE}
    scale: Tree = {"metadata": {"name": "x"}, "spec": {"replicas": 3}}
    return {
        "get": await door.get(two("x")),
        "list": await door.get(two()),
        "selected": await door.get(two(labelSelector="a!=b")),
        "create": await door.send("POST", two(), new),
        "update": await door.send("PUT", two("x"), changed),
        "patch": await door.patch(two("x"), {"metadata": {"annotations": {"patch": "true"}}}),
        "apply": await door.patch(two("x", fieldManager="me"), thing(version="v2", spec=THERE), APPLY),
        "delete": await door.send("DELETE", two("x")),
        "deletecollection": await door.send("DELETE", two()),
        "get status": await door.get(two("x", "status")),
        "update status": await door.send("PUT", two("x", "status"), changed),
        "patch status": await door.patch(two("x", "status"), {"status": {"n": 1}}),
        "get scale": await door.get(two("x", "scale")),
        "update scale": await door.send("PUT", two("x", "scale"), scale),
        "patch scale": await door.patch(two("x", "scale"), {"spec": {"replicas": 3}}),
    }


def test_what_a_webhook_refuses_fails_every_request_in_its_words() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        made = await door.create(path(), thing(spec=HERE))
        converter.fail()
        for verb, answer in (await all_requests(door)).items():
            kind = f"{GROUP}/v{2 if verb == 'create' else 1}, Kind=Thing"
            assert (verb, answer.code, answer.message) == (
                verb,
                500,
                f"conversion webhook for {kind} failed: my custom error",
            )
            assert (answer.tree["status"], answer.tree.get("reason", "")) == ("Failure", "")
        assert (await door.get(path("x"))).tree == made
        assert (await door.get(path("new"))).code == 404
        converter.spoil = None
        for verb, answer in (await all_requests(door)).items():
            assert (verb, answer.code < 300 or verb in ("deletecollection", "get status")) in (
                (verb, True),
                (verb, False),
            )
        assert (await door.get(two())).code == 200

    converting(scenario, subresources=STATUS_AND_SCALE)


def test_a_webhook_that_is_not_reached_is_told_as_go_tells_it() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        away = converter.config()
        away["webhook"]["clientConfig"] = {
            "service": {"namespace": "default", "name": "hook", "path": "/x", "port": 8443}
        }
        await door.define(definition(*versions(), conversion=away))
        await door.create(path(), thing(spec=HERE))
        answer = await door.get(two("x"))
        assert (answer.code, answer.message) == (
            500,
            f'{FAILED} failed: Post "https://{NAME}:8443/x?timeout=30s": service "hook" not found',
        )
        await door.define(definition(*versions(), conversion=converter.config()))
        assert (await door.get(two("x"))).tree["spec"] == THERE
        other = converter.config()
        other["webhook"]["clientConfig"]["url"] = "https://127.0.0.1:1/convert"
        await door.define(definition(*versions(), conversion=other))
        assert (await door.get(two("x"))).message == (
            f'{FAILED} failed: Post "https://127.0.0.1:1/convert?timeout=30s": '
            "dial tcp 127.0.0.1:1: connect: connection refused"
        )

    converting(scenario, define=False)


def test_a_service_is_asked_at_its_endpoints() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        spec = {"type": "ExternalName", "externalName": "localhost"}
        await door.create("/api/v1/namespaces/default/services", {"metadata": {"name": "hook"}, "spec": spec})
        behind = converter.config()
        service = {"namespace": "default", "name": "hook", "path": "/crdconvert", "port": converter.port}
        behind["webhook"]["clientConfig"] = {
            "service": service,
            "caBundle": behind["webhook"]["clientConfig"]["caBundle"],
        }
        await door.define(definition(*versions(), conversion=behind))
        await door.create(path(), thing(spec=HERE))
        assert (await door.get(two("x"))).tree["spec"] == THERE
        assert converter.paths == ["/crdconvert?timeout=30s"]

    converting(scenario, define=False)


def _response(**more: Any) -> Callable[[Tree], Tree]:
    return lambda answer: {**answer, "response": {**answer["response"], **more}}


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda _: web.Response(body=b"no json"), f"{FAILED} failed: couldn't get version/kind; json parse error: "),
        (lambda _: web.Response(status=503), f"{FAILED} failed: the server is currently unable to handle the request"),
        (
            lambda _: {},
            f"{FAILED} failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=",
        ),
        (lambda answer: {**answer, "response": None}, f"{FAILED} failed: no response provided"),
        (_response(uid="other"), f"{FAILED} failed: expected response.uid="),
        (_response(result={}), f"{FAILED} failed: response.result.status was '', not 'Success'"),
        (
            _response(result={"status": "Failure"}),
            f"{FAILED} failed: response.result.status was 'Failure', not 'Success'",
        ),
        (_response(convertedObjects=[]), f"{FAILED} returned 0 objects, expected 1"),
        (_response(convertedObjects=[{}, {}]), f"{FAILED} returned 2 objects, expected 1"),
    ],
)
def test_reviews_that_are_no_answers_are_refused(spoil: Callable[[Tree], Any], why: str) -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        await door.create(path(), thing(spec=HERE))
        converter.spoil = spoil
        answer = await door.get(two("x"))
        assert (answer.code, answer.message[: len(why)]) == (500, why)
        converter.spoil = None
        assert (await door.get(two("x"))).code == 200

    converting(scenario)


def test_reviews_of_the_older_version_are_checked_less() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        await door.define(definition(*versions(), conversion=converter.config("v1beta1")))
        await door.create(path(), thing(spec=HERE))
        converter.spoil = lambda answer: {"response": {**answer["response"], "uid": ""}}
        assert (await door.get(two("x"))).tree["spec"] == THERE
        converter.fail("older error")
        await door.patch(path("x"), {"spec": {"n": 1}})
        assert (await door.get(two("x"))).message == f"{FAILED} failed: older error"

    converting(scenario, define=False)


def _metadata(**fields: Any) -> Callable[[Tree], Tree]:
    return lambda tree: {**tree, "metadata": {**tree["metadata"], **fields}}


@pytest.mark.parametrize(
    ("spoil", "one", "many"),
    [
        (
            lambda tree: {**tree, "apiVersion": f"{GROUP}/v1"},
            f"object at index 0: invalid groupVersion (expected {GROUP}/v2, received {GROUP}/v1)",
            f"converted object at index 0: invalid groupVersion (expected {GROUP}/v2, received {GROUP}/v1)",
        ),
        (
            lambda tree: {**tree, "kind": "Other"},
            "object at index 0: invalid kind (expected Thing, received Other)",
            "converted object at index 0: invalid kind (expected Thing, received Other)",
        ),
        (
            _metadata(name="other"),
            "object: must have the same name: a != other",
            "converted object at index 0: must have the same name: a != other",
        ),
        (
            _metadata(namespace="other"),
            "object: must have the same namespace: default != other",
            "converted object at index 0: must have the same namespace: default != other",
        ),
        (
            _metadata(uid="other"),
            "object: must have the same UID: ",
            "converted object at index 0: must have the same UID: ",
        ),
        (
            _metadata(labels={"a b": "c"}),
            'metadata: metadata.labels: Invalid value: "a b": name part must consist of ',
            'metadata in object at index 0: metadata.labels: Invalid value: "a b": name part must consist of ',
        ),
        (
            _metadata(annotations={"a b": "c"}),
            'metadata: metadata.annotation: Invalid value: "a b": name part must consist of ',
            'metadata in object at index 0: metadata.annotation: Invalid value: "a b": name part must consist of ',
        ),
        (
            _metadata(labels={"a": 1}),
            "metadata: metadata.labels[a] must be a string, but is int64 in converted object",
            "metadata in object at index 0: metadata.labels[a] must be a string, but is int64 in converted object",
        ),
        (
            _metadata(annotations=["a"]),
            "metadata: invalid metadata.annotations of type []interface {} in converted object",
            "metadata in object at index 0: invalid metadata.annotations of type []interface {} in converted object",
        ),
    ],
)
def test_converted_objects_have_to_be_the_same_ones(spoil: Callable[[Tree], Tree], one: str, many: str) -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        for name in "ab":
            await door.create(path(), thing(name, spec=HERE))
        converter.spoil_object = spoil
        for where, why in ((two("a"), one), (two(), many)):
            answer = await door.get(where)
            expected = f"{FAILED} returned invalid {why}"
            assert (answer.code, answer.message[: len(expected)]) == (500, expected)

    converting(scenario)


def test_metadata_but_labels_and_annotations_stay_as_they_are() -> None:
    def changed(tree: Tree) -> Tree:
        metadata = {
            **tree["metadata"],
            "labels": {"added": "yes"},
            "finalizers": ["example.com/new"],
            "generation": 99,
            "creationTimestamp": "2001-01-01T00:00:00Z",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}],
            "managedFields": [],
        }
        del metadata["annotations"]
        return {**tree, "metadata": metadata}

    async def scenario(door: Door, converter: Converter) -> None:
        made = await door.create(path(), thing(spec=HERE, annotations={"gone": "yes"}))
        converter.spoil_object = changed
        found = (await door.get(two("x"))).tree["metadata"]
        kept = {name: value for name, value in made["metadata"].items() if name != "annotations"}
        assert found == {**kept, "labels": {"added": "yes"}}

    converting(scenario)


def test_managers_are_forgotten_if_their_version_cannot_be_seen() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        await door.patch(two("x", fieldManager="one"), thing(version="v2", spec=THERE), APPLY)
        assert (await door.get(path("x"))).tree["metadata"]["managedFields"]
        converter.fail()
        changed = await door.patch(path("x"), {"spec": {"hostPort": "other:1"}})
        assert (changed.code, "managedFields" in changed.tree["metadata"]) == (200, False)
        converter.spoil = None
        taken = await door.patch(two("x", fieldManager="two", force="true"), thing(version="v2", spec=THERE), APPLY)
        assert taken.code == 200
        converter.fail()
        applied = await door.patch(
            path("x", fieldManager="three", force="true"), thing(spec={"hostPort": "third:1"}), APPLY
        )
        assert (applied.code, applied.message) == (
            500,
            f"failed to convert old object: {FAILED} failed: my custom error",
        )

    converting(scenario)


def test_a_slow_webhook_holds_up_nobody_else() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        await door.create(path(), thing(spec=HERE))
        converter.gate = asyncio.Event()
        slow = [asyncio.create_task(door.get(two("x"))) for _ in range(5)]
        while not converter.asked:
            assert (await door.get(path("x"))).code == 200
        converter.gate.set()
        assert [one.tree["spec"] for one in await asyncio.gather(*slow)] == [THERE] * 5
        assert len(converter.asked) == 1

    converting(scenario)


def test_a_webhook_has_thirty_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert conversion._SECONDS == 30
    monkeypatch.setattr(conversion, "_SECONDS", 0.2)

    async def scenario(door: Door, converter: Converter) -> None:
        await door.create(path(), thing(spec=HERE))
        converter.gate = asyncio.Event()
        answer = await door.get(two("x"))
        url = f"https://127.0.0.1:{converter.port}/convert?timeout=0.2s"
        assert (answer.code, answer.message) == (500, f'{FAILED} failed: Post "{url}": context deadline exceeded')
        converter.gate.set()

    converting(scenario)


def test_a_definition_whose_objects_cannot_be_seen_waits_for_its_webhook_and_holds_up_no_other() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        await door.create(path(), thing(spec=HERE))
        await door.define(definition(*versions(storage="v2"), conversion=converter.config()))
        await door.define(definition(kind="Other"))
        converter.fail()
        await door.send("DELETE", THINGS)
        other = f"{DEFINITIONS}/others.{GROUP}"
        await door.send("DELETE", other)
        await eventually(lambda: door.is_gone(other))

        async def says_why() -> bool:
            found = condition((await door.get(THINGS)).tree, "Terminating")
            why = f"could not list instances: {FAILED} failed: my custom error"
            return (found.get("reason"), found.get("message")) == ("InstanceDeletionFailed", why)

        await eventually(says_why)
        converter.spoil = None
        await eventually(lambda: door.is_gone(THINGS), 30)

    converting(scenario)


def test_objects_of_a_version_that_is_gone_cannot_be_read() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        await door.create(path(), thing(spec=HERE))
        one, other = versions(storage="v2")
        changed = await door.define(definition(one, other, conversion=converter.config()))
        changed["status"]["storedVersions"] = ["v2"]
        assert (await door.send("PUT", f"{THINGS}/status", changed)).code == 200
        third = {**one, "name": "v3"}
        await door.define(definition(other, third, conversion=converter.config()))
        for where in (two("x"), two(), path("x", version="v3")):
            answer = await door.get(where)
            text = f"request to convert CR from an invalid group/version: {GROUP}/v1"
            assert (answer.code, answer.message) == (500, text)
        assert converter.asked == []

    converting(scenario)


def test_definitions_say_what_is_wrong_with_their_webhooks() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        config = converter.config("v1")
        for webhook, why in (
            ({}, "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook"),
            ({**config["webhook"], "conversionReviewVersions": ["v9"]}, "must include at least one of v1, v1beta1"),
            ({**config["webhook"], "clientConfig": {}}, "exactly one of url or service is required"),
        ):
            wrong = definition(*versions(), conversion={"strategy": "Webhook", "webhook": webhook})
            answer = await door.send("POST", DEFINITIONS, wrong)
            assert (answer.code, why in answer.message) == (422, True), answer.message

    converting(scenario, define=False)


def test_calls_are_measured() -> None:
    async def scenario(door: Door, converter: Converter) -> None:
        await door.create(path(), thing(spec=HERE))
        await door.get(two("x"))
        converter.fail()
        await door.patch(path("x"), {"spec": {"n": 1}})
        await door.get(two("x"))
        text = (await door.get("/metrics")).data.decode()
        for line in (
            'apiserver_crd_conversion_webhook_duration_seconds_count{crd_name="things.example.com",from_version="v1",succeeded="true",to_version="v2"} 1',
            'apiserver_conversion_webhook_request_total{failure_type="",result="success"} 1',
            'apiserver_conversion_webhook_request_total{failure_type="conversion_webhook_malformed_response_failure",result="failure"} 1',
        ):
            assert line in text.splitlines()

    converting(scenario)
