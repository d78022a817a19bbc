"""Pulls: policies, reasons, messages, events, back-off, order, credentials. In virtual time, with a simulated runtime."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.kubelet.images.manager import ImageManager, ImageManagerSettings, ImagePullError
from bayplan.kubelet.images.node_credentials import NodeCredentials
from bayplan.kubelet.images.records import PullRecords, verification_policy
from bayplan.kubelet.runtime.behaviour import SimulatedImage
from bayplan.kubelet.runtime.errors import NotFoundError, RuntimeRequestError, RuntimeTimeoutError
from bayplan.kubelet.runtime.simulated import SimulatedRuntime
from bayplan.kubelet.runtime.types import Credentials, SandboxConfig
from bayplan.support.clock import LoopClock
from bayplan.support.randomness import SeededRandomness
from bayplan.support.virtual_time import run
from bayplan.testing.builders import container, pod

START = 1_767_323_045.0


class Events:
    """Keeps events."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []
        self.paths: list[str] = []

    def event(self, obj: core_v1.ObjectReference, event_type: str, reason: str, message: str) -> None:
        """See Recorder."""
        self.seen.append((event_type, reason, message))
        self.paths.append(obj.field_path)

    def take(self) -> list[tuple[str, str, str]]:
        """What came since the last time."""
        seen, self.seen = self.seen, []
        return seen


class Locked(SimulatedRuntime):
    """A runtime whose registry wants one user."""

    user = ""
    failure: RuntimeRequestError | None = None

    async def pull_image(
        self,
        image: str,
        credentials: Credentials | None,
        sandbox: SandboxConfig | None = None,
        *,
        runtime_handler: str = "",
    ) -> str:
        """See Runtime."""
        if self.failure is not None:
            raise self.failure
        if self.user and (credentials is None or credentials.username != self.user):
            name = credentials.username if credentials else "nobody"
            raise RuntimeRequestError(f"unauthorized: {name}")
        return await super().pull_image(image, credentials, sandbox, runtime_handler=runtime_handler)


class Setting:
    """A manager with what is around it."""

    def __init__(
        self,
        directory: Path,
        *,
        policy: str = "NeverVerifyPreloadedImages",
        node: NodeCredentials | None = None,
        **settings: Any,
    ) -> None:
        clock = LoopClock(START)
        images = [SimulatedImage("nginx:1", size=1234, pull_seconds=2.5), SimulatedImage("slow:1", pull_seconds=60)]
        self.runtime = Locked(clock, SeededRandomness(1), images=images)
        self.events = Events()
        self.records = PullRecords(directory, clock.now, verification_policy(policy))
        options = ImageManagerSettings(**settings)
        self.manager = ImageManager(self.runtime, self.events, self.records, clock, options, node_credentials=node)

    async def ensure(
        self,
        image: str = "nginx:1",
        policy: str = "",
        *,
        pod_name: str = "web",
        secrets: tuple[core_v1.Secret, ...] = (),
    ) -> str:
        """Ensure the image of a pod's one container."""
        one = pod(pod_name, meta={"uid": pod_name}, containers=(container(image=image, image_pull_policy=policy),))
        return await self.manager.ensure(one, one.spec.containers[0], secrets)

    async def fails(self, image: str = "nginx:1", policy: str = "", **more: Any) -> tuple[str, str]:
        """(reason, message) of a pull that fails."""
        with pytest.raises(ImagePullError) as caught:
            await self.ensure(image, policy, **more)
        return caught.value.reason, caught.value.message


def check(test: Coroutine[Any, Any, None]) -> None:
    """Run in virtual time."""
    run(test)


def secret(user: str, name: str = "pull", namespace: str = "default", password: str = "pw") -> core_v1.Secret:
    """An image pull secret for Docker Hub."""
    data = json.dumps({"auths": {"https://index.docker.io/v1/": {"username": user, "password": password}}})
    return core_v1.Secret(
        metadata=meta_v1.ObjectMeta(name=name, namespace=namespace, uid=f"{namespace}-{name}"),
        type="kubernetes.io/dockerconfigjson",
        data={".dockerconfigjson": base64.b64encode(data.encode()).decode()},
    )


def test_image_is_pulled_once_and_then_there(tmp_path: Path) -> None:
    async def steps() -> None:
        it = Setting(tmp_path)
        reference = await it.ensure()
        assert it.events.take() == [
            ("Normal", "Pulling", 'Pulling image "nginx:1"'),
            (
                "Normal",
                "Pulled",
                'Successfully pulled image "nginx:1" in 2.5s (2.5s including waiting). Image size: 1234 bytes.',
            ),
        ]
        assert it.events.paths == ["spec.containers{main}"] * 2
        found = await it.runtime.image_status("nginx:1")
        assert found is not None
        assert reference == found.id
        assert await it.ensure(pod_name="other") == reference
        assert it.events.take() == [
            ("Normal", "Pulled", 'Container image "nginx:1" already present on machine and can be accessed by the pod')
        ]
        assert len(it.runtime.pulls) == 1
        await it.ensure(policy="Always")
        assert len(it.runtime.pulls) == 2

    check(steps())


def test_tag_is_added_for_the_runtime_and_decides_the_policy(tmp_path: Path) -> None:
    async def steps() -> None:
        it = Setting(tmp_path)
        await it.ensure("nginx")
        await it.ensure("nginx")
        assert [name for name, _ in it.runtime.pulls] == ["nginx:latest", "nginx:latest"]
        assert ("Normal", "Pulling", 'Pulling image "nginx"') in it.events.take()

    check(steps())


def test_names_that_are_none_and_images_never_to_be_pulled(tmp_path: Path) -> None:
    async def steps() -> None:
        it = Setting(tmp_path)
        text = 'Failed to apply default image tag "A B": couldn\'t parse image name "A B": invalid reference format: repository name (library/A B) must be lowercase'
        assert await it.fails("A B") == ("InvalidImageName", text)
        assert it.events.take() == [("Warning", "InspectFailed", text)]
        text = 'Container image "nginx:1" is not present with pull policy of Never'
        assert await it.fails(policy="Never") == ("ErrImageNeverPull", text)
        assert it.events.take() == [("Warning", "ErrImageNeverPull", text)]
        it.runtime.add_image(SimulatedImage("nginx:1"))
        assert (await it.ensure(policy="Never")).startswith("sha256:")
        it.runtime.faults.errors["image_status"] = RuntimeTimeoutError("too late")
        reason, message = await it.fails()
        assert (reason, message) == (
            "ImageInspectError",
            'Failed to inspect image "nginx:1": rpc error: code = DeadlineExceeded desc = too late',
        )

    check(steps())


def test_failures_back_off_from_ten_seconds_to_five_minutes(tmp_path: Path) -> None:
    async def steps() -> None:
        it = Setting(tmp_path)
        it.runtime.failure = RuntimeRequestError("no such host")
        pulls = []
        for second in range(1600):
            reason, _ = await it.fails()
            events = it.events.take()
            if reason == "ErrImagePull":
                pulls.append(second)
                assert events == [
                    ("Normal", "Pulling", 'Pulling image "nginx:1"'),
                    ("Warning", "Failed", 'Failed to pull image "nginx:1": no such host'),
                ]
            else:
                assert reason == "ImagePullBackOff"
                assert events == [("Normal", "BackOff", 'Back-off pulling image "nginx:1"')]
            await asyncio.sleep(1)
        gaps = [later - earlier for earlier, later in itertools.pairwise(pulls)]
        assert gaps == [10, 20, 40, 80, 160, 300, 300, 300, 300][: len(gaps)]
        assert len(gaps) >= 8
        await asyncio.sleep(601)
        assert (await it.fails())[0] == "ErrImagePull"
        await asyncio.sleep(10)
        assert (await it.fails())[0] == "ErrImagePull"

    check(steps())


def test_back_off_tells_why_and_holds_for_one_pod_only(tmp_path: Path) -> None:
    async def steps() -> None:
        it = Setting(tmp_path)
        it.runtime.failure = NotFoundError("nginx:1: not found")
        text = "rpc error: code = NotFound desc = nginx:1: not found"
        assert await it.fails() == ("ErrImagePull", text)
        assert await it.fails() == ("ImagePullBackOff", f'Back-off pulling image "nginx:1": ErrImagePull: {text}')
        assert (await it.fails(pod_name="other"))[0] == "ErrImagePull"
        it.runtime.failure = None
        assert (await it.fails())[0] == "ImagePullBackOff"
        await asyncio.sleep(10)
        await it.ensure()

    check(steps())


@pytest.mark.parametrize(
    ("said", "reason", "message"),
    [
        (
            "RegistryUnavailable: down",
            "RegistryUnavailable",
            "image pull failed for nginx:1 because the registry is unavailable: down",
        ),
        (
            "RegistryUnavailable",
            "RegistryUnavailable",
            "image pull failed for nginx:1 because the registry is unavailable",
        ),
        (
            "SignatureValidationFailed: forged",
            "SignatureValidationFailed",
            "image pull failed for nginx:1 because the signature validation failed: forged",
        ),
        ("other: RegistryUnavailable", "ErrImagePull", "other: RegistryUnavailable"),
    ],
)
def test_runtimes_reasons_are_kept(tmp_path: Path, said: str, reason: str, message: str) -> None:
    async def steps() -> None:
        it = Setting(tmp_path)
        it.runtime.failure = RuntimeRequestError(said)
        assert await it.fails() == (reason, message)

    check(steps())


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({}, 180),
        ({"serialize_image_pulls": False}, 60),
        ({"serialize_image_pulls": False, "max_parallel_image_pulls": 2}, 120),
    ],
)
def test_pulls_wait_for_their_turn(tmp_path: Path, settings: dict[str, Any], seconds: int) -> None:
    async def steps() -> None:
        it = Setting(tmp_path, **settings)
        await asyncio.gather(*(it.ensure("slow:1", "Always", pod_name=f"p{number}") for number in range(3)))
        assert asyncio.get_running_loop().time() == seconds
        shown = {60: "1m0s", 120: "2m0s", 180: "3m0s"}[seconds]
        assert f"in 1m0s ({shown} including waiting)" in it.events.take()[-1][2]

    check(steps())


def test_pulls_that_come_too_fast_are_refused(tmp_path: Path) -> None:
    async def steps() -> None:
        it = Setting(tmp_path, registry_pull_qps=1, registry_burst=2, serialize_image_pulls=False)
        results = await asyncio.gather(
            *(it.ensure(policy="Always", pod_name=f"p{number}") for number in range(3)), return_exceptions=True
        )
        failed = [each for each in results if isinstance(each, ImagePullError)]
        assert [(each.reason, each.message) for each in failed] == [("ErrImagePull", "pull QPS exceeded")]
        assert len(it.runtime.pulls) == 2

    check(steps())


def test_credentials_are_tried_in_turn(tmp_path: Path) -> None:
    async def steps() -> None:
        node = tmp_path / "config.json"
        node.write_text(json.dumps({"auths": {"index.docker.io": {"username": "node", "password": "x"}}}))
        it = Setting(tmp_path, node=NodeCredentials([node]), first_back_off=0.0)
        it.runtime.user = "right"
        await it.ensure(secrets=(secret("wrong", "a"), secret("right", "b")))
        assert [credentials.username for _, credentials in it.runtime.pulls if credentials] == ["right"]
        assert await it.fails("other:1", secrets=(secret("wrong"),)) == (
            "ErrImagePull",
            "[unauthorized: wrong, unauthorized: node]",
        )
        it.runtime.user = "node"
        await it.ensure("other:1")
        broken = secret("x")
        broken.data[".dockerconfigjson"] = base64.b64encode(b"{").decode()
        assert await it.fails("third:1", secrets=(broken,)) == (
            "ErrImagePull",
            "an image pull secret cannot be used: it is not valid JSON",
        )

    check(steps())


def test_what_a_secret_fetched_is_for_those_who_have_it(tmp_path: Path) -> None:
    async def steps() -> None:
        it = Setting(tmp_path, first_back_off=0.0)
        it.runtime.user = "right"
        await it.ensure(secrets=(secret("right"),))
        it.events.take()
        assert (await it.fails(pod_name="thief"))[0] == "ErrImagePull"
        assert (await it.fails(pod_name="thief", policy="Never"))[0] == "ErrImageNeverPull"
        it.runtime.failure = RuntimeRequestError("the registry is gone")
        await it.ensure(pod_name="same", secrets=(secret("right"),))
        await it.ensure(pod_name="equal", secrets=(secret("right", "copy", "elsewhere"),))
        await it.ensure(pod_name="rotated", secrets=(secret("right", password="new"),))
        assert (await it.fails(pod_name="stranger", secrets=(secret("wrong", "other"),)))[0] == "ErrImagePull"
        again = Setting(tmp_path)
        again.runtime.add_image(SimulatedImage("nginx:1"))
        again.runtime.failure = it.runtime.failure
        await again.ensure(pod_name="later", secrets=(secret("right"),))
        assert (await again.fails(pod_name="thief"))[0] == "ErrImagePull"

    check(steps())


@pytest.mark.parametrize(
    ("policy", "allowed"), [("NeverVerify", True), ("NeverVerifyPreloadedImages", True), ("AlwaysVerify", False)]
)
def test_preloaded_images_follow_the_policy(tmp_path: Path, policy: str, allowed: bool) -> None:
    async def steps() -> None:
        it = Setting(tmp_path, policy=policy)
        it.runtime.add_image(SimulatedImage("nginx:1"))
        await it.ensure()
        assert (len(it.runtime.pulls) == 0) is allowed

    check(steps())


def test_pull_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    async def steps() -> None:
        it = Setting(tmp_path)
        pulling = asyncio.create_task(it.ensure("slow:1"))
        await asyncio.sleep(1)
        assert len(list((tmp_path / "image_manager" / "pulling").iterdir())) == 1
        pulling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pulling
        assert list((tmp_path / "image_manager" / "pulling").iterdir()) == []
        await it.ensure()  # the next one's turn has come

    check(steps())
