"""Contexts of clusters in the kubeconfig that a user has."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bayplan.client.errors import KubeconfigError
from bayplan.client.kubeconfig import load
from bayplan.client.own_kubeconfig import render
from bayplan.client.user_kubeconfig import put_context, remove_context, user_kubeconfig

THEIRS = """\
apiVersion: v1
kind: Config
current-context: work
clusters:
- {name: work, cluster: {server: "https://work.example.com"}}
users:
- {name: me, user: {token: secret}}
contexts:
- {name: work, context: {cluster: work, user: me, namespace: shop}}
preferences: {colors: true}
"""


class Place:
    """A user's kubeconfig, and a cluster's."""

    def __init__(self, directory: Path) -> None:
        self.user = directory / "home" / "config"
        self.owner = directory / "clusters" / "one"
        self.own = directory / "own"
        self.own.write_text(render("http://127.0.0.1:1234", b"authority", "token"))

    def put(self, name: str = "bayplan-one", *, switch: bool = True) -> None:
        put_context(self.user, name, self.owner, self.own, switch=switch)

    def names(self) -> list[list[str]]:
        tree = yaml.safe_load(self.user.read_text())
        return [[row["name"] for row in tree[section]] for section in ("clusters", "users", "contexts")]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def write(place: Place, text: str) -> None:
    place.user.parent.mkdir(exist_ok=True)
    place.user.write_text(text)
    place.user.chmod(0o640)


def test_a_kubeconfig_is_made_where_there_is_none(place: Place) -> None:
    place.put()
    assert load(place.user).server == "http://127.0.0.1:1234"
    assert place.user.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in place.user.parent.iterdir()] == ["config"], "no lock is left"


def test_what_others_wrote_stays_as_it_is(place: Place) -> None:
    write(place, THEIRS)
    place.put(switch=False)
    place.put(switch=False)
    assert place.names() == [["work", "bayplan-one"], ["me", "bayplan-one"], ["work", "bayplan-one"]]
    assert yaml.safe_load(place.user.read_text())["current-context"] == "work"
    assert place.user.stat().st_mode & 0o777 == 0o640
    place.put()
    assert load(place.user).server == "http://127.0.0.1:1234"
    assert remove_context(place.user, "bayplan-one", place.owner)
    assert yaml.safe_load(place.user.read_text()) == {**yaml.safe_load(THEIRS), "current-context": ""}
    assert not remove_context(place.user, "bayplan-one", place.owner)


def test_entries_of_others_are_neither_replaced_nor_removed(place: Place) -> None:
    text = THEIRS.replace("name: me, user", "name: bayplan-one, user")
    write(place, text)
    with pytest.raises(KubeconfigError, match="users: the entry 'bayplan-one' is not this cluster's"):
        place.put()
    assert not remove_context(place.user, "bayplan-one", place.owner)
    assert place.user.read_text() == text


def test_a_context_of_a_cluster_elsewhere_is_somebody_elses(place: Place) -> None:
    place.put()
    text = place.user.read_text()
    assert not remove_context(place.user, "bayplan-one", place.owner / "other")
    assert place.user.read_text() == text


@pytest.mark.parametrize(
    ("text", "message"), [("- a", "expected a mapping"), ("a: [", "not valid YAML"), ("contexts: 7", "expected a list")]
)
def test_what_is_no_kubeconfig_is_left_alone(place: Place, text: str, message: str) -> None:
    write(place, text)
    with pytest.raises(KubeconfigError, match=message):
        place.put()
    assert place.user.read_text() == text
    assert [each.name for each in place.user.parent.iterdir()] == ["config"]


def test_a_file_that_another_program_changes_is_left_alone(place: Place) -> None:
    write(place, THEIRS)
    lock = place.user.with_name("config.lock")
    lock.touch()
    with pytest.raises(KubeconfigError, match=r"config\.lock exists"):
        place.put()
    assert place.user.read_text() == THEIRS
    assert lock.exists()


def test_a_link_to_a_kubeconfig_stays_a_link(place: Place, tmp_path: Path) -> None:
    write(place, THEIRS)
    target = tmp_path / "real"
    place.user.rename(target)
    place.user.symlink_to(target)
    place.put()
    assert place.user.is_symlink()
    assert load(target).server == "http://127.0.0.1:1234"


def test_the_file_that_kubectl_would_change_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_kubeconfig({}) == tmp_path / ".kube" / "config"
    one, two = tmp_path / "one", tmp_path / "two"
    assert user_kubeconfig({"KUBECONFIG": f"{one}:{two}"}) == two
    two.touch()
    assert user_kubeconfig({"KUBECONFIG": f"{one}:{two}"}) == two
    one.touch()
    assert user_kubeconfig({"KUBECONFIG": f"{one}:{two}"}) == one
