"""Leader election of components that run alone: what flags and a configuration file say, and who waits for whom."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bayplan.api.types import coordination_v1, core_v1
from bayplan.cli.flags.election import election_of
from bayplan.cli.main import main
from bayplan.cli.output import Failure
from bayplan.client.leader_election import ElectionSettings
from bayplan.cluster.standalone import Election, HealthServer, run_component
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SystemRandomness
from bayplan.testing.cluster import running_cluster

SLOW = {"leaseDuration": "1m", "renewDeadline": "40s", "retryPeriod": "5s"}


@pytest.mark.parametrize(
    ("flags", "configured", "expected"),
    [
        ({}, {}, Election(name="kube-scheduler")),
        ({"leader_elect": False}, {"leaderElect": True}, None),
        ({}, {"leaderElect": False}, None),
        ({"leader_elect": True}, {"leaderElect": False}, Election(name="kube-scheduler")),
        (
            {},
            {"resourceName": "second", "resourceNamespace": "shop"},
            Election(name="second", namespace="shop"),
        ),
        (
            {"leader_elect_resource_name": "third"},
            {"resourceName": "second"},
            Election(name="third"),
        ),
        ({"leader_elect_resource_lock": "endpoints"}, {}, Election(name="kube-scheduler", resource="endpoints")),
        (
            {"leader_elect_retry_period": "3s"},
            {**SLOW, "leaseDuration": 60_000_000_000},
            Election(
                name="kube-scheduler",
                times=ElectionSettings(lease_duration=60, renew_deadline=40, retry_period=3),
            ),
        ),
    ],
)
def test_flags_go_before_the_configuration(flags: Any, configured: Any, expected: Election | None) -> None:
    assert election_of("kube-scheduler", flags, configured) == expected


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"leader_elect_resource_lock": "configmaps"}, "'configmaps' is none of leases, endpoints"),
        ({"leader_elect_lease_duration": "soon"}, "--leader-elect-lease-duration: 'soon' is no duration"),
        ({"leader_elect_renew_deadline": "20s"}, "lease_duration must be greater than renew_deadline"),
    ],
)
def test_times_that_make_no_sense_are_told(flags: Any, said: str) -> None:
    with pytest.raises(Failure, match=said):
        election_of("kube-scheduler", flags, {})


def test_a_configuration_that_is_wrong_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text("leaderElection: {leaderElect: true, resourceLock: endpoints}\n")
    result = CliRunner().invoke(main, ["scheduler", "--config", str(file), "--kubeconfig", str(tmp_path / "none")])
    assert (result.exit_code, "leaderElection.resourceLock" in result.output) == (1, True), result.output


def test_the_kubeconfig_of_a_configuration_is_used_unless_another_one_is_named(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    for configured, flags, said in (
        (str(tmp_path / "configured"), [], f"{tmp_path}/configured: No such file"),
        (str(tmp_path / "configured"), ["--kubeconfig", str(tmp_path / "named")], f"{tmp_path}/named: No such file"),
        (5, [], "clientConnection.kubeconfig: must be a string, not 5"),
    ):
        file.write_text(json.dumps({**head, "clientConnection": {"kubeconfig": configured}}))
        result = CliRunner().invoke(main, ["scheduler", "--config", str(file), *flags])
        assert (result.exit_code > 0, said in result.output) == (True, True), result.output


@pytest.mark.parametrize(("resource", "kind"), [("leases", coordination_v1.Lease), ("endpoints", core_v1.Endpoints)])
def test_a_component_waits_for_its_own_lock_only_and_says_for_whom(resource: str, kind: Any) -> None:
    async def component(cluster: Any, name: str, stop: asyncio.Event, started: list[str], waits: list[str]) -> None:
        async def work() -> None:
            started.append(name)
            await asyncio.Event().wait()

        clock, randomness = SystemClock(), SystemRandomness()
        election = Election(name=name.partition(":")[0], resource=resource)
        await run_component(
            cluster.cluster.client(),
            name,
            work,
            stop,
            clock=clock,
            randomness=randomness,
            election=election,
            waits=waits.append,
            health=HealthServer(Registry()),
        )

    async def scenario() -> None:
        stop, started, waits = asyncio.Event(), list[str](), list[str]()
        async with running_cluster() as cluster:

            async def until(condition: Any) -> None:
                async def asked() -> bool:
                    return bool(condition())

                await cluster.eventually(asked)

            names = ("kube-scheduler:first", "kube-scheduler:again", "quiet:second")
            tasks = []
            for name in names:
                tasks.append(asyncio.create_task(component(cluster, name, stop, started, waits)))
                await until(lambda name=name: name in started or waits)
            await until(lambda: names[2] in started)
            assert started == [names[0], names[2]]
            assert [leader.startswith(names[0]) for leader in waits] == [True]
            locks = await cluster.client.list(kind, "kube-system")
            assert {"kube-scheduler", "quiet"} <= {lock.metadata.name for lock in locks.items}
            stop.set()
            await asyncio.gather(*tasks)

    asyncio.run(scenario())
