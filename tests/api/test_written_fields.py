"""Which of the changed fields the writer of an object, of its status or of another subresource can own, and what of an object is shown and told apart."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api import codec
from bayplan.api.kinds import KindTable
from bayplan.api.managedfields.fieldset import FieldSet, of_paths
from bayplan.api.strategies import strategy_for
from bayplan.api.strategies.core.events import STRATEGY as EVENTS
from bayplan.api.types import admissionregistration_v1 as admission

KINDS = KindTable()
SPEC, STATUS, LABELS = ("f:spec", "f:a"), ("f:status", "f:b"), ("f:metadata", "f:labels")
CERTIFICATE, CONDITIONS = ("f:status", "f:certificate"), ("f:status", "f:conditions")
ALL = (SPEC, STATUS, LABELS)


def fields(*paths: tuple[str, ...]) -> FieldSet:
    return of_paths(*paths)


@pytest.mark.parametrize(
    ("group", "plural", "subresource", "given", "owned"),
    [
        ("", "pods", "", ALL, (SPEC, LABELS)),
        ("", "pods", "status", ALL, (STATUS, LABELS)),
        ("", "pods", "ephemeralcontainers", ALL, ALL),
        ("", "pods", "resize", ALL, ALL),
        ("", "namespaces", "", ALL, (SPEC, LABELS)),
        ("", "namespaces", "finalize", ALL, (SPEC, LABELS)),
        ("", "namespaces", "status", ALL, (STATUS, LABELS)),
        ("", "configmaps", "", ALL, ALL),
        ("", "services", "status", ALL, (STATUS, LABELS)),
        ("certificates.k8s.io", "certificatesigningrequests", "approval", (SPEC, CERTIFICATE, CONDITIONS), (CONDITIONS,)),
        ("certificates.k8s.io", "certificatesigningrequests", "status", (SPEC, CERTIFICATE), (CERTIFICATE,)),
    ],
)  # fmt: skip
def test_writers_own_what_they_can_change(
    group: str, plural: str, subresource: str, given: Any, owned: tuple[tuple[str, ...], ...]
) -> None:
    kind = KINDS.of_resource(group, "v1", plural)
    assert kind is not None
    assert strategy_for(kind).ownable(subresource, fields(*given)) == fields(*owned)


@pytest.mark.parametrize(
    ("kept", "shown"),
    [
        ([None], [None]),
        (["YQ=="], ["YQ=="]),
        ([""], [None]),
        (["YQ==", "", None], ["YQ==", None, None]),
    ],
)
@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        (admission.ValidatingWebhookConfiguration, "validatingwebhookconfigurations"),
        (admission.MutatingWebhookConfiguration, "mutatingwebhookconfigurations"),
    ],
)
def test_empty_bundles_of_webhooks_are_kept_and_not_shown(
    kind: Any, plural: str, kept: list[str | None], shown: list[str | None]
) -> None:
    webhooks = [{"name": "a.b.c", "clientConfig": {"caBundle": one}} for one in kept]
    obj = codec.from_tree(kind, {"metadata": {"name": "w"}, "webhooks": webhooks})
    found = KINDS.of_resource("admissionregistration.k8s.io", "v1", plural)
    assert found is not None
    seen = strategy_for(found).shown(obj)
    assert [one.client_config.ca_bundle for one in seen.webhooks] == shown
    assert [one.client_config.ca_bundle for one in obj.webhooks] == kept
    assert (seen is obj) is ("" not in kept)


def test_events_are_selected_by_the_names_of_their_group() -> None:
    names = EVENTS.stored_field_names("events.k8s.io")
    assert names is not None
    assert (names["regarding.name"], names["reportingController"]) == ("involvedObject.name", "reportingComponent")
    assert EVENTS.stored_field_names("") is None
