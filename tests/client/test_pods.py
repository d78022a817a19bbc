"""Pods in watches: those with equal specs share one, and all are what they would be without that."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.api.codec import decode, encode
from bayplan.api.types import core_v1, meta_v1
from bayplan.client import pods
from bayplan.client.pods import PodDecoder


def pod(name: str, image: str = "app:1", node_name: str = "a", **status: Any) -> bytes:
    """The JSON of a pod, as a watch has it."""
    containers = (core_v1.Container(name="app", image=image),)
    spec = core_v1.PodSpec(containers=containers, node_name=node_name, scheduler_name="default-scheduler")
    metadata = meta_v1.ObjectMeta(name=name, namespace="default", labels={"app": name})
    made = core_v1.Pod(kind="Pod", api_version="v1", metadata=metadata, spec=spec, status=core_v1.PodStatus(**status))
    return encode(made)


def test_news_of_a_pod_that_leave_its_spec_alone_share_it() -> None:
    read = PodDecoder()
    before, after = read(pod("a", phase="Pending")), read(pod("a", phase="Running"))
    assert after.spec is before.spec
    assert (before.status.phase, after.status.phase) == ("Pending", "Running")
    other = read(pod("a", image="app:2"))
    assert other.spec is not before.spec
    assert other.spec.containers[0].image == "app:2"


def test_a_pod_that_gets_its_node_keeps_the_rest_of_its_spec() -> None:
    read = PodDecoder()
    before, after = read(pod("a", node_name="")), read(pod("a", node_name="n1"))
    assert after.spec.containers is before.spec.containers
    assert (before.spec.node_name, after.spec.node_name) == ("", "n1")
    assert after == decode(core_v1.Pod, pod("a", node_name="n1"))
    assert read(pod("a", node_name="n1", phase="Running")).spec is after.spec
    texts = pod("b", image='a"nodeName":"n2",', node_name="")
    assert read(texts) == decode(core_v1.Pod, texts)


@pytest.mark.parametrize(
    "data",
    [
        pod("a"),
        b"{}",
        b'{"metadata":{"name":"a"},"spec":{"containers":[]},"status":{}}',
        b'{"metadata":{"name":"a"},"spec":null,"status":null}',
        b'{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":null}],"unheardOf":1},"status":{"new":2}}',
    ],
)
def test_a_pod_is_what_it_would_be_by_itself(data: bytes) -> None:
    read = PodDecoder()
    assert read(data) == decode(core_v1.Pod, data)
    assert read(data) == decode(core_v1.Pod, data)


def test_what_is_no_pod_is_an_error() -> None:
    with pytest.raises(ValueError, match="name"):
        PodDecoder()(b'{"metadata":{"name":5}}')


def test_old_specs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "_KEPT", 2)
    read = PodDecoder()
    first = read(pod("a", image="1"))
    for image in ("2", "3"):
        read(pod("a", image=image))
    again = read(pod("a", image="1"))
    assert again.spec == first.spec
    assert again.spec is not first.spec
    assert msgspec.structs.asdict(again) == msgspec.structs.asdict(first)
