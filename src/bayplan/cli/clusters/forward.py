"""`bayplan forward`: programs on the API server's machine answer for services."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from bayplan.cli.connect import connect, connection_options
from bayplan.cli.output import Failure, output_option, print_data

if TYPE_CHECKING:
    from bayplan.apiserver.routing.forwards import Forward, ForwardedService
    from bayplan.client import Client

_NOT_FOUND = 404


class _Shown(msgspec.Struct):
    """A forward as the server shows it."""

    service: str
    target: str


class _List(msgspec.Struct):
    forwards: tuple[_Shown, ...]


@click.command()
@click.argument("forwards", metavar="[SERVICE=TARGET]...", nargs=-1)
@click.option(
    "--remove", multiple=True, metavar="SERVICE", help="End a forward, such as service/shop/hook; may be repeated."
)
@connection_options
@output_option
def command(
    forwards: tuple[str, ...], remove: tuple[str, ...], kubeconfig: Path | None, context: str, output: str
) -> None:
    """Send the calls for a service of a Bayplan cluster to a program on the API server's machine; without arguments: list what is sent where.

    SERVICE is service/NAMESPACE/NAME or service/NAMESPACE/NAME:PORT, TARGET is HOST:PORT, http://HOST:PORT or https://HOST:PORT:

        bayplan forward service/shop/hook=localhost:9443

    It holds for admission and conversion webhooks, aggregated API services and proxies of services until the API server ends, or --remove. The certificate of a
    program on localhost is not checked; that of one on another machine must be the service's. Only administrators of the cluster may do this.
    """
    from bayplan.apiserver.routing.forwards import ForwardError, parse_forward, parse_service

    try:
        wanted = [parse_forward(text) for text in forwards]
        unwanted = [parse_service(text) for text in remove]
    except ForwardError as error:
        raise click.UsageError(str(error)) from error
    found = asyncio.run(_apply(connect(kubeconfig, context), wanted, unwanted))
    if output:
        print_data([{"service": one.service, "target": one.target} for one in found], output)
        return
    for one in found:
        click.echo(f"{one.service} -> {one.target}")
    if not found:
        click.echo("no calls are forwarded")


async def _apply(client: Client, wanted: list[Forward], unwanted: list[ForwardedService]) -> tuple[_Shown, ...]:
    """Set and remove forwards. Returns those that there are then. Raises Failure."""
    from bayplan.api.errors import ApiError
    from bayplan.apiserver.routing.forwards_page import PATH

    def path(service: ForwardedService) -> str:
        return f"{PATH}/{str(service).removeprefix('service/')}"

    try:
        for forward in wanted:
            await client.raw("PUT", path(forward.service), None, msgspec.json.encode({"target": forward.target}))
            await _check_service(client, forward.service)
        for service in unwanted:
            await client.raw("DELETE", path(service))
        return msgspec.json.decode(await client.raw("GET", PATH), type=_List).forwards
    except ApiError as error:
        if error.code == _NOT_FOUND and "not forwarded" not in error.message:
            raise Failure("the server has no forwards: it is not Bayplan's, or an older one") from error
        raise Failure(error.message) from error
    finally:
        await client.close()


async def _check_service(client: Client, service: ForwardedService) -> None:
    """Tell if a service does not exist, or not yet: the name may be wrong."""
    from bayplan.api.errors import ApiError
    from bayplan.api.types import core_v1

    try:
        await client.get(core_v1.Service, service.name, service.namespace)
    except ApiError as error:
        if error.code != _NOT_FOUND:
            raise
        click.echo(f"{service} does not exist (yet)", err=True)
