"""Configurations of admission webhooks as objects. Conformance: AdmissionWebhook, what of it needs neither a webhook nor compiled expressions."""

from __future__ import annotations

import pytest

from tests.integration.conformance.requests import Object, Requests, conformance

GROUP = "/apis/admissionregistration.k8s.io"
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
FIRST = {"name": "expression-1", "expression": "object.metadata.namespace == 'harbour'"}
SECOND = {"name": "expression-2", "expression": "object.metadata.namespace == 'yard'"}


def configuration(*conditions: Object) -> Object:
    """A configuration of one webhook behind a service."""
    webhook = {
        "name": "conditional.webhook.example.com",
        "rules": [RULE],
        "clientConfig": {"service": {"namespace": "default", "name": "webhook", "path": "/deny", "port": 8443}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1", "v1beta1"],
        "namespaceSelector": {"matchLabels": {"trial": "true"}},
        "matchConditions": list(conditions),
    }
    return {"metadata": {"name": "conditional"}, "webhooks": [webhook]}


@pytest.mark.parametrize("kind", ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"])
def test_conditions_of_webhooks_are_stored_and_changed(kind: str) -> None:
    """AdmissionWebhook should be able to create and update validating (mutating) webhook configurations with match conditions."""

    async def scenario(api: Requests) -> None:
        path = f"{GROUP}/v1/{kind}"
        await api.create(path, configuration(FIRST))
        found = await api.get(f"{path}/conditional")
        assert found["webhooks"][0]["matchConditions"] == [FIRST]
        found["webhooks"][0]["matchConditions"] = [FIRST, SECOND]
        await api.update(f"{path}/conditional", found)
        assert (await api.get(f"{path}/conditional"))["webhooks"][0]["matchConditions"] == [FIRST, SECOND]
        await api.delete(f"{path}/conditional")

    conformance(scenario)


def test_webhook_resources_are_discovered() -> None:
    """AdmissionWebhook should include webhook resources in discovery documents."""

    async def scenario(api: Requests) -> None:
        groups = {one["name"]: one for one in (await api.get("/apis"))["groups"]}
        for group in (groups["admissionregistration.k8s.io"], await api.get(GROUP)):
            assert group["name"] == "admissionregistration.k8s.io"
            assert "v1" in {one["version"] for one in group["versions"]}
        listed = await api.get(f"{GROUP}/v1")
        assert listed["groupVersion"] == "admissionregistration.k8s.io/v1"
        names = {one["name"] for one in listed["resources"]}
        assert {"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} <= names

    conformance(scenario)
