"""What the audit log says of requests over HTTPS: stages, levels, who and from where, refusals."""

from __future__ import annotations

import asyncio
import json
import re
import ssl

import pytest

from bayplan.api.errors import forbidden_error
from bayplan.apiserver.context import Call
from bayplan.support.timestamps import parse_rfc3339
from tests.apiserver.audit.recording import MAPS, Recorded, Tree, config_map, recorded, send

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
PROTOBUF = ("Accept", "application/vnd.kubernetes.protobuf")
METADATA: Tree = {"level": "Metadata"}
WHOLE: Tree = {"level": "RequestResponse"}


def test_a_request_is_recorded_when_it_comes_and_when_it_is_answered() -> None:
    async def main() -> None:
        async with recorded(METADATA) as (server, log):
            agent = ("User-Agent", "test/1")
            code, headers, _ = await send(server, "POST", f"{MAPS}?fieldManager=me&pretty=1", config_map(), [agent])
            received, complete = log.events
            assert code == 201
            assert headers["audit-id"] == received["auditID"] == complete["auditID"]
            assert UUID.fullmatch(headers["audit-id"])
            assert received == {
                "kind": "Event",
                "apiVersion": "audit.k8s.io/v1",
                "level": "Metadata",
                "auditID": headers["audit-id"],
                "stage": "RequestReceived",
                "requestURI": f"{MAPS}?fieldManager=me&pretty=1",
                "verb": "create",
                "user": {
                    "username": "gold-admin",
                    "uid": "gold-admin-uid",
                    "groups": ["system:masters", "system:authenticated"],
                },
                "sourceIPs": ["127.0.0.1"],
                "userAgent": "test/1",
                "objectRef": {"resource": "configmaps", "namespace": "default", "apiVersion": "v1"},
                "requestReceivedTimestamp": received["requestReceivedTimestamp"],
                "stageTimestamp": received["requestReceivedTimestamp"],
            }
            assert list(complete)[:7] == list(received)[:7]
            assert complete["objectRef"] == {**received["objectRef"], "name": "a"}
            assert complete["responseStatus"] == {"metadata": {}, "code": 201}
            assert complete["annotations"] == {
                "authorization.k8s.io/decision": "allow",
                "authorization.k8s.io/reason": "",
            }
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", complete["stageTimestamp"])
            assert parse_rfc3339(complete["stageTimestamp"]) >= parse_rfc3339(complete["requestReceivedTimestamp"])

    asyncio.run(main())


def test_the_short_way_of_repeated_requests_is_recorded_as_well() -> None:
    async def main() -> None:
        async with recorded(METADATA) as (server, log):
            ids = set()
            for _ in range(3):
                _, headers, body = await send(server, "GET", f"{MAPS}?limit=5&watch=false")
                ids.add(headers["audit-id"])
                assert json.loads(body)["kind"] == "ConfigMapList"
            assert len(ids) == 3
            assert {one["requestURI"] for one in log.events} == {f"{MAPS}?limit=5&watch=false"}
            assert log.stages() == [("list", "RequestReceived", 0), ("list", "ResponseComplete", 200)] * 3

    asyncio.run(main())


def test_a_client_may_name_its_requests_and_proxies_say_where_they_come_from() -> None:
    async def main() -> None:
        async with recorded(METADATA) as (server, log):
            proxied = [("X-Forwarded-For", "192.0.2.1, nobody, 2001:db8::1"), ("X-Real-Ip", "192.0.2.7")]
            for name in ("one", "two"):
                _, headers, _ = await send(server, "GET", MAPS, None, [("Audit-ID", name), *proxied])
                found = await log.last()
                assert headers["audit-id"] == found["auditID"] == name
                assert found["sourceIPs"] == ["192.0.2.1", "2001:db8::1", "192.0.2.7", "127.0.0.1"]
            await send(server, "GET", MAPS, None, proxied[:1])
            assert (await log.last())["sourceIPs"] == ["192.0.2.1", "2001:db8::1", "127.0.0.1"]

    asyncio.run(main())


def test_headers_that_are_no_text_do_no_harm() -> None:
    async def main() -> None:
        async with recorded(METADATA) as (server, log):
            reader, writer = await asyncio.open_connection(
                *server.url.removeprefix("https://").split(":"), ssl=_any_tls()
            )
            writer.write(
                b"GET /api/v1/namespaces/%FF HTTP/1.1\r\nHost: x\r\nUser-Agent: a\xff\r\nAudit-ID: b\xfe\r\nConnection: close\r\n\r\n"
            )
            answer = await reader.read()
            writer.close()
            found = await log.last()
            assert answer.startswith(b"HTTP/1.1 403")
            assert (found["userAgent"], found["auditID"]) == ("a\ufffd", "b\ufffd")
            assert found["objectRef"]["name"] == "\ufffd"

    asyncio.run(main())


def _any_tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _as(user: str) -> list[tuple[str, str]]:
    return [("Authorization", f"Bearer token-of-{user}")]


def test_objects_are_recorded_at_their_levels() -> None:
    async def main() -> None:
        users = {"Metadata": "bob", "Request": "carol", "RequestResponse": "dave"}
        rules = [{"level": level, "users": [user]} for level, user in users.items()]
        async with recorded(*rules, {"level": "None"}) as (server, log):
            for user in users.values():
                server.api.context.authenticator.add_token(f"token-of-{user}", user, ("system:masters",))
            await send(server, "POST", MAPS, config_map(x="<1>"), _as("bob"))
            found = await log.last()
            assert "requestObject" not in found
            await send(server, "PUT", f"{MAPS}/a", config_map(x="2"), _as("carol"))
            found = await log.last()
            assert found["level"] == "Request"
            assert found["requestObject"] == config_map(x="2")
            assert "responseObject" not in found
            await send(server, "GET", f"{MAPS}/a", None, _as("dave"))
            found = await log.last()
            assert found["responseObject"]["data"] == {"x": "2"}
            assert found["responseObject"]["metadata"]["managedFields"]
            assert "requestObject" not in found
            await send(server, "GET", f"{MAPS}/a")
            assert log.events == []

    asyncio.run(main())


def test_an_object_in_a_request_has_its_defaults_but_not_what_the_server_adds() -> None:
    async def main() -> None:
        async with recorded(WHOLE) as (server, log):
            await send(server, "POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
            log.events.clear()
            pod = {"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
            await send(server, "POST", "/api/v1/namespaces/default/pods", pod)
            found = await log.last()
            sent, answered = found["requestObject"], found["responseObject"]
            assert (sent["kind"], sent["apiVersion"]) == ("Pod", "v1")
            assert sent["spec"]["restartPolicy"] == "Always"
            assert sent["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
            assert "uid" not in sent["metadata"]
            assert "volumes" not in sent["spec"]
            assert answered["spec"]["volumes"]
            assert "name" not in found["objectRef"]
            assert found["annotations"]["pod-security.kubernetes.io/enforce-policy"] == "privileged:latest"

    asyncio.run(main())


def test_protobuf_and_yaml_are_recorded_as_json() -> None:
    async def main() -> None:
        async with recorded(WHOLE) as (server, log):
            yaml = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1'}\n"
            both = [("Content-Type", "application/yaml"), ("Accept", "application/yaml")]
            await send(server, "POST", MAPS, yaml, both)
            found = await log.last()
            assert found["requestObject"] == config_map(x="1")
            assert found["responseObject"]["data"] == {"x": "1"}
            for path, kind in ((f"{MAPS}/a", "ConfigMap"), (MAPS, "ConfigMapList"), (f"{MAPS}/b", "Status")):
                await send(server, "GET", path)
                plain = (await log.last())["responseObject"]
                _, headers, body = await send(server, "GET", path, None, [PROTOBUF])
                found = await log.last()
                assert headers["content-type"] == PROTOBUF[1]
                assert found["responseObject"] == plain
                assert plain["kind"] == kind
            _, _, body = await send(server, "GET", f"{MAPS}/a", None, [PROTOBUF])
            log.events.clear()
            await send(server, "PUT", f"{MAPS}/a", body, [("Content-Type", PROTOBUF[1])])
            found = await log.last()
            assert found["requestObject"]["data"] == {"x": "1"}
            assert found["objectRef"]["resourceVersion"] == found["requestObject"]["metadata"]["resourceVersion"]
            only = ("Accept", f"{PROTOBUF[1]};as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
            await send(server, "GET", f"{MAPS}/a", None, [only])
            found = (await log.last())["responseObject"]
            assert (found["kind"], found["metadata"]["name"]) == ("PartialObjectMetadata", "a")

    asyncio.run(main())


def test_patches_are_recorded_as_they_were_sent() -> None:
    async def main() -> None:
        async with recorded({"level": "Request"}, omitManagedFields=True) as (server, log):
            await send(server, "POST", MAPS, config_map())
            log.events.clear()
            for media_type, body, shown in (
                ("application/merge-patch+json", b'{ "data": {"x": "1"} }', {"data": {"x": "1"}}),
                ("application/json-patch+json", b"[]", []),
                ("application/apply-patch+yaml", b"apiVersion: v1\nkind: ConfigMap\n", _APPLIED),
            ):
                path = f"{MAPS}/a?fieldManager=me"
                code, _, _ = await send(server, "PATCH", path, body, [("Content-Type", media_type)])
                found = await log.last()
                assert (code, found["verb"], found["requestObject"]) == (200, "patch", shown)

    _APPLIED = {"apiVersion": "v1", "kind": "ConfigMap"}
    asyncio.run(main())


def test_the_options_of_a_deletion_are_its_object() -> None:
    async def main() -> None:
        async with recorded(WHOLE) as (server, log):
            await send(server, "POST", MAPS, config_map())
            log.events.clear()
            await send(server, "DELETE", f"{MAPS}/a", {"propagationPolicy": "Background"})
            found = await log.last()
            options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
            assert found["requestObject"] == options
            assert found["responseStatus"]["status"] == "Success"
            assert (found["responseStatus"]["code"], found["responseStatus"]["details"]["name"]) == (200, "a")
            await send(server, "DELETE", MAPS)
            assert (await log.last())["verb"] == "deletecollection"

    asyncio.run(main())


@pytest.mark.parametrize("accept", ["application/json", "application/json;as=Table;g=meta.k8s.io;v=v1"])
def test_managed_fields_are_left_out(accept: str) -> None:
    async def main() -> None:
        async with recorded(WHOLE, omitManagedFields=True) as (server, log):
            managed = {**config_map(), "metadata": {"name": "a", "managedFields": [{"manager": "m"}]}}
            await send(server, "POST", MAPS, managed)
            assert "managedFields" not in json.dumps(await log.last())
            for path in (MAPS, f"{MAPS}/a"):
                await send(server, "GET", path, None, [("Accept", accept)])
                found = await log.last()
                assert found["responseObject"]
                assert "managedFields" not in json.dumps(found)

    asyncio.run(main())


def test_a_watch_has_a_beginning_and_an_end() -> None:
    async def main() -> None:
        async with recorded(WHOLE) as (server, log):
            path = f"{MAPS}?watch=1&timeoutSeconds=30"
            async with server.session.get(server.url + path, headers=server.headers()) as answer:
                assert answer.headers["Audit-Id"] == log.events[0]["auditID"]
                assert log.stages() == [("watch", "RequestReceived", 0), ("watch", "ResponseStarted", 200)]
                assert "responseObject" not in log.events[1]
                answer.close()
        assert log.stages()[-1] == ("watch", "ResponseComplete", 200)

    asyncio.run(main())


def test_stages_are_left_out() -> None:
    async def main() -> None:
        async with recorded(METADATA, omitStages=["RequestReceived"]) as (server, log):
            await send(server, "GET", MAPS)
            await send(server, "GET", f"{MAPS}?watch=1&timeoutSeconds=1")
            assert [stage for _, stage, _ in log.stages()] == [
                "ResponseComplete",
                "ResponseStarted",
                "ResponseComplete",
            ]
            total = (await log.last())["annotations"]["apiserver.latency.k8s.io/total"]
            assert re.fullmatch(r"1(\.\d+)?s", total)

    asyncio.run(main())


def test_somebody_who_is_another() -> None:
    async def main() -> None:
        async with recorded({"level": "Metadata", "users": ["gold-admin"]}) as (server, log):
            headers = [("Impersonate-User", "bob"), ("Impersonate-Group", "g")]
            await send(server, "GET", MAPS, None, [*headers, ("Impersonate-Extra-Example.com%2Fscopes", "view")])
            received, complete = log.events
            assert "impersonatedUser" not in received
            assert complete["user"]["username"] == "gold-admin"
            groups = ["g", "system:authenticated"]
            extra = {"example.com/scopes": ["view"]}
            assert complete["impersonatedUser"] == {"username": "bob", "groups": groups, "extra": extra}
            assert complete["authenticationMetadata"] == {"impersonationConstraint": "impersonate:user-info"}
            assert complete["responseStatus"]["code"] == 403
            log.events.clear()
            await send(server, "GET", MAPS, None, [*headers, ("Impersonate-Extra-Scopes", "view")])
            assert "authenticationMetadata" not in await log.last()  # in the old way only

    asyncio.run(main())


def test_metrics_count_events_and_levels() -> None:
    async def main() -> None:
        async with recorded({"level": "None", "nonResourceURLs": ["/version"]}, METADATA) as (server, _):
            _, headers, _ = await send(server, "GET", "/version")
            assert UUID.fullmatch(headers["audit-id"])
            await send(server, "GET", MAPS)
            text = server.api.metrics.render()
            assert b"apiserver_audit_event_total 2\n" in text
            assert b'apiserver_audit_level_total{level="None"} 1\n' in text
            assert b'apiserver_audit_level_total{level="Metadata"} 1\n' in text

    asyncio.run(main())


def test_an_interceptors_refusal_and_deprecated_kinds() -> None:
    async def main() -> None:
        async with recorded(METADATA) as (server, log):
            await send(server, "GET", "/api/v1/namespaces/default/endpoints")
            assert (await log.last())["annotations"]["k8s.io/deprecated"] == "true"

            async def refuse(call: Call) -> None:
                raise forbidden_error("configmaps", "", "a", "no")

            server.api.interceptor = refuse
            await send(server, "GET", MAPS)
            assert (await log.last())["responseStatus"]["message"].endswith("no")

    asyncio.run(main())


def test_without_an_audit_log_answers_have_an_id_too() -> None:
    async def main() -> None:
        async with recorded(METADATA) as (server, log):
            server.api.auditor = None
            _, headers, _ = await send(server, "GET", MAPS)
            assert len(headers["audit-id"]) == 36
            assert isinstance(log, Recorded)
            assert log.events == []

    asyncio.run(main())
