"""ImagePolicyWebhook: what the webhook is shown, how long its answers count, and what happens without one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.apiserver.admission.chain import build_chain
from bayplan.apiserver.admission.pods.image_policy import (
    FAILED_OPEN,
    Configuration,
    ImagePolicyWebhook,
    read_configuration,
)
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.apiserver.webhooks.posting import ReviewError, ReviewWebhook
from bayplan.client import Client
from bayplan.support.clock import SystemClock
from bayplan.support.randomness import SeededRandomness
from tests.apiserver.admission.running import container, named, pod
from tests.apiserver.serving import client_of, opened

_NAME = "ImagePolicyWebhook"


class _Webhook:
    """Refuses images named `bad`; with `problem` it answers nothing."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.problem = ""
        self.audit: dict[str, str] = {}

    async def post(self, body: bytes) -> bytes:
        """See ReviewPoster."""
        if self.problem:
            raise ReviewError(self.problem)
        review = msgspec.json.decode(body)
        assert (review["kind"], review["apiVersion"]) == ("ImageReview", "imagepolicy.k8s.io/v1alpha1")
        self.asked.append(review["spec"])
        is_good = all(one["image"] != "bad" for one in review["spec"]["containers"])
        status = {"allowed": is_good, **({} if is_good else {"reason": "bad is bad"}), "auditAnnotations": self.audit}
        return msgspec.json.encode({**review, "status": status})

    async def close(self) -> None:
        """See ReviewPoster."""


Case = Callable[[Client, _Webhook, ImagePolicyWebhook], Awaitable[None]]


def _run(case: Case, **policy: Any) -> None:
    configuration = {_NAME: {"imagePolicy": {"kubeConfigFile": "unused", **policy}}}
    settings = ApiServerSettings(enable_admission_plugins=(_NAME,), admission_configuration=configuration)

    async def inner() -> None:
        async with opened(settings=settings) as api:
            client, webhook = client_of(api), _Webhook()
            plugin = next(one for one in api.context.admission.plugins if isinstance(one, ImagePolicyWebhook))
            plugin.connect(ReviewWebhook(webhook, api.context.clock, api.context.randomness))
            await client.create(core_v1.ServiceAccount(metadata=named("default")))
            await case(client, webhook, plugin)
            await plugin.close()

    asyncio.run(inner())


def test_images_are_shown_and_refused() -> None:
    async def case(client: Client, webhook: _Webhook, plugin: ImagePolicyWebhook) -> None:
        both = pod("a", containers=(container(image="one"),), init_containers=(container("i", image="two"),))
        both.metadata.annotations = {"break-glass.image-policy.k8s.io/ticket": "7", "other": "x"}
        await client.create(both)
        assert webhook.asked == [
            {
                "containers": [{"image": "one"}, {"image": "two"}],
                "annotations": {"break-glass.image-policy.k8s.io/ticket": "7"},
                "namespace": "default",
            }
        ]
        text = 'pods "b" is forbidden: image policy webhook backend denied one or more images: bad is bad'
        with pytest.raises(ApiError, match=text) as caught:
            await client.create(pod("b", containers=(container(image="bad"),)))
        assert caught.value.code == 403
        change = [{"op": "replace", "path": "/spec/containers/0/image", "value": "bad"}]
        with pytest.raises(ApiError, match="bad is bad"):
            await client.patch(core_v1.Pod, "a", "default", change, patch_type="application/json-patch+json")

    _run(case)


def test_ephemeral_containers_are_shown_alone() -> None:
    async def case(client: Client, webhook: _Webhook, plugin: ImagePolicyWebhook) -> None:
        await client.create(pod("a"))
        webhook.asked.clear()
        patch = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "bad"}]}}
        with pytest.raises(ApiError, match="bad is bad"):
            await client.patch(core_v1.Pod, "a", "default", patch, subresource="ephemeralcontainers")
        assert webhook.asked == [{"containers": [{"image": "bad"}], "namespace": "default"}]

    _run(case)


def test_answers_are_kept_for_a_while() -> None:
    async def case(client: Client, webhook: _Webhook, plugin: ImagePolicyWebhook) -> None:
        for number in range(4):  # the later ones are copies of a template
            await client.create(pod(f"p{number}"))
        assert len(webhook.asked) == 1
        plugin.configuration = plugin.configuration._replace(allow_seconds=0.0)
        await client.create(pod("other", containers=(container(image="y"),)))
        await client.create(pod("another", containers=(container(image="y"),)))
        assert len(webhook.asked) == 3

    _run(case)


@pytest.mark.parametrize("is_open", [True, False])
def test_a_webhook_that_does_not_answer(is_open: bool) -> None:
    async def case(client: Client, webhook: _Webhook, plugin: ImagePolicyWebhook) -> None:
        webhook.problem = "no route"
        for number in range(4):
            if not is_open:
                with pytest.raises(ApiError, match="is forbidden: no route"):
                    await client.create(pod(f"p{number}"))
                continue
            await client.create(pod(f"p{number}"))
            stored = await client.get(core_v1.Pod, f"p{number}", "default")
            assert stored.metadata.annotations == {FAILED_OPEN: "true"}

    _run(case, defaultAllow=is_open)


def test_before_there_is_a_webhook_nothing_is_allowed() -> None:
    async def inner() -> None:
        configuration = {_NAME: {"imagePolicy": {"kubeConfigFile": "unused"}}}
        settings = ApiServerSettings(enable_admission_plugins=(_NAME,), admission_configuration=configuration)
        async with opened(settings=settings) as api:
            client = client_of(api)
            await client.create(core_v1.ServiceAccount(metadata=named("default")))
            with pytest.raises(ApiError, match="there is no webhook yet"):
                await client.create(pod("a"))

    asyncio.run(inner())


def test_an_answer_that_is_no_review_is_none() -> None:
    async def case(client: Client, webhook: _Webhook, plugin: ImagePolicyWebhook) -> None:
        class Nonsense(_Webhook):
            async def post(self, body: bytes) -> bytes:
                return b"[]"

        plugin.connect(ReviewWebhook(Nonsense(), SystemClock(), SeededRandomness(1)))
        with pytest.raises(ApiError) as caught:
            await client.create(pod("a"))
        assert caught.value.code == 403

    _run(case)


def test_the_configuration() -> None:
    read = read_configuration(
        {"imagePolicy": {"kubeConfigFile": "/k", "allowTTL": 50, "denyTTL": -1, "retryBackoff": 20}}
    )
    assert read == Configuration("/k", 50.0, 0.0, 0.02, default_allow=False)
    assert read_configuration({"imagePolicy": {"kubeConfigFile": "/k"}})[1:4] == (300.0, 30.0, 0.5)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "kubeConfigFile"),
        ({"imagePolicy": {"kubeConfigFile": ""}}, "kubeConfigFile"),
        ({"imagePolicy": {"kubeConfigFile": "/k", "allowTTL": 5000}}, "allowTTL: valid value is between 1 and 1800"),
        ({"imagePolicy": {"kubeConfigFile": "/k", "denyTTL": "5s"}}, "denyTTL: '5s' is no whole number"),
        ({"imagePolicy": {"kubeConfigFile": "/k", "defaultAllow": "yes"}}, "defaultAllow: 'yes' is neither"),
    ],
)
def test_a_configuration_that_makes_no_sense(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        build_chain((_NAME,), (), {_NAME: given})


def test_it_does_not_run_without_a_configuration() -> None:
    with pytest.raises(ValueError, match="ImagePolicyWebhook needs a configuration"):
        build_chain((_NAME,), ())
