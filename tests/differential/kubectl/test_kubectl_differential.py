"""The comparison of what kubectl prints: what differs by chance does not count, what differs otherwise is noticed."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from bayplan.apiserver.settings import ApiServerSettings
from tests.apiserver.serving import AS_RECORDED, served
from tests.differential.kubectl.commands import TOPICS, commands
from tests.differential.kubectl.comparing import Desk, Report, compare
from tests.differential.kubectl.normalizing import normalized

_KUBECTL = shutil.which("kubectl")
_COMMANDS = (
    *("kubectl apply -f account.yaml", "kubectl create -f pod.yaml", "kubectl get pods -o wide"),
    *("kubectl get pod web -o yaml", "kubectl create -f pod-unknown.yaml"),
)


@pytest.mark.skipif(_KUBECTL is None, reason="no kubectl here")
def test_a_server_of_other_rules_is_noticed_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def play() -> Report:
        other = ApiServerSettings(disable_admission_plugins=("DefaultTolerationSeconds",))
        async with served(AS_RECORDED) as one, served(other) as two:
            first, second = (Desk(tmp_path / name, each.url, str(_KUBECTL)) for name, each in (("1", one), ("2", two)))
            return await compare(first, second, [("some", line) for line in _COMMANDS])

    report = asyncio.run(play())
    assert report.differing == ["kubectl get pod web -o yaml"]
    assert "-    tolerationSeconds: 300" in capsys.readouterr().out
    assert report.shown() == "5 commands compared, 1 differ"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("web   1/1   5s\n", "web  1/1  12m ago\n"),
        ("created: 2026-01-01T00:00:00Z", "created: 2026-01-02T03:04:05Z"),
        ("svc  ClusterIP  10.0.3.4  <none>", "svc  ClusterIP  10.0.33.44   <none>"),
        ("Resource Version:  12", "Resource Version:  345"),
        ("a\nclusterrole/system:openshift:x\nb\n", "a\nb\n"),
    ],
)
def test_what_differs_by_chance_is_left_out(one: str, other: str) -> None:
    assert normalized(one) == normalized(other)


@pytest.mark.parametrize(("one", "other"), [("pod/a created", "pod/b created"), ("  a: 1", "a: 1"), ("200m", "300Mi")])
def test_what_differs_otherwise_is_kept(one: str, other: str) -> None:
    assert normalized(one) != normalized(other)


def test_there_are_commands_of_each_topic() -> None:
    assert {topic for topic, _ in commands()} == set(TOPICS)
    assert len(commands()) > 400
