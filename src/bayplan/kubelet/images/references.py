"""Names of images as users write them. Pure.

Source of the grammar: the distribution project's reference package, which Kubernetes uses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_DOMAIN = r"(?:(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_NAME = rf"(?:{_DOMAIN}/)?{_PART}(?:/{_PART})*"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE = re.compile(rf"({_NAME})(?::([A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}))?(?:@({_DIGEST}))?", re.ASCII)
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")
_LONGEST_NAME = 255
_DIGEST_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}
_DEFAULT_DOMAIN, _OFFICIAL = "docker.io", "library/"


class InvalidReferenceError(ValueError):
    """Not the name of an image; the message is the one that Kubernetes shows."""


@dataclass(frozen=True, slots=True)
class ImageReference:
    """An image's name in full: `repository` with its registry, such as docker.io/library/nginx. `tag` is latest where neither tag nor digest is given."""

    repository: str
    tag: str
    digest: str


def parse_reference(image: str) -> ImageReference:
    """The name in full. Raises InvalidReferenceError."""
    if _IDENTIFIER.fullmatch(image):
        raise InvalidReferenceError(f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings")
    domain, rest = _split_domain(image)
    remote = rest.partition(":")[0]
    if remote.lower() != remote:
        raise InvalidReferenceError(f"invalid reference format: repository name ({remote}) must be lowercase")
    match = _REFERENCE.fullmatch(f"{domain}/{rest}")
    if match is None:
        raise InvalidReferenceError("invalid reference format")
    name, tag, digest = match.group(1), match.group(2) or "", match.group(3) or ""
    if len(name.partition("/")[2]) > _LONGEST_NAME:
        raise InvalidReferenceError(f"repository name must not be more than {_LONGEST_NAME} characters")
    if digest:
        _check_digest(digest)
    return ImageReference(name, tag or ("" if digest else "latest"), digest)


def _split_domain(image: str) -> tuple[str, str]:
    """(registry, the rest): the first part is a registry if it looks like a host, which a user's name cannot."""
    first, slash, rest = image.partition("/")
    if not slash:
        return _DEFAULT_DOMAIN, f"{_OFFICIAL}{image}"
    is_host = first == "localhost" or "." in first or ":" in first or first.lower() != first
    domain, remote = (first, rest) if is_host else (_DEFAULT_DOMAIN, image)
    if domain == "index.docker.io":
        domain = _DEFAULT_DOMAIN
    if domain == _DEFAULT_DOMAIN and "/" not in remote:
        remote = f"{_OFFICIAL}{remote}"
    return domain, remote


def _check_digest(digest: str) -> None:
    algorithm, _, value = digest.partition(":")
    length = _DIGEST_LENGTHS.get(algorithm)
    if length is None:
        raise InvalidReferenceError("unsupported digest algorithm")
    if len(value) != length:
        raise InvalidReferenceError("invalid checksum digest length")
    if value.lower() != value:
        raise InvalidReferenceError("invalid checksum digest format")


def with_default_tag(image: str) -> str:
    """The name as it is given to a runtime: with `:latest` where it has neither tag nor digest, else unchanged, so that runtimes decide about registries. Raises
    InvalidReferenceError."""
    parsed = parse_reference(image)
    if not parsed.digest and not image.endswith(f":{parsed.tag}"):
        return f"{image}:{parsed.tag}"
    return image


def without_tag(image: str) -> str:
    """The name without tag and digest, as it was written. Raises InvalidReferenceError."""
    match = _REFERENCE.fullmatch(image)
    if match is None:
        raise InvalidReferenceError("invalid reference format")
    return match.group(1)


def pull_policy(image: str, policy: str) -> str:
    """The policy of a container: Always where none is given and the tag is latest, else IfNotPresent. Source: Container.imagePullPolicy."""
    if policy:
        return policy
    try:
        return "Always" if parse_reference(image).tag == "latest" else "IfNotPresent"
    except InvalidReferenceError:
        return "IfNotPresent"
