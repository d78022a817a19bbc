"""`bayplan forward`, and what `bayplan up` is told about webhooks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from bayplan.apiserver.routing.forwards import parse_forward
from bayplan.cli.flags.kube_flags import api_server_settings
from bayplan.cli.main import main
from bayplan.client.own_kubeconfig import render
from bayplan.cluster.settings import CLUSTER_API, ClusterSettings
from bayplan.testing.handle import ClusterHandle

SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: hook, namespace: default}
spec: {ports: [{port: 443}]}
"""
EDITOR = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: editors}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]
"""


def run(cluster: ClusterHandle, *arguments: str, kubeconfig: Path | None = None) -> Result:
    return CliRunner().invoke(main, ["forward", "--kubeconfig", str(kubeconfig or cluster.kubeconfig), *arguments])


def listed(cluster: ClusterHandle) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(cluster, "-o", "json").output)
    return found


@pytest.mark.bayplan(nodes=0)
def test_forwards_are_set_changed_listed_and_removed(bayplan_cluster: ClusterHandle) -> None:
    assert run(bayplan_cluster).output == "no calls are forwarded\n"
    bayplan_cluster.apply(SERVICE)
    done = run(bayplan_cluster, "service/default/hook=localhost:9443", "svc/default/hook:80=http://127.0.0.1:8080")
    assert done.exit_code == 0, done.output
    assert done.output == ("service/default/hook -> localhost:9443\nservice/default/hook:80 -> http://127.0.0.1:8080\n")
    run(bayplan_cluster, "service/default/hook=localhost:9444", "--remove", "service/default/hook:80")
    assert listed(bayplan_cluster) == [{"service": "service/default/hook", "target": "localhost:9444"}]
    assert run(bayplan_cluster, "--remove", "service/default/hook").output == "no calls are forwarded\n"
    gone = run(bayplan_cluster, "--remove", "service/default/hook")
    assert (gone.exit_code, "calls for service/default/hook are not forwarded" in gone.output) == (1, True)


@pytest.mark.bayplan(nodes=0)
def test_a_service_that_does_not_exist_is_told_and_forwarded_nevertheless(bayplan_cluster: ClusterHandle) -> None:
    done = run(bayplan_cluster, "service/default/hook=localhost:9443")
    assert done.exit_code == 0
    assert "service/default/hook does not exist (yet)" in done.output
    assert len(listed(bayplan_cluster)) == 1


@pytest.mark.parametrize("arguments", [("service/a/b=there",), ("--remove", "a/b"), ("service/a/b",)])
def test_what_is_no_forward_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, ["forward", *arguments])
    assert done.exit_code == 2
    assert "expected" in done.output


TOKENS = (("ann-token", "ann", "", ()),)


@pytest.mark.bayplan(nodes=0, settings=ClusterSettings(api=CLUSTER_API, tokens=TOKENS))
def test_who_administers_namespaces_but_not_the_cluster_may_not_see_or_set_forwards(
    bayplan_cluster: ClusterHandle, tmp_path: Path
) -> None:
    bayplan_cluster.apply(SERVICE, EDITOR)
    authority = bayplan_cluster.cluster.credentials.authority.certificate
    own = tmp_path / "ann"
    own.write_text(render(bayplan_cluster.server, authority, "ann-token"))
    for arguments in ((), ("service/default/hook=localhost:1",), ("--remove", "service/default/hook")):
        done = run(bayplan_cluster, *arguments, kubeconfig=own)
        assert done.exit_code == 1
        assert 'User "ann" cannot' in done.output
    assert listed(bayplan_cluster) == []


def test_flags_of_webhooks() -> None:
    assert api_server_settings((), CLUSTER_API)[0].simulated_webhooks == "skip"
    flags = ("--simulated-webhooks=fail", "--forward=service/a/b=localhost:1,service/a/c:443=localhost:2")
    settings, _, _ = api_server_settings(flags, CLUSTER_API)
    assert settings.simulated_webhooks == "fail"
    assert [str(one) for one in settings.forwards] == ["service/a/b=localhost:1", "service/a/c:443=localhost:2"]
    assert settings.forwards[0] == parse_forward("service/a/b=localhost:1")


@pytest.mark.parametrize(
    ("flag", "why"),
    [
        ("--simulated-webhooks=ask", "none of skip, fail"),
        ("--forward=service/a/b=localhost:1,service/a/b=localhost:2", "service/a/b is given more than once"),
        ("--forward=service/a/b=http://example.com:80", "without TLS only this machine"),
    ],
)
def test_flags_of_webhooks_that_make_no_sense_are_usage_errors(flag: str, why: str) -> None:
    with pytest.raises(click.UsageError, match=why):
        api_server_settings((flag,))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--forward", "service/a/b"), "--forward: 'service/a/b': expected"),
        (("--simulated-webhooks", "skip", "--apiserver-flag=--simulated-webhooks=fail"), "name the same"),
    ],
)
def test_up_refuses_what_it_cannot_do(arguments: tuple[str, ...], why: str) -> None:
    done = CliRunner().invoke(main, ["up", "--store", "memory:", "--port", "0", *arguments])
    assert done.exit_code == 2
    assert why in " ".join(done.output.split())
