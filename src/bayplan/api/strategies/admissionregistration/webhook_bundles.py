"""Empty `caBundle`s of webhooks: kept, since leaving one out later is a change that counts for the generation, and never shown."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from bayplan.api.types.admissionregistration_v1 import MutatingWebhookConfiguration, ValidatingWebhookConfiguration

T = TypeVar("T", MutatingWebhookConfiguration, ValidatingWebhookConfiguration)


def without_empty_bundles(obj: T) -> T:
    """The configuration, or a copy in which empty bundles are missing."""
    if all(one.client_config.ca_bundle != "" for one in obj.webhooks):
        return obj
    webhooks = tuple(
        replace(one, client_config=replace(one.client_config, ca_bundle=one.client_config.ca_bundle or None))
        for one in obj.webhooks
    )
    return replace(obj, metadata=replace(obj.metadata), webhooks=webhooks)
