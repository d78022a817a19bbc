"""The file of a copy: what goes in comes out, and what cannot be read says why."""

from __future__ import annotations

import gzip

import msgspec
import pytest

from bayplan.api.codec import encode
from bayplan.simulation.readers.reading import read
from bayplan.simulation.snapshots.older_versions import current_form
from bayplan.simulation.snapshots.snapshot import FORMAT, ClusterSnapshot, LeftOut, SnapshotError, from_bytes, to_bytes
from bayplan.testing.builders import namespace, node
from tests.simulation.objects import copy_of, random_cluster, running


def test_what_is_written_is_read_again() -> None:
    copy, _ = random_cluster(1)
    copy.left_out.append(LeftOut("Secret", "never copied"))
    again = from_bytes(gzip.decompress(to_bytes(copy)), "copy")
    assert [encode(one) for one in again.of("Pod")] == [_with_type(one, "Pod") for one in copy.of("Pod")]
    assert again.counts() == copy.counts()
    assert (again.taken_at, again.left_out) == (copy.taken_at, copy.left_out)


def _with_type(obj: object, kind: str) -> bytes:
    return b'{"kind":"%s","apiVersion":"v1",' % kind.encode() + encode(obj)[1:]


def test_equal_copies_give_equal_files() -> None:
    assert to_bytes(random_cluster(3)[0]) == to_bytes(random_cluster(3)[0])


def test_a_newer_format_is_refused_and_says_so() -> None:
    header = msgspec.json.encode({"format": FORMAT, "version": 99, "counts": {}})
    with pytest.raises(SnapshotError, match=r"format version 99 is newer than 1.*update bayplan"):
        from_bytes(header + b"\n", "old.bayplan")


def test_a_file_that_was_cut_off_is_refused() -> None:
    lines = gzip.decompress(to_bytes(copy_of(node("a"), node("b")))).splitlines()
    with pytest.raises(SnapshotError, match="1 of 2 objects of kind Node"):
        from_bytes(b"\n".join(lines[:-1]), "copy")


def test_a_damaged_file_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "copy"
    file.write_bytes(to_bytes(copy_of(node("a")))[:-12])
    with pytest.raises(SnapshotError, match="damaged or cut off"):
        read(file)


def test_secrets_in_a_file_are_not_read() -> None:
    data = gzip.decompress(to_bytes(ClusterSnapshot()))
    data += b'{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s","namespace":"default"}}\n'
    assert from_bytes(data, "copy").counts() == {}


def test_objects_of_versions_served_no_more_are_read() -> None:
    data = gzip.decompress(to_bytes(ClusterSnapshot()))
    data += b'{"kind":"PodDisruptionBudget","apiVersion":"policy/v1beta1","metadata":{"name":"b","namespace":"x"},"spec":{"selector":{},"minAvailable":1}}\n'
    budget = from_bytes(data, "copy").of("PodDisruptionBudget")[0]
    assert (budget.spec.min_available, budget.spec.selector) == (1, None)


def test_device_requests_of_the_first_beta_are_rebuilt() -> None:
    tree = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "spec": {"devices": {"requests": [{"name": "gpu", "deviceClassName": "big", "count": 2}]}},
    }
    request = current_form(tree)["spec"]["devices"]["requests"][0]
    assert request == {"name": "gpu", "exactly": {"deviceClassName": "big", "count": 2}}


def test_devices_of_the_first_beta_are_rebuilt() -> None:
    tree = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceSlice",
        "spec": {"devices": [{"name": "d", "basic": {"attributes": {"a": {"int": 1}}}}]},
    }
    assert current_form(tree)["spec"]["devices"] == [{"name": "d", "attributes": {"a": {"int": 1}}}]


def test_counts_say_what_there_is() -> None:
    assert copy_of(node("a"), namespace("default"), running("p", "a")).counts() == {"Namespace": 1, "Node": 1, "Pod": 1}


def test_kinds_that_are_not_known_here_are_left_out_and_named() -> None:
    header = msgspec.json.encode({"format": FORMAT, "version": 1, "counts": {"Node": 1, "Wonder": 1}})
    known = b'{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"}}'
    copy = from_bytes(b"\n".join((header, known, b'{"kind":"Wonder","apiVersion":"v9","metadata":{}}')), "new")
    assert (copy.counts(), [one.what for one in copy.left_out]) == ({"Node": 1}, ["Wonder"])
