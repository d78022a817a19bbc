"""What the server says of itself in `/metrics`: names, levels, and figures that are worked out when somebody looks."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.api.types import admissionregistration_v1 as ar
from bayplan.api.types import meta_v1, networking_v1
from bayplan.apiserver.authentication.metrics import AuthenticationMetrics
from bayplan.apiserver.encryption.metrics import EnvelopeMetrics, TransformationMetrics
from bayplan.apiserver.requests import Request, Response, User
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.apiserver.webhooks.calling import SendError
from bayplan.cluster.api_server.followed_files import ReloadMetrics
from bayplan.cluster.storage.measured_store import MeasuredStore
from bayplan.store.errors import StoreError
from bayplan.store.memory import MemoryStore
from bayplan.support.clock import SystemClock
from bayplan.support.metrics.instruments import Registry
from tests.apiserver.serving import ADMIN, AS_RECORDED, client_of, opened

_MAPS = "/api/v1/namespaces/default/configmaps"
_DRY: tuple[dict[str, Any], ...] = ({}, {"dryRun": "All"})
_PAGE = Path(__file__).parents[2] / "docs" / "alerts.md"


async def _ask(api: ApiServer, method: str, path: str, body: object = None, user: User = ADMIN, **query: str) -> int:
    data = b"" if body is None else json.dumps(body).encode()
    return (await api.handle(Request(method, path, query, user, data))).code


async def _page(api: ApiServer) -> str:
    return (await api.handle(Request("GET", "/metrics", {}, ADMIN))).body.decode()


def _value(page: str, series: str, /, **labels: str) -> float:
    """The value of one series; 0 if it is not there."""
    for line in page.splitlines():
        found = re.fullmatch(rf"{series}(?:\{{(.*)\}})? (\S+)", line)
        if found and dict(re.findall(r'(\w+)="([^"]*)"', found[1] or "")) == labels:
            return float(found[2])
    return 0.0


def test_help_texts_begin_with_the_level_that_kubernetes_gives_a_metric() -> None:
    async def scenario() -> None:
        async with opened() as api:
            await _ask(api, "GET", _MAPS)
            page = await _page(api)
            for name, level in (
                ("apiserver_request_total", "[STABLE] "),
                ("apiserver_flowcontrol_seat_fair_frac", "[ALPHA] "),
                ("apiserver_watch_cache_events_received_total", "[ALPHA] "),
                ("apiserver_flowcontrol_demand_seats", "EXPERIMENTAL: [ALPHA] "),
                ("process_open_fds", "Number"),
            ):
                assert f"# HELP {name} {level}" in page, name

    asyncio.run(scenario())


def test_requests_are_measured_with_the_sizes_of_what_is_read_and_written() -> None:
    async def scenario() -> None:
        async with opened() as api:
            for number in range(2):
                body = {"metadata": {"name": f"a{number}"}, "data": {"a": "b" * 60_000}}
                assert await _ask(api, "POST", _MAPS, body, **_DRY[number]) == 201
            assert await _ask(api, "GET", _MAPS + "/a0") == 200
            assert await _ask(api, "GET", _MAPS) == 200
            page = await _page(api)
            place = {"group": "", "resource": "configmaps"}
            assert _value(page, "apiserver_request_body_size_bytes_count", verb="create", **place) == 2
            assert _value(page, "apiserver_request_body_size_bytes_bucket", verb="create", le="50000", **place) == 0
            full = {**place, "version": "v1", "subresource": "", "component": "apiserver"}
            assert _value(page, "apiserver_response_sizes_sum", verb="GET", scope="resource", **full) > 60_000
            sli = "apiserver_request_sli_duration_seconds_count"
            assert _value(page, sli, verb="POST", scope="resource", **full) == 2
            assert _value(page, "apiserver_cache_list_total", index="", **place) == 1

    asyncio.run(scenario())


def test_deprecated_resources_and_rejected_requests_are_told() -> None:
    async def scenario() -> None:
        async with opened() as api:
            await _ask(api, "GET", _MAPS)
            place = {"group": "", "version": "v1", "resource": "endpoints", "subresource": ""}
            series = "apiserver_requested_deprecated_apis"
            assert series + "{" not in await _page(api)
            await _ask(api, "GET", "/api/v1/namespaces/default/endpoints/none")
            page = await _page(api)
            assert _value(page, series, **place, removed_release="") == 1.0
            assert page.count(series + "{") == 1
            request = Request("GET", _MAPS, {}, ADMIN)
            api.measured.record_rejected(request, None, Response(429))
            where = {"verb": "LIST", "group": "", "version": "", "resource": "", "subresource": "", "scope": ""}
            rejected = "apiserver_request_terminations_total"
            assert _value(await _page(api), rejected, **where, component="apiserver", code="429") == 1.0

    asyncio.run(scenario())


def test_caches_tell_their_events_sizes_and_revision_and_go_with_their_kind() -> None:
    async def scenario() -> None:
        async with opened() as api:
            before = await _page(api)
            for name in ("a", "b"):
                await _ask(api, "POST", _MAPS, {"metadata": {"name": name}, "data": {"a": "b" * 1000}})
            await _ask(api, "DELETE", _MAPS + "/b")
            page = await _page(api)
            place = {"group": "", "resource": "configmaps"}
            for name in (
                "apiserver_storage_events_received_total",
                "apiserver_watch_cache_events_received_total",
                "apiserver_watch_cache_events_dispatched_total",
            ):
                assert _value(page, name, **place) - _value(before, name, **place) == 3
            assert _value(page, "apiserver_watch_cache_resource_version", **place) == api.context.objects.revision
            assert 1000 < _value(page, "apiserver_resource_size_estimate_bytes", **place) < 2000
            assert _value(page, "watch_cache_capacity", **place) > 0

    asyncio.run(scenario())


def test_node_ports_versions_and_gates_are_told() -> None:
    async def scenario() -> None:
        settings = ApiServerSettings(
            service_cluster_ip_range="10.0.0.0/24",
            service_node_port_range=(30000, 30009),
            kubernetes_gates=(("Some", "", True), ("Other", "ALPHA", False)),
        )
        async with opened(settings=settings) as api:
            spec = {"type": "NodePort", "ports": [{"port": 80}]}
            assert (
                await _ask(
                    api, "POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "a"}, "spec": spec}
                )
                == 201
            )
            page = await _page(api)
            prefix = "kube_apiserver_nodeport_allocator_"
            assert (_value(page, f"{prefix}allocated_ports"), _value(page, f"{prefix}available_ports")) == (1, 9)
            prefix, of = "kube_apiserver_clusterip_allocator_", {"cidr": "10.0.0.0/24"}
            taken = len((await client_of(api).list(networking_v1.IPAddress)).items)
            assert _value(page, f"{prefix}allocated_ips", **of) == taken >= 1
            assert _value(page, f"{prefix}available_ips", **of) == 254 - taken
            assert _value(page, "kubernetes_feature_enabled", name="Some", stage="") == 1
            assert 'kubernetes_feature_enabled{name="Other",stage="ALPHA"} 0\n' in page
            assert (
                _value(page, "version_info", binary="1.36", component="kube", emulation="1.36", min_compat="1.35") == 1
            )
            assert _value(page, "apiserver_audit_event_total") == 0
            assert "\napiserver_audit_event_total 0\n" in page

    asyncio.run(scenario())


def test_the_process_tells_its_memory_files_and_cpu() -> None:
    async def scenario() -> None:
        async with opened() as api:
            page = await _page(api)
            assert _value(page, "process_resident_memory_bytes") > 10_000_000
            assert _value(page, "process_open_fds") >= 3
            assert _value(page, "process_max_fds") >= _value(page, "process_open_fds")
            spent = sum(os.times()[:2])
            assert abs(_value(page, "process_cpu_seconds_total") - spent) < 5

    asyncio.run(scenario())


def test_authorization_attempts_are_summed_up_by_result() -> None:
    async def scenario() -> None:
        async with opened(settings=AS_RECORDED) as api:
            nobody = User("nobody", ("system:authenticated",))
            assert await _ask(api, "GET", _MAPS) == 200
            assert await _ask(api, "GET", _MAPS, user=nobody) == 403
            assert await _ask(api, "GET", "/version", user=nobody) == 200
            page = await _page(api)
            assert _value(page, "authorization_attempts_total", result="no-opinion") == 1
            assert _value(page, "authorization_duration_seconds_count", result="no-opinion") == 1
            assert _value(page, "authorization_attempts_total", result="allowed") >= 3

    asyncio.run(scenario())


class _Away:
    """A sender that reaches nobody."""

    def dials(self, url: str) -> bool:
        return False

    async def post(self, target: object, body: bytes, seconds: float) -> bytes:
        raise SendError("nobody listens")

    async def close(self) -> None:
        return


async def _with_webhook(api: ApiServer, policy: str) -> int:
    """Create a config map that a webhook which nobody answers is to judge."""
    rule = ar.RuleWithOperations(
        api_groups=("",), api_versions=("v1",), operations=("CREATE",), resources=("configmaps",)
    )
    hook = ar.ValidatingWebhook(
        name="hook.example.com",
        client_config=ar.WebhookClientConfig(url="https://hook.example.com/"),
        rules=(rule,),
        failure_policy=policy,
        side_effects="None",
        admission_review_versions=("v1",),
    )
    name = f"hooks-{policy.lower()}"
    configuration = ar.ValidatingWebhookConfiguration(metadata=meta_v1.ObjectMeta(name=name), webhooks=(hook,))
    await client_of(api).create(configuration)
    code = await _ask(api, "POST", _MAPS, {"metadata": {"name": name}})
    await client_of(api).delete(ar.ValidatingWebhookConfiguration, name)
    return code


def test_webhooks_that_cannot_be_called_are_counted_by_what_comes_of_it() -> None:
    async def scenario() -> None:
        async with opened() as api:
            api.context.webhook_sender = _Away()
            assert await _with_webhook(api, "Fail") == 500
            assert await _with_webhook(api, "Ignore") == 201
            page = await _page(api)
            prefix = "apiserver_admission_"
            of = {"name": "hook.example.com", "type": "validating"}
            assert _value(page, f"{prefix}webhook_fail_open_count", **of) == 1
            error = {"error_type": "calling_webhook_error", "rejection_code": "0", "operation": "CREATE"}
            assert _value(page, f"{prefix}webhook_rejection_count", **of, **error) == 1
            for rejected in ("true", "false"):
                asked = {"operation": "CREATE", "rejected": rejected}
                assert _value(page, f"{prefix}webhook_request_total", code="500", **of, **asked) == 1
                assert _value(page, f"{prefix}webhook_admission_duration_seconds_count", **of, **asked) == 1
                name = "ValidatingAdmissionWebhook"
                step = {"type": "validate", **asked}
                assert _value(page, f"{prefix}controller_admission_duration_seconds_count", name=name, **step) == 1
            refused = {"type": "validate", "operation": "CREATE", "rejected": "true"}
            assert _value(page, f"{prefix}step_admission_duration_seconds_count", **refused) == 1

    asyncio.run(scenario())


def test_requests_by_kind_are_sampled_over_time() -> None:
    async def scenario() -> None:
        async with opened() as api:
            assert api.gate is not None
            request = Request("GET", _MAPS, {}, User("somebody"))
            admission = api.gate.enter(request)
            assert admission is not None
            page = await _page(api)
            of = {"phase": "executing", "request_kind": "readOnly"}
            name = "apiserver_flowcontrol_read_vs_write_current_requests"
            assert _value(page, f"{name}_sum", **of) > 0
            assert _value(page, f"{name}_sum", phase="executing", request_kind="mutating") == 0
            assert 'apiserver_current_inqueue_requests{request_kind="readOnly"} 0\n' in page
            api.gate.leave(admission)

    asyncio.run(scenario())


def test_requests_to_a_store_are_measured_by_operation_and_resource() -> None:
    async def scenario() -> None:
        registry, clock = Registry(), SystemClock()
        store = MeasuredStore(MemoryStore(clock=clock), clock, registry)
        await store.open()
        key = "/registry/core/secrets/default/a"
        revision = await store.put(key, b"1", guard=0)
        await store.get(key)
        await store.range("/registry/core/secrets/", "/registry/core/secrets0")
        await store.submit(key, b"2", guard=revision).committed
        await asyncio.sleep(0)  # who waits for the same future gets its turn
        with pytest.raises(StoreError):
            await store.put(key, b"3", guard=0)
        await store.delete(key)
        text = registry.render().decode()
        place = {"group": "", "resource": "secrets"}
        for operation, times, errors in (
            ("create", 2, 1),
            ("get", 1, 0),
            ("list", 1, 0),
            ("update", 1, 0),
            ("delete", 1, 0),
        ):
            assert _value(text, "etcd_requests_total", operation=operation, **place) == times, operation
            assert _value(text, "etcd_request_errors_total", operation=operation, **place) == errors, operation
            seconds = "etcd_request_duration_seconds_count"
            assert _value(text, seconds, operation=operation, **place) == times - errors, operation
        await store.close()

    asyncio.run(scenario())


def test_each_alert_of_the_page_asks_for_metrics_that_there_are_with_labels_that_they_have() -> None:
    """Nothing here reads PromQL as Prometheus does: names and labels are what changes when a metric does."""

    async def known() -> dict[str, set[str]]:
        async with opened() as api:
            registry = api.metrics
            clock = api.context.clock
            EnvelopeMetrics(registry, "a")
            TransformationMetrics(registry, clock.now)
            AuthenticationMetrics(registry)
            ReloadMetrics(registry, "apiserver_encryption_config_controller", "a", clock.now)
            MeasuredStore(MemoryStore(clock=clock), clock, registry)
            registry.counter("apiserver_audit_error_total", "A test.", ("plugin",))
            families: dict[str, Any] = registry._families
            found = {name: set(family.label_names) for name, family in families.items()}
            return {**found, "kubernetes_healthcheck": {"name", "type"}, "up": {"job"}}

    metrics = asyncio.run(known())
    block = re.search(r"```yaml\n(groups:.*?)```", _PAGE.read_text(), re.DOTALL)
    assert block is not None
    rules = [rule for group in yaml.safe_load(block[1])["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 15
    for rule in rules:
        expression = rule["expr"]
        assert expression.count("(") == expression.count(")"), rule["alert"]
        used = re.findall(
            r"\b([a-z][a-z_]*_[a-z_]+|up)\b(\{[^}]*\})?(?=[\[\s){]|$)", re.sub(r"by \([^)]*\)", "", expression)
        )
        names = [(name, labels) for name, labels in used if name not in ("histogram_quantile",)]
        assert names, rule["alert"]
        for name, labels in names:
            base = re.sub(r"_(bucket|count|sum)$", "", name)
            family = name if name in metrics else base
            assert family in metrics, (rule["alert"], name)
            wanted = set(re.findall(r"(\w+)(?:=~|!~|!=|=)", labels))
            grouped = {one.strip() for by in re.findall(r"by \(([^)]*)\)", expression) for one in by.split(",")} - {
                "le"
            }
            assert wanted | grouped <= metrics[family], (rule["alert"], name)
