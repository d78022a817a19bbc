"""`bayplan store rewrite`: objects in the form in which they would be kept today."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.connect import connect, connection_options
from bayplan.cli.output import Failure, output_option, print_data

if TYPE_CHECKING:
    from bayplan.cluster.storage.rewriting import Rewritten


@click.command()
@click.argument("resources", nargs=-1, metavar="[RESOURCE]...")
@click.option("--all", "everything", is_flag=True, help="All resources of the cluster.")
@click.option(
    "--state",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File that says how far it is: after an interruption the same command goes on there. It is removed at the end.",
)
@connection_options
@output_option
def command(
    resources: tuple[str, ...], everything: bool, state: Path | None, kubeconfig: Path | None, context: str, output: str
) -> None:
    """Have the API server write every object of RESOURCEs again, such as secrets or deployments.apps, unchanged.

    After a change of encryption keys they are kept with the first key then, and older keys can be removed; after a change of the storage version, in that one.
    Works with any Kubernetes API server, while it runs.
    """
    from bayplan.api.errors import ApiError
    from bayplan.client.errors import ClientError
    from bayplan.cluster.errors import ClusterError

    if bool(resources) == everything:
        raise click.UsageError("name resources, such as secrets, or give --all")
    try:
        found = asyncio.run(_rewrite(resources, state, kubeconfig, context))
    except (ApiError, ClientError, ClusterError) as error:
        hint = f"; the same command goes on where it was, by {state}" if state is not None else ""
        raise Failure(f"{error}{hint}") from error
    failures = [one for result in found.values() for one in result.failures]
    if output:
        print_data({name: _as_data(result) for name, result in found.items()}, output)
    else:
        for name, result in found.items():
            click.echo(
                f"{name}: {result.seen} objects, {result.written} written, {result.current} were as they should be, "
                f"{result.changed} changed meanwhile"
            )
    if failures:
        raise Failure("\n".join(failures))


def _as_data(result: Rewritten) -> dict[str, object]:
    return {
        "objects": result.seen,
        "written": result.written,
        "current": result.current,
        "changed": result.changed,
        "failures": result.failures,
    }


async def _rewrite(
    names: tuple[str, ...], state: Path | None, kubeconfig: Path | None, context: str
) -> dict[str, Rewritten]:
    """What was done, by resource. Raises ApiError, ClientError, ClusterError."""
    from bayplan.cluster.storage.rewriting import Rewriting
    from bayplan.support.progress import Progress

    client = connect(kubeconfig, context)
    try:
        rewriting, found = Rewriting(client, state), {}
        resources = await rewriting.resources(names)
        with Progress("objects") as progress:
            for resource in resources:

                def step(done: int, of: int, name: str = resource.name) -> None:
                    progress.tell_part(name, done, of)

                found[resource.name] = await rewriting.rewrite(resource, step)
        if not any(result.failures for result in found.values()):
            rewriting.finish()
        return found
    finally:
        await client.close()
