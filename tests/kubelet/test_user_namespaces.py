"""Pods with a user namespace have ids that nobody else has, also after a restart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bayplan.kubelet.errors import ConfigurationError
from bayplan.kubelet.runtime.types import IdMapping, NamespaceMode, UserNamespace
from bayplan.kubelet.user_namespaces import UserNamespaceError, UserNamespaces
from bayplan.support.blocking import at_once
from bayplan.support.virtual_time import run
from bayplan.testing.builders import pod

LENGTH = 65536


def manager(root: Path, **settings: int) -> UserNamespaces:
    return UserNamespaces(root, at_once, **{"ids_per_pod": LENGTH, "max_pods": 110, **settings})


def of(ranges: UserNamespaces, uid: str, *, host_users: bool | None = False, supported: bool = True) -> UserNamespace:
    asked = pod("p", meta={"uid": uid}, host_users=host_users)
    return run(ranges.of(asked, handler="", is_supported=supported))


def first(ranges: UserNamespaces, uid: str) -> int:
    found = of(ranges, uid)
    [mapping] = found.uids
    assert (found.mode, found.gids) == (NamespaceMode.POD, found.uids)
    assert mapping == IdMapping(mapping.host_id, 0, LENGTH)
    return mapping.host_id


@pytest.mark.parametrize("host_users", [None, True])
def test_a_pod_that_asks_for_none_has_the_nodes(tmp_path: Path, host_users: bool | None) -> None:
    assert of(manager(tmp_path), "a", host_users=host_users, supported=False) == UserNamespace(NamespaceMode.NODE)
    assert list(tmp_path.iterdir()) == []


def test_every_pod_has_a_range_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    ranges = manager(tmp_path)
    found = {uid: first(ranges, uid) for uid in "abc"}
    assert found == {"a": LENGTH, "b": 2 * LENGTH, "c": 3 * LENGTH}
    assert {uid: first(ranges, uid) for uid in "cba"} == found


def test_a_range_is_given_back_and_used_again(tmp_path: Path) -> None:
    ranges = manager(tmp_path)
    for uid in "abc":
        first(ranges, uid)
    run(ranges.release("b"))
    run(ranges.release("b"))
    assert not (tmp_path / "pods" / "b" / "userns").exists()
    assert first(ranges, "d") == 2 * LENGTH
    run(ranges.release_all_but({"d"}))
    assert first(ranges, "e") == LENGTH


def test_a_restarted_kubelet_gives_nobody_what_another_has(tmp_path: Path) -> None:
    before = manager(tmp_path)
    found = {uid: first(before, uid) for uid in "ab"}
    after = manager(tmp_path)
    run(after.recover())
    assert first(after, "c") == 3 * LENGTH
    assert {uid: first(after, uid) for uid in "ab"} == found


def test_the_file_is_as_kubernetes_writes_it(tmp_path: Path) -> None:
    first(manager(tmp_path), "a")
    mapping = {"hostId": LENGTH, "containerId": 0, "length": LENGTH}
    written = json.loads((tmp_path / "pods" / "a" / "userns").read_text())
    assert written == {"uidMappings": [mapping], "gidMappings": [mapping]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "invalid user namespace mappings file"),
        ('{"uidMappings":[],"gidMappings":[]}', "should be one and identical"),
        (
            '{"uidMappings":[{"hostId":65536,"containerId":0,"length":65536}],'
            '"gidMappings":[{"hostId":131072,"containerId":0,"length":65536}]}',
            "should be one and identical",
        ),
        ((65536, 1, 65536), "UID 0 must be mapped"),
        ((65536, 0, 131072), "wrong user namespace length 131072"),
        ((65537, 0, 65536), "wrong user namespace offset specified 65537"),
        ((0, 0, 65536), "id 0 is out of range"),
        ((2**32, 0, 65536), "id 4294967296 is out of range"),
        ((131072, 0, 65536), 'range picked for pod "bad" already taken'),
    ],
    ids=lambda each: "" if isinstance(each, str) else str(each),
)
def test_a_file_that_makes_no_sense_is_an_error(tmp_path: Path, text: str | tuple[int, int, int], message: str) -> None:
    ranges = manager(tmp_path)
    first(ranges, "x")
    first(ranges, "y")
    (tmp_path / "pods" / "bad").mkdir()
    if not isinstance(text, str):
        mapping = dict(zip(("hostId", "containerId", "length"), text, strict=True))
        text = json.dumps({"uidMappings": [mapping], "gidMappings": [mapping]})
    (tmp_path / "pods" / "bad" / "userns").write_text(text)
    with pytest.raises(UserNamespaceError) as error:
        of(ranges, "bad")
    assert message in str(error.value)


def test_a_runtime_must_be_able_to(tmp_path: Path) -> None:
    with pytest.raises(UserNamespaceError) as error:
        of(manager(tmp_path), "a", supported=False)
    assert str(error.value) == "can't set `spec.hostUsers: false`, runtime does not support user namespaces"


def test_when_all_ranges_are_taken_there_is_none(tmp_path: Path) -> None:
    ranges = manager(tmp_path, ids_per_pod=2**30, max_pods=3)
    for uid in "abc":
        of(ranges, uid)
    with pytest.raises(UserNamespaceError, match="could not find an empty slot"):
        of(ranges, "d")


@pytest.mark.parametrize("settings", [{"ids_per_pod": 1000}, {"ids_per_pod": 0}, {"max_pods": 65536}], ids=str)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, settings: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match=r"^userNamespaces\.idsPerPod: "):
        manager(tmp_path, **settings)


def test_what_cannot_be_written_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "a").write_text("in the way")
    ranges = manager(tmp_path)
    with pytest.raises(OSError, match="File exists"):
        of(ranges, "a")
    assert first(ranges, "b") == LENGTH
