"""What admission tests share: a fresh server with the service account `default`, and objects."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.client import Client
from tests.apiserver.serving import client_of, opened

Case = Callable[[Client], Awaitable[None]]


def run(
    case: Case,
    *,
    enabled: tuple[str, ...] = (),
    disabled: tuple[str, ...] = (),
    configuration: Mapping[str, Mapping[str, Any]] | None = None,
    **more: Any,
) -> None:
    """Run a case against a fresh server. more: further fields of its settings."""
    settings = ApiServerSettings(
        enable_admission_plugins=enabled,
        disable_admission_plugins=disabled,
        admission_configuration=configuration or {},
        **more,
    )

    async def inner() -> None:
        async with opened(settings=settings) as api:
            client = client_of(api)
            await client.create(core_v1.ServiceAccount(metadata=named("default")))
            await case(client)

    asyncio.run(inner())


def named(name: str, **more: Any) -> meta_v1.ObjectMeta:
    """Metadata in the namespace `default`."""
    return meta_v1.ObjectMeta(name=name, namespace="default", **more)


def container(name: str = "c", **more: Any) -> core_v1.Container:
    """A container with resources given as plain dicts."""
    if isinstance(more.get("resources"), dict):
        more["resources"] = core_v1.ResourceRequirements(**more["resources"])
    return core_v1.Container(name=name, image=more.pop("image", "x"), **more)


def pod(name: str = "p", **spec: Any) -> core_v1.Pod:
    """A pod, by default with one container."""
    return core_v1.Pod(
        metadata=named(name), spec=core_v1.PodSpec(containers=spec.pop("containers", (container(),)), **spec)
    )


async def label_namespace(client: Client, labels: dict[str, str], annotations: dict[str, str] | None = None) -> None:
    """Change the namespace `default`."""
    found = await client.get(core_v1.Namespace, "default")
    metadata = msgspec.structs.replace(
        found.metadata,
        labels={**found.metadata.labels, **labels},
        annotations={**found.metadata.annotations, **(annotations or {})},
    )
    await client.update(msgspec.structs.replace(found, metadata=metadata))
