"""Images of simulated nodes. Every image can be pulled, unless its name or tag says that it does not exist (`nonexistent`, `non-existent`, `invalid`, `404`).

What a node says of an image follows from the image's name alone, and is worked out once per name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from bayplan.api.types import core_v1
from bayplan.kubelet.core.back_off import FIRST_RESTART, LONGEST_RESTART
from bayplan.kubelet.images.references import InvalidReferenceError, parse_reference, pull_policy, with_default_tag

INVALID_NAME, NEVER_PULL, PULL, BACK_OFF = "InvalidImageName", "ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff"
_MISSING = re.compile(r"non-?existent|invalid|:404$")
_REMEMBERED = 4096
_SHOWN_SECONDS = 2.0
"""How long the error of a pull is shown before its back-off."""
_MEGABYTE, _LARGEST = 1 << 20, 256


@dataclass(frozen=True, slots=True)
class SimulatedImage:
    """What a node says of an image."""

    image_id: str = ""
    """Repository and digest, as `status.containerStatuses[].imageID` shows it."""
    names: tuple[str, ...] = ()
    """As `status.images[].names` of a node: by digest, by tag."""
    size_bytes: int = 0
    name_error: str = ""
    """What is wrong with the name; empty if nothing is."""
    pull_error: str = ""
    """What the runtime says when the image is pulled; empty if it can be."""


@lru_cache(_REMEMBERED)
def image_of(image: str) -> SimulatedImage:
    """What nodes say of the image with this name."""
    try:
        parsed, full = parse_reference(image), with_default_tag(image)
    except InvalidReferenceError as error:
        text = f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": {error}'
        return SimulatedImage(name_error=text)
    tagged = f"{parsed.repository}:{parsed.tag}" if parsed.tag else ""
    if _MISSING.search(image):
        name = tagged or full
        text = f'failed to pull and unpack image "{name}": failed to resolve reference "{name}": {name}: not found'
        return SimulatedImage(pull_error=f"rpc error: code = NotFound desc = {text}")
    digest = parsed.digest or f"sha256:{hashlib.sha256(tagged.encode()).hexdigest()}"
    by_digest = f"{parsed.repository}@{digest}"
    size = (int(digest[-4:], 16) % _LARGEST + 1) * _MEGABYTE
    return SimulatedImage(by_digest, (by_digest, tagged) if tagged else (by_digest,), size)


def is_available(image: str) -> bool:
    """Whether containers can be made of the image."""
    found = image_of(image)
    return not found.name_error and not found.pull_error


@lru_cache(_REMEMBERED)
def is_same_image(shown: str, wanted: str) -> bool:
    """Whether a status shows the image that a spec asks for: runtimes write names in full, or know an image by its digest only."""
    if shown == wanted or not shown or shown.startswith("sha256:"):
        return True
    try:
        full = parse_reference(wanted)
    except InvalidReferenceError:
        return False
    tag, digest = f":{full.tag}" if full.tag else "", f"@{full.digest}" if full.digest else ""
    return shown in (f"{full.repository}{tag}{digest}", f"{full.repository}{digest or tag}")


@dataclass(frozen=True, slots=True)
class PullFailure:
    """Why a container has no image now: reason and message of its waiting state."""

    reason: str
    message: str
    error: str = ""
    """What the runtime said; empty if the image was not pulled."""
    wait: float | None = None
    """Seconds until that changes; None if it does not."""


def pull_failure(container: core_v1.Container | core_v1.EphemeralContainer, since: float) -> PullFailure | None:
    """Why a container's image is not there so many seconds after it was first needed; None if it is.

    Pulls fail at once and are tried again after 10, 20, 40, ... 300 seconds.
    """
    image, found = container.image, image_of(container.image)
    if found.name_error:
        return PullFailure(INVALID_NAME, found.name_error)
    if not found.pull_error:
        return None
    if pull_policy(image, container.image_pull_policy) == "Never":
        return PullFailure(NEVER_PULL, f'Container image "{image}" is not present with pull policy of Never')
    tried, following = next(turn for turn in _attempts() if since < turn[1])
    shown_until = tried + _SHOWN_SECONDS
    if since < shown_until:
        return PullFailure(PULL, found.pull_error, found.pull_error, shown_until - since)
    text = f'Back-off pulling image "{image}": {PULL}: {found.pull_error}'
    return PullFailure(BACK_OFF, text, found.pull_error, following - since)


def _attempts() -> Iterator[tuple[float, float]]:
    """Seconds after which an image is pulled, and those of the next time."""
    tried, pause = 0.0, FIRST_RESTART
    while True:
        yield tried, tried + pause
        tried, pause = tried + pause, min(pause * 2, LONGEST_RESTART)


REPORTED: Final = 50
"""How many images a node's status lists at most (nodeStatusMaxImages)."""


def reported_images(names: Iterable[str]) -> tuple[core_v1.ContainerImage, ...]:
    """`status.images` of a node that has these images, the largest first."""
    found = {image.names: image for image in map(image_of, names) if image.names}
    largest = sorted(found.values(), key=lambda each: (-each.size_bytes, each.names))[:REPORTED]
    return tuple(core_v1.ContainerImage(names=each.names, size_bytes=each.size_bytes) for each in largest)
