"""As whom images run, and how often the runtime is asked for it."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.kubelet.core.containers.security import SecurityError
from bayplan.kubelet.images.users import ImageUsers
from bayplan.kubelet.runtime.simulated import SimulatedRuntime
from bayplan.kubelet.runtime.types import Image
from bayplan.support.clock import LoopClock
from bayplan.support.randomness import SeededRandomness


class Images(SimulatedRuntime):
    """A runtime with some images that counts questions."""

    def __init__(self, *images: Image) -> None:
        super().__init__(LoopClock(0), SeededRandomness(1))
        self._by_id = {each.id: each for each in images}
        self.asked: list[str] = []

    async def image_status(self, image: str, *, runtime_handler: str = "") -> Image | None:
        self.asked.append(image)
        return self._by_id.get(image)


def users(runtime: Images, *references: str) -> list[tuple[int | None, str]]:
    async def ask() -> list[tuple[int | None, str]]:
        found = ImageUsers(runtime)
        return [await found.of(each) for each in references]

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("image", "user"),
    [
        (Image("i", user_id=7), (7, "")),
        (Image("i", user_id=0, username="x"), (0, "")),
        (Image("i", username="www"), (None, "www")),
        (Image("i"), (0, "")),
    ],
)
def test_an_image_that_does_not_say_runs_as_root(image: Image, user: tuple[int | None, str]) -> None:
    assert users(Images(image), "i") == [user]


def test_what_a_digest_names_never_changes_and_is_asked_for_once() -> None:
    runtime = Images(Image("sha256:1", user_id=1), Image("sha256:2", user_id=2), Image("latest", user_id=3))
    asked = ("sha256:1", "sha256:2", "sha256:1", "latest", "latest")
    assert users(runtime, *asked) == [(1, ""), (2, ""), (1, ""), (3, ""), (3, "")]
    assert runtime.asked == ["sha256:1", "sha256:2", "latest", "latest"]


def test_an_image_that_is_not_there_is_asked_for_again() -> None:
    runtime = Images()

    async def ask() -> None:
        found = ImageUsers(runtime)
        for _ in range(2):
            with pytest.raises(SecurityError, match=r'^image "sha256:1" not found$'):
                await found.of("sha256:1")

    asyncio.run(ask())
    assert len(runtime.asked) == 2
