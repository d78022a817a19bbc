"""Entries that are made of a part of an object say what those made of the whole say."""

from __future__ import annotations

import msgspec
import pytest

from bayplan.api.codec import decode
from bayplan.api.kinds import DEFAULT_KINDS, Kind
from bayplan.api.strategies import strategy_for
from bayplan.apiserver.reads.observed import observed_decoder, reduced_type

_STORED = [kind for kind in DEFAULT_KINDS if kind.is_stored and DEFAULT_KINDS.storage_kind(kind) is kind]
_SPECS = [
    {},
    {"nodeName": "n", "restartPolicy": "Always", "schedulerName": "s", "serviceAccountName": "a", "hostNetwork": True},
    {"containers": [{"name": "c", "image": "i"}], "hostNetwork": False},
]
_STATUSES = [
    {},
    {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]},
    {
        "phase": "Pending",
        "podIP": "10.0.0.2",
        "nominatedNodeName": "m",
        "conditions": [{"type": "Ready", "status": "True"}],
    },
]


def pods() -> Kind:
    found = DEFAULT_KINDS.of_resource("", "v1", "pods")
    assert found is not None
    return found


@pytest.mark.parametrize("spec", _SPECS)
@pytest.mark.parametrize("status", _STATUSES)
def test_a_pod_has_the_fields_that_it_has_as_a_whole(spec: dict[str, object], status: dict[str, object]) -> None:
    kind = pods()
    strategy = strategy_for(kind)
    metadata = {"name": "p", "uid": "u", "labels": {"app": "web"}, "annotations": {"x": "y"}}
    data = msgspec.json.encode({"metadata": metadata, "spec": spec, "status": status})
    whole, part = decode(kind.type, data), observed_decoder(kind, strategy)(data)
    assert type(part) is not type(whole)
    assert strategy.selectable_fields(part) == strategy.selectable_fields(whole)
    assert set(strategy.selectable_fields(part)) == strategy.selectable_field_names
    assert (part.metadata.labels, part.metadata.uid) == ({"app": "web"}, "u")


@pytest.mark.parametrize("kind", _STORED, ids=lambda kind: kind.name if hasattr(kind, "name") else kind.plural)
def test_every_kind_says_the_same_of_an_object_that_has_nothing(kind: Kind) -> None:
    strategy = strategy_for(kind)
    for metadata in ({"name": "x"}, {"name": "x", "uid": "u", "labels": {"a": "b"}}):
        data = msgspec.json.encode({"metadata": metadata})
        try:
            whole = decode(kind.type, data)
        except ValueError:
            continue  # a kind with required fields
        part = observed_decoder(kind, strategy)(data)
        assert (part.metadata.labels, part.metadata.uid) == (whole.metadata.labels, whole.metadata.uid)
        assert strategy.selectable_fields(part) == strategy.selectable_fields(whole)


def test_what_is_no_object_is_refused_wherever_that_shows() -> None:
    kind = pods()
    for data in (
        b'{"metadata":{"labels":null}}',
        b'{"metadata":{"name":"p"},"spec":{"containers":[}}',
        b'{"metadata":{}',
    ):
        with pytest.raises(msgspec.DecodeError):
            observed_decoder(kind, strategy_for(kind))(data)


def test_fields_keep_their_names_and_defaults() -> None:
    small = reduced_type(pods().type, ("metadata.uid", "status.pod_ips"))
    found = msgspec.json.decode(
        b'{"metadata":{"uid":"u","labels":{"a":"b"}},"status":{"podIPs":[{"ip":"1.2.3.4"}]}}', type=small
    )
    assert (found.metadata.uid, found.status.pod_ips[0].ip) == ("u", "1.2.3.4")
    assert msgspec.json.decode(b"{}", type=small).status.pod_ips == ()
