"""Field selectors: syntax, matching, error texts."""

from __future__ import annotations

import pytest

from bayplan.api.selectors.fields import parse_fields
from bayplan.api.selectors.labels import SelectorError


@pytest.mark.parametrize(
    ("text", "fields", "matches"),
    [
        ("", {}, True),
        ("spec.nodeName=", {}, True),
        ("metadata.name=a,status.phase!=Failed", {"metadata.name": "a", "status.phase": "Running"}, True),
        ("metadata.name==b", {"metadata.name": "a"}, False),
        (r"a=x\,y", {"a": "x,y"}, True),
        (r"a=x\=y", {"a": "x=y"}, True),
    ],
)
def test_field_selectors_match(text: str, fields: dict[str, str], matches: bool) -> None:
    selector = parse_fields(text)
    assert selector.matches(fields) is matches
    assert parse_fields(str(selector)) == selector


@pytest.mark.parametrize("text", ["a", r"a=b\x", "a=b=c"])
def test_broken_field_selectors_are_refused(text: str) -> None:
    with pytest.raises(SelectorError, match="invalid"):
        parse_fields(text)
