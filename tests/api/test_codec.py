"""Decoding: strict first, repaired where Kubernetes forgives; types that encode as Go does."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import bayplan.api.types
from bayplan.api import schema
from bayplan.api.codec import (
    KINDS_WITH_NULL_LISTS,
    DecodeError,
    decode,
    decode_reporting,
    encode,
    field_problems,
    may_repeat_fields,
    takes_more_than,
    with_null_lists,
)
from bayplan.api.kinds import BUILT_IN, DEFAULT_KINDS, Kind, KindTable
from bayplan.api.types import apps_v1, core_v1, rbac_v1
from bayplan.api.types.scalars import always_list

MODULES = sorted(path.stem for path in Path(bayplan.api.types.__file__).parent.glob("*_v*.py"))


@pytest.mark.parametrize("module", MODULES)
def test_every_generated_type_encodes_and_decodes_when_empty(module: str) -> None:
    loaded = importlib.import_module(f"bayplan.api.types.{module}")
    structs = [one for _, one in inspect.getmembers(loaded, inspect.isclass) if issubclass(one, msgspec.Struct)]
    assert structs
    for one in structs:
        assert decode(one, encode(one())) == one()


@pytest.mark.parametrize("module", MODULES)
def test_every_field_of_a_generated_type_is_in_the_schema(module: str) -> None:
    loaded = importlib.import_module(f"bayplan.api.types.{module}")
    for _, one in inspect.getmembers(loaded, inspect.isclass):
        if (
            issubclass(one, msgspec.Struct)
            and one.__module__ == loaded.__name__
            and schema.definition_of(one) in schema.definitions()
        ):
            properties = schema.definitions()[schema.definition_of(one)].get("properties", {})
            assert set(one.__struct_encode_fields__) == set(properties)


def test_every_kind_has_a_type_and_a_place_of_its_own() -> None:
    places: dict[str, Kind] = {}
    for kind in BUILT_IN:
        assert kind.type.__name__ == kind.kind
        assert DEFAULT_KINDS.of_type(kind.type) is kind
        if kind.is_stored and DEFAULT_KINDS.storage_kind(kind) is kind:
            assert places.setdefault(kind.storage_prefix, kind) is kind


def test_a_table_takes_further_kinds_without_touching_the_built_in_ones() -> None:
    table = KindTable()
    extra = BUILT_IN[0].__class__("example.com", "v1", "Widget", "widgets", True)
    table.add(extra)
    assert table.of_resource("example.com", "v1", "widgets") is extra
    assert DEFAULT_KINDS.of_resource("example.com", "v1", "widgets") is None
    table.remove(extra)
    assert table.of_kind("example.com/v1", "Widget") is None


def test_unknown_fields_are_dropped_and_named() -> None:
    data = {"metadata": {"name": "x", "Name": "y"}, "spec": {"containers": [{"name": "c", "imgae": "i"}]}, "extra": 1}
    pod, dropped = decode_reporting(core_v1.Pod, json.dumps(data).encode())
    assert pod.metadata.name == "x"
    assert dropped == [
        'unknown field "metadata.Name"',
        'unknown field "spec.containers[0].imgae"',
        'unknown field "extra"',
    ]


def test_nulls_count_as_missing() -> None:
    data = b'{"metadata":{"name":"x","labels":null,"creationTimestamp":null},"spec":{"containers":null,"nodeSelector":{"a":null}}}'
    pod = decode(core_v1.Pod, data)
    assert pod.metadata.labels == {}
    assert pod.spec.containers == ()
    assert pod.spec.node_selector == {"a": ""}


def test_a_value_of_the_wrong_type_names_its_field() -> None:
    with pytest.raises(DecodeError, match=r"spec\.nodeName"):
        decode(core_v1.Pod, b'{"spec":{"nodeName":5}}')


@pytest.mark.parametrize("data", [b"", b"[]", b"5", b'{"a"', b'{"metadata":{}}{}'])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(core_v1.Pod, data)


def test_duplicate_keys_are_found_with_their_path_in_the_order_of_the_document() -> None:
    assert field_problems(b'{"a":1,"b":{"c":1,"c":2,"c":3},"a":2,"l":[{"d":1,"d":1}]}') == [
        'duplicate field "b.c"',
        'duplicate field "a"',
        'duplicate field "l[0].d"',
    ]


def test_unknown_and_duplicate_fields_are_told_in_one_list() -> None:
    data = b'{"spec":{"x":{"y":1,"y":2},"b":1,"b":2},"z":1}'
    unknown = ['unknown field "z"', 'unknown field "spec.x"', 'unknown field "elsewhere"']
    assert field_problems(b'{"z":%s}' % (b"9" * 5000), unknown[:1]) == unknown[:1]
    assert field_problems(data, unknown) == [
        'unknown field "spec.x"',
        'duplicate field "spec.b"',
        'unknown field "z"',
        'unknown field "elsewhere"',
    ]


@pytest.mark.parametrize(
    ("data", "may"),
    [
        (b'{"a": 1, "b": [{"a": 2}]}', False),
        (b'{"a":1,"a":1}', True),
        (b'{"l": [{"d": {}, "d": {}}]}', True),
        (b'{\r\n\t"a": "x y",\r\n\t"b": "a\\tb"\r\n}', False),
        (b'{\r\n\t"a": "x y",\r\n\t"a": "x y"\r\n}', True),
    ],
)
def test_a_quick_look_says_whether_keys_may_stand_twice(data: bytes, may: bool) -> None:
    assert may_repeat_fields(data) is may


def test_what_go_leaves_out_is_left_out_and_what_it_always_writes_is_written() -> None:
    assert json.loads(encode(core_v1.Pod())) == {
        "metadata": {},
        "spec": {"containers": []},
        "status": {},
    } or json.loads(encode(core_v1.Pod())) == {"metadata": {}, "spec": {"containers": None}, "status": {}}
    assert json.loads(encode(core_v1.ContainerStatus(name="c")))["restartCount"] == 0
    assert json.loads(encode(core_v1.PodCondition(type="Ready", status="True")))["lastProbeTime"] is None


def test_managed_fields_keep_their_content() -> None:
    entry = b'{"manager":"m","operation":"Apply","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{}}}}'
    data = b'{"metadata":{"name":"a","managedFields":[%b]}}' % entry
    assert entry in encode(decode(core_v1.ConfigMap, data))


def test_a_null_list_is_read_as_an_empty_one() -> None:
    for text in (b'{"rules":null}', b'{"rules":[]}', b"{}"):
        assert decode(rbac_v1.Role, text).rules == ()
    assert with_null_lists("Role", b'{"metadata":{"name":"\\"rules\\":[]"},"rules":[]}') == (
        b'{"metadata":{"name":"\\"rules\\":[]"},"rules":null}'
    )


def structs_in(hint: Any, seen: set[Any]) -> set[Any]:
    """The classes of objects that a type is made of."""
    for one in (hint, *get_args(hint)):
        if isinstance(one, type) and issubclass(one, msgspec.Struct) and one not in seen:
            seen.add(one)
            for field in msgspec.structs.fields(one):
                structs_in(field.type, seen)
        elif one is not hint:
            structs_in(one, seen)
    return seen


def test_all_lists_that_are_null_when_empty_are_written_so() -> None:
    names: dict[str, set[str]] = {}
    for kind in BUILT_IN:
        for field in (one for struct in structs_in(kind.type, set()) for one in msgspec.structs.fields(struct)):
            if field.default_factory is always_list and type(None) in get_args(field.type):
                names.setdefault(kind.kind, set()).add(field.encode_name)
    assert names.keys() == KINDS_WITH_NULL_LISTS
    for kind_name, lists in names.items():
        data = b",".join(b'"%b":[]' % name.encode() for name in lists)
        assert with_null_lists(kind_name, data) == data.replace(b"[]", b"null")


def test_a_number_of_many_digits_in_what_is_no_json_is_a_decode_error() -> None:
    for data in (b'{"spec":{"replicas":%b x}}', b'{"spec":%b', b'{"spec":[%b\x04]}', b"%b}"):
        with pytest.raises(DecodeError):
            decode_reporting(apps_v1.Deployment, data % (b"9" * 500))


@pytest.mark.parametrize("count", [0, 3, 10_001, 25_000])
def test_an_object_takes_more_than_one_byte_less_than_it_takes(count: int) -> None:
    claims = tuple(core_v1.PersistentVolumeClaim() for _ in range(count))
    obj = apps_v1.StatefulSet(spec=apps_v1.StatefulSetSpec(volume_claim_templates=claims))
    size = len(encode(obj))
    assert takes_more_than(obj, size - 1)
    assert not takes_more_than(obj, size)
    assert takes_more_than(obj, size // 10)


def test_bytes_may_come_as_numbers() -> None:
    data = b'{"data": {"a": [1, 255, null], "b": [], "c": "eA=="}}'
    secret, dropped = decode_reporting(core_v1.Secret, data)
    assert (secret.data, dropped) == ({"a": "Af8A", "b": "", "c": "eA=="}, [])


@pytest.mark.parametrize(
    ("item", "what"),
    [
        ('"x"', "string"),
        ("256", "number 256"),
        ("-1", "number -1"),
        ("1.0", "number 1.0"),
        ("true", "bool"),
        ("{}", "object"),
    ],
)
def test_bytes_as_anything_but_small_numbers_are_refused(item: str, what: str) -> None:
    text = f"json: cannot unmarshal {what} into Go struct field Secret.data of type uint8"
    with pytest.raises(DecodeError, match=re.escape(text)):
        decode_reporting(core_v1.Secret, b'{"data": {"a": [1, %b]}}' % item.encode())
