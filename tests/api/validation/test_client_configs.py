"""Where webhooks are."""

from __future__ import annotations

import pytest

from bayplan.api.errors import FieldError
from bayplan.api.types import admissionregistration_v1
from bayplan.api.validation.client_configs import check_service, check_url

FORM = "; desired format: https://host[/path]"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.com:443/a", []),
        ("https://", [f'Invalid value: "": host must be specified{FORM}']),
        ("https://a?b=c", ['Invalid value: "b=c": query parameters are not permitted in the URL']),
        ("https://me:pw@a", ['Invalid value: "me:pw": user information is not permitted in the URL']),
        (":a", [f'Required value: url must be a valid URL: parse ":a": missing protocol scheme{FORM}']),
        (
            "https://a b",
            [f'Required value: url must be a valid URL: parse "https://a b": invalid character " " in host name{FORM}'],
        ),
        (
            "https://a/%z",
            [f'Required value: url must be a valid URL: parse "https://a/%z": invalid URL escape "%z"{FORM}'],
        ),
        (
            "https://[::1",
            [f"Required value: url must be a valid URL: parse \"https://[::1\": missing ']' in host{FORM}"],
        ),
        (
            "1a:b",
            [
                f'Required value: url must be a valid URL: parse "1a:b": first path segment in URL cannot contain colon{FORM}'
            ],
        ),
    ],
)
def test_urls(url: str, expected: list[str]) -> None:
    errors: list[FieldError] = []
    check_url(errors, "url", url)
    assert [str(error) for error in errors] == [f"url: {one}" for one in expected]


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        ({"name": "s", "namespace": "n", "path": "/a/b/", "port": 8443}, []),
        ({"name": "", "namespace": "n"}, ["namespace: Required value"]),
        ({"name": "s", "namespace": ""}, ["name: Required value"]),
        ({"name": "s", "namespace": "n", "path": "//"}, ['path: Invalid value: "//": segment[0] may not be empty']),
        (
            {"name": "s", "namespace": "n", "path": "a"},
            [
                "path: Invalid value: \"a\": must start with a '/'",
                'path: Invalid value: "a": segment[0] may not be empty',
            ],
        ),
        (
            {"name": "s", "namespace": "n", "path": "/a/B"},
            ['path: Invalid value: "/a/B": segment[1]: a lowercase RFC 1123 subdomain'],
        ),
        (
            {"name": "s", "namespace": "n", "port": 0},
            ["port: Invalid value: 0: port is not valid: must be between 1 and 65535"],
        ),
    ],
)
def test_services(service: dict[str, str | int], expected: list[str]) -> None:
    errors: list[FieldError] = []
    check_service(errors, "s", admissionregistration_v1.ServiceReference(**service))  # type: ignore[arg-type]
    found = [str(error).removeprefix("s.") for error in errors]
    assert len(found) == len(expected)
    assert all(map(str.startswith, found, expected))
