"""Pod templates."""

from __future__ import annotations

from bayplan.api.defaults.pod_spec import default_pod_template
from bayplan.api.errors import FieldError
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import core_v1
from bayplan.api.validation.pods.pod_spec import check_pod_template
from bayplan.api.validation.pods.pod_warnings import template_warnings


class PodTemplateStrategy(Strategy):
    """Rules of pod templates."""

    counts_generation = True
    returns_object_on_delete = True

    def default(self, obj: core_v1.PodTemplate) -> None:
        default_pod_template(obj.template)

    def validate(self, obj: core_v1.PodTemplate) -> list[FieldError]:
        errors: list[FieldError] = []
        check_pod_template(errors, "template", obj.template)
        return errors

    def warnings(self, obj: core_v1.PodTemplate, old: core_v1.PodTemplate | None) -> list[str]:
        return template_warnings("template", obj.template, old.template if old is not None else None)


STRATEGY = PodTemplateStrategy()
