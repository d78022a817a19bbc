"""Documents that clients have already: tags, dates, ranges, and names that hold for a year."""

from __future__ import annotations

import asyncio

import pytest
from multidict import CIMultiDict

from bayplan.apiserver.http.conditional import conditioned
from bayplan.apiserver.requests import Response
from tests.apiserver.serving import AS_RECORDED, Served, served

_DATE, _EARLIER, _LATER = (f"Thu, {day} Nov 2026 10:00:00 GMT" for day in (26, 19, 27))
_TAG = '"AB"'
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def document(**others: str) -> Response:
    headers = {"ETag": _TAG, "Last-Modified": _DATE, "Accept-Ranges": "bytes", "Vary": "Accept", **others}
    return Response(200, b"0123456789", "application/json", headers, is_final=True)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, 200),
        ({"If-None-Match": _TAG}, 304),
        ({"If-None-Match": f"W/{_TAG}"}, 304),
        ({"If-None-Match": f'"x", {_TAG}'}, 304),
        ({"If-None-Match": "*"}, 304),
        ({"If-None-Match": '"x"'}, 200),
        ({"If-None-Match": '"x"', "If-Modified-Since": _LATER}, 200),
        ({"If-Modified-Since": _DATE}, 304),
        ({"If-Modified-Since": _LATER}, 304),
        ({"If-Modified-Since": _EARLIER}, 200),
        ({"If-Modified-Since": "yesterday"}, 200),
        ({"If-Match": _TAG}, 200),
        ({"If-Match": f"W/{_TAG}"}, 412),
        ({"If-Match": '"x"'}, 412),
        ({"If-Unmodified-Since": _DATE}, 200),
        ({"If-Unmodified-Since": _EARLIER}, 412),
        ({"If-Match": _TAG, "If-Unmodified-Since": _EARLIER}, 200),
    ],
)
def test_conditions_are_looked_at_in_order(headers: dict[str, str], code: int) -> None:
    found = conditioned(document(), "GET", headers)
    assert found.code == code
    assert (found.body == b"") == (code != 200)
    if code == 304:
        assert (found.headers, found.content_type) == ({"ETag": _TAG, "Vary": "Accept"}, "")


def test_what_is_changed_by_a_request_that_is_no_read_must_not_be_there() -> None:
    assert conditioned(document(), "POST", {"If-None-Match": _TAG}).code == 412
    assert conditioned(document(), "POST", {"If-Modified-Since": _LATER}).code == 200


@pytest.mark.parametrize(
    ("wanted", "code", "body", "shown"),
    [
        ("bytes=0-2", 206, b"012", "bytes 0-2/10"),
        ("bytes=8-", 206, b"89", "bytes 8-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=5-99", 206, b"56789", "bytes 5-9/10"),
        ("bytes=10-", 416, b"invalid range: failed to overlap\n", "bytes */10"),
        ("bytes=3-1", 416, b"invalid range\n", None),
        ("bytes=x-", 416, b"invalid range\n", None),
        ("bytes=0-1,3-4", 200, b"0123456789", None),
        ("lines=0-1", 200, b"0123456789", None),
    ],
)
def test_one_range_is_given_alone(wanted: str, code: int, body: bytes, shown: str | None) -> None:
    found = conditioned(document(), "GET", {"Range": wanted})
    assert (found.code, found.body, found.headers.get("Content-Range")) == (code, body, shown)


def test_a_range_of_something_else_is_the_whole() -> None:
    for condition, code in ((_TAG, 206), ('"x"', 200), (_DATE, 206), (_EARLIER, 200)):
        assert conditioned(document(), "GET", {"Range": "bytes=0-0", "If-Range": condition}).code == code


def test_without_ranges_only_the_very_tag_counts() -> None:
    found = Response(200, b"{}", headers={"ETag": _TAG, "Cache-Control": "public"})
    assert conditioned(found, "GET", {"If-None-Match": _TAG}).code == 304
    for tag in ("*", f"W/{_TAG}", f'"x", {_TAG}'):
        assert conditioned(found, "GET", {"If-None-Match": tag}).code == 200


async def _get(server: Served, path: str, **headers: str) -> tuple[int, CIMultiDict[str], bytes]:
    sent = {**server.headers(), **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with server.session.get(server.url + path, headers=sent, allow_redirects=False) as answer:
        return answer.status, CIMultiDict(answer.headers), await answer.read()


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        ("/api", _AGGREGATED),
        ("/apis", _AGGREGATED),
        ("/openapi/v2", "application/json"),
        ("/openapi/v3/api/v1", "application/json"),
        ("/openapi/v3/apis/apps/v1", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"),
    ],
)
def test_a_client_that_has_a_document_is_not_sent_it_again(path: str, accept: str) -> None:
    async def run() -> None:
        async with served(AS_RECORDED) as server:
            code, headers, body = await _get(server, path, Accept=accept)
            assert (code, len(headers["ETag"])) == (200, 130)
            code, again, nothing = await _get(server, path, Accept=accept, If_None_Match=headers["ETag"])
            assert (code, nothing, again["ETag"]) == (304, b"", headers["ETag"])
            assert "Content-Type" not in again
            assert (await _get(server, path, Accept=accept, If_None_Match='"x"'))[2] == body

    asyncio.run(run())


def test_a_document_that_is_named_by_its_content_may_be_kept_and_a_former_name_leads_to_the_present_one() -> None:
    async def run() -> None:
        async with served(AS_RECORDED) as server:
            async with server.session.get(server.url + "/openapi/v3", headers=server.headers()) as answer:
                assert "Last-Modified" in answer.headers
                url = (await answer.json(content_type=None))["paths"]["apis/apps/v1"]["serverRelativeURL"]
            code, headers, _ = await _get(server, url)
            assert (code, headers["Cache-Control"], headers["Expires"][-3:]) == (200, "public, immutable", "UTC")
            code, headers, body = await _get(server, url + "X")
            assert (code, headers["Location"], body) == (301, url, b"")
            code, headers, _ = await _get(server, "/openapi/v3/apis/apps/v1")
            assert (code, headers["Cache-Control"]) == (200, "no-cache, private")

    asyncio.run(run())
