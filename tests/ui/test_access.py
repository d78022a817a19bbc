"""Who may use the page."""

from __future__ import annotations

import pytest

from bayplan.support.randomness import SeededRandomness
from bayplan.ui.access import POLICY, Access
from bayplan.ui.errors import RequestError

PORT = 4567


@pytest.fixture
def access() -> Access:
    return Access(SeededRandomness(1), PORT)


def test_the_url_has_the_token_and_the_cookie_another_secret(access: Access) -> None:
    assert access.takes_token(access.url.partition("token=")[2])
    value = access.cookie.partition("=")[2].partition(";")[0]
    assert access.takes_cookie(value)
    assert not access.takes_token(value)
    assert not access.takes_cookie(access.token)
    assert not access.takes_token("")
    assert not access.takes_cookie("ü")


def test_scripts_cannot_read_the_cookie_nor_other_sites_send_it(access: Access) -> None:
    assert "; HttpOnly" in access.cookie
    assert "; SameSite=Strict" in access.cookie


def test_the_policy_allows_no_inline_script_no_eval_and_no_other_origin() -> None:
    assert "unsafe" not in POLICY
    assert "http" not in POLICY
    assert "default-src 'none'" in POLICY


@pytest.mark.parametrize("host", ["127.0.0.1:4567", "localhost:4567"])
def test_own_names_are_taken(access: Access, host: str) -> None:
    access.check_origin("GET", {"Host": host, "Origin": f"http://{host}"})


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {}, 421),
        ("GET", {"Host": "evil.example:4567"}, 421),
        ("GET", {"Host": "127.0.0.1:80"}, 421),
        ("GET", {"Host": "127.0.0.1"}, 421),
        ("GET", {"Host": "127.0.0.1:4567", "Origin": "http://evil.example"}, 403),
        ("GET", {"Host": "127.0.0.1:4567", "Origin": "null"}, 403),
        (
            "POST",
            {"Host": "127.0.0.1:4567", "Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"},
            403,
        ),
        ("POST", {"Host": "127.0.0.1:4567", "Content-Type": "text/plain"}, 415),
        ("POST", {"Host": "127.0.0.1:4567"}, 415),
    ],
)
def test_others_are_refused(access: Access, method: str, headers: dict[str, str], status: int) -> None:
    with pytest.raises(RequestError) as refused:
        access.check_origin(method, headers)
    assert refused.value.status == status
