"""`bayplan store`: check, back up, restore and compact what a cluster keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli.clusters import store_copy, store_rewrite
from bayplan.cli.clusters.data_directory import default_data_directory
from bayplan.cli.clusters.store_places import failing, is_etcd
from bayplan.cli.flags.etcd_flags import EtcdFlags, one_etcd_options
from bayplan.cli.output import Failure, output_option, print_data

if TYPE_CHECKING:
    from bayplan.store.sqlite.report import StoreReport

_MEGABYTE = 1 << 20


def store_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which store is meant, as `bayplan up` has them."""
    function = click.option(
        "--data-dir",
        type=click.Path(path_type=Path),
        help="Data directory of the cluster.  [default: ~/.local/share/bayplan]",
    )(function)
    function = click.option("--store", metavar="URL", help="The store itself: sqlite:PATH or etcd://HOST:PORT,....")(
        function
    )
    return one_etcd_options(function)


def store_path(store: str | None, data_dir: Path | None) -> Path:
    """The file that the options name. Raises UsageError."""
    if store is None:
        return (data_dir or default_data_directory()) / "store.db"
    if data_dir is not None:
        raise click.UsageError(
            "--store and --data-dir exclude each other: the data directory names the store that is in it"
        )
    scheme, _, path = store.partition(":")
    if scheme != "sqlite" or not path.strip("/"):
        raise click.UsageError(f"--store {store}: expected sqlite:PATH or etcd://HOST:PORT,...")
    return Path(path)


def _etcd_url(store: str | None, data_dir: Path | None, etcd: EtcdFlags) -> str | None:
    """The etcd that the options name; None if they name a file. Raises UsageError."""
    if etcd.url:
        if store is not None or data_dir is not None:
            raise click.UsageError("--etcd-servers, --store and --data-dir exclude each other")
        return etcd.url
    return store if is_etcd(store) else None


@click.group(no_args_is_help=True)
def command() -> None:
    """Check, back up, restore, compact and copy the store of a cluster, and rewrite what is in it.

    `check`, `backup` and `copy` work while the cluster runs, and all do with etcd; `restore` and `compact` of a file work while it does not.
    """


command.add_command(store_copy.command, "copy")
command.add_command(store_rewrite.command, "rewrite")


@command.command()
@store_options
@click.option(
    "--repair",
    is_flag=True,
    help="Put a file with everything that is intact in the place of a damaged one, which is set aside.",
)
@click.option(
    "--accept-unknown",
    is_flag=True,
    help="With --repair: go on if nothing says which objects the lost records changed, so that these may show an older state.",
)
@output_option
def check(
    store: str | None, data_dir: Path | None, etcd: EtcdFlags, repair: bool, accept_unknown: bool, output: str
) -> None:
    """Verify the structure of the file and the checksum of every record; name what is damaged.

    Of etcd: that all members given have the same, that every object can be read, and no alarm is raised.
    """
    from bayplan.store.sqlite.copies import check as check_store
    from bayplan.store.sqlite.repair import repair as repair_store
    from bayplan.support.progress import Progress

    url = _etcd_url(store, data_dir, etcd)
    if url is not None:
        if repair:
            raise click.UsageError(
                "--repair is for files; etcd replaces members that are damaged: etcdctl member remove, add"
            )
        store_copy.check_etcd(url, etcd, output)
        return
    path = store_path(store, data_dir)
    if accept_unknown and not repair:
        raise click.UsageError("--accept-unknown belongs to --repair")
    with failing(), Progress("records") as progress:
        if not repair:
            checked = check_store(path, progress.tell)
        else:
            repaired = repair_store(path, accept_unknown=accept_unknown, step=progress.tell)
    if not repair:
        _tell_check(checked.report, checked.is_in_use, output)
        return
    report = repaired.report
    if output:
        aside = str(repaired.aside) if repaired.aside else ""
        print_data(
            {
                **_as_data(report),
                "damagedFile": aside,
                "newRevision": repaired.revision,
                "keptObjects": repaired.objects,
            },
            output,
        )
    elif repaired.aside is None:
        click.echo(f"{path} is intact, nothing was changed")
    else:
        click.echo("\n".join(report.lines()))
        click.echo(f"{path} has {repaired.objects} objects now; the damaged file is {repaired.aside}")


def _tell_check(report: StoreReport, is_in_use: bool, output: str) -> None:
    if output:
        print_data({**_as_data(report), "inUse": is_in_use}, output)
    elif report.is_intact:
        used = ", in use by a cluster" if is_in_use else ""
        click.echo(
            f"{report.path} is intact: {report.objects} objects, {report.records} records,"
            f" revision {report.revision}, compacted {report.compacted}{used}"
        )
    else:
        click.echo("\n".join(report.lines(limit=len(report.damaged) + len(report.missing))))
    if not report.is_intact:
        raise Failure(f"{report.path} is damaged\n{report.next_steps()}")


def _as_data(report: StoreReport) -> dict[str, Any]:
    return {
        "store": str(report.path),
        "intact": report.is_intact,
        "revision": report.revision,
        "compactedRevision": report.compacted,
        "objects": report.objects,
        "records": report.records,
        "lost": [{"key": one.key, "revision": one.revision} for one in report.lost],
        "damagedHistory": [{"key": one.key, "revision": one.revision} for one in report.damaged if not one.is_newest],
        "missingRevisions": [{"first": first, "last": last} for first, last in report.missing],
        "missingObjects": report.missing_objects,
        "fileErrors": [*report.structure_errors, *([report.log_error] if report.log_error else [])],
    }


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
@store_options
@output_option
def backup(file: Path, store: str | None, data_dir: Path | None, etcd: EtcdFlags, output: str) -> None:
    """Copy the store to FILE as of one moment, and verify the copy; the cluster may run meanwhile."""
    url = _etcd_url(store, data_dir, etcd)
    if url is not None:
        store_copy.copy_store(url, f"sqlite:{file}", etcd, output)
        return
    from bayplan.store.sqlite.copies import backup as back_up

    path = store_path(store, data_dir)
    report = _copy(back_up, path, file)
    _tell_copy(report, {"store": str(path), "file": str(file)}, f"{file}: a backup of {path}", file, output)


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
@store_options
@output_option
def restore(file: Path, store: str | None, data_dir: Path | None, etcd: EtcdFlags, output: str) -> None:
    """Make the store of the backup FILE, once that is verified; there must be none yet, and no cluster may run on it."""
    url = _etcd_url(store, data_dir, etcd)
    if url is not None:
        store_copy.copy_store(f"sqlite:{file}", url, etcd, output)
        return
    from bayplan.store.sqlite.copies import restore as restore_store

    path = store_path(store, data_dir)
    report = _copy(restore_store, file, path)
    _tell_copy(report, {"store": str(path), "file": str(file)}, f"{path}: restored from {file}", path, output)


def _copy(
    copy: Callable[[Path, Path, Callable[[int, int], None]], StoreReport], source: Path, made: Path
) -> StoreReport:
    """Copy a store, with a progress bar. Raises Failure."""
    from bayplan.support.progress import Progress

    with failing(), Progress("pages") as progress:
        return copy(source, made, lambda done, of: progress.tell_part("pages", done, of))


def _tell_copy(report: StoreReport, data: dict[str, Any], text: str, made: Path, output: str) -> None:
    size = made.stat().st_size
    if output:
        print_data({**data, "bytes": size, "revision": report.revision, "objects": report.objects}, output)
    else:
        click.echo(f"{text}, {report.objects} objects, revision {report.revision}, {size / _MEGABYTE:.1f} MiB")


@command.command()
@store_options
@output_option
def compact(store: str | None, data_dir: Path | None, etcd: EtcdFlags, output: str) -> None:
    """Forget all past states and give the free space back; a file only while no cluster runs (one that runs compacts by itself)."""
    url = _etcd_url(store, data_dir, etcd)
    if url is not None:
        store_copy.compact_etcd(url, etcd, output)
        return
    from bayplan.store.sqlite.copies import compact as compact_store
    from bayplan.support.progress import Progress

    path = store_path(store, data_dir)
    with failing(), Progress("revisions") as progress:
        done = compact_store(path, lambda now, of: progress.tell_part("revisions", now, of))
    if output:
        print_data(
            {
                "store": str(path),
                "compactedRevision": done.revision,
                "bytesBefore": done.size_before,
                "bytes": done.size,
            },
            output,
        )
    else:
        click.echo(
            f"{path}: compacted at revision {done.revision},"
            f" {done.size_before / _MEGABYTE:.1f} MiB before, {done.size / _MEGABYTE:.1f} MiB now"
        )
