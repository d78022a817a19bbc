"""The configuration of PodSecurity: levels of namespaces without labels, and exemptions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.admission.pods.pod_security import PodSecurity
from bayplan.apiserver.requests import User
from bayplan.apiserver.settings import ApiServerSettings
from tests.apiserver.admission.running import pod
from tests.apiserver.serving import client_of, opened

_HEAD = {"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration"}
_EXEMPT = {"namespaces": ["free"], "usernames": ["root"], "runtimeClasses": ["vm"]}


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"kind": "Pod"}, 'no kind "Pod" is registered for version "pod-security.admission.config.k8s.io/v1"'),
        ({"defaults": {"enforce": "loud"}}, 'defaults.enforce: Invalid value: "loud": must be one of privileged, '),
        ({"defaults": {"warn-version": "1"}}, 'defaults.warn-version: Invalid value: "1": must be "latest" or "v1.x"'),
        ({"defaults": {"warning": "1"}}, "unknown field `warning`"),
        ({"exemptions": {"namespaces": ["a.b"]}}, "exemptions.namespaces[0]: Invalid value"),
        ({"exemptions": {"usernames": ["a", "a", ""]}}, 'exemptions.usernames[1]: Duplicate value: "a", '),
        ({"exemptions": {"runtimeClasses": "vm"}}, "Expected `array`, got `str`"),
    ],
)
def test_what_is_wrong_is_told(part: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match="PodSecurity: ") as caught:
        PodSecurity().configure({**_HEAD, **part})
    assert problem in str(caught.value)


def test_defaults_count_without_labels_and_what_is_exempt_is_not_looked_at() -> None:
    settings = ApiServerSettings(
        admission_configuration={
            "PodSecurity": {**_HEAD, "defaults": {"enforce": "baseline", "audit": "baseline"}, "exemptions": _EXEMPT}
        },
        disable_admission_plugins=("ServiceAccount", "RuntimeClass"),
    )

    async def run() -> None:
        async with opened(settings=settings) as api:
            clients = {name: client_of(api, User(name, ("system:masters",))) for name in ("jane", "root")}
            for name, labels in (
                ("free", {"pod-security.kubernetes.io/enforce": "restricted"}),
                ("open", {}),
                ("o", {}),
            ):
                await clients["jane"].create(core_v1.Namespace(metadata=meta_v1.ObjectMeta(name=name, labels=labels)))
            label = {"pod-security.kubernetes.io/enforce": "privileged"}
            await clients["jane"].create(core_v1.Namespace(metadata=meta_v1.ObjectMeta(name="marked", labels=label)))

            async def is_let_in(user: str, namespace: str, **spec: Any) -> bool:
                made = pod("p", host_network=True, **spec)
                made.metadata.namespace = namespace
                try:
                    await clients[user].create(made)
                except ApiError as error:
                    return 'violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)' not in str(
                        error
                    )
                return True

            assert not await is_let_in("jane", "open")
            assert await is_let_in("jane", "marked")
            assert await is_let_in("jane", "free")
            assert await is_let_in("root", "open")
            assert await is_let_in("jane", "o", runtime_class_name="vm")
            assert not await is_let_in("jane", "default", runtime_class_name="other")
            metrics = (await api.own_metrics()).decode()
            assert (
                'pod_security_exemptions_total{request_operation="create",resource="pod",subresource=""} 3' in metrics
            )

    asyncio.run(run())
