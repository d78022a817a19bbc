"""Differences, applied one after the other, give the table that is written at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from bayplan.proxy.families import IPV4, IPV6
from bayplan.proxy.rules.desired_table import DesiredTable
from bayplan.proxy.rules.transactions import deletion, difference, removal, whole
from tests.proxy.histories import OPTIONS, Step, histories
from tests.proxy.model_kernel import ModelKernel, Table
from tests.proxy.objects import endpoint_slice, service


def fresh(desired: DesiredTable) -> Table:
    """The table that an empty kernel has after one transaction."""
    kernel = ModelKernel()
    kernel.run(whole(IPV4, kernel.names(IPV4), desired.items()).text)
    return kernel.tables["ip"]


def play(history: list[list[Step]]) -> tuple[ModelKernel, DesiredTable, set[str]]:
    """A kernel after one whole transaction and differences, what was desired in the end, and the stale chains."""
    kernel, desired, stale = ModelKernel(), DesiredTable(OPTIONS), set[str]()
    desired.changes()
    kernel.run(whole(IPV4, kernel.names(IPV4), desired.items()).text)
    for batch in history:
        for step in batch:
            step(desired)
        changes = desired.changes()
        transaction = difference(IPV4, changes.before, changes.after)
        kernel.run(transaction.text)
        stale = {*stale, *transaction.stale_chains} - {item.name for item in desired.items()}
    return kernel, desired, stale


@settings(deadline=None, max_examples=300)
@given(histories())
def test_differences_lead_to_the_same_table_as_a_whole_one(history: list[list[Step]]) -> None:
    kernel, desired, stale = play(history)
    kernel.run(deletion(IPV4, sorted(stale)).text)
    assert kernel.tables["ip"] == fresh(desired)


@settings(deadline=None, max_examples=150)
@given(histories(), histories())
def test_a_whole_table_can_be_written_over_any_other(first: list[list[Step]], second: list[list[Step]]) -> None:
    kernel, _, _ = play(first)
    _, desired, _ = play(second)
    transaction = whole(IPV4, kernel.names(IPV4), desired.items())
    kernel.run(transaction.text)
    kernel.run(deletion(IPV4, transaction.stale_chains).text)
    assert kernel.tables["ip"] == fresh(desired)


@settings(deadline=None, max_examples=100)
@given(histories())
def test_what_is_kept_step_by_step_is_what_is_worked_out_at_once(history: list[list[Step]]) -> None:
    kept, at_once = DesiredTable(OPTIONS), DesiredTable(OPTIONS)
    kept.changes()
    for batch in history:
        for step in batch:
            step(kept)
            step(at_once)
        kept.changes()
    at_once.changes()
    assert kept.items() == at_once.items()
    assert kept.unserved == at_once.unserved


def test_a_changed_endpoint_touches_one_chain() -> None:
    desired = DesiredTable(OPTIONS)
    desired.put_service(service("web", "10.96.0.1"))
    desired.put_service(service("other", "10.96.0.2"))
    desired.put_slice(endpoint_slice("web", "10.1.0.1"))
    desired.changes()
    assert desired.put_slice(endpoint_slice("web", "10.1.0.2"))
    changes = desired.changes()
    flush, rule = difference(IPV4, changes.before, changes.after).commands
    assert flush.startswith("flush chain ip kube-proxy service-")
    assert rule.endswith("map { 0 : 10.1.0.2 . 80 }")
    assert not desired.put_slice(endpoint_slice("web", "10.1.0.2"))
    assert not desired.put_service(service("web", "10.96.0.1"))
    assert not desired.is_changed


def test_clients_keep_their_endpoints_over_a_whole_sync_unless_the_timeout_changes() -> None:
    desired, kernel = DesiredTable(OPTIONS), ModelKernel()
    desired.put_slice(endpoint_slice("web", "10.1.0.1"))
    for seconds, kept in ((10, {"192.0.2.9": " "}), (20, {})):
        desired.put_service(service("web", "10.96.0.1", affinity=10))
        desired.changes()
        kernel.run(whole(IPV4, kernel.names(IPV4), desired.items()).text)
        (affinity,) = (one for name, one in kernel.tables["ip"].sets.items() if name.startswith("affinity-"))
        affinity.elements["192.0.2.9"] = " "
        desired.put_service(service("web", "10.96.0.1", affinity=seconds))
        desired.changes()
        kernel.run(whole(IPV4, kernel.names(IPV4), desired.items()).text)
        (affinity,) = (one for name, one in kernel.tables["ip"].sets.items() if name.startswith("affinity-"))
        assert affinity.elements == kept


@pytest.mark.parametrize("family", [IPV4, IPV6], ids=lambda family: family.name)
def test_a_table_is_removed_whether_it_is_there_or_not(family: object) -> None:
    assert family in (IPV4, IPV6)
    kernel, chosen = ModelKernel(), IPV4 if family is IPV4 else IPV6
    kernel.run(removal(chosen).text)
    kernel.run(whole(chosen, kernel.names(chosen), {}).text)
    assert chosen.nft in kernel.tables
    kernel.run(removal(chosen).text)
    assert kernel.tables == {}


def test_node_and_family_of_a_table_stay() -> None:
    desired = DesiredTable(OPTIONS)
    for other in ({"family": IPV6}, {"node_name": "x"}):
        changed = type(OPTIONS)(**{"family": IPV4, "node_name": OPTIONS.node_name, **other})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="stay as they are"):
            desired.set_options(changed)


@pytest.mark.parametrize(("protocol", "expected"), [("TCP", False), ("UDP", True), ("SCTP", False)])
def test_changes_tell_whether_udp_is_concerned(protocol: str, expected: bool) -> None:
    ports = (("dns", protocol, 53),)
    desired = DesiredTable(OPTIONS)
    desired.put_service(service("dns", "10.96.0.1", ports=ports))
    assert desired.changes().udp is expected
    desired.put_slice(endpoint_slice("dns", "10.1.0.1", ports=ports))
    assert desired.changes().udp is expected
    desired.remove_service("ns", "dns")
    assert desired.changes().udp is expected
    assert desired.changes().udp is False
