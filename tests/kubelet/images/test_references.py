"""Names of images, in full and as they are given to runtimes."""

from __future__ import annotations

import pytest

from bayplan.kubelet.images.references import (
    ImageReference,
    InvalidReferenceError,
    parse_reference,
    pull_policy,
    with_default_tag,
    without_tag,
)

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("image", "repository", "tag", "digest"),
    [
        ("nginx", "docker.io/library/nginx", "latest", ""),
        ("nginx:1.27", "docker.io/library/nginx", "1.27", ""),
        ("me/app", "docker.io/me/app", "latest", ""),
        ("docker.io/nginx", "docker.io/library/nginx", "latest", ""),
        ("index.docker.io/nginx", "docker.io/library/nginx", "latest", ""),
        ("index.docker.io/me/app", "docker.io/me/app", "latest", ""),
        ("localhost/app:2", "localhost/app", "2", ""),
        ("localhost:5000/app", "localhost:5000/app", "latest", ""),
        ("Registry/app", "Registry/app", "latest", ""),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause", "3.10", ""),
        ("[fd00::1]:5000/app:x", "[fd00::1]:5000/app", "x", ""),
        (f"nginx@{DIGEST}", "docker.io/library/nginx", "", DIGEST),
        (f"nginx:1@{DIGEST}", "docker.io/library/nginx", "1", DIGEST),
        ("a/b__c/d---e.f", "docker.io/a/b__c/d---e.f", "latest", ""),
    ],
)
def test_name_in_full(image: str, repository: str, tag: str, digest: str) -> None:
    assert parse_reference(image) == ImageReference(repository, tag, digest)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("", "invalid reference format"),
        ("Nginx", r"invalid reference format: repository name \(library/Nginx\) must be lowercase"),
        ("me/App:1", r"invalid reference format: repository name \(me/App\) must be lowercase"),
        ("nginx:", "invalid reference format"),
        ("nginx:-x", "invalid reference format"),
        ("nginx::1", "invalid reference format"),
        ("nginx/", "invalid reference format"),
        ("a//b", "invalid reference format"),
        ("a b", "invalid reference format"),
        ("nginx\n", "invalid reference format"),
        ("nginx:" + "x" * 129, "invalid reference format"),
        ("a" * 64, r"cannot specify 64-byte hexadecimal strings"),
        ("x" * 250, "repository name must not be more than 255 characters"),
        ("nginx@sha256:" + "a" * 63, "invalid checksum digest length"),
        ("nginx@sha256:" + "A" * 64, "invalid checksum digest format"),
        ("nginx@md5:" + "a" * 32, "unsupported digest algorithm"),
    ],
)
def test_no_name(image: str, message: str) -> None:
    with pytest.raises(InvalidReferenceError, match=message):
        parse_reference(image)


@pytest.mark.parametrize(
    ("image", "given"),
    [
        ("nginx", "nginx:latest"),
        ("nginx:1", "nginx:1"),
        ("nginx:latest", "nginx:latest"),
        (f"nginx@{DIGEST}", f"nginx@{DIGEST}"),
        (f"nginx:1@{DIGEST}", f"nginx:1@{DIGEST}"),
        ("localhost:5000/a", "localhost:5000/a:latest"),
    ],
)
def test_runtimes_get_a_tag_and_no_registry(image: str, given: str) -> None:
    assert with_default_tag(image) == given


def test_name_without_tag() -> None:
    names = ["nginx:1", f"nginx@{DIGEST}", f"me/app:1@{DIGEST}", "localhost:5000/a:2", "plain"]
    assert [without_tag(each) for each in names] == ["nginx", "nginx", "me/app", "localhost:5000/a", "plain"]
    with pytest.raises(InvalidReferenceError):
        without_tag("a b")


@pytest.mark.parametrize(
    ("image", "given", "policy"),
    [
        ("nginx", "", "Always"),
        ("nginx:latest", "", "Always"),
        ("nginx:1", "", "IfNotPresent"),
        (f"nginx@{DIGEST}", "", "IfNotPresent"),
        (f"nginx:latest@{DIGEST}", "", "Always"),
        ("nginx", "Never", "Never"),
        ("a b", "", "IfNotPresent"),
    ],
)
def test_policy_follows_the_tag(image: str, given: str, policy: str) -> None:
    assert pull_policy(image, given) == policy
