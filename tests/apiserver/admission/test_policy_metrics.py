"""What policies measure: which expressions refused what, which could not be evaluated, and which pods were compared with the standards."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.server import ApiServer
from bayplan.support.metrics.instruments import Counter, Histogram
from tests.apiserver.admission import test_mutating_admission_policy as mutating
from tests.apiserver.admission import test_validating_admission_policy as validating
from tests.apiserver.serving import client_of, opened

_LEVELS = {f"pod-security.kubernetes.io/{mode}": "baseline" for mode in ("enforce", "audit", "warn")}


def series(api: ApiServer, name: str) -> dict[tuple[str, ...], float]:
    """The values of a metric by its labels; of a histogram, how much was observed."""
    found: dict[tuple[str, ...], float] = {}
    for labels, child in api.metrics._families[name].children.items():
        assert isinstance(child, Counter | Histogram)
        found[labels] = child.count if isinstance(child, Histogram) else child.value
    return found


@pytest.mark.parametrize(
    ("expression", "spec", "expected"),
    [
        ("false", {}, {("no_error", "deny"): 1, ("no_error", "audit"): 1}),
        ("object.data.none == 'a'", {}, {("invalid_error", "deny"): 1, ("invalid_error", "audit"): 1}),
        ("object.data.none == 'a'", {"failure_policy": "Ignore"}, {("invalid_error", "allow"): 1}),
        ("true", {}, {}),
    ],
)
def test_expressions_that_refuse_or_cannot_be_evaluated_are_counted(
    expression: str, spec: Any, expected: dict[tuple[str, str], float]
) -> None:
    async def case() -> None:
        async with opened() as api:
            client = client_of(api)
            await validating.policy(client, expression, binding={"validation_actions": ("Deny", "Audit")}, **spec)
            with contextlib.suppress(ApiError):
                await client.create(validating.config_map(data={"a": "b"}))
            name = "apiserver_validating_admission_policy_check"
            wanted = {("pol", "bind", *labels): count for labels, count in expected.items()}
            assert series(api, f"{name}_total") == series(api, f"{name}_duration_seconds") == wanted

    asyncio.run(case())


def test_mutations_are_counted_with_what_went_wrong() -> None:
    async def case() -> None:
        async with opened() as api:
            client = client_of(api)
            wrong = mutating.labelled("b", "object.data.none")
            await mutating.policy(client, mutating.labelled("a", "'1'"), wrong, failure_policy="Ignore")
            await client.create(validating.config_map())
            name = "apiserver_mutating_admission_policy_check"
            wanted = {("pol", "pol", "no_error"): 1, ("pol", "pol", "invalid_error"): 1}
            assert series(api, f"{name}_total") == series(api, f"{name}_duration_seconds") == wanted

    asyncio.run(case())


def test_pods_that_are_compared_with_the_standards_are_counted() -> None:
    async def case() -> None:
        async with opened() as api:
            client = client_of(api)
            await client.create(core_v1.Namespace(metadata=meta_v1.ObjectMeta(name="low", labels=_LEVELS)))
            await client.create(core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name="default", namespace="low")))
            container = (core_v1.Container(name="c", image="i"),)
            for host in (True, False):
                spec = core_v1.PodSpec(containers=container, host_network=host)
                pod = core_v1.Pod(metadata=meta_v1.ObjectMeta(name=f"p{host}".lower(), namespace="low"), spec=spec)
                if host:
                    with pytest.raises(ApiError, match="violates PodSecurity"):
                        await client.create(pod)
                else:
                    await client.create(pod)
            place = ("baseline", "latest")
            assert series(api, "pod_security_evaluations_total") == {
                ("deny", *place, "audit", "create", "pod", ""): 1,
                ("deny", *place, "enforce", "create", "pod", ""): 1,
                ("allow", *place, "enforce", "create", "pod", ""): 1,
            }

    asyncio.run(case())
