# ruff: noqa: E501 - one case, one line
"""Policy files: what they may say, and what is said of those that are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bayplan.descheduler.errors import PolicyError
from bayplan.descheduler.plugins.default_evictor import DEFAULT_PROTECTIONS, DefaultEvictorArguments, PodProtections
from bayplan.descheduler.policy_reader import load_policy, parse_policy
from bayplan.descheduler.registry import STRATEGIES


def tree(*plugins: dict[str, Any], points: dict[str, Any] | None = None, **top: Any) -> dict[str, Any]:
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": [{"name": "one", "pluginConfig": list(plugins), "plugins": points or {}}],
        **top,
    }


def problems(*plugins: dict[str, Any], points: dict[str, Any] | None = None, **top: Any) -> tuple[str, ...]:
    with pytest.raises(PolicyError) as caught:
        parse_policy(tree(*plugins, points=points, **top))
    return caught.value.errors


def test_what_is_left_out_has_upstreams_defaults() -> None:
    policy = parse_policy({"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"})
    assert policy.profiles == ()
    assert (policy.max_per_node, policy.max_per_namespace, policy.max_total) == (None, None, None)
    assert policy.grace_period_seconds is None
    assert not policy.notifies_of_failures
    assert not policy.collects_usage
    evictor = parse_policy(tree()).profiles[0].evictor
    assert evictor == DefaultEvictorArguments()
    assert evictor.protections() == set(DEFAULT_PROTECTIONS)
    assert not evictor.require_better_node


def test_top_level_fields() -> None:
    policy = parse_policy(
        tree(
            nodeSelector="pool=a",
            maxNoOfPodsToEvictPerNode=1,
            maxNoOfPodsToEvictPerNamespace=2,
            maxNoOfPodsToEvictTotal=3,
            gracePeriodSeconds=0,
            evictionFailureEventNotification=True,
            metricsProviders=[{"source": "KubernetesMetrics"}],
        )
    )
    assert policy.node_selector == "pool=a"
    assert (policy.max_per_node, policy.max_per_namespace, policy.max_total) == (1, 2, 3)
    assert policy.grace_period_seconds == 0
    assert policy.notifies_of_failures
    assert policy.collects_usage
    assert parse_policy(tree(metricsCollector={"enabled": True})).collects_usage


def test_nulls_are_what_is_left_out() -> None:
    one = {"name": "DefaultEvictor", "args": {"podProtections": {"defaultDisabled": None, "config": {}}}}
    policy = parse_policy(tree(one, maxNoOfPodsToEvictTotal=None))
    assert policy.profiles[0].evictor.pod_protections == PodProtections()
    assert policy.max_total is None


def test_extension_points_have_two_spellings() -> None:
    for name in ("preevictionfilter", "preEvictionFilter"):
        assert parse_policy(tree(points={name: {"enabled": ["DefaultEvictor"]}})) == parse_policy(tree())


def test_all_errors_come_at_once() -> None:
    found = problems(
        {"name": "PodLifeTime", "args": {"old": 1}}, points={"balance": {"enabled": ["PodLifTime"]}}, maxNoOfPods=1
    )
    assert [one.partition(";")[0] for one in found] == [
        'unknown field "maxNoOfPods"',
        'unknown field "profiles[0].pluginConfig[0].args.old"',
        "profiles[0].plugins.balance.enabled: there is no plugin PodLifTime",
    ]


LIFE = {"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 1}}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (problems(nodeSelektor="x"), 'unknown field "nodeSelektor"; did you mean nodeSelector?'),
        (
            problems({"name": "PodLifeTime", "args": {"maxPodLifetimeSeconds": 1}}),
            'unknown field "profiles[0].pluginConfig[0].args.maxPodLifetimeSeconds"; did you mean maxPodLifeTimeSeconds?',
        ),
        (
            problems({"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 1, "namespaces": {"includes": []}}}),
            'unknown field "profiles[0].pluginConfig[0].args.namespaces.includes"; did you mean include?',
        ),
        (
            problems({"name": "PodLifetime"}),
            "profiles[0].pluginConfig[0].name: plugin PodLifetime in pluginConfig not registered; did you mean PodLifeTime?",
        ),
        (
            problems(LIFE, points={"deschedule": {"enabled": ["PodLifetime"]}}),
            "profiles[0].plugins.deschedule.enabled: there is no plugin PodLifetime; did you mean PodLifeTime?",
        ),
        (
            problems(LIFE, points={"balance": {"enabled": ["PodLifeTime"]}}),
            "profiles[0].plugins.balance.enabled: plugin PodLifeTime has no extension point balance, but deschedule",
        ),
        (
            problems(points={"deschedule": {"enabled": ["PodLifeTime"]}}),
            'profiles[0].plugins.deschedule.enabled: unable to find "PodLifeTime" plugin config: add "- name: PodLifeTime" to pluginConfig',
        ),
        (problems(LIFE, LIFE), "profiles[0].pluginConfig[1]: plugin PodLifeTime is configured twice"),
        (
            problems({"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": "1d"}}),
            "profiles[0].pluginConfig[0].args.maxPodLifeTimeSeconds: expected int | null, got str",
        ),
        (
            problems({"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": -1}}),
            "profiles[0].pluginConfig[0].args.maxPodLifeTimeSeconds: expected int >= 0",
        ),
        (
            problems({"name": "PodLifeTime", "args": ["x"]}),
            "profiles[0].pluginConfig[0].args: expected object, got array",
        ),
        (problems(maxNoOfPodsToEvictTotal="5"), "maxNoOfPodsToEvictTotal: expected int | null, got str"),
        (problems(nodeSelector="a in"), "nodeSelector: "),
        (problems(metricsProviders=[{"source": "Graphite"}]), "metricsProviders[0].source: expected KubernetesMetrics or Prometheus, not 'Graphite'"),
        (
            problems(metricsProviders=[{"source": "KubernetesMetrics"}] * 2),
            'metric provider "KubernetesMetrics" is already configured, each source can be configured only once',
        ),
        (
            problems(metricsProviders=[{"source": "KubernetesMetrics"}], metricsCollector={"enabled": True}),
            "it is not allowed to combine metrics provider when metrics collector is enabled",
        ),
        (problems(metricsProviders=[{"source": "Prometheus"}]), "metricsProviders[0].prometheus: prometheus configuration is required"),
        (
            problems(metricsProviders=[{"source": "Prometheus", "prometheus": {"url": "http://x", "authToken": {}}}]),
            "metricsProviders[0].prometheus.authToken: prometheus authToken secret is expected",
        ),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else "",
)  # fmt: skip
def test_what_is_wrong_with_a_policy(found: tuple[str, ...], expected: str) -> None:
    assert len(found) == 1, found
    assert found[0].startswith(expected), found


@pytest.mark.parametrize(
    ("plugin", "args", "expected"),
    [
        ("PodLifeTime", {}, "at least one filtering criterion must be specified"),
        ("PodLifeTime", {"states": ["Runing"]}, "states must be one of [Co"),
        ("PodLifeTime", {"conditions": [{}], "exitCodes": [1]}, "conditions[0]: at least one of type, status"),
        ("PodLifeTime", {"maxPodLifeTimeSeconds": 1, "ownerKinds": {"include": ["a"], "exclude": ["b"]}}, "only one of Include/Exclude ownerKinds"),
        ("PodLifeTime", {"maxPodLifeTimeSeconds": 1, "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}, "failed to get label selectors"),
        ("RemoveDuplicates", {"namespaces": {"include": ["a"], "exclude": ["b"]}}, "only one of Include/Exclude namespaces can be set"),
        ("RemovePodsHavingTooManyRestarts", {}, "invalid PodsHavingTooManyRestarts threshold"),
        ("RemovePodsHavingTooManyRestarts", {"podRestartThreshold": 1, "states": ["Failed"]}, "states must be one of [CrashLoopBackOff Running]"),
        ("RemovePodsViolatingNodeAffinity", {}, "nodeAffinityType needs to be set"),
        ("RemovePodsViolatingNodeAffinity", {"nodeAffinityType": ["required"]}, "nodeAffinityType must be one of"),
        ("RemovePodsViolatingNodeTaints", {"excludedTaints": ["a"], "includedTaints": ["b"]}, "either includedTaints or excludedTaints can be set, but not both"),
        ("RemovePodsViolatingTopologySpreadConstraint", {"constraints": ["Maybe"]}, "constraint Maybe is not one of"),
        ("LowNodeUtilization", {}, "thresholds config is not valid: no resource threshold is configured"),
        ("LowNodeUtilization", {"thresholds": {"cpu": 101}, "targetThresholds": {"cpu": 50}}, "thresholds config is not valid: cpu threshold not in [0, 100] range"),
        ("LowNodeUtilization", {"thresholds": {"cpu": 20}, "targetThresholds": {"memory": 50}}, "thresholds and targetThresholds configured different resources"),
        ("LowNodeUtilization", {"thresholds": {"cpu": 60}, "targetThresholds": {"cpu": 50}}, "thresholds' cpu percentage is greater than targetThresholds'"),
        ("LowNodeUtilization", {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}, "evictableNamespaces": {"include": ["a"]}}, "only Exclude namespaces can be set"),
        ("LowNodeUtilization", {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}, "metricsUtilization": {"source": "Prometheus"}}, "metricsUtilization.source: Prometheus is not supported; use KubernetesMetrics"),
        ("HighNodeUtilization", {}, "no resource threshold is configured"),
        ("HighNodeUtilization", {"thresholds": {"cpu": 20}, "evictionModes": ["All"]}, "invalid eviction mode All"),
        ("DefaultEvictor", {"priorityThreshold": {"value": 1, "name": "a"}}, "priority threshold misconfigured, only one of priorityThreshold fields can be set"),
        ("DefaultEvictor", {"priorityThreshold": {"value": 2000000001}}, "priority threshold can't be greater than 2000000000"),
        ("DefaultEvictor", {"noEvictionPolicy": "Sometimes"}, "noEvictionPolicy accepts only"),
        ("DefaultEvictor", {"minPodAge": "10 minutes"}, 'minPodAge: time: invalid duration "10 minutes"'),
        ("DefaultEvictor", {"podProtections": {"extraEnabled": ["DaemonSetPods"]}}, 'invalid pod protection policy in ExtraEnabled: "DaemonSetPods"'),
        ("DefaultEvictor", {"podProtections": {"defaultDisabled": ["PodsWithPVC"]}}, 'invalid pod protection policy in DefaultDisabled: "PodsWithPVC"'),
        ("DefaultEvictor", {"podProtections": {"extraEnabled": ["PodsWithPVC"] * 2}}, "PodProtections.ExtraEnabled contains duplicate entries"),
        ("DefaultEvictor", {"evictDaemonSetPods": True, "podProtections": {"extraEnabled": ["PodsWithPVC"]}}, "cannot use Deprecated fields alongside"),
        (
            "DefaultEvictor",
            {"podProtections": {"extraEnabled": ["PodsWithPVC"], "config": {"PodsWithPVC": {"protectedStorageClasses": [{}]}}}},
            "PodProtections.Config.PodsWithPVC.ProtectedStorageClasses[0] name cannot be empty",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_arguments(plugin: str, args: dict[str, Any], expected: str) -> None:
    found = problems({"name": plugin, "args": args})
    path = "profiles[0].pluginConfig[0].args: "
    assert any(one.startswith(path + expected) for one in found), found


@pytest.mark.parametrize("reference", [{"name": "a"}, {"namespace": "a"}, {}])
def test_a_token_has_a_name_and_a_namespace(reference: dict[str, str]) -> None:
    prometheus = {"url": "http://x", "authToken": {"secretReference": reference}}
    (found,) = problems(metricsProviders=[{"source": "Prometheus", "prometheus": prometheus}])
    assert "does not set both namespace and name" in found


def test_real_usage_is_asked_for_in_one_way() -> None:
    thresholds = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}

    def found(**metrics: Any) -> tuple[str, ...]:
        return problems({"name": "LowNodeUtilization", "args": {**thresholds, "metricsUtilization": metrics}})

    assert "both" in found(source="KubernetesMetrics", metricsServer=True)[0]
    assert "prometheus configuration" in found(source="KubernetesMetrics", prometheus={"query": "x"})[0]
    assert "unrecognized metrics source" in found(source="Graphite")[0]
    assert "metrics source is empty" in found()[0]
    for metrics in ({"source": "KubernetesMetrics"}, {"metricsServer": True}):
        parse_policy(tree({"name": "LowNodeUtilization", "args": {**thresholds, "metricsUtilization": metrics}}))


def test_disabled_plugins_must_exist() -> None:
    (found,) = problems(points={"filter": {"disabled": ["DefaultEviktor"]}})
    assert "did you mean DefaultEvictor?" in found
    parse_policy(tree(points={"filter": {"disabled": ["DefaultEvictor"]}}))


def test_one_of_several_states_that_does_not_exist_is_an_error() -> None:
    found = problems({"name": "PodLifeTime", "args": {"states": ["Running", "Runs"]}})
    assert "states must be one of" in found[0]
    parse_policy(tree({"name": "PodLifeTime", "args": {"states": ["Running", "Pending"]}}))


def test_all_that_is_wrong_is_said_at_once() -> None:
    found = problems({"name": "RemovePodsViolatingNodeAffinity"}, {"name": "PodLifeTime"}, nodeSelector="a in")
    assert len(found) == 3


@pytest.mark.parametrize("version", ["descheduler/v1alpha1", "v1", None])
def test_other_versions_are_not_read(version: str | None) -> None:
    with pytest.raises(PolicyError, match="use 'descheduler/v1alpha2'"):
        parse_policy({**tree(), "apiVersion": version})


def test_a_file_that_is_no_policy(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    for text, expected in (
        ("- a", "expected a DeschedulerPolicy"),
        ("a: [", "policy.yaml: while parsing"),
        ("", "expected a"),
    ):
        file.write_text(text)
        with pytest.raises(PolicyError, match=expected):
            load_policy(file)


def test_deviations_may_be_larger_below_than_above() -> None:
    thresholds: dict[str, Any] = {"thresholds": {"cpu": 60}, "targetThresholds": {"cpu": 50}}
    assert problems({"name": "LowNodeUtilization", "args": thresholds})
    thresholds["useDeviationThresholds"] = True
    assert parse_policy(tree({"name": "LowNodeUtilization", "args": thresholds})).profiles


def test_every_strategy_is_registered_under_its_name_and_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "descheduler.md").read_text()
    for name, strategy in STRATEGIES.items():
        assert strategy.name == name == strategy.__name__
        assert strategy.point in ("deschedule", "balance")
        assert f"`{name}`" in page
