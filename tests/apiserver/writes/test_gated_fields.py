"""Fields behind Bayplan's own feature gates: unknown to a server without the gate, fields like any other with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from bayplan.api import protobuf
from bayplan.api.codec import from_tree
from bayplan.api.feature_gates import ALL_GATES
from bayplan.api.protobuf.reading import to_tree
from bayplan.api.quota.scopes import Requirement, pod_matches
from bayplan.api.types import core_v1
from bayplan.apiserver.requests import Request, Response, User
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.store.interface import Store
from bayplan.store.url import open_store
from bayplan.support.clock import SystemClock
from tests.apiserver.serving import new_api

ADMIN = User("admin", ("system:masters",))
PODS = "/api/v1/namespaces/default/pods"
REQUIRED = "requiredDuringSchedulingRequiredDuringExecution"
PREFERRED = "preferredDuringSchedulingRequiredDuringExecution"
SSD: dict[str, Any] = {
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
}
NEAR: dict[str, Any] = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

Send = Callable[..., Awaitable[Response]]


def pod(name: str = "p", **affinity: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "app:1"}], "affinity": affinity}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


RULES: dict[str, Any] = {
    "nodeAffinity": {REQUIRED: SSD, PREFERRED: [{"weight": 5, "preference": SSD["nodeSelectorTerms"][0]}]},
    "podAffinity": {REQUIRED: [NEAR]},
    "podAntiAffinity": {REQUIRED: [NEAR], PREFERRED: [{"weight": 7, "podAffinityTerm": NEAR}]},
}


def served(story: Callable[[Send], Awaitable[None]], *, gate: bool, store: Store | None = None) -> None:
    async def run() -> None:
        gates = ALL_GATES if gate else frozenset()
        settings = ApiServerSettings(feature_gates=gates, disable_admission_plugins=("ServiceAccount",))
        server = new_api(store, settings)
        await server.open()

        async def send(
            method: str, path: str, body: Any = None, content_type: str = "application/json", **query: str
        ) -> Response:
            data = msgspec.json.encode(body) if body is not None else b""
            accept = query.pop("accept", "application/json")
            request = Request(method, path, query, ADMIN, data, content_type, accept=accept)
            request.reads_warnings = True
            return await server.handle(request)

        await story(send)
        await server.close()

    asyncio.run(run())


def affinity_of(response: Response) -> Any:
    return msgspec.json.decode(response.body)["spec"]["affinity"]


def message_of(response: Response) -> str:
    found: str = msgspec.json.decode(response.body)["message"]
    return found


def test_without_the_gate_the_fields_are_dropped_with_a_warning() -> None:
    async def story(send: Send) -> None:
        created = await send("POST", PODS, pod(nodeAffinity={REQUIRED: SSD}))
        assert created.code == 201
        assert affinity_of(created) == {"nodeAffinity": {}}
        assert list(created.warnings) == [f'unknown field "spec.affinity.nodeAffinity.{REQUIRED}"']

    served(story, gate=False)


def test_without_the_gate_the_fields_are_refused_where_validation_is_strict() -> None:
    async def story(send: Send) -> None:
        refused = await send("POST", PODS, pod(podAffinity={REQUIRED: [NEAR]}), fieldValidation="Strict")
        assert refused.code == 400
        assert f'strict decoding error: unknown field "spec.affinity.podAffinity.{REQUIRED}"' in message_of(refused)
        ignored = await send("POST", PODS, pod(podAffinity={REQUIRED: [NEAR]}), fieldValidation="Ignore")
        assert ignored.code == 201
        assert not ignored.warnings
        assert affinity_of(ignored) == {"podAffinity": {}}

    served(story, gate=False)


def test_without_the_gate_an_applied_configuration_does_not_fit_the_schema() -> None:
    async def story(send: Send) -> None:
        refused = await send(
            "PATCH", f"{PODS}/p", pod(podAntiAffinity={REQUIRED: [NEAR]}), APPLY, fieldManager="a", force="true"
        )
        assert refused.code == 500
        assert message_of(refused) == (
            "failed to create typed patch object (/p; /v1, Kind=Pod): "
            f".spec.affinity.podAntiAffinity.{REQUIRED}: field not declared in schema"
        )

    served(story, gate=False)


def test_without_the_gate_a_patch_of_a_template_drops_the_fields() -> None:
    async def story(send: Send) -> None:
        path = "/apis/apps/v1/namespaces/default/deployments"
        template = {"metadata": {"labels": {"app": "a"}}, "spec": pod()["spec"]}
        spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
        await send("POST", path, {"metadata": {"name": "a"}, "spec": spec})
        change = {"spec": {"template": {"spec": {"affinity": {"nodeAffinity": {REQUIRED: SSD}}}}}}
        for form in (MERGE, STRATEGIC):
            patched = await send("PATCH", f"{path}/a", change, form)
            assert patched.code == 200
            assert b"RequiredDuringExecution" not in patched.body
            assert list(patched.warnings) == [f'unknown field "spec.template.spec.affinity.nodeAffinity.{REQUIRED}"']

    served(story, gate=False)


@pytest.mark.parametrize("gate", [True, False])
def test_openapi_shows_the_fields_if_the_gate_is_on(gate: bool) -> None:
    async def story(send: Send) -> None:
        for path in ("/openapi/v2", "/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1"):
            for accept in ("application/json", "*/*"):
                document = (await send("GET", path, accept=accept)).body
                assert (REQUIRED.encode() in document) is gate
                assert (PREFERRED.encode() in document) is gate
        tree = msgspec.json.decode((await send("GET", "/openapi/v3/api/v1")).body)
        node = tree["components"]["schemas"]["io.k8s.api.core.v1.NodeAffinity"]["properties"]
        assert (REQUIRED in node) is gate
        assert "requiredDuringSchedulingIgnoredDuringExecution" in node

    served(story, gate=gate)


def test_with_the_gate_the_fields_are_kept_owned_and_served_in_every_form() -> None:
    async def story(send: Send) -> None:
        created = await send("POST", PODS, pod(**RULES), fieldManager="writer", fieldValidation="Strict")
        assert created.code == 201, created.body
        assert affinity_of(created) == RULES
        assert not created.warnings
        fields = msgspec.json.decode(created.body)["metadata"]["managedFields"][0]["fieldsV1"]
        assert f"f:{REQUIRED}" in fields["f:spec"]["f:affinity"]["f:nodeAffinity"]
        message = await send("GET", f"{PODS}/p", accept=protobuf.MEDIA_TYPE)
        assert b"disk" in message.body
        tree = to_tree("io.k8s.api.core.v1.Pod", protobuf.unwrap(message.body)[2])
        assert tree["spec"]["affinity"] == RULES
        text = yaml.safe_load((await send("GET", f"{PODS}/p", accept="application/yaml")).body)
        assert text["spec"]["affinity"] == RULES

    served(story, gate=True)


def test_with_the_gate_server_side_apply_owns_the_fields() -> None:
    async def story(send: Send) -> None:
        applied = await send("PATCH", f"{PODS}/p", pod(**RULES), APPLY, fieldManager="a", force="true")
        assert applied.code == 201, applied.body
        assert affinity_of(applied) == RULES

    served(story, gate=True)


_NO_KEY = {"labelSelector": {}, "topologyKey": ""}
_NO_OPERATOR = {"matchExpressions": [{"key": "a", "operator": "Is"}]}
INVALID: list[tuple[str, dict[str, Any], str]] = [
    (
        "a selector without terms",
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}},
        f"nodeAffinity.{REQUIRED}.nodeSelectorTerms: Required value",
    ),
    (
        "a term without a topology key",
        {"podAffinity": {REQUIRED: [_NO_KEY]}},
        f"podAffinity.{REQUIRED}[0].topologyKey: Required value",
    ),
    (
        "a weight of zero",
        {"podAntiAffinity": {PREFERRED: [{"weight": 0, "podAffinityTerm": NEAR}]}},
        f"podAntiAffinity.{PREFERRED}[0].weight: Invalid value: 0",
    ),
    (
        "an operator that does not exist",
        {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": _NO_OPERATOR}]}},
        f"nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].operator: Invalid value",
    ),
]


@pytest.mark.parametrize(("affinity", "text"), [case[1:] for case in INVALID], ids=[case[0] for case in INVALID])
def test_with_the_gate_the_fields_are_validated(affinity: dict[str, Any], text: str) -> None:
    async def story(send: Send) -> None:
        refused = await send("POST", PODS, pod(**affinity))
        assert refused.code == 422
        assert f"spec.affinity.{text}" in message_of(refused)

    served(story, gate=True)


@pytest.mark.parametrize(("count", "code"), [(32, 201), (33, 422)])
def test_two_long_selectors_are_refused_before_all_their_pairs_are_looked_at(count: int, code: int) -> None:
    async def story(send: Send) -> None:
        many = {"nodeSelectorTerms": SSD["nodeSelectorTerms"] * count}
        rules = {REQUIRED: many, "requiredDuringSchedulingIgnoredDuringExecution": many}
        answer = await send("POST", PODS, pod(nodeAffinity=rules))
        assert answer.code == code
        if code == 422:
            assert "has 1089 combinations" in message_of(answer)

    served(story, gate=True)


def test_match_label_keys_become_requirements_in_these_fields_too() -> None:
    async def story(send: Send) -> None:
        one = pod(podAffinity={REQUIRED: [{**NEAR, "matchLabelKeys": ["track"]}]})
        one["metadata"]["labels"] = {"track": "stable"}
        term = affinity_of(await send("POST", PODS, one))["podAffinity"][REQUIRED][0]
        added = [{"key": "track", "operator": "In", "values": ["stable"]}]
        assert term["labelSelector"]["matchExpressions"] == added

    served(story, gate=True)


def test_a_client_that_does_not_know_the_fields_does_not_take_them_from_a_pod() -> None:
    async def story(send: Send) -> None:
        created = msgspec.json.decode((await send("POST", PODS, pod(**RULES))).body)
        created["spec"]["affinity"] = {name: {} for name in RULES}
        created["metadata"]["labels"] = {"seen": "yes"}
        updated = await send("PUT", f"{PODS}/p", created)
        assert updated.code == 200, updated.body
        assert affinity_of(updated) == RULES

    served(story, gate=True)


def test_a_part_of_the_affinity_cannot_be_taken_from_a_pod() -> None:
    async def story(send: Send) -> None:
        created = msgspec.json.decode((await send("POST", PODS, pod(**RULES))).body)
        del created["spec"]["affinity"]["nodeAffinity"]
        refused = await send("PUT", f"{PODS}/p", created)
        assert refused.code == 422
        del created["spec"]["affinity"]
        assert (await send("PUT", f"{PODS}/p", created)).code == 422

    served(story, gate=True)


@pytest.mark.parametrize("gated", [True, False])
def test_the_rules_of_a_pod_cannot_be_changed(gated: bool) -> None:
    async def story(send: Send) -> None:
        one = pod(nodeAffinity={REQUIRED: SSD})
        if gated:
            one["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
        created = msgspec.json.decode((await send("POST", PODS, one)).body)
        expression = created["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"][0]["matchExpressions"][
            0
        ]
        expression["values"] = ["hdd"]
        refused = await send("PUT", f"{PODS}/p", created)
        assert refused.code == 422
        expected = f"spec.affinity.nodeAffinity.{REQUIRED}: Forbidden" if gated else "pod updates may not change fields"
        assert expected in message_of(refused)

    served(story, gate=True)


def test_errors_that_show_a_spec_name_the_fields_only_where_they_say_something() -> None:
    async def story(send: Send) -> None:
        plain = pod(nodeAffinity={"requiredDuringSchedulingIgnoredDuringExecution": SSD})
        created = msgspec.json.decode((await send("POST", PODS, plain)).body)
        created["spec"]["affinity"] = {}
        assert b"RequiredDuringExecution" not in (await send("PUT", f"{PODS}/p", created)).body

    served(story, gate=True)


def test_terms_that_look_into_other_namespaces_count_for_quotas_in_these_fields_too() -> None:
    there = {**NEAR, "namespaces": ["other"]}
    scope = Requirement(scope_name="CrossNamespacePodAffinity", operator="Exists")
    assert pod_matches(from_tree(core_v1.Pod, pod(podAffinity={REQUIRED: [there]})), scope)
    assert not pod_matches(from_tree(core_v1.Pod, pod(podAffinity={REQUIRED: [NEAR]})), scope)


def test_objects_keep_the_fields_when_the_gate_is_switched_off_again(tmp_path: Path) -> None:
    def store() -> Store:
        return open_store(f"sqlite:{tmp_path}/store.db", clock=SystemClock())

    async def with_gate(send: Send) -> None:
        assert (await send("POST", PODS, pod(**RULES))).code == 201

    async def without(send: Send) -> None:
        read = await send("GET", f"{PODS}/p")
        assert affinity_of(read) == RULES
        labels = {"metadata": {"labels": {"a": "b"}}}
        for form in (MERGE, STRATEGIC):
            patched = await send("PATCH", f"{PODS}/p", labels, form)
            assert patched.code == 200, patched.body
            assert affinity_of(patched) == RULES

    served(with_gate, gate=True, store=store())
    served(without, gate=False, store=store())


def test_equal_creates_that_ignore_unknown_fields_drop_them_each_time() -> None:
    async def story(send: Send) -> None:
        for number in range(5):
            one = pod(f"p-{number}", nodeAffinity={REQUIRED: SSD})
            created = await send("POST", PODS, one, fieldValidation="Ignore")
            assert affinity_of(created) == {"nodeAffinity": {}}
            assert not created.warnings

    served(story, gate=False)


def test_old_keys_of_taints_and_tolerations_get_a_warning_that_names_todays() -> None:
    async def story(send: Send) -> None:
        one = pod()
        one["spec"]["tolerations"] = [
            {"key": "node.alpha.kubernetes.io/notReady", "operator": "Exists", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
        ]
        one["metadata"]["annotations"] = {"scheduler.alpha.kubernetes.io/tolerations": "[]"}
        created = await send("POST", PODS, one)
        assert list(created.warnings) == [
            "spec.tolerations[0].key: node.alpha.kubernetes.io/notReady is an alpha key that has no effect; "
            'use "node.kubernetes.io/not-ready" instead',
            "metadata.annotations[scheduler.alpha.kubernetes.io/tolerations]: non-functional in v1.6+; "
            'use the "tolerations" field instead',
        ]
        taints = [{"key": "node.alpha.kubernetes.io/unreachable", "effect": "NoExecute"}]
        node = await send("POST", "/api/v1/nodes", {"metadata": {"name": "n"}, "spec": {"taints": taints}})
        assert list(node.warnings) == [
            "spec.taints[0].key: node.alpha.kubernetes.io/unreachable is an alpha key that has no effect; "
            'use "node.kubernetes.io/unreachable" instead'
        ]

    served(story, gate=False)


def test_an_annotation_with_rules_that_cannot_be_read_gets_a_warning() -> None:
    async def story(send: Send) -> None:
        one = pod()
        one["metadata"]["annotations"] = {
            "bayplan.dev/affinity-during-execution": '{"nodeAffinity": {"requiredDuringExecution": {}}}',
            "bayplan.dev/affinity-eviction-grace": "soon",
        }
        created = await send("POST", PODS, one)
        assert created.code == 201
        assert list(created.warnings) == [
            "metadata.annotations[bayplan.dev/affinity-during-execution]: "
            "Object contains unknown field `requiredDuringExecution` - at `$.nodeAffinity`",
            "metadata.annotations[bayplan.dev/affinity-eviction-grace]: 'soon' is no number of seconds",
        ]

    served(story, gate=False)
