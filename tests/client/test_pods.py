"""Pods in watches: what is equal in their specs is shared, and all are what they would be without that."""

from __future__ import annotations

import gc
import json
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.api.codec import decode, encode
from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.client import pods
from bayplan.client.pods import PodDecoder
from bayplan.client.transport import decode_event


def pod(name: str, image: str = "app:1", node_name: str = "a", **status: Any) -> bytes:
    """The JSON of a pod, as a watch has it."""
    containers = (core_v1.Container(name="app", image=image),)
    spec = core_v1.PodSpec(containers=containers, node_name=node_name, scheduler_name="default-scheduler")
    metadata = meta_v1.ObjectMeta(name=name, namespace="default", uid=name, labels={"app": name})
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
    monkeypatch.setattr(pods, "_SPECS_BYTES", 2500)
    monkeypatch.setattr(pods, "_FORMS_BYTES", 2500)
    read = PodDecoder()
    first = read(pod("a", image="1"))
    for name in ("b", "c"):
        read(pod(name, image=name))
    again = read(pod("a", image="1"))
    assert again.spec == first.spec
    assert again.spec is not first.spec
    assert msgspec.structs.asdict(again) == msgspec.structs.asdict(first)


def test_a_pod_that_is_heard_of_now_and_then_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "_SPECS_BYTES", 5000)
    read = PodDecoder()
    first = read(pod("a"))
    for name in "bcdefgh":
        read(pod(name, image=name))
        assert read(pod("a", phase="Running")).spec is first.spec


def with_token(name: str, token: str, node_name: str, **spec: Any) -> bytes:
    """The JSON of a pod with the token of its service account."""
    mounts = (core_v1.VolumeMount(name=token, mount_path="/token"), core_v1.VolumeMount(name="data", mount_path="/"))
    containers = (core_v1.Container(name="app", image="app:1", volume_mounts=mounts), core_v1.Container(name="other"))
    volumes = (core_v1.Volume(name=token, projected=core_v1.ProjectedVolumeSource()), core_v1.Volume(name="data"))
    made = core_v1.PodSpec(
        containers=containers, volumes=volumes, node_name=node_name, scheduler_name="default-scheduler", **spec
    )
    return encode(core_v1.Pod(metadata=meta_v1.ObjectMeta(name=name, uid=name), spec=made))


def test_pods_of_one_template_share_all_but_their_names() -> None:
    read, tolerations = PodDecoder(), (core_v1.Toleration(key="a", operator="Exists"),)
    one = with_token("a", "kube-api-access-aaaaa", "n1", tolerations=tolerations)
    two = with_token("b", "kube-api-access-bbbbb", "n2", tolerations=tolerations)
    first, second = read(one).spec, read(two).spec
    assert second == decode(core_v1.Pod, two).spec
    assert first == decode(core_v1.Pod, one).spec
    assert second.tolerations is first.tolerations
    assert second.containers[1] is first.containers[1]
    assert read(one).spec is first


def test_names_that_do_not_mean_what_they_seem_to_mean_are_read_as_they_are() -> None:
    selected = {"nodeSelector": {"nodeName": "x", "z": "z"}}
    for first, second in (
        ({**selected}, {"nodeSelector": {"nodeName": "y", "z": "z"}}),
        ({"nodeSelector": {"z": "z"}, "schedulerName": "s"}, {**selected, "schedulerName": "s"}),
        ({"hostname": "kube-api-access-aaaaa"}, {"hostname": "kube-api-access-bbbbb"}),
    ):
        read = PodDecoder()
        for name, spec in (("a", first), ("b", second), ("c", first), ("a", second), ("b", first)):
            data = msgspec.json.encode({"metadata": {"name": name, "uid": name}, "spec": {**spec, "containers": []}})
            assert read(data) == decode(core_v1.Pod, data)


names = st.sampled_from(
    ("kube-api-access-aaaaa", "kube-api-access-bbbbb", "kube-api-access-c", "data", "No Such Volume")
)
node_names = st.sampled_from(("", "n1", "n2.example", "No Such Node", 'n"3', "\u00fc"))
specs = st.fixed_dictionaries(
    {
        "volumes": st.lists(st.fixed_dictionaries({"name": names}), max_size=2),
        "containers": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.sampled_from(("c", "kube-api-access-aaaaa")),
                    "args": st.lists(names, max_size=1),
                    "volumeMounts": st.lists(st.fixed_dictionaries({"name": names, "mountPath": names}), max_size=2),
                }
            ),
            max_size=2,
        ),
    },
    optional={
        "nodeSelector": st.dictionaries(st.sampled_from(("nodeName", "z")), node_names, max_size=2),
        "nodeName": node_names,
        "schedulerName": st.just("s"),
        "unheardOf": st.just(1),
    },
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), node_names), min_size=1, max_size=12),
    st.lists(specs, min_size=4, max_size=4),
)
def test_pods_are_what_they_would_be_without_memory(
    news: list[tuple[str, int, str]], templates: list[dict[str, Any]]
) -> None:
    read = PodDecoder()
    for name, number, node_name in news:
        spec = templates[number]
        if "nodeName" in spec and node_name:
            spec = {**spec, "nodeName": node_name}
        data = msgspec.json.encode({"metadata": {"name": name, "uid": name}, "spec": spec})
        plain = decode(core_v1.Pod, data)
        assert read(data) == plain
        line = b'{"type":"MODIFIED","object":' + data + b"}"
        assert decode_event(line, read) == ("MODIFIED", plain)


def test_lines_that_are_not_as_usual_are_read_the_long_way() -> None:
    read = PodDecoder()
    data = pod("a")
    assert decode_event(b'{"type":"ADDED","object":' + data + b',"more":1}', read) == (
        "ADDED",
        decode(core_v1.Pod, data),
    )
    unknown = b'{"metadata":{"name":"a","new":1}}'
    assert decode_event(b'{"type":"BOOKMARK","object":' + unknown + b"}", read)[1].metadata.name == "a"
    gone = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Expired","code":410}'
    for status in (gone, b'{"metadata":{}}'):
        with pytest.raises(ApiError) as caught:
            decode_event(b'{"type":"ERROR","object":' + status + b"}", read)
        assert caught.value.code == (410 if status is gone else 500)


def test_pods_that_came_and_went_are_forgotten() -> None:
    decoder = PodDecoder()

    def come_and_go(count: int) -> None:
        for index in range(count):
            body = {"metadata": {"uid": f"u{index}"}, "spec": {"nodeName": f"n{index}", "containers": [{"name": "c"}]}}
            for event_type in ("ADDED", "MODIFIED", "DELETED", "DELETED"):  # the last one from another watch
                line = json.dumps({"type": event_type, "object": body}, separators=(",", ":")).encode()
                found = decoder.event(line)
                assert found is not None
                assert (found[0], found[1].spec.node_name) == (event_type, f"n{index}")

    come_and_go(1000)
    gc.collect()
    tracemalloc.start()
    try:
        come_and_go(3000)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()
