"""Pod specs that were found sound before."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.strategies.core import pod_forms, pods
from bayplan.api.strategies.core.pod_forms import ValidForms, form_of
from bayplan.api.strategies.core.pods import PodStrategy
from bayplan.api.trusted import trust
from bayplan.api.types import core_v1, meta_v1

_TOKENS = trust(core_v1.ProjectedVolumeSource(default_mode=0o644))


def _spec(token: str, image: str = "app:1", **fields: Any) -> core_v1.PodSpec:
    return core_v1.PodSpec(
        containers=(
            core_v1.Container(
                name="app",
                image=image,
                image_pull_policy="Always",
                termination_message_policy="File",
                volume_mounts=(core_v1.VolumeMount(name=token, mount_path="/var/run/secrets"),),
            ),
        ),
        volumes=(core_v1.Volume(name=token, projected=_TOKENS),),
        restart_policy="Always",
        **{"dns_policy": "ClusterFirst", "service_account_name": "default", **fields},
    )


def _pod(spec: core_v1.PodSpec, name: str = "web") -> core_v1.Pod:
    return core_v1.Pod(metadata=meta_v1.ObjectMeta(name=name), spec=spec)


def test_pods_of_one_template_have_one_form() -> None:
    assert form_of(_spec("kube-api-access-abcde")) == form_of(_spec("kube-api-access-fghij"))
    assert form_of(_spec("kube-api-access-abcde")) != form_of(_spec("kube-api-access-abcde", "app:2"))


def test_a_known_form_still_warns_about_names() -> None:
    strategy = PodStrategy()
    for name, warned in (("web-1", False), ("web-2", False), ("web.3", True)):
        pod = _pod(_spec(f"token-{name[-1]}"), name)
        assert strategy.validate(pod) == []
        assert bool(strategy.warnings(pod, None)) is warned


def test_unsound_specs_are_judged_each_time() -> None:
    strategy = PodStrategy()
    for _ in range(2):
        errors = strategy.validate(_pod(_spec("token", dns_policy="Nonsense")))
        assert [error.field for error in errors] == ["spec.dnsPolicy"]


def test_specs_with_warnings_warn_each_time() -> None:
    strategy = PodStrategy()
    for _ in range(2):
        pod = _pod(_spec("token", node_selector={"beta.kubernetes.io/os": "linux"}))
        assert strategy.validate(pod) == []
        assert strategy.warnings(pod, None) != []


def test_a_sound_spec_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = []
    monkeypatch.setattr(pods, "check_pod_spec", lambda *_: judged.append(1))
    strategy = PodStrategy()
    for token in "abc":
        pod = _pod(_spec(token))
        assert strategy.validate(pod) == []
        assert strategy.warnings(pod, None) == []
    assert len(judged) == 1


def test_annotations_are_judged_each_time_and_the_spec_beside_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = []
    monkeypatch.setattr(pods, "check_pod_spec", lambda *_: judged.append(1))
    strategy = PodStrategy()
    for given, wrong, warns in (
        ({"a": "b"}, [], False),
        ({"a": "c"}, [], False),
        ({}, [], False),
        ({"scheduler.alpha.kubernetes.io/critical-pod": ""}, [], True),
        ({"kubernetes.io/config.mirror": ""}, ["metadata.annotations[kubernetes.io/config.mirror]"], False),
    ):
        pod = _pod(_spec("token"))
        pod.metadata.annotations = given
        assert [error.field for error in strategy.validate(pod)] == wrong
        assert bool(strategy.warnings(pod, None)) is warns
    assert len(judged) == 1


def test_a_spec_that_was_known_only_by_an_annotated_pod_that_warned_is_judged_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged = []
    monkeypatch.setattr(pods, "check_pod_spec", lambda *_: judged.append(1))
    strategy = PodStrategy()
    for given in ({"scheduler.alpha.kubernetes.io/critical-pod": ""}, {}):
        pod = _pod(_spec("token"))
        pod.metadata.annotations = given
        assert strategy.validate(pod) == []
        strategy.warnings(pod, None)
    assert len(judged) == 2


def test_what_was_not_asked_for_last_is_not_remembered() -> None:
    forms = ValidForms()
    first, second = _spec("token", "app:1"), _spec("token", "app:2")
    assert not forms.knows(first)
    assert not forms.knows(second)
    forms.remember(first)
    assert not forms.knows(first)


@pytest.mark.parametrize(("spare", "is_remembered"), [(0, True), (-1, False)])
def test_long_forms_are_not_remembered(monkeypatch: pytest.MonkeyPatch, spare: int, is_remembered: bool) -> None:
    spec = _spec("token")
    monkeypatch.setattr(pod_forms, "_LONGEST_FORM", len(form_of(spec)) + spare)
    forms = ValidForms()
    assert not forms.knows(spec)
    forms.remember(spec)
    assert forms.has_just_known(spec) is is_remembered
    assert not forms.has_just_known(_spec("token"))
    assert forms.knows(_spec("token")) is is_remembered


def test_claims_named_after_the_pod_and_pods_of_one_node_are_not_remembered() -> None:
    forms = ValidForms()
    ephemeral = core_v1.Volume(name="data", ephemeral=core_v1.EphemeralVolumeSource())
    for spec in (core_v1.PodSpec(volumes=(ephemeral,)), core_v1.PodSpec(node_name="n1")):
        assert not forms.knows(spec)
        forms.remember(spec)
        assert not forms.knows(spec)


def test_the_oldest_form_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_forms, "_MOST_BYTES", 5000)
    forms = ValidForms()
    specs = [core_v1.PodSpec(hostname=f"n{number}") for number in range(50)]
    for spec in specs:
        assert not forms.knows(spec)
        forms.remember(spec)
    assert not forms.knows(specs[0])
    assert forms.knows(specs[48])
    assert forms.knows(specs[49])
