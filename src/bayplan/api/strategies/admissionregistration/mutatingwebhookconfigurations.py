"""Mutating webhook configurations."""

from __future__ import annotations

from typing import Any

from bayplan.api.errors import FieldError
from bayplan.api.strategies.admissionregistration.webhook_bundles import without_empty_bundles
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import admissionregistration_v1
from bayplan.api.validation.meta import UpdateChecks
from bayplan.api.validation.webhooks import check_webhooks, default_webhook


class MutatingWebhookConfigurationStrategy(Strategy):
    """Rules of mutating webhook configurations."""

    update_checks = UpdateChecks(whole=1, change=0)
    knows_finalizers = False
    counts_generation = True
    allow_unconditional_update = False

    def default(self, obj: admissionregistration_v1.MutatingWebhookConfiguration) -> None:
        for webhook in obj.webhooks:
            default_webhook(webhook)

    def shown(self, obj: admissionregistration_v1.MutatingWebhookConfiguration) -> Any:
        return without_empty_bundles(obj)

    def validate(self, obj: admissionregistration_v1.MutatingWebhookConfiguration) -> list[FieldError]:
        errors: list[FieldError] = []
        check_webhooks(errors, obj.webhooks)
        return errors


STRATEGY = MutatingWebhookConfigurationStrategy()
