"""Media types of bodies, as long as a head may be."""

from __future__ import annotations

import pytest

from bayplan.apiserver.writes.body_errors import media_type_of
from tests.cpu_time import cpu_time_below


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("", "application/json"),
        ("application/yaml;", "application/yaml"),
        ('Application/JSON ; charset="a\\"b" ;x = y', "application/json"),
        ("application/json; charset", ""),
        ("application/json;a=b" + " " * 500_000 + "x", ""),
        ("application/json;" + " " * 500_000 + "x", ""),
        ("application/json" + ";a=b" * 200_000 + ";", "application/json"),
        ('application/json;a="' + "\\x" * 300_000, ""),
    ],
    ids=lambda value: value[:24],
)
def test_parameters_are_read_once(given: str, found: str) -> None:
    with cpu_time_below(0.5):
        assert media_type_of(given) == found
