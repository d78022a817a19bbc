"""Which form an Accept header gets."""

from __future__ import annotations

import pytest

from bayplan.api.errors import ApiError
from bayplan.apiserver.reads.negotiation import (
    JSON,
    PLAIN,
    PROTOBUF,
    YAML,
    clauses_by_quality,
    negotiate,
    negotiate_stream,
)
from tests.cpu_time import cpu_time_below


@pytest.mark.parametrize(
    ("accept", "media_type", "convert_to"),
    [
        ("", JSON, ""),
        ("*/*", JSON, ""),
        ("application/*,*/*", JSON, ""),
        (f"{PROTOBUF},application/json", PROTOBUF, ""),
        (f"application/json,{PROTOBUF}", JSON, ""),
        (f"application/json;q=0.5,{PROTOBUF}", PROTOBUF, ""),
        (f"{PROTOBUF};q=0.1, application/yaml;q=0.9", YAML, ""),
        ("application/cbor,application/json", JSON, ""),
        ("application/json;q=nonsense", JSON, ""),
        ("application/json;q=nonsense,application/yaml;q=0.1", YAML, ""),
        ("a/b/c,nothing,application/yaml", YAML, ""),
        ("*/*,application/yaml", YAML, ""),
        ("application/yaml ; q = 0.9 , application/json;q=0.2", JSON, ""),
        ("application/json;v=v1,application/yaml;q=0.1", YAML, ""),
        ("application/json;sv=v2,application/yaml;q=0.1", YAML, ""),
        ("application/json;stream=x,application/yaml;q=0.1", YAML, ""),
        ("application/json;as=Table;v=v1;g=meta.k8s.io;q=0.1,application/yaml;q=0.2", YAML, ""),
        (f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1", PROTOBUF, "PartialObjectMetadata"),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", JSON, "Table"),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", JSON, "Table"),
        ("application/json;as=Table;v=v2;g=meta.k8s.io,application/json", JSON, ""),
        ("application/json;as=Nosuch;v=v1;g=meta.k8s.io,application/json", JSON, ""),
    ],
)
def test_the_first_form_that_can_be_given(accept: str, media_type: str, convert_to: str) -> None:
    form = negotiate(accept)
    assert (form.media_type, form.convert_to) == (media_type, convert_to)


def test_the_usual_form_is_one_object() -> None:
    assert negotiate("") is negotiate("application/json") is PLAIN


@pytest.mark.parametrize(
    "accept",
    [
        *("text/html", "application/cbor", ";", ",", "*", "application/*", "Application/JSON"),
        *("application/json;as=Nosuch;v=v1;g=x", "application/json;g=meta.k8s.io", "application/yaml;stream=watch"),
    ],
)
def test_what_cannot_be_given_is_refused(accept: str) -> None:
    with pytest.raises(ApiError) as caught:
        negotiate(accept)
    assert caught.value.code == 406
    assert PROTOBUF in caught.value.message


def test_long_lists_of_types_cost_little() -> None:
    accept = ",".join(f"a/b;q={number / 100_000:.5f}" for number in range(8000))
    with cpu_time_below(0.5):
        clauses = clauses_by_quality(accept)
    assert [clause.quality for clause in clauses] == sorted((clause.quality for clause in clauses), reverse=True)


def test_watches_come_as_json_or_protobuf() -> None:
    assert negotiate_stream(f"{PROTOBUF};stream=watch").media_type == PROTOBUF
    assert negotiate_stream("application/json;stream=watch").media_type == JSON
    with pytest.raises(ApiError):
        negotiate_stream("application/yaml")
