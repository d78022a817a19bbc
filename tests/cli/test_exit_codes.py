"""Exit codes: 0 yes, 1 no, 2 the question makes no sense; for every verb that asks questions and every kind of bad question."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bayplan.cli.exit_codes import MEANINGS, failure_of
from bayplan.cli.main import VERBS, main
from bayplan.simulation.snapshots.snapshot import to_bytes
from bayplan.testing.builders import node, pod
from tests.simulation.objects import copy_of, owned, set_of

NO_SCHEDULER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{plugins: {filter: {enabled: [{name: NoSuch}]}}}]\n"
NO_CONTEXT = "apiVersion: v1\nkind: Config\ncurrent-context: none\n"
UNREACHABLE = """\
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
"""

QUESTIONS: dict[str, tuple[str, ...]] = {
    "capacity": ("capacity", "--cpu", "1"),
    "consolidate": ("consolidate",),
    "simulate": ("simulate", "--cordon", "a"),
    "compare": ("compare", "--scheduler-config", "GOOD", "--seeds", "1"),
    "rehearse": ("rehearse", "--after", "config=GOOD"),
    "replay": ("replay",),
    "explain": ("explain", "web-1"),
    "explain --fix": ("explain", "big", "--fix"),
    "explain node": ("explain", "node/a"),
    "explain workload": ("explain", "rs/web"),
}
"""A good question of every verb that asks about a cluster."""

LIVE = {**QUESTIONS, "snapshot": ("snapshot", "-o", "OUT"), "record": ("record", "-o", "OUT", "--for", "1s")}
"""Those that can ask a live cluster."""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    web = set_of("web", 2)
    there = [owned(web, "web-1", "a", cpu="1"), owned(web, "web-2", "b", cpu="1")]
    copy = copy_of(node("a"), node("b"), web, *there, pod("big", cpu="6"))
    texts = {
        "CLUSTER": to_bytes(copy),
        "GOOD": b"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n",
        "NO_SCHEDULER": NO_SCHEDULER.encode(),
        "NO_CONTEXT": NO_CONTEXT.encode(),
        "UNREACHABLE": UNREACHABLE.encode(),
        "BROKEN": b"{ this is [ no cluster",
        "EMPTY": b"",
        "PRICES": b"- nonsense",
    }
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
    return {name: str(tmp_path / name) for name in (*texts, "OUT", "MISSING")}


def run(files: dict[str, str], *arguments: str) -> Result:
    def named(argument: str) -> str:
        option, equals, value = argument.rpartition("=")
        return f"{option}{equals}{files.get(value, value)}"

    return CliRunner().invoke(main, [named(one) for one in arguments])


def expect(result: Result, code: int) -> None:
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception


@pytest.mark.parametrize("verb", [name for name in QUESTIONS if name != "explain --fix"])
def test_yes(files: dict[str, str], verb: str) -> None:
    expect(run(files, *QUESTIONS[verb], "--cluster", "CLUSTER"), 1 if verb == "replay" else 0)


@pytest.mark.parametrize("verb", QUESTIONS)
@pytest.mark.parametrize("cluster", ["MISSING", "BROKEN", "EMPTY"])
def test_a_cluster_that_cannot_be_read_makes_no_sense(files: dict[str, str], verb: str, cluster: str) -> None:
    result = run(files, *QUESTIONS[verb], "--cluster", cluster)
    expect(result, 2)
    assert files[cluster] in result.output


@pytest.mark.parametrize("verb", LIVE)
@pytest.mark.parametrize(
    ("kubeconfig", "context", "said"),
    [
        ("MISSING", "", "--kubeconfig"),
        ("BROKEN", "", "--kubeconfig"),
        ("NO_CONTEXT", "", "none"),
        ("UNREACHABLE", "wrong", "wrong"),
        ("UNREACHABLE", "", "is the cluster running?"),
    ],
)
def test_a_live_cluster_that_is_not_there_makes_no_sense(
    files: dict[str, str], verb: str, kubeconfig: str, context: str, said: str
) -> None:
    result = run(files, *LIVE[verb], "--kubeconfig", kubeconfig, *(("--context", context) if context else ()))
    expect(result, 2)
    assert said in result.output


@pytest.mark.parametrize("verb", QUESTIONS)
def test_two_clusters_at_once_make_no_sense(files: dict[str, str], verb: str) -> None:
    expect(run(files, *QUESTIONS[verb], "--cluster", "CLUSTER", "--context", "c"), 2)


def test_a_broken_scheduler_configuration_is_no_reason_why_a_pod_is_pending(files: dict[str, str]) -> None:
    Path(files["GOOD"]).write_text(
        '{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "PodFitsResource"}]}'
    )
    result = run(files, "explain", "big", "--cluster", "CLUSTER", "--scheduler-config", "GOOD")
    expect(result, 2)
    assert "did you mean PodFitsResources?" in result.output


@pytest.mark.parametrize("verb", [verb for verb in QUESTIONS if verb not in ("compare", "rehearse", "explain node")])
@pytest.mark.parametrize("config", ["MISSING", "NO_SCHEDULER"])
def test_a_scheduler_configuration_that_is_none_makes_no_sense(files: dict[str, str], verb: str, config: str) -> None:
    question = QUESTIONS["explain"] if verb == "explain workload" else QUESTIONS[verb]
    expect(run(files, *question, "--cluster", "CLUSTER", "--scheduler-config", config), 2)


@pytest.mark.parametrize("verb", LIVE)
def test_an_unknown_option_makes_no_sense(files: dict[str, str], verb: str) -> None:
    expect(run(files, *LIVE[verb], "--no-such-option"), 2)


@pytest.mark.parametrize(
    "question",
    [
        ("explain", "nobody"),
        ("explain", "node/none"),
        ("explain", "deploy/none"),
        ("explain", "pvc/none"),
        ("explain", "big", "--fix", "--like-node", "none"),
        ("explain", "big", "--fix", "--shape", "cpu=lots"),
        ("explain", "big", "--fix", "--shape", "cpu"),
        ("explain", "node/a", "--fix"),
        ("explain", "big", "--patch"),
        ("capacity", "--cpu", "lots"),
        ("capacity", "--cpu", "-1"),
        ("capacity", "--like", "default/nobody"),
        ("capacity", "--pod", "MISSING"),
        ("capacity", "--cpu", "1", "--replicas", "0"),
        ("capacity", "--cpu", "1", "--replicas", "99", "--like-node", "none"),
        ("capacity", "--mix", "default/nobody=1"),
        ("capacity",),
        ("consolidate", "-l", "a in ("),
        ("consolidate", "-l", "pool=none"),
        ("simulate",),
        ("simulate", "--drain", "none"),
        ("simulate", "--cordon", "none"),
        ("simulate", "--delete-node", "none"),
        ("simulate", "--fail-zone", "none"),
        ("simulate", "--taint", "none=k:NoSchedule"),
        ("simulate", "--taint", "nonsense"),
        ("simulate", "--scale", "deployment/default/none=1"),
        ("simulate", "--scale", "nonsense/default/web=1"),
        ("simulate", "--apply", "MISSING"),
        ("simulate", "--apply", "BROKEN"),
        ("simulate", "--upgrade", "pool=none"),
        ("simulate", "--add-nodes", "1", "--like", "none"),
        ("simulate", "--for", "long"),
        ("compare", "--scheduler-config", "GOOD", "--prices", "PRICES"),
        ("compare", "--scheduler-config", "MISSING"),
        ("compare", "--scheduler-config", "GOOD", "--on", "spark://a:1"),
        ("compare", "--scheduler-config", "GOOD", "--on", "dask://a"),
        ("compare", "--scheduler-config", "GOOD", "--on", "ray://a:b"),
        ("rehearse",),
        ("rehearse", "--after", "nonsense"),
        ("rehearse", "--after", "kubernetes=1.2"),
        ("rehearse", "--after", "config=MISSING"),
        ("rehearse", "--after", "config=NO_SCHEDULER"),
        ("rehearse", "--after", "plugin=MISSING"),
        ("rehearse", "--after", "plugin=BROKEN"),
        ("replay", "MISSING"),
        ("replay", "BROKEN"),
    ],
    ids=" ".join,
)
def test_what_is_not_there_or_no_amount_makes_no_sense(files: dict[str, str], question: tuple[str, ...]) -> None:
    expect(run(files, *question, "--cluster", "CLUSTER"), 2)


@pytest.mark.parametrize(
    "question",
    [
        ("explain", "big"),
        ("explain", "rs/short"),
        ("capacity", "--cpu", "99"),
        ("capacity", "--cpu", "1", "--replicas", "99"),
        ("consolidate", "--keep", "2"),
        ("simulate", "--scale", "replicaset/default/web=999"),
        ("replay",),
    ],
    ids=" ".join,
)
def test_no(files: dict[str, str], question: tuple[str, ...]) -> None:
    short = copy_of(node("a"), node("b"), set_of("short"), set_of("web"), pod("big", cpu="6"))
    Path(files["CLUSTER"]).write_bytes(to_bytes(short))
    expect(run(files, *question, "--cluster", "CLUSTER"), 1)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_refuses_an_unknown_option(verb: str) -> None:
    assert CliRunner().invoke(main, [verb, "--no-such-option"]).exit_code == 2


@pytest.mark.parametrize("name", MEANINGS)
def test_every_error_with_a_meaning_exists(name: str) -> None:
    module, _, cls = name.rpartition(".")
    error = getattr(importlib.import_module(module), cls)
    assert issubclass(error, Exception)


def test_an_error_that_nobody_foresaw_has_no_meaning() -> None:
    assert failure_of(ValueError("x")) is None
