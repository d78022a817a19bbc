"""Templates that are remembered as sound: what is wrong with others is told as before, and told each time."""

from __future__ import annotations

import pytest

from bayplan.api.errors import FieldError
from bayplan.api.types import core_v1, meta_v1
from bayplan.api.validation.pods.pod_spec import check_pod_template
from bayplan.api.validation.pods.pod_warnings import template_warnings


def template(
    *, labels: dict[str, str] | None = None, policy: str = "Always", **container: object
) -> core_v1.PodTemplateSpec:
    values = {
        "name": "c",
        "image": "i",
        "image_pull_policy": "Always",
        "termination_message_policy": "File",
        **container,
    }
    return core_v1.PodTemplateSpec(
        metadata=meta_v1.ObjectMeta(labels=labels or {}),
        spec=core_v1.PodSpec(
            containers=(core_v1.Container(**values),),  # type: ignore[arg-type]
            restart_policy=policy,
            dns_policy="ClusterFirst",
            termination_grace_period_seconds=30,
        ),
    )


def errors_of(one: core_v1.PodTemplateSpec, path: str = "spec.template") -> list[str]:
    errors: list[FieldError] = []
    check_pod_template(errors, path, one)
    return [error.field for error in errors]


@pytest.mark.parametrize(
    ("spoiled", "where"),
    [
        (template(labels={"a": "b c"}), "spec.template.labels"),
        (template(policy="Sometimes"), "spec.template.spec.restartPolicy"),
        (template(name="C"), "spec.template.spec.containers[0].name"),
        (template(image=""), "spec.template.spec.containers[0].image"),
    ],
)
def test_what_is_wrong_is_told_each_time(spoiled: core_v1.PodTemplateSpec, where: str) -> None:
    for _ in range(3):
        assert errors_of(template()) == []
        assert errors_of(spoiled) == [where]


def test_errors_have_the_path_of_who_asks() -> None:
    one = template(policy="Sometimes")
    assert errors_of(one, "template") == ["template.spec.restartPolicy"]
    assert errors_of(one) == ["spec.template.spec.restartPolicy"]


def test_warnings_come_each_time() -> None:
    twice = (core_v1.EnvVar(name="A", value="1"), core_v1.EnvVar(name="A", value="2"))
    for _ in range(3):
        assert template_warnings("spec.template", template()) == []
        (warning,) = template_warnings("spec.template", template(env=twice))
        assert warning.startswith('spec.template.spec.containers[0].env[1]: hides previous definition of "A"')


def test_a_template_that_was_changed_in_place_is_another_one() -> None:
    one = template()
    assert errors_of(one) == []
    one.spec.restart_policy = "Sometimes"
    assert errors_of(one) == ["spec.template.spec.restartPolicy"]
