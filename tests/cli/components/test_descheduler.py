"""`bayplan descheduler`: help, flags, what is said of wrong policies, and a pass against a cluster."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bayplan.api.types import core_v1
from bayplan.cli.components.descheduler import _print_pass, command
from bayplan.cli.flags.election import election_of
from bayplan.cli.main import main
from bayplan.client.leader_election import ElectionSettings
from bayplan.cluster.standalone import Election
from bayplan.descheduler.report import Attempt, PassReport
from bayplan.descheduler.settings import DeschedulerSettings
from bayplan.testing.builders import deployment
from bayplan.testing.cluster import running_cluster

POLICY = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
  - name: default
    pluginConfig:
      - {name: PodLifeTime, args: {states: [Running]}}
    plugins: {deschedule: {enabled: [PodLifeTime]}}
"""

WITH_CLASS = POLICY.replace(
    "pluginConfig:", "pluginConfig:\n      - {name: DefaultEvictor, args: {priorityThreshold: {name: missing}}}"
)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return file


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["descheduler", *map(str, arguments)])


def test_help_names_the_flags_of_upstream() -> None:
    text = run("--help").output
    for flag in (
        "--policy-config-file",
        "--descheduling-interval",
        "--dry-run",
        "--disable-metrics",
        "--kubeconfig",
        "--client-connection-kubeconfig",
        "--client-connection-qps",
        "--client-connection-burst",
        "--leader-elect",
        "--leader-elect-lease-duration",
        "--secure-port",
        "--bind-address",
        "--node-selector",
        "--v",
    ):
        assert flag in text
    assert "10258" in text
    assert "[default: False]" in text, "without an election, as upstream"
    assert "137s" in text


def test_an_election_has_the_times_of_upstream(policy: Path) -> None:
    context = command.make_context("descheduler", ["--policy-config-file", str(policy), "--leader-elect"])
    configured = {"leaseDuration": "137s", "renewDeadline": "107s", "retryPeriod": "26s", "leaderElect": False}
    assert election_of("descheduler", context.params, configured) == Election(
        name="descheduler", times=ElectionSettings(lease_duration=137, renew_deadline=107, retry_period=26)
    )
    assert election_of("descheduler", {}, configured) is None


def test_unknown_flags_name_the_nearest(policy: Path) -> None:
    result = run("--policy-config-file", policy, "--deschedule-interval", "5m")
    assert result.exit_code == 2
    assert "--descheduling-interval" in result.output


def test_a_policy_is_needed() -> None:
    result = run()
    assert result.exit_code == 2
    assert "--policy-config-file" in result.output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (POLICY.replace("PodLifeTime", "PodLifetime"), "did you mean PodLifeTime?"),
        (POLICY.replace("[Running]", "Running"), "args.states: expected array, got str"),
        (POLICY.replace("v1alpha2", "v1alpha1"), "apiVersion: 'descheduler/v1alpha1' is not supported"),
        ("profiles: [", "policy.yaml: while parsing"),
    ],
)
def test_a_policy_that_is_wrong_makes_no_sense(policy: Path, text: str, expected: str) -> None:
    policy.write_text(text)
    result = run("--policy-config-file", policy)
    assert result.exit_code == 2
    assert expected in result.output


def test_a_node_selector_that_is_none_makes_no_sense(policy: Path) -> None:
    result = run("--policy-config-file", policy, "--node-selector", "a in")
    assert result.exit_code == 2
    assert "--node-selector: " in result.output


def test_one_pass_ends_by_itself_and_an_unknown_priority_class_is_a_failure(policy: Path, tmp_path: Path) -> None:
    async def descheduled(kubeconfig: Path, *arguments: str) -> tuple[int | None, str]:
        program = str(Path(sys.executable).with_name("bayplan"))
        flags = ["--policy-config-file", str(policy), "--kubeconfig", str(kubeconfig), "--secure-port", "0"]
        process = await asyncio.create_subprocess_exec(
            program, "descheduler", *flags, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await process.communicate()
        return process.returncode, output.decode()

    async def scenario() -> None:
        async with running_cluster() as cluster:
            await cluster.client.create(deployment("web", 3))
            await cluster.rolled_out("web", 3)
            before = {pod.metadata.uid for pod in await cluster.pods(app="web")}
            kubeconfig = tmp_path / "kubeconfig"
            await asyncio.to_thread(kubeconfig.write_text, cluster.cluster.kubeconfig())
            dry = await descheduled(kubeconfig, "--dry-run")
            started, *lines, last = dry[1].splitlines()
            assert (dry[0], started, last) == (0, "started: descheduler", "would evict 3 pods, left 0")
            assert len(lines) == 3
            assert all(
                re.fullmatch(r"would evict default/web-\S+ from node-\d \(PodLifeTime\): .*", one) for one in lines
            )
            assert {pod.metadata.uid for pod in await cluster.pods(app="web")} == before
            done = await descheduled(kubeconfig)
            assert done[0] == 0, done[1]
            assert done[1].splitlines()[-1] == "evicted 3 pods, left 0"
            await cluster.rolled_out("web", 3)
            assert not {pod.metadata.uid for pod in await cluster.pods(app="web")} & before
            events = (await cluster.client.list(core_v1.Event, "default")).items
            assert len([one for one in events if one.action == "Descheduled"]) == 3
            await asyncio.to_thread(policy.write_text, WITH_CLASS)
            failed = await descheduled(kubeconfig)
            assert failed[0] == 1, failed[1]
            assert 'priorityclasses.scheduling.k8s.io "missing" not found' in failed[1]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        (
            0.0,
            [
                "evicted n/p from a (PodLifeTime): it is old",
                "left n/q on a (PodLifeTime): a budget",
                "failed: LowNodeUtilization: no metrics",
                "no pod was looked at: too few nodes",
                "evicted 1 pods, left 1",
            ],
        ),
        (
            60.0,
            [
                "failed: LowNodeUtilization: no metrics",
                "no pod was looked at: too few nodes",
                "evicted 1 pods, left 1",
            ],
        ),
    ],
)
def test_what_is_said_of_a_pass(interval: float, expected: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    report = PassReport(
        [
            Attempt("n/p", "a", "default", "PodLifeTime", "it is old", True),
            Attempt("n/q", "a", "default", "PodLifeTime", "it is old", False, "a budget"),
        ],
        ["LowNodeUtilization: no metrics"],
        "too few nodes",
    )
    _print_pass(DeschedulerSettings(descheduling_interval=interval), report)
    assert capsys.readouterr().out.splitlines() == expected
