"""Where keys stand in etcd."""

from __future__ import annotations

import pytest

from bayplan.api.kinds import DEFAULT_KINDS
from bayplan.apiserver.etcd_layout import etcd_folders
from bayplan.store.etcd.layout import KeyLayout, end_of_prefix
from bayplan.store.etcd.settings import EtcdSettings, endpoints_of

LAYOUT = KeyLayout("/registry", etcd_folders(DEFAULT_KINDS), root="/registry/")


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("/registry/core/pods/ns/a", "/registry/pods/ns/a"),
        ("/registry/core/services/ns/a", "/registry/services/specs/ns/a"),
        ("/registry/core/endpoints/ns/a", "/registry/services/endpoints/ns/a"),
        ("/registry/core/nodes/a", "/registry/minions/a"),
        ("/registry/core/replicationcontrollers/ns/a", "/registry/controllers/ns/a"),
        ("/registry/core/events/ns/a", "/registry/events/ns/a"),
        ("/registry/apps/deployments/ns/a", "/registry/deployments/ns/a"),
        ("/registry/networking.k8s.io/ingresses/ns/a", "/registry/ingress/ns/a"),
        ("/registry/networking.k8s.io/ingressclasses/a", "/registry/ingressclasses/a"),
        ("/registry/rbac.authorization.k8s.io/clusterroles/a", "/registry/clusterroles/a"),
        (
            "/registry/apiextensions.k8s.io/customresourcedefinitions/a.b",
            "/registry/apiextensions.k8s.io/customresourcedefinitions/a.b",
        ),
        ("/registry/apiregistration.k8s.io/apiservices/v1.", "/registry/apiregistration.k8s.io/apiservices/v1."),
        ("/registry/example.com/cars/ns/a", "/registry/example.com/cars/ns/a"),
        ("/registry/example.com/pods/ns/a", "/registry/example.com/pods/ns/a"),
        ("/registry/masterleases/10.0.0.1", "/registry/masterleases/10.0.0.1"),
    ],
)
def test_objects_stand_where_kube_apiserver_has_them(key: str, place: str) -> None:
    assert LAYOUT.to_etcd(key) == place.encode()
    assert LAYOUT.from_etcd(place.encode()) == key


def test_every_kind_has_a_folder_of_its_own() -> None:
    prefixes = {kind.storage_prefix for kind in DEFAULT_KINDS if kind.is_stored}
    places = {LAYOUT.to_etcd(prefix) for prefix in prefixes}
    assert len(places) == len(prefixes)
    assert {LAYOUT.from_etcd(place + b"x") for place in places} == {prefix + "x" for prefix in prefixes}


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("/registry/", "/registry0", (b"/registry/", b"/registry0")),
        ("/registry/core/pods/", "/registry/core/pods0", (b"/registry/pods/", b"/registry/pods0")),
        ("/registry/core/pods/ns/", "/registry/core/pods/ns0", (b"/registry/pods/ns/", b"/registry/pods/ns0")),
        ("/registry/core/pods/ns/a\0", "/registry0", (b"/registry/pods/ns/a\0", b"/registry0")),
        (
            "/registry/core/services/",
            "/registry/core/services0",
            (b"/registry/services/specs/", b"/registry/services/specs0"),
        ),
        ("/registry/a.b/cars/", "/registry/a.b/cars0", (b"/registry/a.b/cars/", b"/registry/a.b/cars0")),
    ],
)
def test_ranges_follow_their_folder(start: str, end: str, expected: tuple[bytes, bytes]) -> None:
    assert LAYOUT.range_to_etcd(start, end) == expected


def test_what_is_not_under_the_prefix_has_no_key() -> None:
    other = KeyLayout("/other", root="/registry/")
    assert other.to_etcd("/registry/a/b") == b"/other/a/b"
    assert other.from_etcd(b"/registry/a/b") is None
    assert other.from_etcd(b"compact_rev_key") is None
    assert other.from_etcd(b"/other/\xff") is None
    with pytest.raises(ValueError, match="does not begin with"):
        other.to_etcd("/elsewhere/a")


def test_the_end_of_a_prefix_is_the_first_key_behind_it() -> None:
    assert [end_of_prefix(prefix) for prefix in (b"/a/", b"a\xff", b"\xff")] == [b"/a0", b"b", b"\0"]


def test_servers_are_addresses_or_urls() -> None:
    assert endpoints_of("a, b:1,[::1]:2") == (("a:2379", "b:1", "[::1]:2"), False)
    assert endpoints_of("https://a:1/,https://b") == (("a:1", "b:2379"), True)
    assert endpoints_of("http://a:1") == (("a:1",), False)
    with pytest.raises(ValueError, match="at least one endpoint"):
        EtcdSettings(endpoints=())
