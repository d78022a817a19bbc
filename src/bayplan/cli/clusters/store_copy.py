"""`bayplan store copy`, and what the other verbs of `bayplan store` do with etcd."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import click

from bayplan.cli.clusters.store_places import (
    compact_etcd as compact,
)
from bayplan.cli.clusters.store_places import (
    connected,
    failing,
    is_etcd,
    key_layout,
    members_of,
    opened_source,
    opened_target,
)
from bayplan.cli.flags.etcd_flags import EtcdFlags, one_etcd_options
from bayplan.cli.output import Failure, output_option, print_data

if TYPE_CHECKING:
    from bayplan.store.copying import CopyReport, Form

_MEGABYTE: Final = 1 << 20
_NAMED: Final = 20
"""Most unreadable objects that a message names."""


@click.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@one_etcd_options
@output_option
def command(source: str, target: str, etcd: EtcdFlags, output: str) -> None:
    """Copy all objects of the store FROM into the empty store TO (sqlite:PATH or etcd://HOST:PORT,...), and compare the two.

    The cluster may run on FROM: the copy is of one moment. Stop its API servers first if nothing that is written meanwhile may stay behind.
    """
    copy_store(source, target, etcd, output)


def copy_store(source: str, target: str, etcd: EtcdFlags, output: str) -> None:
    """Copy a store, and say what was copied. Raises Failure, UsageError."""
    with failing():
        report = asyncio.run(_copy(source, target, etcd))
    copied = report.copied
    if output:
        print_data(
            {
                "from": source,
                "to": target,
                "revision": report.revision,
                "newRevision": report.new_revision,
                "objects": copied.entries,
                "expiringObjects": copied.expiring,
                "checksum": copied.checksum,
            },
            output,
        )
        return
    expiring = f" ({copied.expiring} of them for a time)" if copied.expiring else ""
    click.echo(
        f"{target}: {copied.entries} objects{expiring} of {source} as of revision {report.revision}, "
        f"read again with the same checksum {copied.checksum[:12]}; revision {report.new_revision} now"
    )


async def _copy(source: str, target: str, etcd: EtcdFlags) -> CopyReport:
    """Raises StoreError, UsageError."""
    from bayplan.apiserver.store_partition import SERVERS
    from bayplan.store.copying import copy
    from bayplan.support.progress import Progress

    async with opened_source(source, etcd) as contents, opened_target(target, etcd) as filled:
        with Progress("objects") as progress:
            return await copy(
                contents,
                filled,
                leaves_out=lambda key: key.startswith(SERVERS),
                form=(lambda _key, value: value) if is_etcd(target) else _form_of_a_file(),
                step=progress.tell,
            )


def _form_of_a_file() -> Form:
    """What turns objects that kube-apiserver wrote in protobuf into JSON. What is in protobuf and no object of a kind that is served stays behind."""
    from bayplan.api.protobuf import MAGIC
    from bayplan.apiserver.stored_forms import StoredForms

    forms = StoredForms()

    def form(key: str, value: bytes) -> bytes | None:
        if not value.startswith(MAGIC):
            return value
        found = forms.of_key(key)
        return None if found is None else found.from_storage(key, value)

    return form


def check_etcd(url: str, etcd: EtcdFlags, output: str) -> None:
    """Say whether all members have the same, and all objects can be read. Raises Failure, UsageError."""
    with failing():
        members, alarms, unreadable = asyncio.run(_examine(url, etcd))
    same = len({(one.keys, one.checksum) for one in members}) == 1
    data: dict[str, Any] = {
        "store": url,
        "intact": same and not unreadable and not alarms,
        "objects": members[0].keys,
        "unreadable": unreadable,
        "alarms": alarms,
        "members": [
            {
                "endpoint": one.endpoint,
                "version": one.version,
                "bytes": one.bytes,
                "objects": one.keys,
                "checksum": one.checksum,
            }
            for one in members
        ],
    }
    if output:
        print_data(data, output)
    else:
        for one in members:
            click.echo(
                f"{one.endpoint}: etcd {one.version}, {one.bytes / _MEGABYTE:.1f} MiB, {one.keys} objects, checksum {one.checksum[:12]}"
            )
    problems = [f"{key} cannot be read: it is neither JSON nor protobuf nor encrypted" for key in unreadable[:_NAMED]]
    if len(unreadable) > _NAMED:
        problems.append(f"and {len(unreadable) - _NAMED} more")
    problems += [f"alarm {alarm}: compact and defragment, then etcdctl alarm disarm" for alarm in alarms]
    if not same:
        problems.append(
            "the members have different objects: replace those that differ from the majority (etcdctl member remove, add)"
        )
    if problems:
        raise Failure(f"{url} is damaged\n" + "\n".join(problems))
    if not output:
        click.echo(
            f"{url} is intact: {members[0].keys} objects, the same at {len(members)} member{'s' * (len(members) != 1)}"
        )


async def _examine(url: str, etcd: EtcdFlags) -> tuple[list[Any], list[str], list[str]]:
    """What members have, alarms, and the keys of objects that cannot be read. Raises StoreError, UsageError."""
    from bayplan.store.etcd.contents import of_etcd, present_contents
    from bayplan.support.progress import Progress

    members = await members_of(url, etcd)
    unreadable: list[str] = []
    async with connected(url, etcd) as client:
        with of_etcd():
            alarms = [name for _, name in await client.alarms()]
        done = 0
        with Progress("objects", members[0].keys) as progress:
            async for page in (await present_contents(client, key_layout(etcd))).pages():
                unreadable += [entry.key for entry in page if not _is_readable(entry.value)]
                done += len(page)
                progress.tell(done)
    return members, alarms, unreadable


def _is_readable(value: bytes) -> bool:
    import msgspec

    from bayplan.api.protobuf import MAGIC
    from bayplan.apiserver.encryption.prefixes import ENCRYPTED

    if value.startswith((MAGIC, ENCRYPTED)):
        return True
    try:
        return isinstance(msgspec.json.decode(value), dict)
    except msgspec.DecodeError:
        return False


def compact_etcd(url: str, etcd: EtcdFlags, output: str) -> None:
    """Compact and defragment, and say what that gave. Raises Failure, UsageError."""
    with failing():
        revision, sizes = asyncio.run(compact(url, etcd))
    if output:
        members = [{"endpoint": one, "bytesBefore": before, "bytes": now} for one, before, now in sizes]
        print_data({"store": url, "compactedRevision": revision, "members": members}, output)
        return
    for endpoint, before, now in sizes:
        click.echo(
            f"{endpoint}: compacted at revision {revision}, {before / _MEGABYTE:.1f} MiB before, {now / _MEGABYTE:.1f} MiB now"
        )
