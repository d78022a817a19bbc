"""Copies that share what is not their own."""

from __future__ import annotations

import msgspec
import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.writes.shared_parts import OpaqueError, copy_of


def pod() -> core_v1.Pod:
    env = (core_v1.EnvVar(name="A", value="~1~"), core_v1.EnvVar(name="B", value="fixed"))
    main, other = core_v1.Container(name="main", env=env), core_v1.Container(name="other")
    metadata = meta_v1.ObjectMeta(name="100%-~0~", labels={"own": "~1~", "fixed": "f"})
    return core_v1.Pod(metadata=metadata, spec=core_v1.PodSpec(containers=(main, other)))


def test_a_copy_has_texts_of_its_own_and_shares_the_rest() -> None:
    one = pod()
    copy = copy_of(one, {"~0~": 0, "~1~": 1})
    assert copy is not None
    made = copy(["x", "y"])
    assert (made.metadata.name, made.metadata.labels) == ("100%-x", {"own": "y", "fixed": "f"})
    assert made.spec.containers[0].env[0].value == "y"
    assert made.spec.containers[0].env[1] is one.spec.containers[0].env[1]
    assert made.spec.containers[1] is one.spec.containers[1]
    assert made.status is one.status
    assert one == pod()


def test_what_has_none_of_the_texts_needs_no_copy() -> None:
    assert copy_of(pod(), {"~2~": 0}) is None


def test_texts_that_cannot_be_replaced_are_told() -> None:
    one = pod()
    one.metadata.labels = {"~1~": "a key"}
    with pytest.raises(OpaqueError):
        copy_of(one, {"~1~": 0})
    one = pod()
    entry = meta_v1.ManagedFieldsEntry(fields_v1=msgspec.Raw(b'{"f:metadata":{"f:labels":{"f:~0~":{}}}}'))
    one.metadata.managed_fields = (entry,)
    with pytest.raises(OpaqueError):
        copy_of(one, {"~0~": 0})
