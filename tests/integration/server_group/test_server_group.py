"""`bayplan apiserver --processes N`: nobody outside sees that there are several processes, whichever of them ends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bayplan.apiserver import certificates
from tests.integration.server_group.group import (
    FAILURES,
    MAPS,
    Group,
    Writers,
    config_map,
    eventually,
    needs_linux,
    running,
)
from tests.store.etcd.server import needs_etcd, shared_server

pytestmark = needs_linux
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """A group of two that tests share which end nothing."""
    with running(tmp_path_factory.mktemp("group")) as found:
        yield found


def test_connections_are_shared_evenly_and_a_read_sees_what_was_written_elsewhere(group: Group) -> None:
    before = [_accepted(group, number) for number in (0, 1)]
    connections = group.connections(20)
    after = [_accepted(group, number) for number in (0, 1)]
    assert sorted(now - then for then, now in zip(before, after, strict=True)) == [10, 10]
    code, created = connections[0].ask("POST", MAPS, config_map("shared", step="0"))
    assert code == 201
    for step in range(1, 60):
        writer, reader = connections[step % 20], connections[(step + 1) % 20]
        created["data"]["step"] = str(step)
        code, created = writer.ask("PUT", f"{MAPS}/shared", created)
        assert code == 200
        assert reader.ask("GET", f"{MAPS}/shared")[1]["metadata"] == created["metadata"]
        assert reader.ask("GET", MAPS)[1]["metadata"]["resourceVersion"] >= created["metadata"]["resourceVersion"]
    for one in connections:
        one.close()


def _accepted(group: Group, number: int) -> int:
    """Connections that an API server process has: its sockets in /proc that are none of the first ones."""
    pid = group.pid(f"bayplan-api-{number}")
    tables = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    port = int(group.url.rsplit(":", 1)[1])
    inodes = {
        row.split()[9] for row in tables if int(row.split()[1].split(":")[1], 16) == port and row.split()[3] == "01"
    }
    links = [_link(one) for one in Path(f"/proc/{pid}/fd").iterdir()]
    return sum(f"socket:[{inode}]" in links for inode in inodes)


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def test_one_scrape_tells_of_all_requests(group: Group) -> None:
    connections = group.connections(4)
    for one in connections:
        assert one.ask("GET", "/api/v1/namespaces/kube-public/limitranges")[0] == 200
    for one in connections:
        text = one.text("/metrics")
        counts = re.findall(r'^apiserver_request_total\{.*resource="limitranges".*\} (\S+)$', text, re.MULTILINE)
        assert [float(count) for count in counts] == [4.0]
        assert len(re.findall(r"^# TYPE apiserver_request_total ", text, re.MULTILINE)) == 1
        limits = re.findall(r"^apiserver_flowcontrol_nominal_limit_seats\{.*\} (\S+)$", text, re.MULTILINE)
        assert 600 <= sum(map(float, limits)) <= 640  # each level's part is rounded up, in each process
        objects = re.search(r'^apiserver_storage_objects\{resource="namespaces"\} (\S+)$', text, re.MULTILINE)
        assert objects is not None
        assert float(objects[1]) == 4
        one.close()


def test_a_watch_sees_the_writes_of_all_processes_in_order(group: Group) -> None:
    connections = group.connections(4)
    start = connections[0].ask("GET", MAPS)[1]["metadata"]["resourceVersion"]
    watches = [
        one.send("GET", f"{MAPS}?watch=1&resourceVersion={start}&timeoutSeconds=20") for one in group.connections(2)
    ]
    revisions = []
    for number in range(40):
        code, made = connections[number % 4].ask("POST", MAPS, config_map(f"watched-{number}"))
        assert code == 201
        revisions.append(made["metadata"]["resourceVersion"])
    for watch in watches:
        seen = [json.loads(watch.readline())["object"]["metadata"]["resourceVersion"] for _ in revisions]
        assert seen == revisions
        watch.close()
    for one in connections:
        one.close()


def test_forwards_and_identity_are_those_of_one_server(group: Group) -> None:
    first, second = group.connections(2)
    assert first.ask("PUT", "/bayplan/forwards/shop/hook", {"target": "localhost:9443"})[0] == 200
    eventually(lambda: len(second.ask("GET", "/bayplan/forwards")[1]["forwards"]) == 1)
    leases = second.ask("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")[1]["items"]
    assert len([one for one in leases if one["metadata"]["name"].startswith("apiserver-")]) == 1
    endpoints = second.ask("GET", "/api/v1/namespaces/default/endpoints/kubernetes")[1]
    assert [one["ip"] for subset in endpoints["subsets"] for one in subset["addresses"]] == ["127.0.0.1"]
    for one in (first, second):
        one.close()


def test_a_custom_resource_that_one_process_has_established_is_there_in_the_others(group: Group) -> None:
    first, second = group.connections(2)
    for number in range(15):
        plural, kind = f"things{number}", f"Thing{number}"
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        definition = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": plural, "singular": plural, "kind": kind, "listKind": f"{kind}List"},
                "versions": [version],
            },
        }
        assert first.ask("POST", _DEFINITIONS, definition)[0] == 201

        def is_established(plural: str = plural) -> bool:
            found = first.ask("GET", f"{_DEFINITIONS}/{plural}.example.com")[1]
            conditions = found.get("status", {}).get("conditions") or []
            return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)

        eventually(is_established)
        thing = {"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "one"}}
        code, answer = second.ask("POST", f"/apis/example.com/v1/namespaces/default/{plural}", thing)
        assert code == 201, answer
        assert first.ask("GET", f"/apis/example.com/v1/namespaces/default/{plural}/one")[0] == 200


def test_a_user_whom_one_process_has_made_is_known_and_permitted_in_the_others(group: Group) -> None:
    first, second = group.connections(2)
    for number in range(15):
        name = f"robot-{number}"
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        assert first.ask("POST", "/api/v1/namespaces/default/serviceaccounts", account)[0] == 201
        wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        code, made = first.ask("POST", f"/api/v1/namespaces/default/serviceaccounts/{name}/token", wanted)
        assert code == 201
        second.become(made["status"]["token"])
        assert second.ask("GET", MAPS)[0] == 200
        assert first.ask("DELETE", f"/api/v1/namespaces/default/serviceaccounts/{name}")[0] == 200
        assert second.ask("GET", MAPS)[0] == 401


def test_addresses_and_ports_are_given_out_once_by_all_processes(group: Group) -> None:
    services: list[dict[str, Any]] = []

    def create(number: int) -> None:
        connection = group.connect()
        for step in range(15):
            spec = {"type": "NodePort", "ports": [{"port": 80}]}
            body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"s-{number}-{step}"}, "spec": spec}
            code, made = connection.ask("POST", "/api/v1/namespaces/default/services", body)
            assert code == 201, made
            services.append(made)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(services) == 90
    assert len({one["spec"]["clusterIP"] for one in services}) == 90
    assert len({one["spec"]["ports"][0]["nodePort"] for one in services}) == 90


def test_all_processes_are_ready_and_again_when_the_owner_of_the_store_was_killed(tmp_path: Path) -> None:
    with running(tmp_path) as group:
        first, second = group.connections(2)
        for one in (first, second):
            assert "[+]etcd ok" in one.text("/readyz?verbose")
        before = group.kill("bayplan-store")
        eventually(lambda: group.replaced("bayplan-store", before))
        for one in (first, second):
            eventually(lambda one=one: one.text("/readyz/etcd") == "ok")  # type: ignore[misc]


@needs_etcd
def test_on_etcd_each_process_is_a_server_and_nobody_owns_the_store(tmp_path: Path) -> None:
    url = f"etcd://{shared_server().endpoint}"
    with running(tmp_path, "--etcd-prefix=/group", store=url) as group:
        assert group.pid("bayplan-store") == 0
        first, second = group.connections(2)
        code, created = first.ask("POST", MAPS, config_map("shared", step="0"))
        assert code == 201
        for step in range(1, 30):
            writer, reader = (first, second) if step % 2 else (second, first)
            created["data"]["step"] = str(step)
            code, created = writer.ask("PUT", f"{MAPS}/shared", created)
            assert code == 200
            assert reader.ask("GET", f"{MAPS}/shared")[1]["metadata"] == created["metadata"]
        before = group.kill("bayplan-api-1")
        eventually(lambda: group.replaced("bayplan-api-1", before))
        assert group.connect().ask("GET", f"{MAPS}/shared")[1]["metadata"] == created["metadata"]


def test_files_that_change_are_read_again_by_all_processes(tmp_path: Path) -> None:
    now = time.time()
    authority = certificates.make_authority(now)
    pairs = [certificates.sign(authority, now, name, hosts=("127.0.0.1",)) for name in ("old", "new")]
    certificate, key = tmp_path / "server.crt", tmp_path / "server.key"

    def install(number: int) -> None:
        certificate.write_bytes(pairs[number].certificate)
        key.write_bytes(pairs[number].key)

    install(0)
    with running(tmp_path, f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}") as group:
        shown = _shown_certificates(group, 6)
        assert shown == {ssl.PEM_cert_to_DER_cert(pairs[0].certificate.decode())}
        install(1)
        new = {ssl.PEM_cert_to_DER_cert(pairs[1].certificate.decode())}
        eventually(lambda: _shown_certificates(group, 6) == new)


def _shown_certificates(group: Group, connections: int) -> set[bytes | None]:
    """The server's certificates (DER) that so many connections at once are shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    address = ("127.0.0.1", int(group.url.rsplit(":", 1)[1]))
    with contextlib.ExitStack() as stack:
        found: set[bytes | None] = set()
        for _ in range(connections):
            one = stack.enter_context(context.wrap_socket(socket.create_connection(address, timeout=10)))
            found.add(one.getpeercert(binary_form=True))
        return found


def test_nothing_acknowledged_is_lost_whichever_process_is_killed(tmp_path: Path) -> None:
    with running(tmp_path) as group:
        writers = Writers(group, 6)
        try:
            writers.progress(60)
            for name in ("bayplan-api-0", "bayplan-store", "bayplan-api-1", "bayplan-store"):
                before = group.kill(name)
                killed = time.monotonic()
                eventually(lambda name=name, before=before: group.replaced(name, before))  # type: ignore[misc]
                writers.progress(60)
                assert time.monotonic() - killed < 10
        finally:
            writers.stop()
        names = {one["metadata"]["name"] for one in group.connect().ask("GET", MAPS)[1]["items"]}
        assert set(writers.acknowledged) <= names
        assert writers.refused == []


def test_the_fork_server_may_die_with_all_that_it_has_made(tmp_path: Path) -> None:
    with running(tmp_path) as group:
        first = group.connect()
        assert first.ask("POST", MAPS, config_map("kept"))[0] == 201
        names = ("bayplan-store", "bayplan-api-0", "bayplan-api-1")
        before = {name: group.pid(name) for name in names}
        (server,) = map(int, Path(f"/proc/{group.process.pid}/task/{group.process.pid}/children").read_text().split())
        os.kill(server, signal.SIGKILL)
        eventually(lambda: all(group.replaced(name, before[name]) for name in names))
        second = group.connect()
        assert second.ask("GET", f"{MAPS}/kept")[0] == 200


def test_a_frozen_process_gets_no_new_connections_and_is_replaced(tmp_path: Path) -> None:
    with running(tmp_path) as group:
        before = group.kill("bayplan-api-1", signal.SIGSTOP)
        for _ in range(10):
            connection = group.connect()
            assert connection.ask("GET", MAPS)[0] == 200
        eventually(lambda: group.replaced("bayplan-api-1", before), 40)


def test_a_group_that_is_told_to_stop_answers_what_has_come_and_refuses_the_rest(tmp_path: Path) -> None:
    with running(tmp_path) as group:
        connections = group.connections(4)
        watches = [one.send("GET", f"{MAPS}?watch=1&timeoutSeconds=60") for one in connections]
        writers = Writers(group, 4)
        writers.progress(50)
        group.process.terminate()
        assert group.process.wait(20) == 0
        writers.stop()
        for watch in watches:
            with contextlib.suppress(*FAILURES):
                while watch.readline():
                    pass
        with socket.socket() as attempt:
            assert attempt.connect_ex(("127.0.0.1", int(group.url.rsplit(":", 1)[1]))) != 0
        assert not (tmp_path / "store.db.socket").exists()
    with running(tmp_path) as group:
        names = {one["metadata"]["name"] for one in group.connect().ask("GET", MAPS)[1]["items"]}
        assert set(writers.acknowledged) <= names


def test_what_is_in_memory_ends_with_its_owner_and_says_so(tmp_path: Path) -> None:
    with running(tmp_path, store="memory:") as group:
        assert group.connect().ask("POST", MAPS, config_map("lost"))[0] == 201
        group.kill("bayplan-store")
        assert group.process.wait(20) == 1
        assert "what was kept in memory is lost" in (tmp_path / "log").read_text()


def test_requests_of_all_processes_are_in_one_audit_log_that_is_rotated_once(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Request\n  resources: [{group: '', resources: [configmaps]}]\n"
    )
    log = tmp_path / "audit.log"
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-maxsize=1")
    with running(tmp_path, *flags) as group:
        connections = group.connections(4)
        for number in range(40):
            body = config_map(f"map-{number}", filler="x" * 40_000)
            assert connections[number % 4].ask("POST", MAPS, body)[0] == 201
    files = [one for one in tmp_path.iterdir() if one.name.startswith("audit")]
    assert len(files) == 2 + (len(files) == 3)
    events = [json.loads(line) for one in files for line in one.read_text().splitlines()]
    made = [
        one["objectRef"]["name"] for one in events if one["verb"] == "create" and one["stage"] == "ResponseComplete"
    ]
    assert sorted(made) == sorted(f"map-{number}" for number in range(40))


def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AssertionError, match=f"{port} is in use"), running(tmp_path, f"--secure-port={port}"):
            pass
